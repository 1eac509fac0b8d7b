"""Everything a decision about one DaemonSet needs, as one value.

bytes of a DaemonSet ──▶ DAEMON_SET_VIEWS ──▶ DaemonSetView (what a cache keeps)
DaemonSetView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
                            └─ node_cache.py: nodes with their pods, made anew where they changed

The snapshot carries time, ids and settings, so that the same snapshot always gives the same plan.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pykruise.kinds.daemonset.backoff import Backoffs
from pykruise.kinds.daemonset.node_cache import NodeOverview, NodeStateCache
from pykruise.kinds.daemonset.node_state import Terms
from pykruise.kinds.daemonset.placement import DaemonSetPlacement, placement_of
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec, DaemonSetStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.values.selectors import Selector
from pykruise.plans.declared_features import undeclaring_nodes
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.plans.workloads import pull_jobs_of, revisions_around
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.settings import FromFlag, OnGate
from pykruise.pods.template.typed_parts import TEMPLATE
from pykruise.pods.view.names import IdSource
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import (
    Projector,
    WorkloadView,
    selector_of,
    sort_out,
    spec_reader,
    template_candidate,
)
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views

TEMPLATE_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_OUT_OF_RANGE: Final = 2**63


class DaemonSetSettings(GateSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about DaemonSets; defaults are the original's."""

    assign_pods_by_scheduler: Annotated[
        bool, FromFlag("assign-pods-by-scheduler", "Pods of DaemonSets are placed by the scheduler.")
    ] = True
    """False: pods are created with their node's name."""
    prune_ineligible_nodes: Annotated[bool, OnGate("DaemonSetPruneIneligibleNodes")] = False
    """Nodes that must not run a pod are left out of the budget of an update."""
    pre_download: Annotated[bool, OnGate("PreDownloadImageForDaemonSetUpdate", "KruiseDaemon")] = False
    """New images are pulled ahead of an update."""


class DaemonSetView(WorkloadView, frozen=True, kw_only=True):
    """One DaemonSet as the cache keeps it."""

    spec: DaemonSetSpec | None
    """None: it cannot be read; `problem` says why."""
    status: DaemonSetStatus = DaemonSetStatus()
    selector: Selector | None = None
    """None: it cannot be read, or there is none."""
    node_selector: Selector | None = None
    """Selector of the nodes whose pods are updated; None: all, or unreadable."""
    placement: DaemonSetPlacement = DaemonSetPlacement()

    @property
    def owner_reference(self) -> Document:
        """Owner reference of the DaemonSet's pods and revisions."""
        return self.reference_as(DAEMON_SETS)

    @property
    def template_generation(self) -> str:
        """The number in an annotation of old, as pods carry it in a label; empty: none that can be read."""
        text = self.annotations.get(TEMPLATE_GENERATION_ANNOTATION, "")
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else _OUT_OF_RANGE
        return str(number) if -_OUT_OF_RANGE <= number < _OUT_OF_RANGE else ""


read_spec: Final = spec_reader(DaemonSetSpec, raw={"template"}, parts=TEMPLATE)


def _derived(spec: DaemonSetSpec, _: Document) -> dict[str, Any]:
    block = spec.rolling_update
    return {
        "selector": selector_of(spec.selector),
        "node_selector": selector_of(block.selector) if block and block.selector else None,
        "placement": placement_of(spec.template),
    }


def terms_of(daemonset: DaemonSetView) -> Terms:
    """Terms of its nodes' states besides nodes and pods."""
    return Terms(
        placement=daemonset.placement,
        selector=daemonset.selector,
        min_ready_seconds=daemonset.spec.min_ready_seconds if daemonset.spec else 0,
    )


DAEMON_SET_VIEWS: Final = Views[DaemonSetView](
    resource=DAEMON_SETS,
    projector=lambda: Projector(
        DaemonSetView,
        read_spec=read_spec,
        status=DaemonSetStatus,
        candidate_of=template_candidate,
        derived=_derived,
    ),
    indexes={BY_NAMESPACE: lambda daemon_set: (daemon_set.namespace,)},
)


class DaemonSetSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one DaemonSet at one instant."""

    daemonset: DaemonSetView
    overview: NodeOverview
    """All nodes of the cluster: what each is to the DaemonSet, and the pods that count there."""
    pods: Sequence[PodView]
    """All pods controlled by it, finished and terminating ones too, in any order."""
    revisions: Sequence[RevisionView]
    """Revisions that it controls, oldest first."""
    orphaned_revisions: Sequence[RevisionView] = ()
    """Orphaned revisions whose labels match, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Further revisions whose names could be in the way, by name."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs controlled by it; None: images are not pulled ahead here."""
    failed_until: Mapping[str, Instant] = {}
    """Nodes on which a pod failed a short while ago: until when the next failed pod stays there."""
    undeclaring: frozenset[str] = frozenset()
    """Nodes of its pods that declare features, and not that they resize whole pods (plans/declared_features.py)."""
    now: Instant
    ids: IdSource
    settings: DaemonSetSettings = DaemonSetSettings()


class ReadableDaemonSetView(DaemonSetView, frozen=True, kw_only=True):
    """One whose spec and selector can be read. A type alone: plans/workload_frame.py decides which objects have it."""

    spec: DaemonSetSpec
    selector: Selector


class ReadableDaemonSet(DaemonSetSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    daemonset: ReadableDaemonSetView


async def snapshot(view: DaemonSetView, read: Read[DaemonSetSettings]) -> DaemonSetSnapshot:
    """The DaemonSet with its pods, revisions and all nodes, as they are known now."""
    around = sort_out(await revisions_around(view, read), view, selector=view.selector)
    pods = tuple(read.owned(POD_VIEWS, view.uid))
    orphans = tuple(read.orphans(POD_VIEWS, view.namespace))
    known = read.memory(NodeMemory)
    now = read.now()
    return DaemonSetSnapshot(
        daemonset=view,
        overview=known.states_for(terms_of(view)).refresh(
            nodes=read.all(NODE_VIEWS), pods=pods, orphans=orphans, now=now
        ),
        pods=pods,
        revisions=around.own,
        orphaned_revisions=around.free,
        other_revisions=around.others,
        pull_jobs=pull_jobs_of(view, read),
        failed_until=known.backoffs_for(view.generation).until(now=now),
        undeclaring=undeclaring_nodes(
            view.spec.template if view.spec is not None else None, pods, read, settings=read.settings.in_place
        ),
        now=now,
        ids=IdSource(read.draw_seed()),
        settings=read.settings,
    )


class NodeMemory:
    """Memory of a DaemonSet about nodes; a new process may lose it."""

    def __init__(self) -> None:
        self._states: NodeStateCache | None = None
        self._backoffs = Backoffs(0)

    def states_for(self, terms: Terms) -> NodeStateCache:
        """Known states of its nodes under these terms; they save work and change no decision."""
        if self._states is None or self._states.terms != terms:
            self._states = NodeStateCache(terms)
        return self._states

    def backoffs_for(self, generation: int) -> Backoffs:
        """Nodes whose pods failed, since the DaemonSet has this generation."""
        if self._backoffs.generation != generation:
            self._backoffs = Backoffs(generation)
        return self._backoffs
