"""Pruning: removes from a document the fields that its schema does not have, and meaningless nulls.

a schema node ──▶ compile_prune() ──▶ Prune: changes a value in place, and lists the paths it dropped
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.sandbox.apiserver.schemas.paths import Path, Schema, show

Prune = Callable[[Any, Path, list[str]], None]


_TYPE_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_OBJECT_META: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def _prune_all(value: Any, path: Path, dropped: list[str]) -> None:
    """Drop all keys of a value that has no schema, such as a value below `additionalProperties: true`."""
    if type(value) is dict:
        dropped.extend(show((path, key)) for key in value)
        value.clear()
    elif type(value) is list:
        for index, item in enumerate(value):
            _prune_all(item, (path, index), dropped)


def compile_prune(node: Schema | None, *, root: bool = False) -> Prune | None:
    """Compile the removal of unknown keys and null values; None when there is nothing to remove at any depth."""
    if node is None:
        return _prune_all
    is_open = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    embedded = root or bool(node.get("x-kubernetes-embedded-resource"))
    subs: Mapping[str, Schema] = node.get("properties") or {}
    properties = {name: compile_prune(sub) for name, sub in subs.items()}
    droppable_nulls = {name for name, sub in subs.items() if _drops_null(sub)}
    extra = node.get("additionalProperties")
    has_extra = extra is not None and extra is not False
    prune_extra = compile_prune(extra if isinstance(extra, Mapping) else None) if has_extra else None
    extra_drops_null = isinstance(extra, Mapping) and _drops_null(extra)
    items = node.get("items")
    prune_item = compile_prune(items) if isinstance(items, Mapping) else None if is_open else _prune_all
    acts = any(properties.values()) or prune_extra or prune_item or droppable_nulls or extra_drops_null
    if not acts and not embedded and (is_open or node.get("type") != "object" or has_extra):
        return None

    def prune(value: Any, path: Path, dropped: list[str]) -> None:
        if type(value) is list:
            if prune_item:
                for index, item in enumerate(value):
                    prune_item(item, (path, index), dropped)
            return
        if type(value) is not dict:
            return
        gone: list[str] = []
        for key, item in value.items():
            if embedded and key in _TYPE_META:
                if key == "metadata" and not root:
                    _prune_object_meta(item, (path, key), dropped)
            elif key in properties:
                if item is None and key in droppable_nulls:
                    gone.append(key)
                elif prune_property := properties[key]:
                    prune_property(item, (path, key), dropped)
            elif has_extra:
                if item is None and extra_drops_null:
                    gone.append(key)
                elif prune_extra:
                    prune_extra(item, (path, key), dropped)
            elif not is_open:
                gone.append(key)
                dropped.append(show((path, key)))
        for key in gone:
            del value[key]

    return prune


def _drops_null(node: Schema) -> bool:
    return not node.get("nullable") and node.get("default") is None


def _prune_object_meta(value: Any, path: Path, dropped: list[str]) -> None:
    if type(value) is not dict:
        return
    for key in [key for key in value if key not in _OBJECT_META]:
        dropped.append(show((path, key)))
        del value[key]
