"""The stage of a simulation: a cluster, its managers and webhooks, and rules that check each commit.

Script ──▶ Stage.running() ──▶ a script runs on it (world.py), or every choice is tried (exploration)

Everything runs in one event loop with virtual time and seeded randomness.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.agent.simulated import AgentTasks, make_simulated_agents
from pykruise.kinds import build_crds
from pykruise.kinds import list_kinds as all_kinds
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.sidecarset.admission_facts import WHITELIST_KEY
from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED
from pykruise.kube.admission import ReviewRule
from pykruise.kube.cache.event_batching import Pace
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.election.membership import Membership
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from pykruise.manager.manager import Manager
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.pod_groups import list_server_gates
from pykruise.plans.pod_steps import StepReport
from pykruise.plans.review import Lookups
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.api import NODE_POD_PROBES
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from pykruise.runtime.reconcile import Reconciler
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.testing.simulation.history import RECONCILE, SENDER, Commit, Reconcile, RecordingStorage
from pykruise.testing.simulation.network import NetworkFaults, Wire
from simulation.beside import Together
from simulation.kinds import KINDS as SIMULATED
from simulation.operations import Operations
from simulation.pods import STATE
from simulation.rules import Violation
from simulation.script import Operation, Script
from simulation.webhooks import NAMESPACE as OWN_NAMESPACE
from simulation.webhooks import Webhooks

__all__ = ["NAME", "NAMESPACE", "Life", "Stage"]

START = parse_time("2026-01-31T12:00:00Z")
NAMESPACE = "sim"
ALLOWED_METADATA = {
    "metadata": {"name": CONFIGURATION},
    "data": {WHITELIST_KEY: '{"rules":[{"allowedAnnotationKeyExprs":[".*"]}]}'},
}
"""Lets SidecarSets patch every annotation of pods."""
NAME = "web"
PACE = Pace(burst=2, per_s=5.0, wait_s=0.1)
"""Stricter than the default of managers, because scripts have few pods."""
CONTROLLERS = (
    "claims",
    "node-lifecycle",
    "pod-collector",
    "storage-class",
    "taint-eviction",
    "volumes",
)
"""Built-in controllers that have work in a simulation."""
COLLECTED = (PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS)
MOST_WRITES = 3000
DEFINITIONS = {crd["metadata"]["name"]: crd for crd in build_crds()}


class Life:
    """One manager from its start to its end."""

    def __init__(self, manager: Manager, wires: tuple[Wire, ...], task: "asyncio.Task[None]") -> None:
        self.manager = manager
        self.wires = wires
        """Networks of the manager, and of its elector if it has one."""
        self.task = task

    @property
    def writes(self) -> int:
        """Writes of the manager, without renewals of its Lease."""
        return self.wires[0].writes

    def cut(self, *, is_cut: bool) -> None:
        """Cut the manager off from the network, or connect it again."""
        for wire in self.wires:
            wire.dead = is_cut


class Stage:
    """One cluster, and the records of all events."""

    has_steady_watches = False
    """See ClusterSettings."""
    is_overseen = True
    """Whether managers check their caches."""

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
        """Resources of the kinds whose controllers run."""
        self._rng = random.Random(script.seed)
        self._found: list[Violation] = []
        self._lives: list[Life] = []
        self._count = 0
        self._skew_s = 0.0
        self._writes = 0
        self._reconciles = 0
        self._helpers: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def running(self, *, skew_s: float = 0.0, is_calm: bool = True) -> AsyncIterator[None]:
        """The cluster with its managers, and the workload as it is created. `skew_s`, `is_calm`: see the rules."""
        script = self._script
        clock = make_loop_clock(start=START)
        self._clock = clock
        self._rules = self._kind.rules(
            namespace=NAMESPACE, name=NAME, start=START, skew_s=skew_s, is_calm=is_calm
        )
        self._storage = self._new_storage()
        self._storage.listen = self._on_commit
        self._network_faults = NetworkFaults(script.faults, now=self._now)
        kubelet = msgspec.convert(
            {
                "lease_s": None,
                "heartbeat_s": 1e9,
                **script.kubelet,
            },
            KubeletSettings,
        )
        tasks = AgentTasks(
            pulls_ahead=NODE_IMAGES in self._resources,
            probes=NODE_POD_PROBES in self._resources,
            recreates=CONTAINER_RECREATE_REQUESTS in self._resources,
        )
        settings = ClusterSettings(
            nodes=script.nodes,
            kubelet=kubelet,
            agents=make_simulated_agents(tasks),
            tracks_fields=False,
            steady_watches=self.has_steady_watches,
            controllers=CONTROLLERS,
            collected=(*COLLECTED, *self._resources),
            feature_gates=list_server_gates(self._kind.gates.__getitem__),
        )
        webhooks = self._webhooks() if self._beside else None
        rules = (
            webhooks.rules()
            if webhooks
            else build_reviewers(
                make_admission_settings(self._kind.gates), ReviewContext(lookups=Lookups(clock=self._clock))
            )
        )
        cluster = self._new_cluster(settings, rules)
        self._cluster = cluster
        self._client = cluster.make_client("user")
        SENDER.set("user")
        for resource in self._resources:
            definition = DEFINITIONS.get(f"{resource.plural}.{resource.group}")
            if definition is not None:
                await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        for name in (NAMESPACE, *([OWN_NAMESPACE] if self._beside else ())):
            await self._client.create(NAMESPACES, "", {"metadata": {"name": name}})
        if script.beside and script.beside["spec"].get("patchPodMetadata"):
            await self._client.create(CONFIG_MAPS, OWN_NAMESPACE, ALLOWED_METADATA)
        SENDER.set("")
        async with cluster, AsyncExitStack() as stack:
            if webhooks is not None:
                stack.enter_context(webhooks.running(cluster.make_transport))
            SENDER.set("user")
            where = NAMESPACE if self._resource.namespaced else ""
            self._operations = Operations(
                self._client,
                cluster.kubelets,
                resource=self._resource,
                namespace=where,
                name=NAME,
                first=script.object,
                beside=(self._beside, script.beside) if self._beside else None,
            )
            for _ in range(script.managers):
                self._start_manager()
            if script.beside:
                await self._operations.do(Operation(0.0, "create_beside"))
            if not self._kind.is_made_by_script:
                await self._client.create(self._resource, where, script.object)
            try:
                yield
            finally:
                await self._end()

    def _new_storage(self) -> RecordingStorage:
        return RecordingStorage(clock=self._clock, start=START, shelves=self._rules.shelves)

    def _new_cluster(self, settings: ClusterSettings, rules: Sequence[ReviewRule]) -> Cluster:
        return Cluster(
            settings, clock=self._clock, rng=self._branch(), reviewers=rules, storage=self._storage
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _branch(self) -> random.Random:
        return random.Random(self._rng.getrandbits(64))

    def _help(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helped)

    def _helped(self, task: "asyncio.Task[Any]") -> None:
        self._helpers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break("simulator", f"{type(error).__name__}: {error}")

    # ── webhooks ─────────────────────────────────────────────────────────────

    def _webhooks(self) -> Webhooks:
        def wire(name: str, inner: Transport) -> Transport:
            return Wire(
                inner,
                name=name,
                network_faults=self._network_faults,
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
            report=self._on_report,
        )

    def _on_report(self, _component: str, report: StepReport) -> None:
        if report.prevented is not None:
            assert isinstance(self._rules, Together)
            self._found += self._rules.on_prevented(report.prevented, self._now())

    def _versioned(self) -> tuple[str, ...]:
        """Kinds whose revisions a WorkloadSpread distinguishes."""
        return (*sorted(DEFAULT_VERSIONED), *(["cloneset"] if self._script.is_versioned else ()))

    # ── managers ─────────────────────────────────────────────────────────────

    def _wire(self, name: str) -> Wire:
        return Wire(
            self._cluster.make_transport(name),
            name=name,
            network_faults=self._network_faults,
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

    def _start_manager(self) -> Life:
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
            settings=ManagerSettings(
                gates=self._kind.gates,
                flags={"ws-enabled-versioned-status": self._versioned(), **self._kind.flags},
            ),
            elector=self._elector(name, wires[1]) if len(wires) > 1 and not self._script.shares else None,
            membership=self._membership(name, wires[1]) if self._script.shares else None,
            clock=clock,
            rng=self._branch(),
            cpu_time=skip_measuring,
            kinds=kinds,
            oversees=self.is_overseen,
            pace=PACE if self._script.reads_in_portions else None,
        )
        for controller in manager.controllers:
            self._watch_reconciles(name, manager, wire, controller)
        life = Life(manager, wires, asyncio.get_running_loop().create_task(manager.run()))
        life.task.add_done_callback(self._ended)
        self._lives.append(life)
        return life

    def _watch_reconciles(self, name: str, manager: Manager, wire: Wire, controller: Any) -> None:
        """Record the knowledge of the caches at the beginning of each reconcile; its requests carry it."""
        reconcile: Reconciler = controller._reconcile

        async def noted(key: Any) -> float | None:
            self._reconciles += 1
            known = manager.read_positions()
            for path, version in wire.held.items():
                for resource in known:
                    if path.endswith("/" + resource.partition(".")[0]):
                        known[resource] = min(known[resource], version - 1)
            begun = Reconcile(name, self._reconciles, self._clock(), known, controller.name)
            RECONCILE.set(begun)
            try:
                return await reconcile(key)
            finally:
                begun.is_over = True

        controller._reconcile = noted

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break("manager", f"the manager died: {type(error).__name__}: {error}")

    async def _kill(self, life: Life | None = None) -> None:
        """Kill the manager as kill -9 does: sent requests may still arrive; nothing else happens."""
        for item in [life] if life else tuple(self._lives):
            if item in self._lives:
                self._lives.remove(item)
            item.cut(is_cut=True)
            item.task.cancel()
            await asyncio.gather(item.task, return_exceptions=True)
            self._writes += item.writes

    # ── checks of commits ────────────────────────────────────────────────────

    def _on_commit(self, commit: Commit) -> None:
        try:
            self._found += self._rules.on_commit(commit)
        except (
            Exception
        ) as error:  # otherwise the API server would return the error to its client, and the test would pass
            self._break("simulator", f"{type(error).__name__}: {error}")
        if commit.reconcile is not None:
            self._stop_if_it_never_ends()
        if commit.shelf == PODS.plural and commit.new is not None and commit.sender != "user":
            self._serve_hooks(commit)

    def _stop_if_it_never_ends(self) -> None:
        """Stop a manager that writes forever, also after an earlier finding: the records are sufficient by then."""
        writes = self._writes + sum(life.writes for life in self._lives)
        if writes > MOST_WRITES:
            if not self._found:
                self._break("writes", f"{writes} writes are too many for so few pods")
            for life in self._lives:
                life.cut(is_cut=True)

    def _break(self, rule: str, what: str) -> None:
        self._found.append(Violation(rule, what, self._now()))

    def _serve_hooks(self, commit: Commit) -> None:
        """The controller of lifecycle hooks: it removes them from a pod that prepares, and adds them after the
        update."""
        assert commit.new is not None
        labels = commit.new["metadata"].get("labels") or {}
        change = self._rules.hook_answer(labels.get(STATE, ""))
        if any(labels.get(key) != value for key, value in change.items()):
            self._help(self._put_labels(commit.key.name, change, labels[STATE]))

    async def _put_labels(self, pod: str, labels: Mapping[str, str | None], state: str) -> None:
        await asyncio.sleep(self._script.hook_s)
        latest = next((version for version in self._rules.pods.latest() if version.name == pod), None)
        if latest is None or latest.state != state:
            return
        try:
            patch = {"metadata": {"labels": labels}}
            await self._client.patch(PODS, NAMESPACE, pod, patch, patch_type=PatchType.MERGE)
        except Exception:
            return

    async def _end(self) -> None:
        await self._kill()
        self._network_faults.clear()
        for task in tuple(self._helpers):
            task.cancel()
        if self._helpers:
            await asyncio.wait(self._helpers)
