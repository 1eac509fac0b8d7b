"""Fields that a manager can own: a creator owns everything that its object holds, except fields that others took.

    two documents ──▶ unlike()      ──▶ the members in which they differ
    two documents ──▶ set_between() ──▶ the places that the second one sets
    a stored object ──▶ Owned.spelled_out() ──▶ its creator's set, as JSON

Pure, but for what Owned remembers: objects of a kind are much alike, and a set does not depend on what is in the
leaves. So it is found once for all objects with an equal outline.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet, difference, union
from pykruise.sandbox.apiserver.managed.shapes import FREE, Shape
from pykruise.sandbox.apiserver.managed.values import ABSENT, compare

TYPE: Final = frozenset({"apiVersion", "kind"})
SERVERS_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
"""Metadata that only the server writes, which no manager owns."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
METADATA_ITSELF: Final[FieldSet] = {"f:metadata": {}}
"""A field that all set, and that has no owner."""

_MOST_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 16 * 1024

Outline = tuple[tuple[str, bytes | tuple[str, ...]], ...]
"""Members with what decides about their places: the names in a map of scalars, the whole of anything else."""


def _view(doc: Document, ignored: FieldSet) -> Document:
    """The document without what no manager owns, and without the members that an endpoint does not write."""
    view = {
        member: value for member, value in doc.items() if member not in TYPE and f"f:{member}" not in ignored
    }
    if "metadata" in view:
        view["metadata"] = _owners_metadata(view["metadata"])
    return view


def _owners_metadata(metadata: Any) -> Any:
    if type(metadata) is not dict:
        return metadata
    return {member: value for member, value in metadata.items() if member not in SERVERS_METADATA}


def unlike(old: Document, new: Document, ignored: FieldSet) -> tuple[Document, Document]:
    """The members in which the documents differ, of those that managers own and an endpoint writes."""
    left: Document = {}
    right: Document = {}
    for member in (*new, *(member for member in old if member not in new)):
        before, after = old.get(member, ABSENT), new.get(member, ABSENT)
        if before is after or member in TYPE or f"f:{member}" in ignored:
            continue
        if member == "metadata":
            before, after = _owners_metadata(before), _owners_metadata(after)
        if before == after and type(before) is type(after):
            continue
        if before is not ABSENT:
            left[member] = before
        if after is not ABSENT:
            right[member] = after
    return left, right


def _apart(old: Document, new: Document) -> tuple[Document, Document]:
    """The members that are not the same thing."""
    right = {member: value for member, value in new.items() if old.get(member, ABSENT) is not value}
    left = {member: value for member, value in old.items() if member in right or member not in new}
    return left, right


def set_between(old: Document, new: Document, shape: Shape) -> FieldSet:
    """The places that a new document sets and the old one does not, or not so."""
    result: FieldSet = {}
    for member, value in new.items():
        before = old.get(member, ABSENT)
        if before is value or (before == value and type(before) is type(value)):
            continue
        sub = shape.field(member) or FREE
        if member == "metadata":
            fields = _added_or_modified(before, value, sub)
        else:
            if type(before) is dict and type(value) is dict:
                before, value = _apart(before, value)
            # The specs of a workload's pods are alike.
            both = [value] if before is ABSENT else [before, value]
            find = partial(_added_or_modified, before, value, sub)
            fields = shape.remembered(both, find, part=member)
        if fields is not EMPTY:
            result[f"f:{member}"] = fields
    return result or EMPTY


def _added_or_modified(old: Any, new: Any, shape: Shape) -> FieldSet:
    changes = compare(old, new, shape)
    return union(changes.added, changes.modified)


def owned_by_creator(empty: Document, doc: Document, shape: Shape, ignored: FieldSet) -> FieldSet:
    """Fields that a creator of the document owns, before another manager takes some."""
    owned = set_between(_view(empty, ignored), _view(doc, ignored), shape)
    return difference(owned, METADATA_ITSELF)


class OwnedFields:
    """The creators' sets of one kind's objects.

    `empty` is the kind's zero value, `ignored` what the main endpoint does not write.
    """

    def __init__(self, shape: Shape, *, empty: Document, ignored: FieldSet) -> None:
        self._shape = shape
        self._empty = _view(empty, ignored)
        self._ignored = ignored
        self._known: dict[tuple[bytes, Outline], bytes] = {}
        self._of_names: dict[str, bool] = {}

    def spelled_out(self, raw: bytes, taken: bytes) -> bytes:
        """Fields that its creator owns, without those that were `taken` (a set as JSON); empty: none.

        `raw` is the object as it is stored: equal parts of it are equal bytes.
        """
        outline = tuple(self._outline(raw))
        asked = (taken, outline)
        out = self._known.get(asked)
        if out is None:
            out = self._found(orjson.loads(raw), orjson.loads(taken))
            if sum(len(part) for _, part in outline) <= _LONGEST_REMEMBERED:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[asked] = out
        return out

    def _found(self, doc: Document, taken: FieldSet) -> bytes:
        view = _view(doc, self._ignored)
        owned = difference(set_between(self._empty, view, self._shape), METADATA_ITSELF)
        left = difference(owned, EMPTY if "" in taken else taken)
        return b"" if left is EMPTY else orjson.dumps(left, option=orjson.OPT_SORT_KEYS)

    def _outline(self, raw: bytes) -> Iterator[tuple[str, bytes | tuple[str, ...]]]:
        for member, part in _MEMBERS.decode(raw).items():
            if member in TYPE or f"f:{member}" in self._ignored:
                continue
            if member == "metadata":
                yield from _outline_of_metadata(orjson.loads(memoryview(part)))
            elif self._has_names_only(member) and type(value := orjson.loads(memoryview(part))) is dict:
                yield member, tuple(value)
            else:
                yield member, bytes(part)

    def _has_names_only(self, member: str) -> bool:
        """Whether the member is a map of scalars, each with an owner of its own."""
        result = self._of_names.get(member)
        if result is None:
            shape = self._shape.field(member) or FREE
            item = shape.item()
            result = self._of_names[member] = (
                shape.kind == "object"
                and not shape.atomic
                and not shape.fields()
                and item is not None
                and item.kind == "scalar"
            )
        return result


def _outline_of_metadata(metadata: Document) -> Iterator[tuple[str, bytes | tuple[str, ...]]]:
    for name, each in metadata.items():
        if name not in SERVERS_METADATA:
            is_map = type(each) is dict and name in ("labels", "annotations")
            yield f".{name}", tuple(each) if is_map else orjson.dumps(each)
