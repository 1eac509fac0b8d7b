"""Events that a browser gets from a board, however slowly it reads."""

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson

from pykruise.dashboard.access import FullAccess
from pykruise.dashboard.board import Board, Row
from pykruise.dashboard.streams import RowStream


class Status:
    is_good = True

    def __init__(self) -> None:
        self.said: dict[str, Any] = {"is_read": True}

    async def still_good(self) -> bool:
        return self.is_good


def row(name: str, value: object = 0) -> Row:
    return Row(name, "pods", "shop", orjson.dumps({"id": name, "value": value}))


def stream_of(board: Board, status: Status | None = None, **more: Any) -> RowStream:
    current = status or Status()
    given = {
        "is_read": lambda: True,
        "on_close": lambda: None,
        "joined_s": 0.01,
        "heartbeat_s": 0.2,
        **more,
    }
    access = given.pop("access", None) or FullAccess()
    return RowStream(board, access, status=lambda: current.said, still_good=current.still_good, **given)


async def read(stream: RowStream, *, until: str) -> list[tuple[str, Any]]:
    """Events up to the first one of that name."""
    result: list[tuple[str, Any]] = []
    while not result or result[-1][0] != until:
        part = (await stream.chunk()).decode()
        fields = dict(line.split(": ", 1) for line in part.split("\n") if ": " in line)
        if "event" in fields:
            result.append((fields["event"], orjson.loads(fields["data"])))
    return result


async def test_a_slow_reader_gets_the_last_state_of_each_row_and_nothing_between() -> None:
    board = Board()
    board.put(row("a"))
    stream = stream_of(board)
    await read(stream, until="synced")
    for number in range(10_000):
        board.put(row("a", number))
    result = await read(stream, until="synced")
    assert [data for name, data in result if name == "rows"] == [[{"id": "a", "value": 9_999}]]


async def test_many_rows_are_sent_in_several_parts() -> None:
    board = Board()
    for number in range(250):
        board.put(row(str(number)))
    result = await read(stream_of(board), until="synced")
    assert [name for name, _ in result] == ["status", "reset", "rows", "rows", "rows", "synced"]
    assert sum(len(data) for name, data in result if name == "rows") == 250


async def test_large_rows_are_sent_in_smaller_parts() -> None:
    board = Board()
    for number in range(10):
        board.put(row(str(number), "x" * 40_000))
    result = await read(stream_of(board), until="synced")
    assert [len(data) for name, data in result if name == "rows"] == [2] * 5


async def test_simultaneous_changes_are_sent_in_one_part() -> None:
    board = Board()
    stream = stream_of(board)
    await read(stream, until="synced")
    waiting = asyncio.create_task(read(stream, until="synced"))
    await asyncio.sleep(0)
    for number in range(50):
        board.put(row(str(number)))
        await asyncio.sleep(0)
    assert [len(data) for name, data in await waiting if name == "rows"] == [50]


async def test_a_stream_without_changes_sends_heartbeats() -> None:
    stream = stream_of(Board())
    await read(stream, until="synced")
    assert await read(stream, until="heartbeat") == [("heartbeat", {})]


async def test_a_stream_sends_the_cache_status_when_it_changes() -> None:
    status, board = Status(), Board()
    stream = stream_of(board, status)
    await read(stream, until="synced")
    status.said = {"is_read": False}
    assert await read(stream, until="heartbeat") == [("status", {"is_read": False}), ("heartbeat", {})]


async def test_a_stream_ends_when_the_login_expires() -> None:
    status = Status()
    stream = stream_of(Board(), status)
    await read(stream, until="synced")
    status.is_good = False
    assert await stream.chunk() == b""


async def test_no_text_of_a_cluster_ends_an_event() -> None:
    board = Board()
    board.put(row("a", "one\n\nevent: gone\ndata: []\r\n\u2028\u0000"))
    result = await read(stream_of(board), until="synced")
    assert [name for name, _ in result] == ["status", "reset", "rows", "synced"]
    assert result[2][1][0]["value"] == "one\n\nevent: gone\ndata: []\r\n\u2028\u0000"


class OneRight:
    """The right to see two namespaces, of which the test can revoke one."""

    epoch = 0

    def __init__(self) -> None:
        self.namespaces = {"shop", "other"}
        self._known = set(self.namespaces)

    async def learn(self, rights: Iterable[tuple[str, str]]) -> None:
        for _, namespace in rights:
            if namespace in self._known and namespace not in self.namespaces:
                self._known.discard(namespace)
                self.epoch += 1

    def may_see(self, resource: str, namespace: str) -> bool:
        return namespace in self._known


async def test_a_revoked_right_is_noticed_while_other_rows_keep_changing() -> None:
    board, access = Board(), OneRight()
    board.put(row("quiet"))
    board.put(Row("busy", "pods", "other", b'{"id":"busy"}'))
    stream = stream_of(board, access=access, heartbeat_s=0.05)
    await read(stream, until="synced")
    access.namespaces.discard("shop")
    rest: list[tuple[str, Any]] = []
    async with asyncio.timeout(10):
        while "reset" not in [name for name, _ in rest]:
            board.put(Row("busy", "pods", "other", b'{"id":"busy","n":%d}' % len(rest)))
            rest += await read(stream, until="synced")
    assert [[item["id"] for item in data] for name, data in rest if name == "rows"][-1] == ["busy"]


async def test_a_stream_reports_synced_only_after_the_page_has_been_read() -> None:
    board, read_pages = Board(), list[str]()
    stream = stream_of(board, is_read=lambda: bool(read_pages), unread_s=0.01, heartbeat_s=0.1)
    # given a page that has not been read yet: the browser gets a heartbeat
    begin = [name for name, _ in await read(stream, until="heartbeat")]
    assert begin == ["status", "reset", "heartbeat"]
    # when a row comes before the page has been read
    board.put(row("a"))
    assert [name for name, _ in await read(stream, until="rows")][-1] == "rows"
    assert [name for name, _ in await read(stream, until="heartbeat")] == ["heartbeat"]
    # then `synced` follows only after the read, without another row
    read_pages.append("all")
    assert [name for name, _ in await read(stream, until="synced")] == ["synced"]


async def last_id_of(board: Board) -> str:
    """The id that a browser has after it has received all rows of the board."""
    stream = stream_of(board)
    while "event: synced" not in (part := (await stream.chunk()).decode()):
        pass
    return next(line.removeprefix("id: ") for line in part.split("\n") if line.startswith("id: "))


async def test_a_browser_that_returns_gets_the_missed_changes_of_its_board_and_all_rows_of_another() -> None:
    # given a browser that has all rows of a page
    board = Board()
    board.put(row("a"))
    last_id = await last_id_of(board)
    # when it returns to the same board
    board.put(row("b"))
    missed = await read(stream_of(board, last_id=last_id), until="synced")
    assert [data for name, data in missed if name == "rows"] == [[{"id": "b", "value": 0}]]
    # when the page was closed and opened again in the meantime, and has a newer version
    other = Board()
    for name in "abc":
        other.put(row(name, 1))
    missed = await read(stream_of(other, last_id=last_id), until="synced")
    assert [name for name, _ in missed] == ["status", "reset", "rows", "synced"]
    assert [len(data) for name, data in missed if name == "rows"] == [3]
