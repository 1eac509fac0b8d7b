"""Validation of a pod's volumes, and of the places where containers mount them.

    volumes ──▶ check_volumes() ──▶ Causes, and the volumes by name;   mounts, volumes ──▶ check_mounts() ──▶ Causes

Pure; pods.py and containers.py call these checks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_found_error,
    make_not_supported_error,
    make_required_error,
    make_too_long_error,
)
from pykruise.kube.pod_rules.field_references import IN_FILES, check_field_ref, check_resource_ref
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_label,
    check_one_of,
    check_subdomain,
)
from pykruise.kube.pod_rules.file_paths import (
    check_descending,
    check_file_path,
    check_mode,
    check_no_backsteps,
)
from pykruise.kube.pod_rules.names import is_dns1123_subdomain
from pykruise.kube.values.quantities import parse_quantity

__all__ = ["check_mounts", "check_volumes"]

Doc = Mapping[str, Any]


def check_volumes(volumes: Sequence[Doc], path: str, usable: dict[str, Doc], pod_name: str) -> Causes:
    """Yield the errors of all volumes, and add the valid ones to `usable` for the mounts."""
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name") or ""
        causes = list(_check_volume_source(volume, here))
        causes += [make_required_error(f"{here}.name")] if not name else check_label(name, f"{here}.name")
        if name in usable:
            causes.append(make_duplicate_error(f"{here}.name", name))
        if causes:
            yield from causes
        else:
            usable[name] = volume
    made = {f"{pod_name}-{volume.get('name')}" for volume in volumes if "ephemeral" in volume and pod_name}
    for index, volume in enumerate(volumes):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield make_invalid_error(f"{path}[{index}].persistentVolumeClaim.claimName", claim, detail)


def _check_volume_source(volume: Doc, path: str) -> Causes:
    sources = [field for field in volume if field != "name" and volume[field] is not None]
    if not sources:
        yield make_required_error(path, "must specify a volume type")
        return
    first = min(sources, key=_SOURCE_ORDER.index) if set(sources) <= set(_SOURCE_ORDER) else sources[0]
    for source in sources:
        if source != first:
            yield make_forbidden_error(f"{path}.{source}", "may not specify more than 1 volume type")
            continue
        for field in _REQUIRED_OF_SOURCE.get(source, ()):
            if not volume[source].get(field):
                yield make_required_error(f"{path}.{source}.{field}")
        yield from _check_source_details(source, volume[source], f"{path}.{source}")


def _check_source_details(source: str, value: Doc, path: str) -> Causes:
    yield from check_mode(value.get("defaultMode"), f"{path}.defaultMode")
    if source == "emptyDir" and value.get("sizeLimit") and parse_quantity(value["sizeLimit"]) < 0:
        yield make_forbidden_error(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    if source == "hostPath":
        yield from check_no_backsteps(value.get("path") or "", f"{path}.path")
        if value.get("type"):
            yield from check_one_of(value["type"], f"{path}.type", _HOST_PATH_TYPES)
    if source in ("secret", "configMap"):
        for index, item in enumerate(value.get("items") or ()):
            yield from _check_item(item, f"{path}.items[{index}]")
    if source == "downwardAPI":
        for item in value.get("items") or ():
            yield from _check_field_file(item, path)
    if source == "projected":
        yield from _check_projections(value.get("sources") or (), path)
    if source == "csi":
        yield from _check_csi(value, path)
    if source == "nfs" and not (value.get("path") or "").startswith("/"):
        yield make_invalid_error(f"{path}.path", value.get("path") or "", "must be an absolute path")


def _check_item(item: Doc, path: str) -> Causes:
    """Yield the errors of an entry of a ConfigMap or Secret, and of the file with its value."""
    if not item.get("key"):
        yield make_required_error(f"{path}.key")
    yield from check_file_path(item.get("path") or "", f"{path}.path")
    yield from check_mode(item.get("mode"), f"{path}.mode")


def _check_field_file(item: Doc, path: str) -> Causes:
    """Yield the errors of a file with the value of a field. As in Kubernetes, `path` is that of the volume."""
    yield from check_file_path(item.get("path") or "", f"{path}.path")
    if item.get("fieldRef") is not None:
        yield from check_field_ref(item["fieldRef"], f"{path}.fieldRef", IN_FILES)
        if item.get("resourceFieldRef") is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield make_invalid_error(path, "resource", detail)
    elif item.get("resourceFieldRef") is not None:
        place = f"{path}.resourceFieldRef"
        yield from check_resource_ref(item["resourceFieldRef"], place, needs_container=True)
    else:
        yield make_required_error(path, "one of fieldRef and resourceFieldRef is required")
    yield from check_mode(item.get("mode"), f"{path}.mode")


_PROJECTIONS: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_LEAST_TOKEN_S: Final = 600
_MOST_TOKEN_S: Final = 2**32


def _check_projections(sources: Sequence[Doc], path: str) -> Causes:
    """Yield the errors of the sources of a projected volume. The names of their files must differ. Trust bundles and
    pod certificates are not checked.
    """
    files: set[str] = set()
    for index, source in enumerate(sources):
        here = f"{path}.sources[{index}]"
        given = [kind for kind in _PROJECTIONS if source.get(kind) is not None]
        for kind in given:
            yield from _check_projection(kind, source[kind], f"{here}.{kind}", path)
            for item in source[kind].get("items") or ():
                if (file := item.get("path")) in files:
                    shown = file if kind == "downwardAPI" else source[kind].get("name") or ""
                    yield make_invalid_error(path, shown, "conflicting duplicate paths")
                elif file:
                    files.add(file)
        if len(given) > 1:
            yield make_forbidden_error(here, "may not specify more than 1 volume type per source")


def _check_projection(kind: str, source: Doc, path: str, volume: str) -> Causes:
    if kind in ("secret", "configMap"):
        if not source.get("name"):
            yield make_required_error(f"{path}.name")
        for index, item in enumerate(source.get("items") or ()):
            yield from _check_item(item, f"{path}.items[{index}]")
    elif kind == "downwardAPI":
        for item in source.get("items") or ():
            yield from _check_field_file(item, path)
    elif kind == "serviceAccountToken":
        seconds, place = source.get("expirationSeconds"), f"{path}.expirationSeconds"
        if seconds is None:
            yield make_required_error(place)
        elif seconds < _LEAST_TOKEN_S:
            yield make_invalid_error(place, seconds, "may not specify a duration less than 10 minutes")
        elif seconds > _MOST_TOKEN_S:
            yield make_invalid_error(place, seconds, "may not specify a duration larger than 2^32 seconds")
        yield from check_file_path(source.get("path") or "", f"{volume}.path")  # as in Kubernetes


_LONGEST_DRIVER: Final = 63


def _check_csi(source: Doc, path: str) -> Causes:
    if driver := source.get("driver") or "":
        if len(driver) > _LONGEST_DRIVER:
            yield make_too_long_error(f"{path}.driver", _LONGEST_DRIVER)
        for message in is_dns1123_subdomain(driver.lower()):
            yield make_invalid_error(f"{path}.driver", driver, message)
    if source.get("nodePublishSecretRef") is None:
        return
    if name := source["nodePublishSecretRef"].get("name") or "":
        yield from check_subdomain(name, f"{path}.name")  # as in Kubernetes
    else:
        yield make_required_error(f"{path}.nodePublishSecretRef.name")


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
    "image": ("reference",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}


def check_mounts(container: Doc, volumes: Mapping[str, Doc], path: str) -> Causes:
    """Yield an error for each mount or device of a container that refers to no volume of the pod."""
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
            yield make_required_error(f"{here}.name")
        if name not in volumes:
            yield make_not_found_error(f"{here}.name", name)
        if not where:
            yield make_required_error(f"{here}.mountPath")
        if where in mount_paths:
            yield make_invalid_error(f"{here}.mountPath", where, "must be unique")
        mount_paths.add(where)
        if where and where in device_paths:
            yield make_invalid_error(
                f"{here}.mountPath", where, "must not already exist as a path in volumeDevices"
            )
        if name in device_names:
            yield make_invalid_error(f"{here}.name", name, "must not already exist in volumeDevices")
        if mount.get("subPath"):
            yield from check_descending(mount["subPath"], f"{path}.volumeMounts.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield make_invalid_error(f"{here}.subPathExpr", mount["subPathExpr"], detail)
            yield from check_descending(mount["subPathExpr"], f"{path}.volumeMounts.subPathExpr")
        yield from _check_propagation(mount, container, f"{path}.volumeMounts.mountPropagation")
        yield from _check_recursive(mount, f"{path}.volumeMounts.recursiveReadOnly")
    mount_names = {mount.get("name") for mount in container.get("volumeMounts") or ()}
    seen: set[str] = set()
    seen_names: set[str] = set()
    for index, device in enumerate(devices):
        here, name = f"{path}.volumeDevices[{index}]", device.get("name") or ""
        place = device.get("devicePath") or ""
        if not name:
            yield make_required_error(f"{here}.name")
        elif name in seen_names:
            yield make_invalid_error(f"{here}.name", name, "must be unique")
        seen_names.add(name)
        if name not in volumes:
            yield make_not_found_error(f"{here}.name", name)
        elif "persistentVolumeClaim" not in volumes[name] and "ephemeral" not in volumes[name]:
            yield make_invalid_error(
                f"{here}.name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        if name and name in mount_names:
            yield make_invalid_error(f"{here}.name", name, "must not already exist in volumeMounts")
        if not place:
            yield make_required_error(f"{here}.devicePath")
        elif ".." in place.split("/"):
            yield make_invalid_error(f"{here}.devicePath", place, "can not contain backsteps ('..')")
        elif place in seen:
            yield make_invalid_error(f"{here}.devicePath", place, "must be unique")
        elif place in mount_paths:
            yield make_invalid_error(
                f"{here}.devicePath", place, "must not already exist as a path in volumeMounts"
            )
        seen.add(place)


_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")


def _check_propagation(mount: Doc, container: Doc, path: str) -> Causes:
    """Yield the errors of `mountPropagation`. As in Kubernetes, `path` has no index."""
    value = mount.get("mountPropagation")
    if value is None:
        return
    if value not in _PROPAGATIONS:
        yield make_not_supported_error(path, value, _PROPAGATIONS)
    if value == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield make_forbidden_error(path, detail)


def _check_recursive(mount: Doc, path: str) -> Causes:
    """Yield the errors of `recursiveReadOnly`. As in Kubernetes, `path` has no index."""
    value = mount.get("recursiveReadOnly")
    if value is None or value == "Disabled":
        return
    if value not in _RECURSIONS:
        yield make_not_supported_error(path, value, _RECURSIONS)
        return
    if not mount.get("readOnly"):
        yield make_forbidden_error(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        detail = "may only be specified when mountPropagation is None or not specified"
        yield make_forbidden_error(path, detail)
