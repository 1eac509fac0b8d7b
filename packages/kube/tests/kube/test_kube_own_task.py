"""run_in_own_task: a failed attempt leaves nothing to the next attempt."""

import asyncio

import pytest

from pykruise.kube.control.retried_task import run_in_own_task


async def _fail() -> None:
    await asyncio.sleep(1.0)
    raise ValueError("on purpose")


async def _group(*, is_busy: bool) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_fail())
        if is_busy:
            await asyncio.Event().wait()


async def test_a_group_that_fails_at_its_end_does_not_hide_the_error_of_the_next_one() -> None:
    # given
    with pytest.raises(ExceptionGroup):
        await run_in_own_task(_group(is_busy=False))
    # when, then
    with pytest.raises(ExceptionGroup):
        await run_in_own_task(_group(is_busy=True))


async def test_cancelling_the_awaiting_task_cancels_the_work() -> None:
    # given
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    awaiting = asyncio.create_task(run_in_own_task(work()))
    await began.wait()
    # when
    awaiting.cancel()
    await asyncio.wait([awaiting])
    # then
    assert awaiting.cancelled()
    assert ended.is_set()
