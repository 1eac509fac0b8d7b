"""Sidecars made for one pod: environment, mounts, devices and resources taken from the pod's own containers.

sidecar + PodSource ──▶ build() ──▶ Built (one container, or two of a hot sidecar, with what they need)

Pure. All that is read is the pod as its author wrote it; nothing that goes in is changed or shared with what
comes out in a way that could be.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.resource_policies import SidecarAmountError, resources_for
from pykruise.kinds.sidecarset.sidecar_contents import Sidecar, SidecarSetContents, hot_pair
from pykruise.kinds.sidecarset.types import SharePolicy, TransferEnv
from pykruise.kube.documents import Document, annotations_of, labels_of
from pykruise.pods.view import keys

INJECTED: Final = "IS_INJECTED"
"""Variable of every injected container."""

ENABLED: Final = "enabled"

_REFERENCE: Final = re.compile(r"\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class PodSource(msgspec.Struct, frozen=True, kw_only=True):
    """The pod as its author wrote it, read once for all its sidecars."""

    pod: Document
    own: tuple[Document, ...]
    """Its containers, but for those that were injected."""
    sidecars: frozenset[str]
    """Names of all sidecars that this pod gets."""
    mounts: tuple[Document, ...] = ()
    """Volume mounts of its own containers, for those that share them."""
    mount_variables: tuple[Document, ...] = ()
    """Variables that the subPathExpr of these mounts need."""
    variables: Mapping[str | None, Mapping[str, Document]] = {}
    """Variables of each container by name; the first of a name counts."""

    def taken_by(self, sidecar: Sidecar) -> int:
        """How many containers, mounts, devices and variables of the pod are looked at for the sidecar."""
        fields, count = sidecar.fields, 0
        if _is_enabled(fields.share_volume_policy):
            count += len(self.mounts) + len(self.mount_variables)
        if _is_enabled(fields.share_volume_device_policy):
            count += sum(len(entry.get("volumeDevices") or ()) for entry in self.own)
        if fields.resources_policy is not None:
            count += len(self.variables)
        return count


def pod_source(pod: Document, *, contents: Iterable[SidecarSetContents]) -> PodSource:
    """Parts that sidecars take from a pod that receives `contents`."""
    containers: list[Document] = (pod.get("spec") or {}).get("containers") or []
    sidecars = [side for content in contents for side in (*content.init_containers, *content.containers)]
    own = tuple(container for container in containers if not _is_injected(container))
    is_shared = any(_is_enabled(sidecar.fields.share_volume_policy) for sidecar in sidecars)
    mounts, variables = _shared_mounts(own) if is_shared else ([], [])
    return PodSource(
        pod=pod,
        own=own,
        mounts=tuple(mounts),
        mount_variables=tuple(variables),
        variables={str(container.get("name")): _variables(container) for container in containers},
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
    """Names of the SidecarSet's volumes that it uses."""
    annotations: Mapping[str, str] = {}
    working: str = ""
    """Container of a hot sidecar that does the work first."""


def build(sidecar: Sidecar, contents: SidecarSetContents, source: PodSource) -> Built:
    """The sidecar for this pod. Raises InjectionError."""
    fields = sidecar.fields
    container: Document = dict(sidecar.container)
    if fields.resources_policy is not None:
        container["resources"] = _resources(sidecar, source)
    extra = [result for item in fields.transfer_env or () for result in _transfer(item, source)]
    mounts: list[Document] = list(container.get("volumeMounts") or ())
    devices: list[Document] = list(container.get("volumeDevices") or ())
    used = [str(mount.get("name")) for mount in (*mounts, *devices)]
    if _is_enabled(fields.share_volume_policy):
        mounts = _with_shared(mounts, source.mounts, "mountPath", taken=_paths(devices, "devicePath"))
        extra += source.mount_variables
    if _is_enabled(fields.share_volume_device_policy):
        shared = (device for entry in source.own for device in entry.get("volumeDevices") or ())
        devices = _with_shared(devices, shared, "devicePath", taken=_paths(mounts, "mountPath"))
    container["env"] = _environment(container.get("env") or (), extra)
    for field, entries in (("volumeMounts", mounts), ("volumeDevices", devices)):
        if entries:
            container[field] = entries
    volumes = tuple(name for name in dict.fromkeys(used) if name in contents.volumes)
    if sidecar.is_hot:
        return _hot(sidecar, container, volumes)
    return Built(sidecar=sidecar, containers=(container,), volumes=volumes)


def _is_enabled(policy: SharePolicy | None) -> bool:
    return policy is not None and policy.type == ENABLED


def _resources(sidecar: Sidecar, source: PodSource) -> Document:
    policy = sidecar.fields.resources_policy
    assert policy is not None
    claims = (sidecar.container.get("resources") or {}).get("claims")
    try:
        return resources_for(source.pod.get("spec") or {}, policy, sidecars=source.sidecars, claims=claims)
    except SidecarAmountError as error:
        raise InjectionError(f"resourcesPolicy of container {sidecar.name}: {error}") from error


# Environment


def _environment(own: Iterable[Document], extra: Iterable[Document]) -> list[Document]:
    """The sidecar's own variables first; they win over those of the same name from elsewhere."""
    environment = [entry for entry in own if entry.get("name") != INJECTED]
    environment.append({"name": INJECTED, "value": "true"})
    names = {entry.get("name") for entry in environment}
    return [*environment, *(entry for entry in first_of_each(extra) if entry.get("name") not in names)]


def first_of_each(entries: Iterable[Document]) -> list[Document]:
    """The first entry of each name, in their order."""
    result: dict[Any, Document] = {}
    for entry in entries:
        result.setdefault(entry.get("name"), entry)
    return list(result.values())


def _transfer(item: TransferEnv, source: PodSource) -> Iterator[Document]:
    result = source.variables.get(_source_name(item, source.pod))
    if result is None:
        return
    wanted = {*(item.env_names or ()), item.env_name}
    yield from (result[name] for name in sorted(wanted) if name in result)


def _source_name(item: TransferEnv, pod: Mapping[str, Any]) -> str | None:
    """The container to take from; a field of the pod goes before a plain name."""
    reference = item.source_container_name_from.field_ref if item.source_container_name_from else None
    if reference is None:
        return item.source_container_name
    result = label_or_annotation(reference.field_path)
    if result is None:
        return None
    field, key = result
    return (labels_of(pod) if field == "labels" else annotations_of(pod)).get(key)


def label_or_annotation(path: str) -> tuple[str, str] | None:
    """`labels` or `annotations`, and the key, of `metadata.labels['key']`; None for any other path."""
    match = _SUBSCRIPT.fullmatch(path)
    return (match[1], match[2]) if match else None


def _variables(container: Mapping[str, Any]) -> dict[str, Document]:
    """Variables by name. The first of a name counts, so the last is put in first."""
    return {str(variable.get("name")): variable for variable in reversed(container.get("env") or ())}


# Volumes


def _shared_mounts(own: Iterable[Document]) -> tuple[list[Document], list[Document]]:
    """The mounts of the pod's own containers, and the variables that their subPathExpr needs."""
    mounts: list[Document] = []
    needed: list[Document] = []
    for container in own:
        variables = _variables(container)
        for mount in container.get("volumeMounts") or ():
            mounts.append(mount)
            expression = mount.get("subPathExpr")
            for name in _REFERENCE.findall(expression) if expression else ():
                if name in variables:
                    needed.append(variables[name])
    return mounts, needed


def _with_shared(
    own: list[Document], shared: Iterable[Document], field: str, *, taken: Collection[str]
) -> list[Document]:
    """With those of the pod whose path, in this field, is free. `taken`: further paths that are not."""
    result = list(own)
    paths = {*taken, *_paths(own, field)}
    for entry in shared:
        path = str(entry.get(field))
        if path not in paths:
            paths.add(path)
            result.append(entry)
    return result


def _paths(entries: Iterable[Document], field: str) -> set[str]:
    return {str(entry.get(field)) for entry in entries}


# Hot sidecars


def _hot(sidecar: Sidecar, container: Document, volumes: tuple[str, ...]) -> Built:
    """Two containers; the first does the work, the second is idle until an upgrade."""
    working, idle = hot_pair(sidecar.name)
    annotations = {
        f"{keys.SIDECARSET_VERSION_PREFIX}{working}": "1",
        f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{working}": "0",
        f"{keys.SIDECARSET_VERSION_PREFIX}{idle}": "0",
        f"{keys.SIDECARSET_VERSION_ALT_PREFIX}{idle}": "1",
    }
    pair = tuple(
        {**container, "name": name, "image": image, "env": [*container["env"], *_versions(name)]}
        for name, image in ((working, sidecar.image), (idle, sidecar.empty_image))
    )
    return Built(sidecar=sidecar, containers=pair, volumes=volumes, annotations=annotations, working=working)


def _versions(name: str) -> list[Document]:
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
