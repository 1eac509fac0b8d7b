"""Nodes of a workload's pods that declare features, but not the feature for resizing a pod as a whole.

pods + their nodes ──▶ find_undeclaring_nodes() ──▶ snapshots ──▶ Differences (plans/in_place.py)
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.plans.node_reads import read_nodes
from pykruise.pods.in_place import InPlaceSettings
from pykruise.pods.in_place.declared_features import RESIZES_PODS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Mirrors


def find_undeclaring_nodes(
    template: Mapping[str, Any] | None, pods: Iterable[PodView], read: Mirrors, *, settings: InPlaceSettings
) -> frozenset[str]:
    """Return the names of nodes that declare features, but not the feature for resizing whole pods. Nodes are read only
    if whole pods can be resized and the template has pod-level resources. A node that declares no features is not
    included: perhaps its Kubernetes version does not know such declarations, so the API server must decide.
    """
    spec = (template or {}).get("spec") or {}
    if not settings.can_resize_pods or not spec.get("resources"):
        return frozenset()
    nodes = read_nodes((pod.node_name for pod in pods), read)
    return frozenset(
        node.name
        for node in nodes.values()
        if node.declared_features is not None
        if RESIZES_PODS not in node.declared_features
    )
