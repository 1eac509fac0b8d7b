"""A small world of any operator. First the operator works until the world is at rest (no more steps follow). Then
every next step is chosen.

SmallWorld(simulation, before, actions, faults) ──▶ explore() ──▶ searching.py ──▶ Graph ──▶ Exploration

The operator, the manifests, the actions and the rules are those of a Simulation. Rules of `always` are checked after
each write, rules of `at_rest` when nothing can happen any more. States that are equal are explored once, regardless
of the path to them. So rules should read stored objects: a rule that reads `store.list_writes()` is checked on only
one path to each state.

An operator may keep memory that the runtime knows (caches, queues, plans). Other variables are not part of a state,
so states that differ only in them are treated as equal.
"""

import asyncio
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.runtime.operator import Operator
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.testing.contents import documents_of, put_all
from pykruise.testing.exploration.choices import Choice, ChoiceGates, Chooser
from pykruise.testing.exploration.deciding import (
    KUBELET_SETTINGS,
    QUIET_S,
    GatedCluster,
    Moments,
    describe_waiting,
    gate_reconciles,
    note_plans,
)
from pykruise.testing.exploration.graph import Graph
from pykruise.testing.exploration.searching import follow_labels, search
from pykruise.testing.exploration.states import Names, VersionedStorage, remembered
from pykruise.testing.exploration.wires import Faults, GatedWire, ReconcileLog
from pykruise.testing.simulation.history import SENDER
from pykruise.testing.simulation.network import NetworkFaults
from pykruise.testing.simulation.store import SILENT, ObservedStorage, SimulatedStore
from pykruise.testing.simulation.worlds import START, Simulation, Violation, judge

__all__ = [
    "EXPLORED_FAULTS",
    "Exploration",
    "ExplorationFailure",
    "SmallWorld",
    "check_all",
    "explore",
    "replay",
]

EXPLORED_FAULTS: Final = (
    *("conflict", "error", "error after the fact", "request lost", "answer lost", "late effect", "refused"),
    *("crash", "gone"),
)
"""Faults that a small world may have, each at most once: a fault of one write, the end and restart of the operator
(`crash`), and a watch whose history is compacted (`gone`).
"""

_LONGEST_START_S: Final = 600


class SmallWorld(msgspec.Struct, frozen=True, kw_only=True):
    """A world, and what may happen in it. Each further action or fault multiplies its states."""

    simulation: Simulation
    """The operator (`work`), manifests, actions and rules. `faults`, `length_s` and `start` are not used."""
    before: Sequence[str] = ()
    """Names of actions that are done before the exploration begins. The world comes to rest after them."""
    actions: Sequence[str]
    """Names of actions that users do in this order, each at any moment. The first action is the first step."""
    faults: Sequence[str] = ()
    """Kinds of faults, out of EXPLORED_FAULTS. At most one write gets a fault."""
    lag: int = 2
    """Maximum number of events by which the watch of a resource may lag. At this lag, one of its events is delivered
    next.
    """
    answers_apart: bool = False
    """Whether events may arrive between a write and its response. This adds states."""
    moment_s: float = 1.0
    """A delay of at most this length, such as the delay before the first retry, may end while other steps wait."""


class ExplorationFailure(msgspec.Struct, frozen=True):
    """A rule that some order of events breaks."""

    rule: str
    """Name of the rule's function; `rest`: from this state the world never comes to rest; `operator`: the operator
    ended; `world`: an unexpected error.
    """
    what: str
    path: tuple[str, ...]
    """The choices from the beginning to the failure."""

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.rule}: {self.what}",
                *(f"  {number}. {label}" for number, label in enumerate(self.path, 1)),
            ]
        )


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an exploration."""

    states: int
    transitions: int
    rests: int
    """Number of states in which nothing can happen any more."""
    is_complete: bool
    """Whether every state was followed; otherwise the bound was too small, or the search stopped at a broken rule."""
    failure: ExplorationFailure | None
    """The failure with the shortest path; None if no rule was broken."""

    def __str__(self) -> str:
        end = "" if self.is_complete else ", and there are more"
        return (
            f"{format_count(self.states, 'state')}, {format_count(self.transitions, 'transition')}, "
            f"{self.rests} at rest{end}"
        )


def explore(
    world: SmallWorld, *, most_states: int = 20_000, processes: int = 0, until_broken: bool = True
) -> Exploration:
    """Try every order of writes, events, reconciles, actions and faults.

    `most_states`: bound; a state costs some milliseconds and some bytes. `processes`: number of parallel processes;
    0: one per processor. `until_broken`: stop at the first broken rule. Needs `os.fork` (Linux, macOS). Raises
    ValueError for a world that cannot be explored.
    """
    _check_world(world)
    count = processes or os.cpu_count() or 1
    steps = search(
        lambda choose: _World(world).play(choose),
        most_states=most_states,
        processes=count,
        until_broken=until_broken,
    )
    graph = Graph(steps)
    is_complete = not graph.left and not (until_broken and graph.broken)
    return Exploration(
        states=len(graph.states),
        transitions=graph.transitions,
        rests=len(graph.rests),
        is_complete=is_complete,
        failure=_find_failure(graph, is_complete=is_complete),
    )


def _find_failure(graph: Graph, *, is_complete: bool) -> ExplorationFailure | None:
    if graph.broken:
        step = min(graph.broken, key=lambda item: len(item.path))
        return ExplorationFailure(step.rule, step.what, step.path)
    stuck = graph.stuck() if is_complete else set()
    if not stuck:
        return None
    path = min((tuple(graph.path_to(state)) for state in stuck), key=len)
    return ExplorationFailure(
        "rest", f"{format_count(len(stuck), 'state has', 'states have')} no way to come to rest", path
    )


def replay(world: SmallWorld, path: Sequence[str]) -> Violation | None:
    """Play the path of a failure again, and return the rule that is broken at its end.

    Return None if no rule is broken. This is always so for a failure of `rest`, which concerns all paths that continue
    from there.
    """
    _check_world(world)
    violation, _ = follow_labels(lambda choose: _World(world).play(choose), path)
    return violation


def check_all(world: SmallWorld, *, most_states: int = 20_000, processes: int = 0) -> Exploration:
    """Explore in a test, and return the sizes. Raises AssertionError with the path to a broken rule, and for a world
    that has more states than `most_states`. `processes`: as in `explore`.
    """
    __tracebackhide__ = True
    result = explore(world, most_states=most_states, processes=processes)
    if result.failure is not None:
        raise AssertionError(f"{result}\n{result.failure}")
    if not result.is_complete:
        raise AssertionError(
            f"{result}: some cases were not tried; give fewer actions or faults, or a higher most_states"
        )
    return result


def _check_world(world: SmallWorld) -> None:
    if not hasattr(os, "fork"):
        raise ValueError("exploration needs os.fork, which this system does not have")
    if world.simulation.start is not None or not world.simulation.work:
        raise ValueError("a small world needs an operator on pykruise.runtime: give Simulation(work=[…])")
    unknown = sorted({*world.before, *world.actions} - set(world.simulation.actions))
    if unknown:
        raise ValueError(f"the simulation has no action {unknown[0]!r}")
    if not world.actions:
        raise ValueError("without an action nothing happens: give at least one action")
    wrong = sorted(set(world.faults) - set(EXPLORED_FAULTS))
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not one of: {', '.join(EXPLORED_FAULTS)}")


class _Storage(VersionedStorage, ObservedStorage):
    """Keeps every version of each object, and calls the rules."""


class _Life(msgspec.Struct):
    operator: Operator
    wire: GatedWire
    task: asyncio.Task[None]


class _World:
    """A world whose steps are chosen; see DecidedWorld."""

    def __init__(self, world: SmallWorld) -> None:
        self._plan = world
        self._simulation = world.simulation
        self._rng = random.Random(1)
        self._gates = ChoiceGates()
        writes = tuple(kind for kind in world.faults if kind not in ("crash", "gone"))
        self._faults = Faults(writes, 1)
        self._watch_faults = Faults(("gone",), int("gone" in world.faults))
        self._crashes = int("crash" in world.faults)
        self._actions_done = 0
        self._violations: list[Violation] = []
        self._logs: list[ReconcileLog] = []
        self._lives: list[_Life] = []
        self._started = 0
        self._helpers: set[asyncio.Task[Any]] = set()
        self._suffixes: dict[tuple[str, Key], str] = {}
        self._watches: set[str] = set()
        """Plurals of the resources whose events wait."""

    async def play(self, choose: Chooser) -> NoReturn:
        """Bring the world to rest, and then let `choose` decide. Raises RuntimeError if the world does not come to
        rest.
        """
        self._clock = make_loop_clock(start=START)
        self._storage = _Storage(clock=self._clock, start=START)
        self._store = SimulatedStore(self._storage)
        async with self._make_cluster() as cluster:
            self._cluster = cluster
            self._user = cluster.make_client("user")
            SENDER.set("user")
            await put_all(self._user, [("", item) for item in documents_of(self._simulation.manifests)])
            self._storage.on_write = self._judge_write
            self._start_operator()
            for name in self._plan.before:
                await self._act(name, 0)
            await self._come_to_rest()
            await Moments(self, self._gates, choose, moment_s=self._plan.moment_s, last=("node ",)).run()
        raise AssertionError

    async def _come_to_rest(self) -> None:
        problems: list[Violation] = []
        for _ in range(_LONGEST_START_S):
            await asyncio.sleep(1.0)
            problems = [*self._violations, *judge(self._simulation.at_rest, self._store, self._now())]
            if not problems and self._clock() - self._storage.last_change_at >= QUIET_S:
                return
        raise RuntimeError(
            f"the world did not come to rest before the first action: {problems[0] if problems else 'objects change'}"
        )

    def _make_cluster(self) -> Cluster:
        class _Gated(GatedCluster):
            gates = self._gates

        simulation = self._simulation
        kubelet = msgspec.convert({"lease_s": None, "heartbeat_s": 1e9, **KUBELET_SETTINGS}, KubeletSettings)
        settings = ClusterSettings(
            nodes=simulation.nodes, kubelet=kubelet, tracks_fields=False, controllers=simulation.controllers
        )
        return _Gated(settings, clock=self._clock, rng=self._branch_rng(), storage=self._storage)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _branch_rng(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))

    # ── the operator ─────────────────────────────────────────────────────────

    def _start_operator(self) -> None:
        self._started += 1
        name = f"operator-{self._started}"
        wire = GatedWire(
            self._cluster.make_transport(name),
            name=name,
            network_faults=NetworkFaults((), now=self._now),
            rng=self._branch_rng(),
            latency_s=0.0,
            gates=self._gates,
            faults=self._faults,
            watch_faults=self._watch_faults,
            watches=self._watches,
            are_answers_apart=self._plan.answers_apart,
        )
        client = Client(wire, clock=self._clock, user_agent="operator", rng=self._branch_rng())
        work = self._simulation.work
        operator = Operator(client, work, clock=self._clock, rng=self._branch_rng(), cpu_time=skip_measuring)
        self._watches.update(resource.plural for resource in operator.sources.by_resource)
        for controller in operator.controllers:
            gate_reconciles(controller, self._gates, self._logs)
        note_plans(operator)
        task = asyncio.get_running_loop().create_task(operator.run())
        task.add_done_callback(self._on_operator_ended)
        self._lives.append(_Life(operator, wire, task))

    def _on_operator_ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or not any(life.task is task for life in self._lives):
            return
        error = task.exception()
        how = f"{type(error).__name__}: {error}" if error is not None else "it returned"
        self._violations.append(Violation("operator", f"the operator ended unexpectedly: {how}", self._now()))

    async def _crash(self) -> None:
        for life in tuple(self._lives):
            self._lives.remove(life)
            life.wire.dead = True
            life.task.cancel()
            await asyncio.gather(life.task, return_exceptions=True)
        self._start_operator()

    # ── possible steps ───────────────────────────────────────────────────────

    def beginning(self) -> Choice | None:
        """Return the first action."""
        return None if self._actions_done else self._build_next_action()

    def additions(self) -> list[Choice]:
        """Return the next action, and a crash."""
        choices = [self._build_next_action()] if self._actions_done < len(self._plan.actions) else []
        if self._crashes:
            choices.append(Choice("the operator is killed, and another starts", self._begin_crash))
        return choices

    def _build_next_action(self) -> Choice:
        number = self._actions_done
        name = self._plan.actions[number]

        def do() -> None:
            self._actions_done += 1
            self._help(self._act(name, number))

        return Choice(f"a user: {name}", do)

    def _begin_crash(self) -> None:
        self._crashes -= 1
        self._help(self._crash())

    async def _act(self, name: str, number: int) -> None:
        SENDER.set("user")
        with suppress(KubeError):
            await self._simulation.actions[name](self._user, random.Random(number))

    def _help(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)

    def violation(self) -> Violation | None:
        """Return the first broken rule."""
        return self._violations[0] if self._violations else None

    def judge_rest(self) -> None:
        """Check the rules of `at_rest`."""
        if not self._violations:
            self._violations += list(judge(self._simulation.at_rest, self._store, self._now()))[:1]

    def _judge_write(self) -> None:
        if not self._violations:
            self._violations += list(judge(self._simulation.always, self._store, self._now()))[:1]

    def is_late(self, plural: str) -> bool:
        """Return whether the watch of the resource has its maximum lag."""
        return any(
            len(self._storage.after(str(resource), cache.position)) >= self._plan.lag
            for life in self._lives
            for resource, cache in life.operator.sources.by_resource.items()
            if resource.plural == plural
        )

    # ── states ───────────────────────────────────────────────────────────────

    def text(self, is_rest: bool) -> str:
        """Return the text of the state: stored objects, memories of operators, and waiting steps."""
        shelves = sorted({shelf for shelf, _ in self._storage.order} - SILENT)
        parts = [
            f"{shelf} {key} {self._storage.text_of(shelf, key, version)}"
            for shelf in shelves
            for key, version in self._storage.objects(shelf)
        ]
        now, clock = self._now(), self._clock()
        parts += [
            remembered(life.operator, self._storage, self._watches, now=now, clock=clock)
            for life in self._lives
        ]
        parts += describe_waiting(self._gates, self._logs)
        parts.append(
            f"{is_rest} {self._actions_done} {self._crashes} {self._faults.left} {self._watch_faults.left}"
        )
        return "\n".join(parts)

    def names(self) -> Names:
        """Return the numbers of names that the API server has generated."""
        for shelf, key in self._storage.order.keys() - self._suffixes.keys():
            self._suffixes[shelf, key] = self._read_suffix(shelf, key)
        shelves = {shelf for shelf, _ in self._storage.order}
        current = {item.revision for shelf in shelves for item in self._storage.scan(shelf).items}
        return Names({suffix for suffix in self._suffixes.values() if suffix}, current)

    def _read_suffix(self, shelf: str, key: Key) -> str:
        """Return the random end of a name; empty if the name is not random."""
        raw = self._storage.raw[shelf, key, self._storage.order[shelf, key]]
        prefix = get_path(decode(raw), "metadata", "generateName")
        return key.name.removeprefix(prefix) if prefix and key.name.startswith(prefix) else ""
