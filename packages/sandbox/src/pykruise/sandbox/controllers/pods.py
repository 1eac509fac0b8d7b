"""Pods and nodes as the built-in controllers see them.

POD_VIEWS, NODE_VIEWS ──▶ the caches that scheduler and kubelets read, too
documents(resource)   ──▶ all other resources, as whole documents
template ──▶ pod_from() ──▶ a pod;   pod ──▶ available_at()
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.kube.values.selectors import Selector, selector_from
from pykruise.runtime.objects import DocumentView, object_views
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE, ORPHANS, Views
from pykruise.runtime.wakes import Wake, adoptable, by_owner
from pykruise.sandbox.nodes.specs import SandboxNodeView, project_node
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

BY_NODE: Final = "node"
"""Index by the node's name."""
BY_CLAIM: Final = "claim"
"""Index by namespace and name of a claim that the pod uses."""

_POD_INDEXES: Final[Mapping[str, Callable[[SandboxPodView], Iterable[Hashable]]]] = {
    BY_CONTROLLER: lambda pod: (pod.owner_uid,) if pod.owner_uid else (),
    ORPHANS: lambda pod: () if pod.owner_uid else (pod.namespace,),
    BY_NAMESPACE: lambda pod: (pod.namespace,),
    BY_NODE: lambda pod: (pod.node_name,) if pod.node_name else (),
    BY_CLAIM: lambda pod: [(pod.namespace, name) for name in pod.claims],
}

POD_VIEWS: Final = Views[SandboxPodView](resource=PODS, projector=SandboxPodProjector, indexes=_POD_INDEXES)
NODE_VIEWS: Final = Views[SandboxNodeView](resource=NODES, projector=lambda: project_node)


@cache
def documents(resource: Resource) -> Views[DocumentView]:
    """The views of any other resource. All controllers get the same value, so that they share a cache."""
    return object_views(resource)


def selector_of(owner: DocumentView) -> Selector:
    """`spec.selector` of a workload."""
    return selector_from(owner.spec.get("selector"))


def selects(owner: DocumentView, labels: Mapping[str, str]) -> bool:
    """Whether a workload's selector matches these labels; an empty selector matches none."""
    selector = selector_of(owner)
    return not selector.is_empty and selector.matches(labels)


def pods_of(resource: Resource) -> tuple[Wake, ...]:
    """Wakes for pods: they enqueue the objects of `resource` that own them; orphans enqueue those that may adopt
    them.
    """
    return (
        by_owner(POD_VIEWS, resource),
        adoptable(POD_VIEWS, documents(resource), may_own=lambda owner, pod: selects(owner, pod.labels)),
    )


def pod_from(template: Document, *, owner: Document, name: str = "", prefix: str = "") -> Document:
    """Build a pod from a template, with a name, or with one that the API server generates from `prefix`."""
    metadata = {
        field: deep_copy(value)
        for field, value in (template.get("metadata") or {}).items()
        if field in ("labels", "annotations", "finalizers") and value
    }
    metadata |= {"name": name} if name else {"generateName": prefix}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": deep_copy(template.get("spec") or {}),
    }


def available_at(pod: SandboxPodView, *, min_ready_s: int) -> Instant | None:
    """Time at which a ready pod becomes available; None when it is not ready. Same rule as Kubernetes' pod
    availability.
    """
    ready = pod.status.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    if min_ready_s == 0:
        return 0.0
    return instant_of(ready.last_transition_time, default=0.0) + min_ready_s
