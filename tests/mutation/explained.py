"""Mutants that nothing has to notice, each with the reason: `explained.toml`, by file, function and change.

A mutant is known by its words and not by its line, so what is written elsewhere in the file does not matter.
"""

import tomllib
from pathlib import Path

__all__ = ["EXPLAINED", "explained"]

EXPLAINED = Path(__file__).parent / "explained.toml"


def explained() -> dict[str, dict[str, str]]:
    """By file and name of a mutant: why it changes nothing that a test could ask for."""
    return tomllib.loads(EXPLAINED.read_text())
