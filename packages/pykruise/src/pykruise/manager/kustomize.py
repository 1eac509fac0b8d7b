"""OpenAPI file for kustomize: the lists that a strategic merge patch merges, and the kinds that have a namespace.

list_marked_schemas(), Kubernetes' facts ──▶ build_openapi_document()
    ──▶ the file of the field `openapi` of a kustomization

Pure. The file replaces kustomize's built-in schemas, so it contains Kubernetes' own kinds too. For each type it
contains only the fields that decide how a value is merged.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pykruise.kinds import list_marked_schemas
from pykruise.kube.documents import Document
from pykruise.kube.patches.schemas import FieldRule, merge_keys
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.builtin_types import collect_definitions_below, definition_of, fields_of
from pykruise.kube.schemas.merged_lists import MARK
from pykruise.kube.version import __version__

__all__ = ["build_openapi_document"]

_BARE_GROUPS: Final = ("apps", "autoscaling", "batch", "policy")
_LONGER_GROUPS: Final[Mapping[str, str]] = {"core": "", "rbac": "rbac.authorization.k8s.io"}
_OF_AN_OBJECT: Final = {"apiVersion", "kind", "metadata"}


def build_openapi_document() -> Document:
    """Return the file as an OpenAPI document of version 2."""
    return {
        "swagger": "2.0",
        "info": {"title": "Rules by which patches are merged", "version": __version__},
        "paths": dict(_build_paths()),
        "definitions": {**dict(_build_builtin_definitions()), **dict(_build_own_definitions())},
    }


def _build_own_definitions() -> Iterator[tuple[str, Document]]:
    for resource, schema in list_marked_schemas():
        name = f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
        yield name, {**(_build_merging_part(schema) or {"type": "object"}), **_build_kinds(resource)}


def _build_merging_part(schema: Mapping[str, Any]) -> Document | None:
    """Return the part of a schema that decides how values are merged; None: the schema has no such part."""
    if (mark := schema.get(MARK)) is not None:
        definition, field = mark
        if not field:
            return _build_reference(definition)
        rule = merge_keys()[definition][field]
        own = _build_properties(schema["items"])
        item = _build_item(rule.ref, own) if own or not _is_merged(rule.ref) else _build_reference(rule.ref)
        return {"type": "array", "items": item, **_build_directives(rule)}
    if schema.get("x-kubernetes-list-type") == "map" and len(schema["x-kubernetes-list-map-keys"]) == 1:
        (key,) = schema["x-kubernetes-list-map-keys"]
        item = {"type": "object", "properties": _build_properties(schema["items"])}
        return {"type": "array", "items": item, **_build_directives(_make_field_rule(key))}
    below = _build_properties(schema)
    return {"type": "object", "properties": below} if below else None


def _make_field_rule(key: str) -> FieldRule:
    """Rule for a list of an OpenKruise kind whose items are merged by one field."""
    return FieldRule(patch_merge_key=key, patch_strategy="merge")


def _build_properties(schema: Mapping[str, Any]) -> Document:
    made = ((name, _build_merging_part(child)) for name, child in schema.get("properties", {}).items())
    return {name: child for name, child in made if child is not None}


def _build_item(definition: str, own: Document) -> Document:
    """Return an item of this Kubernetes type with additional fields."""
    return {"type": "object", "properties": {**dict(_build_fields(definition)), **own}}


# ── Kubernetes' own kinds ────────────────────────────────────────────────────


def _build_builtin_definitions() -> Iterator[tuple[str, Document]]:
    for definition in merge_keys():
        if not _is_merged(definition):
            continue
        part: Document = {"type": "object", "properties": dict(_build_fields(definition))}
        if (fields_of(definition) or {}).keys() >= _OF_AN_OBJECT and definition.startswith("io.k8s.api."):
            group, version, kind = definition.removeprefix("io.k8s.api.").split(".")
            part |= _build_kind(_group(group), version, kind)
        yield definition, part


def _build_fields(definition: str) -> Iterator[tuple[str, Document]]:
    rules = merge_keys().get(definition, {})
    for name, field in sorted((fields_of(definition) or {}).items()):
        rule, item = rules.get(name, FieldRule()), definition_of(field.kind)
        if field.kind.removeprefix("*").startswith("[]"):
            if rule.patch_strategy:
                items = (
                    _build_reference(item)
                    if _is_merged(item)
                    else {"type": "object" if rule.ref else "string"}
                )
                yield name, {"type": "array", "items": items, **_build_directives(rule)}
        elif field.kind.removeprefix("*") == item and (_is_merged(item) or rule.patch_strategy):
            yield (
                name,
                {
                    **(_build_reference(item) if _is_merged(item) else {"type": "object"}),
                    **_build_directives(rule),
                },
            )


@cache
def _is_merged(definition: str) -> bool:
    """Whether a field of this type, or of a type inside of it, has a directive for merging."""
    return any(
        rule.patch_strategy
        for below in collect_definitions_below(definition)
        for rule in merge_keys().get(below, {}).values()
    )


def _build_directives(rule: FieldRule) -> Document:
    directives = {
        "x-kubernetes-patch-merge-key": rule.patch_merge_key,
        "x-kubernetes-patch-strategy": rule.patch_strategy,
    }
    return {name: text for name, text in directives.items() if text}


def _build_reference(definition: str) -> Document:
    return {"$ref": f"#/definitions/{definition}"}


def _group(short: str) -> str:
    return short if short in _BARE_GROUPS else _LONGER_GROUPS.get(short, f"{short}.k8s.io")


def _build_kinds(resource: Resource) -> Document:
    return _build_kind(resource.group, resource.version, resource.kind)


def _build_kind(group: str, version: str, kind: str) -> Document:
    return {"x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}]}


# ── kinds with a namespace ───────────────────────────────────────────────────


def _build_paths() -> Iterator[tuple[str, Document]]:
    for resource, _ in list_marked_schemas():
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        yield _format_path(resource), {"get": {"x-kubernetes-group-version-kind": kind}}


def _format_path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/apis/{resource.group}/{resource.version}{namespace}/{resource.plural}/{{name}}"
