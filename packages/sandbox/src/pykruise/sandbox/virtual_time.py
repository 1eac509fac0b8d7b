"""An event loop with virtual time: it jumps to the next timer instead of waiting for it.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())          # `await asyncio.sleep(3600)` in it takes no time

asyncio.SelectorEventLoop ──lets its selector wait──▶ _JumpingSelector ──moves──▶ VirtualLoop.time()

Everything that reads the loop's time (kube.clock.make_loop_clock, asyncio.sleep, asyncio.timeout) runs on virtual time
without knowing it. Nothing else about the loop changes: callbacks run in asyncio's order, so equal programs give
equal runs. Use it only for programs without network connections, because a socket needs real time. While a thread works
for the loop (asyncio.to_thread), virtual time does not advance.
"""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

POLL_EVERY = 64
"""Number of iterations of a busy loop between two polls for wake-ups from other threads."""


class DeadlockError(RuntimeError):
    """Every task waits for another one and there is no timer, so nothing can happen any more."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at time 0. Running it raises DeadlockError when nothing can happen any more."""

    def __init__(self) -> None:
        self._now = 0.0
        self._in_threads = 0
        super().__init__(_JumpingSelector(self))
        # A timer is due when its time is this close. After months of virtual time, asyncio's own nanosecond is less
        # than the distance between two floats, and a timer for the current moment would never be due.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    @property
    def waits_for_threads(self) -> bool:
        """Whether a thread still works for the loop."""
        return self._in_threads > 0

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Run in an executor as every loop does, and count the work in progress."""
        given = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        given.add_done_callback(self._on_thread_done)
        return given

    def _on_thread_done(self, _: object) -> None:
        self._in_threads -= 1

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Shut down as every loop does, in a thread that waits for the others."""
        self._in_threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._in_threads -= 1

    def jump(self, timeout: float | None) -> None:
        """Advance time where a selector would wait. `None`: there is no timer."""
        if timeout is None:
            raise DeadlockError("every task waits for another, and no timer is set")
        self._now += timeout


class _JumpingSelector(selectors.BaseSelector):
    """Polls in real time, and waits in virtual time only."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._inner = selectors.DefaultSelector()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # While there is work, a real poll at each turn would cost more than most of the work.
        self._turns += 1
        if timeout == 0 and self._turns % POLL_EVERY:
            return []
        is_held = timeout != 0 and self._loop.waits_for_threads
        select = self._inner.select(None if is_held else 0)
        if not select and timeout != 0 and not is_held:
            self._loop.jump(timeout)
        return select

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def close(self) -> None:
        self._inner.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map() or {}
