"""Wheels and source distributions of all distributions. Each build gives the same bytes.

Sources ──hatchling──▶ *.whl, *.tar.gz
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.release.staging import DISTRIBUTIONS, ReleaseError, Sources

__all__ = ["build"]

_PROGRAM: Final = """
import sys
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
for builder in (WheelBuilder, SdistBuilder):
    print(next(builder(sys.argv[1]).build(directory=sys.argv[2], versions=["standard"])))
"""


def build(sources: Sources, folder: Path) -> dict[str, Path]:
    """Build the distributions. Return the wheels by the names of their folders in packages/. Raises ReleaseError."""
    wheels: dict[str, Path] = {}
    for name in DISTRIBUTIONS:
        place = sources.root / "packages" / name
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(place), str(folder)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(sources.time_s)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"{name} cannot be built: {done.stderr.strip().splitlines()[-1]}")
        wheels[name] = Path(done.stdout.splitlines()[0])
    return wheels
