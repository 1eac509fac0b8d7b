"""Long computations outside the event loop, so that the loop can do its other work.

function, arguments ──▶ Aside.run() ───▶ a thread, one function at a time ──▶ its result
coroutine ────────────▶ Aside.drive() ─▶ the same, step by step; it awaits on the loop (OnLoop)

The loop's thread and the other thread share the interpreter's lock; each releases it every few milliseconds. Only a
call of a C function keeps the lock for longer, so the input of such calls must be limited (documents.check_bounds).
After each function, the next one waits for as long as the function took, so the loop has the interpreter for itself for
half of the time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, TypeVarTuple, Unpack

__all__ = ["Aside", "LoopSide", "OnLoop", "run_on_loop"]

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Aside:
    """Runs functions sequentially in a thread. Functions must not touch anything that the loop changes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rests_until = 0.0

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine; returns its result or raises its error. It may await only OnLoop."""
        step: Callable[[], Any] = partial(work.send, None)
        try:
            while not isinstance(turn := await self.run(_run_step, step), _Done):
                try:
                    step = partial(work.send, await turn.work())
                except Exception as error:
                    step = partial(work.throw, error)
            drive: T = turn.value
            return drive
        finally:
            work.close()

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Run the function; returns its result or raises its error."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if (rest_s := self._rests_until - loop.time()) > 0:
                await asyncio.sleep(rest_s)
            began = loop.time()
            work = loop.run_in_executor(None, function, *args)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be stopped: wait for it, since no second function may run at the same time.
                await asyncio.wait([work])
                raise
            finally:
                self._rests_until = 2 * loop.time() - began
                # An error's traceback refers to this frame, and this frame to the error: the function's arguments would
                # stay in memory.
                del work


class OnLoop(Generic[T]):
    """Awaitable for a coroutine that runs outside the loop: `work` is called, and awaited, on the loop."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.work = work

    def __await__(self) -> Generator["OnLoop[T]", T, T]:
        return (yield self)


def run_on_loop(function: Callable[P, Awaitable[T]]) -> Callable[P, OnLoop[T]]:
    """Return the function in a form that coroutines outside the loop may call."""
    return lambda *args, **named: OnLoop(partial(function, *args, **named))


class LoopSide:
    """Wraps an object with only awaited methods, so that coroutines outside the loop may call them."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return run_on_loop(getattr(self._whole, name))


class _Done(NamedTuple):
    value: Any


def _run_step(step: Callable[[], Any]) -> OnLoop[Any] | _Done:
    try:
        on_loop = step()
    except StopIteration as end:  # a future cannot hold a StopIteration
        return _Done(end.value)
    if isinstance(on_loop, OnLoop):
        return on_loop
    raise RuntimeError(f"outside the event loop only OnLoop can be awaited, not {on_loop!r}")
