"""Many decisions about one stored object, settled together by one conditional write.

request ──▶ BatchedUpdates.settle() ──▶ all requests about the same object ──▶ UpdateLedger.decide() ──▶
one write ──▶ answers

Decisions never contradict each other: each decision is stored by a write that names the resourceVersion on which it was
based. If the object has changed since then, the API server responds with 409, and the replica reads the stored object
and decides again. The API server serializes the writes, so any number of replicas may make decisions.

Batching keeps the cost low. While one write is in flight, other requests for the same object wait and share the next
write. In a burst the next write waits a moment longer for more requests. When another replica writes the same object,
batches wait longer and for a random time, so that the two replicas do not always conflict. Requests that arrive while
a batch meets conflicts join its next attempt.
"""

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pykruise.kube.errors import ConflictError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count

__all__ = [
    "ATTEMPTS",
    "BatchStats",
    "BatchedUpdates",
    "ContendedError",
    "StoredView",
    "UnsettledError",
    "UpdateLedger",
    "UpdateRequest",
]

ATTEMPTS: Final = 4
"""Number of conflicting writes after which a request fails; with `patience_s` a request may be tried more often."""

FIRST_WAIT_S: Final = 0.01
GROWTH: Final = 5.0
JITTER: Final = 0.1
"""Waits between attempts: 10, 50 and 250 ms, each with up to 10 % more."""

LATER_WAITS_S: Final = (0.05, 0.3)
"""Range of the random waits between further attempts, so that two conflicting replicas do not always write together."""

GATHER_S: Final = 0.03
"""Seconds that a batch waits for more requests during a burst."""

BURST_S: Final = 0.1
"""A batch is part of a burst if it begins at most this number of seconds after the previous write."""

CONTENDED_S: Final = 1.0
"""Seconds after a conflict during which another replica is assumed to write the same object. Decisions are then based
on the stored object, not on the cached one: the other replica's writes reach the cache too late.
"""

CONTENDED_GATHER: Final = (1.0, 4.0)
"""Random factor by which GATHER_S is multiplied while another replica writes the same object."""

MOST: Final = 1000
"""Number of objects that are remembered. When there are more, idle objects are forgotten."""

FORGET_S: Final = 600.0
"""Seconds from the latest request for an object until it is forgotten; its last write is in the caches by then."""


class UnsettledError(Exception):
    """A decision could not be stored. The caller must reject the request, whose sender must try again."""


class ContendedError(UnsettledError):
    """Every write met a conflict."""


class UpdateRequest(msgspec.Struct, kw_only=True):
    """A requested decision. Each kind of decision has a subclass, which adds its subject and the answer."""

    attempts: int = 0
    """Number of writes that included this request."""
    came_at: float = 0.0
    """Time of arrival, on the clock of the event loop."""
    error: Exception | None = None
    is_settled: bool = False


class BatchStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of batches; each counts from the start of the process."""

    asked: int
    """Requested decisions, including those that needed no write."""
    writes: int
    """Writes sent."""
    conflicts: int
    """Writes that met a conflict."""


class StoredView(Protocol):
    """Fields of an object that every decision needs."""

    @property
    def key(self) -> Key: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...
    @property
    def is_deleting(self) -> bool: ...


V = TypeVar("V", bound=StoredView)
R = TypeVar("R", bound=UpdateRequest)
C = TypeVar("C")
R_contra = TypeVar("R_contra", bound=UpdateRequest, contravariant=True)


class UpdateLedger(Protocol[V, R_contra, C]):
    """Reads, decides on and writes objects of one kind. `kind` is for messages."""

    kind: str

    async def find_newest(self, key: Key) -> V | None:
        """Return the newest known object, from a cache if there is one; None: it is deleted. Raises KubeError."""
        ...

    async def read_fresh(self, key: Key) -> V | None:
        """Return the stored object; None: it is deleted. Raises KubeError."""
        ...

    def is_free(self, view: V, request: R_contra) -> bool:
        """Whether the request needs no write. If so, this method sets the answer of the request."""
        ...

    async def decide(self, view: V, batch: Sequence[R_contra]) -> C | None:
        """Set the answers of all requests in their order and return the change to store; None: nothing changes."""
        ...

    async def write(self, view: V, change: C) -> V:
        """Store the change if the object still has the version of `view`. Otherwise raises ConflictError. Raises
        KubeError.
        """
        ...

    def settle_without(self, batch: Sequence[R_contra]) -> None:
        """Set the answers of requests about an object that is deleted."""
        ...


class _Queue(Generic[V, R]):
    """Requests that wait for one object."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting: list[R] = []
        self.last: V | None = None
        """The object as this process last wrote it."""
        self.is_unknown = False
        """Whether the stored object must be read: a write failed or was cancelled, or note_unknown() was called."""
        self.used_at = 0.0
        self.written_at = float("-inf")
        self.conflicted_at = float("-inf")

    def is_contended(self, now: float) -> bool:
        """Whether another replica probably writes the same object. `now` is the time of the event loop."""
        return now - self.conflicted_at < CONTENDED_S

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.lock.locked()


class BatchedUpdates(Generic[V, R, C]):
    """Settles all requests of this process about the objects of one ledger.

    A request that meets conflicts is tried until `patience_s` seconds have passed, and at least ATTEMPTS times in
    total. `patience_s` must be shorter than the time that the sender waits for the answer.
    """

    def __init__(self, ledger: UpdateLedger[V, R, C], *, rng: random.Random, patience_s: float = 0.0) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._rng = rng
        self._queues: dict[str, _Queue[V, R]] = {}
        """Queues by UID, in the order of their latest requests: the first queue has had no request for the longest
        time.
        """
        self._asked = self._writes = self._conflicts = 0

    def read_stats(self) -> BatchStats:
        """Return the counters so far."""
        return BatchStats(asked=self._asked, writes=self._writes, conflicts=self._conflicts)

    async def settle(self, view: V, request: R) -> None:
        """Return when the request has its answer and the answer is stored. `view` is the state of the object that the
        caller knows.

        Raises UnsettledError, and any error that the decision raises.
        """
        self._asked += 1
        queue = self._find_or_add_queue(view.uid)
        if (
            queue.is_idle
            and not queue.is_unknown
            and self._ledger.is_free(_choose_newer(queue.last, view), request)
        ):
            return
        request.came_at = asyncio.get_running_loop().time()
        queue.waiting.append(request)
        async with queue.lock:
            # An earlier batch may have settled this request.
            if not request.is_settled:
                await self._store_next_batch(queue, view, request)
        if request.error is not None:
            raise request.error

    def note_unknown(self, uid: str) -> None:
        """Forget the known state of the object: the stored object must be read before the next decision."""
        self._find_or_add_queue(uid).is_unknown = True

    async def _store_next_batch(self, queue: _Queue[V, R], view: V, own: R) -> None:
        await self._wait_for_burst(queue)
        batch, queue.waiting = queue.waiting, []
        try:
            await self._store_decision(queue, view.key, view.uid, batch)
        except asyncio.CancelledError:
            # The sender of `own` has given up. The other requests continue with the object that is now stored.
            queue.is_unknown = True
            queue.waiting[:0] = [element for element in batch if element is not own]
            raise
        except ContendedError:
            # Requests that joined the batch later have attempts left.
            queue.waiting[:0] = [element for element in batch if not self._is_exhausted(element)]
            batch = [element for element in batch if self._is_exhausted(element)]
            for item in batch:
                times = format_count(item.attempts, "time")
                text = f"other clients changed {self._ledger.kind} {view.key} {times} before the write; try again"
                item.error = ContendedError(text)
        except Exception as error:
            _set_errors(batch, error)
        for item in batch:
            item.is_settled = True

    async def _wait_for_burst(self, queue: _Queue[V, R]) -> None:
        """Wait for more requests during a burst."""
        now = asyncio.get_running_loop().time()
        if queue.is_contended(now):
            await asyncio.sleep(GATHER_S * self._rng.uniform(*CONTENDED_GATHER))
        elif now - queue.written_at < BURST_S:
            await asyncio.sleep(GATHER_S)

    async def _store_decision(self, queue: _Queue[V, R], key: Key, uid: str, batch: list[R]) -> None:
        """Store the decision about the batch. Requests that arrive during a conflict join the batch."""
        for attempt in itertools.count():
            if attempt:
                await asyncio.sleep(self._wait_s(attempt))
                batch += queue.waiting
                queue.waiting = []
            view = await self._find_base(queue, key)
            if view is None or view.uid != uid or view.is_deleting:
                self._ledger.settle_without(batch)
                return
            change = await self._ledger.decide(view, batch)
            if change is None:
                return
            for item in batch:
                item.attempts += 1
            try:
                self._writes += 1
                queue.last = await self._ledger.write(view, change)
                queue.written_at = asyncio.get_running_loop().time()
            except ConflictError:
                self._conflicts += 1
                queue.conflicted_at = asyncio.get_running_loop().time()
                if any(map(self._is_exhausted, batch)):
                    raise ContendedError from None
                continue
            except NotFoundError:
                self._ledger.settle_without(batch)
                return
            except KubeError as error:
                queue.is_unknown = True
                raise UnsettledError(f"{self._ledger.kind} {key}: {error}") from error
            return

    def _wait_s(self, attempt: int) -> float:
        if attempt < ATTEMPTS:
            return FIRST_WAIT_S * GROWTH ** (attempt - 1) * self._rng.uniform(1.0, 1.0 + JITTER)
        return self._rng.uniform(*LATER_WAITS_S)

    def _is_exhausted(self, request: R) -> bool:
        """Whether the request has used up its attempts."""
        waited_s = asyncio.get_running_loop().time() - request.came_at
        return request.attempts >= ATTEMPTS and waited_s >= self._patience_s

    async def _find_base(self, queue: _Queue[V, R], key: Key) -> V | None:
        """Return the object to decide on: the newest known one, or the stored one."""
        try:
            if queue.is_contended(asyncio.get_running_loop().time()) or queue.is_unknown:
                base = await self._ledger.read_fresh(key)
                queue.is_unknown = False
                return base
            base = await self._ledger.find_newest(key)
        except KubeError as error:
            raise UnsettledError(f"{self._ledger.kind} {key} cannot be read: {error}") from error
        return _choose_newer(queue.last, base) if base is not None else None

    def _find_or_add_queue(self, uid: str) -> _Queue[V, R]:
        now = asyncio.get_running_loop().time()
        result = self._queues.pop(uid, None)
        if result is None:
            self._forget_idle(now)
            result = _Queue()
        result.used_at = now
        self._queues[uid] = result
        return result

    def _forget_idle(self, now: float) -> None:
        """Forget idle objects that had no request for FORGET_S; if MOST objects remain, forget all idle objects."""
        while self._queues:
            uid, oldest = next(iter(self._queues.items()))
            if now - oldest.used_at < FORGET_S or not oldest.is_idle:
                break
            del self._queues[uid]
        if len(self._queues) >= MOST:
            self._queues = {uid: queue for uid, queue in self._queues.items() if not queue.is_idle}


def _set_errors(batch: Sequence[UpdateRequest], error: Exception) -> None:
    for item in batch:
        item.error = error


def _choose_newer(last: V | None, value: V) -> V:
    """Return the later of two copies. If `value` is another object of the same name, return `value`."""
    if last is None or last.uid != value.uid or last.resource_version < value.resource_version:
        return value
    return last
