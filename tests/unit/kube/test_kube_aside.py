"""Long work beside the loop: in a thread, one after the other."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress

import pytest

from pykruise.kube.aside import Aside, finished

pytestmark = pytest.mark.real_time


async def test_the_loop_goes_on_while_a_function_runs() -> None:
    # given a function that ends only when the loop says so
    go = threading.Event()
    asyncio.get_running_loop().call_soon(go.set)
    # when
    ended = await Aside().run(go.wait, 10.0)
    # then
    assert ended


async def test_functions_run_one_after_the_other() -> None:
    aside, at_once, most = Aside(), 0, 0

    def work(number: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        threading.Event().wait(0.002)
        at_once -= 1
        return number

    assert await asyncio.gather(*(aside.run(work, number) for number in range(10))) == list(range(10))
    assert most == 1


async def test_who_goes_away_lets_nobody_begin_before_the_work_is_over() -> None:
    # given
    aside, go, over = Aside(), threading.Event(), False

    def work() -> None:
        nonlocal over
        go.wait(10)
        over = True

    leaving = asyncio.create_task(aside.run(work))
    waiting = asyncio.create_task(aside.run(lambda: over))
    await asyncio.sleep(0.01)
    # when
    leaving.cancel()
    await asyncio.sleep(0.01)
    assert not waiting.done()
    go.set()
    # then
    assert await waiting
    assert (await asyncio.gather(leaving, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_an_error_is_that_of_the_function() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await Aside().run(int, "x")


async def test_what_waits_for_nothing_is_finished_at_once_and_all_else_is_a_mistake() -> None:
    async def answer() -> int:
        return 42

    assert finished(answer()) == 42
    with pytest.raises(RuntimeError, match="waits for something"):
        finished(asyncio.sleep(1))


async def test_what_an_error_was_about_does_not_stay_in_memory() -> None:
    # given
    class Body:
        pass

    def fail(body: Body) -> None:
        raise ValueError

    body = Body()
    still = weakref.ref(body)
    aside = Aside()
    gc.collect()
    gc.disable()
    try:
        # when
        with suppress(ValueError):
            await aside.run(fail, body)
        del body
        await asyncio.sleep(0.01)
        # then
        assert still() is None
    finally:
        gc.enable()
