"""WorkloadSpread's place in the manager: what it caches, what wakes it, and its turn.

spread, pod, workload changed ──▶ queue ──▶ SpreadTurn: gathering.py ──▶ Reconciler(SpreadPlanner) ──▶ writes
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pykruise.kinds.workloadspread.gathering import DEPLOYMENT, REPLICA_SET, Gatherer, Targets
from pykruise.kinds.workloadspread.injection import read_matched
from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.readers import TargetReader
from pykruise.kinds.workloadspread.snapshot import Snapshot, TargetView
from pykruise.kinds.workloadspread.targets import GroupKind
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.versions import version_of, versioned_kinds
from pykruise.kinds.workloadspread.view import SpreadView, project_spread
from pykruise.kube.cache import Cache, Change
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.workloads import is_unchanged
from pykruise.pods.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.views import PodView

__all__ = ["COMPONENT", "NAME", "build"]

NAME: Final = "workloadspread"
COMPONENT: Final = "workloadspread-controller"

BY_TARGET: Final = "target"
BY_NAMESPACE: Final = "namespace"


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
        gather=Gatherer(
            context.client, context.sources, targets, reader, versioned=kinds, clock=context.clock
        ),
        spreads=spreads,
    )
    return context.controller(NAME, turn, queue=queue)


def _target_index(spread: SpreadView) -> tuple[tuple[str, GroupKind, str], ...]:
    target = spread.target
    return ((spread.namespace, *target),) if target is not None and not spread.is_deleting else ()


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

    def __init__(
        self,
        planner: SpreadPlanner,
        reconciler: Reconciler[Snapshot],
        *,
        gather: Gatherer,
        spreads: Cache[SpreadView],
    ) -> None:
        self._spreads = spreads
        self._planner = planner
        self._reconciler = reconciler
        self._gather = gather

    async def __call__(self, key: Key) -> float | None:
        snapshot = await self._gather.snapshot(key, lambda: self._spreads.get(key))
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
        if old.annotations.get(DELETION_COST_ANNOTATION) != new.annotations.get(DELETION_COST_ANNOTATION):
            return True  # somebody else may have put it there
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
