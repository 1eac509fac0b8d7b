"""Programs under examples/ as modules of a test."""

import importlib.util
from pathlib import Path
from types import ModuleType

from support.sources import ROOT

__all__ = ["EXAMPLES", "load_program"]

EXAMPLES: Path = ROOT / "examples"


def load_program(path: Path) -> ModuleType:
    """Execute a program that imports no file from its own folder."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
