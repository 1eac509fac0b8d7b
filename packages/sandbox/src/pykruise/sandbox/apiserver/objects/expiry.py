"""Events expire an hour after their last change, so that a server that runs for weeks does not fill up.

Core commits a change of an event ──▶ EventExpiry ──▶ removes expired events

There is no timer: an old event stays until another event is written.
"""

from collections import deque
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import StorageChange

_SHELF: Final = "events"


class EventExpiry:
    """Removes events `ttl_s` seconds after they were last written (3,600 on a real API server)."""

    def __init__(self, core: Core, *, ttl_s: float = 3_600.0) -> None:
        self._core = core
        self._ttl_s = ttl_s
        self._due: deque[tuple[Instant, Key, int]] = deque()
        for stored in core.storage.scan(_SHELF).items:
            self._due.append((core.clock() + ttl_s, stored.key, stored.revision))
        core.on_change(_SHELF, self._on_event_changed)

    def _on_event_changed(self, change: StorageChange) -> None:
        if change.new is None:
            return
        now = self._core.clock()
        self._due.append((now + self._ttl_s, change.new.key, change.new.revision))
        entry = self._core.catalog.find_shelf_entry(_SHELF)
        assert entry is not None
        while self._due and self._due[0][0] <= now:
            _, key, revision = self._due.popleft()
            stored = self._core.storage.get(_SHELF, key)
            # If the event was written again, it expires later: each write has its own entry in the queue.
            if stored is not None and stored.revision == revision:
                self._core.remove(entry, stored)
