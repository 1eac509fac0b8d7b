"""A page's rows as server-sent events: first all rows, then the changes, which are collected for a moment.

Board ──list_changes_since(version)──▶ rows that the user may see
      ──▶ reset, rows, gone, synced, status, heartbeat ──▶ EventSource

Each part is built after the previous part was sent, so a slow browser needs memory for one part and not for a queue. A
browser that reads nothing for HttpLimits.send_s is disconnected. `id:` records the position of a browser: after a
broken connection the browser gets the missed changes, or all rows if the board is another one, for example after a
restart of the server. The stream ends when the login ends.

The event `synced` means that the page is complete: after it, the browser may show that an object does not exist. The
stream sends it only after all content of the page has been read once, however long the API server needs. Rows are sent
before that, as soon as they are known.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import orjson

from pykruise.dashboard.access import Access
from pykruise.dashboard.board import Board, BoardChanges, Row

JOINED_S: Final = 0.25
"""Seconds within which changes are sent together."""
HEARTBEAT_S: Final = 15.0
UNREAD_S: Final = 0.5
"""Seconds between two checks whether the page has been read, even if no row has arrived."""
_ROWS: Final = 100
"""Maximum rows in one event: a browser processes one event at a time."""
_SIZE: Final = 64 * 1024
"""Maximum bytes of rows in one event."""

HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


def format_event(name: str, data: bytes, event_id: str = "") -> bytes:
    """Return one event. `data` is JSON, which has no line ends."""
    said = f"id: {event_id}\n".encode() if event_id else b""
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), said, data)


class RowStream:
    """One browser's stream of one board.

    `is_read`: whether all content of the page has been read once. `status`: the state of the whole dashboard, sent
    again whenever it changes. `still_good`: whether the login is still valid. `last_id`: id of the last event that the
    browser received.
    """

    def __init__(
        self,
        board: Board,
        access: Access,
        *,
        is_read: Callable[[], bool],
        status: Callable[[], Mapping[str, Any]],
        still_good: Callable[[], Awaitable[bool]],
        on_close: Callable[[], object],
        last_id: str = "",
        joined_s: float = JOINED_S,
        heartbeat_s: float = HEARTBEAT_S,
        unread_s: float = UNREAD_S,
    ) -> None:
        self._board = board
        self._access = access
        self._is_read = is_read
        self._status = status
        self._still_good = still_good
        self._on_close = on_close
        self._joined_s = joined_s
        self._heartbeat_s = heartbeat_s
        self._unread_s = unread_s
        self._parts: list[bytes] = [b"retry: 2000\n\n"]
        self._said: bytes = b""
        self._epoch = access.epoch
        self._version = _parse_version(last_id, f"{board.id}-{access.epoch}")
        self._is_begun = False
        self._is_synced = False
        self._reviewed_at = self._beaten_at = asyncio.get_running_loop().time()

    @property
    def content_type(self) -> str:
        """Content type of server-sent events."""
        return "text/event-stream; charset=utf-8"

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that keep proxies from buffering the stream."""
        return HEADERS

    async def chunk(self) -> bytes:
        """Return the next part; empty if the login has ended."""
        while not self._parts:
            if not await self._still_good():
                return b""
            self._parts = list(await self._wait_for_parts())
        return self._parts.pop(0)

    async def aclose(self) -> None:
        """Close the stream because the browser disconnected."""
        self._on_close()

    async def _wait_for_parts(self) -> Sequence[bytes]:
        if self._is_begun:
            try:
                async with asyncio.timeout(self._heartbeat_s if self._is_synced else self._unread_s):
                    await self._board.wait_newer(self._version)
            except TimeoutError:
                beats = await self._build_heartbeats()
                return [*self._build_status_events(), *self._build_synced_event(), *beats]
            await asyncio.sleep(self._joined_s)
        changes = self._board.list_changes_since(self._version)
        now = asyncio.get_running_loop().time()
        # A review must not wait until the board is unchanged.
        is_due = now - self._reviewed_at > self._heartbeat_s
        await self._access.learn(_list_rights(self._board.list_rows() if is_due else changes.rows))
        self._reviewed_at = now if is_due else self._reviewed_at
        if self._access.epoch != self._epoch:
            return await self._restart()
        is_first, self._is_begun = not self._is_begun, True
        return [*self._build_status_events(), *self._build_row_events(changes, is_first=is_first)]

    async def _build_heartbeats(self) -> Sequence[bytes]:
        """Return the heartbeat, and review the permissions again, also for rows that do not change."""
        now = asyncio.get_running_loop().time()
        if not self._is_synced and now - self._beaten_at < self._heartbeat_s:
            return ()
        self._beaten_at = now
        return [*(await self._review_access()), format_event("heartbeat", b"{}")]

    async def _review_access(self) -> Sequence[bytes]:
        await self._access.learn(_list_rights(self._board.list_rows()))
        return await self._restart() if self._access.epoch != self._epoch else ()

    async def _restart(self) -> Sequence[bytes]:
        """Send all rows again, because the permissions of the user have changed."""
        changes = self._board.list_changes_since(0)
        await self._access.learn(_list_rights(changes.rows))
        self._epoch, self._is_begun = self._access.epoch, True
        return [*self._build_status_events(), *self._build_row_events(changes, is_first=True)]

    def _build_status_events(self) -> Sequence[bytes]:
        said = orjson.dumps(self._status())
        if said == self._said:
            return ()
        self._said = said
        return [format_event("status", said)]

    def _build_row_events(self, changes: BoardChanges, *, is_first: bool) -> Sequence[bytes]:
        self._version = changes.version
        rows = [row for row in changes.rows if self._may_see(row)]
        gone = [row.id for row in changes.gone if self._may_see(row)]
        events = [format_event("reset", b"{}")] if changes.is_all else []
        events += [format_event("rows", b"[" + b",".join(part) + b"]") for part in _split_rows(rows)]
        if gone:
            events.append(format_event("gone", orjson.dumps(gone)))
        if self._is_synced and (events or is_first):
            return [*events, self._mark()]
        return [*events, *self._build_synced_event()]

    def _build_synced_event(self) -> Sequence[bytes]:
        """Return the event that reports that the page is complete; nothing if it was sent before."""
        if self._is_synced or not self._is_read():
            return ()
        self._is_synced = True
        return [self._mark()]

    def _mark(self) -> bytes:
        return format_event("synced", b"{}", f"{self._board.id}-{self._epoch}-{self._version}")

    def _may_see(self, row: Row) -> bool:
        return not row.resource or self._access.may_see(row.resource, row.namespace)


def _list_rights(rows: Iterable[Row]) -> set[tuple[str, str]]:
    return {(row.resource, row.namespace) for row in rows if row.resource}


def _split_rows(rows: Sequence[Row]) -> Iterable[Sequence[bytes]]:
    part: list[bytes] = []
    size = 0
    for row in rows:
        part.append(row.body)
        size += len(row.body)
        if len(part) >= _ROWS or size >= _SIZE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _parse_version(last_id: str, prefix: str) -> int:
    """Return the version that a browser has; 0 if the browser needs all rows."""
    begin, _, number = last_id.rpartition("-")
    with suppress(ValueError):
        if begin == prefix:
            return int(number)
    return 0
