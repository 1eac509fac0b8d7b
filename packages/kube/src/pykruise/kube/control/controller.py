"""The loop of a controller: workers take keys from a queue, reconcile them, and requeue them when requested.

WorkQueue.get() ──▶ reconcile(key) ──▶ seconds ──▶ add_after    None ──▶ nothing, until something enqueues the key
                                  └──▶ error   ──▶ add_rate_limited (one line is logged; a traceback for bugs)

`run()` owns its workers. `stop()` lets reconciles in flight finish, so that no plan remains partly executed. If a
reconcile is cancelled nevertheless, its key is put back into the queue, and the next `run()` reconciles it.

From the cost of a reconcile, the queue computes how long the key rests. The cost is the CPU time of the reconcile's own
steps (planning), not the time for which it waited for responses: waiting for writes does not slow a rollout down.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from pykruise.kube.clock import Clock, Instant
from pykruise.kube.control.queue import QueueClosedError, WorkQueue
from pykruise.kube.errors import ApiError, ConflictError, KubeError
from pykruise.kube.values.histogram import RECONCILE_BOUNDS, Histogram, HistogramStats

__all__ = ["Controller", "ControllerStats", "skip_measuring"]

K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)

DEFAULT_WORKERS = 3
GRACE_S = 30.0
CONFLICT_RETRY_S = 0.05
"""Seconds until the retry after a conflict. A conflict means that the cache is stale: the event with the newer
version is on its way.
"""
_QUICK_CONFLICTS = 3  # conflicts in a row that are retried quickly; further ones wait like any failure


class ControllerStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a controller. Durations are in seconds of the event loop's time, waiting included."""

    running: bool
    workers: int
    in_flight: int
    reconciles: int
    """Finished reconciles, whatever their result."""
    failures: int
    """Number of these reconciles that failed with an error (conflicts are counted separately)."""
    bugs: int
    """Number of these failures that are not errors of a server or a network."""
    conflicts: int
    cancelled: int
    duration_sum_s: float
    duration_max_s: float
    cost_sum_s: float
    """CPU time of the reconciles' own steps."""
    results: Mapping[str, int]
    """Reconciles by result: success, requeue (immediately), requeue_after, error. A conflict is a requeue."""
    durations: HistogramStats
    last_failure: str
    """Key and error of the latest failure; empty when no reconcile has failed yet."""
    last_failure_at: Instant | None


class Controller(Generic[K]):
    """Runs `reconcile` for the keys of `queue`, each key in at most one worker.

    `reconcile(key)` moves one object towards its desired state and returns the seconds until the next reconcile (0:
    immediately; None: when an event enqueues the key). `grace_s`: how long `stop()` waits for reconciles in flight.
    `cpu_time` measures the cost of a reconcile; use `skip_measuring` where every run must be identical.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        queue: WorkQueue[K],
        workers: int = DEFAULT_WORKERS,
        clock: Clock,
        grace_s: float = GRACE_S,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name}: at least 1 worker is required, not {workers}")
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._grace_s = grace_s
        self._cpu_time = cpu_time

        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._is_running = False
        self._is_stopping = False
        self._conflicts_in_row: dict[K, int] = {}
        self._reconciles = 0
        self._failures = 0
        self._bugs = 0
        self._conflicts = 0
        self._cancelled = 0
        self._duration_sum_s = 0.0
        self._duration_max_s = 0.0
        self._cost_sum_s = 0.0
        self._results: Counter[str] = Counter()
        self._durations = Histogram(RECONCILE_BOUNDS)
        self._last_failure = ""
        self._last_failure_at: Instant | None = None

    async def run(self) -> None:
        """Work until `stop()`, until the queue is closed, or until cancelled (which also cancels reconciles in
        flight).

        Raises RuntimeError when it is running already.
        """
        if self._is_running:
            raise RuntimeError(f"controller {self.name} is running already")
        self._is_running = True
        self._is_stopping = False
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    self._tasks.add(group.create_task(self._run_worker(), name=f"{self.name}-{number}"))
        finally:
            self._tasks.clear()
            self._busy.clear()
            self._conflicts_in_row.clear()
            self._is_running = False

    async def stop(self, *, grace_s: float | None = None) -> bool:
        """Start nothing new, let reconciles in flight finish for `grace_s`, then cancel them; `run()` ends.

        Returns False when some were cancelled; the result of their writes is unknown. Does nothing when it is not
        running. Do not call it from a reconcile.
        """
        self._is_stopping = True
        tasks = set(self._tasks)
        if not tasks:
            return True
        for task in tasks - self._busy:
            task.cancel()
        _, late = await asyncio.wait(tasks, timeout=self._grace_s if grace_s is None else grace_s)
        if late:
            _log.warning("%s: %d reconciles did not finish in time and are cancelled", self.name, len(late))
            for task in late:
                task.cancel()
            await asyncio.wait(late)
        return not late

    def read_stats(self) -> ControllerStats:
        """Return the current state."""
        return ControllerStats(
            running=self._is_running,
            workers=self._workers,
            in_flight=len(self._busy),
            reconciles=self._reconciles,
            failures=self._failures,
            bugs=self._bugs,
            conflicts=self._conflicts,
            cancelled=self._cancelled,
            duration_sum_s=self._duration_sum_s,
            duration_max_s=self._duration_max_s,
            cost_sum_s=self._cost_sum_s,
            results=dict(self._results),
            durations=self._durations.take_snapshot(),
            last_failure=self._last_failure,
            last_failure_at=self._last_failure_at,
        )

    # ── one worker ───────────────────────────────────────────────────────────

    async def _run_worker(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # a coroutine runs in a task
        while not self._is_stopping:
            while task.uncancel():
                # A TaskGroup of the previous reconcile may have left cancellation requests (retried_task.py).
                pass
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            self._busy.add(task)
            try:
                await self._reconcile_key(key, task)
            finally:
                self._busy.discard(task)

    async def _reconcile_key(self, key: K, task: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        timed = _Timed(self._reconcile, key, self._cpu_time)
        try:
            after = await timed
        except asyncio.CancelledError as error:
            if task.cancelling():
                self._cancelled += 1
                self.queue.add(key, force=True)
                raise
            self._note_failure(key, error)  # something inside the reconcile was cancelled, not this worker
        except Exception as error:
            self._note_failure(key, error)
        else:
            self.queue.forget(key)
            self._conflicts_in_row.pop(key, None)
            self._results["success" if after is None else "requeue_after" if after > 0 else "requeue"] += 1
            if after is not None:
                self.queue.add_after(key, after)
        finally:
            duration_s = loop.time() - started
            self._reconciles += 1
            self._durations.observe(duration_s)
            self._duration_sum_s += duration_s
            self._duration_max_s = max(self._duration_max_s, duration_s)
            self._cost_sum_s += timed.cost_s
            self.queue.mark_done(key, cost_s=timed.cost_s)

    def _note_failure(self, key: K, error: BaseException) -> None:
        if isinstance(error, ConflictError):
            self._conflicts += 1
            row = self._conflicts_in_row[key] = self._conflicts_in_row.get(key, 0) + 1
            self._results["requeue"] += 1
            if row <= _QUICK_CONFLICTS:
                _log.info("%s %s: %s; the next reconcile is in %g s", self.name, key, error, CONFLICT_RETRY_S)
                self.queue.add_after(key, CONFLICT_RETRY_S)
                return
        else:
            self._failures += 1
            self._results["error"] += 1
        self._last_failure = f"{key}: {_describe(error)}"
        self._last_failure_at = self._clock()
        wait_s = self.queue.add_rate_limited(key, at_least_s=_retry_after_s(error))
        is_expected = _is_expected(error)
        self._bugs += not is_expected
        _log.log(
            logging.WARNING if is_expected else logging.ERROR,
            "%s %s: %s; retry in %.3g s (failure %d)",
            self.name,
            key,
            _describe(error),
            wait_s,
            self.queue.count_failures(key),
            exc_info=None if is_expected else error,
        )


def skip_measuring() -> float:
    """CPU time for runs that must be identical: every reconcile costs 0, so no key has to rest."""
    return 0.0


class _Timed(Generic[K]):
    """Awaits `reconcile(key)` and adds up the time of its steps; a step lasts until the reconcile waits again."""

    def __init__(
        self, reconcile: Callable[[K], Awaitable[float | None]], key: K, cpu_time: Callable[[], float]
    ) -> None:
        self._reconcile = reconcile
        self._key = key
        self._cpu_time = cpu_time
        self.cost_s = 0.0

    def __await__(self) -> Generator[Any, Any, float | None]:
        steps = self._reconcile(self._key).__await__()
        thrown: BaseException | None = None
        while True:
            started = self._cpu_time()
            try:
                waits_for = next(steps) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                result: float | None = end.value
                return result
            finally:
                self.cost_s += self._cpu_time() - started
            thrown = None
            try:
                yield waits_for
            except BaseException as error:  # usually a cancellation, which the reconcile must handle
                thrown = error


def _is_expected(error: BaseException) -> bool:
    """Whether a server or a network caused the error; any other error is a bug and is logged with a traceback."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_expected(inner) for inner in error.exceptions)
    return isinstance(error, KubeError) or isinstance(error.__cause__, KubeError)


def _retry_after_s(error: BaseException) -> float:
    for candidate in (error, error.__cause__):
        if isinstance(candidate, ApiError) and candidate.retry_after_s:
            return candidate.retry_after_s
    return 0.0


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
