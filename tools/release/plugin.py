"""`kubectl kruise` and `pykruise` as one file for each platform, which needs only a Python.

supply/dashboard.txt ──pip download, by hash──▶ wheels of each Python ──▶ parts ──▶ kubectl-kruise-PLATFORM

The file is a shell script followed by a zip archive. The script finds a Python, and the Python runs the archive. At its
first start the archive unpacks the part for that Python into the user's cache, in a folder named by the hash of the
file. If the file is called by another name, it runs the program of that name: `pykruise`, `kubectl_complete-kruise`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import platform as machine
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.release.staging import DISTRIBUTIONS, ReleaseError, Sources

__all__ = ["PLATFORMS", "PYTHONS", "Platform", "build", "build_single_file", "format_krew_manifest"]

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Platform:
    """An operating system and an architecture, as krew names them, and the tags of their wheels."""

    os: str
    architecture: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the platform's file."""
        return f"{self.os}-{self.architecture}"


PLATFORMS: Final = (
    Platform("linux", "amd64", tuple(f"manylinux_2_{minor}_x86_64" for minor in (17, 26, 27, 28))),
    Platform("linux", "arm64", tuple(f"manylinux_2_{minor}_aarch64" for minor in (17, 26, 27, 28))),
    Platform(
        "darwin",
        "arm64",
        tuple(
            f"macosx_{version}_{kind}"
            for version in ("10_9", "10_12", "10_13", "10_15", "11_0", "12_0", "13_0")
            for kind in ("arm64", "universal2")
        ),
    ),
)
"""Platforms for which all packages have wheels. On other platforms, pip and uv install the program."""

_SHELL: Final = """#!/bin/sh
for python in ${PYKRUISE_PYTHON:-} __PYTHONS__ python3; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -c 'import sys; sys.exit(sys.version_info[:2] not in __VERSIONS__)' 2>/dev/null || continue
  PYKRUISE_PROGRAM="${0##*/}" exec "$python" "$0" "$@"
done
echo "error: kubectl kruise needs Python __RANGE__, and none is in PATH; PYKRUISE_PYTHON=/path/python3 names one" >&2
exit 1
"""

_MAIN: Final = """
import os, sys, zipfile
DIGEST, SCRIPTS = __DIGEST__, __SCRIPTS__

def unpacked():
    tag = "cp%d%d" % sys.version_info[:2]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "pykruise", DIGEST[:16] + "-" + tag)
    if not os.path.exists(folder):
        import shutil, tempfile
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        partial = tempfile.mkdtemp(prefix="partial-", dir=os.path.dirname(folder))
        with zipfile.ZipFile(sys.argv[0]) as archive:
            for part in ("common.zip", tag + ".zip"):
                with archive.open(part) as inner, zipfile.ZipFile(inner) as content:
                    content.extractall(partial)
        try:
            os.rename(partial, folder)
        except OSError:  # another process was faster
            shutil.rmtree(partial)
    return folder

name = os.environ.pop("PYKRUISE_PROGRAM", os.path.basename(sys.argv[0]))
sys.path[0] = unpacked()
module, function = SCRIPTS.get(name, SCRIPTS["kubectl-kruise"])
import importlib
sys.exit(getattr(importlib.import_module(module), function)())
"""

_SCRIPTS: Final = {
    "kubectl-kruise": ("pykruise.cli.kubectl.entry", "main"),
    "kubectl_complete-kruise": ("pykruise.cli.kubectl.entry", "complete_main"),
    "pykruise": ("pykruise.cli.entry", "main"),
}


def build(
    sources: Sources,
    folder: Path,
    wheels: Mapping[str, Path],
    cache: Path,
    *,
    platforms: Sequence[Platform] = PLATFORMS,
    pythons: Sequence[str] = PYTHONS,
) -> list[Path]:
    """Write a file for each platform and the manifest of krew. `cache`: the folder for downloads."""
    own = [wheels[name] for name in DISTRIBUTIONS]
    files = {}
    for platform in platforms:
        by_python = {
            python: _downloaded(sources.root / "supply/dashboard.txt", platform, python, cache)
            for python in pythons
        }
        file = folder / f"kubectl-kruise-{sources.version}-{platform.name}"
        file.write_bytes(build_single_file(own, by_python))
        file.chmod(0o755)
        files[platform] = file
    manifest = folder / "kruise.krew.yaml"
    manifest.write_text(format_krew_manifest(sources, files), "utf-8")
    return [*files.values(), manifest]


def _downloaded(requirements: Path, platform: Platform, python: str, cache: Path) -> list[Path]:
    target = cache / f"{platform.name}-{python}"
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:", f"--python-version={python}"),
            *(f"--platform={tag}" for tag in platform.tags),
            *("--dest", str(target), "--requirement", str(requirements)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_NO_INPUT": "1"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip failed"]
        raise ReleaseError(f"{platform.name}, Python {python}: {lines[-1]}")
    return sorted(target.glob("*.whl"))


def build_single_file(own: Iterable[Path], by_python: Mapping[str, Sequence[Path]]) -> bytes:
    """Return the file of one platform. It contains wheels that are the same for all Pythons only once."""
    lists = [{wheel.name: wheel for wheel in result} for result in by_python.values()]
    common = set.intersection(*map(set, lists)) if lists else set()
    parts = {"common": [*own, *(lists[0][name] for name in sorted(common))]}
    for python, paths in by_python.items():
        parts[f"cp{python.replace('.', '')}"] = [path for path in paths if path.name not in common]
    packed = {f"{name}.zip": _packed(result) for name, result in parts.items()}
    digest = hashlib.sha256(b"".join(packed[name] for name in sorted(packed))).hexdigest()
    main = _MAIN.replace("__DIGEST__", repr(digest)).replace("__SCRIPTS__", repr(_SCRIPTS))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", main.encode())
        for name, content in sorted(packed.items()):
            _add(archive, name, content)
    return _shell(tuple(by_python)).encode() + buffer.getvalue()


def _shell(pythons: Sequence[str]) -> str:
    versions = ", ".join(f"({python.replace('.', ', ')})" for python in pythons)
    names = " ".join(f"python{python}" for python in reversed(pythons))
    text = _SHELL.replace("__PYTHONS__", names).replace("__VERSIONS__", f"({versions},)")
    return text.replace("__RANGE__", f"{pythons[0]} to {pythons[-1]}" if len(pythons) > 1 else pythons[0])


def _packed(wheels: Iterable[Path]) -> bytes:
    """Pack the files of wheels into one zip archive, sorted, with the same time."""
    members: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            members |= {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(members):
            _add(packed, name, members[name], compression=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _add(
    archive: zipfile.ZipFile, name: str, content: bytes, *, compression: int = zipfile.ZIP_STORED
) -> None:
    entry = zipfile.ZipInfo(name)  # with the year 1980, the earliest possible time
    entry.compress_type = compression
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def format_krew_manifest(sources: Sources, files: Mapping[Platform, Path]) -> str:
    """Return the manifest of krew, which installs the file that fits a platform as `kubectl-kruise`."""
    base = f"{sources.repository or 'https://example.com/pykruise'}/releases/download/{sources.tag}"
    lines = [
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2",
        "kind: Plugin",
        "metadata:",
        "  name: kruise",
        "spec:",
        f"  version: {'v' + sources.chart_version}",
        f"  homepage: {sources.repository or 'https://example.com/pykruise'}",
        "  shortDescription: Manage OpenKruise workloads, and see what they wait for",
        "  description: |",
        "    kubectl's verbs for every kind of OpenKruise: rollout, set, scale, get, describe and migrate;",
        "    explain says what a rollout waits for and what helps, plan what a change would do.",
        "  caveats: |",
        f"    Needs Python {PYTHONS[0]} to {PYTHONS[-1]} in PATH.",
        "  platforms:",
    ]
    for platform, file in files.items():
        lines += [
            "  - selector:",
            "      matchLabels:",
            f"        os: {platform.os}",
            f"        arch: {platform.architecture}",
            f"    uri: {base}/{file.name}.tar.gz",
            f"    sha256: {hashlib.sha256(_archived(file, sources)).hexdigest()}",
            "    bin: kubectl-kruise",
        ]
    return "\n".join(lines) + "\n"


def _archived(file: Path, sources: Sources) -> bytes:
    """Return the file as a .tar.gz with the licence, as krew requires, and write it beside the file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        members = (("kubectl-kruise", file, 0o755), ("LICENSE", sources.root / "LICENSE", 0o644))
        for name, source, mode in members:
            content = source.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, sources.time_s
            tar.addfile(entry, io.BytesIO(content))
    packed = gzip.compress(buffer.getvalue(), 1, mtime=sources.time_s)
    file.with_name(f"{file.name}.tar.gz").write_bytes(packed)
    return packed


def main(argv: Sequence[str]) -> int:
    """Build the file for this machine's Python, from the checkout and its installed dependencies."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    here = (sys.platform, names.get(machine.machine(), machine.machine()))
    platform = next((item for item in PLATFORMS if (item.os, item.architecture) == here), None)
    root = Path(__file__).resolve().parents[2]
    if platform is None:
        print(f"error: there are no packages for {'-'.join(here)}; use pip", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="pykruise-plugin-") as name:
        folder = Path(name)
        own = []
        for part in DISTRIBUTIONS:
            wheel = (
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--quiet",
                "wheel",
                "--no-deps",
            )
            place = folder / part
            subprocess.run([*wheel, "--wheel-dir", str(place), str(root / "packages" / part)], check=True)
            own += list(place.glob("*.whl"))
        downloaded = _downloaded(root / "supply/dashboard.txt", platform, python, folder)
        file = Path(argv[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(build_single_file(own, {python: downloaded}))
        file.chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
