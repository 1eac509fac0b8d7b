"""Strategic merge patches: Kubernetes' own merge, which knows the keys of the lists of built-in kinds.

document + patch, definition ──▶ apply_strategic_merge() ──▶ document
old + new, definition        ──▶ diff_strategic()        ──▶ patch

The cost of each step is linear in the length of its lists: items are found through an index of their keys.

Pure; inputs are not changed and share nothing mutable with the result, unless the caller passes `uses_up`.

Maps merge, null deletes, lists are replaced unless their field says `merge`: then items are matched by their merge
key (objects) or by value (scalars). Directives inside a patch:

`$patch: replace | delete`         in a map: take the rest of the patch as the whole value, or empty the map;
                                   in a list item: replace the whole list, or delete the item with this key
`$retainKeys: [..]`                drop every field of the original that is not named
`$setElementOrder/<list>: [..]`    order of a merged list: these items first, in this relative order
`$deleteFromPrimitiveList/<list>`  scalars to remove from a list

Fields that the merge metadata does not know (of a newer Kubernetes, free-form content) merge as plain JSON. The order
of merged lists and the messages are those of the API server.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pykruise.kube.documents import Document, deep_copy, is_same
from pykruise.kube.patches.errors import PatchError
from pykruise.kube.patches.schemas import FieldRule, Schema, has_definition
from pykruise.kube.values.go_text import LONGEST_EXCERPT, excerpt, format_shown, name_go_type, quote_text

__all__ = ["apply_strategic_merge", "diff_strategic"]

_ABSENT = object()
_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder"
_DELETE_FROM_LIST = "$deleteFromPrimitiveList"

_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_DELETE = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"


def apply_strategic_merge(
    doc: Mapping[str, Any], patch: Mapping[str, Any], *, definition: str, uses_up: bool = False
) -> Document:
    """Return the document after the patch; `definition` is a key of merge_keys.json (see `find_definition`).

    `uses_up`: only the caller uses the document, so it does not have to be copied. Nulls and directives of the patch
    never reach the result; those of the document itself stay. Raises PatchError on a malformed directive, a list item
    without its merge key, lists of mixed types, or a kind without merge metadata (custom resources).
    """
    if not isinstance(patch, Mapping):
        raise PatchError("invalid JSON document")
    if not has_definition(definition):
        raise PatchError("strategic merge patch format is not supported")
    own = doc if uses_up and isinstance(doc, dict) else deep_copy(doc)
    return _merge_map(own, deep_copy(patch), Schema(definition))


def diff_strategic(old: Mapping[str, Any], new: Mapping[str, Any], *, definition: str) -> Document:
    """Return the smallest strategic merge patch that changes `old` into `new`; empty when they are equal.

    Merged lists are patched item by item; a `$setElementOrder` is added only when the order would be wrong without it.
    A null in `new` counts as absent: a patch cannot store one. Raises PatchError when no such patch exists: `new`
    contains a directive, a merged list of scalars with duplicates, or an item without its merge key (no API server
    stores these).
    """
    if not has_definition(definition):
        raise PatchError("strategic merge patch format is not supported")
    return _diff_map(old, new, Schema(definition))


# --- apply: every function owns the values it is given ---


def _merge_map(original: Document, patch: Document, schema: Schema) -> Document:
    if _PATCH in patch:
        return _apply_map_directive(patch)
    _retain_keys(original, patch)
    _merge_ordered_lists(original, patch, schema)
    for name, change in patch.items():
        if name.startswith(_DELETE_FROM_LIST):
            _delete_from_list(original, _parse_directive_field(name, _DELETE_FROM_LIST, _BAD_DELETE), change)
        elif change is None:
            original.pop(name, None)
        else:
            _merge_field(original, name, change, schema.find_field_rule(name))
    return original


def _apply_map_directive(patch: Document) -> Document:
    match patch.pop(_PATCH):
        case "replace":
            return _drop_map_directives(patch)
        case "delete":
            return {}
        case directive:
            raise _make_directive_error(directive, patch)


def _merge_field(original: Document, name: str, change: Any, rule: FieldRule) -> None:
    before = original.get(name)
    if isinstance(before, dict) and isinstance(change, dict) and not rule.replaces_map:
        original[name] = _merge_map(before, change, rule.value_schema)
    elif isinstance(before, list) and isinstance(change, list) and rule.merges_list:
        original[name] = _merge_list(before, change, rule)
    elif (
        isinstance(change, dict) and _PATCH in change and not (isinstance(before, dict) and rule.replaces_map)
    ):
        # Where the document has no map, any directive removes the field, even `replace`.
        original.pop(name, None)
    else:
        original[name] = _to_plain(change)


def _merge_list(original: list[Any], patch: list[Any], rule: FieldRule) -> list[Any]:
    if not original and not patch:
        return original
    key = rule.patch_merge_key
    if not _is_list_of_maps(original, patch):
        merged = _remove_duplicates([*original, *patch])
        return _order_items(merged, given=patch, live=original, key=key)
    if not key:
        raise PatchError("cannot merge lists without merge key for struct", code=500)
    original, patch = _apply_item_directives(original, patch, key)
    merged = _merge_items(original, patch, key, rule.value_schema)
    return _order_items(merged, given=patch, live=original, key=key)


def _apply_item_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Return the lists that remain to be merged after the `$patch` items: the base list, and the plain items."""
    plain, replace = [], False
    deleted: set[tuple[type, Any]] = set()
    for item in patch:
        match item.get(_PATCH):
            case None if _PATCH not in item:
                plain.append(item)
            case "delete":
                deleted.add(_read_identity(item, key))
            case "replace":
                replace = True
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch", code=500)
            case directive:
                raise _make_directive_error(directive, item)
    if replace:
        return [_drop_map_directives(item) for item in plain], []
    if deleted:
        original = [item for item in original if _find_identity(item, key) not in deleted]
    return original, plain


def _merge_items(original: list[Any], patch: list[Any], key: str, schema: Schema) -> list[Any]:
    merged = list(original)
    places: dict[tuple[type, Any] | None, int] = {}
    for place, item in enumerate(original):
        places.setdefault(_find_identity(item, key), place)
    for item in patch:
        identity = _read_identity(item, key)
        at = places.get(identity)
        if at is None:
            places[identity] = len(merged)
            merged.append(_drop_map_directives(item))
        else:
            merged[at] = _merge_map(merged[at], item, schema)
    return merged


def _retain_keys(original: Document, patch: Document) -> None:
    if _RETAIN_KEYS not in patch:
        return
    keep = patch.pop(_RETAIN_KEYS)
    if not isinstance(keep, list):
        raise PatchError(_BAD_RETAIN_KEYS)
    kept = {name for name in keep if isinstance(name, str)}
    for name, change in patch.items():
        directive = name.startswith((_DELETE_FROM_LIST, _ORDER))
        if change is not None and not directive and name not in kept:
            raise PatchError(_BAD_RETAIN_KEYS)
    for name in original.keys() - kept:
        del original[name]


def _merge_ordered_lists(original: Document, patch: Document, schema: Schema) -> None:
    """Apply `$setElementOrder/x` together with the change of `x` itself, and remove both from the patch."""
    for directive in [name for name in patch if name.startswith(_ORDER)]:
        order = _as_list(patch.pop(directive))
        name = _parse_directive_field(directive, _ORDER, _BAD_ORDER)
        before = None if original.get(name) is None else _as_list(original[name])
        change = _as_list(patch.pop(name)) if name in patch else None
        rule = schema.find_field_rule(name)
        key = rule.patch_merge_key
        _check_order(change or [], order, key)
        if change is None and before is None:
            continue
        if before is None:
            merged = _drop_list_directives(change or [])
        elif change is None:
            merged = before
        else:
            merged = _merge_list(before, change, rule) if rule.merges_list else _drop_list_directives(change)
        if not before and not change:
            raise PatchError("no elements in any of the given slices", code=500)
        live = _list_live_order(before or [], merged, change or [], key)
        original[name] = _order_items(merged, given=order, live=live, key=key)


def _check_order(change: list[Any], order: list[Any], key: str) -> None:
    """Check that the items of a patch, except deletions, are in the order list, in the same order."""
    if not change or not order:
        return
    items = [item for item in change if not key or _to_map(item).get(_PATCH) != "delete"]
    at = place = 0
    while at < len(items) and place < len(order):
        if isinstance(items[at], dict) and _PATCH in items[at]:
            at += 1
            continue
        at += _read_identity(items[at], key) == _read_identity(order[place], key)
        place += 1
    if at < len(items) and place >= len(order):
        raise PatchError(
            f"The order in patch list:\n{_shorten(change)}\n doesn't match {_ORDER} list:\n{_shorten(order)}\n",
            code=500,
        )


def _list_live_order(before: list[Any], merged: list[Any], change: list[Any], key: str) -> list[Any]:
    """Return the order of the live list with which a `$setElementOrder` is interleaved.

    New items take the places that deletions freed at the end of the list, as on the API server. So if a container
    replaces another one that was after an injected container, it is after the injected container too.
    """
    known, kept = _find_positions(before, key), _find_positions(merged, key)
    survivors = [item for item in before if _read_identity(item, key) in kept]
    plain = (item for item in change if not (isinstance(item, dict) and _PATCH in item))
    added = [item for item in plain if _read_identity(item, key) not in known]
    return [*survivors, *added][: len(before)]


def _delete_from_list(original: Document, name: str, gone: Any) -> None:
    before = original.get(name)
    if gone is None:
        original.pop(name, None)
    elif isinstance(before, list) and isinstance(gone, list) and (before or gone):
        if _is_list_of_maps(before, gone):
            raise PatchError("cannot merge lists without merge key for struct", code=500)
        deleted = {(type(item), item) for item in gone}
        original[name] = [item for item in before if (type(item), item) not in deleted]


# --- order of merged lists ---


def _order_items(merged: list[Any], *, given: Sequence[Any], live: Sequence[Any], key: str) -> list[Any]:
    """Return `merged` in the API server's order.

    Items in `given` (the patch, or its $setElementOrder) have the order of `given`; all other items keep the order of
    `live`. The two sequences are interleaved: another item precedes the next item of `given` only if it precedes that
    item in `live`.
    """
    given_at, live_at = _find_positions(given, key), _find_positions(live, key)
    last = len(given) + len(live)
    known = [(_read_identity(item, key), item) for item in merged]
    ours = deque(sorted((item for item in known if item[0] in given_at), key=lambda item: given_at[item[0]]))
    others = deque(
        sorted(
            (item for item in known if item[0] not in given_at), key=lambda item: live_at.get(item[0], last)
        )
    )
    ordered: list[Any] = []
    while ours and others:
        first, other = live_at.get(ours[0][0]), live_at.get(others[0][0])
        goes_first = first is not None and other is not None and other < first
        ordered.append((others if goes_first else ours).popleft()[1])
    return [*ordered, *(item for _, item in ours), *(item for _, item in others)]


def _find_positions(items: Iterable[Any], key: str) -> dict[Any, int]:
    """Return the first position of each item, by identity."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(_read_identity(item, key), place)
    return places


def _read_identity(item: Any, key: str) -> tuple[type, Any]:
    """Return the identity of a list item: the value of the merge key, or the scalar itself; 1 is not `true`."""
    value = _read_key_value(item, key) if key else item
    kind = type(value)
    if kind is str:
        return kind, value
    if isinstance(value, list):
        raise PatchError("lists of lists are not supported", code=422)
    if isinstance(value, dict):
        raise PatchError(f"map: {_shorten(value)} does not contain declared merge key: {key}", code=500)
    return kind, value


def _find_identity(item: Any, key: str) -> tuple[type, Any] | None:
    """Return the identity of an item of the document; None without a usable merge key."""
    value = _to_map(item).get(key, _ABSENT)
    return None if value is _ABSENT or isinstance(value, (list, dict)) else (type(value), value)


# --- small questions about items and values ---


def _read_key_value(item: Any, key: str) -> Any:
    if type(item) is dict and key in item:
        return item[key]
    if key not in _to_map(item):
        raise PatchError(f"map: {_shorten(item)} does not contain declared merge key: {key}", code=500)
    return item[key]


def _to_map(item: Any) -> Document:
    if not isinstance(item, dict):
        raise PatchError(
            f"expected a map[string]interface {{}}, but received a {name_go_type(item)}", code=500
        )
    return item


def _shorten(value: Any) -> str:
    """Return a value of a user, shortened for a message."""
    return excerpt(format_shown(value), 8 * LONGEST_EXCERPT)


def _remove_duplicates(items: Iterable[Any]) -> list[Any]:
    result: dict[Any, Any] = {}
    for item in items:
        result.setdefault((type(item), item), item)
    return list(result.values())


def _is_list_of_maps(*lists: list[Any]) -> bool:
    """Whether the lists to merge contain maps, not scalars. Mixed lists are rejected."""
    types = {type(item) for items in lists for item in items}
    if list in types:
        raise PatchError("lists of lists are not supported", code=422)
    if len(types) > 1:
        raise PatchError(f"list element types are not identical: {_shorten(lists)}", code=500)
    return dict in types


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(f"expected a []interface {{}}, but received a {name_go_type(value)}", code=500)
    return value


def _parse_directive_field(directive: str, prefix: str, message: str) -> str:
    """Return `x` of `$setElementOrder/x`."""
    start, slash, name = directive.partition("/")
    if not slash or start != prefix:
        raise PatchError(message)
    return name


def _make_directive_error(directive: Any, patch: Mapping[str, Any]) -> PatchError:
    return PatchError(
        f"unknown patch type: {_shorten(directive)} in map: {_shorten({_PATCH: directive, **patch})}",
        code=500,
    )


def _to_plain(value: Any) -> Any:
    """Return a value of the patch in the form in which it is stored: without nulls in maps, and without directives."""
    if isinstance(value, dict):
        return _drop_map_directives(value)
    if isinstance(value, list):
        return _drop_list_directives(value)
    return value


def _drop_map_directives(value: Document) -> Document:
    return {
        name: _to_plain(item)
        for name, item in value.items()
        if item is not None and not _is_directive(name) and not (isinstance(item, dict) and _PATCH in item)
    }


def _drop_list_directives(items: list[Any]) -> list[Any]:
    return [_to_plain(item) for item in items if not (isinstance(item, dict) and _PATCH in item)]


def _is_directive(name: str) -> bool:
    return name.startswith("$") and (
        name in (_PATCH, _RETAIN_KEYS) or name.startswith((_ORDER + "/", _DELETE_FROM_LIST + "/"))
    )


# --- diff ---


def _diff_map(old: Mapping[str, Any], new: Mapping[str, Any], schema: Schema) -> Document:
    patch: Document = {name: None for name in old if name not in new}
    for name, after in new.items():
        before = old.get(name)
        if is_same(before, after):
            continue
        rule = schema.find_field_rule(name)
        if after is None:
            patch[name] = None
        elif isinstance(before, dict) and isinstance(after, dict) and not rule.replaces_map:
            if changes := _diff_map(before, after, rule.value_schema):
                patch[name] = changes
        elif isinstance(before, list) and isinstance(after, list) and rule.merges_list:
            patch |= _diff_list(name, before, after, schema)
        else:
            patch[name] = _to_storable(after)
    return patch


def _diff_list(name: str, old: list[Any], new: list[Any], schema: Schema) -> Document:
    """Return the entries of a patch that change a merged list into `new`: changes, deletions, and the order if
    necessary.
    """
    rule = schema.find_field_rule(name)
    key = rule.patch_merge_key
    before, after = _by_identity(old, key), _by_identity(new, key)
    if key and (before is None or after is None):
        # Two ports may have the same number (TCP and UDP). The merge key cannot distinguish them, so the patch
        # replaces the whole list.
        return {name: [{_PATCH: "replace"}, *map(_to_storable, new)]}
    if before is None or after is None:
        raise PatchError(f"a patch cannot make a list with duplicates: {name}: {_shorten(new)}")
    patch = _diff_items(name, before, after, rule) if key else _diff_scalars(name, before, after)
    if not _has_wanted_order(new, patch, name, old, schema):
        patch[f"{_ORDER}/{name}"] = [{key: item[key]} for item in new] if key else list(new)
    return patch


def _diff_items(name: str, before: Mapping[Any, Any], after: Mapping[Any, Any], rule: FieldRule) -> Document:
    key = rule.patch_merge_key
    items: list[Document] = []
    for identity, item in after.items():
        if identity not in before:
            items.append(_to_storable(item))
        elif changes := _diff_map(before[identity], item, rule.value_schema):
            items.append({key: item[key], **changes})
    items += (
        {_PATCH: "delete", key: item[key]} for identity, item in before.items() if identity not in after
    )
    return {name: items} if items else {}


def _diff_scalars(name: str, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Document:
    added = [item for identity, item in after.items() if identity not in before]
    gone = [item for identity, item in before.items() if identity not in after]
    lists = {name: added, f"{_DELETE_FROM_LIST}/{name}": gone}
    return {entry: items for entry, items in lists.items() if items}


def _by_identity(items: list[Any], key: str) -> dict[Any, Any] | None:
    """Return the items by identity, in their order; None when two are equal."""
    result = {_read_identity(item, key): item for item in items}
    return result if len(result) == len(items) else None


def _has_wanted_order(wanted: list[Any], patch: Document, name: str, old: list[Any], schema: Schema) -> bool:
    """Whether the patch already produces the wanted order of the list."""
    result = _merge_map({name: deep_copy(old)}, deep_copy(patch), schema)[name]
    key = schema.find_field_rule(name).patch_merge_key
    return list(_find_positions(result, key)) == list(_find_positions(wanted, key))


def _to_storable(value: Any) -> Any:
    """Return a copy for a patch. Rejects fields that the patch would interpret as directives."""
    if isinstance(value, dict):
        for name in value:
            if _is_directive(name):
                raise PatchError(
                    f"a strategic merge patch cannot store the field {quote_text(excerpt(name))}"
                )
        return {name: _to_storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_storable(item) for item in value]
    return value
