"""The base of generated models, and the way from a document to a model and back, without loss.

document ──▶ parse() ──▶ Model: typed fields, and `rest` with all other fields ──▶ document()

Pure.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args

import msgspec

from pykruise.kube.documents import Document

__all__ = ["REST", "ListMapKeys", "Model", "ModelMetadata", "camel_of", "document", "list_map_keys", "parse"]

M = TypeVar("M", bound="Model")

REST: Final = "(rest)"
"""Encoded name of `Model.rest`, which no field of a document has."""


class ListMapKeys(tuple[str, ...]):
    """Annotation of a list whose items differ in these fields (`x-kubernetes-list-map-keys`).

    The names are the names in the document, such as `containerPort`. Server-side apply merges such a list item by item.
    """

    __slots__ = ()

    def __new__(cls, *names: str) -> "ListMapKeys":
        """Return the annotation. `names`: at least one."""
        return super().__new__(cls, names)


def camel_of(name: str) -> str:
    """Return the name that a Python field has in documents: `update_strategy` is `updateStrategy`."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


class Model(msgspec.Struct, frozen=True, kw_only=True, rename=camel_of):
    """Base of all generated classes: immutable, compared by value, built with keyword arguments.

    An optional field that is absent is None. Change a model with `msgspec.structs.replace(model, field=…)`.
    """

    rest: Mapping[str, Any] = msgspec.field(default_factory=dict, name=REST)
    """Fields of the document that the class does not have, by their names there: fields of a newer definition, and
    nulls that the class does not expect. `document()` writes them again."""


class ModelMetadata(Model, frozen=True, kw_only=True):
    """Metadata of an object. Other fields, such as `managedFields`, are in `rest`."""

    name: str | None = None
    """None if `generate_name` is set: the API server generates a name from it."""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


@cache
def _index_fields(model: type[Model]) -> Mapping[str, msgspec.structs.FieldInfo]:
    """Return the fields of a class by their names in documents."""
    return {info.encode_name: info for info in msgspec.structs.fields(model) if info.name != "rest"}


def parse(model: type[M], value: Mapping[str, Any]) -> M:
    """Return a document as a model; `document()` of the result equals the document.

    Raises msgspec.ValidationError for a required field that is missing, and for a value of the wrong type, with the
    path of the field.
    """
    parsed: M = _with_rest(msgspec.convert(value, model), value)
    return parsed


def document(model: Model) -> Document:
    """Return the document of a model, for any client, without optional fields whose value is None."""
    result = dict(model.rest)
    for name, info in _index_fields(type(model)).items():
        value = getattr(model, info.name)
        if value is not None or info.required:
            result[name] = _to_document(value)
    return result


def list_map_keys(model: type[Model], field: str) -> tuple[str, ...]:
    """Return the fields in which the items of a list must differ; empty: the list has no such fields.

    `field`: its name in Python. Raises KeyError when the model has no such field.
    """
    annotations = {info.name: info.type for info in msgspec.structs.fields(model)}
    keys = (item for item in _list_metadata(annotations[field]) if isinstance(item, ListMapKeys))
    return tuple(next(keys, ()))


def _list_metadata(annotation: Any) -> tuple[Any, ...]:
    """Return the metadata of an `Annotated[…]`, also of one inside `… | None`."""
    given: tuple[Any, ...] = getattr(annotation, "__metadata__", ())
    return given or tuple(item for part in get_args(annotation) for item in getattr(part, "__metadata__", ()))


def _with_rest(read: Any, stored: Any) -> Any:
    """Return a converted value with the fields of the document that the conversion dropped."""
    if isinstance(read, Model) and isinstance(stored, Mapping):
        fields = _index_fields(type(read))
        changed: dict[str, Any] = {}
        for name, info in fields.items():
            value = getattr(read, info.name)
            if name in stored and (whole := _with_rest(value, stored[name])) is not value:
                changed[info.name] = whole
        rest = {
            name: value
            for name, value in stored.items()
            if name not in fields or (value is None and not fields[name].required)
        }
        if rest or read.rest:
            changed["rest"] = rest
        return msgspec.structs.replace(read, **changed) if changed else read
    if isinstance(read, list) and isinstance(stored, list):
        items = [_with_rest(item, given) for item, given in zip(read, stored, strict=True)]
        return items if any(new is not old for new, old in zip(items, read, strict=True)) else read
    if isinstance(read, dict) and isinstance(stored, Mapping):
        values = {name: _with_rest(item, stored[name]) for name, item in read.items()}
        return values if any(values[name] is not read[name] for name in values) else read
    return read


def _to_document(value: Any) -> Any:
    if isinstance(value, Model):
        return document(value)
    if isinstance(value, list):
        return [_to_document(item) for item in value]
    if isinstance(value, dict):
        return {name: _to_document(item) for name, item in value.items()}
    return value
