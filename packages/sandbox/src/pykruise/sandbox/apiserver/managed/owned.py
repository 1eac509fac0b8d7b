"""Fields that a manager can own: a creator owns everything in its object, except fields that other managers took.

    two documents ──▶ find_differences()      ──▶ the members in which they differ
    two documents ──▶ set_between() ──▶ the places that the second one sets
    a stored object ──▶ OwnedFields.spell_out() ──▶ its creator's set, as JSON

Pure, except for the cache of OwnedFields. Objects of a kind are similar, and a set does not depend on the values of
leaves, so objects with an equal outline share one computed set.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.documents import Document
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet, subtract_sets, unite_sets
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
"""Fields of metadata that no manager owns."""

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
METADATA_ITSELF: Final[FieldSet] = {"f:metadata": {}}
"""The field `metadata` itself: every manager sets it, and it has no owner."""

_MOST_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 16 * 1024

Outline = tuple[tuple[str, bytes | tuple[str, ...]], ...]
"""The members of a document. Each has the data that determines its places: the keys if the member is a map of scalars,
otherwise its value.
"""


def _select_ownable_part(doc: Document, ignored: FieldSet) -> Document:
    """The document without the fields that no manager owns, and without the members that an endpoint does not write."""
    view = {
        member: value for member, value in doc.items() if member not in TYPE and f"f:{member}" not in ignored
    }
    if "metadata" in view:
        view["metadata"] = _select_ownable_metadata(view["metadata"])
    return view


def _select_ownable_metadata(metadata: Any) -> Any:
    if type(metadata) is not dict:
        return metadata
    return {member: value for member, value in metadata.items() if member not in SERVERS_METADATA}


def find_differences(old: Document, new: Document, ignored: FieldSet) -> tuple[Document, Document]:
    """Return the members in which the documents differ: those of the old and those of the new document. Members that no
    manager owns or that the endpoint does not write are left out.
    """
    left: Document = {}
    right: Document = {}
    for member in (*new, *(member for member in old if member not in new)):
        before, after = old.get(member, ABSENT), new.get(member, ABSENT)
        if before is after or member in TYPE or f"f:{member}" in ignored:
            continue
        if member == "metadata":
            before, after = _select_ownable_metadata(before), _select_ownable_metadata(after)
        if before == after and type(before) is type(after):
            continue
        if before is not ABSENT:
            left[member] = before
        if after is not ABSENT:
            right[member] = after
    return left, right


def _select_differing_members(old: Document, new: Document) -> tuple[Document, Document]:
    """Return the members that are not the same object in both documents."""
    right = {member: value for member, value in new.items() if old.get(member, ABSENT) is not value}
    left = {member: value for member, value in old.items() if member in right or member not in new}
    return left, right


def set_between(old: Document, new: Document, shape: Shape) -> FieldSet:
    """The places that the new document sets and that the old document does not have, or has with another value."""
    result: FieldSet = {}
    for member, value in new.items():
        before = old.get(member, ABSENT)
        if before is value or (before == value and type(before) is type(value)):
            continue
        sub = shape.find_field(member) or FREE
        if member == "metadata":
            fields = _compute_added_or_modified(before, value, sub)
        else:
            if type(before) is dict and type(value) is dict:
                before, value = _select_differing_members(before, value)
            # Specs of a workload's pods are similar, so the result is cached.
            both = [value] if before is ABSENT else [before, value]
            find = partial(_compute_added_or_modified, before, value, sub)
            fields = shape.remember(both, find, part=member)
        if fields is not EMPTY:
            result[f"f:{member}"] = fields
    return result or EMPTY


def _compute_added_or_modified(old: Any, new: Any, shape: Shape) -> FieldSet:
    changes = compare(old, new, shape)
    return unite_sets(changes.added, changes.modified)


def compute_creator_fields(empty: Document, doc: Document, shape: Shape, ignored: FieldSet) -> FieldSet:
    """Fields that the creator of the document owns until another manager takes some of them."""
    owned = set_between(_select_ownable_part(empty, ignored), _select_ownable_part(doc, ignored), shape)
    return subtract_sets(owned, METADATA_ITSELF)


class OwnedFields:
    """The sets of creators, for objects of one kind.

    `empty` is the kind's zero value; `ignored` are the fields that the main endpoint does not write.
    """

    def __init__(self, shape: Shape, *, empty: Document, ignored: FieldSet) -> None:
        self._shape = shape
        self._empty = _select_ownable_part(empty, ignored)
        self._ignored = ignored
        self._known: dict[tuple[bytes, Outline], bytes] = {}
        self._of_names: dict[str, bool] = {}

    def spell_out(self, raw: bytes, taken: bytes) -> bytes:
        """Return the fields that the creator owns, without those that were `taken` (a set as JSON); empty when it
        owns none.

        `raw` is the stored object: equal parts have equal bytes.
        """
        outline = tuple(self._outline_of(raw))
        asked = (taken, outline)
        out = self._known.get(asked)
        if out is None:
            out = self._compute_owned(orjson.loads(raw), orjson.loads(taken))
            if sum(len(part) for _, part in outline) <= _LONGEST_REMEMBERED:
                if len(self._known) >= _MOST_REMEMBERED:
                    self._known.clear()
                self._known[asked] = out
        return out

    def _compute_owned(self, doc: Document, taken: FieldSet) -> bytes:
        view = _select_ownable_part(doc, self._ignored)
        owned = subtract_sets(set_between(self._empty, view, self._shape), METADATA_ITSELF)
        left = subtract_sets(owned, EMPTY if "" in taken else taken)
        return b"" if left is EMPTY else orjson.dumps(left, option=orjson.OPT_SORT_KEYS)

    def _outline_of(self, raw: bytes) -> Iterator[tuple[str, bytes | tuple[str, ...]]]:
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
        """Whether the member is a map of scalars in which each entry has its own owner."""
        result = self._of_names.get(member)
        if result is None:
            shape = self._shape.find_field(member) or FREE
            item = shape.find_item()
            result = self._of_names[member] = (
                shape.kind == "object"
                and not shape.atomic
                and not shape.list_fields()
                and item is not None
                and item.kind == "scalar"
            )
        return result


def _outline_of_metadata(metadata: Document) -> Iterator[tuple[str, bytes | tuple[str, ...]]]:
    for name, each in metadata.items():
        if name not in SERVERS_METADATA:
            is_map = type(each) is dict and name in ("labels", "annotations")
            yield f".{name}", tuple(each) if is_map else orjson.dumps(each)
