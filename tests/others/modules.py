"""Versions of Go modules that the folders of the testbed require."""

import re
from pathlib import Path
from typing import Final

__all__ = ["version_in_module"]

TESTBED: Final = Path(__file__).parents[2] / "testbed"


def version_in_module(module: str, folder: str) -> str:
    """The version that a folder requires, without the v. `folder`: relative to the testbed, or absolute."""
    text = (TESTBED / folder / "go.mod").read_text()
    required = re.search(rf"{re.escape(module)} v(\S+)", text)
    assert required, f"{folder} does not require {module}"
    return required[1]
