"""Settings of a kind from feature gates, flags and the manager. Each field declares the source of its value.

    class Settings(msgspec.Struct, frozen=True, kw_only=True):
        short_hash: Annotated[bool, OnGate("CloneSetShortHash")] = False

gates, flags, manager's own values ──▶ build_settings(Settings, …) ──▶ Settings(short_hash=…)

Pure. There is no other list of a kind's settings: flags, roles, docs and tests read the fields.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, TypeVar, get_type_hints

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


Maturity = Literal["alpha", "beta"]


class Gate(msgspec.Struct, frozen=True):
    """A feature gate: its default, its maturity, and its effect."""

    default: bool
    stage: Maturity
    effect: str
    by_server: bool = False
    """Whether the default depends on the API server: the gate is on if the API server supports the feature."""


class OnGate(msgspec.Struct, frozen=True):
    """The field is True when all these feature gates are on."""

    name: str
    and_name: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the gates."""
        return (self.name, self.and_name) if self.and_name else (self.name,)


class FromFlag(msgspec.Struct, frozen=True):
    """The field has the value of this flag of the manager. The flag's default is the field's default."""

    name: str
    help: str
    most: int | None = None
    """Largest allowed value of a whole number."""


class FromManager(msgspec.Struct, frozen=True):
    """The field has a value of the manager itself: its namespace, or an ability of its API server."""

    name: str


class NoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a kind without settings."""


Source = OnGate | FromFlag | FromManager
_SOURCES: Final = (OnGate, FromFlag, FromManager)


def build_settings(
    type_: type[S],
    *,
    gates: Callable[[str], bool],
    flags: Mapping[str, Any] | None = None,
    manager: Mapping[str, Any] | None = None,
) -> S:
    """Build settings of this type. A field whose flag or value is not given keeps its default. A field that is itself
    a Struct of settings is built in the same way.
    """
    values: dict[str, Any] = {}
    for name, source in _find_sources(type_).items():
        match source:
            case OnGate(names=names):
                values[name] = all(gates(gate) for gate in names)
            case FromFlag(name=flag) if flags is not None and flag in flags:
                values[name] = flags[flag]
            case FromManager(name=value) if manager is not None and value in manager:
                values[name] = manager[value]
            case type():
                values[name] = build_settings(source, gates=gates, flags=flags, manager=manager)
            case _:
                pass
    return type_(**values)


def gates_of(type_: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the gates that the fields depend on."""
    return frozenset(
        name for source in _find_all_sources(type_) if isinstance(source, OnGate) for name in source.names
    )


def flags_of(type_: type[msgspec.Struct]) -> Mapping[FromFlag, Any]:
    """Flags that set the fields, each with its default."""
    flags: dict[FromFlag, Any] = {}
    for name, source in _find_sources(type_).items():
        match source:
            case FromFlag():
                flags[source] = getattr(type_(), name)
            case type():
                flags |= flags_of(source)
            case _:
                pass
    return flags


def _find_all_sources(type_: type[msgspec.Struct]) -> Iterator[Source]:
    for source in _find_sources(type_).values():
        if isinstance(source, type):
            yield from _find_all_sources(source)
        else:
            yield source


@cache
def _find_sources(type_: type[msgspec.Struct]) -> Mapping[str, Source | type[msgspec.Struct]]:
    """Source of each field's value; for a field that is itself a Struct of settings, its type."""
    sources: dict[str, Source | type[msgspec.Struct]] = {}
    for name, hint in get_type_hints(type_, include_extras=True).items():
        said = next((item for item in getattr(hint, "__metadata__", ()) if isinstance(item, _SOURCES)), None)
        if said is not None:
            sources[name] = said
        elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            sources[name] = hint
    return sources
