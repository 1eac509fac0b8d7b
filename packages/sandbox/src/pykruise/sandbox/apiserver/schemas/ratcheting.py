"""Ratcheting: the server ignores an error of an update in a part that the update does not change.

path of the error + both documents ──▶ is_unchanged() ──▶ whether the part around it is the same in both
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.sandbox.apiserver.schemas.paths import Path, Schema, make_identity, steps_of


def is_unchanged(path: Path, new: Any, old: Any, node: Schema | None) -> bool:
    """Whether a part that contains `path` is the same in both documents."""
    for step in steps_of(path):
        if isinstance(step, int):
            old = _find_counterpart(new, step, old, node)
            new = new[step] if step < len(new) else None
            node = (node or {}).get("items")
        else:
            if not isinstance(new, dict) or step not in new or not isinstance(old, dict) or step not in old:
                return False
            new, old = new[step], old[step]
            node = _find_child_schema(node, step)
        if old is _NOTHING:
            return False
        if _is_equal(new, old, node):
            return True
    return False


def _is_equal(new: Any, old: Any, node: Schema | None) -> bool:
    """Whether two values are equal; in lists of type map the order is ignored."""
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(
            _is_equal(item, old[key], _find_child_schema(node, key)) for key, item in new.items()
        )
    if isinstance(new, list) and isinstance(old, list):
        if len(new) != len(old):
            return False
        items = (node or {}).get("items")
        if (node or {}).get("x-kubernetes-list-type") != "map":
            return all(_is_equal(value, other, items) for value, other in zip(new, old, strict=True))
        others = [_find_counterpart(new, index, old, node) for index in range(len(new))]
        return all(
            other is not _NOTHING and _is_equal(value, other, items)
            for value, other in zip(new, others, strict=True)
        )
    return bool(make_identity(new) == make_identity(old))


_NOTHING: Final = object()


def _find_child_schema(node: Schema | None, key: str) -> Schema | None:
    child = ((node or {}).get("properties") or {}).get(key, (node or {}).get("additionalProperties"))
    return child if isinstance(child, Mapping) else None


def _find_counterpart(new: Sequence[Any], index: int, old: Any, node: Schema | None) -> Any:
    """The item of the old list with the same map keys. Only lists of type map have such keys."""
    keys = (node or {}).get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(new[index], dict):
        return _NOTHING
    wanted = [make_identity(new[index].get(key)) for key in keys]
    for item in old:
        if isinstance(item, dict) and [make_identity(item.get(key)) for key in keys] == wanted:
            return item
    return _NOTHING
