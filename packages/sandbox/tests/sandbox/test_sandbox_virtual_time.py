"""Virtual time, which jumps to the next event."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from pykruise.sandbox.virtual_time import DeadlockError, VirtualLoop


def run(main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def test_a_year_of_virtual_time_passes_instantly_and_exactly() -> None:
    async def wait() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for seconds in (0.1, 59.9, 365 * 24 * 3600.0):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    assert run(wait()) == pytest.approx([0.0, 0.1, 60.0, 365 * 24 * 3600.0 + 60.0])


def test_shorter_sleeps_end_first_and_equal_ones_in_their_order() -> None:
    async def race() -> list[str]:
        order: list[str] = []

        async def runner(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        await asyncio.gather(runner("slow", 5), runner("first", 1), runner("second", 1), runner("now", 0))
        return order

    assert run(race()) == ["now", "first", "second", "slow"]


def test_virtual_time_does_not_pass_while_a_task_can_run() -> None:
    async def busy() -> float:
        for _ in range(100):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run(busy()) == 0.0


def test_virtual_time_does_not_pass_while_a_thread_runs() -> None:
    async def work() -> tuple[str, float]:
        async with asyncio.timeout(0.001):
            result = await asyncio.to_thread(lambda: threading.Event().wait(0.05) or "done")
        return result, asyncio.get_running_loop().time()

    assert run(work()) == ("done", 0.0)


def test_timeouts_count_virtual_seconds() -> None:
    async def slow() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(slow()) == 30.0


def test_a_deadlocked_program_ends_with_an_error() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="every task waits"):
        run(stuck())
