"""Typed models of all kinds, for creating and reading their objects with any client of Kubernetes.

    v1beta1.CloneSet(...) ──▶ document() ──▶ what a client sends
    what a client read ──▶ parse() ──▶ v1beta1.CloneSet

The types are those from which the CustomResourceDefinitions are made, so they have every field, with its description,
and no other. Names are Python's (`update_strategy`), JSON's in documents (`updateStrategy`). Pod templates and claims
are documents, as in the definitions. A field that has its default is left out of a document; fields that these types do
not know are dropped by `parse`, so a document that is to be written back should be patched, not replaced.
"""

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.schemas.typed_documents import without_nulls
from pykruise.kube.schemas.types import ApiObject, LabelSelector, ObjectMeta
from pykruise.models import v1alpha1, v1beta1

__all__ = ["LabelSelector", "ObjectMeta", "document", "model_of", "parse", "v1alpha1", "v1beta1"]

M = TypeVar("M", bound=ApiObject)


def document(model: ApiObject) -> Document:
    """The object as a client sends it."""
    made: Document = msgspec.to_builtins(model)
    return {"apiVersion": model.api_version, "kind": model.kind, **made}


def parse(value: Mapping[str, Any]) -> ApiObject:
    """An object as a client read it, as a model of its version.

    Raises KeyError for a kind that is not one of these, msgspec.ValidationError for a field of the wrong type.
    """
    return msgspec.convert(without_nulls(value), model_of(value["apiVersion"], value["kind"]))


def model_of(api_version: str, kind: str) -> type[ApiObject]:
    """The model of a kind: `model_of("apps.kruise.io/v1beta1", "CloneSet")`. Raises KeyError."""
    return _models()[api_version, kind]


@cache
def _models() -> Mapping[tuple[str, str], type[ApiObject]]:
    models: dict[tuple[str, str], type[ApiObject]] = {}
    for module in (v1alpha1, v1beta1):
        for model in _of(module):
            models[f"{_group(model)}/{module.__name__.rpartition('.')[2]}", _default(model, "kind")] = model
    return models


def _of(module: ModuleType) -> list[type[ApiObject]]:
    members = (getattr(module, name) for name in module.__all__)
    return [member for member in members if isinstance(member, type) and issubclass(member, ApiObject)]


def _group(model: type[ApiObject]) -> str:
    return _default(model, "api_version").partition("/")[0]


def _default(model: type[ApiObject], field: str) -> str:
    return next(
        str(field_info.default) for field_info in msgspec.structs.fields(model) if field_info.name == field
    )
