"""Ends a block under `asyncio.timeout(None)` in which another task waits."""

import asyncio

__all__ = ["end_now"]


def end_now(scope: asyncio.Timeout) -> None:
    """Make the block end with TimeoutError at its next wait. Further calls change nothing.

    A Timeout that has begun to end its block accepts no further deadline.
    """
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
