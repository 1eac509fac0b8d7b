"""How the parts of a sandbox run: each has `run()`, which lasts until `stop()`, and owns its tasks.

Cluster ──▶ Component.run() ──▶ a Controller's workers, beside them caches and heartbeats
        ──▶ Component.stop() ──▶ work in flight finishes, run() returns
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol


class SandboxComponent(Protocol):
    """A part that works in the background."""

    async def run(self) -> None:
        """Work until `stop()` or until cancelled. Raises only for bugs."""
        ...

    async def stop(self) -> None:
        """Finish what is in flight; then `run()` returns. Harmless when it is not running."""
        ...


async def run_beside(main: Awaitable[None], *background: Coroutine[Any, Any, Any]) -> None:
    """Await `main` with the `background` tasks at work, and cancel them when it is done.

    When one of them fails everything is cancelled, and what it raised comes out (in an ExceptionGroup).
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in background]
        await main
        for task in tasks:
            task.cancel()


async def happens_before(stopped: asyncio.Event, condition: Coroutine[Any, Any, Any]) -> bool:
    """Wait for `condition`, but no longer than until `stopped`; whether it came true."""
    waiting = asyncio.ensure_future(condition)
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() and not stopped.is_set()
    finally:
        waiting.cancel()
        stopping.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)
