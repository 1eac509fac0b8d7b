"""Nodes out of service, which the budget of an update leaves out: they do not use up maxUnavailable.

nodes that take part in an update ──▶ find_nodes_left_out() ──▶ those out of service, each with the reason ──▶ update.py

Pure. Without the option ignore-unavailable-nodes there are none. plans/nodes_out_of_service.py decides which states of
a node mean that it is out of service.
"""

from collections.abc import Iterable, Mapping

from pykruise.kinds.daemonset.node_state import NodeState
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.values.selectors import Selector
from pykruise.plans.nodes_out_of_service import explain_node_out_of_service, has_failed, read_ignored_nodes


def find_nodes_left_out(ws: DaemonSetWorkingSet, states: Iterable[NodeState]) -> Mapping[str, str]:
    """Return the nodes that maxUnavailable leaves out, each with the reason as the end of a sentence about it.

    They are the first of `states` that are out of service, up to the limit of the option. A percentage is of the nodes
    that have or should have a pod, and is rounded up as maxUnavailable is.
    """
    ignored = read_ignored_nodes(ws.snapshot.daemonset.annotations)
    if ignored is None:
        return {}
    count = ws.limits.desired + sum(state.place is not Place.RUN for state in ws.nodes)
    reasons = ((state.name, explain_unavailable_node(ws, state, ignored.selector)) for state in states)
    return ignored.choose(reasons, count=count)


def explain_unavailable_node(ws: DaemonSetWorkingSet, state: NodeState, selector: Selector | None) -> str:
    """Return why a node without an available pod is out of service; empty: in service, or its pod is available."""
    pods = [pod for pod in state.pods if not pod.is_deleting]
    if any(ws.is_available(pod) for pod in pods):
        return ""
    return explain_node_out_of_service(
        labels=state.labels,
        is_lost=state.is_lost,
        is_cordoned=state.is_cordoned,
        has_failed=has_failed(pods, is_updated=ws.is_updated),
        selector=selector,
    )
