"""Pods and nodes as the built-in controllers see them.

POD_VIEWS, NODE_VIEWS ──▶ the caches that scheduler and kubelets read, too
make_document_views(resource) ──▶ all other resources, as whole documents
template ──▶ build_pod() ──▶ a pod;   pod ──▶ find_available_time()
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.kube.values.selectors import Selector, parse_selector
from pykruise.runtime.objects import DocumentView, make_object_views
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE, ORPHANS, Views
from pykruise.runtime.wakes import Wake, wake_adopters, wake_owner
from pykruise.sandbox.nodes.specs import SandboxNodeView, project_node
from pykruise.sandbox.pod_decoding import SandboxPodProjector
from pykruise.sandbox.pod_view import SandboxPodView, instant_of

BY_NODE: Final = "node"
"""Index by the node's name."""
BY_CLAIM: Final = "claim"
"""Index by namespace and name of a claim that the pod uses."""

BY_GROUP: Final = "group"
"""Index by namespace and name of the pod's PodGroup."""

_POD_INDEXES: Final[Mapping[str, Callable[[SandboxPodView], Iterable[Hashable]]]] = {
    BY_CONTROLLER: lambda pod: (pod.owner_uid,) if pod.owner_uid else (),
    ORPHANS: lambda pod: () if pod.owner_uid else (pod.namespace,),
    BY_NAMESPACE: lambda pod: (pod.namespace,),
    BY_NODE: lambda pod: (pod.node_name,) if pod.node_name else (),
    BY_CLAIM: lambda pod: [(pod.namespace, name) for name in pod.claims],
    BY_GROUP: lambda pod: ((pod.namespace, pod.pod_group),) if pod.pod_group else (),
}

POD_VIEWS: Final = Views[SandboxPodView](resource=PODS, projector=SandboxPodProjector, indexes=_POD_INDEXES)
NODE_VIEWS: Final = Views[SandboxNodeView](resource=NODES, projector=lambda: project_node)


def make_document_views(resource: Resource) -> Views[DocumentView]:
    """The views of any other resource. All controllers get the same value, so that they share a cache."""
    return make_object_views(resource)


def selector_of(owner: DocumentView) -> Selector:
    """`spec.selector` of a workload."""
    return parse_selector(owner.spec.get("selector"))


def is_selected(owner: DocumentView, labels: Mapping[str, str]) -> bool:
    """Whether a workload's selector matches these labels; an empty selector matches none."""
    selector = selector_of(owner)
    return not selector.is_empty and selector.matches(labels)


def pods_of(resource: Resource) -> tuple[Wake, ...]:
    """Wakes for pods: a pod enqueues the object of `resource` that owns it; an orphan enqueues the objects that may
    adopt it.
    """
    return (
        wake_owner(POD_VIEWS, resource),
        wake_adopters(
            POD_VIEWS,
            make_document_views(resource),
            may_own=lambda owner, pod: is_selected(owner, pod.labels),
        ),
    )


def build_pod(template: Document, *, owner: Document, name: str = "", prefix: str = "") -> Document:
    """Build a pod from a template, with a name or with a `prefix` from which the API server generates a name."""
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


def find_available_time(pod: SandboxPodView, *, min_ready_s: int) -> Instant | None:
    """Time at which a ready pod becomes available; None when it is not ready. This is the rule of Kubernetes' pod
    availability.
    """
    ready = pod.status.find_condition("Ready")
    if ready is None or ready.status != "True":
        return None
    if min_ready_s == 0:
        return 0.0
    return instant_of(ready.last_transition_time, default=0.0) + min_ready_s
