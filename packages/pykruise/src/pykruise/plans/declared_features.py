"""Nodes of a workload's pods that declare features, and not the feature that resizes a pod as a whole.

pods + their nodes ──▶ find_undeclaring_nodes() ──▶ snapshots ──▶ Differences (plans/in_place.py)
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.kube.ids import Key
from pykruise.plans.views import NODE_VIEWS
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.in_place.declared_features import RESIZES_PODS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Mirrors


def find_undeclaring_nodes(
    template: Mapping[str, Any] | None, pods: Iterable[PodView], read: Mirrors, *, settings: InPlaceSettings
) -> frozenset[str]:
    """Return the names of nodes that declare features without this one. Nodes are read only where whole pods may be
    resized, and only for a template with resources of its own. A node that declares nothing may be older than
    declarations, so its API server decides.
    """
    spec = (template or {}).get("spec") or {}
    if not settings.can_resize_pods or not spec.get("resources"):
        return frozenset()
    names = {pod.node_name for pod in pods if pod.node_name}
    nodes = (read.get(NODE_VIEWS, Key("", name)) for name in sorted(names))
    return frozenset(
        node.name
        for node in nodes
        if node is not None and node.declared_features is not None
        if RESIZES_PODS not in node.declared_features
    )
