"""Long work beside the event loop: in a thread, one function after the other."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from functools import partial

import pytest

from pykruise.kube.control.offload import Aside, LoopSide, OnLoop, run_on_loop

pytestmark = pytest.mark.real_time


async def test_the_loop_runs_while_a_function_runs_aside() -> None:
    # given a function that ends only when the loop says so
    go = threading.Event()
    asyncio.get_running_loop().call_soon(go.set)
    # when
    ended = await Aside().run(go.wait, 10.0)
    # then
    assert ended


async def test_functions_run_sequentially() -> None:
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


async def test_a_cancelled_caller_does_not_let_the_next_begin_before_the_work_ends() -> None:
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


async def test_a_coroutine_runs_beside_the_loop_and_what_it_awaits_on_it() -> None:
    # given
    loop_thread = threading.get_ident()
    seen: list[bool] = []

    async def look_up(number: int) -> int:
        seen.append(threading.get_ident() == loop_thread)
        await asyncio.sleep(0.001)
        if number > 2:
            raise KeyError(number)
        return number + 1

    class Reader:
        async def newest(self) -> int:
            return await look_up(0)

    async def review() -> tuple[int, int, bool]:
        asked, reader = run_on_loop(look_up), LoopSide(Reader())
        seen.append(threading.get_ident() == loop_thread)
        number = await asked(await reader.newest())
        with suppress(KeyError):
            await asked(7)
            raise AssertionError
        seen.append(threading.get_ident() == loop_thread)
        return number, await asked(1), True

    # then
    assert await Aside().drive(review()) == (2, 2, True)
    assert seen == [False, True, True, True, False, True]


async def test_beside_the_loop_errors_are_the_coroutine_s_and_nothing_else_can_be_awaited() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def sleeps() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="no"):
        await Aside().drive(fails())
    with pytest.raises(RuntimeError, match="only OnLoop"):
        await Aside().drive(sleeps())


async def test_a_coroutine_without_a_waiter_is_closed() -> None:
    ends: list[str] = []

    async def review() -> None:
        try:
            await OnLoop(partial(asyncio.sleep, 60))
        finally:
            ends.append("closed")

    driving = asyncio.create_task(Aside().drive(review()))
    await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert ends == ["closed"]


async def test_an_error_does_not_keep_its_arguments_in_memory() -> None:
    # given
    class Body:
        pass

    def fail(body: Body) -> None:
        raise ValueError

    body = Body()
    still = weakref.ref(body)
    aside = Aside()
    gc.collect(1)
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
