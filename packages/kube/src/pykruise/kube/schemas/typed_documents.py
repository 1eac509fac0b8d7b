"""Documents read into types: what a part of an object says, or which field of it cannot be read.

document + type ──▶ read() ──▶ the typed value, or None and "<path>: <what is wrong>"

Pure.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

__all__ = ["read", "without_nulls"]

T = TypeVar("T")


def read(
    value: Mapping[str, Any], kind: type[T], *, path: str, raw: Collection[str] = ()
) -> tuple[T | None, str]:
    """The typed value, or None and `<path>: <what is wrong>`. A null field counts as absent.

    Fields named in `raw` (templates) are taken as they are, nulls and all.
    """
    try:
        return msgspec.convert(without_nulls(value, raw=raw), kind), ""
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return None, f"{path}{where.rstrip('`')}: {what}"


def without_nulls(value: Any, *, raw: Collection[str] = ()) -> Any:
    """A null field is an absent one, here as everywhere in Kubernetes. Fields in `raw` are left as they are."""
    if isinstance(value, Mapping):
        return {
            name: item if name in raw else without_nulls(item, raw=raw)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item, raw=raw) for item in value]
    return value
