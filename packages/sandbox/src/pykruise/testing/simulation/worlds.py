"""One simulation of an operator: a cluster, operations and faults in virtual time, and their results.

Simulation + SimulationScript ──▶ simulate() ──▶ SimulationOutcome: broken rules, and every write

Everything runs in one event loop with virtual time and seeded randomness, so a script gives the same outcome each
time. Rules of `always` are judged after each write. After `length_s`, faults end, nodes and the operator start
again, and the cluster must come to rest; then the rules of `at_rest` are judged.
"""

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, make_loop_clock, parse_time
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.runtime.operator import Operator, Work
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.virtual_time import VirtualLoop
from pykruise.testing.contents import Manifest, documents_of, put_all
from pykruise.testing.simulation.history import SENDER
from pykruise.testing.simulation.network import NetworkFaults, Wire
from pykruise.testing.simulation.scripts import Fault, SimulatedOperation
from pykruise.testing.simulation.store import ObservedStorage, Rule, SimulatedStore

__all__ = [
    "Action",
    "Simulation",
    "SimulationOutcome",
    "SimulationScript",
    "Violation",
    "create",
    "delete",
    "patch",
    "simulate",
]

START: Final = parse_time("2026-01-31T12:00:00Z")
QUIET_S: Final = 30.0
"""Seconds without a write after which a cluster is at rest."""
MOST_WRITES: Final = 5_000

Action = Callable[[Client, random.Random], Coroutine[Any, Any, Any]]
"""An action of a user. Errors that the API server returns to it are ignored: the object may have been deleted."""

Start = Callable[[Client, Clock, random.Random], Coroutine[Any, Any, Any]]
"""Runs an operator until it is cancelled."""


class Violation(msgspec.Struct, frozen=True):
    """A rule that was broken."""

    rule: str
    """Name of the rule's function; `rest`: the cluster did not come to rest; `operator`: the operator ended."""
    what: str
    at: float
    """Seconds since the simulation began."""

    def __str__(self) -> str:
        return f"{self.at:.3f} s, {self.rule}: {self.what}"


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """An operator, its cluster, actions of users, and rules that must always hold."""

    work: Sequence[Work] = ()
    """Operators on `pykruise.runtime`."""
    start: Start | None = None
    """Another program in the same event loop, in place of `work`."""
    manifests: Sequence[Manifest] = ()
    """CRDs and objects that exist when the operator starts."""
    actions: Mapping[str, Action] = {}
    """Actions by name. A script has some of them at random times; an action may occur several times."""
    always: Sequence[Rule] = ()
    """Rules that must hold after each write."""
    at_rest: Sequence[Rule] = ()
    """Rules that must hold when nothing changes any more."""
    faults: Sequence[str] | None = None
    """Kinds of faults; None means all (`FAULTS` in hunting.py)."""
    faulty_paths: Sequence[str] = ("",)
    """Faults affect requests and watches whose path contains one of these texts (an empty text matches all)."""
    nodes: int = 2
    controllers: tuple[str, ...] | None = None
    """Built-in controllers that run; None means all."""
    length_s: float = 60.0
    """Seconds from the start within which actions and faults begin."""
    patience_s: float = 1800.0
    """Seconds after `length_s` within which the cluster must come to rest."""


class SimulationScript(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one run. `seed` determines everything that the script does not contain: uids, names, delays."""

    seed: int
    operations: tuple[SimulatedOperation, ...] = ()
    faults: tuple[Fault, ...] = ()
    latency_s: float = 0.02
    """Maximum time that a request and its response each take, in seconds."""


class SimulationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a script."""

    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    """Every write: time, revision, sender, verb, resource and key."""
    seconds: float
    """Duration of the run in virtual seconds; over HTTPS, in real seconds."""

    @property
    def rule(self) -> str:
        """The first rule that was broken; empty if no rule was broken."""
        return self.violations[0].rule if self.violations else ""


def create(document: Document) -> Action:
    """Return the action that creates an object, or merges the document into the existing object."""

    async def act(client: Client, _: random.Random) -> None:
        await put_all(client, [("", document)])

    return act


def patch(resource: Resource, name: str, *bodies: Mapping[str, Any], namespace: str = "default") -> Action:
    """Return the action that merge-patches an object with one of the bodies."""

    async def act(client: Client, rng: random.Random) -> None:
        space = namespace if resource.namespaced else ""
        await client.patch(resource, space, name, rng.choice(bodies), patch_type=PatchType.MERGE)

    return act


def delete(resource: Resource, name: str, *, namespace: str = "default") -> Action:
    """Return the action that deletes an object, and its dependents in the background."""

    async def act(client: Client, _: random.Random) -> None:
        space = namespace if resource.namespaced else ""
        await client.delete(resource, space, name, propagation="Background")

    return act


def simulate(simulation: Simulation, script: SimulationScript) -> SimulationOutcome:
    """Play a script from its beginning to its end. Logs are off during the run, because faults are intended."""
    with _undisturbed(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_World(simulation, script).play())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Turn off logs, and Python's garbage collector, which would end generators at a random time."""
    was_on, level = gc.isenabled(), logging.root.manager.disable
    gc.disable()
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)
        if was_on:
            gc.enable()


class _Life(msgspec.Struct):
    """An operator from its start to its end."""

    wire: Wire
    task: asyncio.Task[None]


class _World:
    def __init__(self, simulation: Simulation, script: SimulationScript) -> None:
        self._simulation = simulation
        self._script = script
        self._rng = random.Random(script.seed)
        self._violations: list[Violation] = []
        self._lives: list[_Life] = []
        self._started = 0
        self._skew_s = 0.0
        self._stopped_nodes: set[str] = set()
        self._acting: set[asyncio.Task[None]] = set()

    async def play(self) -> SimulationOutcome:
        self._clock = make_loop_clock(start=START)
        self._storage = ObservedStorage(clock=self._clock, start=START)
        self._store = SimulatedStore(self._storage)
        async with self._running():
            await self._play_steps()
            if not self._violations:
                await self._come_to_rest()
        return SimulationOutcome(
            violations=tuple(self._violations), trace=tuple(self._storage.trace), seconds=self._now()
        )

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        simulation = self._simulation
        kubelet = KubeletSettings(lease_s=None, heartbeat_s=1e9)
        settings = ClusterSettings(
            nodes=simulation.nodes,
            kubelet=kubelet,
            tracks_fields=False,
            controllers=simulation.controllers,
        )
        cluster = Cluster(settings, clock=self._clock, rng=self._branch_rng(), storage=self._storage)
        self._cluster = cluster
        self._faults = NetworkFaults(self._script.faults, now=self._now)
        self._user = cluster.make_client("user")
        async with cluster:
            SENDER.set("user")
            await put_all(self._user, [("", document) for document in documents_of(simulation.manifests)])
            self._storage.on_write = self._judge_write
            self._start_operator()
            try:
                yield
            finally:
                self._storage.on_write = lambda: None
                await self._kill()
                for task in self._acting:
                    task.cancel()
                await asyncio.gather(*self._acting, return_exceptions=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _branch_rng(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))

    # ── the operator ─────────────────────────────────────────────────────────

    def _start_operator(self) -> None:
        self._started += 1
        name = f"operator-{self._started}"
        wire = Wire(
            self._cluster.make_transport(name),
            name=name,
            network_faults=self._faults,
            rng=self._branch_rng(),
            latency_s=self._script.latency_s,
        )

        def clock() -> float:
            return self._clock() + self._skew_s

        rng = self._branch_rng()
        client = Client(wire, clock=clock, user_agent="operator", rng=self._branch_rng())
        start = self._simulation.start or _run_work(self._simulation.work)
        task = asyncio.get_running_loop().create_task(_run(start, client, clock, rng))
        task.add_done_callback(self._on_operator_ended)
        self._lives.append(_Life(wire, task))

    def _on_operator_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or not any(life.task is task for life in self._lives):
            return
        error = task.exception()
        how = f"{type(error).__name__}: {error}" if error is not None else "it returned"
        self._break("operator", f"the operator ended unexpectedly: {how}")

    async def _kill(self) -> None:
        """End the operator as `kill -9` does: requests that it has sent may still arrive."""
        for life in tuple(self._lives):
            self._lives.remove(life)
            life.wire.dead = True
            life.task.cancel()
            await asyncio.gather(life.task, return_exceptions=True)

    # ── steps ────────────────────────────────────────────────────────────────

    async def _play_steps(self) -> None:
        steps: list[tuple[float, int, Callable[[], Coroutine[Any, Any, None]]]] = []
        for number, operation in enumerate(self._script.operations):
            steps.append((operation.at, number, self._make_action(operation)))
        for number, fault in enumerate(self._script.faults):
            if fault.kind in WORLD_FAULTS:
                steps.append((fault.at, 10_000 + number, self._make_strike(fault)))
        begun = self._now()
        for at, _, step in sorted(steps, key=lambda step: step[:2]):
            await asyncio.sleep(max(0.0, begun + at - self._now()))
            if self._violations:
                return
            task = asyncio.get_running_loop().create_task(step())
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)
        await asyncio.sleep(max(0.0, begun + self._simulation.length_s - self._now()))

    def _make_action(self, operation: SimulatedOperation) -> Callable[[], Coroutine[Any, Any, None]]:
        async def act() -> None:
            SENDER.set("user")
            with suppress(KubeError):
                await self._simulation.actions[operation.do](self._user, rng_of(operation))

        return act

    def _make_strike(self, fault: Fault) -> Callable[[], Coroutine[Any, Any, None]]:
        async def strike() -> None:
            match fault.kind:
                case "crash":
                    for _ in range(fault.count):  # so that the crash happens at different awaits of the tasks
                        await asyncio.sleep(0)
                    await self._kill()
                    await asyncio.sleep(fault.seconds)
                    if not self._lives:
                        self._start_operator()
                case "node loss" if self._simulation.nodes:
                    name = f"node-{fault.count % self._simulation.nodes + 1}"
                    self._cluster.kubelets.stop_node(name)
                    self._stopped_nodes.add(name)
                case "clock jump":
                    self._skew_s += fault.seconds
                case "compact":
                    self._storage.compact(self._storage.revision)

        return strike

    # ── the end ──────────────────────────────────────────────────────────────

    async def _come_to_rest(self) -> None:
        self._faults.clear()
        while self._acting:
            await asyncio.wait(self._acting)
        await asyncio.sleep(max(0.0, self._faults.last_arrival - self._now()))
        self._skew_s = 0.0
        for name in sorted(self._stopped_nodes):
            self._cluster.kubelets.start_node(name)
        if not self._lives:
            self._start_operator()
        end = self._now() + self._simulation.patience_s
        problems: list[Violation] = []
        while not self._violations:
            await asyncio.sleep(QUIET_S / 3)
            quiet_s = self._clock() - self._storage.last_change_at
            if quiet_s >= QUIET_S:
                problems = list(judge(self._simulation.at_rest, self._store, self._now()))
                # A later retry may still satisfy the rule, so the result is decided only at the end.
                if not problems:
                    return
            if self._now() >= end:
                if not problems:
                    self._break("rest", f"objects still change; the last write: {self._storage.trace[-1]}")
                break
        self._violations += problems

    def _judge_write(self) -> None:
        if self._violations:
            return
        self._violations += list(judge(self._simulation.always, self._store, self._now()))[:1]
        if len(self._storage.writes) > MOST_WRITES:
            self._break("rest", f"more than {MOST_WRITES} writes; the last write: {self._storage.trace[-1]}")

    def _break(self, rule: str, what: str) -> None:
        self._violations.append(Violation(rule, what, self._now()))


def judge(rules: Iterable[Rule], store: SimulatedStore, at: float) -> Iterator[Violation]:
    """Yield the rules that are broken now."""
    for rule in rules:
        name = getattr(rule, "__name__", type(rule).__name__)
        try:
            problem = rule(store)
        except Exception as error:
            problem = f"the rule's function raised {type(error).__name__}: {error}"
        if problem:
            yield Violation(name, problem, at)


def rng_of(operation: SimulatedOperation) -> random.Random:
    """Return the source of an operation's random numbers. In a shorter script, the operation gets the same numbers."""
    return random.Random(f"{operation.do} {operation.args.get('chance', 0)}")


WORLD_FAULTS: Final = ("crash", "node loss", "clock jump", "compact")
"""Faults of the operator's process or of the whole cluster; other faults affect single requests and watches."""


def _run_work(work: Sequence[Work]) -> Start:
    async def start(client: Client, clock: Clock, rng: random.Random) -> None:
        await Operator(client, work, clock=clock, rng=rng, cpu_time=skip_measuring).run()

    return start


async def _run(start: Start, client: Client, clock: Clock, rng: random.Random) -> None:
    await start(client, clock, rng)
