"""managedFields on the way through the API server: recorded at each write, shown to who reads.

Call + documents ──▶ Ownership.of_new(), of_change(), taken_by_server() ──▶ Stored.managed
Stored           ──▶ Ownership.show() ──▶ its bytes with managedFields

The rules are managed/; here they meet the request (who writes, through which endpoint) and the stored bytes.
Clients in this process that do not want managedFields pay nothing for them.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from pykruise.kube.builtin_types import decoder_for
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.calls import Call
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.encoding import encode_object
from pykruise.sandbox.apiserver.managed import managers
from pykruise.sandbox.apiserver.managed.field_sets import EMPTY, FieldSet
from pykruise.sandbox.apiserver.managed.managers import Manager
from pykruise.sandbox.apiserver.managed.owned import Owned
from pykruise.sandbox.apiserver.managed.shapes import FREE, Shape, of_definition, of_schema
from pykruise.sandbox.apiserver.storage import Stored

__all__ = ["Kind", "Ownership", "manager_of"]

_LONGEST_AGENT: Final = 128
_MOST_SHOWN: Final = 1_024
"""Versions of objects whose managedFields are kept as they were shown."""


class Kind(NamedTuple):
    """What ownership needs to know of a served kind."""

    entry: CatalogEntry
    shape: Shape
    empty: Document
    """What an object without anything in it is: the zero value of its type."""
    owned: Owned
    """What creators own."""

    def ignored(self, subresource: str = "") -> FieldSet:
        """What an endpoint does not write."""
        return _ignored(self.entry, subresource)


def _ignored(entry: CatalogEntry, subresource: str = "") -> FieldSet:
    if subresource == "status":
        return _NOT_OF_STATUS_CUSTOM if entry.is_custom else _NOT_OF_STATUS
    return _NOT_OF_MAIN if "status" in entry.subresources else EMPTY


_NOT_OF_MAIN: Final[FieldSet] = {"f:status": {}}
_NOT_OF_STATUS: Final[FieldSet] = {"f:spec": {}}
_NOT_OF_STATUS_CUSTOM: Final[FieldSet] = {"f:spec": {}, "f:metadata": {}}


def manager_of(call: Call, operation: str = "Update") -> Manager:
    """Who writes: `fieldManager`, or what the User-Agent begins with."""
    name = call.query.get("fieldManager") or ""
    if not name:
        agent = (call.headers.get("user-agent") or "").partition("/")[0][:_LONGEST_AGENT]
        name = (agent if agent.isprintable() else "".join(filter(str.isprintable, agent))) or "unknown"
    return Manager(name, operation, call.entry.api_version, call.subresource)


class Ownership:
    """The managedFields of one API server's objects. Keeps what it learned about kinds.

    Without `tracks` fields have no owners: writes cost less, and applies know no other appliers.
    """

    def __init__(self, *, tracks: bool = True) -> None:
        self._tracks = tracks
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._shown: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def kind(self, entry: CatalogEntry) -> Kind:
        """The kind as ownership sees it."""
        key = (entry.api_version, entry.resource.plural)
        found = self._kinds.get(key)
        if found is None or found.entry is not entry:
            found = self._kinds[key] = _kind(entry)
        return found

    # --- writes ----------------------------------------

    def of_new(self, call: Call, asked: Document, doc: Document, now: Instant) -> bytes:
        """A new object's: what was asked for is its creator's, what the server added has no owner."""
        if not self._tracks:
            return b""
        kind = self.kind(call.entry)
        return managers.created(
            manager_of(call), format_time(now), asked, doc, kind.shape, ignored=kind.ignored()
        )

    def of_change(self, call: Call, stored: Stored, old: Document, new: Document, now: Instant) -> bytes:
        """An object's after a PUT or PATCH; the new document's managedFields are taken out of it."""
        sent = new["metadata"].pop("managedFields", None)
        if not self._tracks:
            return b""
        kind = self.kind(call.entry)
        kept = self._sent(call, stored, old, sent)
        return managers.updated(
            kept,
            old,
            new,
            kind.shape,
            empty=kind.empty,
            who=manager_of(call),
            now=format_time(now),
            ignored=kind.ignored(call.subresource),
            not_creators=kind.ignored(),
        )

    def _sent(self, call: Call, stored: Stored, old: Document, sent: Any) -> bytes:
        """Who owns what before the change: as the client says, when it says something of its own."""
        if not sent or call.subresource or not isinstance(sent, list):
            return stored.managed
        if sent == [{}]:
            return b""
        if sent == self.entries(call.entry, old, stored.managed):
            return stored.managed
        found = managers.read_entries([each for each in sent if isinstance(each, Mapping)])
        return found or stored.managed

    def taken_by_server(self, entry: CatalogEntry, kept: bytes, old: Document, new: Document) -> bytes:
        """After a change that the server itself made: what it set has no manager."""
        if not self._tracks:
            return b""
        return managers.disowned(kept, old, new, self.kind(entry).shape)

    def by_server(
        self,
        entry: CatalogEntry,
        kept: bytes,
        old: Document,
        new: Document,
        *,
        now: Instant,
        subresource: str,
    ) -> bytes:
        """After a change by a controller inside the server."""
        if not self._tracks:
            return b""
        kind = self.kind(entry)
        return managers.updated(
            kept,
            old,
            new,
            kind.shape,
            empty=kind.empty,
            who=Manager("kube-apiserver", "Update", entry.api_version, subresource),
            now=format_time(now),
            ignored=kind.ignored(subresource),
            not_creators=kind.ignored(),
        )

    # --- reads ----------------------------------------

    def entries(self, entry: CatalogEntry, doc: Document, kept: bytes) -> list[dict[str, Any]]:
        """`metadata.managedFields` of a document that does not show them."""
        if not kept:
            return []
        found: list[dict[str, Any]] = orjson.loads(self._spelled_out(entry, encode_object(doc), kept))
        return found

    def added(self, entry: CatalogEntry, doc: Document, kept: bytes) -> Document:
        """The document with its managedFields; changes and returns `doc`."""
        found = self.entries(entry, doc, kept)
        if found:
            doc["metadata"]["managedFields"] = found
        return doc

    def show(self, entry: CatalogEntry, raw: bytes, stored: Stored) -> bytes:
        """An object's bytes with its managedFields. `raw` may differ from what is stored in version only."""
        if not stored.managed:
            return raw
        found = self._remembered(entry, raw, stored)
        if found == b"[]":
            return raw
        # The uid is the last member of metadata, and in no other place.
        mark = b'"uid":"%s"}' % stored.uid.encode()
        if raw.count(mark) == 1:
            place = raw.index(mark) + len(mark) - 1
            return b"".join((raw[:place], b',"managedFields":', found, raw[place:]))
        doc = decode(raw)
        doc["metadata"]["managedFields"] = orjson.loads(found)
        return encode_object(doc)

    def _spelled_out(self, entry: CatalogEntry, raw: bytes, kept: bytes) -> bytes:
        return managers.spelled_out(kept, raw, self.kind(entry).owned)

    def _remembered(self, entry: CatalogEntry, raw: bytes, stored: Stored) -> bytes:
        """The managedFields of what is stored. A writer reads the answer, and watchers then ask again."""
        asked = (entry.api_version, stored.revision)
        found = self._shown.get(asked)
        if found is None:
            found = self._shown[asked] = self._spelled_out(entry, raw, stored.managed)
            if len(self._shown) > _MOST_SHOWN:
                self._shown.popitem(last=False)
        return found


def _kind(entry: CatalogEntry) -> Kind:
    if entry.is_custom:
        shape = of_schema(entry.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        return _with_owned(entry, shape, {"metadata": {}})
    decoder = decoder_for(entry.definition) if entry.definition else None
    if decoder is None:
        return _with_owned(entry, FREE, {"metadata": {}})
    empty, _ = decoder.decode({})
    return _with_owned(entry, of_definition(entry.definition), empty)


def _with_owned(entry: CatalogEntry, shape: Shape, empty: Document) -> Kind:
    ignored = _ignored(entry)
    return Kind(entry, shape, empty, Owned(shape, empty=empty, ignored=ignored))
