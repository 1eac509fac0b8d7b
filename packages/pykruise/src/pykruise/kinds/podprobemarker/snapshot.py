"""Everything that a decision about one PodProbeMarker needs, as one value.

MarkerView + Read ──▶ read_snapshot() ──▶ PodProbeMarkerSnapshot ──▶ plan.py
                      └── if a policy sets annotations: all annotations of pods on virtual nodes, from the API server
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeGuard

import msgspec

from pykruise.kinds.podprobemarker.conflicts import list_parts
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.plans.pod_annotations import annotations_of
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import BY_MARKER, MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS
from pykruise.pods.probes.api import PodProbeMarkerSpec
from pykruise.pods.probes.views import MarkerView, NodeProbesView
from pykruise.pods.settings import OnGate
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_NAMESPACE

ON_VIRTUAL_NODES: Final = "EnablePodProbeMarkerOnServerless"
"""Feature gate for pods on virtual nodes."""


class PodProbeMarkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about PodProbeMarkers."""

    on_virtual_nodes: Annotated[bool, OnGate(ON_VIRTUAL_NODES)] = False
    """Whether the conditions that virtual nodes write determine labels and annotations of the pods there."""


class PodProbeMarkerSnapshot(Judged, frozen=True, kw_only=True):
    """The state of the world for one PodProbeMarker at one instant."""

    marker: MarkerView
    checked: Sequence[PodView] = ()
    """Selected pods on nodes with an agent, by name."""
    unprobed: Sequence[PodView] = ()
    """Selected pods that cannot be probed yet, because they do not run."""
    virtual_pods: Sequence[PodView] = ()
    """Selected pods on virtual nodes."""
    lost_nodes: frozenset[str] = frozenset()
    """Names of the nodes of `checked` that are not ready."""
    node_probes: Mapping[str, NodeProbesView] = {}
    """NodePodProbes by node: those of the nodes of `checked`, and all others that have probes of the marker."""
    others: Mapping[str, MarkerView] = {}
    """Other markers of the same namespace that set a condition, label or annotation of this marker, by name."""
    annotations: Mapping[Key, Mapping[str, str]] = {}
    """Annotations of pods on virtual nodes, if a policy sets annotations."""
    settings: PodProbeMarkerSettings = PodProbeMarkerSettings()
    now: Instant


class ReadableMarkerView(MarkerView, frozen=True, kw_only=True):
    """A marker with a readable spec. It is used only as a type: `is_readable()` decides which snapshots have it."""

    spec: PodProbeMarkerSpec


class ReadablePodProbeMarker(PodProbeMarkerSnapshot, frozen=True, kw_only=True):
    """A snapshot with a readable spec, so it can be planned."""

    marker: ReadableMarkerView


def is_readable(snapshot: PodProbeMarkerSnapshot) -> TypeGuard[ReadablePodProbeMarker]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.marker.spec is not None and not snapshot.refused


def is_probed(pod: PodView) -> bool:
    """Whether the pod can be probed: it is active, has a node, and is initialized."""
    initialized = pod.find_condition("Initialized")
    return pod.is_active and bool(pod.node_name) and initialized is not None and initialized.status == "True"


async def read_snapshot(
    view: MarkerView, read: Read[PodProbeMarkerSettings]
) -> PodProbeMarkerSnapshot | None:
    """Read the marker with its pods and the NodePodProbes of their nodes. None: the cache of NodePodProbes is not
    filled yet.
    """
    if not read.is_read(NODE_PROBES_VIEWS):
        return None
    selected = list(_select_pods(view, read))
    pods: list[PodView] = []
    virtual: list[PodView] = []
    lost: set[str] = set()
    for pod in sorted(filter(is_probed, selected), key=lambda pod: pod.name):
        node = read.get(NODE_VIEWS, Key("", pod.node_name))
        if node is not None:
            (virtual if node.is_virtual else pods).append(pod)
            if node.ready_since is None and not node.is_virtual:
                lost.add(node.name)
    has_annotations = read.settings.on_virtual_nodes and any(_list_annotation_flags(view))
    return PodProbeMarkerSnapshot(
        marker=view,
        checked=pods,
        unprobed=[pod for pod in selected if pod.is_active and not is_probed(pod)],
        virtual_pods=virtual,
        lost_nodes=frozenset(lost),
        node_probes={probe.name: probe for probe in _find_node_probes(view, pods, read)},
        others={other.name: other for other in _find_rivals(view, read)},
        annotations=await annotations_of(read, virtual) if has_annotations else {},
        settings=read.settings,
        now=read.now(),
    )


def _select_pods(view: MarkerView, read: Read[PodProbeMarkerSettings]) -> Iterator[PodView]:
    if view.is_deleting or view.selector is None:
        return
    yield from select_pods(view.selector, view.namespace, read)


def _find_node_probes(
    view: MarkerView, pods: Sequence[PodView], read: Read[PodProbeMarkerSettings]
) -> Iterator[NodeProbesView]:
    yield from read.list_by_index(NODE_PROBES_VIEWS, BY_MARKER, view.key)
    for name in {pod.node_name for pod in pods}:
        if (node_probes := read.get(NODE_PROBES_VIEWS, Key("", name))) is not None:
            yield node_probes


def _find_rivals(view: MarkerView, read: Read[PodProbeMarkerSettings]) -> Iterator[MarkerView]:
    parts = list_parts(view)
    for other in read.list_by_index(MARKER_VIEWS, BY_NAMESPACE, view.namespace) if parts else ():
        if other.name != view.name and not other.is_deleting and parts & list_parts(other):
            yield other


def _list_annotation_flags(view: MarkerView) -> Iterator[bool]:
    for probe in view.spec.probes if view.spec else ():
        for policy in probe.marker_policy or ():
            yield bool(policy.annotations)
