"""A queue that decides which key is worked on next: each key waits at most once and has at most one worker.

cache handlers ──add()──▶ waiting (first come, first served) ──get()──▶ in flight ──mark_done()──▶ (again, if added
                             ▲                                                                  meanwhile)
add_after(), add_rate_limited() ──▶ delayed ──its time comes──┘

A key carries no message: its worker looks at the current state. So adding a key that already waits changes nothing, and
a key that is added while in flight is handed out again after its worker is done.

Keys that are expensive to plan are planned less often: after work that cost d seconds (`mark_done(key, cost_s=d)`), a
key rests for `cost_factor * d`. So one key never takes more than its share, however often it is added. Costs below
`cost_threshold_s` do not count. Adds during the rest take effect at its end; adds with `force=True` end the rest.

Each wait of a failing key is twice as long as the previous one. The wait depends on how long the key has been failing,
not on the number of failures. If an event wakes a key before its wait has ended, and the key fails again, it keeps its
remaining wait. Otherwise each of the many events that arrive while a server recovers would double the wait.

Time is the event loop's. The queue has no task: one timer waits for the earliest delayed key.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from pykruise.kube.values.histogram import QUEUE_BOUNDS, Histogram, HistogramStats

__all__ = ["BASE_DELAY_S", "MAX_DELAY_S", "QueueClosedError", "QueueStats", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

BASE_DELAY_S = 0.005
"""Seconds until the first retry of a key; each further failure doubles this time."""
MAX_DELAY_S = 300.0
"""Maximum seconds until a retry."""
COST_THRESHOLD_S = 0.002
TICK_S = 0.001
"""A wait with fewer seconds left is treated as ended: a timer may fire slightly early."""


class QueueClosedError(Exception):
    """The queue is closed and hands out no more keys."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a queue. Counts are of keys, times in seconds."""

    depth: int
    """Keys that wait for a worker."""
    in_flight: int
    delayed: int
    adds: int
    """Calls of `add`, and delayed keys that became due, including those that changed nothing."""
    retries: int
    """Calls of `add_rate_limited`."""
    oldest_s: float
    """Time that the first waiting key has waited; 0 when no key waits."""
    unfinished_s: float = 0.0
    """Time that all keys in flight have been worked on, added up."""
    longest_s: float = 0.0
    """Longest time that a key in flight has been worked on."""
    waits: HistogramStats = HistogramStats()
    """Time from when a key was ready until a worker took it."""
    works: HistogramStats = HistogramStats()
    """Time from when a worker took a key until it was done."""


class _Trouble(msgspec.Struct):
    """State of a failing key: its number of failures, the number of waits, and the end of the latest wait (loop's
    time).
    """

    failures: int = 0
    waits: int = 0
    until: float = float("-inf")


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers. Only one event loop may use it.

    After failures, a key waits `base_delay_s`, twice that, four times …, at most `max_delay_s`; with `rng` each wait is
    shortened by up to a fifth, so that keys which failed together are not all retried together. After the cause of the
    failures has ended, a key is retried within about the time for which the cause lasted. `retries_per_s` limits the
    retries of all keys together, after an initial burst of `retry_burst` (0: no limit). With `cost_factor` 1 a key is
    worked on for at most half of the time; with 0, keys never rest.
    """

    def __init__(
        self,
        *,
        base_delay_s: float = BASE_DELAY_S,
        max_delay_s: float = MAX_DELAY_S,
        retries_per_s: float = 0.0,
        retry_burst: int = 100,
        cost_factor: float = 1.0,
        cost_threshold_s: float = COST_THRESHOLD_S,
        rng: random.Random | None = None,
    ) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._bucket = _Bucket(retries_per_s, retry_burst) if retries_per_s > 0 else None
        self._cost_factor = cost_factor
        self._cost_threshold_s = cost_threshold_s
        self._rng = rng

        self._waiting: deque[K] = deque()
        self._waiting_since: dict[K, float] = {}
        self._in_flight: dict[K, bool | None] = {}  # None: not added again; else: added (True: with force)
        self._taken_at: dict[K, float] = {}
        self._waits = Histogram(QUEUE_BOUNDS)
        self._works = Histogram(QUEUE_BOUNDS)
        self._due: dict[K, float] = {}
        self._schedule: list[tuple[float, int, K]] = []  # heap; entries that are not in `_due` are invalid
        self._entries = 0
        self._timer: asyncio.TimerHandle | None = None
        self._rest_until: dict[K, float] = {}
        self._rests_swept = 0
        self._troubles: dict[K, _Trouble] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._adds = 0
        self._retries = 0

    # ── adding ───────────────────────────────────────────────────────────────

    def add(self, key: K, *, force: bool = False) -> None:
        """Enqueue `key`: with `force` immediately, otherwise after its rest.

        Has no effect when the key waits already, or when the queue is closed.
        """
        if self._is_closed:
            return
        self._adds += 1
        if key in self._in_flight:  # the usual case of a busy key with hundreds of events
            self._in_flight[key] = force or bool(self._in_flight[key])
        else:
            self._enqueue(key, force=force, now=_now())

    def add_after(self, key: K, seconds: float) -> None:
        """Enqueue `key` after `seconds`, or at an earlier time to which the key is already delayed."""
        if seconds <= 0:
            self.add(key)
        elif not self._is_closed and key not in self._waiting_since:
            self._delay(key, max(_now() + seconds, self._rest_until.get(key, 0.0)))

    def add_rate_limited(self, key: K, *, at_least_s: float = 0.0) -> float:
        """Enqueue `key` after a wait that doubles with each failure; returns the wait in seconds.

        A failure before the end of the previous wait does not lengthen it: the key waits until the end of the previous
        wait. `at_least_s`: the time that the server requested (Retry-After).
        """
        now = _now()
        trouble = self._troubles.setdefault(key, _Trouble())
        trouble.failures += 1
        self._retries += 1
        wait_s = trouble.until - now
        if wait_s <= TICK_S:
            wait_s = self._compute_next_wait_s(trouble.waits, now)
            trouble.waits += 1
        wait_s = max(wait_s, at_least_s)
        trouble.until = now + wait_s
        self.add_after(key, wait_s)
        return wait_s

    def _compute_next_wait_s(self, waits: int, now: float) -> float:
        wait_s = min(self._max_delay_s, self._base_delay_s * 2.0 ** min(waits, 64))
        if self._rng is not None:
            wait_s *= self._rng.uniform(0.8, 1.0)
        if self._bucket is not None:
            wait_s = max(wait_s, self._bucket.reserve(now))
        return wait_s

    def forget(self, key: K) -> None:
        """Note that the key succeeded: its next failure starts with the shortest wait."""
        self._troubles.pop(key, None)

    def count_failures(self, key: K) -> int:
        """Return the number of failures of the key since `forget`."""
        trouble = self._troubles.get(key)
        return trouble.failures if trouble else 0

    # ── working ──────────────────────────────────────────────────────────────

    async def get(self) -> K:
        """Return the next key; waits until there is one. Call `mark_done` for it afterwards.

        Raises QueueClosedError when the queue is closed, even if keys still wait.
        """
        while True:
            if self._is_closed:
                raise QueueClosedError
            if self._waiting:
                key = self._waiting.popleft()
                now = _now()
                self._waits.observe(now - self._waiting_since.pop(key))
                self._taken_at[key] = now
                self._in_flight[key] = None
                return key
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_getter()  # another caller of `get` receives the waiting key
                raise

    def mark_done(self, key: K, *, cost_s: float = 0.0) -> None:
        """End the work on `key`, whatever its result; `cost_s` is its cost (see the module's text).

        Raises KeyError when no worker has the key.
        """
        again = self._in_flight.pop(key)
        self._works.observe(_now() - self._taken_at.pop(key))
        if cost_s >= self._cost_threshold_s and self._cost_factor > 0:
            self._start_rest(key, self._cost_factor * cost_s)
        if again is not None and not self._is_closed:
            self._enqueue(key, force=again, now=_now())

    def clear(self) -> None:
        """Forget all keys that wait or are delayed, all failures and all rests. Keys in flight are not enqueued again
        for earlier adds.
        """
        self._forget_waiting()
        self._rest_until.clear()
        self._troubles.clear()
        self._in_flight = dict.fromkeys(self._in_flight)

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_since.clear()
        self._due.clear()
        self._schedule.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Hand out no more keys and forget the waiting ones; work in flight may still call `mark_done`."""
        self._is_closed = True
        self._forget_waiting()
        while self._getters:
            self._wake_getter()

    def read_stats(self) -> QueueStats:
        """Return the current state. Call it in the event loop's thread."""
        since = self._waiting_since[self._waiting[0]] if self._waiting else None
        return QueueStats(
            depth=len(self._waiting),
            in_flight=len(self._in_flight),
            delayed=len(self._due),
            adds=self._adds,
            retries=self._retries,
            oldest_s=0.0 if since is None else _now() - since,
            unfinished_s=sum(_now() - taken_at for taken_at in self._taken_at.values()),
            longest_s=max((_now() - taken_at for taken_at in self._taken_at.values()), default=0.0),
            waits=self._waits.take_snapshot(),
            works=self._works.take_snapshot(),
        )

    # ── waiting and delayed ──────────────────────────────────────────────────

    def _enqueue(self, key: K, *, force: bool, now: float) -> None:
        if key in self._in_flight:
            self._in_flight[key] = force or bool(self._in_flight[key])
            return
        if force:
            self._rest_until.pop(key, None)
        rested_at = self._rest_until.get(key, 0.0)
        if rested_at > now:
            self._delay(key, rested_at)
        else:
            self._make_ready(key, now)

    def _make_ready(self, key: K, now: float) -> None:
        self._due.pop(key, None)
        if key in self._waiting_since:
            return
        self._waiting.append(key)
        self._waiting_since[key] = now
        self._wake_getter()

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _start_rest(self, key: K, seconds: float) -> None:
        now = _now()
        self._rest_until[key] = now + seconds
        # Expired rests are removed from time to time: when the number of entries has doubled.
        if len(self._rest_until) > 2 * self._rests_swept + 64:
            self._rest_until = {key: until for key, until in self._rest_until.items() if until > now}
            self._rests_swept = len(self._rest_until)

    def _delay(self, key: K, due: float) -> None:
        if self._due.get(key, due + 1.0) <= due:
            return
        self._due[key] = due
        self._entries += 1
        heapq.heappush(self._schedule, (due, self._entries, key))
        if len(self._schedule) > 2 * len(self._due) + 64:
            self._schedule = [entry for entry in self._schedule if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._schedule)
        if self._schedule[0][2] == key:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._schedule and self._due.get(self._schedule[0][2]) != self._schedule[0][0]:
            heapq.heappop(self._schedule)
        if self._schedule:
            self._timer = asyncio.get_running_loop().call_at(self._schedule[0][0], self._enqueue_due)

    def _enqueue_due(self) -> None:
        """Enqueue the delayed keys that are due."""
        self._timer = None
        # A timer may fire early by the resolution of the clock.
        now = max(_now(), self._schedule[0][0] if self._schedule else 0.0)
        while self._schedule and self._schedule[0][0] <= now:
            due, _, key = heapq.heappop(self._schedule)
            if self._due.get(key) == due:
                del self._due[key]
                self._adds += 1
                self._enqueue(key, force=False, now=now)
        self._set_timer()


class _Bucket:
    """Tokens that refill at a rate. Each retry takes one, if necessary in advance."""

    def __init__(self, per_s: float, size: int) -> None:
        self._per_s = per_s
        self._size = float(size)
        self._tokens = float(size)
        self._counted_at = float("-inf")

    def reserve(self, now: float) -> float:
        """Take a token; returns the seconds until it is available."""
        self._tokens = min(self._size, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
