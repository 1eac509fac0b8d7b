"""Who owns which field of an object: kept small, worked out when it is read.

    a write ──▶ created() / updated() / applied() ──▶ bytes kept beside the object (`Stored.managed`)
    a read  ──▶ spelled_out(bytes, object) ──▶ metadata.managedFields

What is kept is a list of managers with the set of their fields. The manager that created an object gets no
set: it owns what the object holds, but for the fields that others took since (`taken`). So a creation costs
next to nothing, an update the walk over what it changes; the set is spelled out when the object is shown to
a client that wants managedFields, or applied to.

Pure. Rules: apimachinery's `managedfields` and structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.kube.go_text import quoted
from pykruise.sandbox.apiserver.managed.field_sets import (
    EMPTY,
    FieldSet,
    difference,
    intersection,
    is_field_set,
    paths,
    union,
    without,
)
from pykruise.sandbox.apiserver.managed.owned import (
    METADATA_ITSELF,
    SERVERS_METADATA,
    TYPE,
    Owned,
    owned_by_creator,
    set_between,
    unlike,
)
from pykruise.sandbox.apiserver.managed.shapes import Shape
from pykruise.sandbox.apiserver.managed.values import (
    InvalidError,
    check,
    compare,
    fields_in,
    merge,
    named,
    remove,
)

__all__ = [
    "APPLY",
    "BEFORE_FIRST_APPLY",
    "Applied",
    "Conflict",
    "ConflictsError",
    "InvalidError",
    "Manager",
    "applied",
    "created",
    "disowned",
    "read_entries",
    "spelled_out",
    "updated",
]

APPLY: Final = "Apply"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
_ANCIENT: Final = "ancient-changes"
_MOST_UPDATERS: Final = 10
_UNOWNED_LEAVES: Final[FieldSet] = {
    **{f"f:{member}": {} for member in TYPE},
    "f:metadata": {f"f:{member}": {} for member in SERVERS_METADATA},
}
"""What the server alone says belongs to no manager."""


class Manager(NamedTuple):
    """Who writes, and how."""

    name: str
    operation: str = "Update"
    api_version: str = ""
    subresource: str = ""

    def same_as(self, entry: "_Entry") -> bool:
        """Whether the entry is this manager's. An applier stays the same in another version."""
        return (
            entry.manager == self.name
            and entry.operation == self.operation
            and entry.subresource == self.subresource
            and (self.operation == APPLY or entry.api_version == self.api_version)
        )


class _Entry(msgspec.Struct, array_like=True):
    """One manager; `fields` None: everything but what was taken."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: FieldSet | None


class _State(msgspec.Struct, array_like=True):
    entries: list[_Entry]
    taken: FieldSet


_READ: Final = msgspec.json.Decoder(_State)
_WRITE: Final = msgspec.json.Encoder()


def _read(kept: bytes) -> _State:
    """The state; sets in it are fresh, but for EMPTY, which is written as itself."""
    if not kept:
        return _State([], EMPTY)
    state = _READ.decode(kept)
    if "" in state.taken:
        state.taken = EMPTY
    return state


def _written(state: _State) -> bytes:
    state.entries = [each for each in state.entries if each.fields is not EMPTY]
    return _WRITE.encode(state) if state.entries else b""


# --- writes ----------------------------------------


def created(
    who: Manager, now: str, asked: Document, new: Document, shape: Shape, *, ignored: FieldSet
) -> bytes:
    """Of a new object: its creator owns what it asked for; what the server made of that has no owner."""
    taken = set_between(*unlike(asked, new, ignored), shape)
    entry = _Entry(who.name, who.operation, who.api_version, now, who.subresource, None)
    return _WRITE.encode(_State([entry], taken))


def disowned(kept: bytes, old: Document, new: Document, shape: Shape) -> bytes:
    """After a change that the server made by itself: what it set has no owner."""
    if not kept:
        return kept
    changes = compare(old, new, shape)
    state = _read(kept)
    if all(entry.fields is not None for entry in state.entries):
        return kept
    state.taken = union(state.taken, union(changes.added, changes.modified))
    return _written(state)


def updated(
    kept: bytes,
    old: Document,
    new: Document,
    shape: Shape,
    *,
    empty: Document,
    who: Manager,
    now: str,
    ignored: FieldSet,
    not_creators: FieldSet = EMPTY,
) -> bytes:
    """After POST, PUT or PATCH: the writer owns what it changed, others no longer do.

    `ignored`: places that the endpoint does not write; `not_creators`: those that no creator writes.
    Objects without any owner of fields stay so.
    """
    if not kept:
        return kept
    changes = compare(*unlike(old, new, ignored), shape)
    changed, removed = union(changes.added, changes.modified), changes.removed
    if changed is EMPTY and removed is EMPTY:
        return kept
    state = _read(kept)
    _take(state, changed, removed, not_creators)
    if changed is not EMPTY:
        _give(state, who, changed, now)
    if len(state.entries) > _MOST_UPDATERS:
        _cap(_spelled_out(state, new, empty, shape, ignored))
    return _written(state)


def _take(state: _State, changed: FieldSet, removed: FieldSet, not_creators: FieldSet) -> None:
    """What was changed or removed has no owner any longer."""
    for entry in state.entries:
        if entry.fields is None:
            state.taken = union(state.taken, without(changed, not_creators))
        else:
            entry.fields = difference(difference(entry.fields, changed), removed)


def _give(state: _State, who: Manager, changed: FieldSet, now: str) -> None:
    for entry in state.entries:
        if who.same_as(entry):
            entry.time = now
            if entry.fields is None:
                state.taken = difference(state.taken, changed)
            else:
                entry.fields = union(entry.fields, changed)
            return
    state.entries.append(_Entry(who.name, who.operation, who.api_version, now, who.subresource, changed))


def _cap(state: _State) -> None:
    """Of many managers that update, the oldest become one. The state is spelled out."""
    updaters = [each for each in state.entries if each.operation != APPLY]
    surplus = len(updaters) - _MOST_UPDATERS
    if surplus <= 0:
        return
    updaters.sort(key=lambda each: (each.time, each.manager))
    for oldest in updaters[: surplus + 1]:
        state.entries.remove(oldest)
        bucket = next(
            (
                each
                for each in state.entries
                if each.manager == _ANCIENT and each.api_version == oldest.api_version
            ),
            None,
        )
        if bucket is None:
            state.entries.append(
                _Entry(_ANCIENT, oldest.operation, oldest.api_version, oldest.time, "", oldest.fields)
            )
        else:
            bucket.fields = union(_set_of(bucket), _set_of(oldest))
            bucket.time = max(bucket.time, oldest.time)


# --- server-side apply ----------------------------------------


class Conflict(NamedTuple):
    """A field that another manager owns, and which, as messages say it."""

    path: str
    manager: str


class ConflictsError(Exception):
    """The applied document changes what others own."""

    def __init__(self, found: Sequence[Conflict]) -> None:
        super().__init__(conflict_message(found))
        self.conflicts = tuple(found)


class Applied(NamedTuple):
    """The object after an apply, and its managers."""

    document: Document
    kept: bytes


def applied(
    kept: bytes,
    live: Document,
    config: Document,
    shape: Shape,
    *,
    empty: Document,
    who: Manager,
    now: str,
    force: bool,
    ignored: FieldSet,
    allowed: FieldSet = EMPTY,
) -> Applied:
    """What an apply makes of the live object (`empty` for a new one).

    Fields that `who` applied before and no longer names go, unless others own them. A change of what is
    `allowed` is no conflict. Raises ConflictsError
    when others own what it changes and `force` is off, InvalidError when `config` lacks the kind's shape.
    """
    check(config, shape)
    state = _spelled_out(_read(kept), live, empty, shape, ignored)
    if not state.entries and live is not empty:
        first = owned_by_creator(empty, live, shape, ignored)
        if first is not EMPTY:
            state.entries.append(_Entry(BEFORE_FIRST_APPLY, "Update", who.api_version, now, "", first))
    before = [(entry.manager, entry.operation, entry.subresource, entry.fields) for entry in state.entries]
    mine = next((entry for entry in state.entries if who.same_as(entry)), None)
    last = mine.fields if mine is not None and mine.fields is not None else EMPTY
    wanted = without(without(fields_in(config, shape), _UNOWNED_LEAVES), ignored)
    wanted = difference(wanted, METADATA_ITSELF)
    if mine is None:
        mine = _Entry(who.name, APPLY, who.api_version, "", who.subresource, wanted)
        state.entries.append(mine)
    mine.fields, mine.api_version = wanted, who.api_version
    merged: Document = merge(live, config, shape)
    if last is not EMPTY:
        merged = _pruned(merged, last, [_set_of(each) for each in state.entries], shape)
    changes = compare(live, merged, shape)
    changed = without(union(changes.added, changes.modified), ignored)
    removed = without(changes.removed, ignored)
    others = [entry for entry in state.entries if entry is not mine]
    if not force:
        _check_conflicts(others, difference(changed, allowed))
    for entry in others:
        entry.fields = difference(difference(_set_of(entry), changed), removed)
    is_changed = changed is not EMPTY or removed is not EMPTY
    if is_changed:
        mine.time = now
    if not is_changed and before == [
        (entry.manager, entry.operation, entry.subresource, entry.fields) for entry in state.entries
    ]:
        return Applied(live, kept)
    return Applied(merged, _written(state))


def _pruned(merged: Document, last: FieldSet, owned: Iterable[FieldSet], shape: Shape) -> Document:
    """The merged document without what was applied last and has no owner now."""
    last = named(last, shape)
    kept = named(fields_in(remove(merged, last, shape), shape), shape)
    managed: FieldSet = EMPTY
    for fields in owned:
        managed = union(managed, fields)
    everything = named(fields_in(merged, shape), shape)
    back = remove(merged, difference(everything, union(kept, named(managed, shape))), shape)
    left = named(fields_in(back, shape), shape)
    found: Document = remove(merged, intersection(difference(everything, left), last), shape)
    return found


def _check_conflicts(others: Iterable[_Entry], changed: FieldSet) -> None:
    found: list[Conflict] = []
    for entry in others:
        both = intersection(_set_of(entry), changed)
        found += [Conflict(path, _called(entry)) for path in paths(both)]
    if found:
        raise ConflictsError(sorted(found, key=lambda each: (each.path, each.manager)))


def _set_of(entry: _Entry) -> FieldSet:
    """The set of a state that is spelled out."""
    assert entry.fields is not None
    return entry.fields


def _called(entry: _Entry) -> str:
    """A manager as a conflict names it."""
    text = quoted(entry.manager)
    if entry.subresource:
        text += f" with subresource {quoted(entry.subresource)}"
    if entry.operation == APPLY:
        return text
    return f"{text} using {entry.api_version}"


def conflict_message(found: Sequence[Conflict]) -> str:
    """What the Status of a conflict says."""
    if len(found) == 1:
        return f"Apply failed with 1 conflict: conflict with {found[0].manager}: {found[0].path}"
    by_manager: dict[str, list[str]] = {}
    for conflict in found:
        by_manager.setdefault(conflict.manager, []).append(f"- {conflict.path}")
    texts = [f"conflicts with {name}:\n" + "\n".join(listed) for name, listed in sorted(by_manager.items())]
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(texts)


# --- what is shown, and what is sent back ----------------------------------------


def _spelled_out(state: _State, doc: Document, empty: Document, shape: Shape, ignored: FieldSet) -> _State:
    """The state with a set for every manager."""
    for entry in state.entries:
        if entry.fields is None:
            entry.fields = difference(owned_by_creator(empty, doc, shape, ignored), state.taken)
    state.entries = [entry for entry in state.entries if entry.fields is not EMPTY]
    state.taken = EMPTY
    return state


def spelled_out(kept: bytes, raw: bytes, owned: Owned) -> bytes:
    """`metadata.managedFields` of an object, as JSON; `raw` is the object as it is stored."""
    if not kept:
        return b"[]"
    state = _READ_PARTS.decode(kept)
    shown: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for entry in state.entries:
        fields = bytes(entry.fields)
        if fields == b"null":
            fields = owned.spelled_out(raw, bytes(state.taken))
        if fields:
            shown.append((entry.place(), entry.shown(fields)))
    shown.sort(key=_place)
    return orjson.dumps([document for _, document in shown])


def _place(shown: tuple[tuple[str, ...], Any]) -> tuple[str, ...]:
    return shown[0]


class _Parts(msgspec.Struct, array_like=True, frozen=True):
    """An _Entry whose set is left as it was written."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: msgspec.Raw

    def place(self) -> tuple[str, ...]:
        """Where it stands among others."""
        return (self.operation, self.time, self.manager, self.api_version, self.subresource)

    def shown(self, fields: bytes) -> dict[str, Any]:
        """As an object shows it."""
        shown: dict[str, Any] = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": orjson.Fragment(fields),
        }
        if not self.time:
            del shown["time"]
        if self.subresource:
            shown["subresource"] = self.subresource
        return shown


class _StateInParts(msgspec.Struct, array_like=True, frozen=True):
    entries: list[_Parts]
    taken: msgspec.Raw


_READ_PARTS: Final = msgspec.json.Decoder(_StateInParts)


def read_entries(shown: Sequence[Mapping[str, Any]]) -> bytes | None:
    """What a client sent as managedFields; None when it cannot be read."""
    found: list[_Entry] = []
    for each in shown:
        fields = each.get("fieldsV1") or {}
        if (
            each.get("fieldsType", "FieldsV1") != "FieldsV1"
            or each.get("operation") not in (APPLY, "Update")
            or not is_field_set(fields)
        ):
            return None
        if fields:
            texts = (each.get("manager"), each["operation"], each.get("apiVersion"), each.get("time"))
            manager, operation, version, time = (str(text or "") for text in texts)
            found.append(
                _Entry(manager, operation, version, time, str(each.get("subresource") or ""), fields)
            )
    return _written(_State(found, EMPTY))
