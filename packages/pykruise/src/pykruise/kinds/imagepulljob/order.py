"""Update order of a workload's pods, so that nodes pull images in the order in which pods need them.

workload (as stored) + pods ──▶ sort_in_update_order() ──▶ sorted pods

Pure. Like the workloads, this module sorts by ordering.py. It ignores their other criteria, such as partitions, or
whether a pod can be updated at all.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.pods.api import PriorityStrategy
from pykruise.pods.lifecycle.ordering import OrderTerm, scatter, sort_by_priority, update_order
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
"""Workloads with a known update order, by kind."""

_STRATEGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "CloneSet": ("spec", "updateStrategy", "rollingUpdate"),
    "StatefulSet": ("spec", "updateStrategy", "rollingUpdate", "unorderedUpdate"),
    "SidecarSet": ("spec", "updateStrategy"),
}
"""Kind of workload → path of the field that contains priorityStrategy and scatterStrategy."""


def resource_of_controller(owner: ControllerView | None) -> Resource | None:
    """Return the resource of the job's controller if its update order is known; otherwise None."""
    return WORKLOADS.get(owner.kind) if owner is not None and owner.group == _GROUP else None


def sort_in_update_order(pods: Sequence[PodView], workload: Document, *, kind: str) -> Sequence[PodView]:
    """Return the pods in the order in which the workload updates them."""
    if kind == "StatefulSet":
        ordered: Sequence[PodView] = sorted(pods, key=lambda pod: split_name(pod.name)[1], reverse=True)
    else:
        ordered = update_order(pods)
    strategy = get_path(workload, *_STRATEGIES[kind])
    if not isinstance(strategy, Mapping):
        return ordered
    priorities, _ = read(strategy.get("priorityStrategy") or {}, PriorityStrategy, path="priorityStrategy")
    ordered = sort_by_priority(ordered, priorities)
    terms = [
        OrderTerm(item.get("key", ""), item.get("value", ""))
        for item in strategy.get("scatterStrategy") or ()
    ]
    return scatter(ordered, pods, terms)
