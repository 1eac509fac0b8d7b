"""Merge rules of the fields of built-in kinds: the patch metadata of Kubernetes' API types.

data/merge_keys.json (newest minor) ──▶ schema_of("io.k8s.api.core.v1.Pod") ──▶ .find_field_rule("spec") ──▶ FieldRule

Pure, except for reading the package's data on first use.
"""

from collections.abc import Mapping
from functools import cache

import msgspec

from pykruise.kube.package_data import read_package_data
from pykruise.kube.resources import Resource

__all__ = [
    "UNKNOWN_FIELD",
    "FieldRule",
    "Schema",
    "find_definition",
    "has_definition",
    "merge_keys",
    "schema_of",
]


class FieldRule(msgspec.Struct, frozen=True, rename="camel"):
    """Merge rule of one field. By default maps merge and lists are replaced."""

    patch_strategy: str = ""
    """`merge`, `replace`, `retainKeys`, or two of them separated by a comma."""
    patch_merge_key: str = ""
    """Field that identifies the items of a merged list; empty for a list of scalars."""
    ref: str = ""
    """Definition of the value, or of its items when `of` is set."""
    of: str = ""
    """`list`, `map`, or empty for a single value."""
    list_type: str = ""
    """Server-side apply: `atomic`, `set` or `map`."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    item_map_type: str = ""

    @property
    def merges_list(self) -> bool:
        """Whether a list is merged rather than replaced."""
        return self._has_strategy("merge")

    @property
    def replaces_map(self) -> bool:
        """Whether a map is replaced rather than merged."""
        return self._has_strategy("replace")

    @property
    def value_schema(self) -> "Schema":
        """Schema of the value, or of each item of a list."""
        return Schema(self.ref, is_map=self.of == "map")

    def _has_strategy(self, strategy: str) -> bool:
        return bool(self.patch_strategy) and strategy in self.patch_strategy.split(",")


UNKNOWN_FIELD = FieldRule()
"""Rule of a field that no schema describes: a map is merged, any other value is replaced."""


class Schema(msgspec.Struct, frozen=True):
    """The fields of an object: those of a definition. A map has any fields; `definition` is that of its values."""

    definition: str = ""
    is_map: bool = False

    def find_field_rule(self, name: str) -> FieldRule:
        """Return the rule for a field; an unknown field has no directives."""
        if self.is_map:
            return FieldRule(ref=self.definition)
        return _read_definitions().get(self.definition, {}).get(name, UNKNOWN_FIELD)


def schema_of(definition: str) -> Schema:
    """Return the schema of a definition, a key of merge_keys.json. Raises KeyError for others."""
    if definition not in _read_definitions():
        raise KeyError(definition)
    return Schema(definition)


def has_definition(definition: str) -> bool:
    """Whether the definition has patch metadata."""
    return definition in _read_definitions()


def find_definition(resource: Resource) -> str | None:
    """Return the definition of a built-in resource's objects, or None: custom resources have no strategic merge."""
    name = _find_definition_name(resource)
    return name if name in _read_definitions() else None


def merge_keys() -> Mapping[str, Mapping[str, FieldRule]]:
    """Return all definitions with their fields. Fields without directives are absent."""
    return _read_definitions()


def _find_definition_name(resource: Resource) -> str:
    group = resource.group or "core"
    if group == "apiextensions.k8s.io":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{resource.version}.{resource.kind}"
    if "." in group and not group.endswith(".k8s.io"):
        return ""
    return f"io.k8s.api.{group.partition('.')[0]}.{resource.version}.{resource.kind}"


@cache
def _read_definitions() -> Mapping[str, Mapping[str, FieldRule]]:
    raw = read_package_data("pykruise.kube", "merge_keys.json")
    return msgspec.json.decode(raw, type=dict[str, dict[str, FieldRule]])
