"""What a pod's spec may hold: the checks of a pod and of a pod template, in the server's words and order.

    a defaulted spec ──▶ check_pod_spec(spec, path) ──▶ Causes

Everything here reads documents in canonical form (builtin_types.py) after defaulting, so absent means empty.
Pure. An API server has these rules for every pod; the sandbox's asks them, and so does admission before a
workload makes pods of its template. Those about Windows and device claims are left out.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.field_errors import (
    duplicate,
    forbidden,
    invalid,
    invalid_shown,
    not_found,
    not_supported,
    required,
)
from pykruise.kube.field_rules import (
    Causes,
    check_annotations,
    check_config_key,
    check_label,
    check_labels,
    check_not_negative,
    check_one_of,
    check_port,
    check_port_name,
    check_port_number,
    check_qualified_name,
    check_quantity_not_negative,
    check_selector,
    check_subdomain,
)
from pykruise.kube.quantities import parse_quantity
from pykruise.kube.validation_rules import is_dns1123_subdomain, is_qualified_name, is_valid_label_value

__all__ = [
    "check_ephemeral_container",
    "check_names",
    "check_pod_spec",
    "check_pod_template",
    "check_probe",
    "check_tolerations",
    "check_whitespace",
]

Doc = Mapping[str, Any]
_MAX_INT32: Final = 2**31 - 1


def check_pod_template(template: Doc, path: str) -> Causes:
    """A pod template: labels, annotations and spec."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from check_labels(metadata.get("labels"), f"{path}.labels")
    yield from check_annotations(metadata.get("annotations"), f"{path}.annotations")
    yield from check_pod_spec(spec, f"{path}.spec", is_pod=False)
    if spec.get("ephemeralContainers"):
        yield forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def check_pod_spec(spec: Doc, path: str, *, is_pod: bool = True, pod_name: str = "") -> Causes:
    """A pod spec; `is_pod` is False inside a template, where host ports may still be left out."""
    volumes: dict[str, Doc] = {}
    yield from _check_volumes(spec.get("volumes") or (), f"{path}.volumes", volumes, pod_name)
    yield from _check_containers(spec, volumes, path)
    yield from _check_init_containers(spec, volumes, path)
    yield from _check_ephemeral_containers(spec, volumes, path)
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
    yield from _check_pod_security(spec, path)
    yield from _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _check_dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        place = f"{path}.readinessGates[{index}].conditionType"
        yield from check_qualified_name(gate.get("conditionType") or "", place)
    yield from _check_scheduling_gates(spec, f"{path}.schedulingGates")
    yield from _check_spread(spec, f"{path}.topologySpreadConstraints")
    yield from check_names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        detail = f"must be between 1 and {_MAX_INT32}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", deadline, detail)
    yield from check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    yield from _check_host_aliases(spec, f"{path}.hostAliases")
    if "preemptionPolicy" in spec:
        yield from check_one_of(
            spec["preemptionPolicy"], f"{path}.preemptionPolicy", ("PreemptLowerPriority", "Never")
        )
    for resource, amount in (spec.get("overhead") or {}).items():
        yield from _check_amount(resource, amount, f"{path}.overhead[{resource}]")


def check_names(spec: Doc, path: str) -> Causes:
    """Names of other things in a pod spec, and its own host name."""
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


def _check_containers(spec: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    containers, place = spec.get("containers") or (), f"{path}.containers"
    if not containers:
        yield required(place)
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{place}[{index}]"
        yield from _check_container(container, volumes, here, spec)
        name = container.get("name") or ""
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        yield from _check_lifecycle(container, here)
        if container.get("restartPolicy") is not None:
            yield forbidden(f"{here}.restartPolicy", "may not be set for non-init containers")
    yield from _check_unique_host_ports(containers, place)


def _check_init_containers(spec: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    names = {container.get("name") or "" for container in spec.get("containers") or ()}
    place = f"{path}.initContainers"
    for index, container in enumerate(spec.get("initContainers") or ()):
        here = f"{place}[{index}]"
        yield from _check_container(container, volumes, here, spec)
        policy = container.get("restartPolicy")
        if policy is not None and policy != "Always":
            yield not_supported(f"{here}.restartPolicy", policy, ("Always",))
        name = container.get("name") or ""
        if name in names:
            yield duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        yield from _check_unique_host_ports([container], place)
        if policy == "Always":
            yield from _check_lifecycle(container, here)
            continue
        for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden(f"{here}.{field}", detail)


def _check_ephemeral_containers(spec: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    others = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        here = f"{path}.ephemeralContainers[{index}]"
        yield from check_ephemeral_container(container, here, volumes=volumes, spec=spec)
        name, target = container.get("name") or "", container.get("targetContainerName")
        if name in names:
            yield duplicate(f"{here}.name", name)
        names.add(name)
        if target and target not in others:
            yield not_found(f"{here}.targetContainerName", target)


def check_ephemeral_container(container: Doc, path: str, *, volumes: Mapping[str, Doc], spec: Doc) -> Causes:
    """One ephemeral container on its own, in a pod with this spec and these volumes."""
    yield from _check_container(container, volumes, path, spec)
    for field in _NOT_EPHEMERAL:
        if container.get(field):
            yield forbidden(f"{path}.{field}", "cannot be set for an Ephemeral Container")


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


def _check_container(container: Doc, volumes: Mapping[str, Doc], path: str, spec: Doc) -> Causes:
    name = container.get("name") or ""
    if name:
        yield from check_label(name, f"{path}.name")
    else:
        yield required(f"{path}.name")
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from check_one_of(
        container.get("terminationMessagePolicy"),
        f"{path}.terminationMessagePolicy",
        ("File", "FallbackToLogsOnError"),
    )
    yield from _check_ports(container.get("ports") or (), f"{path}.ports")
    yield from _check_env(container.get("env") or (), f"{path}.env")
    yield from _check_env_from(container.get("envFrom") or (), f"{path}.envFrom")
    yield from _check_mounts(container, volumes, path)
    yield from check_one_of(
        container.get("imagePullPolicy"), f"{path}.imagePullPolicy", ("Always", "IfNotPresent", "Never")
    )
    yield from check_resources(container.get("resources") or {}, f"{path}.resources")
    yield from _check_resize_policy(container, f"{path}.resizePolicy", spec)
    yield from _check_security(container.get("securityContext") or {}, f"{path}.securityContext")


def check_whitespace(spec: Doc, path: str) -> Causes:
    """Images with blanks around them, which only pods refuse (templates may always have had them)."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                detail = "must not have leading or trailing whitespace"
                yield invalid(f"{path}.{field}[{index}].image", image, detail)


def _check_ports(ports: Sequence[Doc], path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name") or ""
        if name:
            wrong = list(check_port_name(name, f"{here}.name"))
            yield from wrong
            if name in names and not wrong:
                yield duplicate(f"{here}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{here}.containerPort")
        else:
            yield from check_port_number(port["containerPort"], f"{here}.containerPort")
        if port.get("hostPort"):
            yield from check_port_number(port["hostPort"], f"{here}.hostPort")
        yield from check_one_of(port.get("protocol"), f"{here}.protocol", ("SCTP", "TCP", "UDP"))


def _check_unique_host_ports(containers: Iterable[Doc], path: str) -> Causes:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            taken.add(key)


def _check_host_ports_match(spec: Doc, path: str, *, is_pod: bool) -> Causes:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort", 0)
            if (is_pod or host_port) and host_port != port.get("containerPort"):
                place = f"{path}.containers[{index}].ports[{position}].hostPort"
                yield invalid(place, host_port, "must match `containerPort` when `hostNetwork` is true")


# --- environment ---

_FIELD_PATHS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OTHER_POD_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
_RESOURCE_FIELDS: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def _check_env(variables: Sequence[Doc], path: str) -> Causes:
    for index, variable in enumerate(variables):
        here, name = f"{path}[{index}]", variable.get("name") or ""
        if not name:
            yield required(f"{here}.name")
        else:
            yield from _check_variable_name(name, f"{here}.name")
        if variable.get("valueFrom") is not None:
            yield from _check_value_from(variable, f"{here}.valueFrom")


def _check_variable_name(name: str, path: str) -> Causes:
    if not name.isascii() or not name.isprintable() or "=" in name:
        detail = (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
        yield invalid(path, name, detail)


def _check_value_from(variable: Doc, path: str) -> Causes:
    source = variable["valueFrom"]
    if source.get("fieldRef") is not None:
        yield from _check_field_ref(source["fieldRef"], f"{path}.fieldRef")
    if source.get("resourceFieldRef") is not None:
        resource = source["resourceFieldRef"].get("resource") or ""
        place = f"{path}.resourceFieldRef.resource"
        if not resource:
            yield required(place)
        elif resource not in _RESOURCE_FIELDS and ".hugepages-" not in resource:
            yield not_supported(place, resource, _RESOURCE_FIELDS)
    for field in ("configMapKeyRef", "secretKeyRef"):
        if source.get(field) is not None:
            yield from _check_key_ref(source[field], f"{path}.{field}")
    given = [field for field in source if source[field] is not None]
    if not given:
        options = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(path, "", options)
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _check_field_ref(reference: Doc, path: str) -> Causes:
    field_path = reference.get("fieldPath") or ""
    if not reference.get("apiVersion"):
        yield required(f"{path}.apiVersion")
        return
    if not field_path:
        yield required(f"{path}.fieldPath")
        return
    subscripted = re.fullmatch(r"(metadata\.(?:labels|annotations))\['(.*)'\]", field_path)
    if subscripted:
        key = subscripted[2] if subscripted[1].endswith("labels") else subscripted[2].lower()
        for message in is_qualified_name(key):
            yield invalid(path, subscripted[2], message)
    elif field_path in _OTHER_POD_FIELDS:
        yield not_supported(f"{path}.fieldPath", field_path, _FIELD_PATHS)
    elif field_path not in _FIELD_PATHS:
        detail = f"error converting fieldPath: field label not supported: {field_path}"
        yield invalid(f"{path}.fieldPath", field_path, detail)


def _check_key_ref(reference: Doc, path: str) -> Causes:
    if not reference.get("key"):
        yield required(f"{path}.key")
    else:
        yield from check_config_key(reference["key"], f"{path}.key")


def _check_env_from(sources: Sequence[Doc], path: str) -> Causes:
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            yield from _check_variable_name(source["prefix"], f"{here}.prefix")
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in given:
            if not source[field].get("name"):
                yield required(f"{here}.{field}.name")
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


# --- resources ---

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


def check_resources(resources: Doc, path: str) -> Causes:
    """Requests and limits of a container."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource, amount in limits.items():
        yield from _check_resource_name(resource, f"{path}.limits[{resource}]")
        yield from _check_amount(resource, amount, f"{path}.limits[{resource}]")
    for resource, amount in requests.items():
        yield from _check_resource_name(resource, f"{path}.requests[{resource}]")
        yield from _check_amount(resource, amount, f"{path}.requests[{resource}]")
        yield from _check_against_limit(resource, amount, limits.get(resource), path)
    pages = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if pages and not {"cpu", "memory"} & {*limits, *requests}:
        yield forbidden(path, "HugePages require cpu or memory")


def _check_against_limit(resource: str, amount: str, limit: str | None, path: str) -> Causes:
    overcommits = _is_native(resource) and not resource.startswith("hugepages-")
    if limit is None:
        if not overcommits:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, most = parse_quantity(amount), parse_quantity(limit)
    if asked != most and not overcommits:
        yield invalid(f"{path}.requests", amount, f"must be equal to {resource} limit of {limit}")
    elif asked > most:
        detail = f"must be less than or equal to {resource} limit of {limit}"
        yield invalid(f"{path}.requests", amount, detail)


def _is_native(resource: str) -> bool:
    return "/" not in resource or "kubernetes.io/" in resource


def _check_resource_name(resource: str, path: str) -> Causes:
    wrong = is_qualified_name(resource)
    for message in wrong:
        yield invalid_shown(path, resource, message)
    if "/" not in resource:
        pages = resource.startswith("hugepages-")
        if not wrong and not pages and resource not in _KNOWN_RESOURCES:
            yield invalid_shown(path, resource, "must be a standard resource type or fully qualified")
        if not pages and resource not in _STANDARD:
            yield invalid_shown(path, resource, "must be a standard resource for containers")
    elif not _is_native(resource) and resource.startswith("requests."):
        yield invalid_shown(path, resource, "doesn't follow extended resource name standard")


def _check_amount(resource: str, amount: str, path: str) -> Causes:
    yield from check_quantity_not_negative(amount, path)
    if not _is_native(resource) and parse_quantity(amount).denominator != 1:
        yield invalid(path, amount, "must be an integer")


def _check_resize_policy(container: Doc, path: str, spec: Doc) -> Causes:
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            yield duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        if not resource:
            yield required(path)
        elif resource not in ("cpu", "memory"):
            yield not_supported(path, resource, ("cpu", "memory"), text=resource)
        yield from check_one_of(restart, path, ("NotRequired", "RestartContainer"))
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")


# --- volumes and mounts ---


def _check_volumes(volumes: Sequence[Doc], path: str, usable: dict[str, Doc], pod_name: str) -> Causes:
    """Checks all volumes, and puts those without fault into `usable` for the mounts."""
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        found = list(_check_volume_source(volume, here))
        found += [required(f"{here}.name")] if not name else check_label(name, f"{here}.name")
        if name in usable:
            found.append(duplicate(f"{here}.name", name))
        if found:
            yield from found
        else:
            usable[name] = volume
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if "ephemeral" in volume and pod_name}
    for index, volume in enumerate(volumes):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{path}[{index}].persistentVolumeClaim.claimName", claim, detail)


def _check_volume_source(volume: Doc, path: str) -> Causes:
    sources = [field for field in volume if field != "name" and volume[field] is not None]
    if not sources:
        yield required(path, "must specify a volume type")
        return
    first = min(sources, key=_SOURCE_ORDER.index) if set(sources) <= set(_SOURCE_ORDER) else sources[0]
    for source in sources:
        if source != first:
            yield forbidden(f"{path}.{source}", "may not specify more than 1 volume type")
            continue
        for field in _REQUIRED_OF_SOURCE.get(source, ()):
            if not volume[source].get(field):
                yield required(f"{path}.{source}.{field}")
        yield from _check_source_details(source, volume[source], f"{path}.{source}")


def _check_source_details(source: str, value: Doc, path: str) -> Causes:
    mode = value.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        yield invalid(f"{path}.defaultMode", mode, detail)
    if source == "emptyDir" and value.get("sizeLimit") and parse_quantity(value["sizeLimit"]) < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    if source == "hostPath":
        yield from _check_no_backsteps(value.get("path") or "", f"{path}.path")
        if value.get("type"):
            yield from check_one_of(value["type"], f"{path}.type", _HOST_PATH_TYPES)
    if source in ("secret", "configMap"):
        for index, item in enumerate(value.get("items") or ()):
            for field in ("key", "path"):
                if not item.get(field):
                    yield required(f"{path}.items[{index}].{field}")
    if source == "nfs" and not (value.get("path") or "").startswith("/"):
        yield invalid(f"{path}.path", value.get("path") or "", "must be an absolute path")


_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_SOURCE_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_REQUIRED_OF_SOURCE: Final[Mapping[str, Sequence[str]]] = {
    "configMap": ("name",),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "gitRepo": ("repository",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}


def _check_no_backsteps(value: str, path: str) -> Causes:
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def _check_descending(value: str, path: str) -> Causes:
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from _check_no_backsteps(value, path)


def _check_mounts(container: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    devices = container.get("volumeDevices") or ()
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, where = (
            f"{path}.volumeMounts[{index}]",
            mount.get("name") or "",
            mount.get("mountPath") or "",
        )
        if not name:
            yield required(f"{here}.name")
        if name not in volumes:
            yield not_found(f"{here}.name", name)
        if not where:
            yield required(f"{here}.mountPath")
        if where in mount_paths:
            yield invalid(f"{here}.mountPath", where, "must be unique")
        mount_paths.add(where)
        if where and where in device_paths:
            yield invalid(f"{here}.mountPath", where, "must not already exist as a path in volumeDevices")
        if name in device_names:
            yield invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if mount.get("subPath"):
            yield from _check_descending(mount["subPath"], f"{path}.volumeMounts.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield invalid(f"{here}.subPathExpr", mount["subPathExpr"], detail)
            yield from _check_descending(mount["subPathExpr"], f"{path}.volumeMounts.subPathExpr")
    seen: set[str] = set()
    for index, device in enumerate(devices):
        here, name = f"{path}.volumeDevices[{index}]", device.get("name") or ""
        place = device.get("devicePath") or ""
        if not name:
            yield required(f"{here}.name")
        if name not in volumes:
            yield not_found(f"{here}.name", name)
        elif "persistentVolumeClaim" not in volumes[name] and "ephemeral" not in volumes[name]:
            yield invalid(
                f"{here}.name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        if not place:
            yield required(f"{here}.devicePath")
        elif place in seen:
            yield invalid(f"{here}.devicePath", place, "must be unique")
        elif place in mount_paths:
            yield invalid(f"{here}.devicePath", place, "must not already exist as a path in volumeMounts")
        seen.add(place)


# --- probes and hooks ---

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _check_lifecycle(container: Doc, path: str) -> Causes:
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if lifecycle.get(hook) is not None:
            yield from _check_handler(lifecycle[hook], f"{path}.lifecycle.{hook}")
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(kind) is not None:
            yield from check_probe(container[kind], f"{path}.{kind}", kind)


def check_probe(probe: Doc, path: str, kind: str) -> Causes:
    """Rules for a probe with its defaults; `kind` is the field of the container that it is in."""
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
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            place = f"{path}.terminationGracePeriodSeconds"
            yield invalid(place, grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


def _check_handler(handler: Doc, path: str) -> Causes:
    given = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not given:
        yield required(path, "must specify a handler type")
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    for kind in given[:1]:
        yield from _check_action(kind, handler[kind], f"{path}.{kind}")


def _check_action(kind: str, action: Doc, path: str) -> Causes:
    match kind:
        case "exec":
            if not action.get("command"):
                yield required(f"{path}.command")
        case "httpGet":
            if not action.get("path"):
                yield required(f"{path}.path")
            yield from check_port(action.get("port", 0), f"{path}.port")
            scheme = action.get("scheme")
            if scheme not in ("HTTP", "HTTPS"):
                yield not_supported(f"{path}.scheme", scheme or "", ("HTTP", "HTTPS"))
        case "tcpSocket" | "grpc":
            yield from check_port(action.get("port", 0), f"{path}.port")


# --- security, scheduling, names ---

_TOO_LOW_ID: Final = f"must be between 0 and {_MAX_INT32}, inclusive"


def _check_ids(context: Doc, path: str) -> Causes:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= _MAX_INT32:
            yield invalid(f"{path}.{field}", value, _TOO_LOW_ID)


def _check_pod_security(spec: Doc, path: str) -> Causes:
    context, place = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from _check_ids(context, place)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_INT32:
            yield invalid(f"{place}.supplementalGroups[{index}]", group, _TOO_LOW_ID)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{place}.shareProcessNamespace", True, detail)


def _check_security(context: Doc, path: str) -> Causes:
    yield from _check_ids(context, path)
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, detail)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, detail)


def _check_affinity(affinity: Doc, path: str) -> Causes:
    node = affinity.get("nodeAffinity") or {}
    must = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if must is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = must.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(place, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _check_node_term(term, f"{place}[{index}]")
    for index, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        place = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        yield from _check_weight(preferred, place)
        yield from _check_node_term(preferred.get("preference") or {}, f"{place}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        hard, soft = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        for index, term in enumerate(rules.get(hard) or ()):
            yield from _check_pod_term(term, f"{path}.{kind}.{hard}[{index}]")
        for index, preferred in enumerate(rules.get(soft) or ()):
            place = f"{path}.{kind}.{soft}[{index}]"
            yield from _check_weight(preferred, place)
            yield from _check_pod_term(preferred.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")


def _check_weight(preferred: Doc, path: str) -> Causes:
    if not 1 <= preferred.get("weight", 0) <= 100:
        yield invalid(f"{path}.weight", preferred.get("weight", 0), "must be in the range 1-100")


def _check_node_term(term: Doc, path: str) -> Causes:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _check_node_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _check_node_requirement(requirement: Doc, path: str) -> Causes:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{path}.values", detail)
        case _:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_qualified_name(requirement.get("key") or "", f"{path}.key")


def _check_pod_term(term: Doc, path: str) -> Causes:
    yield from check_selector(term.get("labelSelector"), f"{path}.labelSelector")
    for index, namespace in enumerate(term.get("namespaces") or ()):
        yield from check_label(namespace, f"{path}.namespace[{index}]")
    if not term.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from check_qualified_name(term.get("topologyKey") or "", f"{path}.topologyKey")


def _check_spread(spec: Doc, path: str) -> Causes:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        here = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield invalid(f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        else:
            yield from check_qualified_name(key, f"{here}.topologyKey")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            place = f"{here}.whenUnsatisfiable"
            yield not_supported(place, action, ("DoNotSchedule", "ScheduleAnyway"))
        if (key, action) in seen:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        seen.add((key, action))
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            yield invalid(f"{here}.minDomains", least, "must be greater than zero")
        yield from check_selector(constraint.get("labelSelector"), f"{here}.labelSelector")


def check_tolerations(tolerations: Sequence[Doc], path: str) -> Causes:
    """Tolerations of a pod."""
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            yield from check_qualified_name(key, f"{here}.key")
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield invalid(f"{here}.operator", operator, detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{here}.effect", effect, detail)
        if operator in ("", "Equal"):
            wrong = is_valid_label_value(value)
            if wrong:
                yield invalid(f"{here}.operator", value, ";".join(wrong))
        elif operator == "Exists":
            if value:
                yield invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            yield not_supported(f"{here}.operator", operator, ("Equal", "Exists"))
        yield from check_one_of(
            effect, f"{here}.effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"), needed=False
        )


def _check_scheduling_gates(spec: Doc, path: str) -> Causes:
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        yield from check_qualified_name(name, f"{path}[{index}]")
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _check_dns(spec: Doc, path: str) -> Causes:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", detail)
            return
    servers = (config or {}).get("nameservers") or ()
    if len(servers) > 3:
        yield invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        yield from _check_ip(server, f"{path}.nameservers[{index}]")
    for index, search in enumerate((config or {}).get("searches") or ()):
        for message in is_dns1123_subdomain(search.removesuffix(".")):
            yield invalid(f"{path}.searches[{index}]", search.removesuffix("."), message)


def _check_ip(value: str, path: str) -> Causes:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")


def _check_host_aliases(spec: Doc, path: str) -> Causes:
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from _check_ip(alias.get("ip") or "", f"{path}[{index}].ip")
        for position, name in enumerate(alias.get("hostnames") or ()):
            yield from check_subdomain(name, f"{path}[{index}].hostnames[{position}]")
