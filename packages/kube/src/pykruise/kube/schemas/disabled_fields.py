"""Fields of disabled features, which an API server knows and drops silently.

    a document of a definition + Release ──▶ drop_disabled_fields() ──▶ the document, without such fields

Pure: the input is not changed. This is the rule of Kubernetes' dropDisabledFields, for pods and pod templates.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.schemas.builtin_types import fields_of
from pykruise.kube.schemas.releases import Release

__all__ = ["GATED_FIELDS", "drop_disabled_fields"]

_CORE: Final = "io.k8s.api.core.v1."
_OWN: Final[Mapping[str, str]] = {
    "ClusterTrustBundleProjection.user": "AtomicWriteVolumeUserFields",
    "ConfigMapVolumeSource.defaultUser": "AtomicWriteVolumeUserFields",
    "Container.resizePolicy": "InPlacePodVerticalScaling",
    "Container.restartPolicyRules": "ContainerRestartRules",
    "DownwardAPIVolumeFile.user": "AtomicWriteVolumeUserFields",
    "DownwardAPIVolumeSource.defaultUser": "AtomicWriteVolumeUserFields",
    "EmptyDirVolumeSource.mode": "EmptyDirVolumeMode",
    "EnvVarSource.fileKeyRef": "EnvFiles",
    "EphemeralContainer.resizePolicy": "InPlacePodVerticalScaling",
    "EphemeralContainer.restartPolicyRules": "ContainerRestartRules",
    "GRPCAction.mode": "GRPCContainerProbeTLS",
    "HTTPGetAction.protocol": "H2CContainerProbe",
    "KeyToPath.user": "AtomicWriteVolumeUserFields",
    "Lifecycle.stopSignal": "ContainerStopSignals",
    "PodSecurityContext.seLinuxChangePolicy": "SELinuxChangePolicy",
    "PodSecurityContext.supplementalGroupsPolicy": "SupplementalGroupsPolicy",
    "PodSpec.evictionResponders": "EvictionRequestAPI",
    "PodSpec.hostUsers": "UserNamespacesSupport",
    "PodSpec.hostnameOverride": "HostnameOverride",
    "PodSpec.resourceClaims": "DynamicResourceAllocation",
    "PodCertificateProjection.user": "AtomicWriteVolumeUserFields",
    "PodSpec.resources": "PodLevelResources",
    "PodSpec.schedulingGroup": "GenericWorkload",
    "ProjectedVolumeSource.defaultUser": "AtomicWriteVolumeUserFields",
    "ResourceRequirements.claims": "DynamicResourceAllocation",
    "SecretVolumeSource.defaultUser": "AtomicWriteVolumeUserFields",
    "ServiceAccountTokenProjection.user": "AtomicWriteVolumeUserFields",
    "VolumeMount.bindMountOptions": "VolumeBindMountOptions",
    "VolumeMount.recursiveReadOnly": "RecursiveReadOnlyMounts",
    "VolumeProjection.clusterTrustBundle": "ClusterTrustBundleProjection",
    "VolumeProjection.podCertificate": "PodCertificateRequest",
}
GATED_FIELDS: Final[Mapping[tuple[str, str], str]] = {
    (f"{_CORE}{place.partition('.')[0]}", place.partition(".")[2]): gate for place, gate in _OWN.items()
}
"""The feature gate without which API servers drop a field, by definition and field."""
_SPEC: Final = f"{_CORE}PodSpec"
_LIFECYCLE: Final = "lifecycle"
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def drop_disabled_fields(document: Mapping[str, Any], definition: str, release: Release) -> Document:
    """Return the document without the fields of features that are disabled in this release."""
    if not release.off or not _holds_gated(definition, release):
        return dict(document)
    return _of_struct(document, definition, release)


def _of_struct(value: Mapping[str, Any], definition: str, release: Release) -> Document:
    fields = fields_of(definition, release.minor) or {}
    result: Document = {}
    for name, part in value.items():
        gate = GATED_FIELDS.get((definition, name))
        if gate is not None and not release.has(gate):
            continue
        known = fields.get(name)
        kept = part if known is None else _of_kind(part, known.kind, release)
        if name == _LIFECYCLE and part and not kept:
            continue  # the lifecycle contained only a stop signal, which is dropped
        result[name] = kept
    if definition == _SPEC:
        _drop_together(result, release)
    return result


def _of_kind(value: Any, kind: str, release: Release) -> Any:
    kind = kind.removeprefix("*")
    target = kind.lstrip("[]{}*")
    if not target.startswith("io.") or not _holds_gated(target, release):
        return value
    if kind.startswith("[]") and isinstance(value, list):
        return [_of_kind(item, kind[2:], release) for item in value]
    if not isinstance(value, dict):
        return value
    if kind.startswith("{}"):
        return {key: _of_kind(item, kind[2:], release) for key, item in value.items()}
    return _of_struct(value, kind, release)


def _drop_together(spec: Document, release: Release) -> None:
    """Drop fields that depend on dropped fields: restart policies, image volumes with their mounts."""
    if _is_dropped(f"{_CORE}Container", "restartPolicyRules", release):
        for field in _CONTAINERS:
            for container in spec.get(field) or ():
                if field != "initContainers" or container.get("restartPolicy") != "Always":
                    container.pop("restartPolicy", None)
    if not release.has("ImageVolume"):
        _drop_image_volumes(spec)


def _is_dropped(definition: str, field: str, release: Release) -> bool:
    """Whether the minor has the field, but its feature is disabled. A field that the minor does not have is unknown,
    and fields that depend on it are rejected.
    """
    has_field = field in (fields_of(definition, release.minor) or {})
    return has_field and not release.has(GATED_FIELDS[definition, field])


def _drop_image_volumes(spec: Document) -> None:
    volumes = spec.get("volumes") or []
    dropped = {volume.get("name") for volume in volumes if volume.get("image") is not None}
    if not dropped:
        return
    _set_items(spec, "volumes", [volume for volume in volumes if volume.get("image") is None])
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            mounts = container.get("volumeMounts") or []
            _set_items(
                container, "volumeMounts", [mount for mount in mounts if mount.get("name") not in dropped]
            )


def _set_items(holder: Document, field: str, items: list[Any]) -> None:
    if items:
        holder[field] = items
    else:
        holder.pop(field, None)


@cache
def _holds_gated(definition: str, release: Release) -> bool:
    """Whether documents of a definition may contain a field that is dropped."""
    return not _PLACES_OF_RULES.isdisjoint(_find_reachable_definitions(definition, release.minor))


_PLACES_OF_RULES: Final = frozenset(definition for definition, _ in GATED_FIELDS)


@cache
def _find_reachable_definitions(definition: str, minor: str) -> frozenset[str]:
    reached: set[str] = set()
    todo = [definition]
    while todo:
        if (name := todo.pop()) in reached:
            continue
        reached.add(name)
        todo += _list_referenced_definitions(name, minor)
    return frozenset(reached)


def _list_referenced_definitions(definition: str, minor: str) -> Iterator[str]:
    for field in (fields_of(definition, minor) or {}).values():
        if (target := field.kind.lstrip("[]{}*")).startswith("io."):
            yield target
