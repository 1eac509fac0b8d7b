"""The tutorial of docs/operators.md, followed literally in a new environment, on a real control plane."""

import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pages import Page, Player, read_page
from support.sources import ROOT
from testbed.control_plane import ControlPlane

pytestmark = [
    pytest.mark.real,
    pytest.mark.real_time,
    pytest.mark.timeout(900),
    pytest.mark.not_in_brief(
        "test_docs_pages.py plays the page in a sandbox, and tests/release installs wheels"
    ),
]


class FreshPlayer(Player):
    """Plays a page with the programs of a new environment, against a control plane."""

    def __init__(self, page: Path, folder: Path, programs: Path, plane: ControlPlane) -> None:
        super().__init__(page, folder)
        kubectl = plane.find_binary("kubectl").parent
        self._environ = {name: value for name, value in self._environ.items() if name != "PYTHONPATH"}
        self._environ |= {
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": os.pathsep.join(map(str, (programs, kubectl, "/usr/local/bin", "/usr/bin", "/bin"))),
        }

    def begin(self, options: str = "") -> None:
        """Start nothing: the cluster exists already."""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Folder of programs of an environment with only the packages that the page installs, from this checkout."""
    venv.create(tmp_path / "venv", with_pip=True)
    folder = tmp_path / "venv/bin"
    environ = {**os.environ, "PATH": os.pathsep.join((str(folder), os.environ["PATH"]))}
    command = install_command(tutorial())
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def tutorial() -> Page:
    return read_page(ROOT / "docs/operators.md")


def install_command(page: Page) -> str:
    return next(block.first_line for block in page.blocks if block.first_line.startswith("pip install"))


@pytest.fixture
def cleaned(plane: ControlPlane) -> Iterator[None]:
    """Delete all objects of the page at the end, because other tests share the control plane."""
    yield
    kubectl = [str(plane.find_binary("kubectl")), "--kubeconfig", str(plane.kubeconfig)]
    patch = ["patch", "site", "hello", "--type=merge", "-p", '{"metadata": {"finalizers": null}}']
    subprocess.run([*kubectl, *patch], capture_output=True, check=False)
    rest = ["delete", "--ignore-not-found", "crd/sites.example.com", "configmap/hello-page"]
    subprocess.run([*kubectl, *rest], capture_output=True, check=True)


@pytest.mark.usefixtures("cleaned")
def test_the_tutorial_gives_a_working_operator(plane: ControlPlane, programs: Path, tmp_path: Path) -> None:
    page = tutorial()
    (tmp_path / "page").mkdir()
    player = FreshPlayer(page.path, tmp_path / "page", programs, plane)
    blocks = [block for block in page.blocks if block.is_played]
    try:
        problems = [
            f"{page.path.name}:{block.line}: {text}" for block in blocks for text in player.play(block)
        ]
    finally:
        player.close()
    assert not problems, "\n\n".join(problems)
    assert (tmp_path / "page/page_operator.py").exists()
