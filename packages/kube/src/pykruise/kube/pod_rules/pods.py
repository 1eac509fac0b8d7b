"""Validation of a pod's spec and of pod templates, with the server's messages and in its order.

    a defaulted spec ──▶ check_pod_spec(spec, path) ──▶ Causes

All checks read documents in canonical form (builtin_types.py) after defaulting, so absent means empty. Pure. An API
server applies these rules to every pod. The sandbox's API server applies them, and admission does so before a
workload creates pods from its template. `windowsOptions`, the claim template of an ephemeral volume, and most details
of older volume types are not checked.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

from pykruise.kube.pod_rules.containers import (
    check_amount,
    check_container,
    check_lifecycle,
    collect_claim_names,
)
from pykruise.kube.pod_rules.field_errors import (
    format_go_strings,
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_found_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_annotations,
    check_label,
    check_labels,
    check_one_of,
    check_qualified_name,
    check_subdomain,
)
from pykruise.kube.pod_rules.names import is_dns1123_subdomain
from pykruise.kube.pod_rules.placement import check_affinity, check_spread, check_tolerations
from pykruise.kube.pod_rules.pod_resources import check_pod_resources
from pykruise.kube.pod_rules.restart_rules import check_init_restarts, check_restarts
from pykruise.kube.pod_rules.security_rules import check_os, check_pod_security
from pykruise.kube.pod_rules.volumes import check_volumes
from pykruise.kube.schemas.releases import NEWEST, Release

__all__ = ["check_ephemeral_container", "check_names", "check_pod_spec", "check_pod_template"]

Doc = Mapping[str, Any]
_MAX_INT32: Final = 2**31 - 1


def check_pod_template(template: Doc, path: str, release: Release = NEWEST) -> Causes:
    """Yield the errors of a pod template: labels, annotations and spec."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from check_labels(metadata.get("labels"), f"{path}.labels")
    yield from check_annotations(metadata.get("annotations"), f"{path}.annotations")
    yield from check_pod_spec(spec, f"{path}.spec", is_pod=False, release=release)
    if spec.get("ephemeralContainers"):
        yield make_forbidden_error(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def check_pod_spec(
    spec: Doc, path: str, *, is_pod: bool = True, pod_name: str = "", release: Release = NEWEST
) -> Causes:
    """Yield the errors of a pod spec by the rules of an API server of this release.

    `is_pod` is False inside a template, where host ports may still be absent.
    """
    volumes: dict[str, Doc] = {}
    yield from check_volumes(spec.get("volumes") or (), f"{path}.volumes", volumes, pod_name)
    yield from _check_claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims")
    yield from _check_containers(spec, volumes, path, release)
    yield from _check_init_containers(spec, volumes, path, release)
    yield from _check_ephemeral_containers(spec, volumes, path)
    if spec.get("resources") is not None:
        yield from check_pod_resources(spec, path)
    yield from _check_host_ports_match(spec, path, is_pod=is_pod)
    yield from check_one_of(
        spec.get("restartPolicy"), f"{path}.restartPolicy", ("Always", "OnFailure", "Never")
    )
    yield from check_one_of(
        spec.get("dnsPolicy"),
        f"{path}.dnsPolicy",
        ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    )
    yield from check_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from check_pod_security(spec, path)
    yield from check_affinity(spec.get("affinity") or {}, f"{path}.affinity", release)
    yield from _check_dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        place = f"{path}.readinessGates[{index}].conditionType"
        yield from check_qualified_name(gate.get("conditionType") or "", place)
    yield from _check_scheduling_gates(spec, f"{path}.schedulingGates")
    yield from check_spread(spec, f"{path}.topologySpreadConstraints")
    yield from _check_host_users(spec, path, release)
    yield from _check_hostname_override(spec, f"{path}.hostnameOverride")
    yield from check_names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        detail = f"must be between 1 and {_MAX_INT32}, inclusive"
        yield make_invalid_error(f"{path}.activeDeadlineSeconds", deadline, detail)
    yield from check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations", release)
    yield from _check_host_aliases(spec, f"{path}.hostAliases")
    if "preemptionPolicy" in spec:
        yield from check_one_of(
            spec["preemptionPolicy"], f"{path}.preemptionPolicy", ("PreemptLowerPriority", "Never")
        )
    for resource, amount in (spec.get("overhead") or {}).items():
        yield from check_amount(resource, amount, f"{path}.overhead[{resource}]")
    yield from check_os(spec, path)


def check_names(spec: Doc, path: str) -> Causes:
    """Yield the errors of the names of other objects in a pod spec, and of the pod's own host name."""
    for field, rule in _NAME_RULES.items():
        value = spec.get(field)
        if value:
            yield from rule(value, f"{path}.{field}")


_NAME_RULES: Final = {
    "serviceAccountName": check_subdomain,
    "nodeName": check_subdomain,
    "hostname": check_label,
    "subdomain": check_label,
    "priorityClassName": check_subdomain,
    "runtimeClassName": check_subdomain,
}


# --- containers ---


def _check_containers(spec: Doc, volumes: Mapping[str, Doc], path: str, release: Release) -> Causes:
    containers, place = spec.get("containers") or (), f"{path}.containers"
    if not containers:
        yield make_required_error(place)
        return
    names: set[str] = set()
    grace = spec.get("terminationGracePeriodSeconds")
    claims = collect_claim_names(spec)
    for index, container in enumerate(containers):
        here = f"{place}[{index}]"
        yield from check_container(container, volumes, here, spec, claims=claims)
        name = container.get("name") or ""
        if name in names:
            yield make_duplicate_error(f"{here}.name", name)
        names.add(name)
        yield from check_lifecycle(container, here, os=spec.get("os"), grace=grace, release=release)
        yield from check_restarts(container, here, release)
    yield from _check_unique_host_ports(containers, place)


def _check_init_containers(spec: Doc, volumes: Mapping[str, Doc], path: str, release: Release) -> Causes:
    names = {container.get("name") or "" for container in spec.get("containers") or ()}
    place = f"{path}.initContainers"
    grace = spec.get("terminationGracePeriodSeconds")
    claims = collect_claim_names(spec)
    for index, container in enumerate(spec.get("initContainers") or ()):
        here = f"{place}[{index}]"
        yield from check_container(container, volumes, here, spec, claims=claims)
        policy = container.get("restartPolicy")
        yield from check_init_restarts(container, here, release)
        name = container.get("name") or ""
        if name in names:
            yield make_duplicate_error(f"{here}.name", name)
        elif name:
            names.add(name)
        yield from _check_unique_host_ports([container], place)
        if policy == "Always":
            yield from check_lifecycle(container, here, os=spec.get("os"), grace=grace, release=release)
            continue
        for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield make_forbidden_error(f"{here}.{field}", detail)


def _check_ephemeral_containers(spec: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    others = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    names = set(others)
    claims = collect_claim_names(spec)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here = f"{path}.ephemeralContainers[{index}]"
        yield from check_ephemeral_container(container, here, volumes=volumes, spec=spec, claims=claims)
        name, target = container.get("name") or "", container.get("targetContainerName")
        if name in names:
            yield make_duplicate_error(f"{here}.name", name)
        names.add(name)
        if target and target not in others:
            yield make_not_found_error(f"{here}.targetContainerName", target)


def check_ephemeral_container(
    container: Doc, path: str, *, volumes: Mapping[str, Doc], spec: Doc, claims: Set[str]
) -> Causes:
    """Yield the errors of one ephemeral container, without comparing it with other containers.

    `spec`, `volumes` and `claims` (names) are those of its pod.
    """
    yield from check_container(container, volumes, path, spec, claims=claims)
    for field in _NOT_EPHEMERAL:
        if container.get(field):
            yield make_forbidden_error(f"{path}.{field}", "cannot be set for an Ephemeral Container")


_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "restartPolicy",
    "resizePolicy",
)


def _check_unique_host_ports(containers: Iterable[Doc], path: str) -> Causes:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                yield make_duplicate_error(f"{path}[{index}].ports[{position}].hostPort", key)
            taken.add(key)


def _check_host_ports_match(spec: Doc, path: str, *, is_pod: bool) -> Causes:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort"):
                place = f"{path}.containers[{index}].ports[{position}].hostPort"
                yield make_invalid_error(
                    place, host_port, "must match `containerPort` when `hostNetwork` is true"
                )


# --- scheduling, names ---


def _check_claims(claims: Iterable[Doc], path: str) -> Causes:
    """Yield the errors of `resourceClaims`, each of which names a claim or a template."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name") or ""
        if not name:
            yield make_required_error(f"{here}.name")
        elif name in seen:
            yield make_duplicate_error(f"{here}.name", name)
        else:
            seen.add(name)
            yield from check_label(name, f"{here}.name")
        given = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field)]
        if len(given) != 1:
            problem = "at most one of" if given else "must specify one of:"
            detail = f"{problem} `resourceClaimName`, `resourceClaimTemplateName`"
            yield make_invalid_error(here, claim, detail)


def _check_host_users(spec: Doc, path: str, release: Release) -> Causes:
    """Yield an error for each namespace of the host that is shared by a pod with its own user namespace."""
    if spec.get("hostUsers") is not False:
        return
    if spec.get("hostNetwork") and not release.has("UserNamespacesHostNetworkSupport"):
        yield make_forbidden_error(f"{path}.hostNetwork", "when `hostUsers` is false")
    for field, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield make_forbidden_error(f"{path}.{shown}", "when `hostUsers` is false")


def _check_hostname_override(spec: Doc, path: str) -> Causes:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    if spec.get("setHostnameAsFQDN"):
        yield make_forbidden_error(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield make_forbidden_error(path, "may not be specified when hostNetwork is true")
    if len(name) > _LONGEST_HOSTNAME:
        yield make_invalid_error(path, name, f"must be no more than {_LONGEST_HOSTNAME} characters")
    yield from check_subdomain(name, path)


_LONGEST_HOSTNAME: Final = 64


def _check_scheduling_gates(spec: Doc, path: str) -> Causes:
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        yield from check_qualified_name(name, f"{path}[{index}]")
        if name in seen:
            yield make_duplicate_error(f"{path}[{index}]", name)
        seen.add(name)


def _check_dns(spec: Doc, path: str) -> Causes:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield make_required_error(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield make_required_error(f"{path}.nameservers", detail)
            return
    servers = (config or {}).get("nameservers") or ()
    if len(servers) > 3:
        shown = format_go_strings(servers)
        yield make_invalid_shown_error(f"{path}.nameservers", shown, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        yield from _check_ip(server, f"{path}.nameservers[{index}]")
    yield from _check_searches((config or {}).get("searches") or (), f"{path}.searches")
    for index, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            yield make_required_error(f"{path}.options[{index}]", "must not be empty")


_MOST_SEARCHES: Final = 32
_MOST_SEARCH_CHARACTERS: Final = 2_048


def _check_searches(searches: Sequence[str], path: str) -> Causes:
    if len(searches) > _MOST_SEARCHES:
        detail = f"must not have more than {_MOST_SEARCHES} search paths"
        yield make_invalid_shown_error(path, format_go_strings(searches), detail)
    if len(" ".join(searches).encode()) > _MOST_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MOST_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield make_invalid_shown_error(path, format_go_strings(searches), detail)
    for index, search in enumerate(searches):
        for message in is_dns1123_subdomain(search.removesuffix(".")):
            yield make_invalid_error(f"{path}[{index}]", search.removesuffix("."), message)


def _check_ip(value: str, path: str) -> Causes:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield make_invalid_error(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _check_host_aliases(spec: Doc, path: str) -> Causes:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from _check_ip(alias.get("ip") or "", f"{path}[{index}].ip")
        for position, name in enumerate(alias.get("hostnames") or ()):
            yield from check_subdomain(name, f"{path}[{index}].hostnames[{position}]")
