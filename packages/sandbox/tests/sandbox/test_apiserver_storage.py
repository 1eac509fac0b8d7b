"""Storage: one revision for all writes, snapshots of earlier revisions, and a limited history."""

import pytest

from pykruise.kube.ids import Key
from pykruise.sandbox.apiserver.objects.storage import (
    Compacted,
    FutureRevision,
    MemoryStorage,
    StorageChange,
    Stored,
)


class Book:
    """Writes to a storage, each in one short call."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage

    def put(self, path: str, *, shelf: str = "pods", size: int = 2) -> int:
        key = Key(*path.split("/"))
        revision = self.storage.revision + 1
        new = Stored(key=key, raw=b"x" * size, revision=revision, uid=path)
        self.storage.commit(StorageChange(revision, shelf, self.storage.get(shelf, key), new))
        return revision

    def drop(self, path: str, *, shelf: str = "pods") -> int:
        key = Key(*path.split("/"))
        revision = self.storage.revision + 1
        self.storage.commit(StorageChange(revision, shelf, self.storage.get(shelf, key), None))
        return revision

    def paths(self, **options: object) -> list[str]:
        return [stored.path for stored in self.storage.scan("pods", **options).items]  # type: ignore[arg-type]  # passed on


def book(**options: int) -> Book:
    return Book(MemoryStorage(**options))


def test_revisions_count_writes_of_all_shelves() -> None:
    # given
    pages = book()
    # when
    revisions = [pages.put("a/x"), pages.put("a/x", shelf="nodes"), pages.drop("a/x")]
    # then
    assert revisions == [2, 3, 4]
    assert pages.storage.revision == 4


def test_a_commit_that_skips_a_revision_is_refused() -> None:
    # given
    storage = MemoryStorage()
    new = Stored(key=Key("a", "x"), raw=b"{}", revision=9, uid="u")
    # when
    with pytest.raises(ValueError, match="revision 9 does not follow 1"):
        storage.commit(StorageChange(9, "pods", None, new))
    # then
    assert storage.scan("pods").items == ()


def test_objects_are_listed_in_path_order_within_their_namespace() -> None:
    # given
    pages = book()
    for path in ("b/x", "a/y", "a-1/z", "a/x"):
        pages.put(path)
    # when
    everything, item = pages.paths(), pages.paths(namespace="a")
    # then
    assert everything == ["a-1/z", "a/x", "a/y", "b/x"]
    assert item == ["a/x", "a/y"]


def test_pages_continue_where_the_last_one_ended() -> None:
    # given
    pages = book()
    for name in "edcba":
        pages.put(f"n/{name}")
    # when
    first = pages.storage.scan("pods", limit=2)
    second = pages.storage.scan("pods", limit=2, start=f"{first.items[-1].path}\0")
    # then
    assert [stored.key.name for stored in first.items] == ["a", "b"]
    assert first.following == 3
    assert [stored.key.name for stored in second.items] == ["c", "d"]
    assert second.following == 1


def test_a_scan_at_an_earlier_revision_shows_what_there_was() -> None:
    # given
    pages = book()
    pages.put("n/a")
    pages.put("n/b")
    then = pages.storage.revision
    old = pages.storage.get("pods", Key("n", "b"))
    # when
    pages.put("n/b")
    pages.drop("n/a")
    pages.put("n/c")
    past = pages.storage.scan("pods", revision=then)
    # then
    assert [stored.path for stored in past.items] == ["n/a", "n/b"]
    assert past.items[1] is old
    assert past.revision == then


def test_the_future_cannot_be_scanned() -> None:
    with pytest.raises(FutureRevision):
        MemoryStorage().scan("pods", revision=2)


def test_changes_since_a_revision_are_listed_oldest_first() -> None:
    # given
    pages = book()
    pages.put("n/a")
    begin = pages.storage.revision
    # when
    written = [pages.put("n/b"), pages.drop("n/a")]
    # then
    assert [change.revision for change in pages.storage.list_changes_since("pods", begin)] == written


def test_a_history_that_is_full_forgets_its_oldest_events() -> None:
    # given
    pages = book(history_events=3)
    # when
    for _ in range(5):
        pages.put("n/a")
    # then: revisions 4 to 6 are kept
    assert len(pages.storage.list_changes_since("pods", 3)) == 3
    with pytest.raises(Compacted) as caught:
        pages.storage.list_changes_since("pods", 2)
    assert caught.value.oldest == 4


def test_a_history_of_big_objects_is_bounded_by_its_bytes_and_keeps_the_newest_thousand() -> None:
    # given
    pages = book(history_bytes=10_000)
    # when
    for _ in range(1_500):
        pages.put("n/a", size=1_000)
    # then
    newest = pages.storage.revision
    assert len(pages.storage.list_changes_since("pods", newest - 1_000)) == 1_000
    with pytest.raises(Compacted):
        pages.storage.list_changes_since("pods", newest - 1_001)


def test_compaction_hides_the_past_of_every_shelf_even_of_later_ones() -> None:
    # given
    pages = book()
    pages.put("n/a")
    pages.put("n/a")
    # when
    pages.storage.compact(3)
    # then
    for shelf in ("pods", "new"):
        with pytest.raises(Compacted):
            pages.storage.list_changes_since(shelf, 2)
        assert pages.storage.list_changes_since(shelf, 3) == []
