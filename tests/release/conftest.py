"""A prepared release for all tests of a module: the committed sources with a version and addresses."""

from pathlib import Path

import pytest

from support.sources import ROOT
from tools.release.staging import Sources, stage


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return stage(
        ROOT,
        tmp_path_factory.mktemp("staged") / "sources",
        version="1.2.3rc1",
        registry="registry.example.com/team",
        repository="https://git.example.com/team/pykruise",
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the parts of the release."""
    return tmp_path_factory.mktemp("release")
