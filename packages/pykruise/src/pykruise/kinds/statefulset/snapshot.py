"""Everything that a decision about one StatefulSet needs, as one value.

bytes of a StatefulSet ──▶ STATEFUL_SET_VIEWS ──▶ StatefulSetView (stored in the cache)
StatefulSetView + Read ──▶ read_snapshot() ──▶ StatefulSetSnapshot ──▶ plan.py

Claims are found by name, because claims of a StatefulSet have neither a controller nor a label with an instance id,
which claims of CloneSets have.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from pykruise.kinds.statefulset.defaults import StatefulSetDefaultingSettings
from pykruise.kinds.statefulset.limits import limits_of
from pykruise.kinds.statefulset.types import (
    ADVANCED_STATEFUL_SETS,
    StatefulSetSpec,
    StatefulSetStatus,
)
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import STORAGE_CLASSES
from pykruise.kube.values.selectors import Selector
from pykruise.plans.config_content import BY_CONFIG, follow_config, index_by_config
from pykruise.plans.declared_features import find_undeclaring_nodes
from pykruise.plans.nodes_out_of_service import BY_NODE_OPTION, index_by_node_option, read_nodes_of_pods
from pykruise.plans.pod_groups import FoundGroups, read_groups
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import CLAIM_VIEWS, POD_VIEWS
from pykruise.plans.workloads import list_revisions_around, pull_jobs_of
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.in_place import GateSettings
from pykruise.pods.settings import OnGate
from pykruise.pods.template.typed_parts import TEMPLATES
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, format_claim_name
from pykruise.pods.workload.ordinals import NO_ORDINAL, list_wanted_ordinals, reserved_of, split_name
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


class StatefulSetSettings(GateSettings, frozen=True, kw_only=True):
    """Feature gates that change decisions about StatefulSets; same defaults as OpenKruise."""

    auto_delete_claims: Annotated[bool, OnGate("StatefulSetAutoDeletePVC")] = True
    """Whether persistentVolumeClaimRetentionPolicy takes effect."""
    start_ordinal: Annotated[bool, OnGate("StatefulSetStartOrdinal")] = False
    """Whether ordinals.start takes effect."""
    auto_resize_claims: Annotated[bool, OnGate("StatefulSetAutoResizePVCGate")] = False
    """Whether PVCs grow with their templates."""
    pod_index_label: Annotated[bool, OnGate("PodIndexLabel")] = True
    """Whether pods get their ordinal as a label."""
    preparing_update_as_update: Annotated[bool, OnGate("PreparingUpdateAsUpdate")] = False
    """Whether pods in PreparingUpdate count as updated when revisions and updates of other pods are chosen."""
    pre_download: Annotated[bool, OnGate("PreDownloadImageForInPlaceUpdate", "KruiseDaemon")] = False
    """Whether nodes pull new images in advance of an update."""
    roll_on_config: Annotated[bool, OnGate("RollOnConfig")] = False
    """Whether the content of ConfigMaps and Secrets can be part of a revision."""
    pod_groups: Annotated[bool, OnGate("PodGroups")] = False
    """Whether pods may form groups that Kubernetes' scheduler places together."""
    defaulting: StatefulSetDefaultingSettings = StatefulSetDefaultingSettings()


class StatefulSetView(WorkloadView, frozen=True, kw_only=True):
    """A StatefulSet as stored in the cache."""

    spec: StatefulSetSpec | None
    """None: the spec cannot be read, and `problem` contains the reason."""
    selector: Selector | None = None
    """None: the selector cannot be read."""
    status: StatefulSetStatus = StatefulSetStatus()

    def may_own(self, pod: PodView) -> bool:
        """Whether the pod's labels and name are those of a pod of this set."""
        selector = self.selector
        return (
            selector is not None
            and not selector.is_empty
            and selector.matches(pod.labels)
            and split_name(pod.name)[0] == self.name
        )


read_spec: Final = make_spec_reader(
    StatefulSetSpec, raw={"template", "volumeClaimTemplates"}, parts=TEMPLATES
)

STATEFUL_SET_VIEWS: Final = Views[StatefulSetView](
    resource=ADVANCED_STATEFUL_SETS,
    projector=lambda: Projector(
        StatefulSetView,
        read_spec=read_spec,
        status=StatefulSetStatus,
        candidate_of=make_template_candidate,
        derived=lambda spec, _: {"selector": selector_of(spec.selector)},
    ),
    indexes={
        BY_CONFIG: index_by_config,
        BY_NODE_OPTION: index_by_node_option,
        BY_NAMESPACE: lambda stateful_set: (stateful_set.namespace,),
    },
)


class StorageClassView(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a StorageClass that matter for growing claims."""

    namespace: str = ""
    name: str
    uid: str = ""
    resource_version: int = 0
    allows_expansion: bool = False


class _ClassMeta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"


class _Class(msgspec.Struct, rename="camel"):
    metadata: _ClassMeta
    allow_volume_expansion: bool | None = None


_decode_class = msgspec.json.Decoder(_Class).decode


def project_storage_class(raw: bytes | msgspec.Raw) -> StorageClassView:
    """Return a StorageClass's view. Raises msgspec.DecodeError for other documents."""
    result = _decode_class(raw)
    meta = result.metadata
    return StorageClassView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        allows_expansion=result.allow_volume_expansion is True,
    )


STORAGE_CLASS_VIEWS: Final = Views[StorageClassView](
    resource=STORAGE_CLASSES, projector=lambda: project_storage_class
)


class StatefulSetSnapshot(Judged, frozen=True, kw_only=True):
    """The state of the world for one StatefulSet at one instant."""

    statefulset: StatefulSetView
    pods: Sequence[PodView]
    """All pods controlled by the set, in any order."""
    orphans: Sequence[PodView] = ()
    """Orphans of the namespace whose labels and names are those of the set's pods."""
    revisions: Sequence[RevisionView]
    """The set's own revisions, oldest first."""
    orphaned_revisions: Sequence[RevisionView] = ()
    """Revisions without an owner whose labels match."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Other revisions whose names could collide with the name of a new revision, by name."""
    claims: Mapping[str, ClaimView] = {}
    """Claims that the set's pods mount or would mount, by name."""
    taken: Mapping[str, PodView] = {}
    """Names of desired pods that other pods (of another owner, or without an owner) already use, each with its pod."""
    storage_classes: Mapping[str, StorageClassView] = {}
    """Storage classes by name. They are used only to expand claims."""
    pull_jobs: Sequence[PullJobView] | None = None
    """ImagePullJobs controlled by the set; None: images are not pulled in advance here."""
    nodes: Mapping[str, NodeView] = {}
    """Nodes of its pods by name; empty without the option ignore-unavailable-nodes."""
    undeclaring: frozenset[str] = frozenset()
    """Names of nodes that declare features, but not the resize of whole pods (plans/declared_features.py)."""
    config_problem: str = ""
    """Reason why a change of a ConfigMap or Secret starts no rollout; empty: such a change starts a rollout."""
    groups: FoundGroups = FoundGroups()
    """Groups of the set's pods, for the option gang-min-count."""
    now: Instant
    settings: StatefulSetSettings = StatefulSetSettings()


class ReadableStatefulSetView(StatefulSetView, frozen=True, kw_only=True):
    """A StatefulSetView with a readable spec and selector. Only a type: no object is created from this class, and
    plans/workload_frame.py decides which StatefulSets are readable.
    """

    spec: StatefulSetSpec
    selector: Selector


class ReadableStatefulSet(StatefulSetSnapshot, frozen=True, kw_only=True):
    """A snapshot with a readable spec and selector. Only a type: no object is created from this class."""

    statefulset: ReadableStatefulSetView


async def read_snapshot(view: StatefulSetView, read: Read[StatefulSetSettings]) -> StatefulSetSnapshot:
    """Read the StatefulSet with its pods, PVCs and revisions from the caches."""
    settings = read.settings
    followed = await follow_config(view, read)
    view = followed.view
    groups = await read_groups(view, read)
    pods = tuple(read.list_owned(POD_VIEWS, view.uid))
    orphans = read.list_orphans(POD_VIEWS, view.namespace)
    adoptable = [pod for pod in orphans if not pod.is_deleting and view.may_own(pod)]
    around = sort_out(await list_revisions_around(view, read), view, selector=view.selector)
    names = claim_names_of(view, [*pods, *adoptable], settings=settings)
    claims = {name: read.get(CLAIM_VIEWS, Key(view.namespace, name)) for name in names}
    classes = read.list_all(STORAGE_CLASS_VIEWS) if read.is_read(STORAGE_CLASS_VIEWS) else ()
    return StatefulSetSnapshot(
        statefulset=view,
        pods=pods,
        orphans=adoptable,
        revisions=around.own,
        orphaned_revisions=around.free,
        other_revisions=around.others,
        claims={name: claim for name, claim in claims.items() if claim is not None},
        taken=dict(_find_taken(view, read, known={pod.uid for pod in (*pods, *adoptable)})),
        storage_classes={class_.name: class_ for class_ in classes},
        pull_jobs=pull_jobs_of(view, read),
        nodes=read_nodes_of_pods(view.annotations, pods, read),
        undeclaring=find_undeclaring_nodes(
            view.spec.template if view.spec is not None else None, pods, read, settings=settings.in_place
        ),
        config_problem=followed.problem,
        groups=groups,
        now=read.now(),
        settings=settings,
    )


def _find_taken(
    view: StatefulSetView, read: Read[StatefulSetSettings], *, known: Collection[str]
) -> Iterator[tuple[str, PodView]]:
    """Yield the names of desired pods that other pods already use, each with the other pod."""
    if view.spec is None:
        return
    for ordinal in wanted_ordinals_of(view.spec, settings=read.settings):
        name = f"{view.name}-{ordinal}"
        pod = read.get(POD_VIEWS, Key(view.namespace, name))
        if pod is not None and pod.uid not in known:
            yield name, pod


def wanted_ordinals_of(spec: StatefulSetSpec, *, settings: StatefulSetSettings) -> Sequence[int]:
    """Ordinals of the pods that should exist."""
    return tuple(
        list_wanted_ordinals(
            start=start_of(spec, settings=settings),
            replicas=limits_of(spec)[0].replicas,
            reserved=reserved_of(spec.reserve_ordinals or ()),
        )
    )


def claim_names_of(
    statefulset: StatefulSetView, pods: Iterable[PodView], *, settings: StatefulSetSettings
) -> Iterator[str]:
    """Names of all claims of pods that exist or should exist."""
    spec = statefulset.spec
    if spec is None or not spec.volume_claim_templates:
        return
    ordinals = {split_name(pod.name)[1] for pod in pods} - {NO_ORDINAL}
    ordinals |= set(wanted_ordinals_of(spec, settings=settings))
    for template in spec.claim_names:
        for ordinal in ordinals:
            yield format_claim_name(template, owner=statefulset.name, suffix=str(ordinal))


def start_of(spec: StatefulSetSpec, *, settings: StatefulSetSettings) -> int:
    """The first ordinal; 0 unless the gate StatefulSetStartOrdinal is on."""
    return max(spec.ordinals.start, 0) if settings.start_ordinal and spec.ordinals else 0
