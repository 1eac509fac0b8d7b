"""Placement of new pods near the pods that they replace.

CloneSetWorkingSet ──▶ choose_predecessors() ──▶ the pod that each new pod replaces
new pod + predecessor ──▶ place_near() ──▶ the new pod with a node affinity ──▶ scale.py

Pure. Without the option successor-placement, only the scheduler chooses the node. A successor starts faster on the node
or in the zone of its predecessor, because the predecessor's images, volumes and caches are there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.kinds.cloneset.update_order import sort_candidates
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import ZONE_LABEL
from pykruise.pods.template.node_placement import requirements_of
from pykruise.pods.template.subset_placement import prefer_nodes, require_nodes
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import SUCCESSOR_PLACEMENT, SuccessorPlacement

_WEIGHT: Final = 100
"""Weight of the preferred node affinity: the highest that Kubernetes allows."""


def choose_predecessors(ws: CloneSetWorkingSet) -> Iterator[PodView]:
    """Yield the pods that the next new pods replace; none without the option.

    The order is: terminating pods, pods that will be deleted, pods that the update recreates next. Pods that already
    have a successor or have no node are left out.
    """
    if SUCCESSOR_PLACEMENT.read(ws.snapshot.cloneset.annotations) is None:
        return
    replaced = list_replaced(ws.snapshot)
    yield from (pod for pod in _list_leaving(ws) if pod.uid not in replaced and pod.node_name)


def list_replaced(snapshot: ReadableCloneSet) -> frozenset[str | None]:
    """Return the uids of the pods that have a successor."""
    return frozenset(pod.annotations.get(keys.REPLACES_ANNOTATION) for pod in snapshot.pods)


def _list_leaving(ws: CloneSetWorkingSet) -> Iterator[PodView]:
    """Yield the pods that are being or will be deleted, in this order. No pod occurs twice."""
    terminating = [pod for pod in ws.snapshot.pods if pod.is_deleting]
    yield from sorted(terminating, key=lambda pod: pod.name)
    yield from sorted(ws.leaving, key=lambda pod: pod.name)
    if ws.spec.is_on_delete or ws.spec.is_paused or ws.scale_numbers.update <= 0:
        return
    leaving = {pod.name for pod in ws.leaving}
    staying = [pod for pod in ws.old if pod.name not in leaving]
    yield from sort_candidates(ws, staying)[: ws.scale_numbers.update]


def place_near(document: Document, predecessor: PodView, snapshot: ReadableCloneSet) -> Document:
    """Return the new pod with the annotation that names its predecessor, and with a node affinity.

    No affinity is added if the predecessor's node no longer exists, if the option asks for the same node but the pod
    cannot run there, or if it asks for the same zone but the node has no zone. Without the option, the document is
    returned unchanged.
    """
    placement = SUCCESSOR_PLACEMENT.read(snapshot.cloneset.annotations)
    if placement is None:
        return document
    metadata, spec = document["metadata"], document["spec"]
    annotations = {**metadata["annotations"], keys.REPLACES_ANNOTATION: predecessor.uid}
    if term := _find_term(spec, predecessor, snapshot, placement):
        affinity = spec.get("affinity") or {}
        if placement.is_required:
            affinity = require_nodes(affinity, term, field=SUCCESSOR_PLACEMENT.field)
        else:
            affinity = prefer_nodes(affinity, [{"weight": _WEIGHT, "preference": term}])
        spec = {**spec, "affinity": affinity}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _find_term(
    spec: Mapping[str, Any], predecessor: PodView, snapshot: ReadableCloneSet, placement: SuccessorPlacement
) -> Document | None:
    """Return the node selector term for the predecessor's node or zone; None if no term fits."""
    node = snapshot.nodes.get(predecessor.node_name)
    if node is None:
        return None
    if placement.is_same_node:
        if requirements_of(spec).find_obstacle(node):
            return None
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    zone = node.labels.get(ZONE_LABEL)
    return {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]} if zone else None
