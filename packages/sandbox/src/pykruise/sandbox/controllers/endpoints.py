"""Endpoints and EndpointSlices: the addresses of a Service's pods.

Service + pods it selects ──▶ endpoints_of(), slice_of() ──▶ POST, PATCH endpoints and endpointslices

Each Service has one slice (a real cluster splits beyond 100 endpoints). Same rules as Kubernetes' endpoint and
endpoint slice controllers. If a Service has no selector, users manage its endpoints.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, is_same
from pykruise.kube.ids import Key
from pykruise.kube.resources import ENDPOINTS, SERVICES, Resource
from pykruise.kube.values.hashing import draw_suffix
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView, build_owner_reference_to, make_absent_document
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan, Step
from pykruise.runtime.read import Around, Read
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Later, Wake, wake_itself, wake_owner
from pykruise.sandbox.controllers.pods import NODE_VIEWS, POD_VIEWS, make_document_views
from pykruise.sandbox.controllers.steps import (
    DELETE,
    create_object,
    delete_object,
    merge_object,
    run_each,
    run_in_order,
)
from pykruise.sandbox.pod_view import SandboxPodView

ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_MANAGER: Final = "endpointslice-controller.k8s.io"
_COALESCE_S: Final = 0.1  # pods that change within this time are written together


def select_pods(service: DocumentView, pods: Sequence[SandboxPodView]) -> list[SandboxPodView]:
    """The service's pods with an address that have not ended, sorted by name."""
    wanted = (service.spec.get("selector") or {}).items()
    result = [pod for pod in pods if wanted <= pod.labels.items() and pod.status.pod_ip and not pod.is_over]
    return sorted(result, key=lambda pod: pod.name)


def slice_of(service: DocumentView, pods: Sequence[SandboxPodView], zones: Mapping[str, str]) -> Document:
    """Build the service's EndpointSlice without its metadata. `zones`: zones of nodes."""
    endpoints = []
    for pod in select_pods(service, pods):
        serving = pod.is_ready
        ready = serving and not pod.is_deleting
        if service.spec.get("publishNotReadyAddresses"):
            ready = serving = True
        endpoint: Document = {
            "addresses": [pod.status.pod_ip],
            "conditions": {"ready": ready, "serving": serving, "terminating": pod.is_deleting},
            "nodeName": pod.node_name,
            "targetRef": _build_target_ref(pod),
        }
        if zones.get(pod.node_name):
            endpoint["zone"] = zones[pod.node_name]
        endpoints.append(endpoint)
    return {"addressType": "IPv4", "endpoints": endpoints, "ports": _slice_ports(service, pods)}


def endpoints_of(service: DocumentView, pods: Sequence[SandboxPodView]) -> list[Document]:
    """The subsets of the service's Endpoints."""
    ready: list[Document] = []
    unready: list[Document] = []
    for pod in select_pods(service, pods):
        if pod.is_deleting:
            continue
        address = {"ip": pod.status.pod_ip, "nodeName": pod.node_name, "targetRef": _build_target_ref(pod)}
        is_served = pod.is_ready or service.spec.get("publishNotReadyAddresses")
        (ready if is_served else unready).append(address)
    if not ready and not unready:
        return []
    subset: Document = {}
    if ready:
        subset["addresses"] = ready
    if unready:
        subset["notReadyAddresses"] = unready
    if ports := _slice_ports(service, pods):
        subset["ports"] = [
            {name: value for name, value in port.items() if value != "" and name != "appProtocol"}
            for port in ports
        ]
    return [subset]


def _build_target_ref(pod: SandboxPodView) -> Document:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _slice_ports(service: DocumentView, pods: Sequence[SandboxPodView]) -> list[Document]:
    ports = []
    for port in service.spec.get("ports") or ():
        number = _find_port_number(port, select_pods(service, pods))
        if number is None:
            continue
        shown: Document = {
            "name": port.get("name") or "",
            "port": number,
            "protocol": port.get("protocol", "TCP"),
        }
        if port.get("appProtocol"):
            shown["appProtocol"] = port["appProtocol"]
        ports.append(shown)
    return ports


def _find_port_number(port: Mapping[str, Any], pods: Sequence[SandboxPodView]) -> int | None:
    """Number of the port on the pods; None when it is a name and no pod has a port of this name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod.containers.items:
            for host_port in container.ports or ():
                if host_port.name == target and host_port.protocol == port.get("protocol", "TCP"):
                    return host_port.container_port
    return None


class EndpointsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one Service needs."""

    service: DocumentView
    """The Service; without a uid when it is deleted."""
    pods: Sequence[SandboxPodView]
    """All pods in the Service's namespace."""
    endpoints: DocumentView | None
    slices: Sequence[DocumentView]
    """Slices that the Service owns."""
    zones: Mapping[str, str]
    """Zones of nodes."""
    seed: int
    """Seed of a new slice's name."""
    now: Instant


async def read_snapshot(service: DocumentView, read: Read[Any]) -> EndpointsSnapshot:
    """Read a snapshot from caches, without requests."""
    return EndpointsSnapshot(
        service=service,
        pods=read.list_by_index(POD_VIEWS, BY_NAMESPACE, service.namespace) if service.uid else (),
        endpoints=read.get(ENDPOINTS_VIEWS, service.key),
        slices=read.list_owned(SLICE_VIEWS, service.uid) if service.uid else (),
        zones={node.name: node.zone for node in read.list_all(NODE_VIEWS)} if service.uid else {},
        seed=read.draw_seed(),
        now=read.now(),
    )


def plan_endpoints(snapshot: EndpointsSnapshot) -> Plan:
    """Write Endpoints and slice. The slice of a deleted Service is garbage-collected; Endpoints are deleted here."""
    service, known = snapshot.service, snapshot.endpoints
    if not service.uid:
        if known is None or "endpoints.kubernetes.io/managed-by" not in known.labels:
            return Plan()
        return Plan(
            stages=run_in_order(
                DELETE, [delete_object(ENDPOINTS, known, because="its Service no longer exists")]
            )
        )
    spec = service.spec
    if service.is_deleting or not spec.get("selector") or spec.get("type") == "ExternalName":
        return Plan()
    steps = (_slice_step(snapshot), _plan_endpoints_step(snapshot))
    return Plan(stages=run_each("publish", [("", step) for step in steps if step is not None]))


def _slice_step(snapshot: EndpointsSnapshot) -> Step | None:
    service = snapshot.service
    content = slice_of(service, snapshot.pods, snapshot.zones)
    labels = {
        **service.labels,
        "kubernetes.io/service-name": service.name,
        "endpointslice.kubernetes.io/managed-by": _MANAGER,
    }
    if service.spec.get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    mine = [
        slice_
        for slice_ in snapshot.slices
        if slice_.labels.get("endpointslice.kubernetes.io/managed-by") == _MANAGER
    ]
    if not mine:
        metadata = {
            "name": f"{service.name}-{draw_suffix(Random(snapshot.seed))}",
            "labels": labels,
            "ownerReferences": [build_owner_reference_to(SERVICES, service)],
        }
        body = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind, "metadata": metadata}
        return create_object(
            ENDPOINT_SLICES,
            service.namespace,
            {**body, **content},
            because="the Service has no EndpointSlice yet",
        )
    known = {name: mine[0].doc.get(name) for name in content}
    if is_same(known, content) and is_same(dict(mine[0].labels), labels):
        return None
    patch = {"metadata": {"labels": labels}, **content}
    return merge_object(
        ENDPOINT_SLICES, mine[0], patch, because="the pods that the Service selects have changed"
    )


def _plan_endpoints_step(snapshot: EndpointsSnapshot) -> Step | None:
    service, known = snapshot.service, snapshot.endpoints
    subsets = endpoints_of(service, snapshot.pods)
    labels = {**service.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    if known is None:
        metadata = {"name": service.name, "labels": labels}
        body: Document = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        if subsets:
            body["subsets"] = subsets
        return create_object(ENDPOINTS, service.namespace, body, because="the Service has no Endpoints yet")
    if is_same(known.doc.get("subsets") or [], subsets):
        return None
    patch = {"metadata": {"labels": labels}, "subsets": subsets or None}
    return merge_object(ENDPOINTS, known, patch, because="the pods that the Service selects have changed")


SERVICE_VIEWS: Final = make_document_views(SERVICES)
ENDPOINTS_VIEWS: Final = make_document_views(ENDPOINTS)
SLICE_VIEWS: Final = make_document_views(ENDPOINT_SLICES)


def _enqueue_deleted_endpoints(change: Change[DocumentView], _: Around[Any]) -> tuple[Key, ...]:
    return (change.key,) if change.new is None else ()


def _enqueue_services_of_pod(change: Change[SandboxPodView], around: Around[Any]) -> Iterator[Later]:
    old, new = change.old, change.new
    if old is not None and new is not None and _looks_same(old, new):
        return
    for service in around.list_by_index(SERVICE_VIEWS, BY_NAMESPACE, change.key.namespace):
        wanted = (service.spec.get("selector") or {}).items()
        if wanted and any(pod is not None and wanted <= pod.labels.items() for pod in (old, new)):
            yield Later(service.key, _COALESCE_S)


def _looks_same(old: SandboxPodView, new: SandboxPodView) -> bool:
    """Whether the change affects no field that endpoints show."""
    return (
        old.labels == new.labels
        and old.status.pod_ip == new.status.pod_ip
        and old.status.phase == new.status.phase
        and old.is_deleting == new.is_deleting
        and old.is_ready == new.is_ready
    )


WORK: Final = Work(
    resource=SERVICES,
    control=Control(
        name="endpoints",
        component="endpoint-controller",
        objects=SERVICE_VIEWS,
        reads=lambda _: (ENDPOINTS_VIEWS, SLICE_VIEWS, POD_VIEWS, NODE_VIEWS),
        wakes=lambda _: (
            wake_itself(SERVICE_VIEWS),
            Wake(on=ENDPOINTS_VIEWS, keys=_enqueue_deleted_endpoints),
            wake_owner(SLICE_VIEWS, SERVICES, when=lambda change, *_: change.new is None),
            Wake(on=POD_VIEWS, keys=_enqueue_services_of_pod),
        ),
        absent=make_absent_document,
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.service,
        plan=plan_endpoints,
        is_current=is_same_object,
    ),
)
