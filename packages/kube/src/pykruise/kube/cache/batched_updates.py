"""Many decisions about one stored object, settled together by one conditional write.

request ──▶ BatchedUpdates.settle() ──▶ all that wait for the same object ──▶ Ledger.decide() ──▶ one write ──▶ answers

Why decisions never contradict each other: each is stored by a write that names the resourceVersion it was decided on.
A later one gets 409, reads what is stored now and decides anew. It is the API server that serializes, so any number
of replicas may decide.

Why that costs little: while one write is under way, other requests for the same object wait, and go with the next
write together. In a burst the next write waits a moment longer for more to come. Where another replica is at work on
the same object, batches wait longer and by chance, so that the two do not always meet, and requests that come while a
batch is refused go with its next attempt.
"""

import asyncio
import itertools
import random
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pykruise.kube.errors import ConflictError, KubeError, NotFoundError
from pykruise.kube.ids import Key

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
"""Writes of one request before it is given up, each after a conflict; where there is patience, more."""

FIRST_WAIT_S: Final = 0.01
GROWTH: Final = 5.0
JITTER: Final = 0.1
"""Between attempts: 10, 50, 250 ms, each with up to 10 % more."""

LATER_WAITS_S: Final = (0.05, 0.3)
"""Between further attempts, at random: two that keep meeting should stop to."""

GATHER_S: Final = 0.03
"""During a burst, the time for which a batch waits for more updates."""

BURST_S: Final = 0.1
"""A batch so soon after the one before is part of a burst."""

CONTENDED_S: Final = 1.0
"""So long after a conflict another replica counts as being at work on the same object. Then a batch is decided on
what is stored, and not on what a cache shows: the other's writes reach a cache later than an answer comes."""

CONTENDED_GATHER: Final = (1.0, 4.0)
"""... and it waits GATHER_S so many times, by chance."""

MOST: Final = 1000
"""Objects that are remembered; idle ones beyond that are forgotten."""


class UnsettledError(Exception):
    """A decision could not be stored: the request that needs it must be refused, and tried again by its sender."""


class ContendedError(UnsettledError):
    """Every write met a conflict."""


class UpdateRequest(msgspec.Struct, kw_only=True):
    """One decision that is asked for. A kind adds what it is about, and its answer."""

    attempts: int = 0
    """Writes that it was part of."""
    came_at: float = 0.0
    """Time of the loop."""
    error: Exception | None = None
    is_settled: bool = False


class BatchStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of batches."""

    asked: int
    """Decisions, also those that needed no write."""
    writes: int
    """Writes that were sent."""
    conflicts: int
    """... of which so many were too late."""


class StoredView(Protocol):
    """Fields that every object needs for decisions."""

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
    """How objects of one kind are read, decided on and written. `kind` is for messages."""

    kind: str

    async def newest(self, key: Key) -> V | None:
        """The newest that is known without asking the API server, where there is such a thing. Raises KubeError."""
        ...

    async def fresh(self, key: Key) -> V | None:
        """As it is stored now; None: it is gone. Raises KubeError."""
        ...

    def is_free(self, view: V, request: R_contra) -> bool:
        """Whether the request needs no write; it then has its answer."""
        ...

    async def decide(self, view: V, batch: Sequence[R_contra]) -> C | None:
        """Answer every request, in their order, and give the change to store; None: there is none."""
        ...

    async def write(self, view: V, change: C) -> V:
        """Store it, if the object is still as `view` shows it. Raises ConflictError otherwise, KubeError."""
        ...

    def settle_without(self, batch: Sequence[R_contra]) -> None:
        """Answer requests about an object that is gone."""
        ...


class _Queue(Generic[V, R]):
    """Updates that wait for one object."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting: list[R] = []
        self.last: V | None = None
        """As this process wrote it last."""
        self.is_unknown = False
        """A write ended without an answer: what is stored must be read."""
        self.written_at = float("-inf")
        self.conflicted_at = float("-inf")

    def is_contended(self, now: float) -> bool:
        """Whether another replica is at work on the same object, at this time of the loop."""
        return now - self.conflicted_at < CONTENDED_S

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.lock.locked()


class BatchedUpdates(Generic[V, R, C]):
    """Settles requests about the objects of one ledger, for everything that this process decides.

    `patience_s`: so long a request that meets conflicts is tried; at least ATTEMPTS times in any case. It has to be
    less than its sender waits for the answer.
    """

    def __init__(self, ledger: UpdateLedger[V, R, C], *, rng: random.Random, patience_s: float = 0.0) -> None:
        self._ledger = ledger
        self._patience_s = patience_s
        self._rng = rng
        self._queues: dict[str, _Queue[V, R]] = {}
        self._asked = self._writes = self._conflicts = 0

    def stats(self) -> BatchStats:
        """Counters so far."""
        return BatchStats(asked=self._asked, writes=self._writes, conflicts=self._conflicts)

    async def settle(self, view: V, request: R) -> None:
        """Return when the request has its answer, and that is stored. Raises UnsettledError, and what deciding
        raises. `view`: the object as the caller knows it."""
        self._asked += 1
        queue = self._queue(view.uid)
        if queue.is_idle and not queue.is_unknown and self._ledger.is_free(_newer(queue.last, view), request):
            return
        request.came_at = asyncio.get_running_loop().time()
        queue.waiting.append(request)
        async with queue.lock:
            # Those before may have taken it along.
            if not request.is_settled:
                await self._next_batch(queue, view, request)
        if request.error is not None:
            raise request.error

    def note_unknown(self, uid: str) -> None:
        """Marks the object as unknown: its stored value must be read before the next decision."""
        self._queue(uid).is_unknown = True

    async def _next_batch(self, queue: _Queue[V, R], view: V, own: R) -> None:
        await self._gather(queue)
        batch, queue.waiting = queue.waiting, []
        try:
            await self._settle(queue, view.key, view.uid, batch)
        except asyncio.CancelledError:
            # Who sent `own` has given up; the others go on, from what is then stored.
            queue.is_unknown = True
            queue.waiting[:0] = [element for element in batch if element is not own]
            raise
        except ContendedError:
            # Those that joined it later have attempts left.
            queue.waiting[:0] = [element for element in batch if not self._is_over(element)]
            batch = [element for element in batch if self._is_over(element)]
            for item in batch:
                text = (
                    f"{self._ledger.kind} {view.key} was changed by others {item.attempts} times; try again"
                )
                item.error = ContendedError(text)
        except Exception as error:
            _fail(batch, error)
        for item in batch:
            item.is_settled = True

    async def _gather(self, queue: _Queue[V, R]) -> None:
        """During a burst, waits for more updates."""
        now = asyncio.get_running_loop().time()
        if queue.is_contended(now):
            await asyncio.sleep(GATHER_S * self._rng.uniform(*CONTENDED_GATHER))
        elif now - queue.written_at < BURST_S:
            await asyncio.sleep(GATHER_S)

    async def _settle(self, queue: _Queue[V, R], key: Key, uid: str, batch: list[R]) -> None:
        """Store what the batch decides; it grows by what comes while it is refused."""
        for attempt in itertools.count():
            if attempt:
                await asyncio.sleep(self._wait_s(attempt))
                batch += queue.waiting
                queue.waiting = []
            view = await self._base(queue, key)
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
                if any(map(self._is_over, batch)):
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

    def _is_over(self, request: R) -> bool:
        """Whether the request has had its attempts."""
        waited_s = asyncio.get_running_loop().time() - request.came_at
        return request.attempts >= ATTEMPTS and waited_s >= self._patience_s

    async def _base(self, queue: _Queue[V, R], key: Key) -> V | None:
        """The base of the decision: the newest known value, or the stored one."""
        try:
            if queue.is_contended(asyncio.get_running_loop().time()) or queue.is_unknown:
                base = await self._ledger.fresh(key)
                queue.is_unknown = False
                return base
            base = await self._ledger.newest(key)
        except KubeError as error:
            raise UnsettledError(f"{self._ledger.kind} {key} cannot be read: {error}") from error
        return _newer(queue.last, base) if base is not None else None

    def _queue(self, uid: str) -> _Queue[V, R]:
        result = self._queues.get(uid)
        if result is None:
            if len(self._queues) >= MOST:
                self._queues = {value: queue for value, queue in self._queues.items() if not queue.is_idle}
            result = self._queues[uid] = _Queue()
        return result


def _fail(batch: Sequence[UpdateRequest], error: Exception) -> None:
    for item in batch:
        item.error = error


def _newer(last: V | None, value: V) -> V:
    """The later one of two copies. Another object of the same name counts as later."""
    if last is None or last.uid != value.uid or last.resource_version < value.resource_version:
        return value
    return last
