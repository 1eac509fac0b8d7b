"""Which nodes a pod may be on, for kinds that choose the node themselves.

pod spec ──▶ requirements_of() ──▶ NodeRequirements ──▶ mismatch(node), untolerated(node)
pod spec ──▶ request_of() ──▶ what it asks of a node that is empty ──▶ shortage(request, node)
pod spec + node ──▶ bound_to() ──▶ the spec of a pod that the scheduler puts on that node

Pure; the rules are those of Kubernetes' scheduler and its DaemonSet controller (kube/pod_rules/nodes.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE, Taint, matches_term, tolerates
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.view.nodes import NodeView

Request = Mapping[str, Fraction]
"""Requested resources with their amounts; only those above zero."""

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""Taint of a cordoned node, which also counts before the node has it."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a pod on nodes."""

    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    terms: Sequence[Mapping[str, Any]] | None = None
    """Required node affinity: one of these must match; None: it asks for nothing."""
    tolerations: Sequence[Mapping[str, Any]] = ()

    def mismatch(self, node: NodeView) -> str:
        """Why the node is not meant, by its name and labels; empty: it is."""
        if self.node_name and self.node_name != node.name:
            return f"the template names the node {self.node_name}"
        for key, value in self.node_selector.items():
            if node.labels.get(key) != value:
                return f"the node has not the label {key}={value}"
        if self.terms is not None and not any(
            matches_term(term, labels=node.labels, name=node.name) for term in self.terms
        ):
            return "the node does not match the required node affinity"
        return ""

    def untolerated(self, node: NodeView) -> Sequence[Taint]:
        """The node's taints that keep the pod away; those that only ask to (PreferNoSchedule) do not count."""
        return [
            taint
            for taint in node.taints
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(self.tolerations, taint)
        ]

    def obstacle(self, node: NodeView) -> str:
        """Why a new pod may not be on the node: name, labels, taints, cordon; empty: it may."""
        if why := self.mismatch(node):
            return why
        if node.taints and (taints := self.untolerated(node)):
            return f"the node has the taint {taints[0]}, which is not tolerated"
        if node.is_cordoned and not tolerates(self.tolerations, UNSCHEDULABLE):
            return "the node is cordoned"
        return ""


def requirements_of(spec: Mapping[str, Any]) -> NodeRequirements:
    """Requirements of a pod spec on nodes. An affinity that has not the shape of one matches no node."""
    return NodeRequirements(
        node_name=spec.get("nodeName") or "",
        node_selector=spec.get("nodeSelector") or {},
        terms=required_terms(spec.get("affinity")),
        tolerations=spec.get("tolerations") or (),
    )


def required_terms(affinity: Any) -> Sequence[Mapping[str, Any]] | None:
    """The terms of the required node affinity; None: there is none."""
    try:
        required = ((affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED)
        if required is None:
            return None
        return [term for term in required.get("nodeSelectorTerms") or () if isinstance(term, Mapping)]
    except AttributeError:
        return ()


def bound_to(spec: Document, node: str) -> Document:
    """The spec bound to the node by an affinity, in the place of what it requires (which the node meets)."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        _REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


# Resources


def request_of(spec: Mapping[str, Any]) -> Request:
    """Resources that a pod requests from its node. Amounts that cannot be read are left out: admission refuses them.

    Rule: Kubernetes' scheduler. Containers and sidecars run together; each other init container runs beside the
    sidecars that were started before it; the overhead comes on top.
    """
    result: dict[str, Fraction] = {}
    together: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            together = _sum(together, own)
            own = {}
        result = _most(result, _sum(together, own))
    for container in spec.get("containers") or ():
        together = _sum(together, _requests(container))
    result = _sum(_most(result, together), _amounts(spec.get("overhead")))
    return {name: amount for name, amount in result.items() if amount > 0}


def shortage(request: Request, node: NodeView) -> str:
    """Why not even an empty node has enough; empty: it has. A node that reports nothing takes no pod."""
    if _amount(node.allocatable.get("pods")) < 1:
        return "the node takes no pods (its allocatable pods)"
    for name, amount in request.items():
        has = node.allocatable.get(name)
        if amount > _amount(has):
            return f"the node has too little {name} even when it is empty ({has or 0})"
    return ""


def _requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    """A limit without a request counts as one. Rule: Kubernetes' defaults of pods."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: _amount(amount) for name, amount in (amounts or {}).items()}


def _amount(text: Any) -> Fraction:
    return _parsed(str(text))


@remember(entries=4_096, longest=64)  # nodes of a sort have the same amounts
def _parsed(text: str) -> Fraction:
    """Parsed quantities; an invalid quantity counts as absent."""
    try:
        return parse_quantity(text)
    except ValueError:
        return _NOTHING


_NOTHING: Final = Fraction(0)


def _sum(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        name: sum((amount.get(name, Fraction(0)) for amount in amounts), Fraction(0))
        for name in _names(amounts)
    }


def _most(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(amount.get(name, Fraction(0)) for amount in amounts) for name in _names(amounts)}


def _names(amounts: Iterable[Mapping[str, Fraction]]) -> set[str]:
    return {name for amount in amounts for name in amount}
