"""The kill of a manager at one of its writes: a fault for `FaultyTransport`.

kill = Kill(7, takes_effect=True); faulty.on(writes(), kill); …; await stage.until(lambda: kill.reached)
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.faults import FaultyTransport, Request


class Kill:
    """Kills the manager at the write with that number, which takes effect or does not."""

    def __init__(self, at: int, *, takes_effect: bool) -> None:
        self.at = at
        self.takes_effect = takes_effect
        self.count = 0
        self.reached = False

    def __call__(self, request: Request) -> Any:
        self.count += 1
        if self.count - 1 < self.at:
            return None
        first, self.reached = not self.reached, True
        # What was sent before the kill may still arrive; what comes later never leaves the process.
        return _Silence(takes_effect=self.takes_effect and first)


class _Silence:
    def __init__(self, *, takes_effect: bool) -> None:
        self.takes_effect = takes_effect

    async def request(
        self, _request: Request, forward: Callable[[], Awaitable[Any]], _owner: FaultyTransport
    ) -> Any:
        if self.takes_effect:
            await forward()
        await asyncio.Event().wait()
        raise AssertionError("never")
