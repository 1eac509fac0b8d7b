"""Nulls in lists and maps, as Go reads them: each is the zero value of its type.

value + its type ──▶ filled() ──▶ the value without such nulls     (`containers: [null]` is one that says nothing)

Pure: what comes in is not changed. A null field of an object is an absent one, and stays.
"""

from typing import Any, Final

from pykruise.kube.schemas.builtin_types import fields_of

__all__ = ["filled"]

_ZEROS: Final = {"bool": False, "int32": 0, "int64": 0, "intOrString": 0, "quantity": "0", "string": ""}


def filled(value: Any, kind: str, *, amounts: bool = False) -> Any:
    """The value of a type as `Field.kind` names it. What is of another type stays. `amounts`: all of them are 0."""
    kind = kind.removeprefix("*")
    if kind == "quantity" and amounts:
        return _ZEROS[kind]
    if kind.startswith("[]") and isinstance(value, list):
        return [_item(item, kind[2:], amounts) for item in value]
    if not isinstance(value, dict):
        return value
    if kind.startswith("{}"):
        return {name: _item(part, kind[2:], amounts) for name, part in value.items()}
    fields = fields_of(kind) or {}
    return {
        name: filled(part, fields[name].kind, amounts=amounts)
        if name in fields and part is not None
        else part
        for name, part in value.items()
    }


def _item(value: Any, kind: str, amounts: bool) -> Any:
    if value is not None:
        return filled(value, kind, amounts=amounts)
    return {} if fields_of(kind) is not None else _ZEROS.get(kind)
