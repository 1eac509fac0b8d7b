"""Life of a sandbox's components: `run()` returns after `stop()`, and each component owns its tasks.

Cluster ──▶ Component.run() ──▶ a Controller's workers, beside them caches and heartbeats
        ──▶ Component.stop() ──▶ work in progress finishes, run() returns
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class SandboxComponent(Protocol):
    """A component that works in the background."""

    async def run(self) -> None:
        """Run until `stop()` or cancellation. Raises only for bugs."""
        ...

    async def stop(self) -> None:
        """Finish the work in progress; then `run()` returns. Does nothing when it is not running."""
        ...


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
