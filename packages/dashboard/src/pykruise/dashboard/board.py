"""Rows for browsers. Each row has the version of its last change, so a browser needs only the rows with newer versions.

put(), remove() ──▶ Board: rows in the order of their last change ──list_changes_since(version)──▶ changed and removed

For each browser, only one number is stored. A slow browser misses intermediate states and gets the last state of each
row. Removed rows are kept for a while. A browser that was disconnected for longer starts again with all rows.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

MOST_GONE: Final = 5_000
"""Maximum number of removed rows to keep. Older ones are forgotten."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row. Users who may list `resource` (such as `clonesets.apps.kruise.io`) in `namespace` see the row."""

    id: str
    resource: str
    namespace: str
    body: bytes
    """JSON."""


class BoardChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Rows newer than a version. `is_all`: these are all rows, and the browser must drop the earlier ones."""

    version: int
    rows: Sequence[Row]
    gone: Sequence[Row] = ()
    is_all: bool = False


class _Entry(msgspec.Struct, frozen=True, gc=False):
    version: int
    row: Row
    is_gone: bool = False
    """Whether the row was removed. The entry is kept to notify the browsers that may see the row."""


class Board:
    """Rows with their versions. A board is used in one event loop only."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        """Random id of the board, because a version is valid only for one board. When the first viewer opens the page
        of an object, a new board is made.
        """
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._gone = 0
        self._floor = 0
        """The board has forgotten the rows that were removed up to this version."""
        self.version = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries) - self._gone

    def put(self, row: Row) -> None:
        """Store the current state of a row. Does nothing if the row has not changed."""
        known = self._entries.get(row.id)
        if known is not None and known.row == row and not known.is_gone:
            return
        self._gone -= known is not None and known.is_gone
        self._note(row, is_gone=False)

    def remove(self, row_id: str) -> None:
        """Remove a row. Does nothing if there is no such row."""
        known = self._entries.get(row_id)
        if known is None or known.is_gone:
            return
        self._gone += 1
        self._note(known.row, is_gone=True)
        if self._gone > MOST_GONE:
            self._forget()

    def list_rows(self) -> Sequence[Row]:
        """Return all rows."""
        return [entry.row for entry in self._entries.values() if not entry.is_gone]

    def list_changes_since(self, version: int) -> BoardChanges:
        """Return newer rows. Return all rows for version 0, and for a version that is too old."""
        if version <= 0 or version < self._floor or version > self.version:
            return BoardChanges(version=self.version, rows=self.list_rows(), is_all=True)
        newer = list(self._list_newer_entries(version))
        return BoardChanges(
            version=self.version,
            rows=[entry.row for entry in newer if not entry.is_gone],
            gone=[entry.row for entry in newer if entry.is_gone],
        )

    async def wait_newer(self, version: int) -> None:
        """Wait until there are newer rows."""
        while self.version == version:
            await self._changed.wait()

    def _note(self, row: Row, *, is_gone: bool) -> None:
        self.version += 1
        self._entries[row.id] = _Entry(self.version, row, is_gone)
        self._entries.move_to_end(row.id)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _list_newer_entries(self, version: int) -> Iterator[_Entry]:
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                return
            yield entry

    def _forget(self) -> None:
        gone = [(row_id, entry.version) for row_id, entry in self._entries.items() if entry.is_gone]
        for row_id, version in gone[: len(gone) // 2]:
            del self._entries[row_id]
            self._floor = max(self._floor, version)
            self._gone -= 1
