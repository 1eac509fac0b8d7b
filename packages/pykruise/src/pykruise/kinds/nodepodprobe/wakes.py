"""Events that enqueue a NodePodProbe.

NodePodProbe: any change · node: created, deleted, ready, not ready · pod in its spec: deleted, ended, or the reason
why it does not run changed · PodProbeMarker of its probes: spec changed

Pure, except for what `around` reads. A heartbeat enqueues nothing.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.nodepodprobe.snapshot import NodePodProbeSettings, needs_node_pod_probe
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import BY_MARKER, MARKER_VIEWS, NODE_PROBES_VIEWS, NODE_VIEWS, POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.probes.views import MarkerView
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Around
from pykruise.runtime.wakes import Wake, wake_itself


def list_wakes(_: NodePodProbeSettings) -> Sequence[Wake]:
    """Return the wakes. They are the same for all settings."""
    return (
        wake_itself(NODE_PROBES_VIEWS),
        Wake(on=NODE_VIEWS, keys=_enqueue_by_node),
        Wake(on=POD_VIEWS, keys=_enqueue_by_pod),
        Wake(on=MARKER_VIEWS, keys=_enqueue_by_marker),
    )


def _enqueue_by_node(change: Change[NodeView], around: Around[NodePodProbeSettings]) -> Iterator[Key]:
    """Enqueue the NodePodProbe of a node that was deleted, or whose readiness changed. If a node needs a NodePodProbe
    but has none, also enqueue its name.
    """
    node, key = change.new, Key("", change.key.name)
    is_there = around.get(NODE_PROBES_VIEWS, key) is not None
    if node is None or node.is_deleting:
        is_due = is_there
    else:
        is_due = _has_new_readiness(change.old, node) if is_there else needs_node_pod_probe(node)
    if is_due:
        yield key


def _has_new_readiness(old: NodeView | None, new: NodeView) -> bool:
    return old is not None and (old.ready_since is None) != (new.ready_since is None)


def _enqueue_by_pod(change: Change[PodView], around: Around[NodePodProbeSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is None:
        return
    if new is not None and new.uid == old.uid and new.is_active and not has_new_obstacle(old, new):
        return
    node_probes = around.get(NODE_PROBES_VIEWS, Key("", old.node_name))
    if node_probes is not None and any(entry.uid == old.uid for entry in node_probes.pods):
        yield Key("", node_probes.name)


def _enqueue_by_marker(change: Change[MarkerView], around: Around[NodePodProbeSettings]) -> Iterator[Key]:
    old, new = change.old, change.new
    if old is not None and new is not None and old.spec == new.spec and old.uid == new.uid:
        return
    for view in around.list_by_index(NODE_PROBES_VIEWS, BY_MARKER, change.key):
        yield Key("", view.name)
