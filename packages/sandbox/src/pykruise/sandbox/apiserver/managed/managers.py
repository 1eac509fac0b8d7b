"""Field managers of an object: stored compactly, computed when read.

    a write ──▶ record_creation() / record_update(), or applies.py ──▶ bytes stored beside the object (`Stored.managed`)
    a read  ──▶ spell_out(bytes, object) ──▶ metadata.managedFields

The stored state is a list of managers with the sets of their fields. The manager that created an object has no set: it
owns all fields of the object except those that other managers have taken since (`taken`). So a creation takes almost no
time, and an update only handles the fields that it changes. The creator's set is computed when a client reads
managedFields, or applies to the object. A creator is stored without a set only if it wrote in the storage version, and
only as long as all managers write in that version.

Pure. Same rules as apimachinery's `managedfields` and structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.managed.field_sets import (
    EMPTY,
    FieldSet,
    drop_places,
    is_field_set,
    subtract_sets,
    unite_sets,
)
from pykruise.sandbox.apiserver.managed.owned import (
    OwnedFields,
    compute_creator_fields,
    find_differences,
    set_between,
)
from pykruise.sandbox.apiserver.managed.shapes import Shape
from pykruise.sandbox.apiserver.managed.state import (
    APPLY,
    FieldManager,
    FieldState,
    ManagedEntry,
    Taken,
    encode_state,
    read,
    set_of,
)
from pykruise.sandbox.apiserver.managed.values import compare

_ANCIENT: Final = "ancient-changes"
_MOST_UPDATERS: Final = 10


# --- writes ----------------------------------------


def record_creation(
    who: FieldManager, now: str, asked: Document, new: Document, shape: Shape, *, ignored: FieldSet
) -> bytes:
    """Return the managers of a new object: its creator owns the fields that it sent. No manager owns the fields that
    the server added.
    """
    taken = set_between(*find_differences(asked, new, ignored), shape)
    entry = ManagedEntry(who.name, who.operation, who.api_version, now, who.subresource, None)
    return encode_state(FieldState([entry], taken))


def record_server_change(kept: bytes, old: Document, new: Document, shape: Shape) -> bytes:
    """Return the managers after a change by the server itself: no manager owns the fields that it set."""
    if not kept:
        return kept
    changes = compare(old, new, shape)
    state = read(kept)
    if all(entry.fields is not None for entry in state.entries):
        return kept
    state.taken = unite_sets(state.taken, unite_sets(changes.added, changes.modified))
    return encode_state(state)


def record_update(
    kept: bytes,
    old: Document,
    new: Document,
    shape: Shape,
    *,
    empty: Document,
    who: FieldManager,
    now: str,
    ignored: FieldSet,
    not_creators: FieldSet = EMPTY,
    elsewhere: Mapping[str, Taken | None] | None = None,
) -> bytes:
    """Return the managers after POST, PUT or PATCH: the writer owns the fields that it changed, and other managers lose
    these fields.

    `ignored`: places that the endpoint does not write. `not_creators`: places that no creator writes. `elsewhere`: for
    each other version in which managers own fields, the change in that version, or None if the managers in that version
    lose all fields. With `elsewhere`, every manager in `kept` must have a set. If `kept` is empty, no owner is added.
    """
    if not kept:
        return kept
    changes = compare(*find_differences(old, new, ignored), shape)
    taken = Taken(unite_sets(changes.added, changes.modified), changes.removed)
    if taken.is_nothing and all(each is not None and each.is_nothing for each in (elsewhere or {}).values()):
        return kept
    state = read(kept)
    for entry in state.entries:
        result = elsewhere.get(entry.api_version, taken) if elsewhere else taken
        if result is None:
            entry.fields = EMPTY
        else:
            _take_fields(state, entry, result, not_creators)
    if taken.changed is not EMPTY:
        _give_fields(state, who, taken.changed, now)
    if len(state.entries) > _MOST_UPDATERS:
        _merge_oldest(_spell_out_state(state, new, empty, shape, not_creators))
    return encode_state(state)


def _take_fields(state: FieldState, entry: ManagedEntry, taken: Taken, not_creators: FieldSet) -> None:
    """Remove changed and removed fields from their owner."""
    if entry.fields is None:
        state.taken = unite_sets(state.taken, drop_places(taken.changed, not_creators))
    else:
        entry.fields = subtract_sets(subtract_sets(entry.fields, taken.changed), taken.removed)


def _give_fields(state: FieldState, who: FieldManager, changed: FieldSet, now: str) -> None:
    for entry in state.entries:
        if who.is_same_as(entry):
            entry.time = now
            if entry.fields is None:
                state.taken = subtract_sets(state.taken, changed)
            else:
                entry.fields = unite_sets(entry.fields, changed)
            return
    state.entries.append(
        ManagedEntry(who.name, who.operation, who.api_version, now, who.subresource, changed)
    )


def _merge_oldest(state: FieldState) -> None:
    """Merge the oldest managers into one if too many managers have updated the object. All managers must have a set."""
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
                ManagedEntry(_ANCIENT, oldest.operation, oldest.api_version, oldest.time, "", oldest.fields)
            )
        else:
            bucket.fields = unite_sets(set_of(bucket), set_of(oldest))
            bucket.time = max(bucket.time, oldest.time)


# --- reads, and managedFields that clients send ----------------------------------------


def _spell_out_state(
    state: FieldState, doc: Document, empty: Document, shape: Shape, ignored: FieldSet
) -> FieldState:
    """Return the state with a set for every manager."""
    for entry in state.entries:
        if entry.fields is None:
            entry.fields = subtract_sets(compute_creator_fields(empty, doc, shape, ignored), state.taken)
    state.entries = [entry for entry in state.entries if entry.fields is not EMPTY]
    state.taken = EMPTY
    return state


def make_explicit(kept: bytes, doc: Document, shape: Shape, *, empty: Document, ignored: FieldSet) -> bytes:
    """Give every manager a set. `doc` is the stored object; `ignored`: places that no creator writes."""
    if not kept:
        return kept
    state = read(kept)
    if all(entry.fields is not None for entry in state.entries):
        return kept
    return encode_state(_spell_out_state(state, doc, empty, shape, ignored))


def list_versions(kept: bytes) -> dict[str, bool]:
    """The versions in which managers own fields; for each, whether one of its managers has no set yet."""
    versions: dict[str, bool] = {}
    if kept:
        for entry in _READ_PARTS.decode(kept).entries:
            is_open = bytes(entry.fields) == b"null"
            versions[entry.api_version] = versions.get(entry.api_version, False) or is_open
    return versions


def spell_out(kept: bytes, raw: bytes, owned_in: Callable[[str], OwnedFields]) -> bytes:
    """Return `metadata.managedFields` of an object as JSON. `raw` is the object in the version of its creator;
    `owned_in` finds the creator's set.
    """
    if not kept:
        return b"[]"
    state = _READ_PARTS.decode(kept)
    shown: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for entry in state.entries:
        fields = bytes(entry.fields)
        if fields == b"null":
            fields = owned_in(entry.api_version).spell_out(raw, bytes(state.taken))
        if fields:
            shown.append((entry.place(), entry.format_entry(fields)))
    shown.sort(key=_read_place)
    return orjson.dumps([document for _, document in shown])


def _read_place(shown: tuple[tuple[str, ...], Any]) -> tuple[str, ...]:
    return shown[0]


class _Parts(msgspec.Struct, array_like=True, frozen=True):
    """A ManagedEntry whose set is not decoded."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: msgspec.Raw

    def place(self) -> tuple[str, ...]:
        """Sort key among the managers of an object."""
        return (self.operation, self.time, self.manager, self.api_version, self.subresource)

    def format_entry(self, fields: bytes) -> dict[str, Any]:
        """The entry as an object shows it."""
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
    """Read entries that a client sent as managedFields; None when they are invalid."""
    entries: list[ManagedEntry] = []
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
            entries.append(
                ManagedEntry(manager, operation, version, time, str(each.get("subresource") or ""), fields)
            )
    return encode_state(FieldState(entries, EMPTY))
