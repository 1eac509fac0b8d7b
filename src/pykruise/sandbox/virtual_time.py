"""An event loop whose time is virtual: it jumps to the next timer instead of waiting for it.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())          # `await asyncio.sleep(3600)` in it takes no time

asyncio.SelectorEventLoop ──asks its selector to wait──▶ _JumpingSelector ──moves──▶ VirtualLoop.time()

Everything that takes its time from the loop (kube.clock.loop_clock, asyncio.sleep, asyncio.timeout) runs on
virtual time without knowing. Nothing else about the loop changes: callbacks run in asyncio's order, so equal
programs give equal runs. For programs that talk to nobody outside: a socket would be starved of real time.
"""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

__all__ = ["DeadlockError", "VirtualLoop"]


POLL_EVERY = 64
"""So many turns of a busy loop pass before it looks for what other threads have sent."""


class DeadlockError(RuntimeError):
    """Every task waits for another, and no timer is set: nothing can ever happen again."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at time 0. Running it raises DeadlockError when nothing can happen any more."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))
        # A timer is due this close to its time. After months of virtual time, asyncio's own nanosecond is less
        # than the distance between two floats, and a timer that is due now would never be.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def jump(self, timeout: float | None) -> None:
        """What the selector does instead of waiting. `None`: there is no timer to wait for."""
        if timeout is None:
            raise DeadlockError("every task waits for another, and no timer is set")
        self._now += timeout


class _JumpingSelector(selectors.BaseSelector):
    """Polls for real, waits in virtual time only."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._inner = selectors.DefaultSelector()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # While there is work, looking outside every time would cost more than most of the work.
        self._turns += 1
        if timeout == 0 and self._turns % POLL_EVERY:
            return []
        found = self._inner.select(0)
        if not found and timeout != 0:
            self._loop.jump(timeout)
        return found

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
