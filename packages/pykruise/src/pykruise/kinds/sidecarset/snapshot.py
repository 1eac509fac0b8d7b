"""Facts for a decision about the sidecars of existing pods, as one value.

SidecarSetView + Read ──▶ read_snapshot() ──▶ SidecarSetSnapshot ──▶ plan.py

The snapshot selects the managed pods, so that every later stage uses the same pods.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Annotated, Final, TypeGuard

import msgspec

from pykruise.kinds.sidecarset.managed_pod import ManagedPod, ManagedPodCache
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView, project_sidecarset
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import (
    BY_NAME_PREFIX,
    BY_SIDECARSET,
    NAMESPACE_VIEWS,
    POD_VIEWS,
    REVISION_VIEWS,
    NamespaceView,
)
from pykruise.plans.workloads import drop_ghosts
from pykruise.pods.settings import FromManager, OnGate
from pykruise.pods.view.names import LONGEST_REVISION_OWNER
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, sort_revisions
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason
from pykruise.runtime.views import Views

BY_BASE: Final = "base"
"""Index of canaries by the name of their base SidecarSet."""
SIDECAR_SET_VIEWS: Final = Views[SidecarSetView](
    resource=SIDECAR_SETS,
    projector=lambda: project_sidecarset,
    indexes={BY_BASE: lambda view: (view.base,) if view.base else ()},
)


class SidecarSetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that change decisions about SidecarSets."""

    namespace: Annotated[str, FromManager("revision_namespace")] = "kruise-system"
    """Namespace of the revisions of SidecarSets."""
    own_namespace: Annotated[str, FromManager("own_namespace")] = "kruise-system"
    """Namespace of the manager. Webhooks do not review the pods of this namespace."""
    any_pod_annotation: Annotated[bool, OnGate("SidecarSetPatchPodMetadataDefaultsAllowed")] = False
    """Whether SidecarSets may patch any annotation of pods."""
    sort_by_name: Annotated[bool, OnGate("EnableSortSidecarContainerByName")] = False
    """Whether injected containers are sorted by name."""


class UpgradeRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was rejected at its last try."""

    reason: Reason
    about: str
    """Subject of the write, such as a pod."""
    tries: int
    """Number of consecutive rejections since the last upgrade of a pod."""
    again_at: Instant
    generation: int
    updated: int
    """Number of pods that had the newest sidecars before the last try."""


class Refusals(msgspec.Struct):
    """Rejected writes that the manager remembers between reconciles (refusals.py)."""

    last: UpgradeRefusal | None = None


class SelectedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the SidecarSet selects, with the labels of its namespace."""

    pod: PodView
    namespace_labels: Mapping[str, str] = {}

    @property
    def label(self) -> str:
        """`namespace/name`, the name of the pod in plans."""
        return f"{self.pod.namespace}/{self.pod.name}"


class SidecarSetSnapshot(Judged, frozen=True, kw_only=True):
    """State of one SidecarSet and its surroundings at one time."""

    sidecarset: SidecarSetView
    pods: Sequence[ManagedPod] = ()
    """Managed pods, sorted by namespace and name."""
    selected: Sequence[SelectedPod] = ()
    """Active pods that the SidecarSet selects and does not manage, sorted by namespace and name."""
    canaries: tuple[str, ...] = ()
    """Names of the SidecarSets that are canaries of this one, sorted."""
    revisions: Sequence[RevisionView] = ()
    """The SidecarSet's revisions, oldest first."""
    other_revisions: Mapping[str, RevisionView] = {}
    """Other revisions whose names could collide with the name of a new revision, by name."""
    refusal: UpgradeRefusal | None = None
    """Last rejected write; nothing is written until its next try."""
    now: Instant
    settings: SidecarSetSettings = SidecarSetSettings()


class ReadableSidecarSet(SidecarSetSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    sidecarset: ReadableSidecarSetView


def is_readable(snapshot: SidecarSetSnapshot) -> TypeGuard[ReadableSidecarSet]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.sidecarset.spec is not None and not snapshot.refused


async def read_snapshot(view: SidecarSetView, read: Read[SidecarSetSettings]) -> SidecarSetSnapshot:
    """Read the SidecarSet with its revisions and its pods from the caches."""
    own: list[RevisionView] = []
    others: dict[str, RevisionView] = {}
    prefix = (read.settings.namespace, view.name[:LONGEST_REVISION_OWNER])
    known = read.list_by_index(REVISION_VIEWS, BY_NAME_PREFIX, prefix)
    for revision in await drop_ghosts(known, view, read):
        is_own = revision.labels.get(SET_LABEL) == view.name
        if is_own and revision.controller_uid in ("", view.uid):
            own.append(revision)
        else:
            others[revision.name] = revision
    pods = read.list_by_index(POD_VIEWS, BY_SIDECARSET, view.name)
    selected = {
        name: view.selects_namespace(name, _find_namespace_labels(name, view, read))
        for name in {pod.namespace for pod in pods}
    }
    managed = [
        pod
        for pod in read.find_memory(ManagedPodCache).list_managed(pods, view)
        if selected[pod.pod.namespace]
    ]
    return SidecarSetSnapshot(
        sidecarset=view,
        pods=sorted(managed, key=lambda pod: (pod.pod.namespace, pod.pod.name)),
        selected=_find_unmanaged_pods(view, read, managed={pod.pod.uid for pod in managed}),
        canaries=canaries_of(view, read.list_by_index(SIDECAR_SET_VIEWS, BY_BASE, view.name)),
        revisions=sort_revisions(own),
        other_revisions=others,
        refusal=_find_refusal(view, read),
        now=read.now(),
        settings=read.settings,
    )


def canaries_of(view: SidecarSetView, sets: Iterable[SidecarSetView]) -> tuple[str, ...]:
    """Return the names of the canaries of the SidecarSet among `sets`, sorted."""
    return tuple(sorted(other.name for other in sets if other.base == view.name))


def _find_unmanaged_pods(
    view: SidecarSetView, read: Read[SidecarSetSettings], *, managed: Set[str]
) -> list[SelectedPod]:
    """Return the selected pods whose UID is not in `managed`. In most clusters these are few."""
    if view.selector is None:
        return []
    pods = [
        SelectedPod(pod=pod, namespace_labels=namespace.labels)
        for namespace in _find_namespaces(view, read)
        if view.selects_namespace(namespace.name, namespace.labels)
        for pod in select_pods(view.selector, namespace.name, read)
        if pod.uid not in managed and pod.is_active
    ]
    return sorted(pods, key=lambda selected: (selected.pod.namespace, selected.pod.name))


def _find_namespaces(view: SidecarSetView, read: Read[SidecarSetSettings]) -> Iterable[NamespaceView]:
    """Return the namespaces that the SidecarSet names; all namespaces when it names none."""
    if not view.named_namespaces:
        return read.list_all(NAMESPACE_VIEWS)
    named = (read.get(NAMESPACE_VIEWS, Key("", name)) for name in view.named_namespaces)
    return [namespace for namespace in named if namespace is not None]


def _find_refusal(view: SidecarSetView, read: Read[SidecarSetSettings]) -> UpgradeRefusal | None:
    """The last rejected write; None when it may be retried now or the spec has changed."""
    last = read.find_memory(Refusals).last
    is_held = last is not None and last.generation == view.generation and last.again_at > read.now()
    return last if is_held else None


def _find_namespace_labels(
    name: str, view: SidecarSetView, read: Read[SidecarSetSettings]
) -> Mapping[str, str] | None:
    """Labels of a namespace if the namespaceSelector needs them; None: the labels are unknown or not needed."""
    namespace = read.get(NAMESPACE_VIEWS, Key("", name)) if view.namespace_selector else None
    return namespace.labels if namespace is not None else None
