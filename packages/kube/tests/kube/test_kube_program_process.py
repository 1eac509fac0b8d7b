"""The work of a program: its errors, and its end when a signal arrives."""

import asyncio

import pytest

from pykruise.kube.program.process import run_beside_servers, run_until


async def fail(*, depth: int, errors: int) -> None:
    """Raise this number of errors inside `depth` groups of tasks."""
    if not depth:
        raise LookupError("missing")
    async with asyncio.TaskGroup() as tasks:
        for _ in range(errors if depth == 1 else 1):
            tasks.create_task(fail(depth=depth - 1, errors=errors))


@pytest.mark.parametrize("depth", [0, 1, 3])
async def test_a_single_error_is_raised_without_its_groups(depth: int) -> None:
    with pytest.raises(LookupError, match="missing"):
        await run_beside_servers(fail(depth=depth, errors=1), [])


async def test_several_errors_are_raised_together() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_beside_servers(fail(depth=2, errors=2), [])
    assert len(caught.value.exceptions) == 2


async def test_work_ends_when_a_stop_is_requested() -> None:
    # given
    stopping = asyncio.Event()
    has_ended = False

    async def work() -> str:
        nonlocal has_ended
        try:
            await asyncio.sleep(3600.0)
        finally:
            has_ended = True
        return "complete"

    asyncio.get_running_loop().call_later(2.0, stopping.set)
    began = asyncio.get_running_loop().time()
    # when
    result = await run_until(stopping, work())
    # then
    assert (result, has_ended) == (None, True)
    assert asyncio.get_running_loop().time() - began < 3.0


async def test_without_a_request_to_stop_work_returns_its_result_or_raises_its_error() -> None:
    async def work() -> str:
        await asyncio.sleep(1.0)
        return "complete"

    assert await run_until(asyncio.Event(), work()) == "complete"
    with pytest.raises(LookupError, match="missing"):
        await run_until(asyncio.Event(), fail(depth=0, errors=1))
