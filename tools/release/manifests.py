"""Manifests that are applied to a cluster without any tool of ours: the output of commands of the released version.

wheels ──unpacked──▶ `pykruise install`, `pykruise crds` ──▶ install.yaml, crds.yaml
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools.release.staging import ReleaseError

__all__ = ["build"]


def build(folder: Path, wheels: Mapping[str, Path]) -> list[Path]:
    """Write both files. Without a registry, `install.yaml` names images that are published nowhere, as `install`
    warns.
    """
    written = []
    with tempfile.TemporaryDirectory(prefix="pykruise-release-") as site:
        for wheel in wheels.values():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        for command in ("install", "crds"):
            program = (
                f"import sys; sys.path.insert(0, {site!r});"
                " from pykruise.cli.main import run_app; import pykruise.cli;"
                f" assert pykruise.cli.__file__.startswith({site!r}), pykruise.cli.__file__;"
                f" sys.exit(run_app([{command!r}], program='pykruise'))"
            )
            # -S and -I: import only the dependencies, nothing from an installed checkout.
            done = subprocess.run(
                [sys.executable, "-I", "-c", _without_checkout(program)],
                capture_output=True,
                text=True,
                check=False,
                env={"PATH": os.environ["PATH"]},
            )
            if done.returncode:
                raise ReleaseError(f"pykruise {command} failed: {done.stderr.strip()}")
            file = folder / f"{command}.yaml"
            file.write_text(done.stdout, "utf-8")
            written.append(file)
    return written


def _without_checkout(program: str) -> str:
    """Return the program with a start that hides an editable installation, which Python would find besides the
    unpacked wheels.
    """
    return (
        "import sys; sys.path[:] = [one for one in sys.path if not one.rstrip('/').endswith('/src')]; "
        + program
    )
