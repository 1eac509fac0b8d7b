"""All watched objects, in one cache per resource that lists, pages and questions share.

API server ──▶ Sources.find_cache(views) ──▶ DashboardObject: the object's JSON without managedFields, and its keys

Secrets and ConfigMaps are not watched. Pure: the caches are in runtime/sources.py.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds import list_kinds
from pykruise.kube.documents import Document, decode
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE, Views

ROLLOUTS: Final = Resource("rollouts.kruise.io", "v1beta1", "rollouts", "Rollout")
"""The resource of OpenKruise Rollouts, a separate project. It is shown if the cluster serves it."""

BY_UID: Final = "uid"
BY_NODE: Final = "node"
"""Index by the node that each pod runs on."""

_BUILT_IN: Final = (
    PODS,
    NODES,
    NAMESPACES,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    REPLICA_SETS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
)


class DashboardObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One object. `raw` is its JSON with apiVersion and kind, but without managedFields."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller: str
    """uid of the object's controller; empty if it has none."""
    labels: Mapping[str, str]
    raw: bytes
    node: str = ""
    """The node of a pod; empty if the pod is not scheduled, and for other objects."""
    waits: bool = False
    """Whether the pod might be unavailable, so that it needs a closer check."""

    @property
    def to_document(self) -> Document:
        """The object as a new document."""
        return decode(self.raw)


def list_watched_resources() -> tuple[Resource, ...]:
    """Return the resources that the dashboard lists and watches, and for which it needs permissions."""
    own = dict.fromkeys(kind.resource for kind in list_kinds() if kind.versions)
    return (*own, ROLLOUTS, *_BUILT_IN)


def views_of_all() -> Mapping[Resource, Views[DashboardObject]]:
    """Return the views of each watched resource."""
    return {resource: _make_views(resource) for resource in list_watched_resources()}


def _make_views(resource: Resource) -> Views[DashboardObject]:
    def project(raw: bytes | msgspec.Raw) -> DashboardObject:
        return _make_object_view(raw, resource)

    indexes = {BY_CONTROLLER: _list_controllers, BY_NAMESPACE: _list_namespaces, BY_UID: _list_uids}
    if resource == PODS:
        indexes[BY_NODE] = _list_nodes
    return Views(resource=resource, projector=lambda: project, indexes=indexes)


def _list_controllers(view: DashboardObject) -> Iterable[str]:
    return (view.controller,) if view.controller else ()


def _list_namespaces(view: DashboardObject) -> Iterable[str]:
    return (view.namespace,)


def _list_uids(view: DashboardObject) -> Iterable[str]:
    return (view.uid,)


def _list_nodes(view: DashboardObject) -> Iterable[str]:
    return (view.node,) if view.node else ()


def _make_object_view(raw: bytes | msgspec.Raw, resource: Resource) -> DashboardObject:
    """Raises ValueError or KeyError for JSON that is not an object of Kubernetes."""
    document = decode(raw)
    meta: dict[str, Any] = document["metadata"]
    meta.pop("managedFields", None)
    whole = {**document, "apiVersion": resource.api_version, "kind": resource.kind}
    owners = meta.get("ownerReferences") or ()
    return DashboardObject(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        resource_version=int(meta.get("resourceVersion") or 0),
        controller=next((str(owner.get("uid")) for owner in owners if owner.get("controller")), ""),
        labels=meta.get("labels") or {},
        raw=orjson.dumps(whole),
        node=str((document.get("spec") or {}).get("nodeName") or "") if resource == PODS else "",
        waits=resource == PODS and _may_wait(document),
    )


_STATE: Final = "lifecycle.apps.kruise.io/state"


def _may_wait(pod: Document) -> bool:
    """Return False for a pod that is certainly available or has ended. Most pods of a cluster are such pods."""
    meta, status = pod["metadata"], pod.get("status") or {}
    if meta.get("deletionTimestamp"):
        return True
    if status.get("phase") in ("Succeeded", "Failed"):
        return False
    if (meta.get("labels") or {}).get(_STATE, "Normal") != "Normal":
        return True
    ready = (condition for condition in status.get("conditions") or () if condition.get("type") == "Ready")
    return not any(item.get("status") == "True" for item in ready)
