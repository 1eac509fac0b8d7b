"""DaemonSet's place in the manager: what it caches, what wakes it, and its four functions of a turn.

pod, node, revision or DaemonSet changed ──▶ queue ──▶ Reconciler(DaemonSetPlanner) ──▶ writes

A node's heartbeat wakes nobody. A node that changes wakes the DaemonSets for which it is something else now.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from pykruise.kinds.daemonset.backoff import Backoffs
from pykruise.kinds.daemonset.node_states import FINISHED, NodeStates
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.plan import plan_daemonset, status_after
from pykruise.kinds.daemonset.snapshot import (
    DaemonSetView,
    Settings,
    Snapshot,
    build_snapshot,
    project_daemonset,
    terms_of,
)
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.plans.actions import Delete
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.sources import BY_CONTROLLER, ORPHANS, NodeView, Sources
from pykruise.plans.workloads import (
    is_unchanged,
    named_after,
    owner_of,
    owners_in,
    pull_jobs_of,
    revisions_around,
)
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

NAME = "daemonset"
COMPONENT = "daemonset-controller"

BY_NAMESPACE = "namespace"
"""Index of DaemonSets: a pod of nobody may be one of its namespace's."""


def build(context: KindContext, *, settings: Settings) -> Controller[Key]:
    """The controller, its cache registered with the shared ones and its wake-ups subscribed."""
    daemonsets = context.sources.add(
        DAEMON_SETS, project_daemonset, indexes={BY_NAMESPACE: lambda one: (one.namespace,)}
    )
    planner = DaemonSetPlanner(
        context.sources,
        daemonsets,
        pull_jobs=context.sources.pull_jobs() if settings.pre_download else None,
        settings=settings,
        clock=context.clock,
        rng=context.rng,
    )
    queue = context.queue()
    waker = Waker(daemonsets, queue, has_pods_on=planner.has_pods_on)
    daemonsets.subscribe(lambda change: queue.add(change.key))
    context.sources.pods.subscribe(waker.pod_changed)
    context.sources.nodes.subscribe(waker.node_changed)
    context.sources.revisions.subscribe(waker.revision_changed)
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class DaemonSetPlanner:
    """`plans.reconcile.Planner` of DaemonSet. Remembers what it has seen of nodes, and failed pods, by uid; a kill may
    lose both."""

    def __init__(
        self,
        sources: Sources,
        daemonsets: Cache[DaemonSetView],
        *,
        pull_jobs: Cache[PullJobView] | None = None,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._sources = sources
        self._daemonsets = daemonsets
        self._pull_jobs = pull_jobs
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._states: dict[Key, tuple[str, NodeStates]] = {}
        self._backoffs: dict[Key, tuple[str, Backoffs]] = {}

    def snapshot(self, key: Key) -> Snapshot | None:
        """The DaemonSet with its pods, revisions and all nodes, as the caches have them now."""
        daemonset = self._daemonsets.get(key)
        if daemonset is None:
            self._states.pop(key, None)
            self._backoffs.pop(key, None)
            return None
        now = self._clock()
        return build_snapshot(
            daemonset,
            nodes=self._sources.nodes.values(),
            states=self._states_of(daemonset),
            pods=self._sources.pods.by_index(BY_CONTROLLER, daemonset.uid),
            orphans=self._sources.pods.by_index(ORPHANS, daemonset.namespace),
            revisions=revisions_around(daemonset, self._sources),
            pull_jobs=None if self._pull_jobs is None else pull_jobs_of(daemonset, self._pull_jobs),
            failed_until=self._backoffs_of(daemonset).until(now=now),
            now=now,
            seed=self._rng.getrandbits(64),
            settings=self._settings,
        )

    def owner(self, snapshot: Snapshot) -> Owner:
        """The DaemonSet."""
        return owner_of(snapshot.daemonset, DAEMON_SETS)

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py. Nodes whose finished pod it replaces are remembered: the next one waits."""
        plan = plan_daemonset(snapshot)
        self._backoffs_of(snapshot.daemonset).note(_replaced_on(snapshot, plan), now=snapshot.now)
        return plan

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """See plan.py."""
        return status_after(snapshot, plan, stage=failure.stage, words=failure.words, remedy=failure.remedy)

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the DaemonSet is still the same object with the same spec."""
        return is_unchanged(snapshot.daemonset, self._daemonsets)

    def has_pods_on(self, daemonset: DaemonSetView, node: str) -> bool:
        """Whether it had pods there when it was last looked at; what has come since wakes it by itself."""
        return self._states_of(daemonset).has_pods_on(node)

    def _states_of(self, daemonset: DaemonSetView) -> NodeStates:
        known, terms = self._states.get(daemonset.key), terms_of(daemonset)
        if known is None or known[0] != daemonset.uid or known[1].terms != terms:
            known = self._states[daemonset.key] = (daemonset.uid, NodeStates(terms))
        return known[1]

    def _backoffs_of(self, daemonset: DaemonSetView) -> Backoffs:
        known = self._backoffs.get(daemonset.key)
        if known is None or known[0] != daemonset.uid or known[1].generation != daemonset.generation:
            known = self._backoffs[daemonset.key] = (daemonset.uid, Backoffs(daemonset.generation))
        return known[1]


def _replaced_on(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Nodes on which the plan deletes a finished pod."""
    finished = {
        pod.name: state.name for state in snapshot.board.open for pod in state.pods if pod.phase in FINISHED
    }
    if finished:
        for step in plan.steps:
            if isinstance(step.action, Delete) and (node := finished.get(step.action.key.name)):
                yield node


class Waker:
    """Which DaemonSets an event is about. `has_pods_on`: whether one had pods on a node of that name when it was
    last looked at."""

    def __init__(
        self,
        daemonsets: Cache[DaemonSetView],
        queue: WorkQueue[Key],
        *,
        has_pods_on: Callable[[DaemonSetView, str], bool],
    ) -> None:
        self._daemonsets = daemonsets
        self._queue = queue
        self._has_pods_on = has_pods_on

    def pod_changed(self, change: Change[PodView]) -> None:
        """Its owner, before and after; of a pod of nobody those that may adopt it."""
        for key in owners_in(change, DAEMON_SETS):
            self._queue.add(key)
        old, new = change.old, change.new
        if new is None or new.controller is not None or new.is_deleting:
            return
        if old is not None and old.controller is None and old.labels == new.labels:
            return
        for daemonset in self._daemonsets.by_index(BY_NAMESPACE, new.namespace):
            selector = daemonset.selector
            if selector is not None and not selector.is_empty and selector.matches(new.labels):
                self._queue.add(daemonset.key)

    def node_changed(self, change: Change[NodeView]) -> None:
        """Those for which the node is something else now."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.is_placed_as(new):
            return
        for daemonset in self._daemonsets.values():
            if self._concerns(daemonset, old, new):
                self._queue.add(daemonset.key)

    def _concerns(self, daemonset: DaemonSetView, old: NodeView | None, new: NodeView | None) -> bool:
        fit = daemonset.placement.fit
        before = fit(old).place if old is not None else None
        after = fit(new).place if new is not None else None
        if old is None or new is None:
            node = old or new
            assert node is not None
            return Place.RUN in (before, after) or self._has_pods_on(daemonset, node.name)
        return before != after or _is_selected(daemonset, old) != _is_selected(daemonset, new)

    def revision_changed(self, change: Change[RevisionView]) -> None:
        """The one that it is named after."""
        key = named_after(change)
        if key is not None and self._daemonsets.get(key) is not None:
            self._queue.add(key)


def _is_selected(daemonset: DaemonSetView, node: NodeView) -> bool:
    selector = daemonset.node_selector
    return selector is not None and selector.matches(node.labels)
