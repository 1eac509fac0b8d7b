"""Nodes out of service. Up to a limit, their pods do not count against maxUnavailable of an update.

annotations + pods + their nodes ──▶ find_pods_left_out() ──▶ names of these pods, with the reasons ──▶ update.py
state of one node ──▶ explain_node_out_of_service() (also DaemonSets, which count nodes)
change of a node ──▶ wake_for_node_states() ──▶ the workloads with the option

Without the option ignore-unavailable-nodes, all pods count, and no nodes are read. The node lifecycle controller of
Kubernetes sets a taint if a node is not ready or cordoned, so the taints are read instead of these states.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.kube.values.selectors import Selector
from pykruise.plans.node_reads import read_nodes
from pykruise.plans.views import NODE_VIEWS, NodeView
from pykruise.pods.reasons import Code
from pykruise.pods.template.node_placement import has_cordon_taint, has_lost_taint
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import IGNORE_UNAVAILABLE_NODES, UNAVAILABLE_NODES_SELECTOR
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.read import Around, Mirrors
from pykruise.runtime.reasons import Reason
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake

BY_NODE_OPTION: Final = "node option"
"""Index of the workloads with the option."""


def index_by_node_option(workload: WorkloadView) -> Iterable[bool]:
    """Return the entries of a workload in the index BY_NODE_OPTION."""
    return (True,) if IGNORE_UNAVAILABLE_NODES.annotation in workload.annotations else ()


def wake_for_node_states(views: Views[Any]) -> Wake:
    """Return a wake that enqueues the workloads with the option when a node is created or deleted, or when its labels
    or taints change.
    """

    def list_keys(change: Change[NodeView], around: Around[Any]) -> Iterator[Key]:
        old, new = change.old, change.new
        if old is not None and new is not None and new.is_placed_as(old):
            return
        for workload in around.list_by_index(views, BY_NODE_OPTION, True):
            yield workload.key

    return Wake(on=NODE_VIEWS, keys=list_keys)


def read_nodes_of_pods(
    annotations: Mapping[str, str], pods: Iterable[PodView], read: Mirrors
) -> Mapping[str, NodeView]:
    """Return the nodes of these pods, by name; no nodes without the option."""
    if IGNORE_UNAVAILABLE_NODES.annotation not in annotations:
        return {}
    return read_nodes((pod.node_name for pod in pods), read)


class IgnoredNodes(msgspec.Struct, frozen=True):
    """The value of the option ignore-unavailable-nodes."""

    limit: IntOrPercent
    selector: Selector | None
    """Selector of further nodes that count as out of service (option unavailable-nodes-selector)."""

    def choose(self, reasons: Iterable[tuple[str, str]], *, count: int) -> Mapping[str, str]:
        """Return the first nodes with a reason, up to the limit. If the limit is a percentage, 100% is `count`, and the
        result is rounded up.
        """
        out_of_service = ((name, why) for name, why in reasons if why)
        return dict(islice(out_of_service, resolve(self.limit, of=count, rounding=Rounding.UP)))


def read_ignored_nodes(annotations: Mapping[str, str]) -> IgnoredNodes | None:
    """Return the option in these annotations; None if it is not set."""
    limit = IGNORE_UNAVAILABLE_NODES.read(annotations)
    return None if limit is None else IgnoredNodes(limit, UNAVAILABLE_NODES_SELECTOR.read(annotations))


def explain_node_out_of_service(
    *,
    labels: Mapping[str, str],
    is_lost: bool,
    is_cordoned: bool,
    has_failed: bool,
    selector: Selector | None,
) -> str:
    """Return why a node without an available pod is out of service; empty if it is in service.

    `has_failed`: whether a pod of the update revision has started on the node and was never ready. If so, the update is
    perhaps the reason why the node is not ready. Such a node counts as in service unless it is cordoned or selected, so
    that the update does not continue on other nodes.
    """
    if selector is not None and selector.matches(labels):
        return "is selected as unavailable"
    if is_cordoned:
        return "is cordoned"
    return "is not ready" if is_lost and not has_failed else ""


def find_pods_left_out(
    annotations: Mapping[str, str],
    pods: Iterable[PodView],
    nodes: Mapping[str, NodeView],
    *,
    is_available: Callable[[PodView], bool],
    is_updated: Callable[[PodView], bool],
) -> Mapping[str, Reason]:
    """Return the names of the pods that do not count against maxUnavailable, each with the reason. `pods`: all pods of
    the workload.

    These pods are on nodes that are out of service and have no available pod of the workload. The option limits the
    number of these nodes; they are chosen in the order of their names. If the limit is a percentage, 100% is the number
    of nodes with a pod of the workload, and the result is rounded up.
    """
    ignored = read_ignored_nodes(annotations)
    if ignored is None or not nodes:
        return {}
    by_node: dict[str, list[PodView]] = defaultdict(list)
    for pod in pods:
        if pod.node_name in nodes:
            by_node[pod.node_name].append(pod)
    reasons = (
        (name, _explain_node(nodes[name], by_node[name], ignored.selector, is_updated=is_updated))
        for name in sorted(by_node)
        if not any(is_available(pod) for pod in by_node[name])
    )
    chosen = ignored.choose(reasons, count=len(by_node))
    return {pod.name: explain_left_out(name, why) for name, why in chosen.items() for pod in by_node[name]}


def _explain_node(
    node: NodeView,
    pods: Iterable[PodView],
    selector: Selector | None,
    *,
    is_updated: Callable[[PodView], bool],
) -> str:
    return explain_node_out_of_service(
        labels=node.labels,
        is_lost=has_lost_taint(node.taints),
        is_cordoned=has_cordon_taint(node.taints),
        has_failed=has_failed(pods, is_updated=is_updated),
        selector=selector,
    )


def has_failed(pods: Iterable[PodView], *, is_updated: Callable[[PodView], bool]) -> bool:
    """Whether one of these pods has the update revision, has started, and was never ready."""
    return any(
        pod.is_never_ready and pod.container_statuses and not pod.is_deleting and is_updated(pod)
        for pod in pods
    )


def explain_left_out(node: str, why: str) -> Reason:
    """Return why a pod does not count against maxUnavailable. `why` is the end of a sentence about its node."""
    return Reason(
        Code.NODE_LEFT_OUT,
        f"does not use up maxUnavailable, because its node {node} {why} ({IGNORE_UNAVAILABLE_NODES.annotation})",
    )
