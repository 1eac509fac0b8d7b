"""Folders of the sources: each folder of packages/ is a distribution with modules of `pykruise`.

DISTRIBUTIONS  folders with a pyproject.toml         SOURCES  their folders src/pykruise
"""

import functools
from pathlib import Path

__all__ = ["DISTRIBUTIONS", "ROOT", "SOURCES", "source_of"]

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
SOURCES = [distribution / "src" / "pykruise" for distribution in DISTRIBUTIONS]


@functools.cache
def source_of(file: str) -> str | None:
    """`kube/cache/cache.py` for that module's file; None for files outside pykruise."""
    for folder in SOURCES:
        if file.startswith(f"{folder}/"):
            return file.removeprefix(f"{folder}/")
    return None
