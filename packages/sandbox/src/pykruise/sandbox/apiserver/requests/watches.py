"""Watches: every committed change, in order, for all its watchers.

writes.py ──▶ Hub.publish(change) ──▶ buffers of the WatchStreams concerned ──▶ WatchStream yields lines

A change is encoded once per requested form (version, table or not), whatever the number of watchers, and only when the
first of them reads it. The stream of a watcher that does not read ends when its buffer is full, so no writer waits for
the watcher. Selectors are applied to the facts stored with the object: when an object stops matching a watcher's
selection, the watcher gets DELETED; when it starts matching, the watcher gets ADDED.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, Protocol

import msgspec

from pykruise.sandbox.apiserver.objects.storage import StorageChange, Stored
from pykruise.sandbox.apiserver.requests.selection import Selection

BOOKMARK_EVERY_S: Final = 60.0
_TIMER_SLACK_S: Final = 0.001  # a timer may fire early, within the clock's resolution

Encoder = Callable[[str, Stored, int], bytes | Awaitable[bytes]]
"""Encodes the line of an event: its type, the object, and the revision to show in it."""


class LineStream(Protocol):
    """A response that consists of lines (without line ends) and may wait for more lines before it ends."""

    content_type: str

    async def read_batch(self, *, most: int = 256) -> list[bytes]:
        """The next lines, at least one and at most `most`; empty at the end of the stream."""
        ...

    async def aclose(self) -> None:
        """Stop immediately and release a waiting reader. Safe to call twice."""
        ...


class Publication:
    """One change for the watchers, with the lines of it that have already been encoded."""

    __slots__ = ("change", "lines")

    def __init__(self, change: StorageChange) -> None:
        self.change = change
        self.lines: dict[tuple[str, str], bytes] = {}


class HubStats(msgspec.Struct, frozen=True):
    """Counts of the hub: open watches, published changes, watchers that were cut off because they did not read."""

    watchers: int
    published: int
    dropped: int


class Hub:
    """All watches. A watcher is registered under the most selective value that its selection requires, so that a change
    reaches only the watchers whose selection may include the object.
    """

    def __init__(self, *, buffer_events: int = 10_000) -> None:
        self._buffer_events = buffer_events
        # Dicts keep the order: the oldest watcher is notified first, so equal programs give equal runs.
        self._shelves: dict[str, dict[tuple[str, str], dict[WatchStream, None]]] = {}
        self._count = 0
        self._published = 0
        self._dropped = 0

    @property
    def buffer_events(self) -> int:
        """Number of events that a watcher may lag behind."""
        return self._buffer_events

    def add(self, shelf: str, trigger: tuple[str, str], stream: "WatchStream") -> None:
        """Register the stream for changes of the shelf with this trigger."""
        self._shelves.setdefault(shelf, {}).setdefault(trigger, {})[stream] = None
        self._count += 1

    def remove(self, shelf: str, trigger: tuple[str, str], stream: "WatchStream") -> None:
        """Unregister the stream."""
        triggers = self._shelves.get(shelf, {})
        streams = triggers.get(trigger)
        if streams is None or stream not in streams:
            return
        del streams[stream]
        self._count -= 1
        if not streams:
            del triggers[trigger]

    def has_watchers(self, shelf: str) -> bool:
        """Whether the shelf is watched."""
        return bool(self._shelves.get(shelf))

    def publish(self, change: StorageChange, triggers: Iterable[tuple[str, str]]) -> None:
        """Offer a committed change to the watchers under these triggers."""
        self._published += 1
        shelf = self._shelves.get(change.shelf)
        if not shelf:
            return
        publication = Publication(change)
        for trigger in triggers:
            for stream in tuple(shelf.get(trigger, ())):
                if not stream.offer(publication):
                    self._dropped += 1

    def end(self, shelf: str | None = None) -> None:
        """End the streams of a shelf, or all of them. Their buffered lines can still be read."""
        for name in [shelf] if shelf is not None else list(self._shelves):
            for streams in list(self._shelves.get(name, {}).values()):
                for stream in tuple(streams):
                    stream.end()

    def read_stats(self) -> HubStats:
        """The hub's counts."""
        return HubStats(self._count, self._published, self._dropped)


def find_event_type(change: StorageChange, selection: Selection) -> str:
    """Type of the event for a watch with this selection; empty if there is no event."""
    before = change.old is not None and selection.matches(change.old)
    after = change.new is not None and selection.matches(change.new)
    if after:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else ""


class WatchStream:
    """The lines of one watch, without line ends: an async iterator. Close it afterwards.

    `initial` are the first lines to send. `form` identifies the output of `encode`, so that streams of equal form
    share lines. `later` changes every line except the first.
    """

    def __init__(
        self,
        hub: Hub,
        *,
        shelf: str,
        trigger: tuple[str, str],
        namespace: str,
        selection: Selection,
        form: str,
        encode: Encoder,
        after: int,
        initial: Iterator[bytes | Awaitable[bytes]],
        bookmark: Callable[[int], bytes] | None,
        timeout_s: float,
        revision: Callable[[], int],
        content_type: str = "application/json",
        later: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._hub = hub
        self._shelf = shelf
        self._trigger = trigger
        self._namespace = namespace
        self._selection = selection
        self._form = form
        self._encode = encode
        self._after = after
        self._initial: Iterator[bytes | Awaitable[bytes]] | None = initial
        self._bookmark = bookmark
        self._revision = revision
        self.content_type = content_type
        self._later = later
        self._has_begun = False
        self._buffer: deque[tuple[str, Publication]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        """The timer is set at the first wait. It is not changed at later waits, because the next bookmark and the end
        cannot become due earlier.
        """
        self._ended = False
        self._overrun = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._end_at = now + timeout_s
        self._bookmark_at = now + BOOKMARK_EVERY_S
        hub.add(shelf, trigger, self)

    @property
    def overrun(self) -> bool:
        """Whether the stream was cut off because it was not read."""
        return self._overrun

    def offer(self, publication: Publication) -> bool:
        """Buffer a change if it concerns this watch. Return False when the buffer is full, which ends the stream."""
        change = publication.change
        if self._ended or change.revision <= self._after:
            return True
        stored = change.new or change.old
        if self._namespace and stored is not None and stored.key.namespace != self._namespace:
            return True
        kind = find_event_type(change, self._selection)
        if not kind:
            return True
        if len(self._buffer) >= self._hub.buffer_events:
            self._overrun = True
            self.end()
            return False
        self._buffer.append((kind, publication))
        self._wake()
        return True

    def end(self) -> None:
        """End the stream after its buffered lines (immediately when it was cut off)."""
        self._ended = True
        self._cancel_timer()
        self._hub.remove(self._shelf, self._trigger, self)
        if self._overrun:
            self._buffer.clear()
        self._wake()

    async def aclose(self) -> None:
        """Stop immediately and release a waiting reader. Safe to call twice."""
        self._closed = True
        self._buffer.clear()
        self._initial = None
        self.end()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            line = await self._take_ready_line()
            if line is not None:
                return line
            if self._ended:
                raise StopAsyncIteration
            await self._wait()

    async def read_batch(self, *, most: int = 256) -> list[bytes]:
        """The next lines: at least one, and up to `most` of those that are ready; empty at the end of the stream."""
        try:
            lines = [await anext(self)]
        except StopAsyncIteration:
            return []
        while len(lines) < most and (line := await self._take_ready_line()) is not None:
            lines.append(line)
        return lines

    async def _take_ready_line(self) -> bytes | None:
        """The next line if there is one without waiting."""
        line = await self._take_next_line()
        if line is None or self._later is None:
            return line
        begun, self._has_begun = self._has_begun, True
        return self._later(line) if begun else line

    async def _take_next_line(self) -> bytes | None:
        if self._closed:
            return None
        if self._initial is not None:
            line = next(self._initial, None)
            if line is not None:
                return line if isinstance(line, bytes) else await line
            self._initial = None
        if self._buffer:
            kind, publication = self._buffer.popleft()
            return await self._encode_line(kind, publication)
        if self._ended:
            return None
        now = self._loop.time() + _TIMER_SLACK_S
        if now >= self._end_at:
            self.end()
            return self._build_final_bookmark()
        if self._bookmark is not None and now >= self._bookmark_at:
            self._bookmark_at = now + BOOKMARK_EVERY_S
            return self._bookmark(self._revision())
        return None

    async def _encode_line(self, kind: str, publication: Publication) -> bytes:
        key = (kind, self._form)
        line = publication.lines.get(key)
        if line is None:
            change = publication.change
            # A removed object, or one that no longer matches, is shown in its last state.
            stored = change.old if kind == "DELETED" else change.new
            assert stored is not None
            made = self._encode(kind, stored, change.revision)
            line = publication.lines[key] = made if isinstance(made, bytes) else await made
        return line

    def _build_final_bookmark(self) -> bytes | None:
        return self._bookmark(self._revision()) if self._bookmark is not None else None

    async def _wait(self) -> None:
        """Wait until a change is offered, the stream ends, or a bookmark or the end is due."""
        waiter = self._waiter = self._loop.create_future()
        if self._timer is None:
            due = self._end_at if self._bookmark is None else min(self._end_at, self._bookmark_at)
            self._timer = self._loop.call_at(due, self._on_timer_fired)
        try:
            await waiter
        finally:
            self._waiter = None

    def _on_timer_fired(self) -> None:
        self._timer = None
        self._wake()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
