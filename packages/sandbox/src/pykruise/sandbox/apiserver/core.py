"""Common parts of all requests: storage, catalog, watchers, clock, and the one place that commits writes.

reads.py, writes.py, deletion.py, subresources.py, crds.py ──▶ Core ──▶ Storage.commit() ──▶ Hub.publish()

`put` and `remove` do not await between reading and writing. If the caller also does not await between its check of the
object and the write, the write replaces exactly the object that the caller has checked.
"""

import random
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import msgspec
import orjson

from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.access.authorizer import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    Authorizer,
)
from pykruise.sandbox.apiserver.access.tokens import Tokens
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry
from pykruise.sandbox.apiserver.objects.ownership import FieldOwnership
from pykruise.sandbox.apiserver.objects.storage import NO_LABELS, Storage, StorageChange, Stored
from pykruise.sandbox.apiserver.plugins.namespace_limits import LIMIT_RANGES, QUOTAS, NamespaceLimits
from pykruise.sandbox.apiserver.plugins.reviewers import Admission
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.encoding import (
    encode_object,
    relabel,
    replace_revision,
    revise_bytes,
)
from pykruise.sandbox.apiserver.requests.selection import Selection, make_fields_extractor
from pykruise.sandbox.apiserver.requests.watches import Hub

Listener = Callable[[StorageChange], None]

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BY_NODE = "spec.nodeName"
_EVERYTHING = ("", "")


class Core:
    """The shared parts of one API server."""

    def __init__(
        self,
        *,
        storage: Storage,
        catalog: Catalog,
        hub: Hub,
        admission: Admission,
        clock: Clock,
        rng: random.Random,
        tracks_fields: bool = True,
        rbac: bool = False,
        service_accounts: bool = False,
        checks_accounts: bool = True,
    ) -> None:
        self.storage = storage
        self.catalog = catalog
        self.hub = hub
        self.admission = admission
        self.clock = clock
        self.rng = rng
        self.ownership = FieldOwnership(catalog, tracks=tracks_fields)
        self.service_accounts = service_accounts
        """Whether pods get the service account of their namespace, and a volume with its token."""
        self.checks_accounts = checks_accounts
        """Whether a pod is rejected while the service account that it names (other than `default`) does not exist."""
        self._listeners: dict[str, list[Listener]] = {}
        self._extractors: dict[tuple[str, ...], Callable[[Mapping[str, Any]], tuple[str, ...]]] = {}
        self.tokens = Tokens(storage.get, clock=clock, rng=rng)
        self.limits = NamespaceLimits(storage)
        for shelf in (QUOTAS, LIMIT_RANGES):
            self.on_change(shelf, self.limits.handle_change)
        self.authorizer: Authorizer | None = None
        """If None, all users may do everything."""
        if rbac:
            self.authorizer = Authorizer(storage)
            for shelf in (ROLES, CLUSTER_ROLES, BINDINGS, CLUSTER_BINDINGS):
                self.on_change(shelf, self.authorizer.forget)

    def on_change(self, shelf: str, listener: Listener) -> None:
        """Call the listener in the same step as each commit to the shelf."""
        self._listeners.setdefault(shelf, []).append(listener)

    def get(self, entry: CatalogEntry, namespace: str, name: str) -> Stored | None:
        """Return the stored object."""
        return self.storage.get(entry.shelf, Key(namespace, name))

    async def load(self, entry: CatalogEntry, stored: Stored) -> Document:
        """Decode a fresh document of the object in the entry's version."""
        return await self.from_storage(entry, decode(stored.raw))

    def decode_beside(self, entry: CatalogEntry, stored: Stored, doc: Document, shared: Set[str]) -> Document:
        """Return a second document of an object that has already been decoded in the entry's version. The two documents
        share the members in `shared`.
        """
        parts = _MEMBERS.decode(stored.raw)
        other = {
            member: doc[member] if member in shared else orjson.loads(memoryview(part))
            for member, part in parts.items()
        }
        other["apiVersion"] = entry.api_version
        return other

    async def from_storage(self, entry: CatalogEntry, doc: Document) -> Document:
        """Convert a stored document to the entry's version. The caller may change the result."""
        if entry.converter is not None:
            return (await entry.converter.from_storage([doc]))[0]
        doc["apiVersion"] = entry.api_version
        return doc

    async def show(self, entry: CatalogEntry, raw: bytes) -> bytes:
        """Convert stored bytes to the entry's version."""
        if entry.converter is not None:
            return encode_object((await entry.converter.from_storage([decode(raw)]))[0])
        return relabel(raw, entry.api_version)

    async def answer(self, call: Call, stored: Stored) -> bytes:
        """Return the stored object in the form that the call requests: its version, with or without managedFields."""
        raw = await self.show(call.entry, stored.raw)
        return self.ownership.show(call.entry, raw, stored) if call.shows_managed else raw

    def preview(self, call: Call, doc: Document, managed: bytes, *, stored: Stored | None = None) -> bytes:
        """Encode a document that is not stored (dry run, removal) in the form that the call requests. `stored`: the
        object before the change.
        """
        if call.shows_managed:
            doc = self.ownership.add_managed_fields(call.entry, doc, managed, stored=stored)
        return encode_object(doc)

    async def encode_for_storage(self, entry: CatalogEntry, doc: Document) -> Document:
        """Convert a document of the entry's version to its stored form."""
        if entry.converter is not None:
            return (await entry.converter.to_storage([doc]))[0]
        if doc.get("apiVersion") != entry.storage_api_version:
            doc["apiVersion"] = entry.storage_api_version
        return doc

    def put(
        self, entry: CatalogEntry, old: Stored | None, doc: Document, *, managed: bytes | None = None
    ) -> Stored:
        """Commit the document (in its storage version, without managedFields). Return the stored object.

        `managed`: its field managers; None leaves them unchanged. A write without a change is not committed: the
        result is `old`, and there is no event.
        """
        metadata = doc["metadata"]
        if managed is None:
            managed = old.managed if old is not None else b""
        revision = self.storage.revision + 1
        if old is not None:
            metadata["resourceVersion"] = str(old.revision)
            raw = encode_object(doc)
            if managed == old.managed and raw == old.raw:
                return old
            raw = revise_bytes(raw, old.revision, revision)
            metadata["resourceVersion"] = str(revision)
        else:
            metadata["resourceVersion"] = str(revision)
            raw = encode_object(doc)
        stored = Stored(
            key=Key(metadata.get("namespace") or "", metadata["name"]),
            raw=raw,
            revision=revision,
            uid=metadata.get("uid") or "",
            labels=metadata.get("labels") or NO_LABELS,
            fields=self._get_extractor(entry.facts)(doc),
            managed=managed,
        )
        self._commit(StorageChange(revision, entry.shelf, old, stored))
        return stored

    def remove(self, entry: CatalogEntry, stored: Stored) -> bytes:
        """Commit the removal. Return the last state of the object, with the revision of its removal."""
        revision = self.storage.revision + 1
        self._commit(StorageChange(revision, entry.shelf, stored, None))
        return replace_revision(stored, revision)

    def _commit(self, change: StorageChange) -> None:
        self.storage.commit(change)
        self.hub.publish(change, self._list_triggers(change) if self.hub.has_watchers(change.shelf) else ())
        for listener in tuple(self._listeners.get(change.shelf, ())):
            listener(change)

    def _list_triggers(self, change: StorageChange) -> list[tuple[str, str]]:
        """All triggers under which a watcher of this change may be registered."""
        stored = change.new or change.old
        assert stored is not None
        triggers = [_EVERYTHING, ("metadata.name", stored.key.name)]
        if stored.key.namespace:
            triggers.append(("metadata.namespace", stored.key.namespace))
        if change.shelf == "pods":
            nodes = [each.fields[0] for each in (change.old, change.new) if each is not None and each.fields]
            triggers += [(_BY_NODE, node) for node in dict.fromkeys(nodes)]
        return triggers

    def _get_extractor(self, facts: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
        extractor = self._extractors.get(facts)
        if extractor is None:
            extractor = self._extractors[facts] = make_fields_extractor(facts)
        return extractor


def trigger_of(entry: CatalogEntry, namespace: str, selection: Selection) -> tuple[str, str]:
    """Return the trigger under which the hub registers a watcher: the most selective value of its selection."""
    name = selection.find_required_value("metadata.name")
    if name is not None:
        return ("metadata.name", name)
    if entry.shelf == "pods" and (node := selection.find_required_value(_BY_NODE)) is not None:
        return (_BY_NODE, node)
    return ("metadata.namespace", namespace) if namespace else _EVERYTHING
