"""The writes that an API server has stored, with the client of each and what that client knew.

manager's reconcile begins ──▶ RECONCILE (what its caches knew) ─┐ carried by contextvars with every request
request ──▶ API server ──▶ RecordingStorage.commit() ────────────┴──▶ Commit ──▶ rules of the kind

Rules check commits, whatever a manager's caches contain. The knowledge of the writer is recorded too, because a rule
can only require what the writer could know: the writer may or may not know a change that its caches had not received
when its reconcile began.
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
    """A manager's knowledge when it began to decide: for each shelf, all changes up to one revision."""

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
"""The reconcile in which a request is sent; None outside of managers."""

SENDER: ContextVar[str] = ContextVar("sender", default="")
"""The sender of the request that is being carried out: a manager's name, `user`, or empty for the cluster itself."""


class Commit(msgspec.Struct, frozen=True):
    """One write as stored."""

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
    """A version of something. `revision` is the API server's."""

    @property
    def revision(self) -> int: ...


V = TypeVar("V", bound=Versioned)


def list_versions_since(versions: Sequence[V], known: float) -> Sequence[V]:
    """The versions of an object that a writer with this knowledge may consider to be the current one."""
    return versions[max(0, bisect_right(versions, known, key=lambda version: version.revision) - 1) :]


class RecordingStorage(MemoryStorage):
    """Memory that calls `listen` with each commit to the shelves it was asked about, and keeps a trace of all."""

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
