"""A cache with a model server: random writes of its own client and of others, random faults, random delays.

The test checks after every step and in every notification: the object of a key in the cache is the server's object
at some version; this version never goes back, and is never older than the response to one of the client's own
writes. After all events have arrived, cache and server are equal and no memory is left.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.errors import ConnectionLostError, UnreachableError
from pykruise.kube.ids import Key
from pykruise.sandbox.virtual_time import VirtualLoop
from support.examples import examples
from support.model_server import WIDGETS, Item, ModelServer, Written, failure, key, line, project

NAMES = ("a", "b")
GRACE_S = 30


class Step(msgspec.Struct, frozen=True):
    """One event. `answer_after`: number of steps after which the response to the client's own write arrives."""

    what: str
    name: str = "a"
    answer_after: int = 0
    number: int = 0


class Answer(msgspec.Struct, frozen=True):
    key: Key
    written: Written


class World:
    """Server, cache, delayed responses, and the allowed content of the cache."""

    def __init__(self, seed: int) -> None:
        self.server = ModelServer(page_limit=1)
        self.rng = random.Random(seed)
        self.cache: Cache[Item] = Cache(
            self.server.client,
            WIDGETS,
            project=project,
            indexes={"owner": lambda item: [item.owner]},
            clock=lambda: 0.0,
            rng=random.Random(seed),
            pace=self.rng.choice((None, Pace(burst=1, per_s=50.0, wait_s=0.02))),
        )
        self.replica: dict[Key, Item] = {}
        self.behind: dict[Key, int] = {}  # the oldest version that may be shown, by key
        self.on_the_way: list[tuple[int, Answer]] = []
        self.stale_lists = 0
        self.values = 0
        self.gate_opens_in = 0
        self.cache.subscribe(self.on_change)

    # ── the claim ────────────────────────────────────────────────────────────

    def on_change(self, change: Change[Item]) -> None:
        assert self.replica.get(change.key) == change.old, "changes come in order, none left out"
        if change.new is None:
            del self.replica[change.key]
        else:
            self.replica[change.key] = change.new
            assert change.old is None or change.old.uid == change.new.uid

    def check(self) -> None:
        shown = {Key(item.namespace, item.name): item for item in self.cache.values()}
        assert shown == self.replica
        for name in NAMES:
            self.check_key(key(name), shown.get(key(name)))
        for owner in NAMES:
            indexed = {item.name: item for item in self.cache.list_by_index("owner", owner)}
            assert indexed == {item.name: item for item in shown.values() if item.owner == owner}

    def check_key(self, of: Key, item: Item | None) -> None:
        """Check that the shown object is that of some version, and that this version is not older than a known one."""
        behind = self.behind.get(of, 0)
        state = (item.uid, item.resource_version) if item else None
        for begin, end, held in self.states(of.name):
            if held == state and (end is None or end > behind):
                self.behind[of] = max(behind, begin)
                return
        raise AssertionError(f"{of}: shows {state}, but {behind} is known: {list(self.states(of.name))}")

    def states(self, name: str) -> Iterator[tuple[int, int | None, tuple[str, int] | None]]:
        begin, held = 0, None
        for change in self.server.history:
            doc = change.after or change.before or {}
            if doc["metadata"]["name"] != name:
                continue
            yield begin, change.version, held
            begin = change.version
            held = (doc["metadata"]["uid"], change.version) if change.after else None
        yield begin, None, held

    # ── what may happen ──────────────────────────────────────────────────────

    async def take(self, step: Step) -> None:
        written = self.write(step)
        if written is not None:
            self.on_the_way.append((step.answer_after, Answer(key(step.name), written)))
        else:
            await self.disturb(step)
        self.arrive()
        self.check()
        self.gate_opens_in -= 1
        if self.gate_opens_in < 0:
            self.open_gate()

    def write(self, step: Step) -> Written | None:
        """A write of the own client; None for every other step, and for rejected writes."""
        server, name = self.server, step.name
        there = server.objects.get(name)
        match step.what:
            case "create" if there is None:
                return server.create(name, self.value(), owner=name)
            case "change" if there is not None:
                return server.change(name, self.value(), owner=name)
            case "delete" | "begin to delete":
                return self.delete(step.what, name)
            case _:
                return None

    def delete(self, what: str, name: str) -> Written | None:
        """Delete the object that the cache shows, by its uid."""
        item = self.cache.get(key(name))
        there = self.server.objects.get(name)
        if item is None:
            return None
        if there is None:
            ended = next(
                change.version
                for change in self.server.history
                if change.after is None and change.before and change.before["metadata"]["uid"] == item.uid
            )
            return Written(b"", item.uid, ended, is_gone=True)
        if there["metadata"]["uid"] != item.uid:
            return None  # Conflict
        if what == "begin to delete":
            return self.server.mark(name)
        return self.server.remove(name, returns_object=self.rng.random() < 0.5)

    def arrive(self) -> None:
        waiting = [(steps - 1, answer) for steps, answer in self.on_the_way if steps > 0]
        due = [answer for steps, answer in self.on_the_way if steps <= 0]
        self.on_the_way = waiting
        for answer in due:
            written = answer.written
            if written.is_gone:
                self.cache.observe_deleted(answer.key, written.uid, written.answer)
            else:
                self.cache.observe_written(written.answer)
            self.behind[answer.key] = max(self.behind.get(answer.key, 0), written.version)
            self.check()

    async def disturb(self, step: Step) -> None:
        server, name = self.server, step.name
        there = name in server.objects
        match step.what:
            case "other creates" if not there:
                server.create(name, self.value(), owner=name)
            case "other changes" if there:
                server.change(name, self.value(), owner=self.rng.choice(NAMES))
            case "other deletes" if there:
                server.remove(name)
            case "wait":
                await asyncio.sleep((0.01, 1.0, 40.0, 130.0)[step.number % 4])
            case "deliver":
                if server.held_from is not None:
                    server.deliver(step.number)
                await asyncio.sleep(0.001)
            case "bookmark":
                if all(not list(server.history_after(stream.seen)) for stream in server.streams):
                    server.bookmark()
            case "repeat":
                self.repeat(step.number)
            case "cut":
                server.cut()
            case "end":
                server.end()
            case "410":
                server.expire()
            case "compact":
                server.compact()
                server.cut()
            case "silence":
                server.stalled = not server.stalled
                server.wake()
            case "refuse watch":
                refusals = (failure(500, "InternalError"), failure(410, "Gone"), UnreachableError("no"))
                server.refuse("watch", refusals[step.number % 3])
                server.cut()
            case "refuse list":
                refusals = (
                    failure(503, "ServiceUnavailable"),
                    failure(410, "Expired"),
                    ConnectionLostError("no"),
                )
                server.refuse("list", refusals[step.number % 3])
            case "list begins":
                # The response is created now, and arrives some steps later; until then there is no watch.
                if server.list_gate is None:
                    server.list_gate = asyncio.Event()
                    self.gate_opens_in = step.number
                server.expire()
                await asyncio.sleep(1.0)
            case "stale list":
                self.prepare_stale_list()
            case _:
                pass

    def repeat(self, number: int) -> None:
        """Deliver an earlier event once more."""
        for stream in self.server.streams:
            delivered = [change for change in self.server.history if change.version <= stream.seen]
            if delivered:
                change = delivered[-1 - number % len(delivered)]
                event = stream._event(change)
                assert event is not None
                self.server.send(line(*event))

    def prepare_stale_list(self) -> None:
        """Make the next list stale: a write after it gets its response first."""
        if "stale" in self.server.objects or self.stale_lists == 3:
            return
        self.stale_lists += 1
        self.server.stale_list = self.server.list_page({})
        written = self.server.create("stale")
        self.cache.observe_written(written.answer)
        self.cache.observe_deleted(key("stale"), written.uid, self.server.remove("stale").answer)

    def open_gate(self) -> None:
        if self.server.list_gate is not None:
            self.server.list_gate.set()
            self.server.list_gate = None

    def value(self) -> int:
        self.values += 1
        return self.values

    # ── the end ──────────────────────────────────────────────────────────────

    async def come_to_rest(self) -> None:
        while self.on_the_way:
            self.arrive()
        self.open_gate()
        self.server.stalled = False
        for refusals in self.server.refusals.values():
            refusals.clear()
        self.server.deliver()
        await asyncio.sleep(200)
        self.server.bookmark()
        await asyncio.sleep(1)
        self.check()
        assert {item.name: item.resource_version for item in self.cache.values()} == {
            name: int(doc["metadata"]["resourceVersion"]) for name, doc in self.server.objects.items()
        }
        stats = self.cache.read_stats()
        assert (stats.pending, stats.tombstones, stats.connected) == (0, 0, True)
        assert stats.position == self.server.version


async def play(steps: list[Step], seed: int) -> None:
    world = World(seed)
    world.server.hold()
    running = asyncio.create_task(world.cache.run())
    try:
        await asyncio.sleep(0.01)
        for step in steps:
            await world.take(step)
        await world.come_to_rest()
    finally:
        running.cancel()
        await asyncio.wait([running])


OWN = ("create", "change", "delete", "begin to delete")
OTHERS = ("other creates", "other changes", "other deletes")
FAULTS = (
    "repeat",
    "cut",
    "end",
    "410",
    "compact",
    "silence",
    "refuse watch",
    "refuse list",
    "list begins",
    "stale list",
)

steps = st.lists(
    st.one_of(
        st.builds(Step, st.sampled_from(OWN), st.sampled_from(NAMES), st.integers(0, 6)),
        st.builds(Step, st.sampled_from(OTHERS), st.sampled_from(NAMES)),
        st.builds(Step, st.just("deliver"), number=st.integers(1, 3)),
        st.builds(Step, st.sampled_from(("deliver", "wait", "bookmark")), number=st.integers(0, 3)),
        st.builds(Step, st.sampled_from(FAULTS), number=st.integers(0, 8)),
    ),
    min_size=15,
    max_size=80,
)


@contextmanager
def virtual_time() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner


@examples(2, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps, seed=st.integers(0, 3))
@example(
    # Others deleted and created an object again, and the response to the next own write arrives before all of it.
    steps=[
        Step("other creates"),
        Step("deliver", number=1),
        Step("other deletes"),
        Step("other creates"),
        Step("change"),
        Step("delete", answer_after=2),
        Step("list begins", number=2),
        Step("create"),
    ],
    seed=0,
)
def test_the_cache_never_regresses_and_ends_equal_to_the_server(steps: list[Step], seed: int) -> None:
    with virtual_time() as runner:
        runner.run(play(steps, seed))
