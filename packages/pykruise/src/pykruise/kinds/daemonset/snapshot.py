"""Everything that a decision about one DaemonSet needs, as one value.

bytes of a DaemonSet ──▶ DAEMON_SET_VIEWS ──▶ DaemonSetView (stored in a cache)
DaemonSetView + Read ──▶ read_snapshot() ──▶ DaemonSetSnapshot ──▶ plan.py
                            └─ node_cache.py: nodes with their pods; only changed nodes are computed again

The snapshot contains time, ids and settings, so the same snapshot always gives the same plan.
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
from pykruise.plans.config_content import BY_CONFIG, follow_config, index_by_config
from pykruise.plans.declared_features import find_undeclaring_nodes
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.plans.workloads import list_revisions_around, pull_jobs_of
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
    make_spec_reader,
    make_template_candidate,
    selector_of,
    sort_out,
)
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE, Views

TEMPLATE_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_OUT_OF_RANGE: Final = 2**63


class DaemonSetSettings(GateSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about DaemonSets. The defaults are OpenKruise's."""

    assign_pods_by_scheduler: Annotated[
        bool, FromFlag("assign-pods-by-scheduler", "The scheduler places the pods of DaemonSets.")
    ] = True
    """Whether the scheduler binds the pods. Otherwise the controller sets `spec.nodeName` when it creates a pod."""
    prune_ineligible_nodes: Annotated[bool, OnGate("DaemonSetPruneIneligibleNodes")] = False
    """Whether updates ignore nodes that must not run a pod."""
    pre_download: Annotated[bool, OnGate("PreDownloadImageForDaemonSetUpdate", "KruiseDaemon")] = False
    """Whether nodes pull new images in advance of an update."""
    roll_on_config: Annotated[bool, OnGate("RollOnConfig")] = False
    """Whether a revision can include the content of ConfigMaps and Secrets."""


class DaemonSetView(WorkloadView, frozen=True, kw_only=True):
    """A DaemonSet as stored in the cache."""

    spec: DaemonSetSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    status: DaemonSetStatus = DaemonSetStatus()
    selector: Selector | None = None
    """The parsed selector; None if it is invalid or absent."""
    node_selector: Selector | None = None
    """Selector of the nodes whose pods are updated; None if it is absent (all nodes) or invalid."""
    placement: DaemonSetPlacement = DaemonSetPlacement()

    @property
    def owner_reference(self) -> Document:
        """Owner reference of the DaemonSet's pods and revisions."""
        return self.build_reference(DAEMON_SETS)

    @property
    def template_generation(self) -> str:
        """The template generation from a deprecated annotation, as pods have it in a label; empty if absent or
        invalid.
        """
        text = self.annotations.get(TEMPLATE_GENERATION_ANNOTATION, "")
        number = int(text) if _WHOLE_NUMBER.fullmatch(text) else _OUT_OF_RANGE
        return str(number) if -_OUT_OF_RANGE <= number < _OUT_OF_RANGE else ""


read_spec: Final = make_spec_reader(DaemonSetSpec, raw={"template"}, parts=TEMPLATE)


def _derive_fields(spec: DaemonSetSpec, _: Document) -> dict[str, Any]:
    block = spec.rolling_update
    return {
        "selector": selector_of(spec.selector),
        "node_selector": selector_of(block.selector) if block and block.selector else None,
        "placement": placement_of(spec.template),
    }


def terms_of(daemonset: DaemonSetView) -> Terms:
    """Return the inputs of the DaemonSet's node states, besides nodes and pods."""
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
        candidate_of=make_template_candidate,
        derived=_derive_fields,
    ),
    indexes={BY_CONFIG: index_by_config, BY_NAMESPACE: lambda daemon_set: (daemon_set.namespace,)},
)


class DaemonSetSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one DaemonSet at one instant."""

    daemonset: DaemonSetView
    overview: NodeOverview
    """All nodes of the cluster: whether each should run a pod, and its pods."""
    pods: Sequence[PodView]
    """All pods that the DaemonSet controls, including finished and terminating pods, in any order."""
    revisions: Sequence[RevisionView]
    """Revisions that the DaemonSet controls, oldest first."""
    orphaned_revisions: Sequence[RevisionView] = ()
    """Revisions without a controller that the selector matches, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Other revisions in the namespace, by name: a new revision must not get one of these names."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs that the DaemonSet controls; None if images are not pulled in advance."""
    failed_until: Mapping[str, Instant] = {}
    """Nodes on which a pod finished a short time ago, each with the time until which a finished pod is not replaced."""
    undeclaring: frozenset[str] = frozenset()
    """Names of nodes that declare features, but not the resize of whole pods (plans/declared_features.py)."""
    config_problem: str = ""
    """Reason why a changed ConfigMap or Secret does not start a rollout; empty if it does."""
    now: Instant
    ids: IdSource
    settings: DaemonSetSettings = DaemonSetSettings()


class ReadableDaemonSetView(DaemonSetView, frozen=True, kw_only=True):
    """A DaemonSetView with a readable spec and selector. Only a type: no object is created from this class.
    plans/workload_frame.py decides which DaemonSets are readable.
    """

    spec: DaemonSetSpec
    selector: Selector


class ReadableDaemonSet(DaemonSetSnapshot, frozen=True, kw_only=True):
    """A snapshot of a DaemonSet with a readable spec. Only a type: no object is created from this class."""

    daemonset: ReadableDaemonSetView


async def read_snapshot(view: DaemonSetView, read: Read[DaemonSetSettings]) -> DaemonSetSnapshot:
    """Read the DaemonSet with its pods and revisions, and all nodes, from the caches."""
    followed = await follow_config(view, read)
    view = followed.view
    around = sort_out(await list_revisions_around(view, read), view, selector=view.selector)
    pods = tuple(read.list_owned(POD_VIEWS, view.uid))
    orphans = tuple(read.list_orphans(POD_VIEWS, view.namespace))
    known = read.find_memory(NodeMemory)
    now = read.now()
    return DaemonSetSnapshot(
        daemonset=view,
        overview=known.find_states(terms_of(view)).refresh(
            nodes=read.list_all(NODE_VIEWS), pods=pods, orphans=orphans, now=now
        ),
        pods=pods,
        revisions=around.own,
        orphaned_revisions=around.free,
        other_revisions=around.others,
        pull_jobs=pull_jobs_of(view, read),
        failed_until=known.find_backoffs(view.generation).find_ends(now=now),
        undeclaring=find_undeclaring_nodes(
            view.spec.template if view.spec is not None else None, pods, read, settings=read.settings.in_place
        ),
        config_problem=followed.problem,
        now=now,
        ids=IdSource(read.draw_seed()),
        settings=read.settings,
    )


class NodeMemory:
    """Memory about the nodes of one DaemonSet. The process can restart without it."""

    def __init__(self) -> None:
        self._states: NodeStateCache | None = None
        self._backoffs = Backoffs(0)

    def find_states(self, terms: Terms) -> NodeStateCache:
        """Return the cache of node states for these inputs. It makes plans faster, but changes no decision."""
        if self._states is None or self._states.terms != terms:
            self._states = NodeStateCache(terms)
        return self._states

    def find_backoffs(self, generation: int) -> Backoffs:
        """Return the delays of nodes whose pods finished in this generation of the DaemonSet."""
        if self._backoffs.generation != generation:
            self._backoffs = Backoffs(generation)
        return self._backoffs
