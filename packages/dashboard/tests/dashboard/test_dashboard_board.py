"""Rows that browsers see, and the changes that a browser has missed."""

import asyncio

from pykruise.dashboard.board import MOST_GONE, Board, Row


def row(name: str, *, body: bytes = b"{}", namespace: str = "shop") -> Row:
    return Row(name, "clonesets.apps.kruise.io", namespace, body)


def test_a_new_stream_gets_all_rows() -> None:
    board = Board()
    board.put(row("a"))
    board.put(row("b"))
    changes = board.list_changes_since(0)
    assert (changes.is_all, {row.id for row in changes.rows}) == (True, {"a", "b"})


def test_a_known_version_gets_what_changed_since_and_each_row_once() -> None:
    board = Board()
    for name in "abc":
        board.put(row(name))
    seen = board.version
    for number in range(50):
        board.put(row("b", body=b"%d" % number))
    board.remove("c")
    changes = board.list_changes_since(seen)
    assert changes.is_all is False
    assert [(row.id, row.body) for row in changes.rows] == [("b", b"49")]
    assert [row.id for row in changes.gone] == ["c"]


def test_an_equal_row_does_not_change_the_board_version() -> None:
    board = Board()
    board.put(row("a"))
    seen = board.version
    board.put(row("a"))
    board.remove("never there")
    assert board.version == seen


def test_a_removed_row_still_has_its_namespace() -> None:
    board = Board()
    board.put(row("a", namespace="secret"))
    seen = board.version
    board.remove("a")
    assert [row.namespace for row in board.list_changes_since(seen).gone] == ["secret"]
    assert len(board) == 0


def test_a_removed_row_can_be_added_again() -> None:
    board = Board()
    board.put(row("a"))
    board.remove("a")
    seen = board.version
    board.put(row("a"))
    assert [row.id for row in board.list_changes_since(seen).rows] == ["a"]
    assert len(board) == 1


def test_a_version_that_is_too_old_gets_all_rows_and_the_memory_is_bounded() -> None:
    board = Board()
    board.put(row("stays"))
    early = board.version
    for number in range(2 * MOST_GONE):
        board.put(row(str(number)))
        board.remove(str(number))
    changes = board.list_changes_since(early)
    assert (changes.is_all, [row.id for row in changes.rows]) == (True, ["stays"])
    assert len(board._entries) <= MOST_GONE + 2


async def test_waiting_ends_with_the_next_change() -> None:
    board = Board()
    waiting = asyncio.create_task(board.wait_newer(0))
    await asyncio.sleep(0)
    assert not waiting.done()
    board.put(row("a"))
    await waiting
