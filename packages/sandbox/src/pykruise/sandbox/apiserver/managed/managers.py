"""Who owns which field of an object: kept small, worked out when it is read.

    a write ──▶ created() / updated() / applied() ──▶ bytes kept beside the object (`Stored.managed`)
    a read  ──▶ spelled_out(bytes, object) ──▶ metadata.managedFields

What is kept is a list of managers with the set of their fields. The manager that created an object gets no
set: it owns what the object holds, but for the fields that others took since (`taken`). So a creation costs
next to nothing, an update the walk over what it changes; the set is spelled out when the object is shown to
a client that wants managedFields, or applied to. Only a creator in the version in which the object is stored is kept
so, and only as long as all managers write in that version.

Each manager's set is in the version in which it wrote. Whether it loses a field is seen in that version: the object
before a change and after it are converted to it (`Versions`) and compared there.

Pure, but for the conversions. Rules: apimachinery's `managedfields` and structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

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
    "Taken",
    "UnconvertibleError",
    "Versions",
    "applied",
    "changes_by_version",
    "created",
    "disowned",
    "explicit",
    "read_entries",
    "spelled_out",
    "updated",
    "versions_in",
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


class Taken(NamedTuple):
    """What a change means to owners in one version."""

    changed: FieldSet
    removed: FieldSet

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is different."""
        return self.changed is EMPTY and self.removed is EMPTY


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
    elsewhere: Mapping[str, Taken | None] | None = None,
) -> bytes:
    """After POST, PUT or PATCH: the writer owns what it changed, others no longer do.

    `ignored`: places that the endpoint does not write; `not_creators`: those that no creator writes; `elsewhere`: what
    the change means in other versions in which managers own something (then `kept` is spelled out), None: they own
    nothing any more.
    Objects without any owner of fields stay so.
    """
    if not kept:
        return kept
    changes = compare(*unlike(old, new, ignored), shape)
    taken = Taken(union(changes.added, changes.modified), changes.removed)
    if taken.is_nothing and all(each is not None and each.is_nothing for each in (elsewhere or {}).values()):
        return kept
    state = _read(kept)
    for entry in state.entries:
        found = elsewhere.get(entry.api_version, taken) if elsewhere else taken
        if found is None:
            entry.fields = EMPTY
        else:
            _take(state, entry, found, not_creators)
    if taken.changed is not EMPTY:
        _give(state, who, taken.changed, now)
    if len(state.entries) > _MOST_UPDATERS:
        _cap(_spelled_out(state, new, empty, shape, not_creators))
    return _written(state)


def _take(state: _State, entry: _Entry, taken: Taken, not_creators: FieldSet) -> None:
    """What was changed or removed has no owner any longer."""
    if entry.fields is None:
        state.taken = union(state.taken, without(taken.changed, not_creators))
    else:
        entry.fields = difference(difference(entry.fields, taken.changed), taken.removed)


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


class UnconvertibleError(ValueError):
    """An object cannot be had in the version of a manager; the message says why."""


class ConflictsError(Exception):
    """The applied document changes what others own."""

    def __init__(self, found: Sequence[Conflict]) -> None:
        super().__init__(conflict_message(found))
        self.conflicts = tuple(found)


class Applied(NamedTuple):
    """The object after an apply, and its managers."""

    document: Document
    kept: bytes


class Versions(Protocol):
    """The versions of a kind: appliers compare an object in the version of each manager."""

    def shape(self, api_version: str) -> Shape:
        """What an object is in that version."""
        ...

    def ignored(self, api_version: str) -> FieldSet:
        """What the endpoint does not write in that version."""
        ...

    def is_missing(self, api_version: str) -> bool:
        """Whether owners in this version own nothing any more."""
        ...

    async def view(self, doc: Document, api_version: str) -> Document:
        """The document in that version. Raises UnconvertibleError."""
        ...


async def applied(
    kept: bytes,
    live: Document,
    config: Document,
    versions: Versions,
    *,
    empty: Document,
    who: Manager,
    now: str,
    force: bool,
    allowed: FieldSet = EMPTY,
) -> Applied:
    """What an apply makes of the live object (`empty` for a new one).

    Fields that `who` applied before and no longer names go, unless others own them. A change of what is
    `allowed` is no conflict. `kept` is spelled out when managers in other versions are in it.
    Raises ConflictsError when others own what it changes and `force` is off, InvalidError when `config` lacks the
    kind's shape, UnconvertibleError when a manager's version has no place for the object.
    """
    own = who.api_version
    shape, ignored = versions.shape(own), versions.ignored(own)
    check(config, shape)
    state = _read(kept)
    if not state.entries and live is not empty:
        first = owned_by_creator(empty, live, shape, ignored)
        if first is not EMPTY:
            state.entries.append(_Entry(BEFORE_FIRST_APPLY, "Update", own, now, "", first))
    before = [_identity(entry) for entry in state.entries]
    state.entries = [entry for entry in state.entries if not versions.is_missing(entry.api_version)]
    views = {own: live}
    for entry in state.entries:
        if entry.api_version not in views:
            views[entry.api_version] = await versions.view(live, entry.api_version)
    mine = next((entry for entry in state.entries if who.same_as(entry)), None)
    last = mine.fields if mine is not None and mine.fields is not None else EMPTY
    last_version = mine.api_version if mine is not None else own
    said = without(fields_in(config, shape), ignored)
    if mine is None:
        mine = _Entry(who.name, APPLY, own, "", who.subresource, said)
        state.entries.append(mine)
    mine.fields, mine.api_version = said, own
    merged: Document = merge(live, config, shape)
    if last is not EMPTY:
        # What no manager owns (the name) keeps its place when the rest of its map goes.
        merged = await _pruned(merged, last, last_version, state.entries, versions, own=own)
    mine.fields = difference(without(said, _UNOWNED_LEAVES), METADATA_ITSELF)
    changes = await changes_by_version(views, merged, versions, own=own)
    others = [entry for entry in state.entries if entry is not mine]
    if not force:
        _check_conflicts(others, changes, allowed)
    for entry in others:
        found = changes[entry.api_version]
        entry.fields = difference(difference(_set_of(entry), found.changed), found.removed)
    is_changed = not changes[own].is_nothing
    if is_changed:
        mine.time = now
    if not is_changed and before == [_identity(entry) for entry in state.entries]:
        return Applied(live, kept)
    return Applied(merged, _written(state))


def _identity(entry: _Entry) -> tuple[str, str, str, str, FieldSet | None]:
    """The entry without its time."""
    return (entry.manager, entry.operation, entry.api_version, entry.subresource, entry.fields)


async def changes_by_version(
    before: Mapping[str, Document], after: Document, versions: Versions, *, own: str
) -> dict[str, Taken]:
    """How an object changes in each version of `before`; `after` is in the version `own`. Raises UnconvertibleError."""
    found: dict[str, Taken] = {}
    for version, old in before.items():
        new = after
        if version != own:
            new = await _viewed(after, version, versions, failing="failed to convert new object")
        ignored = versions.ignored(version)
        changes = compare(*unlike(old, new, ignored), versions.shape(version))
        changed = without(union(changes.added, changes.modified), ignored)
        found[version] = Taken(changed, without(changes.removed, ignored))
    return found


async def _viewed(doc: Document, version: str, versions: Versions, *, failing: str) -> Document:
    try:
        return await versions.view(doc, version)
    except UnconvertibleError as err:
        raise UnconvertibleError(f"{failing}: {err}") from err


async def _pruned(
    merged: Document,
    last: FieldSet,
    last_version: str,
    entries: Iterable[_Entry],
    versions: Versions,
    *,
    own: str,
) -> Document:
    """The merged document without what was applied last (in that version) and has no owner; in the version `own`."""
    if versions.is_missing(last_version):
        return merged
    failing = "failed to prune fields: failed to convert merged object to last applied version"
    whole = await _viewed(merged, last_version, versions, failing=failing)
    shape = versions.shape(last_version)
    last = named(last, shape)
    pruned = await _with_owned(whole, remove(whole, last, shape), entries, versions, first=last_version)
    failing = "failed to prune fields: failed add back dangling items"
    pruned = await _viewed(
        pruned,
        last_version,
        versions,
        failing=f"{failing}: failed to convert pruned object to last applied version",
    )
    left = named(fields_in(pruned, shape), shape)
    gone = intersection(difference(named(fields_in(whole, shape), shape), left), last)
    return await _viewed(remove(whole, gone, shape), own, versions, failing="failed to prune fields")


async def _with_owned(
    whole: Document, pruned: Document, entries: Iterable[_Entry], versions: Versions, *, first: str
) -> Document:
    """The pruned document with what managers own of the whole one: those of the version `first` before those of others,
    since a conversion may need their fields.
    """
    owned: dict[str, FieldSet] = {}
    for entry in entries:
        owned[entry.api_version] = union(owned.get(entry.api_version, EMPTY), _set_of(entry))
    failing = "failed to prune fields: failed add back owned items: failed to convert"
    for version in sorted(owned, key=lambda version: (version != first, version)):
        where = f"object at version {version}"
        whole = await _viewed(whole, version, versions, failing=f"{failing} merged {where}")
        pruned = await _viewed(pruned, version, versions, failing=f"{failing} pruned {where}")
        shape = versions.shape(version)
        kept = union(named(fields_in(pruned, shape), shape), named(owned[version], shape))
        pruned = remove(whole, difference(named(fields_in(whole, shape), shape), kept), shape)
    return pruned


def _check_conflicts(others: Iterable[_Entry], changes: Mapping[str, Taken], allowed: FieldSet) -> None:
    found: list[Conflict] = []
    for entry in others:
        changed = difference(changes[entry.api_version].changed, allowed)
        found += [Conflict(path, _called(entry)) for path in paths(intersection(_set_of(entry), changed))]
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


def explicit(kept: bytes, doc: Document, shape: Shape, *, empty: Document, ignored: FieldSet) -> bytes:
    """The same managers, each with a set. `doc` is the object as it is stored; `ignored`: what no creator writes."""
    if not kept:
        return kept
    state = _read(kept)
    if all(entry.fields is not None for entry in state.entries):
        return kept
    return _written(_spelled_out(state, doc, empty, shape, ignored))


def versions_in(kept: bytes) -> dict[str, bool]:
    """The versions in which managers own something, and whether a set there is still to be found."""
    found: dict[str, bool] = {}
    if kept:
        for entry in _READ_PARTS.decode(kept).entries:
            is_open = bytes(entry.fields) == b"null"
            found[entry.api_version] = found.get(entry.api_version, False) or is_open
    return found


def spelled_out(kept: bytes, raw: bytes, owned_in: Callable[[str], Owned]) -> bytes:
    """`metadata.managedFields` of an object, as JSON; `raw` is the object in the version of its creator, whose sets
    `owned_in` finds.
    """
    if not kept:
        return b"[]"
    state = _READ_PARTS.decode(kept)
    shown: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for entry in state.entries:
        fields = bytes(entry.fields)
        if fields == b"null":
            fields = owned_in(entry.api_version).spelled_out(raw, bytes(state.taken))
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
