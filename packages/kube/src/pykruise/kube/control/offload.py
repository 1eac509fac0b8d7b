"""Long computations beside an event loop, so that it goes on with everything else.

function, arguments ──▶ Aside.run() ───▶ a thread, one function at a time ──▶ its answer
coroutine ────────────▶ Aside.drive() ─▶ the same, step by step; what it awaits is done on the loop (OnLoop)

The loop's thread and the other one share the interpreter's lock, and hand it on every few milliseconds. Only a single
call into C keeps it for longer, so what is given to one of those must be bounded before (documents.bounded). As long as
a function took, the next one waits: half of the time the loop has the interpreter for itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, TypeVarTuple, Unpack

__all__ = ["Aside", "LoopSide", "OnLoop", "on_loop"]

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Aside:
    """Runs one function after the other in a thread. Functions must touch nothing that the loop changes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._rests_until = 0.0

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine; returns its result or raises its error. It awaits nothing but OnLoop."""
        step: Callable[[], Any] = partial(work.send, None)
        try:
            while not isinstance(turn := await self.run(_step, step), _Done):
                try:
                    step = partial(work.send, await turn.work())
                except Exception as error:
                    step = partial(work.throw, error)
            drive: T = turn.value
            return drive
        finally:
            work.close()

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Runs the function; returns its result or raises its error."""
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


class OnLoop(Generic[T]):
    """Awaited by a coroutine that runs beside the loop: `work` is called, and awaited, on the loop."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.work = work

    def __await__(self) -> Generator["OnLoop[T]", T, T]:
        return (yield self)


def on_loop(function: Callable[P, Awaitable[T]]) -> Callable[P, OnLoop[T]]:
    """The function as coroutines beside the loop may call it."""
    return lambda *args, **named: OnLoop(partial(function, *args, **named))


class LoopSide:
    """An object whose methods are all awaited, as coroutines beside the loop may call them."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return on_loop(getattr(self._whole, name))


class _Done(NamedTuple):
    value: Any


def _step(step: Callable[[], Any]) -> OnLoop[Any] | _Done:
    try:
        on_loop = step()
    except StopIteration as end:  # no future can have this one as its error
        return _Done(end.value)
    if isinstance(on_loop, OnLoop):
        return on_loop
    raise RuntimeError(f"beside the loop nothing but OnLoop can be awaited, and this is {on_loop!r}")
