"""Entries of a NodePodProbe for a marker's pods.

pods + probes of the marker ──▶ build_wanted_probes() ──▶ for each pod: probes with port numbers
NodePodProbe + these probes ──▶ build_entries_after() ──▶ its entries with the marker's current probes

Pure. Probes of other markers and pods of other namespaces do not change.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pykruise.kube.ids import Key
from pykruise.pods.probes.api import ContainerProbe, NamedProbe, PodProbe
from pykruise.pods.probes.obstacles import describe_missing_container, list_probed_containers
from pykruise.pods.probes.views import NodeProbesView, name_of_probe, split_name
from pykruise.pods.view.pod_view import PodView


class WantedProbes(msgspec.Struct, frozen=True, kw_only=True):
    """Probes for one pod."""

    pod: PodView
    probes: Sequence[NamedProbe]
    problem: str = ""
    """First problem of a probe: the pod lacks its container, or the container has no port with the name in the probe;
    empty: there is no problem.
    """


def build_wanted_probes(marker: str, probes: Sequence[ContainerProbe], pod: PodView) -> WantedProbes:
    """Return the marker's probes for a pod. A probe is left out when its container has no port with the probe's port
    name.
    """
    named_probes: list[NamedProbe] = []
    problem, containers = "", list_probed_containers(pod)
    for probe in probes:
        name = name_of_probe(marker, probe.name)
        problem = problem or describe_missing_container(probe, containers)
        port = _find_port(probe)
        if not isinstance(port, str):
            named_probes.append(NamedProbe(name=name, container_name=probe.container_name, probe=probe.probe))
            continue
        number = _find_port_number(port, probe.container_name, pod)
        if number is None:
            problem = (
                problem or f"probe {probe.name}: container {probe.container_name} has no port named {port}"
            )
            continue
        named_probes.append(_with_port(name, probe, number))
    return WantedProbes(pod=pod, probes=named_probes, problem=problem)


def _find_port(probe: ContainerProbe) -> int | str | None:
    action = probe.probe.http_get or probe.probe.tcp_socket
    return action.port if action is not None else None


def _find_port_number(port: str, container: str, pod: PodView) -> int | None:
    for item in (*pod.containers, *pod.sidecars):
        if item.name == container:
            for name, number in item.named_ports:
                if name == port:
                    return number
    return int(port) if port.isascii() and port.isdecimal() else None


def _with_port(name: str, item: ContainerProbe, number: int) -> NamedProbe:
    probe = changed = item.probe
    if probe.http_get is not None:
        changed = msgspec.structs.replace(
            probe, http_get=msgspec.structs.replace(probe.http_get, port=number)
        )
    elif probe.tcp_socket is not None:
        changed = msgspec.structs.replace(
            probe, tcp_socket=msgspec.structs.replace(probe.tcp_socket, port=number)
        )
    return NamedProbe(name=name, container_name=item.container_name, probe=changed)


def build_entries_after(
    view: NodeProbesView, marker: Key, wanted: Mapping[str, WantedProbes]
) -> Sequence[PodProbe]:
    """Return the entries of the NodePodProbe in which `wanted` (by pod UID) replaces all probes of the marker."""
    left = dict(wanted)
    pod_probes: list[PodProbe] = []
    for entry in view.pods:
        if entry.namespace != marker.namespace:
            pod_probes.append(entry)
            continue
        item = left.pop(entry.uid, None)
        probes = list(_merge_probes(entry.probes or (), marker.name, item.probes if item else ()))
        if probes:
            ip = item.pod.ip if item is not None else entry.ip
            pod_probes.append(msgspec.structs.replace(entry, ip=ip, probes=probes))
    for item in left.values():
        if item.probes:
            pod = item.pod
            pod_probes.append(
                PodProbe(
                    name=pod.name,
                    namespace=pod.namespace,
                    uid=pod.uid,
                    ip=pod.ip,
                    probes=list(item.probes),
                )
            )
    return pod_probes


def _merge_probes(
    stored: Sequence[NamedProbe], marker: str, wanted: Sequence[NamedProbe]
) -> Iterator[NamedProbe]:
    """Yield the probes of an entry: existing probes in the stored order, then new probes."""
    left = {named_probe.name: named_probe for named_probe in wanted}
    for probe in stored:
        if split_name(probe.name)[0] != marker:
            yield probe
        elif probe.name in left:
            yield left.pop(probe.name)
    yield from left.values()
