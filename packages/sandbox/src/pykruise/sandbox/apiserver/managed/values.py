"""Documents as typed values: their places, the difference between two, and how one is merged into another.

    document + Shape ──▶ collect_fields()               ──▶ the places it sets
    two documents    ──▶ compare()                 ──▶ FieldChanges: added, modified, removed places
    live + applied   ──▶ merge()                   ──▶ the live document with the values of the applied one
    document + set   ──▶ remove()                  ──▶ the document without these places
    document + Shape ──▶ check()                   ──▶ nothing, or InvalidFieldsError

Pure. Arguments are never changed, and results share parts with them. An absent value is `ABSENT`, which is not null.

Same rules as structured-merge-diff's `typed`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet, has_place, show_step
from pykruise.sandbox.apiserver.managed.shapes import FREE, Shape


class _Absent:
    """The value of an absent place."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
_LEAF: Final[FieldSet] = {}
_ITEM_KEYS = orjson.OPT_SORT_KEYS


class InvalidFieldsError(ValueError):
    """A document that does not have its shape. The message has one line per place."""


class FieldChanges(NamedTuple):
    """Difference between a document and an earlier document."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


# --- places of a document ----------------------------------------


def collect_fields(value: Any, shape: Shape) -> FieldSet:
    """Return the places that a document sets: its leaves, and the items of its lists."""
    return _compute_fields(value, shape, member=False)


def _compute_fields(value: Any, shape: Shape, *, member: bool) -> FieldSet:
    if isinstance(value, dict) and shape.kind in ("object", "free") and not shape.atomic:
        free = shape.kind == "free"
        names = shape.list_fields()
        children = {}
        for name, each in value.items():
            sub = FREE if free else shape.find_field(name) or FREE
            own = each is None or each == {} or free or name not in names
            fields = _compute_fields(each, sub, member=own)
            if fields is not EMPTY:
                children[f"f:{name}"] = fields
        return _build_node(member, children)
    if isinstance(value, list) and shape.kind == "list" and not shape.atomic:
        item = shape.find_item() or FREE
        return _build_node(
            member,
            {
                step: _compute_fields(each, item, member=True)
                for step, each in _iterate_with_steps(value, shape)
            },
        )
    if value is None and shape.kind in ("object", "list") and not shape.atomic:
        return _LEAF if member else EMPTY
    return _LEAF


def _build_node(member: bool, children: FieldSet) -> FieldSet:
    if not children:
        return _LEAF if member else EMPTY
    if member:
        children["."] = _LEAF
    return children


def _iterate_with_steps(items: Sequence[Any], shape: Shape) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list that can have several owners, each with the step that leads to it."""
    for item in items:
        yield step_of(item, shape), item


def step_of(item: Any, shape: Shape) -> str:
    """Return the step to an item. Raises InvalidFieldsError when the item lacks its keys."""
    if shape.keys is None:
        if isinstance(item, dict | list):
            raise InvalidFieldsError("associative list of type set: items must be scalars")
        return f"v:{orjson.dumps(item).decode()}"
    if not isinstance(item, dict):
        raise InvalidFieldsError("associative list with keys has an element that can't be a map type")
    keys: dict[str, Any] = {}
    for name, default in shape.keys:
        value = item.get(name, default)
        if value is not None:
            keys[name] = value
        elif len(shape.keys) == 1:
            raise InvalidFieldsError(
                f'associative list with keys has an element that omits key field "{name}" '
                "(and doesn't have default value)"
            )
    if not keys:
        raise InvalidFieldsError("associative list with keys has an element that omits all key fields")
    return f"k:{orjson.dumps(keys, option=_ITEM_KEYS).decode()}"


# --- differences between two documents ----------------------------------------


def compare(old: Any, new: Any, shape: Shape) -> FieldChanges:
    """Return the places that a change adds, modifies and removes. Equal parts are not walked."""
    return _compare(old, new, shape)


_NOTHING: Final = FieldChanges(EMPTY, EMPTY, EMPTY)
_ADDED: Final = FieldChanges(_LEAF, EMPTY, EMPTY)
_MODIFIED: Final = FieldChanges(EMPTY, _LEAF, EMPTY)
_REMOVED: Final = FieldChanges(EMPTY, EMPTY, _LEAF)


def _compare(old: Any, new: Any, shape: Shape) -> FieldChanges:
    if old is new or (old == new and type(old) is type(new)):
        return _NOTHING
    return _compare_unequal_values(old, new, shape)


def _compare_unequal_values(old: Any, new: Any, shape: Shape) -> FieldChanges:
    """Difference between values that are not equal."""
    try:
        if old is ABSENT:
            return FieldChanges(_build_all_places(new, shape), EMPTY, EMPTY)
        if new is ABSENT:
            return FieldChanges(EMPTY, EMPTY, _build_all_places(old, shape))
    except InvalidFieldsError:
        return _ADDED if old is ABSENT else _REMOVED
    if _is_split(shape, old) or _is_split(shape, new):
        if _fits(old, dict) and _fits(new, dict) and shape.kind != "list":
            return _compare_maps(old, new, shape)
        if _fits(old, list) and _fits(new, list) and shape.kind == "list":
            return _compare_lists(old, new, shape)
    return _ADDED if old is ABSENT else _REMOVED if new is ABSENT else _MODIFIED


def _build_all_places(value: Any, shape: Shape) -> FieldSet:
    """All places of a value that was added or removed."""
    kind = shape.kind
    if kind == "scalar" or not value or shape.atomic:
        return _LEAF
    if isinstance(value, dict) and kind != "list":
        result = {".": _LEAF}
        names = shape.list_fields()
        for name, each in value.items():
            sub = names.get(name) or (FREE if kind == "free" else shape.find_item() or FREE)
            result["f:" + name] = _LEAF if sub.kind == "scalar" else _build_all_places(each, sub)
        return result
    if isinstance(value, list) and kind == "list":
        return shape.remember(value, partial(_build_all_item_places, value, shape))
    return _LEAF


def _build_all_item_places(value: list[Any], shape: Shape) -> FieldSet:
    item = shape.find_item() or FREE
    result = {".": _LEAF}
    for step, each in _iterate_with_steps(value, shape):
        # Items with the same step are one place.
        result[step] = _LEAF if step in result else _build_all_places(each, item)
    return result


def _is_split(shape: Shape, value: Any) -> bool:
    """Whether the parts of the value have their own owners."""
    if shape.atomic or not value:
        return False
    if isinstance(value, dict):
        return shape.kind in ("object", "free")
    return isinstance(value, list) and shape.kind == "list"


def _fits(value: Any, kind: type) -> bool:
    return value is None or value is ABSENT or isinstance(value, kind)


def _compare_maps(old: Any, new: Any, shape: Shape) -> FieldChanges:
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    is_object = shape.kind == "object"
    parts: list[tuple[str, FieldChanges]] = []
    for name, value in after.items():
        earlier = before.get(name, ABSENT)
        if earlier is value or (earlier == value and type(earlier) is type(value)):
            continue
        sub = (shape.find_field(name) or FREE) if is_object else FREE
        if sub.kind == "scalar":
            parts.append((f"f:{name}", _ADDED if earlier is ABSENT else _MODIFIED))
            continue
        maps = _compare_unequal_values(earlier, value, sub)
        if maps is not _NOTHING:
            parts.append((f"f:{name}", maps))
    for name, value in before.items():
        if name not in after:
            sub = (shape.find_field(name) or FREE) if is_object else FREE
            parts.append((f"f:{name}", _compare(value, ABSENT, sub)))
    return _gather_changes(old, new, parts)


def _compare_lists(old: Any, new: Any, shape: Shape) -> FieldChanges:
    try:
        before = _group_by_step(old if isinstance(old, list) else (), shape)
        after = _group_by_step(new if isinstance(new, list) else (), shape)
    except InvalidFieldsError:
        return _MODIFIED
    item = shape.find_item() or FREE
    parts: list[tuple[str, FieldChanges]] = []
    for step, values in after.items():
        lists = _compare_items(before.get(step, []), values, item)
        if lists is not _NOTHING:
            parts.append((step, lists))
    for step, values in before.items():
        if step not in after:
            parts.append((step, _compare_items(values, [], item)))
    return _gather_changes(old, new, parts)


def _group_by_step(items: Sequence[Any], shape: Shape) -> dict[str, list[Any]]:
    result: dict[str, list[Any]] = {}
    for step, item in _iterate_with_steps(items, shape):
        result.setdefault(step, []).append(item)
    return result


def _compare_items(old: list[Any], new: list[Any], item: Shape) -> FieldChanges:
    """Compare the items that have the same step. If a list has several such items, they are compared as one place."""
    if len(old) <= 1 and len(new) <= 1:
        return _compare(old[0] if old else ABSENT, new[0] if new else ABSENT, item)
    if old == new:
        return _NOTHING
    return _ADDED if not old else _REMOVED if not new else _MODIFIED


def _gather_changes(old: Any, new: Any, parts: list[tuple[str, FieldChanges]]) -> FieldChanges:
    if not parts and old is not ABSENT and new is not ABSENT:
        return _NOTHING
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for step, result in parts:
        if result.added is not EMPTY:
            added[step] = result.added
        if result.modified is not EMPTY:
            modified[step] = result.modified
        if result.removed is not EMPTY:
            removed[step] = result.removed
    return FieldChanges(
        _build_node(old is ABSENT, added),
        modified or EMPTY,
        _build_node(new is ABSENT and old is not ABSENT, removed),
    )


# --- merging ----------------------------------------


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """Merge the applied value into the live value. Lists that can have several owners are merged item by item."""
    if applied is ABSENT:
        return live
    if live is ABSENT or live is None:
        return applied
    if shape.atomic:
        return applied
    if isinstance(applied, dict) and isinstance(live, dict) and shape.kind in ("object", "free"):
        merged = dict(live)
        for name, value in applied.items():
            sub = FREE if shape.kind == "free" else shape.find_field(name) or FREE
            merged[name] = merge(live.get(name, ABSENT), value, sub)
        return merged
    if isinstance(applied, list) and isinstance(live, list) and shape.kind == "list":
        return _merge_lists(live, applied, shape)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """Merge two lists. The result keeps the orders of both lists, or only the order of the applied list if the two
    contradict each other.
    """
    left = list(_iterate_with_steps(live, shape))
    right = list(_iterate_with_steps(applied, shape))
    lefts, rights = dict(reversed(left)), dict(right)
    shared = [step for step, _ in right if step in lefts]
    item = shape.find_item() or FREE
    out: list[Any] = []
    done: set[str] = set()
    wanted = 0
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            step = left[i][0]
            if step == right[j][0]:
                done.add(step)
                out.append(merge(lefts[step], rights[step], item))
                i, j, wanted = i + 1, j + 1, wanted + 1
                continue
            if step in rights and wanted < len(shared) and shared[wanted] != step:
                i += 1
                continue
        if i < len(left):
            step, value = left[i]
            if step not in rights:
                out.append(value)
                i += 1
                continue
            if step in done:
                i += 1
        if j < len(right):
            step, value = right[j]
            done.add(step)
            out.append(merge(lefts.get(step, ABSENT), value, item))
            j += 1
            if wanted < len(shared) and shared[wanted] == step:
                wanted += 1
    return out


# --- removing ----------------------------------------


def remove(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """Return the value without the places of the set and without everything below these places."""
    if fields is EMPTY or shape.atomic or not value:
        return value
    if isinstance(value, dict) and shape.kind in ("object", "free"):
        kept = {}
        for name, each in value.items():
            node = fields.get(f"f:{name}")
            if node is None:
                kept[name] = each
            elif not has_place(node):
                sub = FREE if shape.kind == "free" else shape.find_field(name) or FREE
                kept[name] = remove(each, node, sub)
        return kept or None
    if isinstance(value, list) and shape.kind == "list":
        item = shape.find_item() or FREE
        left = []
        for step, each in _iterate_with_steps(value, shape):
            node = fields.get(step)
            if node is None:
                left.append(each)
            elif not has_place(node):
                left.append(remove(each, node, item))
        return left or None
    return value


def add_named_fields(fields: FieldSet, shape: Shape) -> FieldSet:
    """Add to the set every field on the path to a member of the set, if the field is a named field of an object."""
    if fields is EMPTY or not fields:
        return fields
    children: FieldSet = {}
    for step, node in fields.items():
        if step == ".":
            children[step] = node
            continue
        below = FREE
        is_named = False
        if step.startswith("f:") and shape.kind == "object":
            name = step[2:]
            is_named = name in shape.list_fields()
            below = shape.find_field(name) or FREE
        elif shape.kind == "list":
            below = shape.find_item() or FREE
        result = add_named_fields(node, below)
        if is_named and result and "." not in result:
            result = {**result, ".": _LEAF}
        children[step] = result
    return children


# --- checking ----------------------------------------


def check(value: Any, shape: Shape) -> None:
    """Raise InvalidFieldsError when the value does not have the shape."""
    result = list(_find_errors(value, shape, ""))
    if result:
        raise InvalidFieldsError(
            result[0] if len(result) == 1 else "errors:\n" + "\n".join(f"  {e}" for e in result)
        )


def _find_errors(value: Any, shape: Shape, path: str) -> Iterator[str]:
    if value is None or shape.kind == "free":
        return
    if shape.kind == "scalar":
        if not _is_scalar(value, shape.scalar):
            wanted = _SCALARS_CALLED[shape.scalar]
            yield f"{path}: expected {wanted}, got {_describe_value(value)}"
    elif shape.kind == "object":
        if not isinstance(value, Mapping):
            yield f"{path}: expected map, got &{{{_format_in_go(value)}}}"
            return
        for name, each in value.items():
            sub = shape.find_field(name)
            if sub is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from _find_errors(each, sub, f"{path}.{name}")
    elif not isinstance(value, list):
        yield f"{path}: expected list, got &{{{_format_in_go(value)}}}"
    else:
        yield from _list_errors(value, shape, path)


def _list_errors(value: list[Any], shape: Shape, path: str) -> Iterator[str]:
    item = shape.find_item() or FREE
    seen: set[str] = set()
    for index, each in enumerate(value):
        here = f"{path}[{index}]"
        if not shape.atomic:
            try:
                step = step_of(each, shape)
            except InvalidFieldsError as err:
                yield f"{path}: element {index}: {err}"
                continue
            here = f"{path}{show_step(step)}"
            if step in seen:
                yield f"{path}: duplicate entries for key {show_step(step)}"
            seen.add(step)
        yield from _find_errors(each, item, here)


_SCALARS_CALLED: Final = {
    "": "scalar",
    "boolean": "boolean",
    "numeric": "numeric (int or float)",
    "string": "string",
}


def _is_scalar(value: Any, wanted: str) -> bool:
    match wanted:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "numeric":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return not isinstance(value, dict | list)


def _describe_value(value: Any) -> str:
    """Format a value as structured-merge-diff does, in Go's notation."""
    if isinstance(value, dict | list):
        return f"&{{{_format_in_go(value)}}}"
    shown = quote_text(value) if isinstance(value, str) else _format_in_go(value)
    return f"&value.valueUnstructured{{Value:{shown}}}"


def _format_in_go(value: Any) -> str:
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_format_in_go(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(_format_in_go(each) for each in value)}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
        case _:
            return str(value)
