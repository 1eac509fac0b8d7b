"""Cache: own writes against watch events in every order, lists against writes, faults, indexes, handlers."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.errors import ConnectionLostError, UnreachableError
from pykruise.kube.ids import Key
from pykruise.kube.program.metrics import cache_metrics
from support.model_server import (
    NAMESPACE,
    WIDGETS,
    Item,
    ModelServer,
    Written,
    failure,
    key,
    line,
    project,
    with_version,
)

LATER = Pace(burst=0, per_s=0.0, wait_s=0.02)
"""Everything is read a moment after it came."""


class Mirror:
    """A server, a cache of it, and the changes that the cache has delivered."""

    def __init__(self, server: ModelServer, **options: Any) -> None:
        self.server = server
        self.changes: list[Change[Item]] = []
        self.cache: Cache[Item] = Cache(
            server.client,
            WIDGETS,
            project=options.pop("project", project),
            indexes=options.pop("indexes", {"owner": lambda item: [item.owner] if item.owner else []}),
            clock=lambda: 5.0,
            rng=random.Random(1),
            **options,
        )
        self.cache.subscribe(self.changes.append)

    def observe(self, written: Written, name: str) -> None:
        """The answer of a write reaches the cache, as a Writer hands it over."""
        if written.is_gone:
            self.cache.observe_deleted(key(name), written.uid, written.answer)
        else:
            self.cache.observe_written(written.answer)

    def shown(self) -> dict[str, tuple[str, int]]:
        return {item.name: (item.uid, item.value) for item in self.cache.values()}

    def changes_seen(self) -> list[tuple[str, int | None, int | None]]:
        """Name, old value and new value of each change."""
        return [
            (change.key.name, change.old and change.old.value, change.new and change.new.value)
            for change in self.changes
        ]


@asynccontextmanager
async def mirrored(server: ModelServer, *, wait: bool = True, **options: Any) -> AsyncIterator[Mirror]:
    mirror = Mirror(server, **options)
    running = asyncio.create_task(mirror.cache.run())
    try:
        if wait:
            async with asyncio.timeout(1000):
                await mirror.cache.wait_synced()
            await delivered()
        yield mirror
    finally:
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


async def delivered() -> None:
    """Wait until everything that is under way has arrived."""
    await asyncio.sleep(0.01)


# ── following the server ─────────────────────────────────────────────────────


async def test_a_cache_shows_the_list_and_then_the_watch_events() -> None:
    # given
    server = ModelServer(page_limit=2)
    for name in "abc":
        server.create(name, 1)
    async with mirrored(server) as mirror:
        assert mirror.shown() == {"a": ("uid-1", 1), "b": ("uid-2", 1), "c": ("uid-3", 1)}
        # when
        server.change("a", 2)
        server.remove("b")
        server.create("d", 4)
        await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-1", 2), "c": ("uid-3", 1), "d": ("uid-4", 4)}
        assert mirror.changes_seen()[3:] == [("a", 1, 2), ("b", 1, None), ("d", None, 4)]
        stats = mirror.cache.read_stats()
        assert (stats.objects, stats.events, stats.relists, stats.reconnects, stats.errors) == (3, 3, 0, 0, 0)
        assert (stats.synced, stats.connected, stats.position, stats.last_event_at) == (
            True,
            True,
            server.version,
            5.0,
        )


async def test_a_cache_is_not_synced_before_its_first_list_is_applied() -> None:
    server = ModelServer()
    server.list_gate = asyncio.Event()
    async with mirrored(server, wait=False) as mirror:
        await asyncio.sleep(1)
        assert not mirror.cache.synced
        # when
        server.list_gate.set()
        await mirror.cache.wait_synced()
        # then
        assert mirror.cache.synced


async def test_running_it_twice_is_refused() -> None:
    async with mirrored(ModelServer()) as mirror:
        with pytest.raises(RuntimeError, match=r"widgets\.example\.io is running already"):
            await mirror.cache.run()


async def test_a_cancelled_cache_stays_readable_and_resumes_where_it_stopped() -> None:
    # given a cache that was stopped, and changes it missed
    server = ModelServer()
    server.create("a", 1)
    mirror = Mirror(server)
    for values in ({"a": ("uid-1", 1)}, {"a": ("uid-1", 2), "b": ("uid-2", 0)}):
        # when
        running = asyncio.create_task(mirror.cache.run())
        await delivered()
        running.cancel()
        await asyncio.wait([running])
        # then
        assert mirror.shown() == values
        server.change("a", 2)
        if "b" not in server.objects:
            server.create("b")
    assert server.lists == 1


# ── indexes and handlers ─────────────────────────────────────────────────────


async def test_an_index_finds_objects_by_their_present_value_only() -> None:
    # given
    server = ModelServer()
    server.create("a", 1, owner="x")
    server.create("b", 2, owner="x")
    server.create("c", 3)
    async with mirrored(server) as mirror:

        def names(owner: str) -> list[str]:
            return [item.name for item in mirror.cache.list_by_index("owner", owner)]

        assert (names("x"), names("y"), names("")) == (["a", "b"], [], [])
        # when
        server.change("a", 5, owner="y")
        server.change("b", 6, owner="x")
        await delivered()
        # then
        assert (names("x"), names("y")) == (["b"], ["a"])
        assert [item.value for item in mirror.cache.list_by_index("owner", "x")] == [6]
        # when
        server.remove("b")
        await delivered()
        # then
        assert names("x") == []
        with pytest.raises(KeyError):
            mirror.cache.list_by_index("node", "x")


async def test_an_index_result_is_immutable_and_shared_until_a_change() -> None:
    server = ModelServer()
    server.create("a", 1, owner="x")
    async with mirrored(server) as mirror:
        before = mirror.cache.list_by_index("owner", "x")
        assert mirror.cache.list_by_index("owner", "x") is before
        # when
        server.create("b", 2, owner="x")
        server.change("a", 3, owner="x")
        await delivered()
        # then
        assert [item.value for item in before] == [1]
        assert [item.value for item in mirror.cache.list_by_index("owner", "x")] == [3, 2]


async def test_handlers_find_store_and_indexes_up_to_date_and_one_that_fails_harms_no_other() -> None:
    # given
    server = ModelServer()
    server.create("a", 1, owner="x")
    mirror = Mirror(server)
    seen: list[tuple[bool, bool]] = []

    def fails(change: Change[Item]) -> None:
        raise ValueError("bug in a handler")

    def looks(change: Change[Item]) -> None:
        indexed = mirror.cache.list_by_index("owner", "x")
        seen.append((mirror.cache.get(change.key) is change.new, change.new in indexed))

    mirror.cache.subscribe(fails)
    unsubscribe = mirror.cache.subscribe(looks)
    running = asyncio.create_task(mirror.cache.run())
    await delivered()
    # when
    server.change("a", 2, owner="x")
    await delivered()
    # then
    assert seen == [(True, True), (True, True)]
    assert mirror.cache.read_stats().handler_failures == 2
    assert mirror.shown() == {"a": ("uid-1", 2)}
    # and no handler is called that has unsubscribed
    unsubscribe()
    server.remove("a")
    await delivered()
    assert len(seen) == 2
    running.cancel()


async def test_a_change_made_by_a_handler_is_delivered_after_the_present_one() -> None:
    # given a handler that answers the first creation with a write of its own
    server = ModelServer()
    mirror = Mirror(server)

    def answers(change: Change[Item]) -> None:
        if change.old is None:
            mirror.cache.observe_written(server.change("a", 2).answer)

    heard: list[int] = []
    mirror.cache.subscribe(answers)
    mirror.cache.subscribe(lambda change: heard.append(change.new.value if change.new else -1))
    # when
    mirror.cache.observe_written(server.create("a", 1).answer)
    # then
    assert heard == [1, 2]


# ── own writes against watch events ──────────────────────────────────────────


async def test_an_event_that_only_shows_an_own_write_is_not_read_again() -> None:
    server = ModelServer()
    server.create("a", 1)
    read: list[str] = []

    def counting(raw: bytes | msgspec.Raw) -> Item:
        item = project(raw)
        read.append(f"{item.name} {item.value}")
        return item

    async with mirrored(server, project=counting) as mirror:
        server.hold()
        read.clear()
        # when the watch reports two own writes of one object, and another client's write of another object
        mirror.observe(server.change("a", 2), "a")
        mirror.observe(server.change("a", 3), "a")
        server.create("b", 1)
        server.deliver()
        await delivered()
        # then only the write of the other client is new
        assert read == ["a 2", "a 3", "b 1"]
        assert mirror.shown() == {"a": ("uid-1", 3), "b": ("uid-2", 1)}
        assert mirror.cache.read_stats().pending == 0


async def test_many_events_call_handlers_later_and_readers_see_them_together() -> None:
    # given
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server, pace=LATER) as mirror:
        server.hold()
        changes_seen = mirror.changes_seen()
        # when
        mirror.observe(server.change("a", 2), "a")
        mirror.observe(server.create("b", 1), "b")
        # then no handler is called as yet, and the next moment all are, in the order of changes
        assert mirror.changes_seen() == changes_seen
        await asyncio.sleep(0.03)
        assert mirror.changes_seen() == [*changes_seen, ("a", 1, 2), ("b", None, 1)]
        # when the cache is read in between
        mirror.observe(server.remove("a"), "a")
        # then each kind of read returns the newest state
        assert mirror.cache.get(key("a")) is None
        mirror.observe(server.change("b", 2), "b")
        assert [item.value for item in mirror.cache.values()] == [2]
        mirror.observe(server.remove("b"), "b")
        assert len(mirror.cache) == 0


async def test_events_waiting_when_a_watch_breaks_are_read_before_the_next_watch() -> None:
    # given
    server = ModelServer()
    async with mirrored(server, pace=LATER) as mirror:
        # when
        server.create("a", 1)
        await asyncio.sleep(0)
        server.cut()
        await asyncio.sleep(5)
        # then the cache continues from there
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert (server.lists, mirror.cache.read_stats().ignored) == (1, 0)


async def test_an_own_write_is_visible_immediately_and_its_event_changes_nothing() -> None:
    """cloneset case 22: where the original waits for its expectations, the next plan sees its own work"""
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        # when created, patched and deleted, with the watch behind
        mirror.observe(server.create("b", 5), "b")
        assert mirror.shown()["b"] == ("uid-2", 5)
        mirror.observe(server.change("a", 2), "a")
        assert mirror.shown()["a"] == ("uid-1", 2)
        assert mirror.cache.read_stats().pending == 2
        mirror.observe(server.remove("a"), "a")
        assert mirror.shown() == {"b": ("uid-2", 5)}
        assert mirror.cache.read_stats().tombstones == 1
        changes_seen = mirror.changes_seen()
        server.deliver()
        await delivered()
        # then the events repeat known changes, and no own write is remembered any longer
        assert mirror.shown() == {"b": ("uid-2", 5)}
        assert mirror.changes_seen() == changes_seen
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones, stats.ignored) == (0, 0, 3)


@pytest.mark.parametrize("late", [False, True], ids=["answer first", "event first"])
@pytest.mark.parametrize(
    "write",
    [
        lambda server: server.create("new", 7),
        lambda server: server.change("a", 7),
        lambda server: server.mark("a"),
        lambda server: server.mark("a", grace_s=0, finalizers=("x/y",)),
        lambda server: server.remove("a"),
        lambda server: server.remove("a", returns_object=True),
    ],
    ids=["create", "patch", "graceful delete", "delete with finalizer", "delete: Status", "delete: object"],
)
async def test_the_order_of_answer_and_event_makes_no_difference(
    write: Callable[[ModelServer], Written], late: bool
) -> None:
    # given
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        changes_before = len(mirror.changes)
        # when
        server.hold()
        written = write(server)
        name = "new" if "new" in server.objects else "a"
        if late:
            server.deliver()
            await delivered()
            mirror.observe(written, name)
        else:
            mirror.observe(written, name)
            server.deliver()
            await delivered()
        # then the change was delivered once, and nothing waits for a confirmation that has come
        assert {item.name: item.resource_version for item in mirror.cache.values()} == {
            name: int(doc["metadata"]["resourceVersion"]) for name, doc in server.objects.items()
        }
        assert len(mirror.changes) == changes_before + 1
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones) == (0, 0)


async def test_a_creation_answered_after_the_deletion_stays_deleted() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        # given an own creation, deleted by another client before the cache got the answer to the creation
        created = server.create("a", 1)
        server.remove("a")
        await delivered()
        # when
        mirror.observe(created, "a")
        # then
        assert mirror.shown() == {}
        assert mirror.changes_seen() == [("a", None, 1), ("a", 1, None)]


async def test_an_older_event_does_not_undo_a_patch() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", 2)  # by another client
        mirror.observe(server.change("a", 3), "a")
        # when
        server.deliver(1)
        await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-1", 3)}
        assert mirror.cache.read_stats().pending == 1


async def test_a_newer_event_than_the_answer_wins() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        mine = server.change("a", 2)
        server.change("a", 3)
        await delivered()
        # when
        mirror.observe(mine, "a")
        # then
        assert mirror.shown() == {"a": ("uid-1", 3)}


async def test_answers_out_of_order_leave_the_newest_object() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        first, second = server.change("a", 2), server.change("a", 3)
        # when
        mirror.observe(second, "a")
        mirror.observe(first, "a")
        # then
        assert mirror.shown() == {"a": ("uid-1", 3)}


async def test_a_patch_answered_after_the_own_deletion_restores_no_object() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        patched, deleted = server.change("a", 2), server.remove("a")
        # when
        mirror.observe(deleted, "a")
        mirror.observe(patched, "a")
        server.deliver(1)
        await delivered()
        # then
        assert mirror.shown() == {}


async def test_late_events_of_a_deleted_object_do_not_change_its_successor() -> None:
    # given an object that this client deleted and created again under its name, with the watch behind
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", 2)
        mirror.observe(server.remove("a"), "a")
        mirror.observe(server.create("a", 3), "a")
        for _ in range(3):
            # when
            server.deliver(1)
            await delivered()
            # then
            assert mirror.shown() == {"a": ("uid-2", 3)}
        assert mirror.changes_seen() == [("a", None, 1), ("a", 1, None), ("a", None, 3)]
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones) == (0, 0)


async def test_an_own_successor_replaces_an_object_whose_deletion_was_not_seen() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.remove("a")  # by another client
        # when
        mirror.observe(server.create("a", 2), "a")
        # then two objects are never mixed in one change
        assert mirror.changes_seen() == [("a", None, 1), ("a", 1, None), ("a", None, 2)]
        server.deliver(1)
        await delivered()
        assert mirror.shown() == {"a": ("uid-2", 2)}


async def test_objects_created_and_deleted_before_an_own_write_are_never_shown() -> None:
    # given that others delete the object, create another one and delete it; then this client creates one and deletes it
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", 2)
        server.remove("a")
        server.create("a", 3)
        server.remove("a")
        mirror.observe(server.create("a", 4), "a")
        mirror.observe(server.remove("a"), "a")
        assert mirror.shown() == {}
        for _ in range(6):
            # when
            server.deliver(1)
            await delivered()
            # then
            assert mirror.shown() == {}
        assert mirror.changes_seen() == [("a", None, 1), ("a", 1, None), ("a", None, 4), ("a", 4, None)]
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones) == (0, 0)


async def test_not_found_for_a_uid_removes_only_that_object() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.remove("a")
        # when
        mirror.cache.observe_deleted(key("a"), "uid-1", b"")
        # then
        assert mirror.shown() == {}
        # and a new object with the same name is another object
        mirror.observe(server.create("a", 2), "a")
        mirror.cache.observe_deleted(key("a"), "uid-1", b"")
        assert mirror.shown() == {"a": ("uid-2", 2)}


async def test_a_deletion_without_a_uid_proves_nothing_about_what_is_cached() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        mirror.cache.observe_deleted(key("a"), "", b"")
        assert mirror.shown() == {"a": ("uid-1", 1)}
        # but a Status names its object
        server.hold()
        mirror.cache.observe_deleted(key("a"), "", server.remove("a").answer)
        assert mirror.shown() == {}


async def test_the_write_that_takes_the_last_finalizer_off_ends_the_object() -> None:
    server = ModelServer()
    server.create("a", 1)
    server.mark("a", grace_s=0, finalizers=("x/y",))
    async with mirrored(server) as mirror:
        server.hold()
        # when
        mirror.cache.observe_written(server.unfinalize("a").answer)
        # then
        assert mirror.shown() == {}
        server.deliver()
        await delivered()
        assert mirror.cache.read_stats().tombstones == 0


async def test_a_namespace_that_is_marked_waits_for_its_own_finalizers() -> None:
    # given an answer to a DELETE with neither metadata.finalizers nor a grace period
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        marked = orjson.loads(server.mark("a").answer)
        del marked["metadata"]["deletionGracePeriodSeconds"]
        del marked["metadata"]["finalizers"]
        # when
        mirror.cache.observe_deleted(key("a"), "uid-1", orjson.dumps(marked))
        # then
        item = mirror.cache.get(key("a"))
        assert item is not None
        assert item.marked


async def test_a_deletion_of_an_object_the_cache_never_saw_keeps_it_out() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.hold()
        server.create("a", 1)
        deleted = server.remove("a")
        # when
        mirror.observe(deleted, "a")
        server.deliver()
        await delivered()
        # then
        assert mirror.changes_seen() == []
        assert mirror.cache.read_stats().tombstones == 0


async def test_an_unconfirmed_tombstone_is_dropped_by_a_bookmark_after_five_minutes() -> None:
    server = ModelServer()
    async with mirrored(server, idle_timeout_s=10_000) as mirror:
        mirror.cache.observe_deleted(key("a"), "uid-of-another-view", b"")
        await asyncio.sleep(200)
        server.bookmark()
        await delivered()
        assert mirror.cache.read_stats().tombstones == 1
        # when
        await asyncio.sleep(101)
        server.bookmark()
        await delivered()
        # then
        assert mirror.cache.read_stats().tombstones == 0


async def test_a_bookmark_moves_the_version_below_which_answers_are_ignored() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        created = server.create("a", 1)
        server.remove("a")
        server.hold()
        await delivered()
        server.skip_versions(10)
        server.bookmark()
        await delivered()
        assert mirror.cache.read_stats().position == server.version
        # when
        mirror.observe(created, "a")
        # then
        assert mirror.shown() == {}


async def test_answers_of_another_namespace_are_not_of_this_cache() -> None:
    server = ModelServer()
    async with mirrored(server, namespace="other") as mirror:
        mirror.cache.observe_written(server.create("a", 1).answer)
        mirror.cache.observe_deleted(Key(NAMESPACE, "a"), "uid-1", b"")
        assert mirror.shown() == {}
        assert mirror.cache.read_stats().tombstones == 0


# ── selectors ────────────────────────────────────────────────────────────────


async def test_an_own_write_that_leaves_the_view_takes_the_object_out() -> None:
    server = ModelServer()
    server.create("a", 1, labels={"app": "x"})
    server.create("b", 1, labels={"app": "y"})
    async with mirrored(server, label_selector="app=x") as mirror:
        assert set(mirror.shown()) == {"a"}
        server.hold()
        server.change("a", 2)
        # when
        mirror.observe(server.change("a", 3, labels={"app": "y"}), "a")
        mirror.observe(server.create("c", 3, labels={"app": "y"}), "c")
        # then
        assert mirror.shown() == {}
        # and events from before do not put it back
        for _ in range(3):
            server.deliver(1)
            await delivered()
            assert mirror.shown() == {}
        server.bookmark()
        await delivered()
        assert mirror.cache.read_stats().pending == 0


async def test_an_object_that_left_the_view_and_returned_is_shown() -> None:
    server = ModelServer()
    server.create("a", 1, labels={"app": "x"})
    async with mirrored(server, label_selector="app=x") as mirror:
        server.hold()
        server.change("a", 2, labels={"app": "y"})
        # when the DELETED of having left comes after the answer of having come back
        mirror.observe(server.change("a", 3, labels={"app": "x"}), "a")
        server.deliver(1)
        await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-1", 3)}
        server.deliver()
        await delivered()
        assert mirror.shown() == {"a": ("uid-1", 3)}


async def test_a_field_selector_is_applied_to_answers_too() -> None:
    server = ModelServer()
    async with mirrored(server, field_selector="metadata.name=mine") as mirror:
        mirror.cache.observe_written(server.create("other").answer)
        assert mirror.shown() == {}
        mirror.cache.observe_written(server.create("mine").answer)
        assert set(mirror.shown()) == {"mine"}


async def test_an_own_write_that_a_selective_watch_passes_over_leaves_the_store() -> None:
    # given a field selector that only the server can evaluate: the model server ignores it, and its watch shows
    # only objects of app=x
    server = ModelServer()
    async with mirrored(server, field_selector="spec.value=1") as mirror:
        server.hold()
        mirror.observe(server.create("a", 1), "a")
        assert set(mirror.shown()) == {"a"}
        # when the watch gets past that version without having shown it
        server.bookmark()
        await delivered()
        # then
        assert mirror.shown() == {}
        assert server.lists == 1


# ── lists against writes ─────────────────────────────────────────────────────


class Relist:
    """A list whose answer is made when it begins and arrives when the test says so."""

    def __init__(self, mirror: Mirror) -> None:
        self.server = mirror.server

    async def __aenter__(self) -> None:
        self.server.list_gate = asyncio.Event()
        self.server.expire()
        await asyncio.sleep(0.5)  # longer than the first wait, so the list is under way
        assert self.server.lists == 2

    async def __aexit__(self, *_: object) -> None:
        assert self.server.list_gate is not None
        self.server.list_gate.set()
        await delivered()


async def test_a_list_does_not_undo_writes_that_were_answered_after_it_began() -> None:
    server = ModelServer()
    server.create("patched", 1)
    server.create("deleted", 1)
    server.create("replaced", 1)
    server.create("both", 1)
    async with mirrored(server) as mirror:
        changes_seen = len(mirror.changes)
        # when
        async with Relist(mirror):
            server.hold()
            mirror.observe(server.create("created", 9), "created")
            mirror.observe(server.change("patched", 2), "patched")
            mirror.observe(server.remove("deleted"), "deleted")
            mirror.observe(server.remove("replaced"), "replaced")
            mirror.observe(server.create("replaced", 3), "replaced")
            mirror.observe(server.change("both", 4), "both")
            mirror.observe(server.remove("both"), "both")
            expected = {"created": ("uid-5", 9), "patched": ("uid-1", 2), "replaced": ("uid-6", 3)}
            assert mirror.shown() == expected
            changes_after_writes = len(mirror.changes)
        # then the list changes nothing
        assert mirror.shown() == expected
        assert len(mirror.changes) == changes_after_writes
        assert mirror.cache.read_stats().tombstones == 3
        # and neither do the events of those writes
        server.deliver()
        await delivered()
        assert mirror.shown() == expected
        assert len(mirror.changes) == changes_after_writes == changes_seen + 7
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones, stats.relists) == (0, 0, 1)


async def test_an_earlier_object_with_the_name_of_an_own_object_is_never_restored() -> None:
    # given an object that others changed and deleted after the list was made; then this client creates one of the same
    # name, and deletes it before the list arrives
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        async with Relist(mirror):
            server.hold()
            server.change("a", 2)
            server.remove("a")
            mirror.observe(server.create("a", 3), "a")
            mirror.observe(server.remove("a"), "a")
        # then
        assert mirror.shown() == {}
        for _ in range(4):
            server.deliver(1)
            await delivered()
            assert mirror.shown() == {}
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones) == (0, 0)


async def test_writes_before_a_list_are_confirmed_by_it() -> None:
    # given own writes that the watch had not shown when it broke
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        mirror.observe(server.remove("a"), "a")
        mirror.observe(server.create("b", 2), "b")
        mirror.cache.observe_deleted(key("never seen"), "uid-0", b"")
        # when
        async with Relist(mirror):
            pass
        mirror.cache.observe_deleted(key("a"), "uid-1", b"")  # the same again, from a second attempt
        # then
        stats = mirror.cache.read_stats()
        assert (stats.pending, stats.tombstones) == (0, 0)
        assert mirror.shown() == {"b": ("uid-2", 2)}


async def test_a_list_made_after_a_deletion_was_misunderstood_sets_it_right() -> None:
    # given a 404 that was taken for the deletion of the object
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        mirror.cache.observe_deleted(key("a"), "uid-1", b"")
        assert mirror.shown() == {}
        # when
        async with Relist(mirror):
            pass
        # then
        assert mirror.shown() == {"a": ("uid-1", 1)}
        server.change("a", 2)
        await delivered()
        assert mirror.shown() == {"a": ("uid-1", 2)}


async def test_a_tombstone_set_during_a_list_without_the_object_ends_with_the_list() -> None:
    # given a deletion that the list already shows, answered after the list began
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        deleted = server.remove("a")
        async with Relist(mirror):
            mirror.observe(deleted, "a")
            assert mirror.cache.read_stats().tombstones == 1
        # then there is no DELETED to come, and nothing is left waiting for it
        assert mirror.cache.read_stats().tombstones == 0
        assert mirror.shown() == {}


async def test_changes_and_deletions_during_a_gap_are_delivered() -> None:
    server = ModelServer()
    for name in ("kept", "changed", "deleted", "replaced"):
        server.create(name, 1)
    async with mirrored(server) as mirror:
        changes_seen = len(mirror.changes)
        # given changes that the watch did not show, and history gone
        server.hold()
        server.change("changed", 2)
        server.remove("deleted")
        server.remove("replaced")
        server.create("replaced", 3)
        server.create("created", 4)
        server.compact()
        # when
        server.cut()
        await asyncio.sleep(5)
        # then
        assert mirror.changes_seen()[changes_seen:] == [
            ("changed", 1, 2),
            ("replaced", 1, None),
            ("replaced", None, 3),
            ("created", None, 4),
            ("deleted", 1, None),
        ]
        assert mirror.cache.read_stats().relists == 1


async def test_a_list_older_than_the_cache_is_repeated() -> None:
    # given a server whose next list is older than an own write
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        old = server.list_page({})
        mirror.observe(server.remove("a"), "a")
        mirror.observe(server.create("b", 2), "b")
        server.stale_list = old
        # when
        server.expire()
        await asyncio.sleep(10)
        # then
        assert server.lists == 3
        assert mirror.shown() == {"b": ("uid-2", 2)}
        assert mirror.changes_seen() == [("a", None, 1), ("a", 1, None), ("b", None, 2)]


async def test_a_cluster_restored_from_a_backup_is_followed() -> None:
    # given resource versions that restart below those that the cache knows
    server = ModelServer()
    server.create("a", 5)
    server.create("b", 5)
    server.skip_versions(1000)
    server.change("a", 6)
    async with mirrored(server) as mirror:
        restored = ModelServer()
        restored.create("a", 1)
        vars(server).update(
            objects=restored.objects, version=restored.version, history=restored.history, oldest=0
        )
        # when
        server.expire()
        await asyncio.sleep(60)
        # then
        assert mirror.shown() == {"a": ("uid-1", 1)}
        server.change("a", 2)
        await delivered()
        assert mirror.shown() == {"a": ("uid-1", 2)}


# ── faults ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut_after", range(6))
async def test_nothing_is_missed_wherever_the_connection_breaks(cut_after: int) -> None:
    # given
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", 2)
        server.create("b", 1)
        server.remove("a")
        server.create("a", 3)
        server.change("b", 2)
        # when the connection breaks after some of the events
        server.deliver(cut_after)
        await delivered()
        server.cut()
        server.deliver()
        await asyncio.sleep(5)
        # then the watch resumes, and every change is delivered once
        assert mirror.changes_seen() == [
            ("a", None, 1),
            ("a", 1, 2),
            ("b", None, 1),
            ("a", 2, None),
            ("a", None, 3),
            ("b", 1, 2),
        ]
        assert server.lists == 1
        assert mirror.cache.read_stats().reconnects == 1


async def test_the_normal_end_of_a_watch_is_not_an_error() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        await asyncio.sleep(60)
        # when
        server.end()
        await delivered()
        # then
        stats = mirror.cache.read_stats()
        assert (stats.connected, stats.reconnects, stats.errors, server.lists) == (True, 1, 0, 1)


async def test_a_server_that_ends_every_watch_immediately_is_watched_with_pauses() -> None:
    server = ModelServer()
    async with mirrored(server):
        loop = asyncio.get_running_loop()
        until = loop.time() + 60
        while loop.time() < until:
            server.end()
            await asyncio.sleep(0.05)
        assert len(server.watches) < 15


@pytest.mark.parametrize("form", ["in the stream", "status 410", "resourceVersion too large", "garbage"])
async def test_when_the_position_is_lost_it_lists_again(form: str) -> None:
    # given a change that the watch will never show
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", 2)
        server.held_from = None
        # when
        match form:
            case "in the stream":
                server.expire()
            case "status 410":
                server.refuse("watch", failure(410, "Gone"))
                server.cut()
            case "resourceVersion too large":
                body = {
                    "kind": "Status",
                    "code": 504,
                    "reason": "Timeout",
                    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
                }
                refusal = msgspec.structs.replace(failure(504, "Timeout"), body=orjson.dumps(body))
                server.refuse("watch", refusal)
                server.cut()
            case _:
                server.refuse("watch", failure(400, "BadRequest"))
                server.cut()
        await asyncio.sleep(5)
        # then
        assert mirror.shown() == {"a": ("uid-1", 2)}
        assert server.lists == 2
        assert mirror.cache.read_stats().relists == 1


async def test_a_server_that_returns_with_a_new_history_is_listed_immediately() -> None:
    """An answer of 410 ends the outage, so the cache lists without another wait."""
    # given an outage with long waits
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.refuse("watch", *[UnreachableError("refused")] * 6)
        server.cut()
        while mirror.cache.read_stats().errors < 7:
            await asyncio.sleep(0.1)
        # when it is back
        server.refuse("watch", failure(410, "Expired"))
        while mirror.cache.read_stats().errors < 8:
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        # then
        assert (mirror.cache.read_stats().connected, server.lists) == (True, 2)


async def test_a_server_that_keeps_answering_410_is_listed_less_and_less_often() -> None:
    # given
    server = ModelServer()
    async with mirrored(server):
        server.refuse("watch", *[failure(410, "Expired")] * 1000)
        # when
        server.cut()
        await asyncio.sleep(300)
        # then
        assert server.lists < 25


async def test_a_stream_that_falls_silent_is_opened_again_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given a connection without events, and a change on the server
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.stalled = True
        server.create("a", 1)
        await asyncio.sleep(110)
        assert mirror.shown() == {}
        # when
        server.stalled = False
        await asyncio.sleep(11)
        # then
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert server.lists == 1
        # and it does not count as a failure
        assert (mirror.cache.read_stats().reconnects, mirror.cache.read_stats().errors) == (1, 0)
        assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


async def test_catching_up_without_a_version_lists_what_a_silent_watch_misses() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.stalled = True
        server.create("a", 1)
        # when a list fails first
        server.refuse("list", failure(503, "ServiceUnavailable"))
        await mirror.cache.catch_up()
        # then
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert server.lists == 2


async def test_a_list_requested_during_another_starts_right_after_it() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.list_gate = asyncio.Event()
        first = asyncio.create_task(mirror.cache.catch_up())
        await asyncio.sleep(0.1)
        # when
        second = asyncio.create_task(mirror.cache.catch_up())
        await asyncio.sleep(0.1)
        server.list_gate.set()
        # then it does not wait for the end of the watch between the two lists
        async with asyncio.timeout(5):
            await asyncio.gather(first, second)
        assert server.lists == 3


async def test_lists_requested_by_many_while_the_watch_ends_are_executed() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        # when each member requests a list, in one turn of the loop after the other
        asking = []
        for _ in range(10):
            asking.append(asyncio.create_task(mirror.cache.catch_up()))
            await asyncio.sleep(0)
        # then
        async with asyncio.timeout(5):
            await asyncio.gather(*asking)
        assert server.lists > 1


async def test_the_latest_change_of_a_cache_belongs_to_its_resource() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        assert mirror.cache.changed == server.version
        server.create("b", 1)
        await delivered()
        change = server.version
        # when other resources of the cluster change, as a bookmark and a list show
        server.version += 10
        server.bookmark()
        await delivered()
        await mirror.cache.catch_up()
        # then
        assert (mirror.cache.changed, mirror.cache.position) == (change, server.version)
        # and when a list shows what the watch has missed
        server.stalled = True
        server.create("c", 1)
        server.version += 10
        await mirror.cache.catch_up()
        assert mirror.cache.changed == server.version


async def test_catching_up_with_a_version_lists_only_when_the_watch_does_not_reach_it() -> None:
    # given a watch that lags
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.hold()
        server.create("a", 1)
        following = asyncio.create_task(mirror.cache.catch_up(server.version))
        await asyncio.sleep(1)
        assert not following.done()
        # when the watch continues
        server.deliver()
        await following
        # then
        assert (mirror.shown(), server.lists) == ({"a": ("uid-1", 1)}, 1)
        # and a silent watch does not block a caller
        server.stalled = True
        server.create("b", 2)
        async with asyncio.timeout(10):
            await mirror.cache.catch_up(server.version)
        assert (set(mirror.shown()), server.lists) == ({"a", "b"}, 2)


async def test_a_watch_on_a_replaced_server_is_reopened_immediately() -> None:
    # given a watch that gets no events
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.stalled = True
        server.create("a", 1)
        await asyncio.sleep(1)
        server.stalled = False
        # when
        mirror.cache.watch_anew()
        await asyncio.sleep(0.1)
        # then it resumes
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert (server.lists, mirror.cache.read_stats().reconnects, mirror.cache.read_stats().errors) == (
            1,
            1,
            0,
        )
        # and that changes nothing for later
        server.create("b", 1)
        await delivered()
        assert set(mirror.shown()) == {"a", "b"}


async def test_reopening_without_an_open_watch_does_nothing() -> None:
    server = ModelServer()
    server.refuse("watch", *[failure(503, "ServiceUnavailable")] * 3)
    async with mirrored(server) as mirror:
        mirror.cache.watch_anew()
        await asyncio.sleep(30)
        server.create("a", 1)
        await delivered()
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert mirror.cache.read_stats().errors == 3


async def test_bookmarks_keep_a_quiet_watch_open() -> None:
    server = ModelServer()
    async with mirrored(server) as mirror:
        for _ in range(60):
            await asyncio.sleep(60)
            server.bookmark()
        assert mirror.cache.read_stats().reconnects == 0


async def test_a_server_that_never_answers_the_opening_of_a_watch_is_given_up_on() -> None:
    # given
    server = ModelServer()
    server.create("a", 1)
    opened = 0
    stream = server.stream

    @asynccontextmanager
    async def hangs_once(*args: Any, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        nonlocal opened
        opened += 1
        if opened == 1:
            await asyncio.sleep(1e9)
        async with stream(*args, **options) as lines:
            yield lines

    server.stream = hangs_once  # type: ignore[method-assign]
    async with mirrored(server) as mirror:
        server.change("a", 2)
        # when
        await asyncio.sleep(125)
        # then
        assert opened == 2
        assert mirror.shown() == {"a": ("uid-1", 2)}


async def test_errors_are_waited_out_longer_and_longer_up_to_thirty_seconds_without_a_list() -> None:
    # given a server that is away for an hour
    server = ModelServer()
    async with mirrored(server) as mirror:
        refusals = [UnreachableError("connection refused")] * 2 + [failure(401, "Unauthorized")]
        server.refuse("watch", *refusals, *[failure(503, "ServiceUnavailable")] * 200)
        # when
        server.cut()
        await asyncio.sleep(3600)
        attempts = len(server.watches)
        # then
        assert 3600 / 30 < attempts < 3600 / 15 + 10
        assert not mirror.cache.read_stats().connected
        assert mirror.cache.read_stats().last_error == "ServerUnavailableError: ServiceUnavailable"
        # and when the server is back, the watch delivers all changes without a list
        server.refusals["watch"].clear()
        server.create("a", 1)
        await asyncio.sleep(31)
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert server.lists == 1
        assert mirror.cache.read_stats().last_error == ""
        # and the next fault waits for a short time again
        server.cut()
        await asyncio.sleep(0.3)
        assert mirror.cache.read_stats().connected


async def test_the_server_sets_the_wait_before_the_next_watch() -> None:
    server = ModelServer()
    async with mirrored(server):
        server.refuse("watch", failure(429, "TooManyRequests", retry_after_s=20))
        server.cut()
        await asyncio.sleep(19)
        assert len(server.watches) == 2
        # when
        await asyncio.sleep(2)
        # then
        assert len(server.watches) == 3


async def test_a_missing_resource_is_retried_until_it_exists() -> None:
    # given a CRD that is installed after ten minutes
    server = ModelServer()
    server.refuse("list", *[failure(404, "NotFound")] * 1000)
    async with mirrored(server, wait=False) as mirror:
        await asyncio.sleep(600)
        assert not mirror.cache.synced
        assert mirror.cache.read_stats().last_error == "NotFoundError: NotFound"
        assert mirror.cache.read_stats().errors > 20
        # when
        server.refusals["list"].clear()
        server.create("a", 1)
        await asyncio.sleep(31)
        # then
        assert mirror.cache.synced
        assert mirror.shown() == {"a": ("uid-1", 1)}


async def test_only_a_resource_that_is_served_has_the_metric_of_its_watch() -> None:
    # given
    server = ModelServer()
    async with mirrored(server) as mirror:

        def connected() -> list[float]:
            metrics = cache_metrics({"items": mirror.cache.read_stats()})
            (metric,) = [item for item in metrics if item.name == "pykruise_cache_connected"]
            return [sample.value for sample in metric.samples]

        assert connected() == [1]
        # when the watch fails
        server.refuse("watch", *[failure(500, "InternalError")] * 1000)
        server.cut()
        await asyncio.sleep(1)
        assert connected() == [0]
        # when the CRD is deleted
        server.refusals["watch"].clear()
        server.refuse("watch", *[failure(404, "NotFound")] * 1000)
        server.refuse("list", *[failure(404, "NotFound")] * 1000)
        await asyncio.sleep(60)
        assert connected() == []
        # when it exists again
        server.refusals["watch"].clear()
        server.refusals["list"].clear()
        await asyncio.sleep(60)
        # then
        assert connected() == [1]


async def test_a_resource_that_vanishes_empties_nothing_by_its_absence() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.refuse("watch", failure(404, "NotFound"))
        server.refuse("list", *[failure(404, "NotFound")] * 3)
        server.cut()
        await asyncio.sleep(1)
        assert mirror.shown() == {"a": ("uid-1", 1)}
        # when it is back, without the object
        del server.objects["a"]
        await asyncio.sleep(60)
        # then
        assert mirror.shown() == {}


async def test_an_expired_continue_token_begins_the_list_again() -> None:
    server = ModelServer(page_limit=1)
    server.create("a", 1)
    server.create("b", 1)
    server.refuse("list")
    first = server.list_page({"limit": "500"})
    server.refuse("list", first, failure(410, "Expired"))
    async with mirrored(server) as mirror:
        assert set(mirror.shown()) == {"a", "b"}


async def test_repeated_events_change_nothing() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.create("b", 2)
        added = line("ADDED", server.objects["b"])
        server.change("b", 3)
        changed = line("MODIFIED", server.objects["b"])
        server.remove("b")
        await delivered()
        changes_seen = mirror.changes_seen()
        # when
        server.send(added, changed, added, line("ADDED", server.objects["a"]))
        await asyncio.sleep(5)
        # then
        assert mirror.changes_seen() == changes_seen
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert server.lists == 1


async def test_a_repeated_deletion_does_not_change_the_successor() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        predecessor = server.objects["a"]
        server.remove("a")
        deleted = line("DELETED", with_version(predecessor, server.version))
        server.create("a", 2)
        await delivered()
        # when
        server.send(deleted)
        await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-2", 2)}


async def test_a_repeated_departure_from_the_view_does_not_remove_the_returned_object() -> None:
    server = ModelServer()
    server.create("a", 1, labels={"app": "x"})
    async with mirrored(server, label_selector="app=x") as mirror:
        before = server.objects["a"]
        server.change("a", 2, labels={"app": "y"})
        left = line("DELETED", with_version(before, server.version))
        server.change("a", 3, labels={"app": "x"})
        await delivered()
        # when
        server.send(left)
        await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-1", 3)}


async def test_an_answer_much_later_than_its_deletion_leaves_no_tombstone() -> None:
    # given so many deletions since then that the cache no longer remembers this one
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        deleted = server.remove("a", returns_object=True)
        for number in range(1100):
            server.create(f"w{number}")
            server.remove(f"w{number}")
        await asyncio.sleep(1)
        # when
        mirror.observe(deleted, "a")
        # then
        assert mirror.cache.read_stats().tombstones == 0


async def test_an_answer_later_than_the_list_that_hid_the_deletion_leaves_no_tombstone() -> None:
    server = ModelServer()
    server.create("a", 1)
    server.create("b", 1)
    async with mirrored(server) as mirror:
        server.hold()
        deleted = server.remove("a")
        replaced = server.remove("b")
        server.create("b", 2)
        async with Relist(mirror):
            pass
        # when
        mirror.observe(deleted, "a")
        mirror.observe(replaced, "b")
        # then
        assert mirror.cache.read_stats().tombstones == 0
        assert mirror.shown() == {"b": ("uid-3", 2)}


async def test_an_event_out_of_order_causes_a_new_list() -> None:
    # given a stream in which two events have changed places
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.stalled = True
        first, second = server.create("a", 1), server.create("b", 1)
        # when
        server.send(line("ADDED", orjson.loads(second.answer)), line("ADDED", orjson.loads(first.answer)))
        await asyncio.sleep(5)
        # then
        assert set(mirror.shown()) == {"a", "b"}
        assert server.lists == 2


async def test_a_delayed_event_out_of_order_triggers_an_immediate_list() -> None:
    # given a cache that reads events with a delay
    server = ModelServer()
    async with mirrored(server, pace=LATER) as mirror:
        server.stalled = True
        first, second = server.create("a", 1), server.create("b", 1)
        # when two events have changed places, and no event follows
        server.send(line("ADDED", orjson.loads(second.answer)), line("ADDED", orjson.loads(first.answer)))
        await asyncio.sleep(5)
        # then
        assert set(mirror.shown()) == {"a", "b"}
        assert server.lists == 2


async def test_a_watch_that_leaves_out_an_own_write_is_not_trusted() -> None:
    """cloneset case 93: a lost event holds no key up for the five minutes of the original's expectations"""
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.hold()
        mirror.observe(server.create("a", 1), "a")
        server.skip_versions(5)
        # when a bookmark claims to have sent everything
        server.bookmark()
        await asyncio.sleep(5)
        # then
        assert server.lists == 2
        assert mirror.shown() == {"a": ("uid-1", 1)}


async def test_an_object_that_cannot_be_read_is_counted_and_keeps_its_last_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given
    server = ModelServer()
    server.create("a", 1)
    server.create("odd", "no number")  # type: ignore[arg-type]
    async with mirrored(server) as mirror:
        assert mirror.shown() == {"a": ("uid-1", 1)}
        # when
        with caplog.at_level(logging.WARNING):
            server.change("a", "no number")
            server.create("b", 2)
            server.send(b'{"type":"MODIFIED","object":[1]}', b'{"type":"NEW","object":{}}')
            await delivered()
        # then
        assert mirror.shown() == {"a": ("uid-1", 1), "b": ("uid-3", 2)}
        stats = mirror.cache.read_stats()
        assert (stats.unreadable, stats.position, stats.connected) == (4, server.version, True)
        assert f"{NAMESPACE}/a at version {server.version - 1}: cannot be read" in caplog.text
        # and it can still be deleted, or become readable again
        server.remove("a")
        server.change("odd", 3)
        await delivered()
        assert mirror.shown() == {"b": ("uid-3", 2), "odd": ("uid-2", 3)}


async def test_an_unreadable_object_in_a_list_is_not_taken_for_deleted() -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.hold()
        server.change("a", "no number")
        async with Relist(mirror):
            pass
        assert mirror.shown() == {"a": ("uid-1", 1)}


async def test_a_failing_index_function_leaves_store_and_indexes_unchanged() -> None:
    def by_value(item: Item) -> list[Any]:
        if item.value == 13:
            raise ValueError("unlucky")
        return [[]] if item.value == 14 else [item.value]

    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server, indexes={"value": by_value}) as mirror:
        for value in (13, 14):
            server.change("a", value)
            await delivered()
        mirror.cache.observe_written(server.change("a", 13).answer)
        assert mirror.shown() == {"a": ("uid-1", 1)}
        assert len(mirror.cache.list_by_index("value", 1)) == 1
        # when
        server.change("a", 2)
        await delivered()
        # then
        assert len(mirror.cache.list_by_index("value", 1)) == 0
        assert len(mirror.cache.list_by_index("value", 2)) == 1


async def test_a_bug_in_the_client_does_not_end_the_cache(caplog: pytest.LogCaptureFixture) -> None:
    server = ModelServer()
    server.create("a", 1)
    async with mirrored(server) as mirror:
        server.send(ZeroDivisionError("bug"))
        await asyncio.sleep(5)
        server.change("a", 2)
        await delivered()
        assert mirror.shown() == {"a": ("uid-1", 2)}
        assert "ZeroDivisionError" in caplog.text


async def test_a_cut_during_the_list_just_lists_again() -> None:
    server = ModelServer(page_limit=1)
    server.create("a", 1)
    server.create("b", 1)
    server.refuse("list", *[ConnectionLostError("cut")] * 8)
    async with mirrored(server) as mirror:
        assert set(mirror.shown()) == {"a", "b"}


async def test_a_burst_of_events_does_not_block_other_tasks() -> None:
    # given
    server = ModelServer()
    async with mirrored(server) as mirror:
        server.hold()
        for number in range(2000):
            server.create(f"w{number}")
        turns: list[int] = []

        async def other() -> None:
            while len(mirror.cache) < 2000:
                turns.append(len(mirror.cache))
                await asyncio.sleep(0)

        # when
        server.deliver()
        await other()
        # then
        assert len(set(turns)) > 10
