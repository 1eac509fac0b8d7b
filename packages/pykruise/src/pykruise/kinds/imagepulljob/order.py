"""Update order of a workload's pods, so that images reach nodes in the order in which they are needed.

workload (as stored) + pods ──▶ in_update_order() ──▶ pods

Pure. The orders themselves are those of ordering.py, as the workloads use them; what they decide by beside them
(who can be updated at all, partitions) is not asked.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.pods.api import PriorityStrategy
from pykruise.pods.lifecycle.ordering import OrderTerm, by_priority, scatter, update_order
from pykruise.pods.view.pod_view import ControllerView, PodView
from pykruise.pods.workload.ordinals import split_name

_GROUP: Final = "apps.kruise.io"

WORKLOADS: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (
        Resource(_GROUP, "v1beta1", "clonesets", "CloneSet"),
        Resource(_GROUP, "v1beta1", "statefulsets", "StatefulSet"),
        Resource(_GROUP, "v1beta1", "sidecarsets", "SidecarSet", namespaced=False),
    )
}
"""Whose order is known, by kind."""

_STRATEGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "CloneSet": ("spec", "updateStrategy", "rollingUpdate"),
    "StatefulSet": ("spec", "updateStrategy", "rollingUpdate", "unorderedUpdate"),
    "SidecarSet": ("spec", "updateStrategy"),
}
"""Where the priorities stand."""


def strategy_of(owner: ControllerView | None) -> Resource | None:
    """The workload whose order counts; None: none, or none whose order is known."""
    return WORKLOADS.get(owner.kind) if owner is not None and owner.group == _GROUP else None


def in_update_order(pods: Sequence[PodView], workload: Document, *, kind: str) -> Sequence[PodView]:
    """The pods, those that are updated first in front."""
    if kind == "StatefulSet":
        ordered: Sequence[PodView] = sorted(pods, key=lambda pod: split_name(pod.name)[1], reverse=True)
    else:
        ordered = update_order(pods)
    strategy = get_path(workload, *_STRATEGIES[kind])
    if not isinstance(strategy, Mapping):
        return ordered
    priorities, _ = read(strategy.get("priorityStrategy") or {}, PriorityStrategy, path="priorityStrategy")
    ordered = by_priority(ordered, priorities)
    terms = [
        OrderTerm(item.get("key", ""), item.get("value", ""))
        for item in strategy.get("scatterStrategy") or ()
    ]
    return scatter(ordered, pods, terms)
