"""Mutants that no test has to detect, each with the reason: `explained.toml`, by file, function and change.

The text of a mutant identifies it, not its line, so other changes of the file do not matter.
"""

import tomllib
from pathlib import Path

__all__ = ["EXPLAINED", "explained"]

EXPLAINED = Path(__file__).parent / "explained.toml"


def explained() -> dict[str, dict[str, str]]:
    """The reason why a mutant changes nothing that a test could check, by file and name of the mutant."""
    return tomllib.loads(EXPLAINED.read_text())
