"""Which key is worked on next: a queue where every key waits at most once and is worked on by at most one.

cache handlers ──add()──▶ waiting (first come, first served) ──get()──▶ in flight ──done()──▶ (again, if added
                             ▲                                                                  meanwhile)
add_after(), add_rate_limited() ──▶ delayed ──its time comes──┘

A key carries no message: the worker that gets it looks at what is true then. So adding a key that waits changes
nothing, and one that is added while it is being worked on is handed out once more when that is done.

Keys that are dear to plan are planned less often: after work that cost d seconds a key rests for
`cost_factor * d`, so that one key never takes more than its share however often it is added
(`done(key, cost_s=d)`; nothing below `cost_threshold_s`). Adds during the rest are kept for its end, adds
with `force=True` end it.

A key that fails waits twice as long as the time before. A wait is for trouble that lasts, so what counts is how long
it has lasted, not how often it was seen: a key that something wakes before its wait is over, and that fails again,
keeps the time that it has. Otherwise the news that pour in while a server comes back would each double the wait.

Time is the event loop's. The queue has no task: one timer waits for the earliest delayed key.
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from pykruise.kube.values.histogram import Histogram, HistogramStats

__all__ = ["BASE_DELAY_S", "MAX_DELAY_S", "QueueClosedError", "QueueStats", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

BASE_DELAY_S = 0.005
MAX_DELAY_S = 300.0
COST_THRESHOLD_S = 0.002
TICK_S = 0.001
"""A wait that is over but for this is over: a timer may fire a little early."""


class QueueClosedError(Exception):
    """The queue hands out nothing more."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue is. Counts are of keys, times in seconds."""

    depth: int
    """Waiting for a worker."""
    in_flight: int
    delayed: int
    adds: int
    """Calls of `add` and delayed keys whose time came, also those that changed nothing."""
    retries: int
    """Calls of `add_rate_limited`."""
    oldest_s: float
    """How long the first of the waiting keys has waited; 0 when none waits."""
    unfinished_s: float = 0.0
    """How long all keys in flight have been worked on, together."""
    longest_s: float = 0.0
    """... and the one that has been for longest."""
    waits: HistogramStats = HistogramStats()
    """From when a key was ready until a worker took it."""
    works: HistogramStats = HistogramStats()
    """From when a worker took it until it was done."""


class _Trouble(msgspec.Struct):
    """A key that fails: how often it has, how many waits it was given, and when (loop's time) the latest is over."""

    failures: int = 0
    waits: int = 0
    until: float = float("-inf")


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers. Belongs to one event loop.

    Failures of a key wait `base_delay_s`, twice that, four times …, at most `max_delay_s`; with `rng` each
    wait is shortened by up to a fifth, so that keys which failed together do not all come back together.
    Once what was wrong is right again, a key comes back after at most about as long as it was wrong.
    `retries_per_s` bounds the retries of all keys together, after `retry_burst` at once (0: no bound).
    `cost_factor` 1 leaves a key at most half of the time, 0 turns resting off.
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
        self._waits = Histogram()
        self._works = Histogram()
        self._due: dict[K, float] = {}
        self._schedule: list[tuple[float, int, K]] = []  # heap; entries that `_due` does not have are void
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
        """Have `key` worked on as soon as its turn comes; after its rest, unless `force`.

        No effect when it waits already, or when the queue is closed.
        """
        if self._is_closed:
            return
        self._adds += 1
        if key in self._in_flight:  # the usual case of a busy key: hundreds of events are about it
            self._in_flight[key] = force or bool(self._in_flight[key])
        else:
            self._admit(key, force=force, now=_now())

    def add_after(self, key: K, seconds: float) -> None:
        """Have `key` worked on in `seconds`; of several such times the earliest counts."""
        if seconds <= 0:
            self.add(key)
        elif not self._is_closed and key not in self._waiting_since:
            self._delay(key, max(_now() + seconds, self._rest_until.get(key, 0.0)))

    def add_rate_limited(self, key: K, *, at_least_s: float = 0.0) -> float:
        """Have `key` worked on after a wait that doubles with each failure; returns the wait in seconds.

        A failure before the wait of the one before is over does not lengthen it: what is left of it is waited.
        `at_least_s`: what the server asked for (Retry-After).
        """
        now = _now()
        trouble = self._troubles.setdefault(key, _Trouble())
        trouble.failures += 1
        self._retries += 1
        wait_s = trouble.until - now
        if wait_s <= TICK_S:
            wait_s = self._next_wait_s(trouble.waits, now)
            trouble.waits += 1
        wait_s = max(wait_s, at_least_s)
        trouble.until = now + wait_s
        self.add_after(key, wait_s)
        return wait_s

    def _next_wait_s(self, waits: int, now: float) -> float:
        wait_s = min(self._max_delay_s, self._base_delay_s * 2.0 ** min(waits, 64))
        if self._rng is not None:
            wait_s *= self._rng.uniform(0.8, 1.0)
        if self._bucket is not None:
            wait_s = max(wait_s, self._bucket.reserve(now))
        return wait_s

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure waits for the shortest time again."""
        self._troubles.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key has failed since `forget`."""
        trouble = self._troubles.get(key)
        return trouble.failures if trouble else 0

    # ── working ──────────────────────────────────────────────────────────────

    async def get(self) -> K:
        """The next key, when there is one. Its `done` must be called.

        Raises QueueClosedError when the queue is closed, also when keys still wait.
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
                    self._wake_getter()  # this turn goes to another one
                raise

    def done(self, key: K, *, cost_s: float = 0.0) -> None:
        """Work on `key` has ended, whatever came of it; `cost_s` is what it cost (see the module's text).

        Raises KeyError when no worker has it.
        """
        again = self._in_flight.pop(key)
        self._works.observe(_now() - self._taken_at.pop(key))
        if cost_s >= self._cost_threshold_s and self._cost_factor > 0:
            self._rest(key, self._cost_factor * cost_s)
        if again is not None and not self._is_closed:
            self._admit(key, force=again, now=_now())

    def close(self) -> None:
        """Hand out nothing more and forget what waits; work in flight may still be `done`."""
        self._is_closed = True
        self._waiting.clear()
        self._waiting_since.clear()
        self._due.clear()
        self._schedule.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_getter()

    def stats(self) -> QueueStats:
        """How it is now. Call it where the event loop runs."""
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
            waits=self._waits.snapshot(),
            works=self._works.snapshot(),
        )

    # ── waiting and delayed ──────────────────────────────────────────────────

    def _admit(self, key: K, *, force: bool, now: float) -> None:
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

    def _rest(self, key: K, seconds: float) -> None:
        now = _now()
        self._rest_until[key] = now + seconds
        # Rests that are over are dropped now and then: each costs one look when twice as many have come.
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
            self._timer = asyncio.get_running_loop().call_at(self._schedule[0][0], self._release)

    def _release(self) -> None:
        """The time of the earliest delayed key has come."""
        self._timer = None
        # A timer may fire within the clock's resolution before its time.
        now = max(_now(), self._schedule[0][0] if self._schedule else 0.0)
        while self._schedule and self._schedule[0][0] <= now:
            due, _, key = heapq.heappop(self._schedule)
            if self._due.get(key) == due:
                del self._due[key]
                self._adds += 1
                self._admit(key, force=False, now=now)
        self._set_timer()


class _Bucket:
    """Tokens that come back at a rate; each retry takes one, if need be one that comes only later."""

    def __init__(self, per_s: float, size: int) -> None:
        self._per_s = per_s
        self._size = float(size)
        self._tokens = float(size)
        self._counted_at = float("-inf")

    def reserve(self, now: float) -> float:
        """Take a token; returns in how many seconds it is there."""
        self._tokens = min(self._size, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
