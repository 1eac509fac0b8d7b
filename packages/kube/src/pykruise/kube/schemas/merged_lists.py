"""Schemas for the parts of a CRD that hold Kubernetes' own types, with the lists that are merged by key.

Kubernetes' facts ──▶ build_merging_object("io.k8s.api.core.v1.PodTemplateSpec") ──▶ an open schema that names the
                 └──▶ build_merging_list("io.k8s.api.core.v1.PodSpec", "volumes")    merged lists and their parents

Pure. With such a schema, server-side apply merges the containers of a template one by one, as in a Deployment. Without
it, the list has one owner, and an applier replaces the whole list.

The schema must not reject or change stored objects. Therefore

- all other fields stay open, and fields that lead to a list may be null;
- a key is not required, and its default is the empty string, which Go writes for an absent key;
- a list stays atomic (`LEFT_WHOLE`) if Kubernetes accepts a key twice in the list, because a CRD cannot allow that.
"""

from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.patches.schemas import FieldRule, merge_keys
from pykruise.kube.schemas import descriptions
from pykruise.kube.schemas.builtin_types import collect_definitions_below, definition_of, fields_of

__all__ = [
    "LEFT_WHOLE",
    "MARK",
    "MERGED",
    "build_merging_list",
    "build_merging_object",
    "drop_marks",
    "map_lists",
]

_CORE: Final = "io.k8s.api.core.v1"

MARK: Final = "x-pykruise-type"
"""Keyword of the schemas of this module. Its value is the type that the schema describes or, for a list, the type and
field that contain the list. CRDs do not contain the keyword.
"""

MERGED: Final[Mapping[str, Set[str]]] = {
    f"{_CORE}.PodSpec": {
        "containers",
        "initContainers",
        "resourceClaims",
        "schedulingGates",
        "topologySpreadConstraints",
        "volumes",
    },
    f"{_CORE}.Container": {"volumeDevices", "volumeMounts"},
    f"{_CORE}.EphemeralContainer": {"volumeDevices", "volumeMounts"},
}
"""Lists that are merged in templates. Kubernetes rejects a pod that has the same key twice in one of these lists."""

_OTHER_FIELDS: Final = "Fields that this schema does not list are kept as they are."
_REPEATED_VARIABLE: Final = "a container may define a variable twice; the last definition counts"
_PROTOCOL: Final = (
    "the key `protocol` has the default TCP: the API server would write it into stored templates, and controllers"
    " would take this for a change of the templates"
)
LEFT_WHOLE: Final[Mapping[tuple[str, str], str]] = {
    (f"{_CORE}.Container", "env"): _REPEATED_VARIABLE,
    (f"{_CORE}.EphemeralContainer", "env"): _REPEATED_VARIABLE,
    (f"{_CORE}.Container", "ports"): _PROTOCOL,
    (f"{_CORE}.EphemeralContainer", "ports"): _PROTOCOL,
    (f"{_CORE}.PodSpec", "hostAliases"): "a pod may list the same IP address in several items",
    (f"{_CORE}.PodSpec", "imagePullSecrets"): "a pod may name a secret twice",
    (
        f"{_CORE}.PodSpec",
        "ephemeralContainers",
    ): "a template has no ephemeral containers; an EphemeralJob has its own list of them",
    (
        f"{_CORE}.PodSpec",
        "evictionResponders",
    ): "only the newest minor has this field, and its feature gate is off by default",
    (f"{_CORE}.ResourceRequirements", "claims"): "a container may use several requests of one claim",
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences"): "a template has no owner",
}
"""Lists that Kubernetes merges by key, but that stay atomic in templates, with the reason."""


def build_merging_object(definition: str) -> Document:
    """Return the open schema of an object of this type with the merged lists below it, without a description."""
    return {**_build_object(definition, nullable=True), MARK: [definition, ""]}


def build_merging_list(definition: str, field: str) -> Document:
    """Return the schema of the merged list in `field` of this type, without a description."""
    rule = merge_keys()[definition][field]
    items = _build_object(rule.ref, nullable=False)
    for key in rule.list_map_keys:
        text = f"Key of the item. No two items may have the same {' and '.join(rule.list_map_keys)}."
        items["properties"][key] = {"type": "string", "default": "", **_build_description(text)}
    return {
        "type": "array",
        "nullable": True,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(rule.list_map_keys),
        "items": {**items, **_build_description(f"A {_shorten_name(rule.ref)}. {_OTHER_FIELDS}")},
        MARK: [definition, field],
    }


def drop_marks(schema: Document) -> Document:
    """Return the schema as it appears in a CRD."""
    result = {name: value for name, value in schema.items() if name != MARK}
    for part in ("items", "additionalProperties"):
        if isinstance(result.get(part), dict):
            result[part] = drop_marks(result[part])
    if "properties" in result:
        result["properties"] = {name: drop_marks(child) for name, child in result["properties"].items()}
    return result


def map_lists(definition: str) -> Iterator[tuple[str, str]]:
    """Yield the lists that Kubernetes merges by key, in this type and below it, each as its type and field."""
    for below in collect_definitions_below(definition):
        for field, rule in merge_keys().get(below, {}).items():
            if rule.list_type == "map":
                yield below, field


def _build_object(definition: str, *, nullable: bool) -> Document:
    rules = merge_keys().get(definition, {})
    return {
        "type": "object",
        **({"nullable": True} if nullable else {}),
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": dict(_build_properties(definition, rules)),
    }


def _build_properties(definition: str, rules: Mapping[str, FieldRule]) -> Iterator[tuple[str, Document]]:
    merged = MERGED.get(definition, frozenset())
    for name, field in sorted((fields_of(definition) or {}).items()):
        if name in merged:
            text = f"A list of {_shorten_name(rules[name].ref)}, merged by {' and '.join(rules[name].list_map_keys)}."
            yield name, {**build_merging_list(definition, name), **_build_description(text)}
        elif rules.get(name, FieldRule()).of == "" and _leads_to_merged(field.kind):
            text = f"A {_shorten_name(definition_of(field.kind))}. {_OTHER_FIELDS}"
            yield name, {**build_merging_object(definition_of(field.kind)), **_build_description(text)}


@cache
def _leads_to_merged(kind: str) -> bool:
    """Whether the kind is an object (not a list or a map of objects) that has merged lists below it."""
    if kind.removeprefix("*") != definition_of(kind):
        return False
    return any(field in MERGED.get(owner, ()) for owner, field in map_lists(definition_of(kind)))


def _shorten_name(definition: str) -> str:
    """`core/v1 PodSpec`."""
    group, version, name = definition.removeprefix("io.k8s.api.").split(".")
    return f"{group}/{version} {name}"


def _build_description(text: str) -> Mapping[str, Any]:
    return {} if descriptions.are_left_out() else {"description": text}
