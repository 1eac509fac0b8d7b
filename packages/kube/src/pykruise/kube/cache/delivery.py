"""Delivers the changes of a cache to its subscribers.

Store ──put(Change)──▶ waiting ──deliver()──▶ handlers (which enqueue a key)

Changes are delivered sequentially, in their order. A handler may change the cache itself: that change is delivered to
all handlers after the current change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pykruise.kube.cache.store import Change, Projected

__all__ = ["SLICE", "Delivery"]

_log = logging.getLogger(__name__)

SLICE: Final = 128
"""Number of changes, events or list items that are handled before other tasks may run."""

T = TypeVar("T", bound=Projected)


class Delivery(Generic[T]):
    """Calls handlers with changes. Only one event loop may use it. Log messages begin with `source`."""

    def __init__(self, source: Any) -> None:
        self.failures = 0
        """Number of times that a handler raised."""
        self._source = source
        self._handlers: tuple[Callable[[Change[T]], None], ...] = ()
        self._waiting: deque[Change[T]] = deque()
        self._is_delivering = False

    def subscribe(self, handler: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call `handler` with every change from now on; returns a function that ends the subscription."""
        self._handlers = (*self._handlers, handler)

        def unsubscribe() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return unsubscribe

    def put(self, change: Change[T]) -> None:
        """Add a change for the next `deliver`."""
        if self._handlers:
            self._waiting.append(change)

    def deliver(self, most: int | None = None) -> None:
        """Call the handlers with all waiting changes, or with at most `most`. A handler that raises is logged and
        counted.
        """
        if not self._waiting or self._is_delivering:
            return
        self._is_delivering = True
        try:
            count = 0
            while self._waiting and count != most:
                count += 1
                change = self._waiting.popleft()
                for handler in self._handlers:
                    try:
                        handler(change)
                    except Exception:
                        self.failures += 1
                        _log.exception("%s %s: a handler failed", self._source, change.key)
        finally:
            self._is_delivering = False

    async def deliver_in_slices(self) -> None:
        """Call the handlers with all waiting changes, and let other tasks run in between."""
        self.deliver(most=SLICE)
        while self._waiting:
            await asyncio.sleep(0)
            self.deliver(most=SLICE)
