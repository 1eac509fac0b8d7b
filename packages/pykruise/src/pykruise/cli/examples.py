"""The manifests under examples/, found in a checkout as well as in an installed package."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def example(name: str) -> str:
    """Text of `examples/<name>`. Raises FileNotFoundError when it is not there."""
    installed: Traversable = files("pykruise") / "examples" / name
    if installed.is_file():
        return installed.read_text("utf-8")
    return (Path(__file__).parents[3] / "examples" / name).read_text("utf-8")
