"""Everything that a decision about one CloneSet needs, as one value.

bytes of a CloneSet ──▶ CLONE_SET_VIEWS ──▶ CloneSetView (stored in the cache)
CloneSetView + Read ──▶ read_snapshot() ──▶ CloneSetSnapshot ──▶ plan.py

The snapshot contains time, ids and settings, so the same snapshot always gives the same plan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from pykruise.kinds.cloneset.selector_overlap import OverlapMemory
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec, CloneSetStatus
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.selectors import Selector
from pykruise.plans.config_content import BY_CONFIG, follow_config, index_by_config
from pykruise.plans.declared_features import find_undeclaring_nodes
from pykruise.plans.in_place import SeenInPlace
from pykruise.plans.nodes_out_of_service import BY_NODE_OPTION, index_by_node_option, read_nodes_of_pods
from pykruise.plans.pod_groups import FoundGroups, read_groups
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import BUDGET_VIEWS, CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.plans.workloads import list_revisions_around, pull_jobs_of
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.in_place import InPlaceSettings as InPlaceSettings
from pykruise.pods.settings import FromFlag, OnGate
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import TEMPLATES
from pykruise.pods.view.names import IdSource, format_pod_name
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import BudgetView
from pykruise.pods.workload.claims import ClaimView
from pykruise.pods.workload.options import SUCCESSOR_PLACEMENT
from pykruise.pods.workload.revisions import RevisionView, sort_revisions
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


class CloneSetSettings(GateSettings, frozen=True, kw_only=True):
    """Feature gates and flags that change decisions about CloneSets and their admission; same defaults as
    OpenKruise.
    """

    short_hash: Annotated[bool, OnGate("CloneSetShortHash")] = False
    """Whether the revision label of pods contains only the hash, and not the name of the revision."""
    partition_rollback: Annotated[bool, OnGate("CloneSetPartitionRollback")] = False
    """Whether updated pods return to the current revision when the partition is raised."""
    preparing_update_as_update: Annotated[bool, OnGate("PreparingUpdateAsUpdate")] = False
    """Whether pods in PreparingUpdate count as updated while scaling."""
    exclude_preparing_delete: Annotated[
        bool,
        FromFlag(
            "cloneset-scaling-exclude-preparing-delete",
            "When a CloneSet is scaled, pods in PreparingDelete do not count as its pods.",
        ),
    ] = False
    """Whether pods in PreparingDelete do not count as pods of their CloneSet, whatever its spec says."""
    recreate_on_claim_change: Annotated[bool, OnGate("RecreatePodWhenChangeVCTInCloneSetGate")] = False
    """Whether changed volumeClaimTemplates prevent an in-place update."""
    pre_download: Annotated[bool, OnGate("PreDownloadImageForInPlaceUpdate", "KruiseDaemon")] = False
    """Whether nodes pull new images in advance of an update."""
    filters_events: Annotated[bool, OnGate("CloneSetEventHandlerOptimization")] = False
    """Whether a change of a pod enqueues nothing if it changes only fields that no decision reads."""
    asks_budgets: Annotated[bool, OnGate("PodUnavailableBudgetUpdateGate")] = False
    """Whether a pod is updated only when its PodUnavailableBudget allows this."""

    roll_on_config: Annotated[bool, OnGate("RollOnConfig")] = False
    """Whether a revision can include the content of ConfigMaps and Secrets."""

    pod_groups: Annotated[bool, OnGate("PodGroups")] = False
    """Whether pods can be started as a group by Kubernetes' scheduler."""

    defaulting: DefaultingSettings = DefaultingSettings()

    @property
    def in_place(self) -> InPlaceSettings:
        """Settings for in-place updates."""
        return msgspec.structs.replace(super().in_place, compare_claims=self.recreate_on_claim_change)


class CloneSetView(WorkloadView, frozen=True, kw_only=True):
    """A CloneSet as stored in the cache."""

    spec: CloneSetSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""
    status: CloneSetStatus = CloneSetStatus()
    selector: Selector | None = None
    """The parsed selector; None if it is unreadable."""

    @property
    def owner_reference(self) -> Document:
        """Owner reference of the CloneSet's pods and revisions."""
        return self.build_reference(CLONE_SETS)


read_spec: Final = make_spec_reader(CloneSetSpec, raw={"template", "volumeClaimTemplates"}, parts=TEMPLATES)

BY_UID: Final = "uid"
"""Index of CloneSets by UID: a claim contains its owner's UID."""

BY_SELECTOR: Final = "selector"
"""Index of CloneSets by one label that the selector requires: one entry (namespace, key, value) for each allowed value.
By the labels of a pod, the index finds all CloneSets whose selector perhaps matches the pod.
"""

ANY_POD: Final = ("", "")
"""Key and value of the entry for CloneSets whose selector requires no specific value of any label."""


def _index_by_selector(cloneset: CloneSetView) -> Iterable[tuple[str, str, str]]:
    """Return the CloneSet's entries in the index BY_SELECTOR: one for each value of the label with the fewest
    values.
    """
    if cloneset.selector is None or cloneset.selector.is_empty:
        return ()
    listed = min(cloneset.selector.listed_values(), key=lambda value: len(value[1]), default=None)
    if listed is None:
        return ((cloneset.namespace, *ANY_POD),)
    key, values = listed
    return [(cloneset.namespace, key, value) for value in dict.fromkeys(values)]


CLONE_SET_VIEWS: Final = Views[CloneSetView](
    resource=CLONE_SETS,
    projector=lambda: Projector(
        CloneSetView,
        read_spec=read_spec,
        status=CloneSetStatus,
        candidate_of=make_template_candidate,
        derived=lambda spec, _: {"selector": selector_of(spec.selector)},
    ),
    indexes={
        BY_CONFIG: index_by_config,
        BY_NODE_OPTION: index_by_node_option,
        BY_NAMESPACE: lambda cloneset: (cloneset.namespace,),
        BY_UID: lambda cloneset: (cloneset.uid,),
        BY_SELECTOR: _index_by_selector,
    },
)


class CloneSetSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one CloneSet at one instant."""

    cloneset: CloneSetView
    pods: Sequence[PodView]
    """All pods that the CloneSet controls, also finished and terminating pods, in any order."""
    revisions: Sequence[RevisionView]
    """The CloneSet's own revisions, and revisions without an owner that it can adopt, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Other revisions in the namespace, by name: a new revision must not get one of these names."""
    orphans: Sequence[PodView] = ()
    """All pods of the namespace without a controller, in any order. They are never adopted."""
    overlapping: Sequence[PodView] = ()
    """Pods of other owners that match the selector, in any order."""
    claims: Sequence[ClaimView] = ()
    """All claims that the CloneSet controls, also terminating claims, in any order."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs that the CloneSet controls; None if images are not pulled in advance."""
    budgets: Mapping[str, BudgetView] = {}
    """PodUnavailableBudgets of the namespace by name, if updates must respect them."""
    occupied_ids: frozenset[str] = frozenset()
    """Ids of claims for which no pod can be created, because a pod that the CloneSet does not control has the name of
    the new pod.
    """
    nodes: Mapping[str, NodeView] = {}
    """Nodes by name. They are read only if the template has topologySpreadConstraints, or if the option
    successor-placement or ignore-unavailable-nodes is set.
    """
    undeclaring: frozenset[str] = frozenset()
    """Names of nodes that declare features, but not the resize of whole pods (plans/declared_features.py)."""
    config_problem: str = ""
    """Reason why a changed ConfigMap or Secret does not start a rollout; empty if it does."""
    groups: FoundGroups = FoundGroups()
    """Groups of the CloneSet's pods, if the option gang-min-count is set."""
    now: Instant
    ids: IdSource
    settings: CloneSetSettings = CloneSetSettings()
    seen: SeenInPlace = SeenInPlace()
    """Results of the last plan about pods with updates in progress. They make the next plan faster, but do not change
    it.
    """


class ReadableCloneSetView(CloneSetView, frozen=True, kw_only=True):
    """A CloneSetView with a readable spec. Only a type: no object is created from this class. plans/workload_frame.py
    decides which CloneSets are readable.
    """

    spec: CloneSetSpec


class ReadableCloneSet(CloneSetSnapshot, frozen=True, kw_only=True):
    """A snapshot of a CloneSet with a readable spec. Only a type: no object is created from this class."""

    cloneset: ReadableCloneSetView


async def read_snapshot(view: CloneSetView, read: Read[CloneSetSettings]) -> CloneSetSnapshot:
    """Read the CloneSet with its pods, claims and revisions from the caches."""
    followed = await follow_config(view, read)
    view = followed.view
    around = sort_out(await list_revisions_around(view, read), view, selector=view.selector)
    claims = tuple(read.list_owned(CLAIM_VIEWS, view.uid))
    budgets = (
        read.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, view.namespace) if read.is_read(BUDGET_VIEWS) else ()
    )
    groups = await read_groups(view, read)
    now = read.now()
    pods = tuple(read.list_owned(POD_VIEWS, view.uid))
    template = view.spec.template if view.spec is not None else None
    return CloneSetSnapshot(
        cloneset=view,
        pods=pods,
        revisions=sort_revisions([*around.own, *around.free]),
        other_revisions=around.others,
        orphans=tuple(read.list_orphans(POD_VIEWS, view.namespace)),
        overlapping=read.find_memory(OverlapMemory).look(view, view.selector, read),
        claims=claims,
        pull_jobs=pull_jobs_of(view, read),
        budgets={budget.name: budget for budget in budgets},
        occupied_ids=frozenset(_find_occupied_ids(view, claims, read)),
        nodes=_list_nodes(view, pods, read),
        undeclaring=find_undeclaring_nodes(template, pods, read, settings=read.settings.in_place),
        config_problem=followed.problem,
        groups=groups,
        now=now,
        ids=IdSource(read.draw_seed()),
        settings=read.settings,
        seen=read.find_memory(SeenInPlace),
    )


def _find_occupied_ids(
    view: CloneSetView, claims: Iterable[ClaimView], read: Read[CloneSetSettings]
) -> Iterator[str]:
    """Find ids of claims for which no pod can be created, because a pod that the CloneSet does not control has the
    name of the new pod.
    """
    for claim in claims:
        pod = read.get(POD_VIEWS, Key(view.namespace, format_pod_name(view.name, claim.instance_id)))
        if pod is not None and (pod.controller is None or pod.controller.uid != view.uid):
            yield claim.instance_id


def _list_nodes(
    view: CloneSetView, pods: Iterable[PodView], read: Read[CloneSetSettings]
) -> Mapping[str, NodeView]:
    """Return the nodes that decisions about this CloneSet need, by name: all nodes, the nodes of its pods, or none."""
    if view.spec is None:
        return {}
    constraints = (view.spec.template.get("spec") or {}).get("topologySpreadConstraints")
    if not constraints and SUCCESSOR_PLACEMENT.annotation not in view.annotations:
        return read_nodes_of_pods(view.annotations, pods, read)
    return {node.name: node for node in read.list_all(NODE_VIEWS)}
