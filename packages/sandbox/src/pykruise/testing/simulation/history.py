"""The writes that an API server has stored, each with its client and the state that the client knew.

manager's reconcile begins ──▶ RECONCILE (what its caches knew) ─┐ carried by contextvars with every request
request ──▶ API server ──▶ RecordingStorage.commit() ────────────┴──▶ Commit ──▶ rules of the kind

Rules judge commits only, whatever a manager's cache contains. A commit also records which changes the writer's caches
had seen when its reconcile began, because a rule may judge a write only by the changes that its writer knew. Commits do
not record whether the writer knew later changes.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeVar

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, StorageChange

__all__ = ["RECONCILE", "SENDER", "Commit", "Reconcile", "RecordingStorage", "list_versions_since"]


class Reconcile(msgspec.Struct):
    """State of the cluster that a manager knew when its reconcile began.

    `known`: for each resource (a shelf of the storage), the revision up to which the manager had seen all changes.
    """

    manager: str
    number: int
    at: float
    """Time in seconds since 1970, as in commits."""
    known: Mapping[str, int]
    controller: str = ""
    """Name of the client's controller."""
    is_over: bool = False
    """Whether the reconcile has ended: it no longer waits for responses."""


RECONCILE: ContextVar[Reconcile | None] = ContextVar("reconcile", default=None)
"""The reconcile in which a request is sent; None if no manager sends the request."""

SENDER: ContextVar[str] = ContextVar("sender", default="")
"""The sender of the request that is being executed: a manager's name, `user`, or empty for the cluster itself."""


class Commit(msgspec.Struct, frozen=True):
    """A write as it was stored."""

    revision: int
    at: float
    shelf: str
    key: Key
    sender: str
    reconcile: Reconcile | None
    old: Document | None
    new: Document | None

    @property
    def verb(self) -> str:
        """create, update or remove."""
        return "create" if self.old is None else "remove" if self.new is None else "update"


class Versioned(Protocol):
    """A version of an object. `revision` is the API server's number of the write."""

    @property
    def revision(self) -> int: ...


V = TypeVar("V", bound=Versioned)


def list_versions_since(versions: Sequence[V], known: float) -> Sequence[V]:
    """The versions of an object that may be current for a writer that has seen all changes up to `known`."""
    return versions[max(0, bisect_right(versions, known, key=lambda version: version.revision) - 1) :]


class RecordingStorage(MemoryStorage):
    """A storage that calls `listen` with each commit to the requested shelves, and keeps a line about every commit."""

    def __init__(self, *, clock: Callable[[], float], start: float, shelves: frozenset[str]) -> None:
        super().__init__()
        self._clock = clock
        self._start = start
        self._wanted = shelves
        self.listen: Callable[[Commit], None] = lambda _commit: None
        self.trace: list[str] = []
        self.last_change: dict[str, float] = {}

    def commit(self, change: StorageChange) -> None:
        super().commit(change)
        stored = change.new or change.old
        assert stored is not None
        sender = SENDER.get()
        now = self._clock()
        self.last_change[change.shelf] = now
        verb = "create" if change.old is None else "remove" if change.new is None else "update"
        self.trace.append(
            f"{now - self._start:9.3f} {change.revision:5d} {sender or '-':9s} {verb} {change.shelf} {stored.key}"
        )
        if change.shelf in self._wanted:
            self.listen(
                Commit(
                    revision=change.revision,
                    at=now,
                    shelf=change.shelf,
                    key=stored.key,
                    sender=sender,
                    reconcile=RECONCILE.get(),
                    old=decode(change.old.raw) if change.old else None,
                    new=decode(change.new.raw) if change.new else None,
                )
            )
