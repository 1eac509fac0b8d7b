"""Nulls in lists and maps, as Go decodes them: each becomes the zero value of its type.

value + its type ──▶ fill_zero_values() ──▶ the value without such nulls (`containers: [null]` has one empty container)

Pure: the input is not changed. A null field of an object is an absent field, and stays.
"""

from typing import Any, Final

from pykruise.kube.schemas.builtin_types import fields_of

__all__ = ["fill_zero_values"]

_ZEROS: Final = {"bool": False, "int32": 0, "int64": 0, "intOrString": 0, "quantity": "0", "string": ""}


def fill_zero_values(value: Any, kind: str, *, amounts: bool = False) -> Any:
    """Return the value with zero values for nulls; `kind` is that of `BuiltinField.kind`. A value of another type is
    returned unchanged. `amounts`: replace all quantities by 0.
    """
    kind = kind.removeprefix("*")
    if kind == "quantity" and amounts:
        return _ZEROS[kind]
    if kind.startswith("[]") and isinstance(value, list):
        return [_fill_item(item, kind[2:], amounts) for item in value]
    if not isinstance(value, dict):
        return value
    if kind.startswith("{}"):
        return {name: _fill_item(part, kind[2:], amounts) for name, part in value.items()}
    fields = fields_of(kind) or {}
    return {
        name: fill_zero_values(part, fields[name].kind, amounts=amounts)
        if name in fields and part is not None
        else part
        for name, part in value.items()
    }


def _fill_item(value: Any, kind: str, amounts: bool) -> Any:
    if value is not None:
        return fill_zero_values(value, kind, amounts=amounts)
    return {} if fields_of(kind) is not None else _ZEROS.get(kind)
