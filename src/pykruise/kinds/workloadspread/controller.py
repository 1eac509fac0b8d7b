"""WorkloadSpread's place in the manager: what it caches, what wakes it, and its turn.

spread, pod, workload changed ──▶ queue ──▶ SpreadTurn: read what no cache has ──▶ Reconciler(SpreadPlanner) ──▶ writes

Workloads of the built-in kinds are mirrored; those of the white list are read each turn, and looked at again
from time to time. Pods that were there before their WorkloadSpread are read whole, once, to find their subset.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.injection import read_matched
from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.readers import CLONE_SETS, STATEFUL_SETS_OF_KRUISE, TargetReader
from pykruise.kinds.workloadspread.snapshot import Snapshot, TargetView, latest_version, project_target
from pykruise.kinds.workloadspread.targets import (
    BUILT_IN,
    GroupKind,
    PathError,
    WhiteListError,
    replicas_of,
)
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.versions import version_of, versioned_kinds
from pykruise.kinds.workloadspread.view import SpreadView, project_spread
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from pykruise.kube.selectors import SelectorError, parse_label_selector
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.sources import BY_CONTROLLER, Sources
from pykruise.plans.workloads import is_unchanged
from pykruise.pods.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.views import PodView

__all__ = ["COMPONENT", "NAME", "build"]

NAME: Final = "workloadspread"
COMPONENT: Final = "workloadspread-controller"

POLL_S: Final = 10.0
"""How often a workload of the white list is looked at."""

READS_AT_ONCE: Final = 16
MOST_READ: Final = 200
"""Pods that are read whole in one turn."""

BY_TARGET: Final = "target"
BY_NAMESPACE: Final = "namespace"
NOT_SERVED: Final = 404

_OF_OTHERS: Final = (CLONE_SETS, STATEFUL_SETS_OF_KRUISE)
_KUBERNETES: Final = (DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS)

DEPLOYMENT: Final = GroupKind("apps", "Deployment")
REPLICA_SET: Final = GroupKind("apps", "ReplicaSet")
JOB: Final = GroupKind("batch", "Job")


def build(context: KindContext, *, namespace: str, versioned: Iterable[str]) -> Controller[Key]:
    """The controller. `namespace`: the manager's own, where the white list is. `versioned`: kinds as the flag
    --ws-enabled-versioned-status names them."""
    sources = context.sources
    spreads = sources.add(
        WORKLOAD_SPREADS,
        project_spread,
        indexes={BY_TARGET: _target_index, BY_NAMESPACE: lambda one: (one.namespace,)},
    )
    targets = Targets(sources)
    kinds = versioned_kinds(tuple(versioned))
    reader = TargetReader(lambda: context.client, namespace=namespace)
    planner = SpreadPlanner(spreads)
    queue = context.queue()
    waker = Waker(spreads, targets, queue, versioned=kinds)
    spreads.subscribe(lambda change: queue.add(change.key))
    sources.pods.subscribe(waker.pod_changed)
    for kind, cache in targets.caches.items():
        cache.subscribe(lambda change, kind=kind: waker.target_changed(kind, change))  # type: ignore[misc]
    turn = SpreadTurn(
        planner,
        Reconciler(planner, context.executor, record=context.recorder(COMPONENT)),
        gather=Gatherer(context, spreads, targets, reader, versioned=kinds),
    )
    return context.controller(NAME, turn, queue=queue)


def _target_index(spread: SpreadView) -> tuple[tuple[str, GroupKind, str], ...]:
    target = spread.target
    return ((spread.namespace, *target),) if target is not None and not spread.is_deleting else ()


class Targets:
    """Mirrors of workloads of the built-in kinds."""

    def __init__(self, sources: Sources) -> None:
        indexes: Any = {BY_CONTROLLER: lambda one: (one.controller_uid,) if one.controller_uid else ()}
        self.caches: Mapping[GroupKind, Cache[TargetView]] = {
            **{_kind(one): sources.add(one, project_target, indexes=indexes) for one in _KUBERNETES},
            # Their own controllers mirror these too, as something else.
            **{_kind(one): sources.beside(one, project_target, indexes=indexes) for one in _OF_OTHERS},
        }

    async def get(self, kind: GroupKind, key: Key) -> TargetView | None:
        """The workload; None: it, or its kind, is not there."""
        cache = self.caches[kind]
        if not cache.synced:
            if cache.stats().last_code == NOT_SERVED:
                return None
            await cache.wait_synced()
        return cache.get(key)

    def replica_sets(self, deployment: TargetView) -> list[TargetView]:
        """Those that a Deployment controls."""
        return list(self.caches[REPLICA_SET].by_index(BY_CONTROLLER, deployment.uid))

    def deployment_of(self, namespace: str, replica_set: str) -> str:
        """The name of the Deployment that controls a ReplicaSet; empty: none does."""
        found = self.caches[REPLICA_SET].get(Key(namespace, replica_set))
        if found is None or not found.controller_uid:
            return ""
        # Its name begins with the Deployment's; the uid says whether it is that one.
        name = replica_set.rpartition("-")[0]
        above = self.caches[DEPLOYMENT].get(Key(namespace, name))
        return name if above is not None and above.uid == found.controller_uid else ""


def _kind(resource: Resource) -> GroupKind:
    return GroupKind(resource.group, resource.kind)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn has found out about the workload of a WorkloadSpread."""

    replicas: int | None = 0
    """None: nobody knows."""
    owners: tuple[str, ...] = ()
    """uids of those that control its pods."""
    pods: tuple[PodView, ...] = ()
    """Pods that nobody of the owners controls, but that its scale selects."""
    latest: str | None = ""
    latest_is_coming: bool = False
    documents: Mapping[str, Document] = {}
    has_more: bool = False
    polls_after: float | None = None


class Gatherer:
    """Reads what the planner needs, from caches where there are some."""

    def __init__(
        self,
        context: KindContext,
        spreads: Cache[SpreadView],
        targets: Targets,
        reader: TargetReader,
        *,
        versioned: frozenset[str],
    ) -> None:
        self.versioned = versioned
        self.sources = context.sources
        self.clock: Clock = context.clock
        self._client = context.client
        self._spreads = spreads
        self._targets = targets
        self._reader = reader
        self._documents: dict[Key, dict[str, Document]] = {}

    async def snapshot(self, key: Key) -> Snapshot | None:
        """The world of one WorkloadSpread; None: it is gone."""
        spread = self._spreads.get(key)
        if spread is None:
            self._documents.pop(key, None)
            return None
        if spread.is_deleting or spread.target is None:
            return Snapshot(spread=spread, now=self.clock())
        try:
            facts = await self._facts(spread, spread.target)
        except (PathError, WhiteListError) as error:
            raise KubeError(f"WorkloadSpread {key}: {error}") from error
        documents, has_more = await self._whole(spread, facts)
        # The caches may have moved on meanwhile: what is planned from is what they show now.
        spread = self._spreads.get(key)
        if spread is None:
            return None
        pods = [
            pod for pod in self._pods(facts) if spread.selector is None or spread.selector.matches(pod.labels)
        ]
        replicas = facts.replicas
        nodes = {
            name: node
            for name in {pod.node_name for pod in pods if pod.uid in documents}
            if (node := self.sources.nodes.get(Key("", name))) is not None
        }
        return Snapshot(
            spread=spread,
            replicas=sum(pod.is_active for pod in pods) if replicas is None else replicas,
            pods=pods,
            latest=facts.latest,
            latest_is_coming=facts.latest_is_coming,
            nodes=nodes,
            documents=documents,
            has_more=has_more,
            versioned=self.versioned,
            now=self.clock(),
            polls_after=facts.polls_after,
        )

    # ── the workload ─────────────────────────────────────────────────────────

    async def _facts(self, spread: SpreadView, target: tuple[GroupKind, str]) -> Facts:
        kind, name = target
        if kind not in BUILT_IN:
            return await self._custom(spread, kind)
        found = await self._targets.get(kind, Key(spread.namespace, name))
        if found is None or found.is_deleting:
            return Facts()
        replicas = found.replicas
        if spread.replicas_paths:
            document = await self._reader.target(spread)
            paths = spread.replicas_paths
            replicas = replicas_of(document, kind, paths=paths) or 0 if document is not None else 0
        sets = self._targets.replica_sets(found) if kind == DEPLOYMENT else []
        owners = [one.uid for one in sets if not one.is_deleting and found.selector.matches(one.labels)]
        return Facts(
            replicas=replicas,
            owners=tuple(owners or [found.uid]),
            latest=latest_version(kind, found, replica_sets=sets, versioned=self.versioned),
            latest_is_coming=not found.is_paused,
        )

    async def _custom(self, spread: SpreadView, kind: GroupKind) -> Facts:
        document = await self._reader.target(spread)
        if document is None or get_path(document, "metadata", "deletionTimestamp"):
            return Facts(polls_after=POLL_S)
        listed = (await self._reader.white_list()).find(kind)
        path = listed.replicas_path if listed is not None else ""
        replicas = replicas_of(document, kind, paths=spread.replicas_paths, listed_path=path)
        uid = get_path(document, "metadata", "uid") or ""
        pods: Sequence[PodView] = ()
        if replicas is None or not self.sources.pods.by_index(BY_CONTROLLER, uid):
            scale = await self._reader.scale(spread)
            if replicas is None:
                replicas = get_path(scale, "spec", "replicas")
            selector = get_path(scale, "status", "selector")
            if isinstance(selector, str) and selector:
                pods = self._selected(spread.namespace, selector)
        return Facts(
            replicas=replicas,
            owners=(uid,),
            pods=tuple(pods),
            latest=latest_version(kind, None, versioned=self.versioned),
            polls_after=POLL_S,
        )

    def _selected(self, namespace: str, text: str) -> list[PodView]:
        try:
            selector = parse_label_selector(text)
        except SelectorError:
            return []
        return [
            pod
            for pod in self.sources.pods.values()
            if pod.namespace == namespace and selector.matches(pod.labels)
        ]

    def _pods(self, facts: Facts) -> list[PodView]:
        """As the caches show them now."""
        found = [pod for uid in facts.owners for pod in self.sources.pods.by_index(BY_CONTROLLER, uid)]
        if found or not facts.pods:
            return found
        return [pod for one in facts.pods if (pod := self.sources.pods.get(Key(one.namespace, one.name)))]

    # ── pods that were there before ──────────────────────────────────────────

    async def _whole(self, spread: SpreadView, facts: Facts) -> tuple[Mapping[str, Document], bool]:
        """Pods without a note that are on a node, whole; and whether there are more than one turn reads."""
        wanted = [
            pod
            for pod in self._pods(facts)
            if pod.node_name and not _is_noted(pod, spread.name)
            if spread.selector is None or spread.selector.matches(pod.labels)
        ]
        known = self._documents.get(spread.key, {})
        found = {pod.uid: known[pod.uid] for pod in wanted if pod.uid in known}
        missing = [pod for pod in wanted if pod.uid not in known]
        places = asyncio.Semaphore(READS_AT_ONCE)

        async def read(pod: PodView) -> None:
            async with places:
                try:
                    found[pod.uid] = decode(await self._client.get(PODS, pod.namespace, pod.name))
                except NotFoundError:
                    return

        await asyncio.gather(*(read(pod) for pod in missing[:MOST_READ]))
        if found:
            self._documents[spread.key] = found
        else:
            self._documents.pop(spread.key, None)
        return found, len(missing) > MOST_READ


def _is_noted(pod: PodView, name: str) -> bool:
    found = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return found is not None and found.name == name and bool(found.subset)


class SpreadPlanner:
    """`plans.reconcile.Planner` of WorkloadSpread, over snapshots that its turn has gathered."""

    def __init__(self, spreads: Cache[SpreadView]) -> None:
        self._spreads = spreads
        self.gathered: dict[Key, Snapshot] = {}

    def snapshot(self, key: Key) -> Snapshot | None:
        """What was gathered for this turn."""
        return self.gathered.get(key)

    def owner(self, snapshot: Snapshot) -> Owner:
        """The WorkloadSpread. Its status is written against the very version that was looked at."""
        spread = snapshot.spread
        return Owner(
            resource=WORKLOAD_SPREADS,
            key=spread.key,
            uid=spread.uid,
            resource_version=str(spread.resource_version),
            stored_status=spread.stored_status,
            is_guarded=True,
        )

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_spread(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """The status has no place for a failed write; its event tells it."""
        return None

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the WorkloadSpread is still the same object with the same spec."""
        return is_unchanged(snapshot.spread, self._spreads)


class SpreadTurn:
    """One turn: gather, then what every kind does."""

    def __init__(self, planner: SpreadPlanner, reconciler: Reconciler[Snapshot], *, gather: Gatherer) -> None:
        self._planner = planner
        self._reconciler = reconciler
        self._gather = gather

    async def __call__(self, key: Key) -> float | None:
        snapshot = await self._gather.snapshot(key)
        if snapshot is not None:
            self._planner.gathered[key] = snapshot
        try:
            return await self._reconciler(key)
        finally:
            self._planner.gathered.pop(key, None)


class Waker:
    """Which WorkloadSpreads an event is about."""

    def __init__(
        self,
        spreads: Cache[SpreadView],
        targets: Targets,
        queue: WorkQueue[Key],
        *,
        versioned: frozenset[str],
    ) -> None:
        self._spreads = spreads
        self._targets = targets
        self._queue = queue
        self._versioned = versioned

    def pod_changed(self, change: Change[PodView]) -> None:
        """The one of its note; a pod without a note matters once it is on a node."""
        pod = change.new or change.old
        if pod is None or not self._spreads.by_index(BY_NAMESPACE, pod.namespace):
            return
        old, new = change.old, change.new
        noted = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
        if noted is not None and noted.name:
            key = Key(pod.namespace, noted.name)
            spread = self._spreads.get(key)
            if spread is not None and (old is None or new is None or self._matters(spread, old, new)):
                self._queue.add(key)
            return
        if new is not None and new.node_name and (old is None or not old.node_name):
            for key in self._of_owner(new):
                self._queue.add(key)

    def _matters(self, spread: SpreadView, old: PodView, new: PodView) -> bool:
        if old.is_active and not new.is_active:
            return True
        if self._version(old) != self._version(new):
            return True
        if old.annotations.get(MATCHED_SPREAD_ANNOTATION) != new.annotations.get(MATCHED_SPREAD_ANNOTATION):
            return True
        if not spread.reschedule_after_s:
            return False
        return old.node_name != new.node_name or old.condition("PodScheduled") != new.condition(
            "PodScheduled"
        )

    def _version(self, pod: PodView) -> str:
        kind = pod.controller.kind if pod.controller is not None else ""
        return version_of(pod.labels, owner_kind=kind, versioned=self._versioned)

    def _of_owner(self, pod: PodView) -> Iterator[Key]:
        owner = pod.controller
        if owner is None:
            return
        kind = GroupKind(owner.group, owner.kind)
        yield from self._about(pod.namespace, kind, owner.name)
        if kind == REPLICA_SET and (name := self._targets.deployment_of(pod.namespace, owner.name)):
            yield from self._about(pod.namespace, DEPLOYMENT, name)

    def _about(self, namespace: str, kind: GroupKind, name: str) -> Iterator[Key]:
        for spread in self._spreads.by_index(BY_TARGET, (namespace, kind, name)):
            yield spread.key

    def target_changed(self, kind: GroupKind, change: Change[TargetView]) -> None:
        """Those that spread it, and of a ReplicaSet those that spread its Deployment."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.is_spread_as(new):
            return
        target = new or old
        assert target is not None
        for key in self._about(target.namespace, kind, target.name):
            self._queue.add(key)
        if kind == REPLICA_SET and target.controller_uid:
            name = target.name.rpartition("-")[0]
            for key in self._about(target.namespace, DEPLOYMENT, name):
                self._queue.add(key)
