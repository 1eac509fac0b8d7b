"""Events that enqueue a PodProbeMarker.

PodProbeMarker: any change · another PodProbeMarker of the namespace: it gained or lost a condition, label or annotation
that the marker sets too · pod that the marker selects: it can now be probed, can no longer be probed, has a new IP, or
the reason why it does not run changed; on a virtual node: a condition that a probe sets changed · NodePodProbe:
created, or an entry with the marker's probes changed · node: created, deleted, became a virtual node, or is no longer
one

Pure, except for what `around` reads. Other changes of pods and heartbeats of nodes enqueue nothing.
"""

from collections.abc import Collection, Iterator, Sequence

from pykruise.kinds.podprobemarker.conflicts import list_parts
from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings, is_probed
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.probes.api import PodProbe
from pykruise.pods.probes.views import MarkerView, NodeProbesView, split_name
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, wake_itself


def list_wakes(_: PodProbeMarkerSettings) -> Sequence[Wake]:
    """Return the wakes, which are the same for all settings."""
    return (
        wake_itself(MARKER_VIEWS),
        Wake(on=MARKER_VIEWS, keys=_enqueue_rivals),
        Wake(on=POD_VIEWS, keys=_enqueue_by_pod),
        Wake(on=NODE_PROBES_VIEWS, keys=_enqueue_by_node_probes),
        Wake(on=NODE_VIEWS, keys=_enqueue_by_node),
    )


def _enqueue_rivals(change: Change[MarkerView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    """Enqueue the other markers of the namespace that set a condition, label or annotation which the marker gained or
    lost.
    """
    changed = list_parts(change.old) ^ list_parts(change.new)
    if not changed:
        return
    for marker in around.list_by_index(MARKER_VIEWS, BY_NAMESPACE, change.key.namespace):
        if marker.name != change.key.name and changed & list_parts(marker):
            yield marker.key


def _enqueue_by_pod(change: Change[PodView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    before, after = _list_pod_facts(old), _list_pod_facts(new)
    changed = _find_changed_conditions(old, new, around)
    is_stuck = old is not None and new is not None and has_new_obstacle(old, new)
    is_same = before == after and not changed and not is_stuck
    if is_same and (old is None or new is None or old.labels == new.labels):
        return
    for marker in around.list_by_index(MARKER_VIEWS, BY_NAMESPACE, change.key.namespace):
        was = before if old is not None and marker.selects(old.labels) else None
        is_ = after if new is not None and marker.selects(new.labels) else None
        has_obstacle = is_stuck and new is not None and marker.selects(new.labels)
        if was != is_ or has_obstacle or (is_ is not None and _is_affected(marker, changed)):
            yield marker.key


def _list_pod_facts(pod: PodView | None) -> tuple[str, str, str] | None:
    """Facts about the pod that its entry in the NodePodProbe depends on; None: the pod cannot be probed."""
    return (pod.uid, pod.node_name, pod.ip) if pod is not None and is_probed(pod) else None


def _find_changed_conditions(
    old: PodView | None, new: PodView | None, around: Around[PodProbeMarkerSettings]
) -> Collection[str]:
    """Types of the conditions that changed; empty unless the pod is on a virtual node and the setting
    `on_virtual_nodes` is on.
    """
    if old is None or new is None or not around.settings.on_virtual_nodes:
        return ()
    node = around.get(NODE_VIEWS, Key("", new.node_name))
    if node is None or not node.is_virtual:
        return ()
    return {condition.type for condition in {*old.conditions} ^ {*new.conditions}}


def _is_affected(marker: MarkerView, changed: Collection[str]) -> bool:
    """Whether a probe of the marker sets one of these conditions."""
    return any(probe.pod_condition_type in changed for probe in (marker.spec.probes if marker.spec else ()))


def _enqueue_by_node_probes(
    change: Change[NodeProbesView], around: Around[PodProbeMarkerSettings]
) -> Iterator[Key]:
    """Enqueue all markers for a new NodePodProbe, because it is empty. Otherwise enqueue the markers of the changed
    entries.
    """
    old, new = change.old, change.new
    if new is None:
        return
    if old is None or old.uid != new.uid:
        yield from (marker.key for marker in around.list_all(MARKER_VIEWS))
    elif old.pods != new.pods:
        before, after = ({pod.uid: pod for pod in view.pods} for view in (old, new))
        changed = [uid for uid in {**before, **after} if before.get(uid) != after.get(uid)]
        yield from {
            key
            for uid in changed
            for some in (before, after)
            if uid in some
            for key in _find_marker_keys(some[uid])
        }


def _find_marker_keys(pod: PodProbe) -> Iterator[Key]:
    return (Key(pod.namespace, split_name(probe.name)[0]) for probe in pod.probes or ())


def _enqueue_by_node(change: Change[NodeView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid or old.is_virtual != new.is_virtual:
        yield from (marker.key for marker in around.list_all(MARKER_VIEWS))
