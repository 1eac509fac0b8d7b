"""Server-side apply: the resulting object, and the owners of its fields.

live object + applied document + managers ──▶ apply_document()
    ──▶ Applied: the document, its managers; or ConflictsError

The set of each manager is in the version in which the manager wrote. Whether the manager loses a field is decided in
that version: the object before and after the change is converted to that version (`Versions`) and compared.

Pure, except for conversions. Same rules as structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.managed.field_sets import (
    EMPTY,
    FieldSet,
    drop_places,
    intersect_sets,
    list_paths,
    subtract_sets,
    unite_sets,
)
from pykruise.sandbox.apiserver.managed.owned import (
    METADATA_ITSELF,
    SERVERS_METADATA,
    TYPE,
    compute_creator_fields,
    find_differences,
)
from pykruise.sandbox.apiserver.managed.shapes import Shape
from pykruise.sandbox.apiserver.managed.state import (
    APPLY,
    FieldManager,
    ManagedEntry,
    Taken,
    encode_state,
    read,
    set_of,
)
from pykruise.sandbox.apiserver.managed.values import (
    InvalidFieldsError,
    add_named_fields,
    check,
    collect_fields,
    compare,
    merge,
    remove,
)

__all__ = [
    "BEFORE_FIRST_APPLY",
    "Applied",
    "ApplyConflict",
    "ConflictsError",
    "InvalidFieldsError",
    "UnconvertibleError",
    "Versions",
    "apply_document",
    "format_conflict",
    "list_changes_by_version",
]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
_UNOWNED_LEAVES: Final[FieldSet] = {
    **{f"f:{member}": {} for member in TYPE},
    "f:metadata": {f"f:{member}": {} for member in SERVERS_METADATA},
}
"""Leaves that no manager owns."""


class ApplyConflict(NamedTuple):
    """A field that another manager owns, and the manager's description in messages."""

    path: str
    manager: str


class UnconvertibleError(ValueError):
    """An object cannot be converted to the version of a manager. The message gives the reason."""


class ConflictsError(Exception):
    """The applied document changes fields that other managers own."""

    def __init__(self, value: Sequence[ApplyConflict]) -> None:
        super().__init__(format_conflict(value))
        self.conflicts = tuple(value)


class Applied(NamedTuple):
    """The object after an apply, and its managers."""

    document: Document
    kept: bytes


class Versions(Protocol):
    """The versions of a kind. An apply compares an object in the version of each manager."""

    def find_shape(self, api_version: str) -> Shape:
        """Return the shape of an object in that version."""
        ...

    def list_ignored(self, api_version: str) -> FieldSet:
        """Return the fields that the endpoint does not write in that version."""
        ...

    def is_missing(self, api_version: str) -> bool:
        """Whether owners in this version lose all their fields."""
        ...

    async def convert_view(self, doc: Document, api_version: str) -> Document:
        """Convert the document to that version. Raises UnconvertibleError."""
        ...


async def apply_document(
    kept: bytes,
    live: Document,
    config: Document,
    versions: Versions,
    *,
    empty: Document,
    who: FieldManager,
    now: str,
    force: bool,
    allowed: FieldSet = EMPTY,
) -> Applied:
    """Apply a document to the live object (`empty` for a new object).

    A field that `who` applied before and no longer applies is removed, unless another manager owns it. A change of an
    `allowed` field is not a conflict. If `kept` contains managers that wrote in other versions, every manager in `kept`
    must have a set.

    Raises ConflictsError when other managers own changed fields and `force` is off, InvalidFieldsError when `config`
    does not have the kind's shape, UnconvertibleError when the object cannot be converted to a manager's version.
    """
    own = who.api_version
    shape, ignored = versions.find_shape(own), versions.list_ignored(own)
    check(config, shape)
    state = read(kept)
    if not state.entries and live is not empty:
        first = compute_creator_fields(empty, live, shape, ignored)
        if first is not EMPTY:
            state.entries.append(ManagedEntry(BEFORE_FIRST_APPLY, "Update", own, now, "", first))
    before = [_without_time(entry) for entry in state.entries]
    state.entries = [entry for entry in state.entries if not versions.is_missing(entry.api_version)]
    views = {own: live}
    for entry in state.entries:
        if entry.api_version not in views:
            views[entry.api_version] = await versions.convert_view(live, entry.api_version)
    mine = next((entry for entry in state.entries if who.is_same_as(entry)), None)
    last = mine.fields if mine is not None and mine.fields is not None else EMPTY
    last_version = mine.api_version if mine is not None else own
    said = drop_places(collect_fields(config, shape), ignored)
    if mine is None:
        mine = ManagedEntry(who.name, APPLY, own, "", who.subresource, said)
        state.entries.append(mine)
    mine.fields, mine.api_version = said, own
    merged: Document = merge(live, config, shape)
    if last is not EMPTY:
        # A field without an owner, such as the name, stays when the other fields of its map are removed.
        merged = await _prune(merged, last, last_version, state.entries, versions, own=own)
    mine.fields = subtract_sets(drop_places(said, _UNOWNED_LEAVES), METADATA_ITSELF)
    changes = await list_changes_by_version(views, merged, versions, own=own)
    others = [entry for entry in state.entries if entry is not mine]
    if not force:
        _check_conflicts(others, changes, allowed)
    for entry in others:
        result = changes[entry.api_version]
        entry.fields = subtract_sets(subtract_sets(set_of(entry), result.changed), result.removed)
    is_changed = not changes[own].is_nothing
    if is_changed:
        mine.time = now
    if not is_changed and before == [_without_time(entry) for entry in state.entries]:
        return Applied(live, kept)
    return Applied(merged, encode_state(state))


def _without_time(entry: ManagedEntry) -> tuple[str, str, str, str, FieldSet | None]:
    """The entry without its time."""
    return (entry.manager, entry.operation, entry.api_version, entry.subresource, entry.fields)


async def list_changes_by_version(
    before: Mapping[str, Document], after: Document, versions: Versions, *, own: str
) -> dict[str, Taken]:
    """Return the change of an object in each version of `before`; `after` has the version `own`. Raises
    UnconvertibleError.
    """
    result: dict[str, Taken] = {}
    for version, old in before.items():
        new = after
        if version != own:
            new = await _convert_or_fail(after, version, versions, failing="failed to convert new object")
        ignored = versions.list_ignored(version)
        changes = compare(*find_differences(old, new, ignored), versions.find_shape(version))
        changed = drop_places(unite_sets(changes.added, changes.modified), ignored)
        result[version] = Taken(changed, drop_places(changes.removed, ignored))
    return result


async def _convert_or_fail(doc: Document, version: str, versions: Versions, *, failing: str) -> Document:
    try:
        return await versions.convert_view(doc, version)
    except UnconvertibleError as err:
        raise UnconvertibleError(f"{failing}: {err}") from err


async def _prune(
    merged: Document,
    last: FieldSet,
    last_version: str,
    entries: Iterable[ManagedEntry],
    versions: Versions,
    *,
    own: str,
) -> Document:
    """Remove from the merged document the fields in `last` (of the version `last_version`) that have no owner. The
    result has the version `own`.
    """
    if versions.is_missing(last_version):
        return merged
    failing = "failed to prune fields: failed to convert merged object to last applied version"
    whole = await _convert_or_fail(merged, last_version, versions, failing=failing)
    shape = versions.find_shape(last_version)
    last = add_named_fields(last, shape)
    pruned = await _restore_owned(whole, remove(whole, last, shape), entries, versions, first=last_version)
    failing = "failed to prune fields: failed add back dangling items"
    pruned = await _convert_or_fail(
        pruned,
        last_version,
        versions,
        failing=f"{failing}: failed to convert pruned object to last applied version",
    )
    left = add_named_fields(collect_fields(pruned, shape), shape)
    gone = intersect_sets(subtract_sets(add_named_fields(collect_fields(whole, shape), shape), left), last)
    return await _convert_or_fail(remove(whole, gone, shape), own, versions, failing="failed to prune fields")


async def _restore_owned(
    whole: Document, pruned: Document, entries: Iterable[ManagedEntry], versions: Versions, *, first: str
) -> Document:
    """Put the fields that managers own back into the pruned document. `whole` still has these fields. Fields in the
    version `first` are put back first, because a conversion may need them.
    """
    owned: dict[str, FieldSet] = {}
    for entry in entries:
        owned[entry.api_version] = unite_sets(owned.get(entry.api_version, EMPTY), set_of(entry))
    failing = "failed to prune fields: failed add back owned items: failed to convert"
    for version in sorted(owned, key=lambda version: (version != first, version)):
        where = f"object at version {version}"
        whole = await _convert_or_fail(whole, version, versions, failing=f"{failing} merged {where}")
        pruned = await _convert_or_fail(pruned, version, versions, failing=f"{failing} pruned {where}")
        shape = versions.find_shape(version)
        kept = unite_sets(
            add_named_fields(collect_fields(pruned, shape), shape), add_named_fields(owned[version], shape)
        )
        pruned = remove(
            whole, subtract_sets(add_named_fields(collect_fields(whole, shape), shape), kept), shape
        )
    return pruned


def _check_conflicts(others: Iterable[ManagedEntry], changes: Mapping[str, Taken], allowed: FieldSet) -> None:
    conflicts: list[ApplyConflict] = []
    for entry in others:
        changed = subtract_sets(changes[entry.api_version].changed, allowed)
        conflicts += [
            ApplyConflict(path, _describe_manager(entry))
            for path in list_paths(intersect_sets(set_of(entry), changed))
        ]
    if conflicts:
        raise ConflictsError(sorted(conflicts, key=lambda each: (each.path, each.manager)))


def _describe_manager(entry: ManagedEntry) -> str:
    """Describe a manager in a conflict."""
    text = quote_text(entry.manager)
    if entry.subresource:
        text += f" with subresource {quote_text(entry.subresource)}"
    if entry.operation == APPLY:
        return text
    return f"{text} using {entry.api_version}"


def format_conflict(value: Sequence[ApplyConflict]) -> str:
    """Message of a conflict's Status."""
    if len(value) == 1:
        return f"Apply failed with 1 conflict: conflict with {value[0].manager}: {value[0].path}"
    by_manager: dict[str, list[str]] = {}
    for conflict in value:
        by_manager.setdefault(conflict.manager, []).append(f"- {conflict.path}")
    texts = [f"conflicts with {name}:\n" + "\n".join(listed) for name, listed in sorted(by_manager.items())]
    return f"Apply failed with {len(value)} conflicts: " + "\n".join(texts)
