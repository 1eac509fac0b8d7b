"""The cases, in groups: a module holds what belongs together and is recorded in one file."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from conformance.dsl import Case

_MODULES: Final = ("objects", "bodies", "patches")

GROUPS: Final[Mapping[str, tuple[Case, ...]]] = {
    name: tuple(import_module(f"conformance.cases.{name}").CASES) for name in _MODULES
}
