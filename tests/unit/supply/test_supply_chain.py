"""The parts of an image: packages with hashes, a wheel that is the same each time, and a bill of materials."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pykruise.kube.version import __version__
from support import sources
from support.sources import ROOT

SUPPLY = ROOT / "supply"
PACKAGES = ROOT / "packages"
DISTRIBUTIONS = tuple(distribution.name for distribution in sources.DISTRIBUTIONS)


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", SUPPLY / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sbom: Any = loaded()


def name_of(requirement: str) -> str:
    """The distribution that a requirement names."""
    return str(sbom.normalized(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]))


def pins(text: str) -> dict[str, str]:
    result = (re.match(r"([A-Za-z0-9._-]+)==(\S+)", line) for line in text.splitlines())
    return {sbom.normalized(pin[1]): pin[2] for pin in result if pin is not None}


@pytest.mark.parametrize("name", ["manager", "dashboard", "runtime", "dev", "build"])
def test_every_locked_package_has_hashes_and_the_version_of_the_constraints(name: str) -> None:
    """Run `make lock` to update the files."""
    text = (SUPPLY / f"{name}.txt").read_text()
    constraints = pins((ROOT / "constraints.txt").read_text())
    assert all(sbom.locked(text).values())
    for package, version in pins(text).items():
        assert constraints.get(package) == version, f"{package}: make lock"
    assert "index-url" not in text


@pytest.mark.parametrize(
    ("lock", "folders"),
    [
        ("manager", (PACKAGES / "kube", PACKAGES / "pykruise")),
        ("runtime", sources.DISTRIBUTIONS),
        ("dev", (*sources.DISTRIBUTIONS, ROOT)),
    ],
)
def test_everything_that_distributions_depend_on_is_locked(lock: str, folders: Iterable[Path]) -> None:
    """Run `make lock` to update the files."""
    needed = set[str]()
    for folder in folders:
        project = tomllib.loads(
            (PACKAGES / folder / "pyproject.toml" if folder != "." else ROOT / "pyproject.toml").read_text()
        )
        needed |= {name_of(dependency) for dependency in project.get("project", {}).get("dependencies", [])}
        needed |= {name_of(item) for item in project.get("dependency-groups", {}).get("dev", [])}
    missing = {text for text in needed if not text.startswith("pykruise")} - set(
        pins((SUPPLY / f"{lock}.txt").read_text())
    )
    assert not missing, f"supply/{lock}.txt lacks {missing}: make lock"


def test_the_managers_image_holds_nothing_that_only_the_sandbox_needs() -> None:
    assert "common-expression-language" not in pins((SUPPLY / "manager.txt").read_text())


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_distributions_require_each_other_in_the_version_of_this_checkout(folder: str) -> None:
    project = tomllib.loads((PACKAGES / folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    own = {
        dependency
        for dependency in [*project["dependencies"], *(item for extra in extras for item in extra)]
        if dependency.startswith("pykruise")
    }
    assert {item.partition("==")[2] for item in own} <= {__version__}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sources in two folders, with different times and permissions."""
    places = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    for place, stamp, mask in zip(places, (1_000_000_000, 1_700_000_000), (0o022, 0o077), strict=True):
        for name in ("packages", "examples"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        for path in place.rglob("*"):
            os.utime(path, (stamp, stamp))
            path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
    return places


@pytest.mark.real_time
@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_a_wheel_that_is_built_twice_is_the_same(
    tmp_path: Path, copies: tuple[Path, Path], folder: str
) -> None:
    built = []
    for number, source in enumerate(copies):
        # when
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "hatchling",
                "build",
                "--target",
                "wheel",
                "--directory",
                str(tmp_path / str(number)),
            ],
            cwd=source / "packages" / folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (wheel,) = (tmp_path / str(number)).glob("*.whl")
        built.append((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    # then
    assert built[0] == built[1]


def test_a_bill_names_each_package_with_the_hashes_it_was_locked_to_and_is_the_same_each_time() -> None:
    # given
    hashes = sbom.locked((SUPPLY / "dev.txt").read_text())
    # when
    bill = sbom.bill(distributions(), hashes)
    # then
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "pykruise"
    parts = {part["name"]: part for part in bill["components"]}
    assert set(pins((SUPPLY / "runtime.txt").read_text())) - set(parts) <= {"colorama"}  # only on Windows
    orjson = parts["orjson"]
    assert orjson["purl"] == f"pkg:pypi/orjson@{orjson['version']}"
    accepted = {property_["value"] for property_ in orjson["properties"]}
    assert accepted == set(hashes[f"orjson=={orjson['version']}"]) != set()
    assert bill == sbom.bill(distributions(), hashes)
    references = {part["bom-ref"] for part in bill["components"]}
    assert set(bill["dependencies"][0]["dependsOn"]) == references


@pytest.mark.parametrize("name", ["Containerfile", "Containerfile.agent", "Containerfile.dashboard"])
def test_an_image_is_built_on_a_digest_and_of_locked_packages_alone(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    assert "*@sha256:*) ;;" in text
    for command in re.findall(r"pip install .*", text):
        assert "--require-hashes" in command or "--no-index --no-deps" in command, command


@pytest.mark.real_time
def test_distributions_are_installed_from_their_folders_into_one_namespace(tmp_path: Path) -> None:
    # when
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
            *("--no-index", "--no-deps", "--no-build-isolation"),
            *("--target", str(tmp_path), *map(str, sources.DISTRIBUTIONS)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # then each part exists with its files
    assert not (tmp_path / "pykruise" / "__init__.py").exists()
    assert (tmp_path / "pykruise" / "kube" / "data" / "merge_keys.json").exists()
    assert (tmp_path / "pykruise" / "dashboard" / "static" / "app.js").exists()
    parts = {
        path.name for folder in sources.SOURCES for path in folder.iterdir() if path.name != "__pycache__"
    }
    assert {path.name for path in (tmp_path / "pykruise").iterdir()} == parts | {"examples"}
    # and the command works outside the checkout
    said = subprocess.run(
        [sys.executable, "-P", "-m", "pykruise.cli", "version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout.strip() == __version__, said.stderr
