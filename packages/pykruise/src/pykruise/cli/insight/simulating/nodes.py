"""Nodes of a simulation: from manifests, from the needs of subsets, or with unlimited room."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.documents import Document, get_path
from pykruise.kube.pod_rules.nodes import Taint
from pykruise.kube.resources import NODES
from pykruise.sandbox.nodes.specs import NodeSpec, make_node_specs


def make_roomy_nodes(names: Sequence[str]) -> list[NodeSpec]:
    """Return nodes with these names and unlimited room, because their other load is unknown."""
    return [NodeSpec(name=name, cpu="100000", memory="1000Ti", pods=100_000) for name in names]


def read_nodes(documents: Sequence[Document]) -> list[NodeSpec]:
    """Return the Nodes among these documents, with their labels, taints and allocatable resources."""
    return [
        _build_node(document)
        for document in documents
        if document.get("kind") == NODES.kind and document.get("apiVersion") == "v1"
    ]


def _build_node(document: Document) -> NodeSpec:
    name = document["metadata"]["name"]
    spec = NodeSpec(name=name, zone="", labels=document["metadata"].get("labels") or {})
    taints = get_path(document, "spec", "taints", default=None) or ()
    has = get_path(document, "status", "allocatable", default=None) or {}
    return msgspec.structs.replace(
        spec,
        taints=tuple(
            Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
            for taint in taints
        ),
        cpu=str(has.get("cpu", spec.cpu)),
        memory=str(has.get("memory", spec.memory)),
        pods=int(has.get("pods", spec.pods)),
    )


def nodes_of_subsets(spreads: Sequence[Document], count: int) -> tuple[list[NodeSpec], dict[str, list[str]]]:
    """Return `count` nodes, but at least one for each subset, and the names of the nodes by subset. The nodes get the
    labels that the subsets of these WorkloadSpreads or UnitedDeployments require, subset after subset in rotation.
    Return nothing when no subset requires labels.
    """
    wanted = [
        (str(subset.get("name")), labels)
        for spread in spreads
        for subset in _read_subsets(spread)
        if (labels := _build_required_labels(subset))
    ]
    if not wanted:
        return [], {}
    nodes: list[NodeSpec] = []
    by_subset: dict[str, list[str]] = {}
    for number, spec in enumerate(make_node_specs(max(count, len(wanted)))):
        name, labels = wanted[number % len(wanted)]
        nodes.append(msgspec.structs.replace(spec, zone="", labels=labels))
        by_subset.setdefault(name, []).append(spec.name)
    return nodes, by_subset


def _read_subsets(document: Document) -> Sequence[Document]:
    result = get_path(document, "spec", "subsets", default=None)
    return result or get_path(document, "spec", "topology", "subsets", default=None) or ()


def _build_required_labels(subset: Mapping[str, Any]) -> dict[str, str]:
    """Return labels that make a node match the subset. Only the operators In and Exists are supported; of several
    values, the first one is used.
    """
    fields = ("requiredNodeSelectorTerm", "requiredNodeSelector", "nodeSelectorTerm")
    term: Mapping[str, Any] = next((subset[field] for field in fields if subset.get(field)), {})
    asked = term.get("matchExpressions") or ()
    return {
        str(item["key"]): str((item.get("values") or [""])[0])
        for item in asked
        if item.get("operator") in ("In", "Exists")
    }
