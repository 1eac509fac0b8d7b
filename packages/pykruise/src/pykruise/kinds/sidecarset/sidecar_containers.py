"""Builds sidecars for one pod: environment, mounts, devices and resources come from the pod's own containers.

sidecar + PodSource ──▶ build() ──▶ Built (one container, or the two of a hot sidecar, with their volumes)

Pure. Only the pod as its author wrote it is read, with the annotations of patchPodMetadata. The arguments are not
changed. The result shares data with the arguments, so callers must not change either.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.resource_policies import SidecarAmountError, compute_resources
from pykruise.kinds.sidecarset.sidecar_contents import Sidecar, SidecarSetContents, name_hot_pair
from pykruise.kinds.sidecarset.types import ResourcesPolicy, SharePolicy, TransferEnv
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.pods.view import keys

INJECTED: Final = "IS_INJECTED"
"""Environment variable of every injected container."""

ENABLED: Final = "enabled"

_REFERENCE: Final = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class PodSource(msgspec.Struct, frozen=True, kw_only=True):
    """The pod as its author wrote it, with the annotations of patchPodMetadata, read once for all sidecars."""

    pod: Document
    own: tuple[Document, ...]
    """The pod's containers, without injected containers."""
    sidecars: frozenset[str]
    """Names of all sidecars that this pod gets."""
    mounts: tuple[Document, ...] = ()
    """Volume mounts of the pod's own containers, for sidecars that share these mounts."""
    mount_variables: tuple[Document, ...] = ()
    """Environment variables that the subPathExpr of these mounts refers to."""
    variables: Mapping[str | None, Mapping[str, Document]] = {}
    """Environment variables by name, for each container. If a container has several variables with the same name, the
    last is used, as by the kubelet.
    """

    def count_taken(self, sidecar: Sidecar) -> int:
        """Number of the pod's containers, mounts, devices and variables that the sidecar copies or evaluates."""
        fields, count = sidecar.fields, 0
        if _is_enabled(fields.share_volume_policy):
            count += len(self.mounts) + len(self.mount_variables)
        if _is_enabled(fields.share_volume_device_policy):
            count += sum(len(entry.get("volumeDevices") or ()) for entry in self.own)
        if fields.resources_policy is not None:
            count += len(self.variables)
        return count


def build_pod_source(pod: Document, *, contents: Iterable[SidecarSetContents]) -> PodSource:
    """Collect the parts that sidecars copy from a pod that receives `contents`."""
    containers: list[Document] = (pod.get("spec") or {}).get("containers") or []
    sidecars = [side for content in contents for side in (*content.init_containers, *content.containers)]
    own = tuple(container for container in containers if not _is_injected(container))
    is_shared = any(_is_enabled(sidecar.fields.share_volume_policy) for sidecar in sidecars)
    mounts, variables = _find_shared_mounts(own) if is_shared else ([], [])
    return PodSource(
        pod=pod,
        own=own,
        mounts=tuple(mounts),
        mount_variables=tuple(variables),
        variables={
            str(container.get("name")): _index_variables(container.get("env") or ())
            for container in containers
        },
        sidecars=frozenset(sidecar.name for sidecar in sidecars),
    )


def _is_injected(container: Mapping[str, Any]) -> bool:
    return any(
        variable.get("name") == INJECTED and variable.get("value") == "true"
        for variable in container.get("env") or ()
    )


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that one sidecar adds to a pod."""

    sidecar: Sidecar
    containers: tuple[Document, ...]
    volumes: tuple[str, ...] = ()
    """Names of the SidecarSet's volumes that the sidecar uses."""
    annotations: Mapping[str, str] = {}
    working: str = ""
    """Name of the container that works until the first upgrade of a hot sidecar; empty: the sidecar is not hot."""


def build(sidecar: Sidecar, contents: SidecarSetContents, source: PodSource) -> Built:
    """Build the sidecar for this pod. Raises InjectionError."""
    fields = sidecar.fields
    container: Document = dict(sidecar.container)
    if fields.resources_policy is not None:
        container["resources"] = _compute_resources(sidecar, source, fields.resources_policy)
    extra = [
        result for item in fields.transfer_env or () for result in _list_transferred_variables(item, source)
    ]
    mounts: list[Document] = list(container.get("volumeMounts") or ())
    devices: list[Document] = list(container.get("volumeDevices") or ())
    used = [str(mount.get("name")) for mount in (*mounts, *devices)]
    if _is_enabled(fields.share_volume_policy):
        mounts = _add_shared(mounts, source.mounts, "mountPath", taken=_list_paths(devices, "devicePath"))
        extra += source.mount_variables
    if _is_enabled(fields.share_volume_device_policy):
        shared = (device for entry in source.own for device in entry.get("volumeDevices") or ())
        devices = _add_shared(devices, shared, "devicePath", taken=_list_paths(mounts, "mountPath"))
    container["env"] = _build_environment(container.get("env") or (), extra)
    for field, entries in (("volumeMounts", mounts), ("volumeDevices", devices)):
        if entries:
            container[field] = entries
    volumes = tuple(name for name in dict.fromkeys(used) if name in contents.volumes)
    if sidecar.is_hot:
        return _build_hot_pair(sidecar, container, volumes)
    return Built(sidecar=sidecar, containers=(container,), volumes=volumes)


def _is_enabled(policy: SharePolicy | None) -> bool:
    return policy is not None and policy.type == ENABLED


def _compute_resources(sidecar: Sidecar, source: PodSource, policy: ResourcesPolicy) -> Document:
    claims = (sidecar.container.get("resources") or {}).get("claims")
    try:
        return compute_resources(
            source.pod.get("spec") or {}, policy, sidecars=source.sidecars, claims=claims
        )
    except SidecarAmountError as error:
        raise InjectionError(f"resourcesPolicy of container {sidecar.name}: {error}") from error


# Environment


def _build_environment(own: Iterable[Document], extra: Iterable[Document]) -> list[Document]:
    """The sidecar's own variables first; they override other variables of the same name."""
    environment = [entry for entry in own if entry.get("name") != INJECTED]
    environment.append({"name": INJECTED, "value": "true"})
    names = {entry.get("name") for entry in environment}
    return [*environment, *(entry for entry in first_of_each(extra) if entry.get("name") not in names)]


def first_of_each(entries: Iterable[Document]) -> list[Document]:
    """The first entry of each name, in the order of the entries."""
    result: dict[Any, Document] = {}
    for entry in entries:
        result.setdefault(entry.get("name"), entry)
    return list(result.values())


def _list_transferred_variables(item: TransferEnv, source: PodSource) -> Iterator[Document]:
    result = source.variables.get(_find_source_name(item, source.pod))
    if result is None:
        return
    wanted = {*(item.env_names or ()), item.env_name}
    yield from (result[name] for name in sorted(wanted) if name in result)


def _find_source_name(item: TransferEnv, pod: Mapping[str, Any]) -> str | None:
    """Name of the container whose variables are copied; sourceContainerNameFrom takes precedence over
    sourceContainerName.
    """
    reference = item.source_container_name_from.field_ref if item.source_container_name_from else None
    if reference is None:
        return item.source_container_name
    result = parse_label_or_annotation(reference.field_path)
    if result is None:
        return None
    field, key = result
    return (labels_of(pod) if field == "labels" else annotations_of(pod)).get(key)


def parse_label_or_annotation(path: str) -> tuple[str, str] | None:
    """Parse `metadata.labels['key']` into `labels` or `annotations` and the key; None for any other path."""
    match = _SUBSCRIPT.fullmatch(path)
    return (match[1], match[2]) if match else None


def _index_variables(variables: Iterable[Document]) -> dict[str, Document]:
    """Variables by name; the last of several variables with the same name."""
    return {str(variable.get("name")): variable for variable in variables}


# Volumes


def _find_shared_mounts(own: Iterable[Document]) -> tuple[list[Document], list[Document]]:
    """Mounts of the pod's own containers, and the variables that the subPathExpr of these mounts refers to. As in
    OpenKruise, the first of several variables with the same name is used.
    """
    mounts: list[Document] = []
    needed: list[Document] = []
    for container in own:
        variables = _index_variables(reversed(container.get("env") or ()))
        for mount in container.get("volumeMounts") or ():
            mounts.append(mount)
            expression = mount.get("subPathExpr")
            for name in _REFERENCE.findall(expression) if expression else ():
                if name in variables:
                    needed.append(variables[name])
    return mounts, needed


def _add_shared(
    own: list[Document], shared: Iterable[Document], field: str, *, taken: Collection[str]
) -> list[Document]:
    """Add the pod's entries whose path in this field is not used yet. `taken`: paths that the sidecar uses in other
    fields.
    """
    result = list(own)
    paths = {*taken, *_list_paths(own, field)}
    for entry in shared:
        path = str(entry.get(field))
        if path not in paths:
            paths.add(path)
            result.append(entry)
    return result


def _list_paths(entries: Iterable[Document], field: str) -> set[str]:
    return {str(entry.get(field)) for entry in entries}


# Hot sidecars


def _build_hot_pair(sidecar: Sidecar, container: Document, volumes: tuple[str, ...]) -> Built:
    """Build two containers: the first one works, the second one is idle until an upgrade."""
    working, idle = name_hot_pair(sidecar.name)
    annotations = {
        f"{keys.SIDECARSET_VERSION_PREFIX}{working}": "1",
        f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{working}": "0",
        f"{keys.SIDECARSET_VERSION_PREFIX}{idle}": "0",
        f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{idle}": "1",
    }
    pair = tuple(
        {
            **container,
            "name": name,
            "image": image,
            "env": [*container["env"], *_make_version_variables(name)],
        }
        for name, image in ((working, sidecar.image), (idle, sidecar.empty_image))
    )
    return Built(sidecar=sidecar, containers=pair, volumes=volumes, annotations=annotations, working=working)


def _make_version_variables(name: str) -> list[Document]:
    return [
        {
            "name": variable,
            "valueFrom": {
                "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{prefix}{name}']"}
            },
        }
        for variable, prefix in (
            ("SIDECARSET_VERSION", keys.SIDECARSET_VERSION_PREFIX),
            ("SIDECARSET_VERSION_ALT", keys.SIDECARSET_VERSION_ALT_PREFIX),
        )
    ]
