"""StatefulSet's place in the manager: what it caches, what wakes it, and its four functions of a turn.

pod, claim, revision, class or StatefulSet changed ──▶ queue ──▶ Reconciler(StatefulSetPlanner) ──▶ writes
"""

import random
from collections.abc import Iterator
from typing import Any, Final

from pykruise.kinds.statefulset.ordinals import split_name
from pykruise.kinds.statefulset.plan import plan_statefulset, status_after
from pykruise.kinds.statefulset.snapshot import (
    Settings,
    Snapshot,
    StatefulSetView,
    StorageClassView,
    build_snapshot,
    project_statefulset,
    project_storage_class,
)
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.kube.resources import STORAGE_CLASSES
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.sources import BY_CONTROLLER, ORPHANS, Sources
from pykruise.plans.workloads import (
    is_unchanged,
    named_after,
    owner_of,
    owners_in,
    pull_jobs_of,
    revisions_around,
)
from pykruise.pods.claims import ClaimView
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

NAME = "statefulset"
COMPONENT = "statefulset-controller"

BY_NAMESPACE = "namespace"
"""Index of StatefulSets: a pod of nobody, or a claim, may be one of its namespace's."""


def build(context: KindContext, *, settings: Settings) -> Controller[Key]:
    """The controller, its caches registered with the shared ones and its wake-ups subscribed."""
    sources = context.sources
    sets = sources.add(
        ADVANCED_STATEFUL_SETS, project_statefulset, indexes={BY_NAMESPACE: lambda one: (one.namespace,)}
    )
    pull_jobs = sources.pull_jobs() if settings.pre_download else None
    classes = sources.add(STORAGE_CLASSES, project_storage_class) if settings.auto_resize_claims else None
    planner = StatefulSetPlanner(
        sources,
        sets,
        classes=classes,
        pull_jobs=pull_jobs,
        settings=settings,
        clock=context.clock,
        rng=context.rng,
    )
    queue = context.queue()
    waker = Waker(sets, queue)
    sets.subscribe(lambda change: queue.add(change.key))
    sources.pods.subscribe(waker.pod_changed)
    sources.claims.subscribe(waker.claim_changed)
    sources.revisions.subscribe(waker.revision_changed)
    if classes is not None:
        classes.subscribe(waker.class_changed)
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class StatefulSetPlanner:
    """`plans.reconcile.Planner` of StatefulSet."""

    def __init__(
        self,
        sources: Sources,
        sets: Cache[StatefulSetView],
        *,
        classes: Cache[StorageClassView] | None = None,
        pull_jobs: Cache[PullJobView] | None = None,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._sources = sources
        self._sets = sets
        self._classes = classes
        self._pull_jobs = pull_jobs
        self._settings = settings
        self._clock = clock
        self._rng = rng

    def snapshot(self, key: Key) -> Snapshot | None:
        """The StatefulSet with its pods, claims and revisions, as the caches have them now."""
        statefulset = self._sets.get(key)
        if statefulset is None:
            return None
        return build_snapshot(
            statefulset,
            pods=self._sources.pods.by_index(BY_CONTROLLER, statefulset.uid),
            orphans=self._sources.pods.by_index(ORPHANS, statefulset.namespace),
            revisions=revisions_around(statefulset, self._sources),
            claim=lambda name: self._sources.claims.get(Key(statefulset.namespace, name)),
            storage_classes=self._classes.values() if self._classes is not None else (),
            pull_jobs=pull_jobs_of(statefulset, self._pull_jobs) if self._pull_jobs is not None else None,
            now=self._clock(),
            settings=self._settings,
        )

    def owner(self, snapshot: Snapshot) -> Owner:
        """The StatefulSet."""
        return owner_of(snapshot.statefulset, ADVANCED_STATEFUL_SETS)

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_statefulset(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """See plan.py."""
        return status_after(snapshot, plan, stage=failure.stage, message=f"{failure.words}; {failure.remedy}")

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the StatefulSet is still the same object with the same spec."""
        return is_unchanged(snapshot.statefulset, self._sets)


CLAIM_S: Final = 5.0
"""How long the status may be behind the size of a claim that nobody waits for."""


class Waker:
    """Which StatefulSets an event is about."""

    def __init__(self, sets: Cache[StatefulSetView], queue: WorkQueue[Key]) -> None:
        self._sets = sets
        self._queue = queue

    def pod_changed(self, change: Change[PodView]) -> None:
        """Its owner, before and after; of a pod of nobody those that may adopt it, and of one of somebody else's
        those that want its name."""
        old, new = change.old, change.new
        for key in owners_in(change, ADVANCED_STATEFUL_SETS):
            self._queue.add(key)
        if new is None:
            if old is not None:
                self._wake(Key(old.namespace, split_name(old.name)[0]))
            return
        if new.controller is not None or new.is_deleting:
            return
        if old is not None and old.controller is None and old.labels == new.labels:
            return
        statefulset = self._sets.get(Key(new.namespace, split_name(new.name)[0]))
        if statefulset is not None and statefulset.may_own(new):
            self._queue.add(statefulset.key)

    def claim_changed(self, change: Change[ClaimView]) -> None:
        """The set that let it grow; of one that has another size, the set whose status counts it; and of one that
        is gone, the set whose pod may wait for that."""
        old, new = change.old, change.new
        if new is not None and old is not None:
            if new.grown_by:
                self._wake(Key(new.namespace, new.grown_by))
            elif (old.requested, old.capacity, old.is_deleting) != (
                new.requested,
                new.capacity,
                new.is_deleting,
            ):
                for statefulset in self._sets_of(new):
                    # New claims get their volume while their pod starts, which changes the status anyway.
                    self._queue.add_after(statefulset.key, CLAIM_S)
        elif old is not None:
            for statefulset in self._sets_of(old):
                self._queue.add(statefulset.key)

    def _sets_of(self, claim: ClaimView) -> Iterator[StatefulSetView]:
        base, _ = split_name(claim.name)
        for statefulset in self._sets.by_index(BY_NAMESPACE, claim.namespace):
            if base.endswith(f"-{statefulset.name}"):
                yield statefulset

    def revision_changed(self, change: Change[RevisionView]) -> None:
        """The set that it was named after."""
        if (key := named_after(change)) is not None:
            self._wake(key)

    def class_changed(self, change: Change[StorageClassView]) -> None:
        """Sets whose claims follow their templates: the class may let them grow now."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.allows_expansion == new.allows_expansion:
            return
        for statefulset in self._sets.values():
            if statefulset.spec is not None and statefulset.spec.volume_claim_update_strategy is not None:
                self._queue.add(statefulset.key)

    def _wake(self, key: Key) -> None:
        if self._sets.get(key) is not None:
            self._queue.add(key)
