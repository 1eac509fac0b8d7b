"""Everything a decision about one DaemonSet needs, as one value.

bytes of a DaemonSet ──▶ project_daemonset() ──▶ DaemonSetView (what a cache keeps)
views from caches + now + seed ──▶ build_snapshot() ──▶ Snapshot ──▶ plan.py
                                     └─ board.py: nodes with their pods, made anew where they changed

Pure. The snapshot carries time, ids and settings, so that the same snapshot always gives the same plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.daemonset.board import Board, NodeStates
from pykruise.kinds.daemonset.node_state import Terms
from pykruise.kinds.daemonset.placement import Placement, placement_of
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec, DaemonSetStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.kube.selectors import Selector
from pykruise.kube.typed_documents import read
from pykruise.plans.sources import NodeView
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.names import IdSource
from pykruise.pods.revisions import RevisionView, candidate
from pykruise.pods.views import PodView
from pykruise.pods.workloads import WorkloadView, selector_of, sort_out, workload_fields

__all__ = [
    "DaemonSetView",
    "Settings",
    "Snapshot",
    "build_snapshot",
    "project_daemonset",
    "read_spec",
    "terms_of",
]

TEMPLATE_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"


_RAW = frozenset({"template"})
"""Fields that stay documents."""

_LONGEST_NUMBER: Final = 20
_OUT_OF_RANGE: Final = 2**63


class Settings(GateSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about DaemonSets; defaults are the original's."""

    assign_pods_by_scheduler: bool = True
    """Flag --assign-pods-by-scheduler; False: pods are created with their node's name."""
    prune_ineligible_nodes: bool = False
    """Gate DaemonSetPruneIneligibleNodes: nodes that must not run a pod are left out of the update's budget."""
    pre_download: bool = False
    """Gates PreDownloadImageForDaemonSetUpdate and KruiseDaemon: new images are pulled ahead of an update."""


class DaemonSetView(WorkloadView, frozen=True, kw_only=True):
    """One DaemonSet as the cache keeps it."""

    spec: DaemonSetSpec | None
    """None: it cannot be read; `problem` says why."""
    status: DaemonSetStatus = DaemonSetStatus()
    selector: Selector | None = None
    """None: it cannot be read, or there is none."""
    node_selector: Selector | None = None
    """Of the nodes whose pods are updated; None: all, or it cannot be read."""
    placement: Placement = Placement()

    @property
    def owner_reference(self) -> Document:
        """What its pods and revisions carry."""
        return self.reference_as(DAEMON_SETS)

    @property
    def template_generation(self) -> str:
        """The number in an annotation of old, as pods carry it in a label; empty: none that can be read."""
        text = self.annotations.get(TEMPLATE_GENERATION_ANNOTATION, "")
        try:
            number = int(text) if len(text) <= _LONGEST_NUMBER else _OUT_OF_RANGE
        except ValueError:
            return ""
        return str(number) if -_OUT_OF_RANGE <= number < _OUT_OF_RANGE else ""


def project_daemonset(raw: bytes | msgspec.Raw) -> DaemonSetView:
    """The view of a DaemonSet's JSON text (v1beta1).

    A spec that does not fit the types gives a view with `problem`, so that its owner is told and the watch
    goes on. Raises ValueError only for something that is no Kubernetes object.
    """
    document = decode(raw)
    fields = workload_fields(document)
    spec, problem = read_spec(document.get("spec") or {})
    status, _ = read(fields["stored_status"], DaemonSetStatus, path="status")
    block = spec.rolling_update if spec else None
    return DaemonSetView(
        **fields,
        spec=spec,
        problem=problem,
        status=status or DaemonSetStatus(),
        candidate=candidate(spec.template) if spec else None,
        selector=selector_of(spec.selector) if spec else None,
        node_selector=selector_of(block.selector) if block and block.selector else None,
        placement=placement_of(spec.template) if spec else Placement(),
    )


def read_spec(spec: Mapping[str, Any]) -> tuple[DaemonSetSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. A null field counts as absent."""
    return read(spec, DaemonSetSpec, path="spec", raw=_RAW)


def terms_of(daemonset: DaemonSetView) -> Terms:
    """What the states of its nodes depend on besides nodes and pods."""
    return Terms(
        placement=daemonset.placement,
        selector=daemonset.selector,
        min_ready_seconds=daemonset.spec.min_ready_seconds if daemonset.spec else 0,
    )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one DaemonSet at one instant."""

    daemonset: DaemonSetView
    board: Board
    """All nodes of the cluster: what each is to the DaemonSet, and the pods that count there."""
    pods: Sequence[PodView]
    """All pods controlled by it, finished and terminating ones too, in any order."""
    revisions: Sequence[RevisionView]
    """Those controlled by it, oldest first."""
    orphaned_revisions: Sequence[RevisionView] = ()
    """Revisions that nobody controls and whose labels match, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Further revisions whose names could be in the way, by name."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs controlled by it; None: images are not pulled ahead here."""
    failed_until: Mapping[str, Instant] = {}
    """Nodes on which a pod failed a short while ago: until when the next failed pod stays there."""
    now: Instant
    ids: IdSource
    settings: Settings = Settings()


def build_snapshot(
    daemonset: DaemonSetView,
    *,
    nodes: Iterable[NodeView],
    pods: Iterable[PodView],
    revisions: Iterable[RevisionView],
    now: Instant,
    seed: int,
    orphans: Iterable[PodView] = (),
    states: NodeStates | None = None,
    pull_jobs: Iterable[PullJobView] | None = None,
    failed_until: Mapping[str, Instant] | None = None,
    settings: Settings | None = None,
) -> Snapshot:
    """`pods`: those whose controller is the DaemonSet (by uid). `orphans`, `revisions`: all of its namespace.

    `states`: what is known of its nodes from before, under `terms_of(daemonset)`; it saves work and changes
    nothing. `seed` must be another one for every snapshot; names of new pods come from it.
    """
    around = sort_out(revisions, daemonset, selector=daemonset.selector)
    pods = tuple(pods)
    known = states or NodeStates(terms_of(daemonset))
    return Snapshot(
        daemonset=daemonset,
        board=known.look(nodes=nodes, pods=pods, orphans=tuple(orphans), now=now),
        pods=pods,
        revisions=around.own,
        orphaned_revisions=around.free,
        other_revisions=around.others,
        pull_jobs=None if pull_jobs is None else tuple(pull_jobs),
        failed_until=failed_until or {},
        now=now,
        ids=IdSource(seed),
        settings=settings or Settings(),
    )
