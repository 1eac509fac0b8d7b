"""Letting time run in a copy: a workload plays its rollout in a sandbox of its own, in virtual time.

Play (objects, a change, how nodes behave) ──▶ play() ──▶ Played: what was done when, samples, extremes

An hour takes about a second. Equal plays give equal results: `seed` decides names, delays and who fails. Who
does it is the real manager with the real caches and kubelets on paper; nothing is modelled a second time.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any

import msgspec

from pykruise.admission.counts import live_pods
from pykruise.admission.reviewers import reviewers
from pykruise.cli.insight.look import look
from pykruise.cli.insight.workloads import of_document
from pykruise.kinds import conversions, crds
from pykruise.kinds.sidecarset.readers import LiveSidecars
from pykruise.kinds.sidecarset.records import RecordError, read_records
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import ReviewRule
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, Instant, loop_clock
from pykruise.kube.controller import unmeasured
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Resource,
)
from pykruise.kube.transport import Response, Transport
from pykruise.manager.kinds import KINDS
from pykruise.manager.manager import Manager
from pykruise.manager.settings import Settings
from pykruise.plans.plan import Plan
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.pods.keys import SIDECARSET_HASH_ANNOTATION
from pykruise.pods.lifecycle import LifecycleState
from pykruise.pods.names import short_hash
from pykruise.pods.views import PodProjector, PodView
from pykruise.sandbox.apiserver import ConversionFunctions
from pykruise.sandbox.apiserver.storage import Change, MemoryStorage
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.faults import Rule
from pykruise.sandbox.nodes import NodeSpec
from pykruise.sandbox.pod_state import KubeletSettings
from pykruise.sandbox.virtual_time import VirtualLoop

__all__ = ["Action", "Drain", "Play", "Played", "Sample", "World", "play", "room_for"]

MANAGER_USER = "system:serviceaccount:kruise-system:kruise-manager"
_CONTROLLERS = (
    "claims",
    "disruption",
    "node-lifecycle",
    "pod-collector",
    "storage-class",
    "taint-eviction",
    "volumes",
)
"""Those of the sandbox that have something to do in a play."""
QUIET_S = 30.0
"""So long nothing may happen for a rollout to count as over."""


class Drain(msgspec.Struct, frozen=True):
    """At `at_s` seconds after the change, a node is cordoned and its pods are evicted."""

    node: str
    at_s: float


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What is there before the change. Objects keep their uids, times and status."""

    workload: Document | None = None
    revisions: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    budgets: Sequence[Document] = ()
    """PodUnavailableBudgets. Nobody but the manager writes to them: what is spent stays spent."""
    nodes: Sequence[NodeSpec] = ()
    """Empty: `Play.nodes` of them are made."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One play. Times are in seconds."""

    first: Document | None = None
    """The workload, created and settled before the change; None: the world has it, or the change creates it."""
    change: Document | None = None
    """The workload as it is to be: what differs from the one before is changed."""
    beside: Sequence[Document] = ()
    """SidecarSets that are there before the workload."""
    beside_change: Document | None = None
    """One of them as it is to be. Then revisions are those of its sidecars, and not of the workload."""
    namespace: str = "default"
    is_admitted: bool = False
    """The change is as a cluster's admission left it: it is stored as it is, without defaults of this version."""
    start: Instant = 0.0
    world: World = World()
    nodes: int = 3
    ready_after_s: tuple[float, float] = (2.0, 2.0)
    """From the start of a container to its readiness: at least, at most."""
    stop_s: float = 1.0
    fail_share: float = 0.0
    """Share of pods whose containers never become ready, of those that start after the change."""
    drains: Sequence[Drain] = ()
    hooks_released_after_s: float | None = 1.0
    """How long whoever owns lifecycle hooks takes; None: they are never released."""
    seed: int = 1
    limit_s: float = 4 * 3600.0
    settings: Settings = Settings()

    @property
    def sidecars(self) -> bool:
        """Whether SidecarSets take part."""
        return bool(self.beside) or self.beside_change is not None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the manager did."""

    at_s: float
    batch: int
    """Actions with the same number were decided without waiting for pods in between."""
    do: str
    """create, update in place, upgrade sidecars, delete, prepare deletion, prepare update, create claim, delete
    claim."""
    name: str
    revision: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """How things stood from `at_s` on."""

    at_s: float
    revisions: Mapping[str, int]
    """Active pods by the hash of their revision."""
    available: int

    @property
    def total(self) -> int:
        """All active pods."""
        return sum(self.revisions.values())


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a play. Times count from the change."""

    refused: tuple[str, ...] = ()
    """Why the change was not taken; then nothing else is here."""
    actions: tuple[Action, ...] = ()
    samples: tuple[Sample, ...] = ()
    events: tuple[tuple[float, str], ...] = ()
    """What happened besides: pods that became ready or failed, nodes drained."""
    lowest_available: int = 0
    duration_s: float = 0.0
    """Until the last change of a pod."""
    restarts: int = 0
    is_over: bool = True
    """False: `limit_s` was reached while things still happened."""
    status: Document = {}
    target: str = ""
    """Hash of the update revision."""
    left: Mapping[str, str] = {}
    """Why pods stay as they are in the end, in the words of the last plan."""
    left_nodes: Mapping[str, str] = {}


def play(given: Play) -> Played:
    """Play it to the end. Blocks: call it in a thread where a loop runs."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_Stage(given).run())


_EVENTS = f"/{EVENTS.plural}"
_IS_MANAGER: ContextVar[bool] = ContextVar("is_manager", default=False)


class _Marked:
    """The manager's transport: what is stored meanwhile is its doing. Its events are not kept: nobody reads them."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, method: str, path: str, **given: Any) -> Response:
        if method != "GET" and _EVENTS in path:
            return Response(201, {}, given.get("body") or b"{}")
        token = _IS_MANAGER.set(True)
        try:
            return await self._inner.request(method, path, **given)
        finally:
            _IS_MANAGER.reset(token)

    def stream(self, path: str, **given: Any) -> AbstractAsyncContextManager[Any]:
        return self._inner.stream(path, **given)

    async def close(self) -> None:
        await self._inner.close()


class _Watched(MemoryStorage):
    """Tells of every commit, in the step in which it is made."""

    def __init__(self, stage: "_Stage") -> None:
        super().__init__()
        self._stage = stage

    def commit(self, change: Change) -> None:
        super().commit(change)
        if change.shelf == PODS.plural:
            self._stage.on_pod(change)
        elif change.shelf == PERSISTENT_VOLUME_CLAIMS.plural:
            self._stage.on_claim(change)


class _Stage:
    """One play under way."""

    def __init__(self, given: Play) -> None:
        self._given = given
        about = given.change or given.first or given.world.workload
        assert about is not None, "a play is about a workload"
        self._kind = of_document(about)
        self._rng = random.Random(given.seed)
        self._project = PodProjector()
        self._pods: dict[str, PodView] = {}
        self._actions: list[Action] = []
        self._samples: list[Sample] = []
        self._events: list[tuple[float, str]] = []
        self._batch = 0
        self._has_moved = True
        self._restarts = 0
        self._rules: list[Rule] = []
        self._last = 0.0
        self._min_ready_s: float | None = None
        """Of the workload as it is stored; None: it has been written since it was looked at."""
        self._zero: float | None = None
        self._helpers: set[asyncio.Task[Any]] = set()

    async def run(self) -> Played:
        """From an empty cluster to the end."""
        given = self._given
        clock = loop_clock(start=given.start)
        kubelet = _kubelet(given)
        names = {spec.name for spec in given.world.nodes}
        settings = ClusterSettings(
            nodes=0 if names else given.nodes,
            kubelet=kubelet,
            tracks_fields=False,
            waits_for_volumes=False,  # they are not among what was looked at
            controllers=_CONTROLLERS,
            collected=(PODS, CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, self._kind.resource),
        )
        cluster = Cluster(
            settings,
            clock=clock,
            rng=random.Random(given.seed),
            storage=_Watched(self),
            reviewers=() if given.is_admitted else _reviewers(lambda: cluster.client, clock, given),
            conversions=ConversionFunctions(conversions()),
        )
        self._cluster = cluster
        resources = (
            self._kind.resource,
            *((POD_UNAVAILABLE_BUDGETS,) if given.world.budgets else ()),
            *((SIDECAR_SETS,) if given.sidecars else ()),
        )
        defined = {f"{one.plural}.{one.group}" for one in resources}
        for crd in crds():
            if crd["metadata"]["name"] in defined:
                await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        self._restore()
        async with cluster:
            if given.namespace not in ("default", "kube-system"):
                await _unless_there(cluster.client, given.namespace)
            if given.sidecars:
                await _unless_there(cluster.client, given.settings.own_namespace)
            manager = Manager(
                Client(
                    _Marked(cluster.transport_for(MANAGER_USER)), clock=clock, rng=random.Random(given.seed)
                ),
                settings=given.settings,
                kinds=[kind for kind in KINDS if kind.resource in resources],
                clock=clock,
                rng=random.Random(given.seed),
                cpu_time=unmeasured,
            )
            running = asyncio.create_task(manager.run())
            try:
                return await self._play(cluster.client)
            finally:
                for task in self._helpers:
                    task.cancel()
                manager.stop()
                await running

    def _restore(self) -> None:
        world, server = self._given.world, self._cluster.server
        if self._given.namespace != "default" and world.workload is not None:
            namespace = {"metadata": {"name": self._given.namespace, "uid": "copied"}}
            server.restore(NAMESPACES, [{**namespace, "status": {"phase": "Active"}}])
        for spec in world.nodes:
            self._cluster.kubelets.adopt_node(spec)
        if world.workload is not None:
            server.restore(self._kind.resource, [world.workload])
        server.restore(CONTROLLER_REVISIONS, world.revisions)
        server.restore(PERSISTENT_VOLUME_CLAIMS, world.claims)
        if world.budgets:
            server.restore(POD_UNAVAILABLE_BUDGETS, world.budgets)
        server.restore(PODS, world.pods)

    async def _play(self, client: Client) -> Played:
        given = self._given
        for one in given.beside:
            await client.create(SIDECAR_SETS, "", one)
        if given.first is not None:
            await self._write(client, given.first)
            await self._until_quiet(given.limit_s)
        self._begin()
        try:
            if given.change is not None:
                await self._write(client, given.change)
            if given.beside_change is not None:
                await self._write(client, given.beside_change, SIDECAR_SETS)
        except ApiError as error:
            return Played(refused=_errors(error))
        for drain in given.drains:
            self._help(self._drain(client, drain))
        is_over = await self._until_quiet(given.limit_s)
        return await self._result(client, is_over)

    def _begin(self) -> None:
        """The clock of the result starts; the pods there are so far are the starting point."""
        self._zero = self._now()
        self._last = self._zero
        self._actions.clear()
        self._events.clear()
        self._samples = []
        self._restarts = 0
        self._batch = 0
        self._has_moved = True
        self._sample()

    async def _write(self, client: Client, document: Document, resource: Resource | None = None) -> None:
        self._min_ready_s = None
        resource = resource or self._kind.resource
        namespace = self._given.namespace if resource.namespaced else ""
        name = document["metadata"]["name"]
        try:
            await client.get(resource, namespace, name)
        except ApiError:
            await client.create(resource, namespace, document)
            return
        metadata = {
            part: document["metadata"][part]
            for part in ("labels", "annotations")
            if document["metadata"].get(part)
        }
        body = {"metadata": metadata, "spec": document["spec"]}
        live = decode(await client.get(resource, namespace, name))
        dropped = {field: None for field in live["spec"] if field not in document["spec"]}
        body["spec"] = {**document["spec"], **dropped}
        await client.patch(resource, namespace, name, body, patch_type=PatchType.MERGE)

    async def _until_quiet(self, limit_s: float) -> bool:
        """True once nothing has happened for long; False at the limit."""
        end = self._now() + limit_s
        longest = max(self._given.ready_after_s[1], self._given.stop_s, QUIET_S) + QUIET_S
        longest += (
            max((drain.at_s for drain in self._given.drains), default=0.0) if self._zero is not None else 0
        )
        while self._now() < end:
            await asyncio.sleep(QUIET_S / 2)
            if self._now() - self._last > max(longest, await self._longest_min_ready_s()):
                return True
        return False

    async def _longest_min_ready_s(self) -> float:
        if self._min_ready_s is None:
            listed = await self._cluster.client.list(self._kind.resource, self._given.namespace)
            strategies = [self._kind.strategy(decode(raw)["spec"])[0] for raw in listed.items]
            self._min_ready_s = max((one.min_ready_s + QUIET_S for one in strategies if one), default=0.0)
        return self._min_ready_s

    async def _result(self, client: Client, is_over: bool) -> Played:
        document = (self._given.change or self._given.first or self._given.world.workload) or {}
        name = document["metadata"]["name"]
        plan, status = await self._last_plan(client, name)
        target = status.get("updateRevision") or ""
        if self._given.beside_change is not None:
            changed = self._given.beside_change["metadata"]["name"]
            status = decode(await client.get(SIDECAR_SETS, "", changed)).get("status") or {}
            target = status.get("latestRevision") or ""
        assert self._zero is not None
        return Played(
            actions=tuple(self._actions),
            samples=tuple(self._samples),
            events=tuple(self._events),
            lowest_available=min((sample.available for sample in self._samples), default=0),
            duration_s=max(self._last - self._zero, 0.0),
            restarts=self._restarts,
            is_over=is_over,
            status=status,
            target=short_hash(target),
            left=dict(plan.left),
            left_nodes=dict(plan.left_nodes),
        )

    async def _last_plan(self, client: Client, name: str) -> tuple[Plan, Document]:
        """What is still to be done in the end, and why the rest is left; and the status."""
        key = Key(self._given.namespace, name)
        now = self._given.start + self._now()
        sight = await look(client, self._kind, key, now=now, settings=self._given.settings)
        return sight.plan(), sight.document.get("status") or {}

    # ── what is seen ─────────────────────────────────────────────────────────

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _at(self) -> float:
        return round(self._now() - (self._zero if self._zero is not None else 0.0), 3)

    def on_pod(self, change: Change) -> None:
        """A pod was stored or removed."""
        try:
            now = self._now()
        except RuntimeError:
            return
        stored = change.new or change.old
        assert stored is not None
        before = self._pods.get(stored.uid)
        after = self._project(change.new.raw) if change.new is not None else None
        if after is None:
            self._pods.pop(stored.uid, None)
        else:
            self._pods[stored.uid] = after
        if before is None and after is None:
            return
        self._last = now
        if _IS_MANAGER.get():
            self._note_deed(before, after)
        else:
            self._note_event(before, after)
        self._fail_by_chance(before, after)
        self._sample()
        if after is not None and self._given.hooks_released_after_s is not None:
            self._serve_hooks(after)

    def _note_deed(self, before: PodView | None, after: PodView | None) -> None:
        if before is None and after is not None:
            self._act("create", after)
        elif before is not None and (after is None or (after.is_deleting and not before.is_deleting)):
            self._act("delete", before)
        elif before is not None and after is not None:
            if before.revision != after.revision:
                self._act("update in place", after)
            elif self._of(before) != self._of(after):
                self._act("upgrade sidecars", after)
            elif after.state != before.state and after.state == LifecycleState.PREPARING_DELETE:
                self._act("prepare deletion", after)
            elif after.state != before.state and after.state == LifecycleState.PREPARING_UPDATE:
                self._act("prepare update", after)

    def _of(self, pod: PodView) -> str:
        """The revision that the play is about."""
        if self._given.beside_change is None:
            return str(pod.revision)
        try:
            records = read_records(pod.annotations, SIDECARSET_HASH_ANNOTATION)
        except RecordError:
            return ""
        record = records.get(self._given.beside_change["metadata"]["name"])
        return short_hash(record.revision) if record is not None else ""

    def _act(self, do: str, pod: PodView) -> None:
        if self._has_moved:
            self._batch += 1
            self._has_moved = False
        self._actions.append(
            Action(at_s=self._at(), batch=self._batch, do=do, name=pod.name, revision=self._of(pod))
        )

    def _note_event(self, before: PodView | None, after: PodView | None) -> None:
        if after is None or before is None or before.is_ready == after.is_ready:
            if after is None or before is None or after.is_deleting != before.is_deleting:
                self._has_moved = True
            self._count_restarts(before, after)
            return
        self._has_moved = True
        self._events.append((self._at(), f"{after.name} is {'ready' if after.is_ready else 'not ready'}"))
        self._count_restarts(before, after)

    def _count_restarts(self, before: PodView | None, after: PodView | None) -> None:
        if before is not None and after is not None:
            self._restarts += max(_restart_count(after) - _restart_count(before), 0)

    def on_claim(self, change: Change) -> None:
        """A claim was stored or removed."""
        if change.old is not None and change.new is not None:
            return
        stored = change.new or change.old
        assert stored is not None
        do = "create claim" if change.old is None else "delete claim"
        self._actions.append(Action(at_s=self._at(), batch=self._batch, do=do, name=stored.key.name))

    def _sample(self) -> None:
        if self._zero is None:
            return
        counts: dict[str, int] = {}
        available = 0
        for pod in self._pods.values():
            if pod.is_active and pod.controller is not None:
                counts[self._of(pod)] = counts.get(self._of(pod), 0) + 1
                available += pod.is_serving
        sample = Sample(at_s=self._at(), revisions=counts, available=available)
        if self._samples and self._samples[-1].at_s == sample.at_s:
            self._samples[-1] = sample
        elif not self._samples or (self._samples[-1].revisions, self._samples[-1].available) != (
            counts,
            available,
        ):
            self._samples.append(sample)

    # ── what happens besides ─────────────────────────────────────────────────

    def _fail_by_chance(self, before: PodView | None, after: PodView | None) -> None:
        if self._zero is None or after is None or self._given.fail_share <= 0:
            return
        if before is not None and self._of(before) == self._of(after):
            return
        if self._rng.random() < self._given.fail_share:
            self._rules.append(Rule(pod=after.name, never_ready=True))
            self._cluster.kubelets.set_rules(self._rules)
            self._events.append((self._at(), f"{after.name} will not become ready (by chance)"))

    def _help(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)

    async def _drain(self, client: Client, drain: Drain) -> None:
        await asyncio.sleep(drain.at_s)
        patch = {"spec": {"unschedulable": True}}
        await client.patch(NODES, "", drain.node, patch, patch_type=PatchType.MERGE)
        self._events.append((self._at(), f"{drain.node} is drained"))
        for pod in list(self._pods.values()):
            if pod.node_name == drain.node and not pod.is_deleting:
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
                try:
                    await client.create(PODS, pod.namespace, body, name=pod.name, subresource="eviction")
                except ApiError as error:
                    self._events.append((self._at(), f"{pod.name} is not evicted: {error}"))

    def _serve_hooks(self, pod: PodView) -> None:
        if pod.state in (
            LifecycleState.PREPARING_DELETE,
            LifecycleState.PREPARING_UPDATE,
            LifecycleState.UPDATED,
        ):
            self._help(self._serve_hook(pod))

    async def _serve_hook(self, pod: PodView) -> None:
        """What a hook's owner does: take it off a pod that prepares, put it on one that is updated."""
        assert self._given.hooks_released_after_s is not None
        await asyncio.sleep(self._given.hooks_released_after_s)
        latest = self._pods.get(pod.uid)
        owner = pod.controller.name if pod.controller else ""
        if latest is None or latest.state != pod.state or not owner:
            return
        client = self._cluster.client
        try:
            workload = decode(await client.get(self._kind.resource, pod.namespace, owner))
            name = "preDelete" if pod.state == LifecycleState.PREPARING_DELETE else "inPlaceUpdate"
            hook = (workload["spec"].get("lifecycle") or {}).get(name) or {}
            is_put_on = pod.state == LifecycleState.UPDATED
            labels = {
                key: value if is_put_on else None for key, value in (hook.get("labelsHandler") or {}).items()
            }
            own = list(hook.get("finalizersHandler") or ())
            kept = [one for one in latest.finalizers if one not in own]
            finalizers = [*kept, *own] if is_put_on else kept
            metadata: dict[str, Any] = {"labels": labels}
            if own:
                metadata["finalizers"] = finalizers
            await client.patch(
                PODS, pod.namespace, pod.name, {"metadata": metadata}, patch_type=PatchType.MERGE
            )
        except ApiError:
            return  # gone meanwhile


def _reviewers(client: Callable[[], Client], clock: Clock, given: Play) -> Sequence[ReviewRule]:
    sidecars = LiveSidecars(client, namespace=given.settings.own_namespace) if given.sidecars else None
    return reviewers(pods=live_pods(client), sidecars=sidecars, clock=clock)


def _restart_count(pod: PodView) -> int:
    return sum(status.restart_count for status in pod.container_statuses)


def _kubelet(given: Play) -> KubeletSettings:
    """A spread of readiness is a spread of start times: that is what differs from pod to pod."""
    least, most = given.ready_after_s
    start_s = max(least, 0.01)
    return KubeletSettings(
        start_s=start_s,
        start_jitter=max(most - start_s, 0.0) / start_s,
        ready_s=0.0,
        stop_s=given.stop_s,
        lease_s=None,
        heartbeat_s=1e9,
    )


def _errors(error: ApiError) -> tuple[str, ...]:
    """Every field error of a refusal, each with its path; else the message."""
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    return tuple(causes) or (str(error),)


async def _unless_there(client: Client, namespace: str) -> None:
    try:
        await client.get(NAMESPACES, "", namespace)
    except ApiError:
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})


def room_for(names: Sequence[str]) -> list[NodeSpec]:
    """Nodes of these names with room for everything: what else runs on them is not known here."""
    return [NodeSpec(name=name, cpu="100000", memory="1000Ti", pods=100_000) for name in names]
