"""Explains why the nodes that could run a pod do not take it: node selection, a cordon, a taint, or too little room.

nodes + pod ──▶ judge_nodes() ──▶ RefusingNodes: words and remedy

Pure.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.node_terms import describe_term, find_pinned_node
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_first
from pykruise.pods.corrections import OF_THE_WORKLOAD, Correction
from pykruise.pods.template.node_placement import UNSCHEDULABLE, NodeRequirements, requirements_of
from pykruise.pods.view.nodes import NodeView

_NAMED: Final = 3
"""Maximum number of nodes that a text names."""
_HOSTNAME: Final = "kubernetes.io/hostname"


class RefusingNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Reason why some nodes do not take a pod."""

    words: str
    """Clause whose subject is the nodes."""
    remedy: str
    is_mismatch: bool = False
    """Whether the pod itself selects other nodes."""
    is_pinned: bool = False
    """Whether the pod must run on one other node: its owner creates one pod per node."""
    is_full: bool = False
    """Whether a node could take the pod if it had more room."""


def judge_nodes(
    nodes: Sequence[NodeView],
    pod: Document,
    *,
    bound_by: Collection[str] = (),
    correction: Correction = OF_THE_WORKLOAD,
) -> RefusingNodes:
    """Return why none of these nodes takes the pod. `bound_by`: keys of the pod's nodeSelector that bind it to these
    nodes; `correction`: correction of the pod's template.
    """
    asked = requirements_of(pod["spec"])
    names = format_first([node.name for node in nodes], _NAMED)
    is_one = len(nodes) == 1
    of_nodes = f"node{'' if is_one else 's'} {names}"
    pinned = find_pinned_node(asked.terms or ())
    if pinned and pinned not in {node.name for node in nodes}:
        return RefusingNodes(
            words="the pod must run on another node, because its owner creates one pod per node",
            remedy=_leave_nodes(nodes, correction),
            is_mismatch=True,
            is_pinned=True,
        )
    if all(asked.find_mismatch(node) is not None for node in nodes):
        selected = describe_selection(asked, nodes, bound_by)
        some = of_nodes if is_one else f"at least one of the nodes {names}"
        label = f"label {some} with {selected}; or " if _is_fit_if_labelled(asked, nodes, bound_by) else ""
        return RefusingNodes(
            words=f"{names} {'does' if is_one else 'do'} not match the pod, which requires {selected}",
            remedy=f"{label}{_change(correction, 'nodeSelector or node affinity')}",
            is_mismatch=True,
        )
    matching = [node for node in nodes if asked.find_mismatch(node) is None]
    if any(asked.find_obstacle(node) is None for node in matching):
        return RefusingNodes(
            words=f"{names} {'takes' if is_one else 'take'} no more pods",
            remedy=f"make room on {of_nodes}",
            is_full=True,
        )
    first = matching[0]
    if first.is_cordoned:
        return RefusingNodes(
            words=f"{first.name} is cordoned",
            remedy=f"uncordon node {first.name} (kubectl uncordon {first.name})",
        )
    taint = next(taint for taint in asked.list_untolerated(first) if taint.key != UNSCHEDULABLE.key)
    return RefusingNodes(
        words=f"{first.name} has the taint {taint}, which the pod does not tolerate",
        remedy=f"remove the taint (kubectl taint node {first.name} {taint}-); or {_change(correction, 'tolerations')}",
    )


def _leave_nodes(nodes: Sequence[NodeView], correction: Correction) -> str:
    """Return the remedy for an owner with one pod per node, whose pods need something that only these nodes have."""
    volumes = _change(correction, "volumes")
    usable = f"to use volumes that every node can mount (hostPath, emptyDir, shared storage), {volumes}"
    if len(nodes) > 1:
        return usable
    label = f"{_HOSTNAME}={nodes[0].labels.get(_HOSTNAME, nodes[0].name)}"
    return (
        f"{usable}; or to run a pod on {nodes[0].name} alone ({label}), {_change(correction, 'nodeSelector')}"
    )


def _change(correction: Correction, fields: str) -> str:
    """Instruction to change the template. A workload perhaps replaces other pods first and waits for this one, so the
    pod must be deleted.
    """
    is_enough = correction.again or correction.then
    return f"{correction.change(fields)}{'' if is_enough else ', then delete the pod'}"


def describe_selection(
    asked: NodeRequirements, nodes: Sequence[NodeView], bound_by: Collection[str] = ()
) -> str:
    """Return the labels and terms that the pod requires, and that none of the nodes has."""
    missing = [f"{key}={value}" for key, value in _find_missing(asked, nodes, bound_by).items()]
    return ", ".join(missing) or " or ".join(_describe_terms(asked)) or "other nodes"


def _find_missing(
    asked: NodeRequirements, nodes: Sequence[NodeView], bound_by: Collection[str]
) -> Mapping[str, str]:
    """Return the labels of the pod's nodeSelector that none of the nodes has."""
    return {
        key: value
        for key, value in asked.node_selector.items()
        if key not in bound_by and not any(node.labels.get(key) == value for node in nodes)
    }


def _is_fit_if_labelled(
    asked: NodeRequirements, nodes: Sequence[NodeView], bound_by: Collection[str]
) -> bool:
    """Whether a person can label the nodes so that they match the pod. Labels do not help if the pod requires two
    values of one label, and they must not replace a label with a fact about the node, such as its zone.
    """
    missing = _find_missing(asked, nodes, bound_by)
    wanted = [missing] if missing else [_read_labels(term) for term in asked.terms or ()]
    return any(
        asked.find_mismatch(msgspec.structs.replace(node, labels={**node.labels, **labels})) is None
        for labels in wanted
        for node in nodes
        if not any(key in node.labels and _is_fact(key) for key in labels)
    )


def _read_labels(term: Mapping[str, Any]) -> Mapping[str, str]:
    """Return labels with which a node matches the requirements of a term that name values."""
    return {
        str(item.get("key")): str(item["values"][0])
        for item in term.get("matchExpressions") or ()
        if item.get("operator") == "In" and item.get("values")
    }


def _is_fact(key: str) -> bool:
    """Whether kubelets and cloud providers set the label: its zone, its name, its architecture."""
    return key.partition("/")[0].endswith("kubernetes.io")


def _describe_terms(asked: NodeRequirements) -> Iterator[str]:
    yield from filter(None, map(describe_term, asked.terms or ()))
    if asked.node_name:
        yield f"node {asked.node_name}"
