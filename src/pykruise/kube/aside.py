"""Long computations beside an event loop, so that it goes on with everything else.

function, arguments ──▶ Aside.run() ──▶ a thread, one function at a time ──▶ its answer

The loop's thread and the other one share the interpreter's lock, and hand it on every few milliseconds. Only a single
call into C keeps it for longer, so what is given to one of those must be bounded before (documents.bounded).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple, Unpack

__all__ = ["Aside", "finished"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Aside:
    """Runs one function after the other in a thread. Functions must touch nothing that the loop changes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """What the function returns, or raises."""
        async with self._turn:
            work = asyncio.get_running_loop().run_in_executor(None, function, *args)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be ended, and who goes away must not make two of them run.
                await asyncio.wait([work])
                raise
            finally:
                # An error's traceback leads here, and from here to the error: its arguments would stay for a long time.
                del work


def finished(work: Awaitable[T]) -> T:
    """What an awaitable returns that waits for nothing. Raises RuntimeError when it does."""

    async def whole() -> T:
        return await work

    running = whole()
    try:
        running.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    running.close()
    raise RuntimeError(f"{work} waits for something")
