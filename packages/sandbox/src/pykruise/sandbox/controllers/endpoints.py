"""Endpoints and EndpointSlices: where the pods of a Service can be reached.

Service + pods it selects ──▶ endpoints_of(), slice_of() ──▶ POST, PATCH endpoints and endpointslices

One slice for each Service (a real cluster splits beyond 100 endpoints). Rules: Kubernetes' endpoint and
endpoint slice controllers. Services without a selector are left to whoever made them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.cache import Change
from pykruise.kube.documents import Document, same
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.hashing import rand_suffix
from pykruise.kube.ids import Key
from pykruise.kube.resources import ENDPOINTS, SERVICES, Resource
from pykruise.runtime.objects import DocumentView, owner_reference_to
from pykruise.runtime.views import BY_CONTROLLER
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.pod_view import PodView

__all__ = ["ENDPOINT_SLICES", "ServiceEndpoints", "endpoints_of", "slice_of"]

ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_MANAGER: Final = "endpointslice-controller.k8s.io"
_COALESCE_S: Final = 0.1  # pods that change together are written together


def selected(service: DocumentView, pods: Sequence[PodView]) -> list[PodView]:
    """The pods behind a service that have an address and have not ended, by name."""
    wanted = (service.spec.get("selector") or {}).items()
    found = [pod for pod in pods if wanted <= pod.labels.items() and pod.status.pod_ip and not pod.is_over]
    return sorted(found, key=lambda pod: pod.name)


def slice_of(service: DocumentView, pods: Sequence[PodView], zones: Mapping[str, str]) -> Document:
    """What the service's EndpointSlice holds beside its metadata. `zones`: of nodes."""
    endpoints = []
    for pod in selected(service, pods):
        serving = _is_ready(pod)
        ready = serving and not pod.is_deleting
        if service.spec.get("publishNotReadyAddresses"):
            ready = serving = True
        endpoint: Document = {
            "addresses": [pod.status.pod_ip],
            "conditions": {"ready": ready, "serving": serving, "terminating": pod.is_deleting},
            "nodeName": pod.node_name,
            "targetRef": _target(pod),
        }
        if zones.get(pod.node_name):
            endpoint["zone"] = zones[pod.node_name]
        endpoints.append(endpoint)
    return {"addressType": "IPv4", "endpoints": endpoints, "ports": _slice_ports(service, pods)}


def endpoints_of(service: DocumentView, pods: Sequence[PodView]) -> list[Document]:
    """The subsets of the service's Endpoints."""
    ready: list[Document] = []
    unready: list[Document] = []
    for pod in selected(service, pods):
        if pod.is_deleting:
            continue
        address = {"ip": pod.status.pod_ip, "nodeName": pod.node_name, "targetRef": _target(pod)}
        is_served = _is_ready(pod) or service.spec.get("publishNotReadyAddresses")
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


def _is_ready(pod: PodView) -> bool:
    ready = pod.status.condition("Ready")
    return ready is not None and ready.status == "True"


def _target(pod: PodView) -> Document:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _slice_ports(service: DocumentView, pods: Sequence[PodView]) -> list[Document]:
    found = []
    for port in service.spec.get("ports") or ():
        number = _number(port, selected(service, pods))
        if number is None:
            continue
        shown: Document = {
            "name": port.get("name") or "",
            "port": number,
            "protocol": port.get("protocol", "TCP"),
        }
        if port.get("appProtocol"):
            shown["appProtocol"] = port["appProtocol"]
        found.append(shown)
    return found


def _number(port: Mapping[str, Any], pods: Sequence[PodView]) -> int | None:
    """The port on the pods; None when it is a name that none of them has."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod.containers.items:
            for one in container.ports or ():
                if one.name == target and one.protocol == port.get("protocol", "TCP"):
                    return one.container_port
    return None


class ServiceEndpoints(Loop):
    """Keeps Endpoints and an EndpointSlice for every Service with a selector."""

    name = "endpoints"
    component = "endpoint-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(SERVICES)
        self.endpoints = shared.cache(ENDPOINTS)
        self.slices = shared.cache(ENDPOINT_SLICES)
        self.endpoints.subscribe(self._on_endpoints)
        self.slices.subscribe(self._on_slice)
        shared.pods.subscribe(self._on_pod)

    def _on_endpoints(self, change: Change[DocumentView]) -> None:
        if change.new is None:
            self.queue.add(change.key)

    def _on_slice(self, change: Change[DocumentView]) -> None:
        if change.new is None and change.old is not None:
            for service in self.cache.by_index("uid", change.old.owner_uid):
                self.queue.add(service.key)

    def _on_pod(self, change: Change[PodView]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _looks_same(old, new):
            return
        namespace = change.key.namespace
        for service in self.cache.by_index("namespace", namespace):
            wanted = (service.spec.get("selector") or {}).items()
            if wanted and any(pod is not None and wanted <= pod.labels.items() for pod in (old, new)):
                self.queue.add_after(service.key, _COALESCE_S)

    async def sync(self, key: Key) -> float | None:
        service = self.cache.get(key)
        if service is None:
            # The slice goes with its owner; Endpoints have none.
            found = self.endpoints.get(key)
            if found is not None and "endpoints.kubernetes.io/managed-by" in found.labels:
                await self._delete(found)
            return None
        if service.is_deleting or not service.spec.get("selector"):
            return None
        if service.spec.get("type") == "ExternalName":
            return None
        pods = self.shared.pods.by_index("namespace", key.namespace)
        await self._write_slice(service, slice_of(service, pods, self._zones()))
        await self._write_endpoints(service, endpoints_of(service, pods))
        return None

    def _zones(self) -> dict[str, str]:
        return {node.name: node.zone for node in self.shared.nodes.values()}

    async def _write_slice(self, service: DocumentView, content: Document) -> None:
        labels = {
            **service.labels,
            "kubernetes.io/service-name": service.name,
            "endpointslice.kubernetes.io/managed-by": _MANAGER,
        }
        if service.spec.get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        mine = [
            one
            for one in self.slices.by_index(BY_CONTROLLER, service.uid)
            if one.labels.get("endpointslice.kubernetes.io/managed-by") == _MANAGER
        ]
        if mine:
            known = {name: mine[0].doc.get(name) for name in content}
            if not same(known, content) or not same(dict(mine[0].labels), labels):
                patch = {"metadata": {"labels": labels}, **content}
                await self.shared.merge(ENDPOINT_SLICES, mine[0], patch)
            return
        doc = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service.name}-{rand_suffix(self.shared.rng)}",
                "labels": labels,
                "ownerReferences": [owner_reference_to(SERVICES, service)],
            },
            **content,
        }
        await self.writer.create(ENDPOINT_SLICES, service.namespace, doc)

    async def _write_endpoints(self, service: DocumentView, subsets: list[Document]) -> None:
        labels = {**service.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        known = self.endpoints.get(service.key)
        if known is not None:
            if not same(known.doc.get("subsets") or [], subsets):
                await self.shared.merge(
                    ENDPOINTS, known, {"metadata": {"labels": labels}, "subsets": subsets or None}
                )
            return
        doc: Document = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": service.name, "labels": labels},
        }
        if subsets:
            doc["subsets"] = subsets
        try:
            await self.writer.create(ENDPOINTS, service.namespace, doc)
        except AlreadyExistsError:
            return

    async def _delete(self, found: DocumentView) -> None:
        try:
            await self.writer.delete(ENDPOINTS, found.key, uid=found.uid)
        except NotFoundError:
            return


def _looks_same(old: PodView, new: PodView) -> bool:
    """Whether nothing changed that endpoints show."""
    return (
        old.labels == new.labels
        and old.status.pod_ip == new.status.pod_ip
        and old.status.phase == new.status.phase
        and old.is_deleting == new.is_deleting
        and _is_ready(old) == _is_ready(new)
    )
