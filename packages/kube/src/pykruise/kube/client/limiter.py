"""Limits the requests that are in flight at the same time to the number that the API server handles well.

Client ──▶ Limiter.acquire_slot() ──▶ one attempt at a request ──▶ its outcome changes the limit

The rule is additive increase, multiplicative decrease. While the limit is used up, it grows by one per round of
requests; 429, 502, 503, 504 and timeouts halve it, except those that only one object causes (`Limiter._is_overload`):
an admission webhook of one tenant does not slow the requests for others. The limit is halved once per round: requests
that were sent before the last cut bring no new information. Above its initial value, the limit grows only while
responses arrive about as fast as from a server without load: more requests would just queue there.

Retry-After delays only requests of its own scope (reads, or writes, of one resource in one namespace), because any
admission webhook may respond with 429 for an object of one tenant. While more than PATIENCE_S of the wait remain,
requests of the scope raise HeldBackError with the remaining time, so that no worker is blocked.

Requests wait in two lanes, each in order of arrival. Lane 1 has requests with priority 1, which complete work that has
begun. It is served before lane 0, but lane 0 gets one in eight slots, so that it never starves.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final

import msgspec

from pykruise.kube.errors import (
    LONGEST_WAIT_S,
    ApiError,
    ErrorStatus,
    HeldBackError,
    RequestTimeoutError,
    ServerTimeoutError,
    ServerUnavailableError,
    TooManyRequestsError,
)

__all__ = ["MOST_OF_REVIEWS", "MOST_REQUESTS", "Limiter", "LimiterStats"]

_LOG: Final = logging.getLogger(__name__)

MOST_REQUESTS: Final = 32
"""Requests in flight of one client; more would only queue at the API server (measured)."""
MOST_OF_REVIEWS: Final = 16
"""Further requests in flight, for reviews. `Client.separate_limit` explains why they are separate."""

PATIENCE_S: Final = 3.0
"""Longest time in seconds that a request waits while its scope is held (Retry-After)."""

_LANE_0_SHARE = 8
_SLOW_FACTOR = 3.0  # a response this many times slower than usual does not raise the limit
_SLOW_FLOOR_S = 0.02  # ... unless it takes less time than this, which would measure only jitter
_PROOF_S = 5.0
"""Seconds for which the response to a write at usual speed proves that the server is not overloaded."""


class LimiterStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a limiter. Latencies are in seconds, and only of requests that got a response."""

    limit: int
    in_flight: int
    waiting: int
    waiting_priority: int
    """Number of waiting requests with priority 1."""
    held_s: Mapping[str, float]
    """Seconds until requests may start again (Retry-After), by scope."""
    holds: int
    """Number of times that a scope was held back."""
    usual_latency_s: float
    """Latency while the server is not under load."""
    started: int
    cuts: int
    """Number of times that the limit was halved."""


class Limiter:
    """Adaptive concurrency for one API server. Only one event loop may use it; time is that of the loop.

    `start`, `minimum` and `maximum` count requests in flight. `longest_hold_s`: maximum time for which a Retry-After is
    followed.
    """

    def __init__(
        self,
        *,
        start: int = 16,
        minimum: int = 4,
        maximum: int = MOST_REQUESTS,
        longest_hold_s: float = LONGEST_WAIT_S,
    ) -> None:
        if not 1 <= minimum <= start <= maximum:
            raise ValueError(
                f"limiter: 1 <= minimum <= start <= maximum must hold, not {minimum}, {start}, {maximum}"
            )
        self._longest_hold_s = longest_hold_s
        self._minimum = minimum
        self._maximum = maximum
        self._start = float(start)
        self._limit = float(start)
        self._in_flight = 0
        self._lanes: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (deque(), deque())
        self._ahead = 0  # slots given to lane 1 in a row while lane 0 waited
        self._held_until: dict[str, float] = {}
        """Time in the event loop at which each hold ends. The next hold removes expired entries."""
        self._holds = 0
        self._usual_s = 0.0
        self._last_cut = float("-inf")
        self._last_fast_write = float("-inf")
        self._started = 0
        self._cuts = 0

    def acquire_slot(self, *, priority: int = 0, scope: str = "", is_write: bool = False) -> "_Slot":
        """Wait for a slot, and hold it while one request is in flight. `scope`: the requests that a Retry-After
        affects.

        The limiter learns from the exception that ends the block, or from a block that ends without an exception. So
        raise the error of a response inside the block. Waiting can be cancelled. Entering raises HeldBackError.
        """
        return _Slot(self, priority, scope, is_write)

    def read_stats(self) -> LimiterStats:
        """Return the current use of the limiter."""
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:  # called outside the event loop
            now = float("inf")
        return LimiterStats(
            limit=int(self._limit),
            in_flight=self._in_flight,
            waiting=len(self._lanes[0]) + len(self._lanes[1]),
            waiting_priority=len(self._lanes[1]),
            held_s={scope: until - now for scope, until in self._held_until.items() if until > now},
            holds=self._holds,
            usual_latency_s=self._usual_s,
            started=self._started,
            cuts=self._cuts,
        )

    # ── turns ────────────────────────────────────────────────────────────────

    async def acquire(self, loop: asyncio.AbstractEventLoop, priority: int, scope: str) -> None:
        """Enter a slot. Raises HeldBackError while more than PATIENCE_S of a wait remain that the server requested."""
        while (left_s := self._held_until.get(scope, 0.0) - loop.time()) > 0:
            if left_s > PATIENCE_S:
                raise HeldBackError(_build_held_status(scope), retry_after_s=left_s)
            await asyncio.sleep(left_s)
        await self._wait_for_slot(loop, priority)
        self._started += 1

    def release(
        self,
        loop: asyncio.AbstractEventLoop,
        err: BaseException | None,
        began: float,
        scope: str,
        *,
        is_write: bool = False,
    ) -> None:
        """Leave a slot that was entered at `began`."""
        if err is None:
            now = loop.time()
            if self._learn_from_answer(now - began) and is_write:
                self._last_fast_write = now
        else:
            self._learn_from_error(loop, err, began, scope, is_write=is_write)
        self._in_flight -= 1
        self._give_slots(loop)

    async def _wait_for_slot(self, loop: asyncio.AbstractEventLoop, priority: int) -> None:
        lane = self._lanes[1 if priority > 0 else 0]
        if self._may_start(loop) and not lane and not self._lanes[1]:
            self._in_flight += 1
            return
        turn = loop.create_future()
        lane.append(turn)
        self._give_slots(loop)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_give_slots` may have removed it already
                    lane.remove(turn)
            else:
                self._in_flight -= 1  # the slot was given and the waiter was cancelled at the same time
                self._give_slots(loop)
            raise

    def _may_start(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self._in_flight < int(self._limit)

    def _give_slots(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give free slots to waiting requests."""
        while (self._lanes[0] or self._lanes[1]) and self._may_start(loop):
            turn = self._choose_lane().popleft()
            if not turn.cancelled():
                self._in_flight += 1
                turn.set_result(None)

    def _choose_lane(self) -> deque[asyncio.Future[None]]:
        normal, first = self._lanes
        if not first:
            self._ahead = 0
            return normal
        if not normal:
            return first
        self._ahead += 1
        if self._ahead < _LANE_0_SHARE:
            return first
        self._ahead = 0
        return normal

    # ── learning ─────────────────────────────────────────────────────────────

    def _learn_from_answer(self, elapsed_s: float) -> bool:
        """Adapt the limit and the usual latency. Returns whether the response arrived at usual speed."""
        limit = int(self._limit)
        is_fast = self._usual_s == 0.0 or elapsed_s <= max(_SLOW_FLOOR_S, _SLOW_FACTOR * self._usual_s)
        if self._usual_s == 0.0:
            self._usual_s = elapsed_s
        elif elapsed_s < self._usual_s:
            self._usual_s += 0.1 * (elapsed_s - self._usual_s)
        elif self._in_flight <= limit // 2:
            # Increase slowly, and only without load: otherwise the usual latency would include waits in a queue.
            self._usual_s += 0.05 * (elapsed_s - self._usual_s)
        # A limit that is not used up must not grow: nothing was learned about it.
        if self._in_flight >= limit - 1 and (is_fast or self._limit < self._start):
            self._limit = min(float(self._maximum), self._limit + 1 / self._limit)
        return is_fast

    def _learn_from_error(
        self, loop: asyncio.AbstractEventLoop, err: BaseException, began: float, scope: str, *, is_write: bool
    ) -> None:
        if not _concerns_others(err):
            return
        now = loop.time()
        if isinstance(err, ApiError) and err.retry_after_s:
            self._hold_back(scope, now, now + min(err.retry_after_s, self._longest_hold_s), err.code)
        if began <= self._last_cut or not self._is_overload(err, now, is_write=is_write):
            return
        self._last_cut = now
        self._cuts += 1
        self._limit = max(float(self._minimum), self._limit / 2)

    def _is_overload(self, err: BaseException, now: float, *, is_write: bool) -> bool:
        """Whether the error shows that the server is overloaded, and not only that one object is hard to write.

        An overloaded API server, or a proxy in front of it, rejects a request before it knows the object: with 429, 502
        or 503, and with a body that is not a Status (`apiserver/pkg/server/filters`); `parse_error` leaves the field
        `status` of such an error empty. A 429 or 503 with a Status has another cause: an admission webhook or a
        disruption budget rejects this object, a cache for this resource is not ready yet, or the server shuts down.

        A write that ends with 504 or a timeout can have either cause: the server is slow, or the webhooks of this
        object are. If other writes get responses at usual speed, the server is not slow. Reads do not prove this,
        because they do not wait for etcd's disk.
        """
        if isinstance(err, TooManyRequestsError | ServerUnavailableError):
            return not err.status.status
        return not is_write or now - self._last_fast_write > _PROOF_S

    def _hold_back(self, scope: str, now: float, until: float, code: int) -> None:
        before = self._held_until.get(scope, 0.0)
        if until <= before:
            return
        if before <= now:
            self._held_until = {name: time for name, time in self._held_until.items() if time > now}
            self._holds += 1
            # Short holds are normal for a busy API server.
            level = logging.WARNING if until - now > PATIENCE_S else logging.DEBUG
            _LOG.log(
                level,
                "%s: no requests are sent for %g s, because a response with status code %d requested this wait",
                scope,
                until - now,
                code,
            )
        self._held_until[scope] = until


class _Slot:
    """A slot. It is a class, because every request takes a slot and a generator would take three times as long."""

    __slots__ = ("_began", "_is_write", "_limiter", "_loop", "_priority", "_scope")

    def __init__(self, limiter: Limiter, priority: int, scope: str, is_write: bool) -> None:
        self._limiter = limiter
        self._priority = priority
        self._scope = scope
        self._is_write = is_write

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._limiter.acquire(self._loop, self._priority, self._scope)
        self._began = self._loop.time()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release(self._loop, err, self._began, self._scope, is_write=self._is_write)


def _concerns_others(err: BaseException) -> bool:
    """Whether the error may concern other requests too, and not only this one."""
    if isinstance(err, TooManyRequestsError):
        # The 429 of a disruption budget concerns one pod, not the server.
        return not any(cause.reason == "DisruptionBudget" for cause in err.causes)
    return isinstance(err, ServerUnavailableError | RequestTimeoutError | ServerTimeoutError)


def _build_held_status(scope: str) -> ErrorStatus:
    message = f"{scope}: the request was not sent, because an earlier response requested a wait"
    return ErrorStatus(status="Failure", message=message, reason="TooManyRequests", code=429)
