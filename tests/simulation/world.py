"""One simulation: a cluster, its managers, deeds and faults on one virtual clock, and what came of it.

Script ──▶ run() ──▶ Outcome (violations, trace)

Everything runs in one event loop with virtual time and seeded randomness, so a script gives the same trace each
time. After the last deed all is healed; then the workload has to come to rest as it was asked for, and once at
rest nothing may be written any more.
"""

import asyncio
import gc
import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from pykruise.admission.reviewers import reviewers
from pykruise.kinds import crds
from pykruise.kinds import kinds as all_kinds
from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED
from pykruise.kube.client import Client
from pykruise.kube.clock import loop_clock, parse_time
from pykruise.kube.controller import unmeasured
from pykruise.kube.event_batching import Pace
from pykruise.kube.ids import Key
from pykruise.kube.leases import LeaderElector
from pykruise.kube.membership import Membership
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from pykruise.kube.slots import slot_of
from pykruise.kube.transport import Transport
from pykruise.manager.manager import Manager
from pykruise.manager.settings import Settings
from pykruise.runtime.reconcile import Reconciler
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.pod_state import KubeletSettings
from pykruise.sandbox.virtual_time import VirtualLoop
from simulation.beside import Together
from simulation.deeds import Deeds
from simulation.history import SENDER, TURN, Commit, RecordingStorage, Turn
from simulation.kinds import KINDS as SIMULATED
from simulation.network import Weather, Wire
from simulation.pods import STATE
from simulation.rules import Violation
from simulation.script import Deed, Script
from simulation.webhooks import NAMESPACE as OWN_NAMESPACE
from simulation.webhooks import Webhooks

__all__ = ["Outcome", "run"]

START = parse_time("2026-01-31T12:00:00Z")
NAMESPACE = "sim"
NAME = "web"
PACE = Pace(burst=2, per_s=5.0, wait_s=0.1)
"""Stricter than a manager's own: scripts have few pods."""
QUIET_S = 40.0
"""So long nothing may have changed for the workload to be at rest."""
PATIENCE_S = 3600.0
"""So long it may take to come to rest once all is healed."""
REST_S = 60.0
"""So long a restarted manager is watched for writes that nothing calls for."""
MOST_WRITES = 3000
MANAGER_KINDS = (
    *("crash", "second leader", "clock jump", "compact", "graceful restart"),
    *("kill leader", "stop leader", "cut leader"),
)
"""Faults of the manager itself, or of everybody."""


CONTROLLERS = (
    "claims",
    "node-lifecycle",
    "pod-collector",
    "storage-class",
    "taint-eviction",
    "volumes",
)
"""Of those that every Kubernetes brings: the ones that have something to do here."""
COLLECTED = (PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS)
DEFINITIONS = {crd["metadata"]["name"]: crd for crd in crds()}


class Outcome(msgspec.Struct, frozen=True):
    """What came of a simulation."""

    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    writes: int
    """By managers, events apart."""
    seconds: float
    """Virtual."""

    @property
    def rule(self) -> str:
        """The first rule that was broken; empty: none."""
        return self.violations[0].rule if self.violations else ""


def run(script: Script) -> Outcome:
    """Play a script from beginning to end.

    The garbage collector of Python waits meanwhile: what it ends, such as a generator that nobody finished,
    would end at another moment each time. And it would take a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(_World(script).play())
    finally:
        if was_on:
            gc.enable()


class _Life:
    """One manager from its start to its end."""

    def __init__(self, manager: Manager, wires: tuple[Wire, ...], task: "asyncio.Task[None]") -> None:
        self.manager = manager
        self.wires = wires
        """Of the manager, and of its elector where it has one."""
        self.task = task

    @property
    def writes(self) -> int:
        """Of the manager; renewals of its Lease are none."""
        return self.wires[0].writes

    def cut(self, *, is_cut: bool) -> None:
        """Nothing leaves or reaches it any more, or all does again."""
        for wire in self.wires:
            wire.dead = is_cut


class _World:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._kind = SIMULATED[script.kind]
        self._resource = self._kind.resource
        self._beside = self._kind.beside
        self._resources = (
            self._resource,
            *self._kind.makes,
            *((self._beside,) if self._beside is not None else ()),
        )
        """Of the kinds whose controllers run."""
        self._rng = random.Random(script.seed)
        self._found: list[Violation] = []
        self._lives: list[_Life] = []
        self._count = 0
        self._skew_s = 0.0
        self._writes = 0
        self._turns = 0
        self._helpers: set[asyncio.Task[Any]] = set()

    async def play(self) -> Outcome:
        """The whole script."""
        script = self._script
        clock = loop_clock(start=START)
        self._clock = clock
        skew = sum(abs(fault.seconds) for fault in script.faults if fault.kind == "clock jump")
        self._rules = self._kind.rules(
            namespace=NAMESPACE, name=NAME, start=START, skew_s=skew, is_calm=not script.faults
        )
        self._storage = RecordingStorage(clock=clock, start=START, shelves=self._rules.shelves)
        self._storage.listen = self._on_commit
        self._weather = Weather(script.faults, now=self._now)
        kubelet = msgspec.convert({"lease_s": None, "heartbeat_s": 1e9, **script.kubelet}, KubeletSettings)
        settings = ClusterSettings(
            nodes=script.nodes,
            kubelet=kubelet,
            tracks_fields=False,
            controllers=CONTROLLERS,
            collected=(*COLLECTED, *self._resources),
        )
        webhooks = self._webhooks() if self._beside else None
        rules = webhooks.rules() if webhooks else reviewers()
        cluster = Cluster(settings, clock=clock, rng=self._branch(), reviewers=rules, storage=self._storage)
        self._cluster = cluster
        self._client = cluster.client_for("user")
        SENDER.set("user")
        for resource in self._resources:
            definition = DEFINITIONS.get(f"{resource.plural}.{resource.group}")
            if definition is not None:
                await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        for name in (NAMESPACE, *([OWN_NAMESPACE] if self._beside else ())):
            await self._client.create(NAMESPACES, "", {"metadata": {"name": name}})
        SENDER.set("")
        async with cluster, AsyncExitStack() as stack:
            if webhooks is not None:
                stack.enter_context(webhooks.running(cluster.transport_for))
            SENDER.set("user")
            self._deeds = Deeds(
                self._client,
                cluster.kubelets,
                resource=self._resource,
                namespace=NAMESPACE,
                name=NAME,
                first=script.object,
                beside=(self._beside, script.beside) if self._beside else None,
            )
            for _ in range(script.managers):
                self._start_manager()
            if script.beside:
                await self._deeds.do(Deed(0.0, "create_beside"))
            await self._client.create(self._resource, NAMESPACE, script.object)
            try:
                await self._tell()
                if not self._found:
                    await self._come_to_rest()
            finally:
                await self._end()
        return Outcome(tuple(self._found), tuple(self._storage.trace), self._writes, self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _branch(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))

    # ── the script ───────────────────────────────────────────────────────────

    async def _tell(self) -> None:
        steps = [(deed.at, 0, deed) for deed in self._script.deeds]
        steps += [(fault.at, 1, fault) for fault in self._script.faults if fault.kind in MANAGER_KINDS]  # type: ignore[misc]
        begun = self._now()
        for at, _, step in sorted(steps, key=lambda one: one[:2]):
            await asyncio.sleep(max(0.0, begun + at - self._now()))
            if self._found:
                return
            if hasattr(step, "do"):
                self._help(self._deeds.do(step))
            else:
                self._help(self._strike(step))

    def _help(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helped)

    def _helped(self, task: "asyncio.Task[Any]") -> None:
        self._helpers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break("simulator", f"{type(error).__name__}: {error}")

    async def _strike(self, fault: Any) -> None:
        match fault.kind:
            case "crash":
                await self._at_any_await(fault.count)
                await self._kill()
                await asyncio.sleep(fault.seconds)
                if not self._lives:
                    self._start_manager()
            case "graceful restart":
                for life in self._lives:
                    life.manager.stop()
                for life in tuple(self._lives):
                    await asyncio.wait({life.task}, timeout=60.0)
                await self._kill()
                self._start_manager()
            case "kill leader" | "stop leader" if (leader := self._leader()) is not None:
                if fault.kind == "kill leader":
                    await self._kill(leader)
                else:
                    leader.manager.stop()
                    await asyncio.wait({leader.task}, timeout=60.0)
                    await self._kill(leader)
                await asyncio.sleep(fault.seconds)
                self._start_manager()
            case "cut leader" if (leader := self._leader()) is not None:
                # A network that comes back: what was sent travels on, and who was cut off stands again.
                leader.cut(is_cut=True)
                await asyncio.sleep(fault.seconds)
                leader.cut(is_cut=False)
            case "second leader":
                life = self._start_manager()
                await asyncio.sleep(fault.seconds)
                if life in self._lives and len(self._lives) > 1:
                    await self._kill(life)
            case "clock jump":
                self._skew_s += fault.seconds
            case "compact":
                self._storage.compact(self._storage.revision)

    async def _at_any_await(self, steps: int) -> None:
        """Wait so many turns of the loop: any task may be at any of its awaits then."""
        for _ in range(steps):
            await asyncio.sleep(0)

    # ── webhooks ─────────────────────────────────────────────────────────────

    def _webhooks(self) -> Webhooks:
        def wire(name: str, inner: Transport) -> Transport:
            return Wire(
                inner,
                name=name,
                weather=self._weather,
                rng=self._branch(),
                latency_s=self._script.latency_s,
                decides=False,
            )

        assert self._beside is not None
        return Webhooks(
            self._beside.plural,
            wire,
            clock=self._clock,
            branch=self._branch,
            versioned=self._versioned(),
            gates=self._kind.gates,
            revision=lambda: self._storage.revision,
            on_prevented=self._on_prevented,
        )

    def _on_prevented(self, pod: str) -> None:
        assert isinstance(self._rules, Together)
        self._found += self._rules.on_prevented(pod, self._now())

    def _versioned(self) -> tuple[str, ...]:
        """Kinds whose revisions a WorkloadSpread tells apart."""
        return (*sorted(DEFAULT_VERSIONED), *(["cloneset"] if self._script.is_versioned else ()))

    # ── managers ─────────────────────────────────────────────────────────────

    def _leader(self) -> _Life | None:
        """Who works on the workload."""
        return next((life for life in self._lives if self._works(life.manager)), None)

    def _works(self, manager: Manager) -> bool:
        if manager.membership is None:
            return manager.is_leading
        kind = next(kind for kind in manager.kinds if kind.resource == self._resource)
        assert kind.control is not None
        return slot_of(kind.control.name, Key(NAMESPACE, NAME)) in manager.membership.stats().held

    def _wire(self, name: str) -> Wire:
        return Wire(
            self._cluster.transport_for(name),
            name=name,
            weather=self._weather,
            rng=self._branch(),
            latency_s=self._script.latency_s,
        )

    def _elector(self, name: str, wire: Wire) -> LeaderElector:
        return LeaderElector(
            Client(wire, clock=self._clock, rng=self._branch()),
            namespace=NAMESPACE,
            name="kruise-manager",
            identity=name,
            clock=self._clock,
            rng=self._branch(),
        )

    def _membership(self, name: str, wire: Wire) -> Membership:
        return Membership(
            Client(wire, clock=self._clock, rng=self._branch()),
            namespace=NAMESPACE,
            name="kruise-manager",
            identity=name,
            members=self._script.managers,
            clock=self._clock,
            rng=self._branch(),
        )

    def _start_manager(self) -> _Life:
        self._count += 1
        name = f"manager-{self._count}"
        wire = self._wire(name)
        wires = (wire,) if self._script.managers == 1 else (wire, self._wire(name))

        def clock() -> float:
            return self._clock() + self._skew_s

        client = Client(wire, clock=clock, rng=self._branch())
        kinds = [kind for kind in all_kinds() if kind.resource in self._resources]
        manager = Manager(
            client,
            settings=Settings(
                gates=self._kind.gates, flags={"ws-enabled-versioned-status": self._versioned()}
            ),
            elector=self._elector(name, wires[1]) if len(wires) > 1 and not self._script.shares else None,
            membership=self._membership(name, wires[1]) if self._script.shares else None,
            clock=clock,
            rng=self._branch(),
            cpu_time=unmeasured,
            kinds=kinds,
            pace=PACE if self._script.reads_in_portions else None,
        )
        for controller in manager.controllers:
            self._watch_turns(name, manager, wire, controller)
        life = _Life(manager, wires, asyncio.get_running_loop().create_task(manager.run()))
        life.task.add_done_callback(self._ended)
        self._lives.append(life)
        return life

    def _watch_turns(self, name: str, manager: Manager, wire: Wire, controller: Any) -> None:
        """Note what the caches know whenever a turn begins: the turn's requests carry it along."""
        turn: Reconciler = controller._reconcile

        async def noted(key: Any) -> float | None:
            self._turns += 1
            known = manager.positions()
            for path, version in wire.held.items():
                for resource in known:
                    if path.endswith("/" + resource.partition(".")[0]):
                        known[resource] = min(known[resource], version - 1)
            TURN.set(Turn(name, self._turns, self._now(), known, controller.name))
            return await turn(key)

        controller._reconcile = noted

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break("manager", f"the manager died: {type(error).__name__}: {error}")

    async def _kill(self, life: _Life | None = None) -> None:
        """As kill -9 would: what has been sent travels on, or not; nothing else happens."""
        for one in [life] if life else tuple(self._lives):
            if one in self._lives:
                self._lives.remove(one)
            one.cut(is_cut=True)
            one.task.cancel()
            await asyncio.gather(one.task, return_exceptions=True)
            self._writes += one.writes

    # ── what is seen ─────────────────────────────────────────────────────────

    def _on_commit(self, commit: Commit) -> None:
        for violation in self._rules.on_commit(commit):
            self._found.append(violation)
        if commit.turn is not None:
            self._stop_if_it_never_ends()
        if commit.shelf == PODS.plural and commit.new is not None and commit.sender != "user":
            self._serve_hooks(commit)

    def _stop_if_it_never_ends(self) -> None:
        """A manager that writes for ever is cut off: what is known by then is enough."""
        writes = self._writes + sum(life.writes for life in self._lives)
        if writes > MOST_WRITES and not self._found:
            self._break("writes", f"{writes} writes are too many for so few pods")
            for life in self._lives:
                life.cut(is_cut=True)

    def _break(self, rule: str, what: str) -> None:
        self._found.append(Violation(rule, what, self._now()))

    def _serve_hooks(self, commit: Commit) -> None:
        """The controller of lifecycle hooks: takes them off a pod that prepares, puts them on one that is done."""
        assert commit.new is not None
        labels = commit.new["metadata"].get("labels") or {}
        change = self._rules.hook_answer(labels.get(STATE, ""))
        if any(labels.get(key) != value for key, value in change.items()):
            self._help(self._put_labels(commit.key.name, change, labels[STATE]))

    async def _put_labels(self, pod: str, labels: Mapping[str, str | None], state: str) -> None:
        await asyncio.sleep(self._script.hook_s)
        latest = next((one for one in self._rules.pods.latest() if one.name == pod), None)
        if latest is None or latest.state != state:
            return
        try:
            patch = {"metadata": {"labels": labels}}
            await self._client.patch(PODS, NAMESPACE, pod, patch, patch_type=PatchType.MERGE)
        except Exception:
            return

    # ── the end ──────────────────────────────────────────────────────────────

    async def _come_to_rest(self) -> None:
        """Heal everything, wait until nothing changes any more, and look."""
        self._weather.clear()
        while self._helpers:
            await asyncio.wait(self._helpers)
        await asyncio.sleep(max(0.0, self._weather.last_arrival - self._now()))
        self._skew_s = 0.0  # somebody sets the clock right
        await self._deeds.heal()
        if not self._lives:
            self._start_manager()
        while len(self._lives) > 1:
            await self._kill(self._lives[0])
        # Who was told by a wrong clock to wait has set a timer that no clock that is set right makes shorter.
        end = (
            self._now()
            + PATIENCE_S
            + sum(abs(fault.seconds) for fault in self._script.faults if fault.kind == "clock jump")
        )
        problems: list[Violation] = []
        while not self._found:
            await asyncio.sleep(QUIET_S / 4)
            last = max(
                (self._storage.last_change.get(shelf, 0.0) for shelf in self._rules.shelves), default=0.0
            )
            quiet_s = self._clock() - last
            problems = list(self._rules.at_rest(self._now()))
            if not problems and quiet_s >= QUIET_S:
                break
            if self._now() >= end:
                if not problems:
                    self._break("rest", f"it is as wanted, but still written to: {self._storage.trace[-3:]}")
                break
        if not self._found:
            self._found += problems
        if not self._found:
            await self._stay_at_rest()

    async def _stay_at_rest(self) -> None:
        """A restarted manager, and one that just waits, has nothing to write."""
        await self._kill()
        self._start_manager()
        before = len(self._storage.trace)
        await asyncio.sleep(REST_S)
        extra = [
            line
            for line in self._storage.trace[before:]
            if "manager" in line and " events " not in line and " leases." not in line
        ]
        if extra:
            self._break("rest", f"at rest, but written to after a restart: {extra[:5]}")

    async def _end(self) -> None:
        await self._kill()
        self._weather.clear()
        for task in tuple(self._helpers):
            task.cancel()
        if self._helpers:
            await asyncio.wait(self._helpers)
