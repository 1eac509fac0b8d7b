"""Long computations beside an event loop, so that it goes on with everything else.

function, arguments ──▶ Aside.run() ──▶ a thread, one function at a time ──▶ its answer

The loop's thread and the other one share the interpreter's lock, and hand it on every few milliseconds. Only a single
call into C keeps it for longer, so what is given to one of those must be bounded before (documents.bounded). As long as
a function took, the next one waits: half of the time the loop has the interpreter for itself.
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
        self._rests_until = 0.0

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """What the function returns, or raises."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if (rest_s := self._rests_until - loop.time()) > 0:
                await asyncio.sleep(rest_s)
            began = loop.time()
            work = loop.run_in_executor(None, function, *args)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be ended, and who goes away must not make two of them run.
                await asyncio.wait([work])
                raise
            finally:
                self._rests_until = 2 * loop.time() - began
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
