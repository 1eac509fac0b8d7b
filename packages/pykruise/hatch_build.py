"""Puts the examples into wheels and source distributions: they stand beside packages/ in a checkout."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACES: Final = ("examples", "../../examples")
"""In a source distribution, and in a checkout."""


class ExamplesHook(BuildHookInterface[Any]):
    """Hook that hatchling calls before it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder to what is packed. An editable installation reads it where it is."""
        if version == "editable":
            return
        folder = next(Path(self.root, place) for place in PLACES if Path(self.root, place).is_dir())
        target = "examples" if self.target_name == "sdist" else "pykruise/examples"
        build_data["force_include"][str(folder.resolve())] = target
