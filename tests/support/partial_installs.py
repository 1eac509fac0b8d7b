"""An environment in which some distributions are not installed, built from links to the installed packages.

site-packages ──links, without what is left out──▶ folder ──▶ `python -S` with it in PYTHONPATH
"""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Sequence
from pathlib import Path

from support.sources import ROOT

__all__ = ["PartialInstall", "normal_name"]

_OWN = {
    "pykruise-kube": "kube",
    "pykruise-sandbox": "sandbox",
    "pykruise-agent": "agent",
    "pykruise": "pykruise",
    "pykruise-dashboard": "dashboard",
}


def normal_name(requirement: str) -> str:
    """Name of a distribution, of `OpenTelemetry_SDK>=1.40` for instance."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=~!;\s]", requirement, maxsplit=1)[0]).lower()


class PartialInstall:
    """The packages of this environment without some distributions and their dependencies."""

    def __init__(self, folder: Path, *, without: Collection[str]) -> None:
        site = Path(sysconfig.get_path("purelib"))
        left_out = {normal_name(name) for name in without}
        hidden: set[str] = set()
        for info in site.glob("*.dist-info"):
            if normal_name(info.name.removesuffix(".dist-info").rsplit("-", 1)[0]) in left_out:
                hidden.add(info.name)
                hidden |= _top_level(info)
        _link(site, folder, hidden)
        sources = [ROOT / "packages" / part / "src" for name, part in _OWN.items() if name not in left_out]
        self._environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [folder, *sources]))}

    def run(self, code: str, *arguments: str, **environ: str) -> tuple[int, str]:
        """Run Python code with arguments; returns its exit code and both outputs."""
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, *arguments],
            env={**self._environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return done.returncode, done.stdout + done.stderr


def _top_level(info: Path) -> set[str]:
    """Entries that a distribution has, as paths of at most two parts: packages share `google` and `opentelemetry`."""
    names: set[str] = set()
    for line in (info / "RECORD").read_text("utf-8").splitlines():
        parts: Sequence[str] = line.split(",", 1)[0].split("/")
        if parts[0] not in ("..", "__pycache__") and not parts[0].endswith((".dist-info", ".pth")):
            names.add("/".join(parts[:2] if parts[0] in _SHARED else parts[:1]))
    return names


_SHARED = frozenset({"google", "opentelemetry"})


def _link(site: Path, folder: Path, hidden: Collection[str]) -> None:
    folder.mkdir(parents=True)
    for entry in site.iterdir():
        if entry.name in hidden or entry.suffix == ".pth":
            continue
        if entry.name in _SHARED:
            inner = {name.partition("/")[2] for name in hidden if name.startswith(f"{entry.name}/")}
            _link(entry, folder / entry.name, inner)
        else:
            (folder / entry.name).symlink_to(entry)
