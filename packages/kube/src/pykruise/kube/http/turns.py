"""Work that clients cause, done in small parts in each iteration of the event loop, with addresses in turn.

connection, address ──▶ Turns.add() ──▶ serve(connection), at most `each` of them before the loop does something else

Handshakes and the next parts of large bodies take little time each, but a thousand connections may need them at the
same time. The loop does its other work between two turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Turns"]

T = TypeVar("T")


class Turns(Generic[T]):
    """Waiting items by address. `each` limits only items that cost time: those for which `serve` returns True."""

    def __init__(self, *, each: int, serve: Callable[[T], bool]) -> None:
        self._each = each
        self._serve = serve
        self._waiting: dict[str, deque[T]] = {}
        """Items by address; the next address to serve is first."""

    def add(self, peer: str, item: T) -> None:
        """Serve the item in one of the next iterations of the running loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        self._waiting.setdefault(peer, deque()).append(item)

    def clear(self) -> None:
        """Forget all waiting items."""
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
