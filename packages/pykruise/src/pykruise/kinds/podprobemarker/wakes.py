"""Which events a PodProbeMarker hears.

PodProbeMarker: any · pod that it selects: comes, goes, is initialized, has another address, on virtual nodes another
condition · NodePodProbe: comes, goes, has lost or got its probes · node: comes, goes

Pure, but for what `around` shows. Other news of pods and heartbeats of nodes enqueue nothing.
"""

from collections.abc import Collection, Iterator, Sequence

from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings, is_probed
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.probes.api import PodProbe
from pykruise.pods.probes.views import MarkerView, NodeProbesView, split_name
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Wake, itself


def wakes(_: PodProbeMarkerSettings) -> Sequence[Wake]:
    """Under any settings."""
    return (
        itself(MARKER_VIEWS),
        Wake(on=POD_VIEWS, keys=_of_pod),
        Wake(on=NODE_PROBES_VIEWS, keys=_of_node_probes),
        Wake(on=NODE_VIEWS, keys=_of_node),
    )


def _of_pod(change: Change[PodView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    before, after = _seen(old), _seen(new)
    changed = _changed_conditions(old, new, around)
    if before == after and not changed and (old is None or new is None or old.labels == new.labels):
        return
    for marker in around.by_index(MARKER_VIEWS, BY_NAMESPACE, change.key.namespace):
        was = before if old is not None and marker.selects(old.labels) else None
        is_ = after if new is not None and marker.selects(new.labels) else None
        if was != is_ or (is_ is not None and _shows(marker, changed)):
            yield marker.key


def _seen(pod: PodView | None) -> tuple[str, str, str] | None:
    """Results of the pod's probes in NodePodProbes; None: none."""
    return (pod.uid, pod.node_name, pod.ip) if pod is not None and is_probed(pod) else None


def _changed_conditions(
    old: PodView | None, new: PodView | None, around: Around[PodProbeMarkerSettings]
) -> Collection[str]:
    """Their types, on a virtual node, where markers go by them."""
    if old is None or new is None or not around.settings.on_virtual_nodes:
        return ()
    node = around.get(NODE_VIEWS, Key("", new.node_name))
    if node is None or not node.is_virtual:
        return ()
    return {condition.type for condition in {*old.conditions} ^ {*new.conditions}}


def _shows(marker: MarkerView, changed: Collection[str]) -> bool:
    """Whether one of these conditions is of one of the marker's probes."""
    return any(probe.pod_condition_type in changed for probe in (marker.spec.probes if marker.spec else ()))


def _of_node_probes(change: Change[NodeProbesView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    """All when there is a new one, for it is empty; those of pods whose entry is not as it was."""
    old, new = change.old, change.new
    if new is None:
        return
    if old is None or old.uid != new.uid:
        yield from (marker.key for marker in around.all(MARKER_VIEWS))
    elif old.pods != new.pods:
        before, after = ({pod.uid: pod for pod in view.pods} for view in (old, new))
        changed = [uid for uid in {**before, **after} if before.get(uid) != after.get(uid)]
        yield from {
            key for uid in changed for some in (before, after) if uid in some for key in _markers(some[uid])
        }


def _markers(pod: PodProbe) -> Iterator[Key]:
    return (Key(pod.namespace, split_name(probe.name)[0]) for probe in pod.probes or ())


def _of_node(change: Change[NodeView], around: Around[PodProbeMarkerSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid or old.is_virtual != new.is_virtual:
        yield from (marker.key for marker in around.all(MARKER_VIEWS))
