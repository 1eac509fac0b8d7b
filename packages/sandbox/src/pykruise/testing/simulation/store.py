"""The objects and writes that the API server of a simulation stores, as rules read them.

every write ──▶ ObservedStorage.commit() ──▶ SimulatedStore ──▶ rules: functions from it to a problem
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.owners import is_controlled_by
from pykruise.sandbox.apiserver.objects.storage import StorageChange
from pykruise.testing.simulation.history import SENDER, RecordingStorage

__all__ = ["ObservedStorage", "Rule", "Rules", "SimulatedStore", "Write"]

SILENT = frozenset(("events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes"))
"""Shelves whose writes no rule judges. A cluster in which only these objects change is at rest."""

_MOST_DECODED = 10_000


class Write(msgspec.Struct, frozen=True):
    """One write as the API server stored it."""

    at: float
    """Seconds since the simulation began."""
    sender: str
    """An operator (`operator-1`, …), an operation of the script (`user`), or a part of the cluster (other names)."""
    verb: str
    """create, update or remove."""
    resource: str
    """Plural with the group, such as `deployments.apps`."""
    key: Key
    document: Document
    """The object after the write, or the removed object."""


class SimulatedStore:
    """The stored objects, and all writes. Documents must not be modified."""

    def __init__(self, storage: "ObservedStorage") -> None:
        self._storage = storage
        self._decoded: dict[tuple[str, int], Document] = {}

    def list_objects(self, resource: Resource, namespace: str = "") -> list[Document]:
        """Return the objects of a resource, in the order of namespace and name. `namespace`: empty for all."""
        items = self._storage.scan(str(resource), namespace=namespace).items
        return [self._decode(str(resource), item.revision, item.raw) for item in items]

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Document | None:
        """Return an object; None if it does not exist."""
        stored = self._storage.get(str(resource), Key(namespace if resource.namespaced else "", name))
        return None if stored is None else self._decode(str(resource), stored.revision, stored.raw)

    def list_owned(self, owner: Document, resource: Resource) -> list[Document]:
        """Return the objects of a resource that this object controls."""
        metadata = owner["metadata"]
        items = self.list_objects(resource, metadata.get("namespace", ""))
        return [item for item in items if is_controlled_by(item, metadata["uid"])]

    def list_writes(self, resource: Resource | None = None, *, sender: str = "") -> Iterator[Write]:
        """Yield the writes to a `resource` (None: to all), oldest first. `sender`: prefix of the sender's name."""
        for write in self._storage.writes:
            if resource is not None and write.resource != str(resource):
                continue
            if write.sender.startswith(sender):
                yield write

    def _decode(self, shelf: str, revision: int, raw: bytes) -> Document:
        known = self._decoded.get((shelf, revision))
        if known is None:
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            known = self._decoded[shelf, revision] = decode(raw)
        return known


class ObservedStorage(RecordingStorage):
    """A storage that calls `on_write` after each write that rules judge."""

    def __init__(self, *, clock: Callable[[], float], start: float) -> None:
        super().__init__(clock=clock, start=start, shelves=frozenset())
        self.writes: list[Write] = []
        self.last_change_at = start
        self.on_write: Callable[[], None] = lambda: None

    def commit(self, change: StorageChange) -> None:
        """Store a write, and let rules judge it."""
        super().commit(change)
        if change.shelf in SILENT:
            return
        stored = change.new or change.old
        assert stored is not None
        now = self._clock()
        self.last_change_at = now
        verb = "create" if change.old is None else "remove" if change.new is None else "update"
        self.writes.append(
            Write(
                at=now - self._start,
                sender=SENDER.get(),
                verb=verb,
                resource=change.shelf,
                key=stored.key,
                document=_Lazy(stored.raw),
            )
        )
        self.on_write()


class _Lazy(dict[str, Any]):
    """A document that is decoded when it is read: most documents are never read."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw: bytes | None = raw

    def _load(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            self.update(decode(raw))

    def __getitem__(self, name: str) -> Any:
        self._load()
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field."""
        self._load()
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._load()
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._load()
        return super().__iter__()


Rule = Callable[[SimulatedStore], str | None]
"""A rule: a function that returns the problem in one sentence, or None. Its name is the name of the rule."""

Rules = Sequence[Rule]
