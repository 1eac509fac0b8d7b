"""Places in subsets are taken and given back here: many at once, never one of them twice.

admission of a pod ──▶ Desk.take() ──┐
deletion of a pod  ──▶ Desk.give() ──┴▶ all that wait for one WorkloadSpread ──▶ one status write ──▶ their answers

How no subset gets more than its maximum: a place is taken by a write of the status that names the
resourceVersion it was decided on. Whoever was later gets 409, reads what is stored now and decides anew. It is
the API server that serialises, so any number of replicas may serve. A place that is free only because the deletion of
its pod was admitted is taken when the API server shows that the pod goes.

How that costs little: while one write is under way, what else comes for the same object waits, and goes with the
next write together. In a burst the next write waits a moment longer for more to come. Where another replica is at
work on the same object, batches wait longer and by chance, so that the two do not always meet, and what comes while
a batch is refused goes with its next attempt.
"""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.limits import LimitError, depends_on_replicas, limit_of
from pykruise.kinds.workloadspread.places import (
    Taken,
    doubtful,
    fresh_entries,
    give_back,
    needs_limit,
    take,
)
from pykruise.kinds.workloadspread.readers import SpreadReader
from pykruise.kinds.workloadspread.types import SubsetStatus
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.errors import ConflictError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.pods.views import is_active

__all__ = ["ATTEMPTS", "ClaimError", "Desk", "DeskStats"]

ATTEMPTS: Final = 4
"""Writes of one batch before it is given up, each after a conflict."""

FIRST_WAIT_S: Final = 0.01
GROWTH: Final = 5.0
JITTER: Final = 0.1
"""Between attempts: 10, 50, 250 ms, each with up to 10 % more."""

GATHER_S: Final = 0.03
"""In a burst: how long a batch waits for more to come."""

BURST_S: Final = 0.1
"""A batch so soon after the one before is part of a burst."""

CONTENDED_S: Final = 1.0
"""So long after a conflict another replica counts as being at work on the same object. Then a batch is decided on
what is stored, and not on what a cache shows: the other's writes reach a cache later than an answer comes."""

CONTENDED_GATHER: Final = (1.0, 4.0)
"""... and it waits GATHER_S so many times, by chance."""

MOST: Final = 1000
"""WorkloadSpreads that are remembered; idle ones beyond that are forgotten."""


class ClaimError(Exception):
    """The place could not be noted: the request that needs it must be refused, and tried again by its sender."""


class DeskStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a desk has done."""

    asked: int
    """Places taken or given back, also those that needed no write."""
    writes: int
    """Status writes that were sent."""
    conflicts: int
    """... of which so many were too late."""


class _Wish(msgspec.Struct, kw_only=True):
    """One change that waits for its turn, and its answer."""

    version: str
    pod_name: str
    subset: str = ""
    """Of a place that is given back; empty: one is to be taken."""
    taken: Taken | None = None
    attempts: int = 0
    """Writes that it was part of."""
    error: Exception | None = None
    is_settled: bool = False


class _ContendedError(Exception):
    """Every write of a batch met a conflict."""


class _Queue:
    """What waits for one WorkloadSpread."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting: list[_Wish] = []
        self.last: SpreadView | None = None
        """As this process wrote it last."""
        self.is_doubtful = False
        """A write ended without an answer: what is stored must be read."""
        self.written_at = float("-inf")
        self.conflicted_at = float("-inf")
        self.going: frozenset[tuple[str, str]] = frozenset()
        """Pods that were seen to go, of those whose deletion was admitted, with when it was."""

    def is_contended(self, now: float) -> bool:
        """Whether another replica is at work on the same object, at this time of the loop."""
        return now - self.conflicted_at < CONTENDED_S

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.lock.locked()


class Desk:
    """Takes and gives back places, for all pods that this process admits.

    `fresh_id` draws the key of a place for a pod without a name.
    """

    def __init__(
        self,
        reader: SpreadReader,
        *,
        clock: Clock,
        rng: random.Random,
        fresh_id: Callable[[], str] | None = None,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._rng = rng
        self._fresh_id = fresh_id or (lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)))
        self._queues: dict[str, _Queue] = {}
        self._asked = self._writes = self._conflicts = 0

    def stats(self) -> DeskStats:
        """What it has done so far."""
        return DeskStats(asked=self._asked, writes=self._writes, conflicts=self._conflicts)

    async def take(self, view: SpreadView, *, version: str, pod_name: str) -> Taken:
        """A place for a new pod; without a subset when there is none, or when the WorkloadSpread is gone.

        Raises ClaimError, and what reading the workload's replicas raises.
        """
        wish = _Wish(version=version, pod_name=pod_name)
        await self._settled(view, wish)
        return wish.taken or Taken()

    async def give(self, view: SpreadView, *, version: str, pod_name: str, subset: str) -> None:
        """Note that a pod of `subset` goes. Raises ClaimError."""
        await self._settled(view, _Wish(version=version, pod_name=pod_name, subset=subset))

    async def _settled(self, view: SpreadView, wish: _Wish) -> None:
        self._asked += 1
        queue = self._queue(view.uid)
        if queue.is_idle and self._needs_no_write(queue, view, wish):
            return
        queue.waiting.append(wish)
        async with queue.lock:
            # Those before may have taken it along.
            if not wish.is_settled:
                await self._next_batch(queue, view, wish)
        if wish.error is not None:
            raise wish.error

    def _needs_no_write(self, queue: _Queue, view: SpreadView, wish: _Wish) -> bool:
        """Whether the answer is known already, from what is known without asking."""
        if queue.is_doubtful:
            return False
        newest = _newer(queue.last, view)
        entries = newest.entries(wish.version)
        if not entries and not depends_on_replicas(newest.subsets):
            entries = fresh_entries(newest.subsets, replicas=0)
        return bool(entries) and self._applied(entries, wish) is None

    async def _next_batch(self, queue: _Queue, view: SpreadView, own: _Wish) -> None:
        await self._gather(queue)
        batch, queue.waiting = queue.waiting, []
        try:
            await self._settle(queue, view.key, view.uid, batch)
        except asyncio.CancelledError:
            # Whoever sent `own` has given up; the others go on, from what is then stored.
            queue.is_doubtful = True
            queue.waiting[:0] = [wish for wish in batch if wish is not own]
            raise
        except _ContendedError:
            # Those that joined it later have attempts left.
            queue.waiting[:0] = [wish for wish in batch if wish.attempts < ATTEMPTS]
            batch = [wish for wish in batch if wish.attempts >= ATTEMPTS]
            error = ClaimError(f"WorkloadSpread {view.key} was changed by others {ATTEMPTS} times; try again")
            _fail(batch, error)
        except Exception as error:
            _fail(batch, error)
        for wish in batch:
            wish.is_settled = True

    async def _gather(self, queue: _Queue) -> None:
        """In a burst, let more come."""
        now = asyncio.get_running_loop().time()
        if queue.is_contended(now):
            await asyncio.sleep(GATHER_S * self._rng.uniform(*CONTENDED_GATHER))
        elif now - queue.written_at < BURST_S:
            await asyncio.sleep(GATHER_S)

    async def _settle(self, queue: _Queue, key: Key, uid: str, batch: list[_Wish]) -> None:
        """Store what the batch wants; it grows by what comes while it is refused."""
        wait_s = FIRST_WAIT_S
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(wait_s * self._rng.uniform(1.0, 1.0 + JITTER))
                wait_s *= GROWTH
                batch += queue.waiting
                queue.waiting = []
            view = await self._base(queue, key)
            if view is None or view.uid != uid or view.is_deleting:
                _settle_without_place(batch)
                return
            going = await self._going(queue, view, batch)
            lists = await self._decided(view, batch, going)
            if not lists:
                return
            for wish in batch:
                wish.attempts += 1
            try:
                self._writes += 1
                queue.last = await self._reader.write(view, lists)
                queue.written_at = asyncio.get_running_loop().time()
            except ConflictError:
                self._conflicts += 1
                queue.conflicted_at = asyncio.get_running_loop().time()
                continue
            except NotFoundError:
                _settle_without_place(batch)
                return
            except KubeError as error:
                queue.is_doubtful = True
                raise ClaimError(f"WorkloadSpread {key}: {error}") from error
            return
        raise _ContendedError

    async def _base(self, queue: _Queue, key: Key) -> SpreadView | None:
        """What to decide on: the newest that is known, or what is stored."""
        try:
            if queue.is_contended(asyncio.get_running_loop().time()) or queue.is_doubtful:
                found = await self._reader.fresh(key)
                queue.is_doubtful = False
                return found
            found = await self._reader.newest(key)
        except KubeError as error:
            raise ClaimError(f"WorkloadSpread {key} cannot be read: {error}") from error
        return _newer(queue.last, found) if found is not None else None

    async def _going(self, queue: _Queue, view: SpreadView, batch: Sequence[_Wish]) -> Collection[str]:
        """Of the pods whose deletion was admitted those that are seen to go. Asked is only for what matters."""
        takes = Counter(wish.version for wish in batch if not wish.subset)
        noted = {
            pod
            for version in takes
            for entry in view.entries(version)
            for pod in (entry.deleting_pods or {}).items()
        }
        queue.going &= noted
        for version, wanted in takes.items():
            known = {name for name, _ in queue.going}
            for names, lacking in doubtful(view.entries(version), wanted=wanted, going=known):
                gone = await self._gone(view, names, lacking)
                queue.going |= {(name, since) for name, since in noted if name in gone}
        return {name for name, _ in queue.going}

    async def _gone(self, view: SpreadView, names: Sequence[str], wanted: int) -> Collection[str]:
        """So many of these pods that go, if there are so many; the others need not be asked about."""
        gone: set[str] = set()
        while names and (lacking := wanted - len(gone)) > 0:
            asked, names = names[:lacking], names[lacking:]
            stay = await asyncio.gather(*(self._stays(view, name) for name in asked))
            gone |= {name for name, stays in zip(asked, stay, strict=True) if not stays}
        return gone

    async def _stays(self, view: SpreadView, pod_name: str) -> bool:
        try:
            pod = await self._reader.pod(view.namespace, pod_name)
        except KubeError as error:
            raise ClaimError(f"pod {view.namespace}/{pod_name} cannot be read: {error}") from error
        return pod is not None and is_active(pod)

    async def _decided(
        self, view: SpreadView, batch: Sequence[_Wish], going: Collection[str]
    ) -> dict[str, Sequence[SubsetStatus]]:
        """The lists that change, by version; the wishes have their answers, if these can be stored."""
        lists: dict[str, Sequence[SubsetStatus]] = {}
        changed: dict[str, Sequence[SubsetStatus]] = {}
        for wish in batch:
            entries = lists.get(wish.version) or view.entries(wish.version) or await self._fresh_list(view)
            limit = await self._limit(view, entries, wish)
            new = self._applied(entries, wish, limit, going)
            lists[wish.version] = new or entries
            if new is not None:
                changed[wish.version] = new
        return changed

    async def _fresh_list(self, view: SpreadView) -> list[SubsetStatus]:
        # The workload is read only for what is a share of it.
        replicas = await self._reader.replicas(view) if depends_on_replicas(view.subsets) else 0
        return fresh_entries(view.subsets, replicas=replicas)

    async def _limit(self, view: SpreadView, entries: Sequence[SubsetStatus], wish: _Wish) -> int | None:
        """What the subset takes that a place is given back of, where that matters."""
        subset = view.subset(wish.subset) if wish.subset else None
        if subset is None or not needs_limit(entries, subset=subset.name):
            return None
        try:
            return limit_of(
                subset, replicas=await self._reader.replicas(view) if depends_on_replicas([subset]) else 0
            )
        except LimitError:
            return None

    def _applied(
        self,
        entries: Sequence[SubsetStatus],
        wish: _Wish,
        limit: int | None = None,
        going: Collection[str] | None = None,
    ) -> Sequence[SubsetStatus] | None:
        now = format_time(self._clock())
        if wish.subset:
            return give_back(entries, pod_name=wish.pod_name, subset=wish.subset, now=now, limit=limit)
        wish.taken = take(entries, pod_name=wish.pod_name, fresh_id=self._fresh_id, now=now, going=going)
        return wish.taken.entries

    def _queue(self, uid: str) -> _Queue:
        found = self._queues.get(uid)
        if found is None:
            if len(self._queues) >= MOST:
                self._queues = {one: queue for one, queue in self._queues.items() if not queue.is_idle}
            found = self._queues[uid] = _Queue()
        return found


def _fail(batch: Sequence[_Wish], error: Exception) -> None:
    for wish in batch:
        wish.error = error


def _settle_without_place(batch: Sequence[_Wish]) -> None:
    for wish in batch:
        wish.taken = Taken()


def _newer(last: SpreadView | None, found: SpreadView) -> SpreadView:
    """Of two copies the later one. Another object of the same name counts as later."""
    if last is None or last.uid != found.uid or last.resource_version < found.resource_version:
        return found
    return last
