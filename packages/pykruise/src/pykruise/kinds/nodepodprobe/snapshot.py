"""Everything that a decision about one NodePodProbe needs, as one value.

NodeProbesView + Read ──▶ read_snapshot() ──▶ NodePodProbeSnapshot ──▶ plan.py
                          ├── pods; a pod that the cache has never contained is read from the API server
                          ├── annotations of pods with results, if a policy sets annotations, from the API server
                          └── the node, from the API server, before its NodePodProbe is deleted, and before it is
                              created for the second time within LATELY_S

If the NodePodProbe does not exist, the view has no UID: the plan creates a NodePodProbe if its node needs one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from pykruise.kube.client.answers import metadata_of
from pykruise.kube.clock import Instant
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES
from pykruise.plans.pod_annotations import annotations_of
from pykruise.plans.views import MARKER_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.views import MarkerView, NodeProbesView, list_marker_keys, split_name
from pykruise.pods.settings import FromManager
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read

LATELY_S: Final = 60.0
"""If a NodePodProbe is missing twice within this number of seconds, its node is read from the API server: another
manager may have deleted the NodePodProbe because the node no longer exists.
"""


class NodePodProbeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about NodePodProbes."""

    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace whose pods this manager caches; empty if it caches all namespaces."""


class NodePodProbeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one NodePodProbe at one instant."""

    node_probes: NodeProbesView
    node: NodeView | None = None
    checked: Mapping[str, PodView] = {}
    """UID of each pod in the spec that is still active → the pod."""
    is_behind: bool = False
    """Whether some of these pods are not in the cache yet."""
    markers: Mapping[Key, MarkerView] = {}
    """PodProbeMarkers of the probes, except terminating ones."""
    annotations: Mapping[Key, Mapping[str, str]] = {}
    """Annotations of the pods for which a marker policy sets annotations."""
    settings: NodePodProbeSettings = NodePodProbeSettings()
    now: Instant

    def is_known(self, namespace: str) -> bool:
        """Whether this manager caches the pods of a namespace."""
        return self.settings.namespace in ("", namespace)


def make_absent_view(key: Key) -> NodeProbesView:
    """Return a view for a NodePodProbe that does not exist."""
    return NodeProbesView(name=key.name, uid="", resource_version=0)


class _Made:
    """Remembers for which nodes a NodePodProbe was missing, and when."""

    def __init__(self) -> None:
        self._at: dict[str, Instant] = {}
        """Name of each node → when its NodePodProbe was last missing, in ascending order of these times."""

    def is_again(self, name: str, now: Instant) -> bool:
        """Whether the NodePodProbe was also missing a short time ago. Remember that it is missing now."""
        while self._at and now - next(iter(self._at.values())) >= LATELY_S:
            del self._at[next(iter(self._at))]
        is_again = self._at.pop(name, None) is not None
        self._at[name] = now
        return is_again


def needs_node_pod_probe(node: NodeView | None) -> bool:
    """Whether a node without a NodePodProbe should get one."""
    if node is None or node.is_deleting:
        return False
    return not node.is_virtual and node.ready_since is not None


async def read_snapshot(
    view: NodeProbesView, read: Read[NodePodProbeSettings]
) -> NodePodProbeSnapshot | None:
    """Read a NodePodProbe, its node, its pods and their markers. Return None if the cache of nodes is not filled yet,
    or differs from the API server. If it differs, another manager perhaps has newer data, and each manager would undo
    the writes of the other manager forever.
    """
    if not read.is_read(NODE_VIEWS):
        return None
    node = read.get(NODE_VIEWS, Key("", view.name))
    if view.uid:
        is_in_doubt = (node is None or node.is_deleting) and not view.is_deleting
    else:
        made = read.memory_of_kind(_Made, _Made)
        is_in_doubt = needs_node_pod_probe(node) and made.is_again(view.name, read.now())
    if is_in_doubt and bool(view.uid) == await _is_there(view.name, read):
        return None
    if view.is_deleting or node is None or node.is_deleting:
        return NodePodProbeSnapshot(node_probes=view, node=node, now=read.now())
    markers = {
        key: marker
        for key in list_marker_keys(view)
        if (marker := read.get(MARKER_VIEWS, key)) is not None and not marker.is_deleting
    }
    named = await look_up(read, POD_VIEWS, _list_known_pods(view, read.settings.namespace))
    pods = {uid: pod for uid, pod in named.views.items() if pod.is_active}
    return NodePodProbeSnapshot(
        node_probes=view,
        node=node,
        checked=pods,
        is_behind=named.is_behind,
        markers=markers,
        annotations=await annotations_of(read, _list_pods_to_annotate(view, pods, markers)),
        settings=read.settings,
        now=read.now(),
    )


async def _is_there(node: str, read: Read[NodePodProbeSettings]) -> bool:
    try:
        return metadata_of(await read.live.get(NODES, "", node)).deletion_timestamp is None
    except NotFoundError:
        return False


def _list_known_pods(view: NodeProbesView, namespace: str) -> Iterator[tuple[Key, str]]:
    """Yield the pods of the spec that are in the cached namespace, or all pods if all namespaces are cached."""
    for entry in view.pods:
        if namespace in ("", entry.namespace):
            yield Key(entry.namespace, entry.name), entry.uid


def _list_pods_to_annotate(
    view: NodeProbesView, pods: Mapping[str, PodView], markers: Mapping[Key, MarkerView]
) -> Iterator[PodView]:
    setting = {key for key, marker in markers.items() if any(_list_annotation_flags(marker))}
    for status in view.statuses:
        names = {split_name(state.name)[0] for state in status.probe_states or ()}
        if status.uid in pods and any(Key(status.namespace, name) in setting for name in names):
            yield pods[status.uid]


def _list_annotation_flags(marker: MarkerView) -> Iterator[bool]:
    for probe in marker.spec.probes if marker.spec else ():
        for policy in probe.marker_policy or ():
            yield bool(policy.annotations)
