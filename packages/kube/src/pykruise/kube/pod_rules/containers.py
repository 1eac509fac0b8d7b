"""Validation of containers: ports, environment, resources, probes, hooks and security.

    a container, the pod's volumes ──▶ check_container() ──▶ Causes

Pure; pods.py calls these checks.
"""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from pykruise.kube.http.heads import flaw_of_host, flaw_of_name, flaw_of_value
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_found_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_references import IN_VARIABLES, check_field_ref, check_resource_ref
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_config_key,
    check_label,
    check_not_negative,
    check_one_of,
    check_port,
    check_port_name,
    check_port_number,
    check_quantity_not_negative,
)
from pykruise.kube.pod_rules.names import is_qualified_name
from pykruise.kube.pod_rules.security_rules import check_container_security
from pykruise.kube.pod_rules.volumes import check_mounts
from pykruise.kube.schemas.releases import NEWEST, Release
from pykruise.kube.values.quantities import parse_quantity

__all__ = [
    "check_amount",
    "check_claims",
    "check_container",
    "check_http_head",
    "check_lifecycle",
    "check_probe",
    "check_whitespace",
    "collect_claim_names",
]

Doc = Mapping[str, Any]


def check_container(
    container: Doc, volumes: Mapping[str, Doc], path: str, spec: Doc, *, claims: Set[str]
) -> Causes:
    """Yield the errors of a container of any sort, except those of its lifecycle and probes.

    `claims`: collect_claim_names() of its pod.
    """
    name = container.get("name") or ""
    if name:
        yield from check_label(name, f"{path}.name")
    else:
        yield make_required_error(f"{path}.name")
    if not container.get("image"):
        yield make_required_error(f"{path}.image")
    yield from check_one_of(
        container.get("terminationMessagePolicy"),
        f"{path}.terminationMessagePolicy",
        ("File", "FallbackToLogsOnError"),
    )
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    yield from _check_env(container.get("env") or (), f"{path}.env", volumes)
    yield from _check_env_from(container.get("envFrom") or (), f"{path}.envFrom")
    yield from check_mounts(container, volumes, path)
    yield from check_one_of(
        container.get("imagePullPolicy"), f"{path}.imagePullPolicy", ("Always", "IfNotPresent", "Never")
    )
    yield from check_resources(container.get("resources") or {}, f"{path}.resources")
    yield from check_claims(container.get("resources") or {}, f"{path}.resources", claims)
    yield from _check_resize_policy(container, f"{path}.resizePolicy", spec)
    yield from check_container_security(
        container.get("securityContext") or {},
        f"{path}.securityContext",
        uses_host_users=spec.get("hostUsers") is not False,
    )


def check_whitespace(spec: Doc, path: str) -> Causes:
    """Yield an error for each image with surrounding whitespace. check_pod_spec accepts such images, as Kubernetes does
    in templates.
    """
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                yield make_invalid_error(f"{path}.{field}[{index}].image", image, detail)


def _check_ports(ports: Sequence[Doc], path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name") or ""
        if name:
            wrong = list(check_port_name(name, f"{here}.name"))
            yield from wrong
            if name in names and not wrong:
                yield make_duplicate_error(f"{here}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield make_required_error(f"{here}.containerPort")
        else:
            yield from check_port_number(port["containerPort"], f"{here}.containerPort")
        if port.get("hostPort"):
            yield from check_port_number(port["hostPort"], f"{here}.hostPort")
        yield from check_one_of(port.get("protocol"), f"{here}.protocol", ("SCTP", "TCP", "UDP"))


def _check_env(variables: Sequence[Doc], path: str, volumes: Mapping[str, Doc]) -> Causes:
    for index, variable in enumerate(variables):
        here, name = f"{path}[{index}]", variable.get("name") or ""
        if not name:
            yield make_required_error(f"{here}.name")
        else:
            yield from _check_variable_name(name, f"{here}.name")
        if variable.get("valueFrom") is not None:
            yield from _check_value_from(variable, f"{here}.valueFrom", volumes)


def _check_variable_name(name: str, path: str) -> Causes:
    if not name.isascii() or not name.isprintable() or "=" in name:
        detail = (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
        yield make_invalid_error(path, name, detail)


def _check_value_from(variable: Doc, path: str, volumes: Mapping[str, Doc]) -> Causes:
    source = variable["valueFrom"]
    if source.get("fieldRef") is not None:
        yield from check_field_ref(source["fieldRef"], f"{path}.fieldRef", IN_VARIABLES)
    if source.get("resourceFieldRef") is not None:
        yield from check_resource_ref(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for field in ("configMapKeyRef", "secretKeyRef"):
        if source.get(field) is not None:
            yield from _check_key_ref(source[field], f"{path}.{field}")
    if source.get("fileKeyRef") is not None:
        yield from _check_file_ref(source["fileKeyRef"], f"{path}.fileKeyRef", volumes)
    given = [field for field in source if source[field] is not None]
    if not given:
        options = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield make_invalid_error(path, "", options)
    elif variable.get("value"):
        yield make_invalid_error(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield make_invalid_error(path, "", "may not have more than one field specified at a time")


def _check_key_ref(reference: Doc, path: str) -> Causes:
    if not reference.get("key"):
        yield make_required_error(f"{path}.key")
    else:
        yield from check_config_key(reference["key"], f"{path}.key")


def _check_file_ref(reference: Doc, path: str, volumes: Mapping[str, Doc]) -> Causes:
    if not reference.get("key"):
        yield make_required_error(f"{path}.key")
    else:
        yield from _check_variable_name(reference["key"], f"{path}.key")
    if not reference.get("volumeName"):
        yield make_required_error(f"{path}.volumeName")
    else:
        yield from check_label(reference["volumeName"], f"{path}.volumeName")
        if reference["volumeName"] not in volumes:
            yield make_not_found_error(f"{path}.volumeName", reference["volumeName"])
    if not reference.get("path"):
        yield make_required_error(f"{path}.path")
    elif ".." in reference["path"].split("/"):
        yield make_invalid_error(f"{path}.path", reference["path"], "must not contain '..'")


def _check_env_from(sources: Sequence[Doc], path: str) -> Causes:
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            yield from _check_variable_name(source["prefix"], f"{here}.prefix")
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in given:
            if not source[field].get("name"):
                yield make_required_error(f"{here}.{field}.name")
        if not given:
            yield make_invalid_error(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield make_invalid_error(path, "", "may not have more than one field specified at a time")


_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_KNOWN_RESOURCES: Final = _STANDARD | frozenset(
    {
        "configmaps",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)


def collect_claim_names(spec: Doc) -> frozenset[str]:
    """Return the names of a pod's device claims, collected once for all its containers."""
    return frozenset(str(claim.get("name")) for claim in spec.get("resourceClaims") or ())


def check_claims(resources: Doc, path: str, names: Set[str]) -> Causes:
    """Yield an error for each device claim that has no name, or whose name is not one of the pod's claims `names`."""
    for index, claim in enumerate(resources.get("claims") or ()):
        if not claim.get("name"):
            yield make_required_error(f"{path}.claims[{index}].name")
        elif claim["name"] not in names:
            yield make_not_found_error(f"{path}.claims[{index}]", claim["name"])


def check_resources(resources: Doc, path: str) -> Causes:
    """Yield the errors of requests and limits of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource, amount in limits.items():
        yield from _check_resource_name(resource, f"{path}.limits[{resource}]")
        yield from check_amount(resource, amount, f"{path}.limits[{resource}]")
    for resource, amount in requests.items():
        yield from _check_resource_name(resource, f"{path}.requests[{resource}]")
        yield from check_amount(resource, amount, f"{path}.requests[{resource}]")
        yield from _check_against_limit(resource, amount, limits.get(resource), path)
    pages = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if pages and not {"cpu", "memory"} & {*limits, *requests}:
        yield make_forbidden_error(path, "HugePages require cpu or memory")


def _check_against_limit(resource: str, amount: str, limit: str | None, path: str) -> Causes:
    overcommits = _is_native(resource) and not resource.startswith("hugepages-")
    if limit is None:
        if not overcommits:
            yield make_required_error(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, most = parse_quantity(amount), parse_quantity(limit)
    if asked != most and not overcommits:
        yield make_invalid_error(f"{path}.requests", amount, f"must be equal to {resource} limit of {limit}")
    elif asked > most:
        detail = f"must be less than or equal to {resource} limit of {limit}"
        yield make_invalid_error(f"{path}.requests", amount, detail)


def _is_native(resource: str) -> bool:
    return "/" not in resource or "kubernetes.io/" in resource


def _check_resource_name(resource: str, path: str) -> Causes:
    wrong = is_qualified_name(resource)
    for message in wrong:
        yield make_invalid_shown_error(path, resource, message)
    if "/" not in resource:
        pages = resource.startswith("hugepages-")
        if not wrong and not pages and resource not in _KNOWN_RESOURCES:
            yield make_invalid_shown_error(
                path, resource, "must be a standard resource type or fully qualified"
            )
        if not pages and resource not in _STANDARD:
            yield make_invalid_shown_error(path, resource, "must be a standard resource for containers")
    elif not _is_native(resource) and resource.startswith("requests."):
        yield make_invalid_shown_error(path, resource, "doesn't follow extended resource name standard")


def check_amount(resource: str, amount: str, path: str) -> Causes:
    """Yield the errors of an amount of a resource: it must not be negative, and the amount of an extended resource
    must be an integer.
    """
    yield from check_quantity_not_negative(amount, path)
    if not _is_native(resource) and parse_quantity(amount).denominator != 1:
        yield make_invalid_error(path, amount, "must be an integer")


def _check_resize_policy(container: Doc, path: str, spec: Doc) -> Causes:
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            yield make_duplicate_error(f"{path}[{index}]", resource)
        seen.add(resource)
        if not resource:
            yield make_required_error(path)
        elif resource not in ("cpu", "memory"):
            yield make_not_supported_error(path, resource, ("cpu", "memory"), text=resource)
        yield from check_one_of(restart, path, ("NotRequired", "RestartContainer"))
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            yield make_invalid_error(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")


_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def check_lifecycle(
    container: Doc, path: str, *, os: Doc | None = None, grace: int | None = None, release: Release = NEWEST
) -> Causes:
    """Yield the errors of the hooks, stop signal and probes of a container. `os` and `grace`: `os` and
    `terminationGracePeriodSeconds` of its pod.
    """
    lifecycle = container.get("lifecycle") or {}
    if lifecycle.get("stopSignal") is not None:
        yield from _check_stop_signal(lifecycle["stopSignal"], f"{path}.lifecycle.stopSignal", os)
    for hook in ("postStart", "preStop"):
        if lifecycle.get(hook) is not None:
            yield from _check_handler(lifecycle[hook], f"{path}.lifecycle.{hook}")
            yield from _check_sleep(lifecycle[hook], f"{path}.lifecycle.{hook}.sleep", grace, release)
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(kind) is not None:
            yield from check_probe(container[kind], f"{path}.{kind}", kind)


def _check_stop_signal(signal: str, path: str, os: Doc | None) -> Causes:
    if os is None:
        yield make_forbidden_error(path, "may not be set for containers with empty `spec.os.name`")
    elif os.get("name") == "windows" and signal not in _WINDOWS_SIGNALS:
        yield make_not_supported_error(path, signal, _WINDOWS_SIGNALS)
    elif os.get("name") == "linux" and not _LINUX_SIGNAL.fullmatch(signal):
        yield make_not_supported_error(path, signal, ())


_WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")
_LINUX_SIGNAL: Final = re.compile(r"SIG[A-Z0-9]+|SIGRTM(IN(\+\d+)?|AX(-\d+)?)")


def check_probe(probe: Doc, path: str, kind: str) -> Causes:
    """Yield the errors of a defaulted probe; `kind` is the container's field that contains it."""
    yield from _check_handler(probe, path)
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from check_not_negative(probe.get(field), f"{path}.{field}")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield make_invalid_error(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            place = f"{path}.terminationGracePeriodSeconds"
            yield make_invalid_error(place, grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield make_invalid_error(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


def _check_handler(handler: Doc, path: str) -> Causes:
    given = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not given:
        yield make_required_error(path, "must specify a handler type")
    for kind in given[1:]:
        yield make_forbidden_error(f"{path}.{kind}", "may not specify more than 1 handler type")
    for kind in given[:1]:
        yield from _check_action(kind, handler[kind], f"{path}.{kind}")


def _check_sleep(hook: Doc, path: str, grace: int | None, release: Release) -> Causes:
    if grace is None or hook.get("sleep") is None:
        return
    least = 0 if release.is_at_least(_FIRST_WITH_SLEEP_0) else 1
    seconds = hook["sleep"].get("seconds") or 0
    if not least <= seconds <= grace:
        lower = "greater than 0" if least else "non-negative"
        detail = f"must be {lower} and less than terminationGracePeriodSeconds ({grace})"
        if release.minor == _WITH_GATE_OF_SLEEP_0:
            detail += ". Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        yield make_invalid_error(path, seconds, detail)


_FIRST_WITH_SLEEP_0: Final = "1.33"
_WITH_GATE_OF_SLEEP_0: Final = "1.32"


def _check_action(kind: str, action: Doc, path: str) -> Causes:
    match kind:
        case "exec":
            if not action.get("command"):
                yield make_required_error(f"{path}.command")
        case "httpGet":
            if not action.get("path"):
                yield make_required_error(f"{path}.path")
            yield from check_port(action.get("port", 0), f"{path}.port")
            scheme = action.get("scheme")
            if scheme not in ("HTTP", "HTTPS"):
                yield make_not_supported_error(f"{path}.scheme", scheme or "", ("HTTP", "HTTPS"))
            yield from check_http_head(action, path)
        case "tcpSocket" | "grpc":
            yield from check_port(action.get("port", 0), f"{path}.port")


def check_http_head(action: Doc, path: str) -> Causes:
    """Reject parts of an HTTP request that would end a line of its head. API servers accept such parts; kubelets reject
    or encode them.
    """
    if (host := str(action.get("host") or "")) and (flaw := flaw_of_host(host)):
        yield make_invalid_error(f"{path}.host", host, flaw)
    if flaw := flaw_of_value(str(action.get("path") or "")):
        yield make_invalid_error(f"{path}.path", action.get("path"), flaw)
    for index, header in enumerate(action.get("httpHeaders") or ()):
        place = f"{path}.httpHeaders[{index}]"
        name = str(header.get("name") or "")
        if flaw := flaw_of_name(name):
            yield make_invalid_error(f"{place}.name", name, flaw)
        if flaw := flaw_of_value(str(header.get("value") or "")):
            yield make_invalid_error(f"{place}.value", header.get("value"), flaw)
