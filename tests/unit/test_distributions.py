"""The five distributions as users get them: typed, and with a plugin that pytest can load in every project."""

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.config import _iter_rewritable_modules
from hatchling.builders.wheel import WheelBuilder

from support.sources import ROOT

DISTRIBUTIONS = sorted(path.parent for path in (ROOT / "packages").glob("*/pyproject.toml"))
"""Folders of the distributions."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A wheel of each distribution, by the name of its folder."""
    folder = tmp_path_factory.mktemp("wheels")
    return {
        distribution.name: Path(
            next(WheelBuilder(str(distribution)).build(directory=str(folder), versions=["standard"]))
        )
        for distribution in DISTRIBUTIONS
    }


def files_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def packages_in(files: list[str]) -> Iterator[str]:
    """Folders right below the namespace."""
    yield from dict.fromkeys(
        f"pykruise/{name.split('/')[1]}"
        for name in files
        if name.startswith("pykruise/") and name.endswith("/__init__.py")
    )


def needed_by(name: str, extras: frozenset[str]) -> set[str]:
    """The folder of a distribution, and of those that it needs with these extras."""
    project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project.get("optional-dependencies", {}).get(extra, ())
    result = {name}
    for item in wanted:
        if own := re.match(r"pykruise(?:-(\w+))?(?:\[(\w+)\])?==", item):
            result |= needed_by(own[1] or "pykruise", frozenset(filter(None, [own[2]])))
    return result


INSTALLED = [
    (page, line)
    for page in sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("packages/*/*.md")))
    for line in re.findall(r"pip install ((?:'?\./packages/\w+(?:\[\w+\])?'? ?)+)", page.read_text("utf-8"))
]


@pytest.mark.parametrize(("page", "line"), INSTALLED, ids=lambda value: str(value)[-60:])
def test_install_lines_of_a_checkout_name_every_distribution_that_it_must_provide(
    page: Path, line: str
) -> None:
    named = {match[1]: match[2] for match in re.finditer(r"packages/(\w+)(?:\[(\w+)\])?", line)}
    needed = set().union(*(needed_by(name, frozenset({extra or ""})) for name, extra in named.items()))
    assert needed - set(named) == set()


@pytest.mark.parametrize("name", [distribution.name for distribution in DISTRIBUTIONS])
def test_every_package_of_a_wheel_is_marked_as_typed(wheels: Mapping[str, Path], name: str) -> None:
    files = files_of(wheels[name])
    packages = list(packages_in(files))
    assert packages
    assert [package for package in packages if f"{package}/py.typed" not in files] == []


@pytest.mark.parametrize("name", [distribution.name for distribution in DISTRIBUTIONS])
def test_no_module_lies_directly_in_the_namespace_package(wheels: Mapping[str, Path], name: str) -> None:
    """Every distribution would install such a module."""
    assert [
        file
        for file in files_of(wheels[name])
        if file.startswith("pykruise/") and file.count("/") == 1 and file.endswith(".py")
    ] == []


@pytest.mark.parametrize("name", [distribution.name for distribution in DISTRIBUTIONS])
def test_pytest_mistakes_no_module_of_others_for_one_of_a_distribution_with_a_plugin(
    wheels: Mapping[str, Path], name: str
) -> None:
    """Pytest warns of each such module that is already imported, and many projects treat warnings as errors."""
    files = files_of(wheels[name])
    has_plugin = any(
        "[pytest11]" in zipfile.ZipFile(wheels[name]).read(file).decode()
        for file in files
        if file.endswith("/entry_points.txt")
    )
    if has_plugin:
        modules = set(_iter_rewritable_modules(files))
        assert modules
        assert {module for module in modules if not module.startswith("pytest_pykruise")} == set()


@pytest.mark.real_time
def test_a_project_with_warnings_as_errors_and_types_can_use_what_is_installed(
    wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    # given the wheels, unpacked as pip does it, instead of the sources of this checkout
    site = tmp_path / "site"
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (tmp_path / "test_mine.py").write_text(
        "def test_it(kruise):\n    assert kruise.list('pods') == []\n    assert kruise.list('clonesets') == []\n"
    )
    # and modules of the project with the names of our folders
    for name in ("cli", "kinds", "models", "hooks", "manager", "testing", "fixtures", "kube"):
        (tmp_path / f"{name}.py").write_text("")
    program = (
        "import sys; sys.path[:0] = ['.', 'site']\n"
        f"sys.path[:] = [one for one in sys.path if {str(ROOT / 'packages')!r} not in one]\n"
        "import cli, kinds, models, hooks, manager, testing, fixtures, kube, pytest\n"
        "sys.exit(pytest.main(['test_mine.py', '-q', '-p', 'no:cacheprovider', '-p', 'no:asyncio']))"
    )
    # when
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    # then
    assert "1 passed" in done.stdout, done.stdout + done.stderr
