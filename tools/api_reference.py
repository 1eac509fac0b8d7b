"""The reference page of the kinds, generated from their definitions: docs/api.md.

crds() ──▶ render_reference() ──▶ Markdown; `python -m tools.api_reference` prints it, and a test compares

The page has every field of the stored version once, with its docstring. Parts that occur in many places (label
selectors, probes, conditions, …) appear there only by name, and a list at the end describes them.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds import build_crds
from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import build_structural_schema
from pykruise.kube.schemas.types import (
    Condition,
    ContainerPort,
    JobCondition,
    LabelSelector,
    NodeSelectorTerm,
    ObjectReference,
    PlainCondition,
    PreferredSchedulingTerm,
    Probe,
    TargetReference,
    Toleration,
)
from pykruise.pods.api import InPlaceUpdateStrategy, PriorityStrategy, ScatterTerm
from pykruise.pods.lifecycle.states import LifecycleHook

__all__ = ["render_reference"]

_NAMED: Final[Mapping[str, type]] = {
    "Condition": Condition,
    "ContainerPort": ContainerPort,
    "InPlaceUpdateStrategy": InPlaceUpdateStrategy,
    "JobCondition": JobCondition,
    "LabelSelector": LabelSelector,
    "LifecycleHook": LifecycleHook,
    "NodeSelectorTerm": NodeSelectorTerm,
    "ObjectReference": ObjectReference,
    "PlainCondition": PlainCondition,
    "PreferredSchedulingTerm": PreferredSchedulingTerm,
    "PriorityStrategy": PriorityStrategy,
    "Probe": Probe,
    "ScatterTerm": ScatterTerm,
    "TargetReference": TargetReference,
    "Toleration": Toleration,
}
"""Types that appear only by name in the fields."""

_SPECS: Final = {
    "spec.template.advancedStatefulSetTemplate.spec": "the spec of a StatefulSet",
    "spec.template.broadcastJobTemplate.spec": "the spec of a BroadcastJob",
    "spec.template.cloneSetTemplate.spec": "the spec of a CloneSet",
    "spec.template.imageListPullJobTemplate.spec": "the spec of an ImageListPullJob",
}
"""Fields that hold the spec of another kind."""

_HEAD: Final = """# The kinds and their fields

`python -m tools.api_reference` generates this page. `kubectl explain` shows the same texts. Fields marked with * are
required. Every object also has `apiVersion`, `kind` and `metadata`.

If a kind has two versions, its objects are by default stored as v1beta1. Some fields exist in only one version. When
a client writes an object in the other version, the annotation `pykruise.io/conversion-<version>` keeps the values of
these fields, and a later read in the first version shows them again, unless the write contradicts them.
"""


def render_reference() -> str:
    """Return the whole page."""
    parts = [_HEAD, *(_describe_kind(crd) for crd in build_crds()), _describe_named_types()]
    return "\n".join(parts)


def _describe_kind(crd: Document) -> str:
    spec = crd["spec"]
    stored = next(version for version in spec["versions"] if version["storage"])
    schema = stored["schema"]["openAPIV3Schema"]
    names = spec["names"]
    facts = [
        f"`{names['plural']}.{spec['group']}`",
        " and ".join(version["name"] for version in spec["versions"]),
        "namespaced" if spec["scope"] == "Namespaced" else "cluster-scoped",
    ]
    if names.get("shortNames"):
        facts.append(f"short names: {', '.join(f'`{name}`' for name in names['shortNames'])}")
    lines = [f"## {names['kind']}", "", schema.get("description", ""), "", "; ".join(facts), ""]
    lines += _format_table(_table_rows(schema["properties"], ("spec", "status")))
    for version in spec["versions"]:
        if version is not stored:
            lines += _list_differences(version, schema)
    return "\n".join(lines)


def _list_differences(version: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Compare an older version with the stored version: fields that only one of them has."""
    here = dict(_list_paths(version["schema"]["openAPIV3Schema"]))
    there = dict(_list_paths(stored))
    lines: list[str] = []
    for title, paths in (
        (f"Only {version['name']}", _find_outermost(here, there)),
        (f"Not in {version['name']}", _find_outermost(there, here)),
    ):
        if paths:
            lines += [f"{title}: {', '.join(f'`{path}`' for path in paths)}.", ""]
    return lines


def _find_outermost(paths: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    missing = [path for path in paths if path not in others]
    return [path for path in missing if not any(path.startswith((f"{top}.", f"{top}[")) for top in missing)]


def _list_paths(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path:
        yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _list_paths(child, f"{path}.{name}" if path else name)
    for below in ("items", "additionalProperties"):
        if isinstance(schema.get(below), dict):
            for name, child in schema[below].get("properties", {}).items():
                yield from _list_paths(child, f"{path}[].{name}")


_Row = tuple[str, str, str]


def _table_rows(properties: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[_Row]:
    for name in names:
        part = properties.get(name) or {}
        yield from _list_fields(part, name)


def _list_fields(schema: Mapping[str, Any], path: str) -> Iterator[_Row]:
    required = schema.get("required") or ()
    for name, child in schema.get("properties", {}).items():
        yield from _describe_field(child, f"{path}.{name}", is_required=name in required)


def _describe_field(schema: Mapping[str, Any], path: str, *, is_required: bool) -> Iterator[_Row]:
    kind, below, marks = _describe_type(schema, path)
    text = schema.get("description", "").replace("\n", " ").replace("|", "\\|")
    if schema.get("default", "") != "":
        text += f" Default: {schema['default']!s}."
    yield f"`{path}{marks}`{'*' if is_required else ''}", kind, text
    if below is not None:
        yield from _list_fields(below, f"{path}{marks}")


def _describe_type(schema: Mapping[str, Any], path: str) -> tuple[str, Mapping[str, Any] | None, str]:
    """Return the name of a field's type, the object whose fields follow (if any), and the marks of lists and maps."""
    if path in _SPECS:
        return _SPECS[path], None, ""
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text", None, ""
    if schema.get("x-kubernetes-embedded-resource") or (schema.get("nullable") and "items" not in schema):
        return "any object", None, ""
    match schema.get("type"):
        case "array":
            name, below, marks = _describe_type(_without_facts_of_merges(schema), "")
            return f"list of {name}", below, f"[]{marks}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            name, below, marks = _describe_type(schema["additionalProperties"], "")
            return f"map of {name}", below, f"{{}}{marks}"
        case "object" if "properties" in schema:
            known = _name_of(schema)
            return (f"[{known}](#{known.lower()})", None, "") if known else ("object", schema, "")
        case "object" | None:
            return "any object", None, ""
        case "string" if schema.get("format") == "date-time":
            return "time", None, ""
        case "string":
            return "text", None, ""
        case "boolean":
            return "true or false", None, ""
        case other:
            return "number" if other in ("integer", "number") else str(other), None, ""


def _without_facts_of_merges(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a list's items. A nullable list is merged by keys: leave out the keys of its items, and
    nested lists that are merged by keys, because these fields only describe the merge.
    """
    items: Mapping[str, Any] = schema["items"]
    if not schema.get("nullable"):
        return items
    keys = schema["x-kubernetes-list-map-keys"]
    own = {
        name: child
        for name, child in items["properties"].items()
        if name not in keys and not child.get("nullable")
    }
    return {**items, "properties": own} if own else {"type": "object"}


def _name_of(schema: Mapping[str, Any]) -> str:
    """Name of the named type that has exactly these fields."""
    fields = frozenset(schema["properties"])
    return _BY_FIELDS.get(fields, "")


_BY_FIELDS: Final = {
    frozenset(build_structural_schema(cls)["properties"]): name for name, cls in _NAMED.items()
}


def _describe_named_types() -> str:
    lines = ["# Types that several kinds use", ""]
    for name, cls in _NAMED.items():
        schema = build_structural_schema(cls)
        lines += [f"## {name}", "", schema.get("description", ""), ""]
        rows = [
            row
            for field, child in schema["properties"].items()
            for row in _describe_field(child, field, is_required=field in schema.get("required", ()))
        ]
        lines += _format_table(iter(rows))
    return "\n".join(lines)


def _format_table(rows: Iterator[_Row]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return ["| field | type | meaning |", "|---|---|---|", *lines, ""] if lines else []


if __name__ == "__main__":
    sys.stdout.write(render_reference())
