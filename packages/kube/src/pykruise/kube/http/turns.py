"""Work that clients cause, a little in each turn of the event loop, addresses in turn.

connection, address ──▶ Turns.add() ──▶ serve(connection), at most `each` of them before the loop does something else

What one connection wants may be cheap, and there may be a thousand of them that want it at once: handshakes, and the
next parts of large bodies. Everything else the loop does goes on between two turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Turns"]

T = TypeVar("T")


class Turns(Generic[T]):
    """Items that wait, by address. `serve` says whether an item cost anything: those that did not count for nothing."""

    def __init__(self, *, each: int, serve: Callable[[T], bool]) -> None:
        self._each = each
        self._serve = serve
        self._waiting: dict[str, deque[T]] = {}
        """The address whose turn it is comes first."""

    def add(self, peer: str, item: T) -> None:
        """It is served in one of the next turns of the running loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        self._waiting.setdefault(peer, deque()).append(item)

    def clear(self) -> None:
        """Forget all that wait."""
        self._waiting.clear()

    def _go_on(self) -> None:
        served = 0
        while self._waiting and served < self._each:
            peer = next(iter(self._waiting))
            items = self._waiting.pop(peer)
            item = items.popleft()
            if items:
                self._waiting[peer] = items
            served += self._serve(item)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
