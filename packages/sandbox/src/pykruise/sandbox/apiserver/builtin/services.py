"""Rules of Services and EndpointSlices.

    a service as sent ──▶ ServiceStrategy ──▶ a service with an address, or Causes

Pure. Addresses and node ports are derived from the service's uid. The sandbox routes no traffic, so they only need to
be valid and stay the same; two services may get the same address.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_immutable,
    check_label,
    check_labels,
    check_one_of,
    check_port,
    check_port_number,
    check_subdomain,
)
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.hashing import hash_fnv32a
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy

Doc = Mapping[str, Any]
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EXTERNAL: Final = ("LoadBalancer", "NodePort")
_ADDRESSES: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_NODE_PORTS: Final = range(30000, 32768)


class ServiceStrategy(BuiltinStrategy):
    """Services: the server assigns an address that never changes."""

    has_status = True

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
            if config.get("timeoutSeconds") is None:
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        outside = spec["type"] in _EXTERNAL or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
        if outside and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] == "ExternalName":
            spec.pop("internalTrafficPolicy", None)
        else:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {"loadBalancer": {}}
        _allocate(doc)
        return doc

    def prepare_update(self, new: Document, old: Document) -> Document:
        super().prepare_update(new, old)
        before, after = old.get("spec") or {}, new["spec"]
        if after.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            for field in _ADDRESSES:
                if not after.get(field) and before.get(field):
                    after[field] = before[field]
        _keep_node_ports(after, before)
        _drop_fields_of_old_type(after, before)
        _allocate(new)
        return new

    def validate_create(self, doc: Document) -> list[Cause]:
        return _check_whole_service(doc.get("spec") or {})

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        before, after = old.get("spec") or {}, new.get("spec") or {}
        causes: list[Cause] = []
        kept = "ExternalName" not in (before.get("type"), after.get("type"))
        if kept and before.get("clusterIP") and before["clusterIP"] != after.get("clusterIP"):
            detail = "may not change once set"
            causes.append(make_invalid_shown_error("spec.clusterIPs[0]", _format_cluster_ips(after), detail))
        return [*causes, *_check_whole_service(after)]


def _check_whole_service(spec: Doc) -> list[Cause]:
    """Like Kubernetes, check addresses and node ports only if the rest is valid, and report only their first error."""
    return list(_check_service(spec)) or list(_check_allocation(spec))[:1]


def _format_cluster_ips(spec: Doc) -> str:
    return f"[]string{{{', '.join(quote_text(address) for address in spec.get('clusterIPs') or ())}}}"


def _compute_seed(doc: Doc) -> int:
    metadata = doc.get("metadata") or {}
    text = metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return hash_fnv32a(text.encode())


def _allocate(doc: Document) -> None:
    spec = doc["spec"]
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = (spec.get("clusterIPs") or [None])[0] or _compute_cluster_ip(_compute_seed(doc))
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in _EXTERNAL and spec.get("allocateLoadBalancerNodePorts", True):
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                port["nodePort"] = _NODE_PORTS[(_compute_seed(doc) + index) % len(_NODE_PORTS)]


def _compute_cluster_ip(seed: int) -> str:
    """Return an address of 10.96.0.0/16, except the first addresses, which clusters use for their own services."""
    number = 16 + seed % (65536 - 32)
    return f"10.96.{number >> 8}.{number & 255}"


def _keep_node_ports(after: Document, before: Doc) -> None:
    """Keep the node port of each port that an update sends without a node port."""
    if after.get("type") not in _EXTERNAL:
        return
    known = {
        (port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()
    }
    for port in after.get("ports") or ():
        node_port = known.get((port.get("protocol"), port.get("port")))
        if node_port and not port.get("nodePort"):
            port["nodePort"] = node_port


def _drop_fields_of_old_type(after: Document, before: Doc) -> None:
    """Drop the unchanged fields that the old type has and the new type has not."""
    if after.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        if after.get("clusterIP") == before.get("clusterIP"):
            for field in ("clusterIP", "clusterIPs"):
                after.pop(field, None)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if after.get(field) == before.get(field):
                after.pop(field, None)
    if before.get("type") not in _EXTERNAL or after.get("type") in _EXTERNAL:
        return
    known = {port.get("nodePort") for port in before.get("ports") or ()}
    for port in after.get("ports") or ():
        if port.get("nodePort") in known:
            port.pop("nodePort", None)
    for field in ("externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"):
        if field in after and after[field] == before.get(field):
            del after[field]


def _check_service(spec: Doc) -> Causes:
    ports, kind = spec.get("ports") or (), spec.get("type") or ""
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield make_required_error("spec.ports")
    if spec.get("clusterIP") and not headless and not _is_address(spec["clusterIP"]):
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield make_invalid_error("spec.clusterIPs[0]", spec["clusterIP"], detail)
    if kind in _EXTERNAL and headless:
        yield make_invalid_error(
            "spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"
        )
    if kind == "ExternalName":
        if spec.get("clusterIP"):
            yield make_forbidden_error("spec.clusterIPs", "may not be set for ExternalName services")
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from check_subdomain(name, "spec.externalName")
        else:
            yield make_required_error("spec.externalName")
    yield from _check_ports(ports)
    yield from check_labels(spec.get("selector"), "spec.selector")
    yield from check_one_of(spec.get("sessionAffinity"), "spec.sessionAffinity", ("ClientIP", "None"))
    yield from check_one_of(kind, "spec.type", _TYPES)
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                yield make_forbidden_error(f"spec.ports[{index}].nodePort", detail)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != "LoadBalancer":
        yield make_forbidden_error(
            "spec.allocateLoadBalancerNodePorts", "may only be used when `type` is 'LoadBalancer'"
        )
    external = spec.get("externalTrafficPolicy")
    if external and kind not in _EXTERNAL and not spec.get("externalIPs"):
        detail = "may only be set for externally-accessible services"
        yield make_invalid_error("spec.externalTrafficPolicy", external, detail)
    elif external:
        yield from check_one_of(external, "spec.externalTrafficPolicy", ("Cluster", "Local"))
    if spec.get("internalTrafficPolicy"):
        yield from check_one_of(
            spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", ("Cluster", "Local")
        )


def _check_allocation(spec: Doc) -> Causes:
    """Check that this cluster, which has only IPv4 addresses, can provide the addresses and node ports."""
    without_pods = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and not without_pods:
        detail = "this cluster is not configured for dual-stack services"
        yield make_invalid_error("spec.ipFamilyPolicy", "RequireDualStack", detail)
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if number and number not in _NODE_PORTS:
            detail = (
                "provided port is not in the valid range. "
                f"The range of valid ports is {_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
            )
            yield make_invalid_error(f"spec.ports[{index}].nodePort", number, detail)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_ports(ports: Any) -> Causes:
    names: set[str] = set()
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            yield from check_label(name, f"{path}.name")
            if name in names:
                yield make_duplicate_error(f"{path}.name", name)
            names.add(name)
        elif len(ports) > 1:
            yield make_required_error(f"{path}.name")
        yield from check_port_number(port.get("port", 0), f"{path}.port")
        yield from check_one_of(port.get("protocol"), f"{path}.protocol", _PROTOCOLS)
        yield from check_port(port.get("targetPort", 0), f"{path}.targetPort")
    for index, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port", 0))
        if key in taken:
            shown = (
                f'core.ServicePort{{Name:"", Protocol:"{key[0]}", AppProtocol:(*string)(nil), Port:{key[1]}, '
                'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
            )
            message = f"Duplicate value: {shown}"
            yield Cause(reason="FieldValueDuplicate", message=message, field=f"spec.ports[{index}]")
        taken.add(key)


class EndpointSliceStrategy(BuiltinStrategy):
    """EndpointSlices."""

    tracks_generation = True

    def default(self, doc: Document) -> Document:
        for port in doc.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_slice(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        kinds = new.get("addressType"), old.get("addressType")
        return [*_check_slice(new), *check_immutable(*kinds, "addressType")]


def _check_slice(doc: Doc) -> Causes:
    yield from check_one_of(doc.get("addressType"), "addressType", ("FQDN", "IPv4", "IPv6"))
    for index, endpoint in enumerate(doc.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            yield make_required_error(f"endpoints[{index}].addresses", "must contain at least 1 address")
    names: set[str] = set()
    for index, port in enumerate(doc.get("ports") or ()):
        name = port.get("name") or ""
        if name in names:
            yield make_duplicate_error(f"ports[{index}].name", name)
        names.add(name)
        yield from check_one_of(port.get("protocol"), f"ports[{index}].protocol", _PROTOCOLS)
