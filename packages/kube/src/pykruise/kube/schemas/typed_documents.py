"""Decodes documents into types, and names the field that cannot be decoded.

document + type ──▶ read() ──▶ the typed value, or None and "<path>: <the mistake>"

Pure.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

__all__ = ["drop_nulls", "read"]

T = TypeVar("T")


def read(
    value: Mapping[str, Any], kind: type[T], *, path: str, raw: Collection[str] = ()
) -> tuple[T | None, str]:
    """Return the typed value, or None and `<path>: <the mistake>`. A null field counts as absent.

    Fields named in `raw` (templates) are taken unchanged, with their nulls.
    """
    try:
        return msgspec.convert(drop_nulls(value, raw=raw), kind), ""
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return None, f"{path}{where.rstrip('`')}: {what}"


def drop_nulls(value: Any, *, raw: Collection[str] = ()) -> Any:
    """Return the value without null fields, which count as absent everywhere in Kubernetes. Fields in `raw` are
    unchanged.
    """
    if isinstance(value, Mapping):
        return {
            name: item if name in raw else drop_nulls(item, raw=raw)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [drop_nulls(item, raw=raw) for item in value]
    return value
