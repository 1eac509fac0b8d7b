"""CloneSet's place in the manager: what it caches, what wakes it, and its four functions of a turn.

pod, claim, revision or CloneSet changed ──▶ queue ──▶ Reconciler(CloneSetPlanner) ──▶ writes
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from pykruise.kinds.cloneset.overlap import LOOK_AGAIN_S, strangers_of
from pykruise.kinds.cloneset.plan import plan_cloneset, status_after
from pykruise.kinds.cloneset.snapshot import (
    CloneSetProjector,
    CloneSetView,
    Settings,
    Snapshot,
    build_snapshot,
)
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.cloneset.wakes import matters
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, Resource
from pykruise.plans.execute import Failure
from pykruise.plans.in_place import Seen
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
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS, BudgetView, project_budget
from pykruise.pods.claims import ClaimView
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.names import pod_name
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView
from pykruise.pods.workloads import selector_of

NAME = "cloneset"
COMPONENT = "cloneset-controller"

BY_NAMESPACE = "namespace"

BY_UID = "uid"
"""Index of CloneSets: claims know their owner's uid."""


def build(context: KindContext, *, settings: Settings) -> Controller[Key]:
    """The controller, its cache registered with the shared ones and its wake-ups subscribed."""
    clonesets = context.sources.add(
        CLONE_SETS, CloneSetProjector(), indexes={BY_UID: lambda cloneset: (cloneset.uid,)}
    )
    pull_jobs = context.sources.pull_jobs() if settings.pre_download else None
    budgets = (
        context.sources.add(
            POD_UNAVAILABLE_BUDGETS,
            project_budget,
            indexes={BY_NAMESPACE: lambda budget: (budget.namespace,)},
        )
        if settings.asks_budgets
        else None
    )
    planner = CloneSetPlanner(
        context.sources,
        clonesets,
        pull_jobs=pull_jobs,
        budgets=budgets,
        settings=settings,
        clock=context.clock,
        rng=context.rng,
    )
    queue = context.queue()
    clonesets.subscribe(lambda change: queue.add(change.key))
    is_filtered = settings.filters_events
    context.sources.pods.subscribe(
        lambda change: _wake_owners(change, queue, clonesets if is_filtered else None)
    )
    context.sources.claims.subscribe(
        lambda change: _wake_by_claim(change, clonesets, queue, is_making=context.executor.is_making)
    )
    context.sources.revisions.subscribe(lambda change: _wake_by_revision(change, clonesets, queue))
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class _Look(msgspec.Struct, frozen=True):
    """When pods of other owners were looked for, and what was found."""

    generation: int
    at: Instant
    found: Sequence[PodView]


class CloneSetPlanner:
    """`plans.reconcile.Planner` of CloneSet."""

    def __init__(
        self,
        sources: Sources,
        clonesets: Cache[CloneSetView],
        *,
        pull_jobs: Cache[PullJobView] | None = None,
        budgets: Cache[BudgetView] | None = None,
        settings: Settings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._sources = sources
        self._pull_jobs = pull_jobs
        self._budgets = budgets
        self._clonesets = clonesets
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._looked: dict[Key, _Look] = {}
        self._seen: dict[Key, Seen] = {}

    def snapshot(self, key: Key) -> Snapshot | None:
        """The CloneSet with its pods and revisions, as the caches have them now."""
        cloneset = self._clonesets.get(key)
        if cloneset is None:
            self._looked.pop(key, None)
            self._seen.pop(key, None)
            return None
        claims = self._sources.claims.by_index(BY_CONTROLLER, cloneset.uid)
        return build_snapshot(
            cloneset,
            claims=claims,
            occupied_ids=self._occupied_ids(cloneset, claims),
            pods=self._sources.pods.by_index(BY_CONTROLLER, cloneset.uid),
            pull_jobs=self._jobs_of(cloneset),
            budgets=self._budgets.by_index(BY_NAMESPACE, cloneset.namespace) if self._budgets else (),
            orphans=self._sources.pods.by_index(ORPHANS, cloneset.namespace),
            strangers=self._strangers(cloneset),
            revisions=revisions_around(cloneset, self._sources),
            node_labels=self._node_labels(cloneset),
            now=self._clock(),
            seed=self._rng.getrandbits(64),
            settings=self._settings,
            seen=self._seen.setdefault(key, Seen()),
        )

    def owner(self, snapshot: Snapshot) -> Owner:
        """The CloneSet."""
        return owner_of(snapshot.cloneset, CLONE_SETS)

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_cloneset(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """See plan.py."""
        return status_after(snapshot, plan, stage=failure.stage, message=f"{failure.words}; {failure.remedy}")

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the CloneSet is still the same object with the same spec."""
        return is_unchanged(snapshot.cloneset, self._clonesets)

    def _jobs_of(self, cloneset: CloneSetView) -> Iterable[PullJobView] | None:
        return None if self._pull_jobs is None else pull_jobs_of(cloneset, self._pull_jobs)

    def _strangers(self, cloneset: CloneSetView) -> Sequence[PodView]:
        """Looked for now and then, and when the CloneSet itself has changed: it goes over all pods there are."""
        now = self._clock()
        last = self._looked.get(cloneset.key)
        if last is not None and last.generation == cloneset.generation and now - last.at < LOOK_AGAIN_S:
            return last.found
        selector = selector_of(cloneset.spec.selector) if cloneset.spec else None
        found = (
            strangers_of(
                self._sources.pods.values(),
                uid=cloneset.uid,
                namespace=cloneset.namespace,
                name=cloneset.name,
                selector=selector,
            )
            if selector is not None and not selector.is_empty
            else []
        )
        self._looked[cloneset.key] = _Look(cloneset.generation, now, found)
        return found

    def _occupied_ids(self, cloneset: CloneSetView, claims: Iterable[ClaimView]) -> list[str]:
        """Ids of claims whose pod would need a name that a pod of nobody, or of somebody else, has."""
        found: list[str] = []
        for claim in claims:
            name = pod_name(cloneset.name, claim.instance_id)
            pod = self._sources.pods.get(Key(cloneset.namespace, name))
            if pod is not None and (pod.controller is None or pod.controller.uid != cloneset.uid):
                found.append(claim.instance_id)
        return found

    def _node_labels(self, cloneset: CloneSetView) -> dict[str, Any]:
        """Only topology spread asks where nodes are."""
        spec = cloneset.spec
        if spec is None or not (spec.template.get("spec") or {}).get("topologySpreadConstraints"):
            return {}
        return {node.name: node.labels for node in self._sources.nodes.values()}


def _wake_owners(
    change: Change[PodView], queue: WorkQueue[Key], filtered_by: Cache[CloneSetView] | None
) -> None:
    """`filtered_by`: the CloneSets whose lifecycle says what matters; None: everything does."""
    for key in owners_in(change, CLONE_SETS):
        if filtered_by is None or _matters(change, filtered_by.get(key)):
            queue.add(key)


def _matters(change: Change[PodView], cloneset: CloneSetView | None) -> bool:
    if cloneset is None or cloneset.spec is None:
        return True  # it cannot be said
    return matters(change.old, change.new, cloneset.spec.lifecycle)


def _wake_by_revision(
    change: Change[RevisionView], clonesets: Cache[CloneSetView], queue: WorkQueue[Key]
) -> None:
    key = named_after(change)
    if key is not None and clonesets.get(key) is not None:
        queue.add(key)


def _wake_by_claim(
    change: Change[ClaimView],
    clonesets: Cache[CloneSetView],
    queue: WorkQueue[Key],
    *,
    is_making: Callable[[Resource, Key], bool],
) -> None:
    """When a claim changes hands, or comes unexpectedly: from a creation that took effect long after its client
    gave up, when its pod is gone again.

    A claim that is made at this moment calls for no write, but the pod that comes with it, and neither does one
    that goes. Claims that are made and cleaned up again for a pod that cannot be created would start the next
    try at once, however often it failed.
    """
    old, new = change.old, change.new
    if new is None or (old is None and is_making(PERSISTENT_VOLUME_CLAIMS, change.key)):
        return
    if old is not None and _whose(old) == _whose(new):
        return
    for claim in (old, new):
        if claim is not None and claim.controller_uid:
            for cloneset in clonesets.by_index(BY_UID, claim.controller_uid):
                queue.add(cloneset.key)


def _whose(claim: ClaimView) -> tuple[str, str]:
    return claim.controller_uid, claim.instance_id
