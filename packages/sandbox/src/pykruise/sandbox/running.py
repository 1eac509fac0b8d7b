"""Life of a sandbox's components: `run()` returns after `stop()`, and each component owns its tasks.

Cluster ──▶ Component.run() ──▶ a Controller's workers, beside them caches and heartbeats
        ──▶ Component.stop() ──▶ work in progress finishes, run() returns
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol


class SandboxComponent(Protocol):
    """A component that works in the background."""

    async def run(self) -> None:
        """Run until `stop()` or cancellation. Raises only for bugs."""
        ...

    async def stop(self) -> None:
        """Finish the work in progress; then `run()` returns. Does nothing when it is not running."""
        ...


async def run_beside(main: Awaitable[None], *background: Coroutine[Any, Any, Any]) -> None:
    """Await `main` while the `background` tasks run, and cancel them afterwards.

    When one of them fails, all are cancelled, and the exception is raised in an ExceptionGroup.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in background]
        await main
        for task in tasks:
            task.cancel()


async def wait_for_condition(stopped: asyncio.Event, condition: Coroutine[Any, Any, Any]) -> bool:
    """Wait until `condition` ends or `stopped` is set. Return whether `condition` ended first."""
    waiting = asyncio.ensure_future(condition)
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() and not stopped.is_set()
    finally:
        waiting.cancel()
        stopping.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)
