"""What an image is made of: packages by their hashes, a wheel that is the same each time, a bill of it all."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SUPPLY = ROOT / "supply"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", SUPPLY / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sbom: Any = loaded()


def pins(text: str) -> dict[str, str]:
    found = (re.match(r"([A-Za-z0-9._-]+)==(\S+)", line) for line in text.splitlines())
    return {sbom.normalized(pin[1]): pin[2] for pin in found if pin is not None}


@pytest.mark.parametrize("name", ["runtime", "dev", "build"])
def test_every_locked_package_has_hashes_and_the_version_of_the_constraints(name: str) -> None:
    """make lock"""
    text = (SUPPLY / f"{name}.txt").read_text()
    constraints = pins((ROOT / "constraints.txt").read_text())
    assert all(sbom.locked(text).values())
    for package, version in pins(text).items():
        assert constraints.get(package) == version, f"{package}: make lock"
    assert "index-url" not in text


def test_everything_that_pykruise_depends_on_is_locked() -> None:
    """make lock"""
    (own,) = [one for one in distributions() if one.metadata["Name"] == "pykruise"]
    needed = {"runtime": set[str](), "dev": set[str]()}
    for requirement in own.requires or ():
        package = sbom.normalized(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        needed["dev"].add(package)
        if "extra ==" not in requirement:
            needed["runtime"].add(package)
    for name, packages in needed.items():
        missing = packages - set(pins((SUPPLY / f"{name}.txt").read_text()))
        assert not missing, f"supply/{name}.txt lacks {missing}: make lock"


@pytest.mark.real_time
def test_a_wheel_that_is_built_twice_is_the_same(tmp_path: Path) -> None:
    # given the sources in two places, with other times and rights, and a bytecode file in one of them
    built = []
    for number, (stamp, mask) in enumerate(((1_000_000_000, 0o022), (1_700_000_000, 0o077))):
        source = tmp_path / f"source-{number}"
        source.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for path in source.rglob("*"):
            os.utime(path, (stamp, stamp))
            path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
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
            cwd=source,
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
    assert set(pins((SUPPLY / "runtime.txt").read_text())) - set(parts) <= {"colorama"}  # of Windows
    orjson = parts["orjson"]
    assert orjson["purl"] == f"pkg:pypi/orjson@{orjson['version']}"
    accepted = {one["value"] for one in orjson["properties"]}
    assert accepted == set(hashes[f"orjson=={orjson['version']}"]) != set()
    assert bill == sbom.bill(distributions(), hashes)
    references = {part["bom-ref"] for part in bill["components"]}
    assert set(bill["dependencies"][0]["dependsOn"]) == references


def test_the_image_is_built_on_a_digest_and_of_locked_packages_alone() -> None:
    text = (ROOT / "Containerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    assert "*@sha256:*) ;;" in text
    for command in re.findall(r"pip install .*", text):
        assert "--require-hashes" in command or "--no-index --no-deps" in command, command
