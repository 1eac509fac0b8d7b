"""The images of the manager, the agent and the dashboard, built without an engine from the distribution's Python and
our wheels.

    apt-get download ──dpkg-deb -x──▶ layer   (Python and what it needs)
    supply/*.txt ──pip──────────────▶ layer   (every package by its hash)
    packages/ ──pip wheel──pip──────▶ layer   (pykruise)   ──▶ image() ──▶ a registry, or an OCI archive

The images have the same content as those of the files Containerfile*. ``python -m testbed.product_images FOLDER``
writes archives that ``ctr images import`` and ``skopeo`` read. It needs Debian or Ubuntu, but no engine. It runs no
program of an image, so it also builds images for other architectures. apt and pip download the packages from their
usual sources.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.build import BuildError, MissingError
from testbed.images import HOST_ARCHITECTURE, Image, Layer, build_archive, build_image, build_packed_layer

PACKAGES = ("python3", "libpython3-stdlib", "dash")
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/zoneinfo/right",
)
LIBRARIES = "opt/pykruise"
PLATFORMS = {
    "amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
}
"""Tags of wheels by architecture, best first."""
BILL = "sbom.cdx.json"
"""The bill of materials, in the root folder of an image."""
PYTHON = "/usr/bin/python3"
MANAGER_PROGRAM = f'#!/bin/sh\nexec {PYTHON} -m pykruise.cli manager "$@"\n'
AGENT_PROGRAM = f"#!{PYTHON}\nimport sys\nfrom pykruise.agent.main import main\nsys.exit(main())\n"

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Recipe:
    """Parts of one of our images."""

    name: str
    requirements: str
    """Name of a file in supply/."""
    part: str
    """Name of a folder in packages/; its pyproject.toml names the other folders that it needs."""
    command: tuple[str, ...]
    program: tuple[str, str]
    """A file in the root folder that OpenKruise's manifests call, and its text."""
    arguments: tuple[str, ...] = ()
    user: str = ""


@dataclass(frozen=True)
class Package:
    """A package in an image."""

    kind: str
    """Type in its package URL: deb or pypi."""
    name: str
    version: str
    sha256: str
    architecture: str = ""
    """Architecture of a deb."""


@dataclass(frozen=True)
class Built:
    """An image and its packages."""

    image: Image
    packages: tuple[Package, ...]


MANAGER = Recipe(
    name="pykruise/kruise-manager",
    requirements="manager.txt",
    part="pykruise",
    command=(PYTHON, "-m", "pykruise.cli"),
    arguments=("manager",),
    program=("manager", MANAGER_PROGRAM),
    user="65534:65534",
)
DASHBOARD = Recipe(
    name="pykruise/kruise-dashboard",
    requirements="dashboard.txt",
    part="dashboard",
    command=(PYTHON, "-m", "pykruise.cli"),
    arguments=("dashboard", "--shared"),
    program=("dashboard", f'#!/bin/sh\nexec {PYTHON} -m pykruise.cli dashboard --shared "$@"\n'),
    user="65534:65534",
)
AGENT = Recipe(
    name="pykruise/kruise-daemon",
    requirements="agent.txt",
    part="agent",
    command=("/kruise-daemon",),
    program=("kruise-daemon", AGENT_PROGRAM),
)


def build_product_images(*recipes: Recipe) -> dict[Recipe, Image]:
    """Build images for this machine. It takes a minute, mostly for downloads. Raises BuildError."""
    return {recipe: built.image for recipe, built in build_images(*recipes).items()}


def build_images(
    *recipes: Recipe,
    architecture: str = HOST_ARCHITECTURE,
    wheels: Mapping[str, Path] | None = None,
    root: Path = _ROOT,
    labels: Mapping[str, str] | None = None,
) -> dict[Recipe, Built]:
    """Build images for an architecture, with the list of their packages. Raises BuildError.

    `wheels`: wheels of our distributions, by the names of their folders; by default they are built from the sources
    in
    `root`. `labels`: labels of each image, as in a Dockerfile. The same packages and sources give the same bytes.
    """
    for program in ("apt-get", "dpkg-deb"):
        if not shutil.which(program):
            raise MissingError(f"images are made of Debian's packages, and there is no {program} here")
    if architecture not in PLATFORMS:
        raise BuildError(f"there is no image for {architecture}; known are {', '.join(PLATFORMS)}")
    with tempfile.TemporaryDirectory(prefix="pykruise-image-") as name:
        folder = Path(name)
        base = _Base(folder, architecture)
        own = wheels or _built_wheels(root, folder / "wheels", recipes)
        return {
            recipe: _build_image(recipe, folder / recipe.requirements, base, own, root, labels or {})
            for recipe in recipes
        }


def parts_of(part: str, root: Path = _ROOT) -> tuple[str, ...]:
    """Return the folders of packages/ that a folder needs, and the folder itself as the last."""
    project = tomllib.loads((root / "packages" / part / "pyproject.toml").read_text("utf-8"))["project"]
    needed: dict[str, None] = {}
    for line in project["dependencies"]:
        if own := re.match(r"pykruise(?:-(\w+))?(?:\[\w+\])?==", line):
            needed |= dict.fromkeys(parts_of(own[1] or "pykruise", root))
    return (*needed, part)


def _built_wheels(root: Path, folder: Path, recipes: Iterable[Recipe]) -> dict[str, Path]:
    wheels: dict[str, Path] = {}
    for part in dict.fromkeys(part for recipe in recipes for part in parts_of(recipe.part, root)):
        _pip("wheel", "--no-deps", "--wheel-dir", str(folder / part), str(root / "packages" / part))
        wheels[part] = next((folder / part).glob("*.whl"))
    return wheels


class _Base:
    """Python and its dependencies, as a layer for all images of an architecture."""

    def __init__(self, folder: Path, architecture: str) -> None:
        self.architecture = architecture
        root = folder / "base"
        self.version, self.packages = _unpack_distribution(folder / "apt", root, architecture)
        self.layer = _build_layer(root)


def _build_image(
    recipe: Recipe,
    folder: Path,
    base: _Base,
    wheels: Mapping[str, Path],
    root: Path,
    labels: Mapping[str, str],
) -> Built:
    libraries, own = folder / "libraries", folder / "own"
    locked = _install(libraries, base, "--require-hashes", "-r", str(root / "supply" / recipe.requirements))
    ours = [wheels[part] for part in parts_of(recipe.part, root)]
    requirements = [f"{name}=={version}" for name, version in map(_name_of_wheel, ours)]
    links = [f"--find-links={wheel.parent}" for wheel in ours]
    _install(own, base, "--no-deps", "--no-index", *links, *requirements)
    packages = (*base.packages, *locked, *map(_package_of_wheel, ours))
    program, text = recipe.program
    _write(own / program, text, mode=0o755)
    _write(own / BILL, json.dumps(bill_of(recipe, packages), indent=2) + "\n")
    made = build_image(
        [base.layer, _build_layer(libraries), _build_layer(own)],
        command=recipe.command,
        arguments=recipe.arguments,
        environment={
            "PYTHONPATH": f"/{LIBRARIES}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        user=recipe.user,
        architecture=base.architecture,
        labels=labels,
    )
    return Built(made, packages)


def bill_of(recipe: Recipe, packages: Sequence[Package]) -> dict[str, object]:
    """Return the bill of materials of an image as CycloneDX 1.6: every package with its version and hash."""
    components = [
        _component_of(package)
        for package in sorted(packages, key=lambda package: (package.kind, package.name))
    ]
    own = next(package for package in packages if package.name == "pykruise-kube")
    product = {"type": "container", "bom-ref": recipe.name, "name": recipe.name, "version": own.version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": product},
        "components": components,
        "dependencies": [
            {"ref": recipe.name, "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }


def _component_of(package: Package) -> dict[str, object]:
    if package.kind == "deb":
        purl = f"pkg:deb/debian/{package.name}@{package.version}?arch={package.architecture}"
    else:
        purl = f"pkg:pypi/{package.name}@{package.version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def _unpack_distribution(apt: Path, base: Path, architecture: str) -> tuple[str, tuple[Package, ...]]:
    """Unpack Python's packages with all their dependencies. Returns Python's version, such as "3.11", and the
    packages.
    """
    archives, lists, status = apt / "archives", apt / "lists", apt / "status"
    for folder in (archives, lists):
        (folder / "partial").mkdir(parents=True)
    status.touch()
    options = (
        "--quiet=2",
        f"--option=Dir::State::status={status}",  # no package counts as installed
        f"--option=Dir::State::lists={lists}",
        f"--option=Dir::Cache={apt}",
        f"--option=APT::Architecture={architecture}",
        f'--option=APT::Architectures={{"{architecture}";}}',
        "--option=Debug::NoLocking=1",
        "--option=APT::Sandbox::User=root",
    )
    _run("apt-get", *options, "update")
    download = ("install", "--yes", "--download-only", "--no-install-recommends")
    _run("apt-get", *options, *download, *PACKAGES)
    base.mkdir()
    packages = []
    for package in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "--extract", str(package), str(base))
        name, version, of = package.stem.split("_")
        packages.append(Package("deb", name, version.replace("%3a", ":"), _sha256(package), of))
    for unwanted in LEFT_OUT:
        shutil.rmtree(base / unwanted, ignore_errors=True)
    for path in ("log", "tmp", "proc", "sys", "dev"):
        (base / path).mkdir(exist_ok=True)
    if not (base / "bin/sh").exists():
        (base / "bin/sh").symlink_to("dash")
    (base / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    version = (base / "usr/bin/python3").readlink().name.removeprefix("python")
    return version, tuple(packages)


def _install(target: Path, base: _Base, *what: str) -> tuple[Package, ...]:
    """Install wheels of the image's architecture, and return their packages."""
    report = target.with_suffix(".report")
    platforms = [f"--platform={tag}" for tag in PLATFORMS[base.architecture]]
    options = ("--only-binary=:all:", f"--python-version={base.version}", *platforms)
    place = target / LIBRARIES
    target.parent.mkdir(exist_ok=True)
    _pip("install", "--no-compile", *options, f"--report={report}", "--target", str(place), *what)
    _remove_scripts(place)
    installed = json.loads(report.read_text("utf-8"))["install"]
    return tuple(
        Package(
            "pypi",
            _normalize(item["metadata"]["name"]),
            item["metadata"]["version"],
            item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", ""),
        )
        for item in installed
    )


def _remove_scripts(libraries: Path) -> None:
    """Remove the scripts and their lines in the records. A script begins with the path of the installing Python, and
    images start modules instead.
    """
    shutil.rmtree(libraries / "bin", ignore_errors=True)
    for record in libraries.glob("*.dist-info/RECORD"):
        rows = [row for row in csv.reader(record.read_text("utf-8").splitlines()) if row]
        kept = [row for row in rows if not row[0].startswith(("../", "bin/"))]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(sorted(kept))
        record.write_text(text.getvalue(), "utf-8")


def _name_of_wheel(wheel: Path) -> tuple[str, str]:
    name, version, *_ = wheel.stem.split("-")
    return _normalize(name), version


def _package_of_wheel(wheel: Path) -> Package:
    name, version = _name_of_wheel(wheel)
    return Package("pypi", name, version, _sha256(wheel))


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _write(file: Path, text: str, *, mode: int = 0o644) -> None:
    file.write_text(text, "utf-8")
    file.chmod(mode)


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise BuildError(f"{' '.join(command[:3])} failed: {said}")


def _build_layer(folder: Path) -> Layer:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(folder, arcname=".", filter=_normalize_entry)
    return build_packed_layer(buffer.getvalue())


def _normalize_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Normalize an entry so that every build gives the same bytes. The manager may write to /log."""
    entry.uid = entry.gid = 65534 if entry.name == "./log" else 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    if entry.name == "./tmp":
        entry.mode = 0o1777
    elif entry.isdir() or entry.mode & 0o100:
        entry.mode = 0o755  # independent of the umask; no setuid programs
    elif entry.isreg():
        entry.mode = 0o644
    return entry


def _read_version() -> str:
    text = (_ROOT / "packages/kube/src/pykruise/kube/version.py").read_text("utf-8")
    result: list[str] = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return result[0]


def main() -> int:
    """Build the images, and write them to a folder."""
    parser = argparse.ArgumentParser(description="Make the manager's and the agent's images as OCI archives.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default=f"v{_read_version()}")
    options = parser.parse_args()
    try:
        made = build_product_images(MANAGER, AGENT, DASHBOARD)
        options.folder.mkdir(parents=True, exist_ok=True)
        for recipe, result in made.items():
            name = f"docker.io/{recipe.name}:{options.tag}"
            file = options.folder / f"{recipe.name.rpartition('/')[2]}.tar"
            file.write_bytes(build_archive(result, name))
            print(f"{file}: {name}@{result.digest}, {file.stat().st_size / 1e6:.0f} MB")
    except (BuildError, OSError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
