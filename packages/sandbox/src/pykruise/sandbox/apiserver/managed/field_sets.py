"""Sets of fields, in the form in which managedFields show them (`FieldsV1`).

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}}}}

A set is a tree of dicts. A step is `f:` with a field's name, `k:` with the keys of a list's item, or `v:` with an
item's value. A place is a path of steps from the root. It is in the set when its node is empty or contains `.`.
`EMPTY` is the empty set; in any other set, each node has at least one place. Sets are never changed after they are
built, because they share parts.

Same rules as structured-merge-diff's `fieldpath`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from pykruise.kube.values.go_text import quote_text

FieldSet = dict[str, Any]
"""The node of a set. `EMPTY` (by identity) is the empty set; any other empty dict is a place without places below it.
"""

EMPTY: Final[FieldSet] = {"": None}
_LEAF: Final[FieldSet] = {}
_SELF: Final = "."


def has_place(node: FieldSet) -> bool:
    """Whether the set contains the place of the node itself."""
    return not node or _SELF in node


def _build_node(member: bool, children: FieldSet) -> FieldSet:
    """Build a node from these children. May change and return `children`."""
    if not children:
        return _LEAF if member else EMPTY
    if member:
        children[_SELF] = _LEAF
    return children


def unite_sets(entry: FieldSet, other: FieldSet) -> FieldSet:
    """Fields in at least one of the two sets."""
    if entry is EMPTY or entry is other:
        return other
    if other is EMPTY:
        return entry
    children = {step: node for step, node in entry.items() if step != _SELF}
    for step, node in other.items():
        if step != _SELF:
            mine = children.get(step)
            children[step] = node if mine is None else unite_sets(mine, node)
    return _build_node(has_place(entry) or has_place(other), children)


def subtract_sets(entry: FieldSet, other: FieldSet) -> FieldSet:
    """Fields in the first set and not in the second, place by place: a place is independent of the places below it."""
    if entry is EMPTY or other is EMPTY:
        return entry
    children = {}
    for step, node in entry.items():
        if step != _SELF:
            theirs = other.get(step)
            left = node if theirs is None else subtract_sets(node, theirs)
            if left is not EMPTY:
                children[step] = left
    return _build_node(has_place(entry) and not has_place(other), children)


def intersect_sets(entry: FieldSet, other: FieldSet) -> FieldSet:
    """Fields in both sets."""
    if entry is EMPTY or other is EMPTY:
        return EMPTY
    children = {}
    for step, node in entry.items():
        if step != _SELF and (theirs := other.get(step)) is not None:
            both = intersect_sets(node, theirs)
            if both is not EMPTY:
                children[step] = both
    return _build_node(has_place(entry) and has_place(other), children)


def drop_places(fields: FieldSet, dropped: FieldSet) -> FieldSet:
    """The set without these places and without the places below them."""
    if fields is EMPTY or dropped is EMPTY:
        return fields
    if has_place(dropped):
        return EMPTY
    children = {}
    for step, node in fields.items():
        if step != _SELF:
            left = drop_places(node, dropped[step]) if step in dropped else node
            if left is not EMPTY:
                children[step] = left
    return _build_node(has_place(fields), children)


def list_paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Yield the places of the set as text (`.spec.containers[name="a"].image`), in the order of their steps."""
    if fields is EMPTY:
        return
    if has_place(fields) and prefix:
        yield prefix
    for step in sorted(fields, key=_sort_key):
        if step != _SELF:
            yield from list_paths(fields[step], prefix + show_step(step))


def _sort_key(step: str) -> tuple[int, str]:
    return ("fkvi".find(step[:1]), step)


def show_step(step: str) -> str:
    """Format a step for a message."""
    kind, _, rest = step.partition(":")
    match kind:
        case "f":
            return f".{rest}"
        case "k":
            keys = orjson.loads(rest)
            return f"[{','.join(f'{name}={_format_value(keys[name])}' for name in sorted(keys))}]"
        case "v":
            return f"[={_format_value(orjson.loads(rest))}]"
        case _:
            return f"[{rest}]"


def _format_value(value: Any) -> str:
    return quote_text(value) if isinstance(value, str) else orjson.dumps(value).decode()


def is_field_set(value: Any) -> bool:
    """Whether a value from a client has the form of a set."""
    if not isinstance(value, Mapping):
        return False
    return all(_is_step(step) and is_field_set(node) for step, node in value.items())


def _is_step(step: str) -> bool:
    if step == _SELF or step.startswith("f:"):
        return True
    if step[:2] not in ("k:", "v:", "i:"):
        return False
    try:
        result = orjson.loads(step[2:])
    except orjson.JSONDecodeError:
        return False
    return isinstance(result, dict) if step[0] == "k" else step[0] == "v" or isinstance(result, int)
