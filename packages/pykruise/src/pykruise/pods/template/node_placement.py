"""Nodes that a pod may run on, for kinds that select the node themselves.

pod spec ──▶ requirements_of() ──▶ NodeRequirements ──▶ find_mismatch(node), list_untolerated(node)
pod spec ──▶ request_of() ──▶ resources that it requests from a node ──▶ find_shortage(request, node)
pod spec + node ──▶ bind_to_node() ──▶ the spec of a pod that the scheduler assigns to that node

Pure. The rules are the ones of Kubernetes' scheduler and its DaemonSet controller (kube/pod_rules/nodes.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE, Taint, matches_term, tolerates
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.view.nodes import NodeView

Request = Mapping[str, Fraction]
"""Requested resources with their quantities; only quantities above zero."""

UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""Taint of a cordoned node. It takes effect as soon as the node is cordoned, even if the node does not have it yet."""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
"""Fields of an affinity."""

LOST: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints of nodes that are not ready, or whose kubelet does not report."""

_UNCORDON: Final = "uncordon the node"


def has_lost_taint(taints: Iterable[Taint]) -> bool:
    """Whether the taints show that the node is not ready, or that its kubelet does not report."""
    return any(taint.key in LOST for taint in taints)


def has_cordon_taint(taints: Iterable[Taint]) -> bool:
    """Whether the taints show that the node is cordoned."""
    return any(taint.key == UNSCHEDULABLE.key for taint in taints)


class NodeObstacle(msgspec.Struct, frozen=True):
    """Reason why a pod cannot run on a node, and the remedy."""

    because: str
    remedy: str
    is_mismatch: bool = False
    """Whether the pod selects other nodes: by name, label or affinity."""


def summarize_obstacles(obstacles: Iterable[NodeObstacle]) -> NodeObstacle | None:
    """Return the obstacle that most nodes share, with their number; None if there is no node. If the pod selects nodes,
    obstacles of other nodes are ignored.
    """
    given = list(obstacles)
    selected = [obstacle for obstacle in given if not obstacle.is_mismatch]
    if not given:
        return None
    obstacle, count = Counter(selected or given).most_common(1)[0]
    nodes = format_count(len(given), "node")
    on = (
        f"spec.template selects {len(selected)} of {nodes}; on {count} of them"
        if selected and len(selected) < len(given)
        else f"on {count} of {nodes}"
    )
    return NodeObstacle(f"{on}: {obstacle.because}", obstacle.remedy, obstacle.is_mismatch)


def make_taint_obstacle(taint: Taint) -> NodeObstacle:
    """The obstacle of a pod that does not tolerate the taint."""
    because = f"the node has the taint {taint}, which is not tolerated"
    if taint.key == UNSCHEDULABLE.key:
        return NodeObstacle(because, _UNCORDON)
    if taint.key in LOST:
        return NodeObstacle(because, "bring the node back")
    return NodeObstacle(because, "remove the taint, or add a toleration to spec.template")


class NodeRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a pod on nodes."""

    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    terms: Sequence[Mapping[str, Any]] | None = None
    """Terms of the required node affinity, one of which must match; None if no affinity is required."""
    tolerations: Sequence[Mapping[str, Any]] = ()

    def find_mismatch(self, node: NodeView) -> NodeObstacle | None:
        """Find the name or label of the node that does not match; None if the name and all labels match."""
        if self.node_name and self.node_name != node.name:
            because = f"the template names the node {self.node_name}"
            return NodeObstacle(because, "change nodeName of spec.template", is_mismatch=True)
        for key, value in self.node_selector.items():
            if node.labels.get(key) != value:
                because = f"the node does not have the label {key}={value}"
                remedy = "label the node, or change nodeSelector of spec.template"
                return NodeObstacle(because, remedy, is_mismatch=True)
        if self.terms is not None and not any(
            matches_term(term, labels=node.labels, name=node.name) for term in self.terms
        ):
            because = "the node does not match the required node affinity"
            remedy = "label the node, or change nodeAffinity of spec.template"
            return NodeObstacle(because, remedy, is_mismatch=True)
        return None

    def list_untolerated(self, node: NodeView) -> Sequence[Taint]:
        """Taints of the node that keep the pod away. Preferences (PreferNoSchedule) are ignored."""
        return [
            taint
            for taint in node.taints
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(self.tolerations, taint)
        ]

    def find_obstacle(self, node: NodeView) -> NodeObstacle | None:
        """Find the name, label, taint or cordon of the node that keeps a new pod away; None if the pod can run
        there.
        """
        if mismatch := self.find_mismatch(node):
            return mismatch
        if node.taints and (taints := self.list_untolerated(node)):
            return make_taint_obstacle(taints[0])
        if node.is_cordoned and not tolerates(self.tolerations, UNSCHEDULABLE):
            return NodeObstacle("the node is cordoned", _UNCORDON)
        return None


def requirements_of(spec: Mapping[str, Any]) -> NodeRequirements:
    """Requirements of a pod spec on nodes. A malformed affinity matches no node."""
    return NodeRequirements(
        node_name=spec.get("nodeName") or "",
        node_selector=spec.get("nodeSelector") or {},
        terms=read_required_terms(spec.get("affinity")),
        tolerations=spec.get("tolerations") or (),
    )


def read_required_terms(affinity: Any) -> Sequence[Mapping[str, Any]] | None:
    """Terms of the required node affinity; None if no affinity is required."""
    try:
        required = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED)
        if required is None:
            return None
        return [term for term in required.get("nodeSelectorTerms") or () if isinstance(term, Mapping)]
    except AttributeError:
        return ()


def bind_to_node(spec: Document, node: str) -> Document:
    """The spec with a required node affinity for only this node. It replaces the existing one, which the node already
    satisfies.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


# Resources


def request_of(spec: Mapping[str, Any]) -> Request:
    """Resources that a pod requests from its node. Invalid quantities are left out: admission rejects them.

    This is the rule of Kubernetes' scheduler: containers and sidecars run together; every other init container runs
    beside the sidecars that started before it; the overhead is added.
    """
    result: dict[str, Fraction] = {}
    together: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        own = _read_requests(container)
        if container.get("restartPolicy") == "Always":
            together = _add_up(together, own)
            own = {}
        result = _take_maxima(result, _add_up(together, own))
    for container in spec.get("containers") or ():
        together = _add_up(together, _read_requests(container))
    result = _add_up(_take_maxima(result, together), _parse_amounts(spec.get("overhead")))
    return {name: amount for name, amount in result.items() if amount > 0}


def find_shortage(request: Request, node: NodeView) -> NodeObstacle | None:
    """Find the resource that even an empty node lacks; None if the node has enough of each. A node that reports no
    resources accepts no pod.
    """
    if _parse_amount(node.allocatable.get("pods")) < 1:
        because = "the node's allocatable number of pods is 0"
        return NodeObstacle(because, "raise the number of pods that the kubelet allows")
    for name, amount in request.items():
        has = node.allocatable.get(name)
        if amount > _parse_amount(has):
            because = f"the node has too little {name} even when it is empty (allocatable: {has or 0})"
            return NodeObstacle(because, f"request less {name} in spec.template, or add a larger node")
    return None


def _read_requests(container: Mapping[str, Any]) -> dict[str, Fraction]:
    """A limit without a request counts as a request. Kubernetes' defaults of pods have the same rule."""
    resources = container.get("resources") or {}
    return _parse_amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _parse_amounts(amounts: Mapping[str, Any] | None) -> dict[str, Fraction]:
    return {name: _parse_amount(amount) for name, amount in (amounts or {}).items()}


def _parse_amount(text: Any) -> Fraction:
    return _parse_cached(str(text))


@remember(entries=4_096, longest=64)  # nodes of one type have equal quantities
def _parse_cached(text: str) -> Fraction:
    """Parse a quantity; an invalid one counts as zero."""
    try:
        return parse_quantity(text)
    except ValueError:
        return _NOTHING


_NOTHING: Final = Fraction(0)


def _add_up(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        name: sum((amount.get(name, Fraction(0)) for amount in amounts), Fraction(0))
        for name in _list_names(amounts)
    }


def _take_maxima(*amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(amount.get(name, Fraction(0)) for amount in amounts) for name in _list_names(amounts)}


def _list_names(amounts: Iterable[Mapping[str, Fraction]]) -> set[str]:
    return {name for amount in amounts for name in amount}
