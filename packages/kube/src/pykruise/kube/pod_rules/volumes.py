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
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_label,
    check_one_of,
)
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
    mode = value.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        yield make_invalid_error(f"{path}.defaultMode", mode, detail)
    if source == "emptyDir" and value.get("sizeLimit") and parse_quantity(value["sizeLimit"]) < 0:
        yield make_forbidden_error(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    if source == "hostPath":
        yield from _check_no_backsteps(value.get("path") or "", f"{path}.path")
        if value.get("type"):
            yield from check_one_of(value["type"], f"{path}.type", _HOST_PATH_TYPES)
    if source in ("secret", "configMap"):
        for index, item in enumerate(value.get("items") or ()):
            for field in ("key", "path"):
                if not item.get(field):
                    yield make_required_error(f"{path}.items[{index}].{field}")
    if source == "nfs" and not (value.get("path") or "").startswith("/"):
        yield make_invalid_error(f"{path}.path", value.get("path") or "", "must be an absolute path")


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


def _check_no_backsteps(value: str, path: str) -> Causes:
    if ".." in value.split("/"):
        yield make_invalid_error(path, value, "must not contain '..'")


def _check_descending(value: str, path: str) -> Causes:
    if value.startswith("/"):
        yield make_invalid_error(path, value, "must be a relative path")
    yield from _check_no_backsteps(value, path)


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
            yield from _check_descending(mount["subPath"], f"{path}.volumeMounts.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                detail = "subPathExpr and subPath are mutually exclusive"
                yield make_invalid_error(f"{here}.subPathExpr", mount["subPathExpr"], detail)
            yield from _check_descending(mount["subPathExpr"], f"{path}.volumeMounts.subPathExpr")
    seen: set[str] = set()
    for index, device in enumerate(devices):
        here, name = f"{path}.volumeDevices[{index}]", device.get("name") or ""
        place = device.get("devicePath") or ""
        if not name:
            yield make_required_error(f"{here}.name")
        if name not in volumes:
            yield make_not_found_error(f"{here}.name", name)
        elif "persistentVolumeClaim" not in volumes[name] and "ephemeral" not in volumes[name]:
            yield make_invalid_error(
                f"{here}.name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        if not place:
            yield make_required_error(f"{here}.devicePath")
        elif place in seen:
            yield make_invalid_error(f"{here}.devicePath", place, "must be unique")
        elif place in mount_paths:
            yield make_invalid_error(
                f"{here}.devicePath", place, "must not already exist as a path in volumeMounts"
            )
        seen.add(place)
