"""The manager's image without an engine: the distribution's Python and our wheels, as Containerfile has them.

    apt-get download ──dpkg-deb -x──▶ layer   (Python and what it needs)
    supply/manager.txt ──pip────────▶ layer   (every package by its hash)
    packages/ ──pip wheel──pip──────▶ layer   (pykruise)   ──▶ image() ──▶ a registry, or an OCI archive

``python -m testbed.manager_image FILE`` writes an archive that ``ctr images import`` and ``skopeo`` read. It needs
Debian or Ubuntu, but neither root nor an engine; packages come from where apt and pip get theirs.
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
from pathlib import Path

from testbed.build import BuildError, MissingError
from testbed.images import Image, Layer, archive, image, packed_layer

NAME = "pykruise/kruise-manager"
PACKAGES = ("python3", "libpython3-stdlib", "dash")
LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/zoneinfo/right",
)
USER = "65534:65534"
LIBRARIES = "opt/pykruise"
MANAGER = '#!/bin/sh\nexec /usr/bin/python3 -m pykruise manager "$@"\n'

_ROOT = Path(__file__).resolve().parent.parent


def manager_image() -> Image:
    """Build the image; a minute, most of it downloads. Raises BuildError."""
    for program in ("apt-get", "dpkg-deb"):
        if not shutil.which(program):
            raise MissingError(f"the image is made of Debian's packages, and there is no {program} here")
    with tempfile.TemporaryDirectory(prefix="pykruise-image-") as name:
        folder = Path(name)
        base, libraries, own = (folder / each for each in ("base", "libraries", "own"))
        version = _unpack_distribution(folder, base)
        _install(libraries, version, "--require-hashes", "-r", str(_ROOT / "supply/manager.txt"))
        wheels = folder / "wheels"
        _pip(
            "wheel",
            "--no-deps",
            "--wheel-dir",
            str(wheels),
            *(str(_ROOT / "packages" / part) for part in ("kube", "pykruise")),
        )
        _install(own, version, "--no-deps", "--no-index", *map(str, sorted(wheels.iterdir())))
        return image(
            [_layer(base), _layer(libraries), _layer(own)],
            command=["/usr/bin/python3", "-m", "pykruise"],
            arguments=["manager"],
            environment={
                "PYTHONPATH": f"/{LIBRARIES}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1",
            },
            user=USER,
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
    (base / "manager").write_text(MANAGER)
    (base / "manager").chmod(0o755)
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
    """Build it, and write it to a file."""
    parser = argparse.ArgumentParser(description="Make the manager's image as an OCI archive.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--name", default=f"docker.io/{NAME}:dev")
    options = parser.parse_args()
    try:
        made = manager_image()
    except (BuildError, OSError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    options.file.write_bytes(archive(made, options.name))
    print(f"{options.file}: {options.name}@{made.digest}, {options.file.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
