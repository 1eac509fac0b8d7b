"""Nodes out of service, whose pods do not count against maxUnavailable of an update.

nodes that an update changes ──▶ find_nodes_left_out() ──▶ nodes out of service, each with the reason ──▶ update.py

Pure. Without the option ignore-unavailable-nodes the result is empty. plans/nodes_out_of_service.py decides which
states of a node mean that the node is out of service.
"""

from collections.abc import Iterable, Mapping

from pykruise.kinds.daemonset.node_state import NodeState
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.values.selectors import Selector
from pykruise.plans.nodes_out_of_service import explain_node_out_of_service, has_failed, read_ignored_nodes


def find_nodes_left_out(ws: DaemonSetWorkingSet, states: Iterable[NodeState]) -> Mapping[str, str]:
    """Return the nodes that do not count against maxUnavailable, each with the reason, as the end of a sentence.

    The result contains the first nodes of `states` that are out of service, up to the limit of the option. If the limit
    is a percentage, 100% is the number of nodes that have or should run a pod; the result is rounded up.
    """
    ignored = read_ignored_nodes(ws.snapshot.daemonset.annotations)
    if ignored is None:
        return {}
    count = ws.limits.desired + sum(state.place is not Place.RUN for state in ws.nodes)
    reasons = ((state.name, explain_unavailable_node(ws, state, ignored.selector)) for state in states)
    return ignored.choose(reasons, count=count)


def explain_unavailable_node(ws: DaemonSetWorkingSet, state: NodeState, selector: Selector | None) -> str:
    """Return why the node is out of service; empty if it is in service, or if its pod is available."""
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
