"""Errors of a program's work are raised without the groups of its tasks."""

import asyncio

import pytest

from pykruise.kube.program.process import run_beside_servers


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
