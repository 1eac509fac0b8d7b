"""The stored managers of an object: each with the set of its fields, in the version in which it wrote.

bytes stored beside the object (`Stored.managed`) ──▶ read()         ──▶ FieldState: entries and taken fields
FieldState                                        ──▶ encode_state() ──▶ bytes
"""

from typing import Final, NamedTuple

import msgspec

from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet

APPLY: Final = "Apply"


class FieldManager(NamedTuple):
    """Author of a write, and the kind of write."""

    name: str
    operation: str = "Update"
    api_version: str = ""
    subresource: str = ""

    def is_same_as(self, entry: "ManagedEntry") -> bool:
        """Whether the entry belongs to this manager. An applier stays the same manager in another version."""
        return (
            entry.manager == self.name
            and entry.operation == self.operation
            and entry.subresource == self.subresource
            and (self.operation == APPLY or entry.api_version == self.api_version)
        )


class ManagedEntry(msgspec.Struct, array_like=True):
    """One manager. If `fields` is None, it owns everything except the taken fields."""

    manager: str
    operation: str
    api_version: str
    time: str
    subresource: str
    fields: FieldSet | None


class FieldState(msgspec.Struct, array_like=True):
    entries: list[ManagedEntry]
    taken: FieldSet


_READ: Final = msgspec.json.Decoder(FieldState)
_WRITE: Final = msgspec.json.Encoder()


def read(kept: bytes) -> FieldState:
    """Decode the state. Its sets are new objects, except EMPTY, which keeps its identity."""
    if not kept:
        return FieldState([], EMPTY)
    state = _READ.decode(kept)
    if "" in state.taken:
        state.taken = EMPTY
    return state


def encode_state(state: FieldState) -> bytes:
    state.entries = [each for each in state.entries if each.fields is not EMPTY]
    return _WRITE.encode(state) if state.entries else b""


class Taken(NamedTuple):
    """Effect of a change on owners in one version."""

    changed: FieldSet
    removed: FieldSet

    @property
    def is_nothing(self) -> bool:
        """Whether the change affects no field."""
        return self.changed is EMPTY and self.removed is EMPTY


def set_of(entry: ManagedEntry) -> FieldSet:
    """The set of an entry, in a state where every manager has a set."""
    assert entry.fields is not None
    return entry.fields
