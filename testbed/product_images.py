"""The images of the manager, the agent and the dashboard without an engine: the distribution's Python and our wheels.

    apt-get download ──dpkg-deb -x──▶ layer   (Python and what it needs)
    supply/*.txt ──pip──────────────▶ layer   (every package by its hash)
    packages/ ──pip wheel──pip──────▶ layer   (pykruise)   ──▶ image() ──▶ a registry, or an OCI archive

What is in them is what the files Containerfile* have. ``python -m testbed.product_images FOLDER`` writes
archives that ``ctr images import`` and ``skopeo`` read. It needs Debian or Ubuntu, but no engine; packages come from
where apt and pip get theirs.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from testbed.build import BuildError, MissingError
from testbed.images import Image, Layer, archive, image, packed_layer

PACKAGES = ("python3", "libpython3-stdlib", "dash")
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/zoneinfo/right",
)
LIBRARIES = "opt/pykruise"
PYTHON = "/usr/bin/python3"
MANAGER_PROGRAM = f'#!/bin/sh\nexec {PYTHON} -m pykruise manager "$@"\n'
AGENT_PROGRAM = f"#!{PYTHON}\nimport sys\nfrom pykruise.agent.main import main\nsys.exit(main())\n"

_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Recipe:
    """What an image of ours is made of."""

    name: str
    requirements: str
    """A file of supply/."""
    parts: tuple[str, ...]
    """Folders of packages/."""
    command: tuple[str, ...]
    program: tuple[str, str]
    """The file in the root folder that OpenKruise's manifests call, and its text."""
    arguments: tuple[str, ...] = ()
    user: str = ""


MANAGER = Recipe(
    name="pykruise/kruise-manager",
    requirements="manager.txt",
    parts=("kube", "pykruise"),
    command=(PYTHON, "-m", "pykruise"),
    arguments=("manager",),
    program=("manager", MANAGER_PROGRAM),
    user="65534:65534",
)
DASHBOARD = Recipe(
    name="pykruise/kruise-dashboard",
    requirements="dashboard.txt",
    parts=("kube", "sandbox", "pykruise", "dashboard"),
    command=(PYTHON, "-m", "pykruise"),
    arguments=("dashboard", "--shared"),
    program=("dashboard", f'#!/bin/sh\nexec {PYTHON} -m pykruise dashboard --shared "$@"\n'),
    user="65534:65534",
)
AGENT = Recipe(
    name="pykruise/kruise-daemon",
    requirements="agent.txt",
    parts=("kube", "agent"),
    command=("/kruise-daemon",),
    program=("kruise-daemon", AGENT_PROGRAM),
)


def product_images(*recipes: Recipe) -> dict[Recipe, Image]:
    """Build images; a minute, most of it downloads. Raises BuildError."""
    for program in ("apt-get", "dpkg-deb"):
        if not shutil.which(program):
            raise MissingError(f"images are made of Debian's packages, and there is no {program} here")
    with tempfile.TemporaryDirectory(prefix="pykruise-image-") as name:
        folder = Path(name)
        base = folder / "base"
        version = _unpack_distribution(folder, base)
        layer = _layer(base)
        return {recipe: _image(recipe, folder / recipe.requirements, layer, version) for recipe in recipes}


def _image(recipe: Recipe, folder: Path, base: Layer, version: str) -> Image:
    libraries, own, wheels = (folder / each for each in ("libraries", "own", "wheels"))
    _install(libraries, version, "--require-hashes", "-r", str(_ROOT / "supply" / recipe.requirements))
    sources = [str(_ROOT / "packages" / part) for part in recipe.parts]
    _pip("wheel", "--no-deps", "--wheel-dir", str(wheels), *sources)
    _install(own, version, "--no-deps", "--no-index", *map(str, sorted(wheels.iterdir())))
    program, text = recipe.program
    (own / program).write_text(text)
    (own / program).chmod(0o755)
    return image(
        [base, _layer(libraries), _layer(own)],
        command=recipe.command,
        arguments=recipe.arguments,
        environment={
            "PYTHONPATH": f"/{LIBRARIES}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        user=recipe.user,
    )


def _unpack_distribution(folder: Path, base: Path) -> str:
    """Python's packages with all that they depend on, unpacked; returns Python's version, such as "3.11"."""
    archives, lists = folder / "archives", folder / "status"
    (archives / "partial").mkdir(parents=True)
    lists.touch()
    _run(
        "apt-get",
        "install",
        "--quiet=2",
        "--yes",
        "--download-only",
        "--no-install-recommends",
        f"--option=Dir::State::status={lists}",  # nothing is there already
        f"--option=Dir::Cache::archives={archives}",
        "--option=Debug::NoLocking=1",
        "--option=APT::Sandbox::User=root",
        *PACKAGES,
    )
    base.mkdir()
    for package in sorted(archives.glob("*.deb")):
        _run("dpkg-deb", "--extract", str(package), str(base))
    for unwanted in LEFT_OUT:
        shutil.rmtree(base / unwanted, ignore_errors=True)
    for path in ("log", "tmp", "proc", "sys", "dev"):
        (base / path).mkdir(exist_ok=True)
    if not (base / "bin/sh").exists():
        (base / "bin/sh").symlink_to("dash")
    (base / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    return (base / "usr/bin/python3").readlink().name.removeprefix("python")


def _install(target: Path, version: str, *what: str) -> None:
    options = ("--only-binary=:all:", f"--python-version={version}", "--target", str(target / LIBRARIES))
    _pip("install", "--no-compile", *options, *what)


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


def _layer(folder: Path) -> Layer:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(folder, arcname=".", filter=_owned_by_root)
    return packed_layer(buffer.getvalue())


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same entry wherever and whenever it is made; /log is for the manager to write to."""
    entry.uid = entry.gid = 65534 if entry.name == "./log" else 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    if entry.name == "./tmp":
        entry.mode = 0o1777
    return entry


def main() -> int:
    """Build them, and write them to a folder."""
    parser = argparse.ArgumentParser(description="Make the manager's and the agent's images as OCI archives.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default="dev")
    options = parser.parse_args()
    try:
        made = product_images(MANAGER, AGENT, DASHBOARD)
        options.folder.mkdir(parents=True, exist_ok=True)
        for recipe, result in made.items():
            name = f"docker.io/{recipe.name}:{options.tag}"
            file = options.folder / f"{recipe.name.rpartition('/')[2]}.tar"
            file.write_bytes(archive(result, name))
            print(f"{file}: {name}@{result.digest}, {file.stat().st_size / 1e6:.0f} MB")
    except (BuildError, OSError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
