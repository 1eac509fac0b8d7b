"""Store: the version of an object that stays after answers, events and lists. No event loop."""

import msgspec
import pytest

from pykruise.kube.cache.store import Change, Store
from pykruise.kube.ids import Key

WEB = Key("default", "web")


class Item(msgspec.Struct, frozen=True):
    resource_version: int
    uid: str = "uid-1"
    owner: str = "x"
    namespace: str = "default"
    name: str = "web"


class Kept:
    """A store, its changes as (old version, new version), and a clock."""

    def __init__(self, *, is_filtered: bool = False) -> None:
        self.changes: list[tuple[int | None, int | None]] = []
        self.now = 0.0
        self.store: Store[Item] = Store(
            {"owner": lambda item: [item.owner]},
            is_filtered=is_filtered,
            now=lambda: self.now,
            on_change=self._note,
        )

    def _note(self, change: Change[Item]) -> None:
        old, new = change.old, change.new
        self.changes.append((old and old.resource_version, new and new.resource_version))

    def written(self, item: Item, *, matches: bool = True) -> None:
        self.store.put_written(WEB, item, self.store.index_values(item), matches=matches)

    def seen(self, item: Item) -> None:
        self.store.apply_changed(WEB, item, self.store.index_values(item))

    def version(self) -> int | None:
        held = self.store.get(WEB)
        return held and held.resource_version


def test_an_event_of_before_an_own_write_does_not_undo_it() -> None:
    # given
    kept = Kept()
    kept.seen(Item(1))
    kept.written(Item(5, owner="y"))
    # when the watch reports an older version
    kept.seen(Item(3))
    # then
    assert kept.version() == 5
    assert kept.changes == [(None, 1), (1, 5)]
    assert ([*kept.store.list_by_index("owner", "x")], len(kept.store.list_by_index("owner", "y"))) == ([], 1)


def test_an_answer_older_than_the_watch_is_ignored() -> None:
    kept = Kept()
    kept.seen(Item(7))
    kept.store.apply_deleted(WEB, "uid-1", 8)
    # when the answer to the write of version 6 comes late
    kept.written(Item(6))
    # then the deleted object does not come back
    assert (kept.version(), kept.store.ignored) == (None, 1)


def test_an_own_deletion_holds_until_the_watch_confirms_it() -> None:
    # given
    kept = Kept()
    kept.seen(Item(1))
    kept.store.put_deleted(WEB, "uid-1", known=0)
    # when an older event comes
    kept.seen(Item(2))
    # then
    assert (kept.version(), kept.store.tombstone_count) == (None, 1)
    # and when its DELETED comes
    kept.store.apply_deleted(WEB, "uid-1", 3)
    assert kept.store.tombstone_count == 0


@pytest.mark.parametrize(("is_filtered", "version", "distrust"), [(True, None, False), (False, 5, True)])
def test_a_write_that_the_watch_leaves_out_left_the_view_or_broke_the_order(
    is_filtered: bool, version: int | None, distrust: bool
) -> None:
    kept = Kept(is_filtered=is_filtered)
    kept.written(Item(5))
    # when
    kept.store.apply_bookmark(6)
    # then
    assert (kept.version(), bool(kept.store.distrust)) == (version, distrust)


def test_an_object_with_the_name_of_a_deleted_one_is_delivered_as_two_changes() -> None:
    kept = Kept()
    kept.seen(Item(1))
    kept.seen(Item(2, uid="uid-2"))
    assert kept.changes == [(None, 1), (1, None), (None, 2)]


def test_a_list_ends_what_it_does_not_have_and_keeps_what_is_newer() -> None:
    # given one object that is missing from the list, and one that was written after it
    kept = Kept()
    old = Item(2, uid="uid-0", name="old")
    kept.store.apply_changed(Key("default", "old"), old, kept.store.index_values(old))
    number = kept.store.begin_list()
    kept.written(Item(9))
    # when
    kept.store.replace(8, [], [], number=number)
    # then
    assert [item.name for item in kept.store.values()] == ["web"]
    assert (kept.store.position, kept.store.pending_count) == (8, 1)


def test_the_lag_is_the_time_from_an_answer_until_the_watch_shows_it() -> None:
    kept = Kept()
    kept.written(Item(5))
    kept.now = 0.25
    kept.seen(Item(5))
    assert kept.store.lag_s == 0.25


def test_a_lag_of_two_minutes_ago_no_longer_counts() -> None:
    # given a write that the watch showed after 40 s
    kept = Kept()
    kept.written(Item(5))
    kept.now = 40
    kept.seen(Item(5))
    # when
    kept.now = 159
    assert kept.store.lag_s == 40
    # then
    kept.now = 160
    assert kept.store.lag_s == 0


def test_a_write_that_the_watch_has_not_shown_yet_counts_as_lag() -> None:
    kept = Kept()
    kept.written(Item(5))
    kept.now = 300
    assert kept.store.lag_s == 300
    # when a list shows it
    kept.store.replace(5, [], [WEB], number=kept.store.begin_list())
    # then the lag is measured, and no longer grows
    kept.now = 310
    assert kept.store.lag_s == 300
    kept.now = 420
    assert kept.store.lag_s == 0


def test_a_restored_cluster_ends_the_measurement_of_the_lag() -> None:
    kept = Kept()
    kept.written(Item(5))
    # when
    kept.store.reset()
    # then
    kept.now = 300
    assert kept.store.lag_s == 0
