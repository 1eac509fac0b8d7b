"""New pods that cannot run beside the older pods that they replace: maxSurge needs room for both.

Sight + an unschedulable pod ──▶ explain_surge() ──▶ WaitCause
Sight + waits for a quota    ──▶ offer_no_surge() ──▶ waits

Pure. Two pods of one workload exclude each other when both need the same host port, or when required anti-affinity
separates them. While every eligible node runs an older pod, no new pod fits, and no older pod is deleted before a new
one is available.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import WaitCause
from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.host_ports import list_host_ports
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.corrections import Correction
from pykruise.pods.reasons import Code
from pykruise.pods.template.node_placement import REQUIRED, requirements_of
from pykruise.pods.view.nodes import NodeView

_NAME: Final = ""
"""Key in `_map_exclusions` for the name of a node, instead of the key of a label."""


def explain_surge(
    cause: WaitCause, pod: Document, sight: Sight, *, wanted: int, correction: Correction
) -> WaitCause:
    """Return the cause of an unschedulable pod. If only maxSurge requires the pod to run beside older pods that exclude
    it, the cause names these pods. `wanted`: number of pods that the workload should have.
    """
    if not _has_surge(sight) or len(active := _list_active(sight)) <= wanted:
        return cause
    asked = requirements_of(pod["spec"])
    nodes = [node for node in sight.nodes.values() if asked.find_obstacle(node) is None]
    exclusions = _map_exclusions(pod, active, sight.nodes)
    in_the_way = [
        exclusions.get((_NAME, node.name))
        or next((exclusions[place] for place in node.labels.items() if place in exclusions), None)
        for node in nodes
    ]
    if not in_the_way or (first := in_the_way[0]) is None or not all(in_the_way):
        return cause
    other, why = first
    node = str(other["spec"]["nodeName"])
    name = other["metadata"]["name"]
    words = f"replaces pod {name}, but cannot run beside that pod on node {node}: {why}; {cause.words}"
    return msgspec.structs.replace(cause, words=words, remedy=_describe_remedy(sight, correction))


def offer_no_surge(
    waits: Sequence[Wait], sight: Sight, *, wanted: int, correction: Correction
) -> tuple[Wait, ...]:
    """Return the waits. If a quota rejects only the additional pods of maxSurge, the remedy also offers an update
    without them.
    """
    if not _has_surge(sight) or len(_list_active(sight)) < wanted:
        return tuple(waits)
    remedy = _describe_remedy(sight, correction)
    return tuple(
        msgspec.structs.replace(wait, remedy=f"{wait.remedy}; or {remedy}")
        if wait.code == Code.QUOTA and wait.remedy
        else wait
        for wait in waits
    )


def _has_surge(sight: Sight) -> bool:
    field = None if sight.kind.shown is None else sight.kind.shown.fields.get("maxSurge")
    return field is not None and field.read_value(sight.document) not in (None, 0, "0%", "0")


def _list_active(sight: Sight) -> Sequence[Document]:
    return [pod for pod in sight.pods.values() if not pod["metadata"].get("deletionTimestamp")]


def _describe_remedy(sight: Sight, correction: Correction) -> str:
    assert sight.kind.shown is not None
    fields = sight.kind.shown.fields
    surge, unavailable = fields["maxSurge"], fields["maxUnavailable"]
    where = correction.where.partition(" ")[0]
    prefix = "" if where == Correction().where else f"{where}."
    also = ""
    if unavailable.read_value(sight.document) in (0, "0%", "0"):
        path = f"{prefix}{'.'.join(unavailable.find_path(sight.document))}"
        also = f" and {path} to 1: one pod at a time is out of service"
    return f"set {prefix}{'.'.join(surge.find_path(sight.document))} to 0{also}"


def _map_exclusions(
    pod: Document, others: Sequence[Document], nodes: Mapping[str, NodeView]
) -> dict[tuple[str, str], tuple[Document, str]]:
    """Return, by label, one of the other pods that excludes the pod from the nodes with this label, and the reason. The
    key `_NAME` with the name of a node, instead of a label, stands for this node only.
    """
    result: dict[tuple[str, str], tuple[Document, str]] = {}
    ports = list_host_ports(pod)
    for other in others:
        where = nodes.get(other["spec"].get("nodeName") or "")
        if where is None:
            continue
        if common := ports & list_host_ports(other):
            result.setdefault((_NAME, where.name), (other, f"both pods need host port {min(common)[0]}"))
        for key in _list_separating_keys(pod, other):
            if key in where.labels:
                why = f"required podAntiAffinity allows only one of the two pods per {key}"
                result.setdefault((key, where.labels[key]), (other, why))
    return result


def _list_separating_keys(pod: Document, other: Document) -> Iterator[str]:
    """Yield topology keys by which one of the two pods excludes the other."""
    for separated, neighbour in ((pod, other), (other, pod)):
        terms: Sequence[Mapping[str, Any]] = get_path(
            separated["spec"], "affinity", "podAntiAffinity", REQUIRED, default=()
        )
        for term in terms:
            try:
                selector = parse_selector(term.get("labelSelector"))
            except SelectorError:
                continue
            if selector.matches(neighbour["metadata"].get("labels") or {}):
                yield str(term.get("topologyKey"))
