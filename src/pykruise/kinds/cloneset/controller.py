"""CloneSet's place in the manager: what it caches, what wakes it, and its four functions of a turn.

pod, claim, revision or CloneSet changed ──▶ queue ──▶ Reconciler(CloneSetPlanner) ──▶ writes
"""

import random
from collections.abc import Iterable
from typing import Any

from pykruise.kinds.cloneset.plan import plan_cloneset, status_after
from pykruise.kinds.cloneset.snapshot import (
    CloneSetView,
    Settings,
    Snapshot,
    build_snapshot,
    project_cloneset,
)
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.cloneset.wakes import matters
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.sources import BY_CONTROLLER, BY_NAME_PREFIX, ORPHANS, Sources, owner_name
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS, BudgetView, project_budget
from pykruise.pods.claims import ClaimView
from pykruise.pods.image_pull_jobs import IMAGE_PULL_JOBS, PullJobView, project_pull_job
from pykruise.pods.names import LONGEST_REVISION_OWNER, pod_name
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import ControllerView, PodView

NAME = "cloneset"
COMPONENT = "cloneset-controller"

BY_NAMESPACE = "namespace"

BY_UID = "uid"
"""Index of CloneSets: claims know their owner's uid."""


def build(context: KindContext, *, settings: Settings) -> Controller[Key]:
    """The controller, its cache registered with the shared ones and its wake-ups subscribed."""
    clonesets = context.sources.add(
        CLONE_SETS, project_cloneset, indexes={BY_UID: lambda cloneset: (cloneset.uid,)}
    )
    pull_jobs = (
        context.sources.add(
            IMAGE_PULL_JOBS, project_pull_job, indexes={BY_CONTROLLER: lambda job: (job.controller_uid,)}
        )
        if settings.pre_download
        else None
    )
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
    context.sources.claims.subscribe(lambda change: _wake_by_claim(change, clonesets, queue))
    context.sources.revisions.subscribe(lambda change: _wake_by_revision(change, clonesets, queue))
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


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

    def snapshot(self, key: Key) -> Snapshot | None:
        """The CloneSet with its pods and revisions, as the caches have them now."""
        cloneset = self._clonesets.get(key)
        if cloneset is None:
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
            revisions=self._revisions(cloneset),
            node_labels=self._node_labels(cloneset),
            now=self._clock(),
            seed=self._rng.getrandbits(64),
            settings=self._settings,
        )

    def owner(self, snapshot: Snapshot) -> Owner:
        """The CloneSet."""
        cloneset = snapshot.cloneset
        return Owner(
            resource=CLONE_SETS,
            key=cloneset.key,
            uid=cloneset.uid,
            resource_version=str(cloneset.resource_version),
            stored_status=cloneset.stored_status,
        )

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_cloneset(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """See plan.py."""
        return status_after(snapshot, plan, stage=failure.stage, message=f"{failure.words}; {failure.remedy}")

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the CloneSet is still the same object with the same spec."""
        planned, now = snapshot.cloneset, self._clonesets.get(snapshot.cloneset.key)
        return (
            now is not None
            and now.uid == planned.uid
            and now.generation == planned.generation
            and now.is_deleting == planned.is_deleting
        )

    def _revisions(self, cloneset: CloneSetView) -> list[RevisionView]:
        """Its own, those that could be its own (nobody's), and those that hold a name it may want."""
        revisions = self._sources.revisions
        prefix = (cloneset.namespace, cloneset.name[:LONGEST_REVISION_OWNER])
        found = {
            revision.name: revision
            for group in (
                revisions.by_index(BY_CONTROLLER, cloneset.uid),
                revisions.by_index(ORPHANS, cloneset.namespace),
                revisions.by_index(BY_NAME_PREFIX, prefix),
            )
            for revision in group
        }
        return list(found.values())

    def _jobs_of(self, cloneset: CloneSetView) -> Iterable[PullJobView] | None:
        """None also while the kind is not served: nothing can be created then."""
        if self._pull_jobs is None or not self._pull_jobs.synced:
            return None
        return self._pull_jobs.by_index(BY_CONTROLLER, cloneset.uid)

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
    for pod in (change.old, change.new):
        if pod is None or pod.controller is None or not _is_cloneset(pod.controller):
            continue
        key = Key(pod.namespace, pod.controller.name)
        if filtered_by is None or _matters(change, filtered_by.get(key)):
            queue.add(key)


def _matters(change: Change[PodView], cloneset: CloneSetView | None) -> bool:
    if cloneset is None or cloneset.spec is None:
        return True  # it cannot be said
    return matters(change.old, change.new, cloneset.spec.lifecycle)


def _wake_by_revision(
    change: Change[RevisionView], clonesets: Cache[CloneSetView], queue: WorkQueue[Key]
) -> None:
    revision = change.new or change.old
    if revision is None:
        return
    key = Key(revision.namespace, owner_name(revision))
    if clonesets.get(key) is not None:
        queue.add(key)


def _wake_by_claim(change: Change[ClaimView], clonesets: Cache[CloneSetView], queue: WorkQueue[Key]) -> None:
    """When a claim changes hands. That one comes or goes never calls for a write by itself, but the pod that
    comes or goes with it; and claims that are made and cleaned up again for a pod that cannot be created would
    start the next try at once, however often it failed.
    """
    old, new = change.old, change.new
    if old is None or new is None or _whose(old) == _whose(new):
        return
    for claim in (old, new):
        if claim.controller_uid:
            for cloneset in clonesets.by_index(BY_UID, claim.controller_uid):
                queue.add(cloneset.key)


def _whose(claim: ClaimView) -> tuple[str, str]:
    return claim.controller_uid, claim.instance_id


def _is_cloneset(owner: ControllerView) -> bool:
    """Any version of the group, so that objects written by another version wake it too."""
    return owner.kind == CLONE_SETS.kind and owner.group == CLONE_SETS.group
