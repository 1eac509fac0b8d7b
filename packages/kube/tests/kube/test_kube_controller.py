"""Controller: the handling of results and errors, a stop without lost work, and reported metrics and logs."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.errors import (
    ConflictError,
    ErrorStatus,
    ForbiddenError,
    TooManyRequestsError,
    UnreachableError,
)

Reconcile = Callable[[str], Awaitable[float | None]]


def elapsed() -> float:
    return asyncio.get_running_loop().time()


def controller(
    reconcile: Reconcile,
    *,
    workers: int = 3,
    cpu_time: Callable[[], float] = lambda: 0.0,
    queue: WorkQueue[str] | None = None,
) -> Controller[str]:
    return Controller(
        "test", reconcile, queue=queue or WorkQueue(), workers=workers, clock=lambda: 7.0, cpu_time=cpu_time
    )


@asynccontextmanager
async def running(controller: Controller[str]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


class Calls:
    """A reconcile that answers from a script: a result, an error, or how long to take."""

    def __init__(self, *script: float | Exception | None) -> None:
        self.script = list(script)
        self.at: list[float] = []

    async def __call__(self, key: str) -> float | None:
        self.at.append(elapsed())
        outcome = self.script.pop(0) if self.script else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.at)]


def api_error(kind: type[ForbiddenError] = ForbiddenError, **options: float) -> ForbiddenError:
    return kind(ErrorStatus(message="exceeded quota", code=403), retry_after_s=options.get("retry_after_s"))


async def test_a_key_is_reconciled_after_the_returned_seconds_or_when_it_is_added() -> None:
    # given
    calls = Calls(10.0, 0.0, None)
    control = controller(calls)
    async with running(control):
        # when
        control.queue.add("a")
        await asyncio.sleep(60)
        # then
        assert calls.gaps() == pytest.approx([10, 0])
        control.queue.add("a")
        await asyncio.sleep(1)
        assert len(calls.at) == 4


async def test_each_worker_runs_one_key_and_no_key_runs_twice_in_parallel() -> None:
    # given
    in_flight: list[str] = []
    seen: list[set[str]] = []

    async def reconcile(key: str) -> None:
        in_flight.append(key)
        assert len(set(in_flight)) == len(in_flight)
        seen.append(set(in_flight))
        await asyncio.sleep(1)
        in_flight.remove(key)

    control = controller(reconcile, workers=2)
    async with running(control):
        # when
        for key in "abcd":
            control.queue.add(key)
        await asyncio.sleep(0.5)
        control.queue.add("a")
        assert control.read_stats().in_flight == 2
        await asyncio.sleep(10)
    # then
    assert max(len(keys) for keys in seen) == 2
    assert control.read_stats().reconciles == 5


async def test_an_error_of_the_server_is_one_log_line_and_backs_off(caplog: pytest.LogCaptureFixture) -> None:
    # given
    calls = Calls(api_error(), api_error(), UnreachableError("connection refused"), None)
    control = controller(calls)
    async with running(control):
        # when
        control.queue.add("a")
        await asyncio.sleep(1)
    # then
    assert calls.gaps() == pytest.approx([0.005, 0.01, 0.02])
    assert [record.getMessage() for record in caplog.records][:2] == [
        "test a: ForbiddenError: exceeded quota; retry in 0.005 s (failure 1)",
        "test a: ForbiddenError: exceeded quota; retry in 0.01 s (failure 2)",
    ]
    assert all(record.exc_info is None for record in caplog.records)
    stats = control.read_stats()
    assert (stats.reconciles, stats.failures, stats.last_failure_at) == (4, 3, 7.0)
    assert stats.bugs == 0
    assert stats.last_failure == "a: UnreachableError: connection refused"
    assert control.queue.count_failures("a") == 0


async def test_an_error_caused_by_a_server_error_is_not_logged_as_a_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given errors as plans raise them: an own error caused by one of the server, or a group of errors
    wrapped = RuntimeError("create pods ns/a: exceeded quota")
    wrapped.__cause__ = api_error(TooManyRequestsError, retry_after_s=9.0)
    calls = Calls(wrapped, ExceptionGroup("several", [api_error(), UnreachableError("no")]))
    control = controller(calls)
    async with running(control):
        control.queue.add("a")
        await asyncio.sleep(20)
    assert all(record.exc_info is None for record in caplog.records)
    # and what the server asked for is honoured
    assert calls.gaps() == pytest.approx([9.0, 0.01])


async def test_a_bug_has_its_traceback_and_backs_off_too(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(ZeroDivisionError("division by zero"), None)
    control = controller(calls)
    async with running(control):
        control.queue.add("a")
        await asyncio.sleep(1)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    assert calls.gaps() == pytest.approx([0.005])
    stats = control.read_stats()
    assert (stats.failures, stats.bugs) == (1, 1)


async def test_a_reconcile_that_raises_before_its_coroutine_kills_no_worker() -> None:
    def reconcile(key: str) -> Awaitable[None]:
        raise ValueError(key)

    control = controller(reconcile, workers=1)
    async with running(control) as task:
        control.queue.add("a")
        control.queue.add("b")
        await asyncio.sleep(0.001)
        assert control.read_stats().failures == 2
        assert not task.done()


async def test_a_conflict_is_tried_again_soon_until_it_lasts() -> None:
    # given a key with many failures behind it
    calls = Calls(*[ConflictError(ErrorStatus(code=409, message="modified"))] * 5)
    control = controller(calls)
    for _ in range(10):
        control.queue.add_rate_limited("a")
        control.queue.mark_done(await control.queue.get())
    async with running(control):
        # when
        control.queue.add("a")
        await asyncio.sleep(60)
    # then
    assert calls.gaps() == pytest.approx([0.05, 0.05, 0.05, 5.12, 10.24])
    stats = control.read_stats()
    assert (stats.conflicts, stats.failures) == (5, 0)


async def test_a_stopped_controller_finishes_work_in_flight_and_starts_no_new_work() -> None:
    # given
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    control = controller(reconcile, workers=2)
    async with running(control) as task:
        for key in "abc":
            control.queue.add(key)
        await asyncio.sleep(1)
        begin = elapsed()
        # when
        have_ended = await control.stop()
        # then
        assert have_ended
        assert elapsed() - begin == pytest.approx(9)
        await task
        assert finished == ["a", "b"]
        assert not control.read_stats().running
        assert control.queue.read_stats().depth == 1


async def test_stop_does_not_wait_for_workers_that_have_nothing_to_do() -> None:
    control = controller(Calls())
    async with running(control) as task:
        await asyncio.sleep(1)
        begin = elapsed()
        await control.stop()
        await task
        assert elapsed() == begin


async def test_stop_loses_no_key_that_is_added_at_the_same_moment() -> None:
    calls = Calls()
    control = controller(calls)
    async with running(control) as task:
        await asyncio.sleep(1)
        control.queue.add("a")
        await control.stop()
        await task
    assert len(calls.at) + control.queue.read_stats().depth == 1


async def test_a_reconcile_that_outlives_the_grace_is_cancelled_and_runs_again_next_time() -> None:
    # given
    begun: list[str] = []
    cancelled: list[str] = []

    async def reconcile(key: str) -> None:
        begun.append(key)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    control = controller(reconcile, cpu_time=elapsed)
    async with running(control) as task:
        control.queue.add("a")
        await asyncio.sleep(1)
        begin = elapsed()
        # when
        have_ended = await control.stop(grace_s=5)
        await task
        # then
        assert not have_ended
        assert elapsed() - begin == pytest.approx(5)
        assert cancelled == ["a"]
        assert control.read_stats().cancelled == 1
    async with running(control):
        await asyncio.sleep(0.1)
        assert begun == ["a", "a"]


async def test_a_cancelled_run_cancels_its_reconciles_and_keeps_their_keys() -> None:
    async def reconcile(key: str) -> None:
        await asyncio.sleep(1000)

    control = controller(reconcile, workers=1)
    async with running(control) as task:
        control.queue.add("a")
        control.queue.add("b")
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await control.queue.get() == "b"
    assert await control.queue.get() == "a"


async def test_a_reconcile_that_was_cancelled_from_within_is_a_failure_and_kills_no_worker() -> None:
    async def reconcile(key: str) -> None:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        await inner

    control = controller(reconcile, workers=1)
    async with running(control) as task:
        control.queue.add("a")
        await asyncio.sleep(1)
        assert control.read_stats().failures > 3
        assert not task.done()


async def test_a_group_that_failed_in_one_reconcile_does_not_have_a_cancellation_in_the_next_kill_the_worker() -> (
    None
):
    # given
    ended = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        if key == "group":
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.wait_for(asyncio.Event().wait(), 1.0))
        elif key == "cancelled":
            raise asyncio.CancelledError
        else:
            ended.set()
        return None

    manager = controller(reconcile, workers=1)
    # when
    async with running(manager):
        for key in ("group", "cancelled", "last"):
            manager.queue.add(key)
            await asyncio.sleep(2.0)
    # then
    assert ended.is_set()


async def test_a_controller_ends_when_its_queue_is_closed() -> None:
    control = controller(Calls())
    async with running(control) as task:
        await asyncio.sleep(1)
        control.queue.close()
        await asyncio.wait_for(task, 1)


async def test_running_it_twice_is_refused_and_stopping_it_twice_is_not() -> None:
    control = controller(Calls())
    async with running(control) as task:
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="controller test is running already"):
            await control.run()
        await control.stop()
        await control.stop()
        await task
    # and it can be run again
    calls = control.queue
    async with running(control):
        calls.add("a")
        await asyncio.sleep(1)
        assert control.read_stats().reconciles == 1


async def test_the_cost_of_a_key_is_its_own_steps_and_not_its_waiting() -> None:
    # given a reconcile that plans for 0.4 s and waits for answers for 20 s
    cpu = 0.0
    at: list[float] = []

    async def reconcile(key: str) -> None:
        nonlocal cpu
        at.append(elapsed())
        cpu += 0.3
        await asyncio.sleep(20)
        cpu += 0.1

    async def others() -> None:
        nonlocal cpu
        while True:
            cpu += 5.0
            await asyncio.sleep(1)

    control = controller(reconcile, cpu_time=lambda: cpu)
    busy = asyncio.create_task(others())
    async with running(control):
        # when it is woken all the time
        for _ in range(500):
            control.queue.add("a")
            await asyncio.sleep(0.1)
    busy.cancel()
    # then it rests for what its own planning cost
    assert [later - earlier for earlier, later in itertools.pairwise(at)] == pytest.approx([20.4, 20.4])
    stats = control.read_stats()
    assert stats.cost_sum_s == pytest.approx(0.4 * 2 + 0.3)
    assert stats.duration_max_s == pytest.approx(20)


async def test_a_timeout_inside_a_reconcile_reaches_it_through_the_measuring() -> None:
    async def reconcile(key: str) -> float | None:
        try:
            async with asyncio.timeout(5):
                await asyncio.sleep(100)
        except TimeoutError:
            return 1000.0
        return None

    control = controller(reconcile)
    async with running(control):
        control.queue.add("a")
        await asyncio.sleep(6)
        assert control.read_stats().failures == 0
        assert control.queue.read_stats().delayed == 1


def test_a_controller_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="controller test: at least 1 worker is required, not 0"):
        Controller("test", Calls(), queue=WorkQueue(), workers=0, clock=lambda: 0.0)
