"""Reads the manifests in examples/: beside the installed package, or in the root of a checkout."""

from pathlib import Path
from typing import Final

_PLACES: Final = (Path(__file__).parents[1], Path(__file__).parents[5])


def read_example(name: str) -> str:
    """Text of `examples/<name>`. Raises FileNotFoundError when it does not exist."""
    path = next((file for place in _PLACES if (file := place / "examples" / name).exists()), None)
    if path is None:
        raise FileNotFoundError(f"examples/{name}")
    return path.read_text("utf-8")
