"""Everything a decision about one CloneSet needs, as one value.

bytes of a CloneSet ──▶ project_cloneset() ──▶ CloneSetView (what a cache keeps)
views from caches + now + seed ──▶ build_snapshot() ──▶ Snapshot ──▶ plan.py

Pure. The snapshot carries time, ids and settings, so that the same snapshot always gives the same plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec, CloneSetStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.typed_documents import read
from pykruise.plans.in_place import Seen
from pykruise.pods.budgets import BudgetView
from pykruise.pods.claims import ClaimView
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.in_place import Settings as InPlaceSettings
from pykruise.pods.names import IdSource
from pykruise.pods.revisions import RevisionView, sorted_revisions
from pykruise.pods.views import PodView
from pykruise.pods.workloads import SpecTable, WorkloadView, selector_of, sort_out

__all__ = ["CloneSetView", "Settings", "Snapshot", "build_snapshot", "project_cloneset", "read_spec"]


_RAW = frozenset({"template", "volumeClaimTemplates"})
"""Fields that stay documents."""


class Settings(GateSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about CloneSets; defaults are the original's."""

    short_hash: bool = False
    """Gate CloneSetShortHash: pods are labelled with the hash alone."""
    partition_rollback: bool = False
    """Gate CloneSetPartitionRollback: raising the partition takes updated pods back."""
    preparing_update_as_update: bool = False
    """Gate PreparingUpdateAsUpdate: pods in PreparingUpdate count as updated while scaling."""
    exclude_preparing_delete: bool = False
    """Flag --cloneset-scaling-exclude-preparing-delete, for all CloneSets."""
    recreate_on_claim_change: bool = False
    """Gate RecreatePodWhenChangeVCTInCloneSetGate: other volumeClaimTemplates rule out an update in place."""
    pre_download: bool = False
    """Gates PreDownloadImageForInPlaceUpdate and KruiseDaemon: new images are pulled ahead of an update."""
    filters_events: bool = False
    """Gate CloneSetEventHandlerOptimization: changes of pods that no decision reads wake nobody."""
    asks_budgets: bool = False
    """Gate PodUnavailableBudgetUpdateGate: budgets are asked before a pod is updated."""

    @property
    def in_place(self) -> InPlaceSettings:
        """What the engine for updates in place wants to know."""
        return msgspec.structs.replace(super().in_place, compare_claims=self.recreate_on_claim_change)


class CloneSetView(WorkloadView, frozen=True, kw_only=True):
    """One CloneSet as the cache keeps it."""

    spec: CloneSetSpec | None
    """None: it cannot be read; `problem` says why."""
    status: CloneSetStatus = CloneSetStatus()

    @property
    def owner_reference(self) -> Document:
        """What its pods and revisions carry."""
        return self.reference_as(CLONE_SETS)


class CloneSetProjector:
    """Makes views of CloneSets' JSON text (v1beta1); one per cache.

    A spec that does not fit the types gives a view with `problem`, so that its owner is told and the watch
    goes on. Raises ValueError only for something that is no Kubernetes object.
    """

    def __init__(self) -> None:
        self._specs = SpecTable(read_spec, lambda spec: spec.template)

    def __call__(self, raw: bytes | msgspec.Raw) -> CloneSetView:
        fields, spec = self._specs(raw)
        status, _ = read(fields["stored_status"], CloneSetStatus, path="status")
        return CloneSetView(**fields, spec=spec, status=status or CloneSetStatus())


def project_cloneset(raw: bytes | msgspec.Raw) -> CloneSetView:
    """One view on its own."""
    return CloneSetProjector()(raw)


def read_spec(spec: Mapping[str, Any]) -> tuple[CloneSetSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    return read(spec, CloneSetSpec, path="spec", raw=_RAW)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one CloneSet at one instant."""

    cloneset: CloneSetView
    pods: Sequence[PodView]
    """All pods controlled by it, finished and terminating ones too, in any order."""
    revisions: Sequence[RevisionView]
    """Its own and unowned matching ones, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Further revisions whose names could be in the way, by name."""
    orphans: Sequence[PodView] = ()
    """Pods of the namespace that nobody controls, in any order. They are never adopted, only told of."""
    strangers: Sequence[PodView] = ()
    """Pods of other owners that match the selector, as they were when it was last looked."""
    claims: Sequence[ClaimView] = ()
    """All claims controlled by it, terminating ones too, in any order."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs controlled by it; None: images are not pulled ahead here."""
    budgets: Mapping[str, BudgetView] = {}
    """PodUnavailableBudgets of the namespace by name, when they are asked."""
    occupied_ids: frozenset[str] = frozenset()
    """Ids of claims whose pod's name belongs to a pod that is not the CloneSet's."""
    node_labels: Mapping[str, Mapping[str, str]] = {}
    """Labels of the nodes, by name; needed only when the template has topologySpreadConstraints."""
    now: Instant
    ids: IdSource
    settings: Settings = Settings()
    seen: Seen = msgspec.field(default_factory=Seen)
    """What the last plan for this CloneSet found of pods in updates; plans come out the same without it."""


def build_snapshot(
    cloneset: CloneSetView,
    *,
    pods: Iterable[PodView],
    revisions: Iterable[RevisionView],
    now: Instant,
    seed: int,
    orphans: Iterable[PodView] = (),
    strangers: Iterable[PodView] = (),
    claims: Iterable[ClaimView] = (),
    pull_jobs: Iterable[PullJobView] | None = None,
    budgets: Iterable[BudgetView] = (),
    occupied_ids: Iterable[str] = (),
    node_labels: Mapping[str, Mapping[str, str]] | None = None,
    settings: Settings | None = None,
    seen: Seen | None = None,
) -> Snapshot:
    """`pods`, `claims`: those whose controller is the CloneSet (by uid). `revisions`: all of its namespace.

    `seed` must be another one for every snapshot; ids of new pods come from it.
    """
    selector = selector_of(cloneset.spec.selector) if cloneset.spec else None
    around = sort_out(revisions, cloneset, selector=selector)
    return Snapshot(
        cloneset=cloneset,
        pods=tuple(pods),
        revisions=sorted_revisions([*around.own, *around.free]),
        other_revisions=around.others,
        orphans=tuple(orphans),
        strangers=tuple(strangers),
        claims=tuple(claims),
        pull_jobs=None if pull_jobs is None else tuple(pull_jobs),
        budgets={budget.name: budget for budget in budgets},
        occupied_ids=frozenset(occupied_ids),
        node_labels=node_labels or {},
        now=now,
        ids=IdSource(seed),
        settings=settings or Settings(),
        seen=seen or Seen(),
    )
