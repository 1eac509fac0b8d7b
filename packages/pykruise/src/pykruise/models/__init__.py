"""Typed models of all kinds. A program can use them with any Kubernetes client.

    v1beta1.CloneSet(...) ──▶ document() ──▶ a document for the client to send
    a document from the client ──▶ parse() ──▶ v1beta1.CloneSet

The CustomResourceDefinitions are generated from the same types, so the models have the same fields with the same
descriptions. Fields of models have Python names (`update_strategy`); in documents they have JSON names
(`updateStrategy`). Pod templates and claims are documents. A document leaves out fields with their default value.
`parse` leaves out fields that the types do not know: so do not replace an object by a model that was read, but patch
it.
"""

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.schemas.typed_documents import drop_nulls
from pykruise.kube.schemas.types import ApiObject, LabelSelector, ObjectMeta
from pykruise.models import v1alpha1, v1beta1

__all__ = ["LabelSelector", "ObjectMeta", "document", "model_of", "parse", "v1alpha1", "v1beta1"]

M = TypeVar("M", bound=ApiObject)


def document(model: ApiObject) -> Document:
    """Return the object as a document that a client can send."""
    made: Document = msgspec.to_builtins(model)
    return {"apiVersion": model.api_version, "kind": model.kind, **made}


def parse(value: Mapping[str, Any]) -> ApiObject:
    """Return the model of an object that a client has read. The model has the version of the object.

    Raises KeyError for an unknown kind, and msgspec.ValidationError for a field of the wrong type.
    """
    return msgspec.convert(drop_nulls(value), model_of(value["apiVersion"], value["kind"]))


def model_of(api_version: str, kind: str) -> type[ApiObject]:
    """Return the model of a kind, for example `model_of("apps.kruise.io/v1beta1", "CloneSet")`. Raises KeyError for an
    unknown kind.
    """
    return _collect_models()[api_version, kind]


@cache
def _collect_models() -> Mapping[tuple[str, str], type[ApiObject]]:
    models: dict[tuple[str, str], type[ApiObject]] = {}
    for module in (v1alpha1, v1beta1):
        for model in _list_models(module):
            models[
                f"{_group_of(model)}/{module.__name__.rpartition('.')[2]}", _find_default(model, "kind")
            ] = model
    return models


def _list_models(module: ModuleType) -> list[type[ApiObject]]:
    members = (getattr(module, name) for name in module.__all__)
    return [member for member in members if isinstance(member, type) and issubclass(member, ApiObject)]


def _group_of(model: type[ApiObject]) -> str:
    return _find_default(model, "api_version").partition("/")[0]


def _find_default(model: type[ApiObject], field: str) -> str:
    return next(
        str(field_info.default) for field_info in msgspec.structs.fields(model) if field_info.name == field
    )
