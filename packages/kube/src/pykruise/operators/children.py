"""Children of an object: the documents that should exist, and the smallest patch that changes a child to its document.

Child + owner ──▶ build_child_document() ──▶ the whole document of a creation
stored document + wanted document ──▶ patch_of() ──▶ a merge patch; None: nothing differs

A patch changes only fields that the child names, or named before: API servers and other controllers set the other
fields. A list belongs to the child as a whole, except for fields that others added to its items. The annotation
`APPLIED_FIELDS` keeps the names of the fields, without their values, so that a field is removed when the child does not
name it any more. The annotation `APPLIED_BY` keeps the name of the operator, so that no operator deletes the children
of another one. A value that API servers store in another form, such as the quantity `0.5`, is no difference.

Pure.
"""

from base64 import b64encode
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, decode, encode, is_same
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.patches.schemas import find_definition
from pykruise.kube.resources import SECRETS, Resource
from pykruise.kube.schemas.builtin_types import DecodeError, find_decoder
from pykruise.runtime.objects import DocumentView, build_owner_reference_to

__all__ = ["APPLIED_BY", "APPLIED_FIELDS", "Child", "build_child_document", "is_applied_by", "patch_of"]

APPLIED_BY: Final = "pykruise.io/applied-by"
"""Annotation of a child: the name of the operator that wrote it last."""

APPLIED_FIELDS: Final = "pykruise.io/applied-fields"
"""Annotation of a child: JSON with the names of the fields that its operator wrote last."""


class Child(msgspec.Struct, frozen=True):
    """An object that another object should own.

    `body`: the document, without apiVersion, kind, name and owner; `metadata` may have labels and annotations.
    `namespace`: for a child of a cluster-scoped object; empty: the namespace of the owner.
    """

    resource: Resource
    name: str
    body: Document
    namespace: str = ""


def namespace_of(child: Child, owner: DocumentView) -> str:
    """Return the child's namespace. Raises ValueError for a child in another namespace than its owner: Kubernetes
    would delete it.
    """
    if not child.resource.namespaced:
        if owner.namespace:
            raise ValueError(
                f"{child.resource.kind} {child.name} is cluster-scoped, so {owner.key} cannot own it"
            )
        return ""
    if owner.namespace and child.namespace not in ("", owner.namespace):
        raise ValueError(
            f"{child.resource.kind} {child.name}: its namespace is not that of its owner {owner.key}"
        )
    return child.namespace or owner.namespace


def build_child_document(child: Child, resource: Resource, owner: DocumentView, *, operator: str) -> Document:
    """Return the document with which the child is created. `resource`: resource of the owner. `operator`: name of the
    operator.
    """
    wanted = _build_wanted(child, operator)
    metadata = {
        **wanted["metadata"],
        "name": child.name,
        "ownerReferences": [build_owner_reference_to(resource, owner)],
    }
    if namespace := namespace_of(child, owner):
        metadata["namespace"] = namespace
    kind = {"apiVersion": child.resource.api_version, "kind": child.resource.kind}
    return {**kind, **wanted, "metadata": metadata}


def patch_of(child: Child, stored: DocumentView, *, operator: str) -> Document | None:
    """Return the merge patch that changes the stored child to the wanted one; None: nothing differs."""
    wanted, before = _build_wanted(child, operator), _read_applied_fields(stored)
    names = _list_names(wanted)
    patch = diff_merge(stored.doc, _merge_wanted(stored.doc, wanted, before, names))
    if not patch:
        return None
    in_stored_form = _convert_to_stored_form(child.resource, wanted, stored.doc)
    return diff_merge(stored.doc, _merge_wanted(stored.doc, in_stored_form, before, names)) or None


def is_applied_by(stored: DocumentView, operator: str) -> bool:
    """Whether the operator of this name wrote the child. Earlier versions wrote no name: such a child belongs to any
    operator of its owner.
    """
    return APPLIED_FIELDS in stored.annotations and stored.annotations.get(APPLIED_BY, operator) == operator


def _build_wanted(child: Child, operator: str) -> Document:
    body = _encode_string_data(child.body) if child.resource == SECRETS else child.body
    fields = msgspec.json.encode(_list_names(body), order="sorted").decode()
    metadata = body.get("metadata") or {}
    own = {APPLIED_BY: operator, APPLIED_FIELDS: fields}
    annotations = {**(metadata.get("annotations") or {}), **own}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _encode_string_data(body: Document) -> Document:
    """Return the body of a Secret with the texts of `stringData` in `data`: API servers do not store `stringData`."""
    texts = body.get("stringData")
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        return body  # nothing to encode, or the API server rejects it
    data = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
    others = {name: value for name, value in body.items() if name != "stringData"}
    return {**others, "data": {**(body.get("data") or {}), **data}}


def _convert_to_stored_form(resource: Resource, wanted: Document, stored: Document) -> Document:
    """Return the wanted document of a built-in kind with the values that API servers store, such as `500m` for `0.5`,
    and None for an empty value that they leave out. Other kinds, and documents that API servers reject, stay unchanged.
    """
    definition = find_definition(resource)
    decoder = find_decoder(definition) if definition is not None else None
    if decoder is None:
        return wanted
    sent = decode(encode(wanted))  # with lists in place of tuples
    try:
        decoded, _ = decoder.decode(sent)
    except DecodeError:
        return wanted
    result: Document = _replace_values(sent, decoded, stored)
    return result


def _replace_values(wanted: Any, decoded: Any, stored: Any) -> Any:
    """Return the wanted value with the values of the decoded one. A value that only the wanted document has stays
    unchanged, unless it is empty and the stored document lacks it too.
    """
    if isinstance(wanted, Mapping) and isinstance(decoded, Mapping):
        old = stored if isinstance(stored, Mapping) else {}
        return {
            name: _replace_values(value, decoded.get(name), old.get(name)) for name, value in wanted.items()
        }
    if isinstance(wanted, list) and isinstance(decoded, list) and len(wanted) == len(decoded):
        old_items = stored if isinstance(stored, list) else ()
        triples = zip_longest(wanted, decoded, old_items[: len(wanted)])
        return [_replace_values(*triple) for triple in triples]
    if decoded is None:
        return None if not wanted and stored is None else wanted
    return {} if wanted is None and isinstance(decoded, Mapping) else decoded


def _read_applied_fields(stored: DocumentView) -> Mapping[str, Any]:
    try:
        fields = msgspec.json.decode(stored.annotations.get(APPLIED_FIELDS) or "{}")
    except msgspec.DecodeError:
        return {}  # another client changed the annotation
    return fields if isinstance(fields, dict) else {}


def _list_names(value: Any) -> Any:
    """Return the value's field names, with None instead of each plain value."""
    if isinstance(value, Mapping):
        return {name: _list_names(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_list_names(item) for item in value]
    return None


def _merge_wanted(stored: Mapping[str, Any], wanted: Mapping[str, Any], before: Any, names: Any) -> Document:
    """Return the stored document with the wanted fields. `before`, `names`: names of the fields that were wanted last
    time, and that are wanted now.
    """
    named = before if isinstance(before, Mapping) else {}
    result = {name: value for name, value in stored.items() if name in wanted or name not in named}
    for name, value in wanted.items():
        old = stored.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            result[name] = _merge_wanted(old, value, named.get(name), names[name])
        elif not (_is_named_alike(names[name], named.get(name)) and _holds(old, value)):
            result[name] = value
    return result


def _is_named_alike(names: Any, before: Any) -> bool:
    """Whether a list has the fields that it had last time, so that no field must be removed from its items."""
    return not isinstance(names, list) or names == before


def _holds(stored: Any, wanted: Any) -> bool:
    """Whether the stored value has all wanted fields and values. It may have more fields."""
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping):
        # API servers drop nulls in lists.
        return all(_holds(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list | tuple) and isinstance(stored, list):
        pairs = zip(stored, wanted, strict=False)
        return len(stored) == len(wanted) and all(_holds(old, new) for old, new in pairs)
    return is_same(stored, wanted)
