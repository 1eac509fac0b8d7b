"""The agent's report about the running containers of a pod: the annotation `apps.kruise.io/runtime-containers-meta`.

pod ──▶ NodePod ──▶ needs_report()      containers at the runtime, values of their variables ──▶ report() ──▶ the text
                └── list_stale_containers(): containers whose environment differs from the pod's labels and annotations

Pure. OpenKruise's agent writes the same annotation; managers use it to decide whether an in-place update is complete.
Containers, statuses and earlier entries are matched by name (in OpenKruise's agent by position).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.agent.rules.environment import EnvSource, compute_environment_hash, parse_env_sources
from pykruise.kube.cache.remembering import remember
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import hash_bytes

ANNOTATION: Final = "apps.kruise.io/runtime-containers-meta"
SIDECARSET_HASH: Final = "kruise.io/sidecarset-hash"
KRUISE_GROUP: Final = "apps.kruise.io"


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """A container in the annotation."""

    name: str
    container_id: str
    """`containerd://<id>`."""
    restart_count: int = 0
    plain_hash: int = 0
    """The kubelet's hash of the container's spec."""
    env_hash: int = 0
    """Hash of the environment that comes from metadata; 0 if it is not known yet."""


class NodePod(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a pod of this node that concern its containers' metadata."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    created_at: Instant = 0.0
    is_deleting: bool = False
    is_ended: bool = False
    """Whether the phase is Succeeded or Failed."""
    is_ours: bool = False
    """Whether the pod belongs to a workload of OpenKruise, or has sidecars."""
    is_updating: bool = False
    """Whether the condition InPlaceUpdateReady is False."""
    pod_ip: str = ""
    container_ids: Mapping[str, str] = {}
    """Ids of the containers that have been started, in the order of the statuses."""
    env_hashes: Mapping[str, int] = {}
    """The wanted hash of the environment, by container name."""
    sources: Mapping[str, tuple[EnvSource, ...]] = {}
    long_values: Mapping[str, Mapping[str, str]] = {}
    """The wanted values that have line breaks, by container name and variable."""
    reported: Mapping[str, Reported] | None = None
    """The entries of the annotation; None if the annotation is missing or unreadable."""


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None


class _FieldRef(msgspec.Struct, frozen=True, rename="camel"):
    field_path: str = ""


class _ValueFrom(msgspec.Struct, frozen=True, rename="camel"):
    field_ref: _FieldRef | None = None


class _Env(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    value: str | None = None
    value_from: _ValueFrom | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    env: tuple[_Env, ...] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    container_id: str | None = msgspec.field(name="containerID", default=None)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Pod).decode


def project_pod(raw: bytes | msgspec.Raw) -> NodePod:
    """Return the view of a pod from its JSON text. Raises msgspec.DecodeError for invalid JSON."""
    pod = _decode(raw)
    meta = pod.metadata
    annotations = meta.annotations or {}
    is_ours = SIDECARSET_HASH in annotations or any(
        reference.controller and reference.api_version.partition("/")[0] == KRUISE_GROUP
        for reference in meta.owner_references or ()
    )
    known: dict[str, Any] = {"is_ours": is_ours}
    if is_ours:
        known |= _of_ours(pod, meta.labels or {}, annotations)
    return NodePod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        created_at=parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0,
        is_deleting=meta.deletion_timestamp is not None,
        is_ended=pod.status.phase in ("Succeeded", "Failed"),
        pod_ip=pod.status.pod_ip,
        **known,
    )


def _of_ours(pod: _Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    fields = {"labels": labels, "annotations": annotations}
    sources = {
        container.name: parse_env_sources(_list_field_paths(container))
        for container in pod.spec.containers or ()
    }
    return {
        "is_updating": any(
            condition.type == "InPlaceUpdateReady" and condition.status == "False"
            for condition in pod.status.conditions or ()
        ),
        "container_ids": {
            status.name: status.container_id
            for status in pod.status.container_statuses or ()
            if status.container_id
        },
        "env_hashes": {
            name: compute_environment_hash(
                env_sources, lambda source: fields[source.field].get(source.key, "")
            )
            for name, env_sources in sources.items()
        },
        "sources": {name: env_sources for name, env_sources in sources.items() if env_sources},
        "long_values": _find_long_values(sources, fields),
        "reported": _parse_reported(annotations.get(ANNOTATION)),
    }


def _find_long_values(
    sources: Mapping[str, Sequence[EnvSource]], fields: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for name, env_sources in sources.items():
        for source in env_sources:
            if "\n" in (value := fields[source.field].get(source.key, "")):
                result.setdefault(name, {})[source.variable] = value
    return result


def _list_field_paths(container: _Container) -> Iterator[tuple[str, str]]:
    for entry in container.env or ():
        if not entry.value and entry.value_from and entry.value_from.field_ref:
            yield entry.name, entry.value_from.field_ref.field_path


class _WireHashes(msgspec.Struct, frozen=True, rename="camel"):
    plain_hash: int = 0
    extracted_env_from_metadata_hash: int = 0


class _WireContainer(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    restart_count: int = 0
    hashes: _WireHashes = _WireHashes()


class _Wire(msgspec.Struct, frozen=True):
    containers: tuple[_WireContainer, ...] | None = None


_decode_wire = msgspec.json.Decoder(_Wire).decode


def _parse_reported(text: str | None) -> Mapping[str, Reported] | None:
    if not text:
        return None
    try:
        wire = _decode_wire(text)
    except ValueError:
        return None  # the agent then overwrites the unreadable annotation
    return {
        container.name: Reported(
            name=container.name,
            container_id=container.container_id,
            restart_count=container.restart_count,
            plain_hash=container.hashes.plain_hash,
            env_hash=container.hashes.extracted_env_from_metadata_hash,
        )
        for container in wire.containers or ()
    }


def needs_report(pod: NodePod, *, with_environment: bool) -> bool:
    """Whether the agent must report the pod: some containers were not reported, or were reported with an old
    environment.

    `with_environment`: gate InPlaceUpdateEnvFromMetadata.
    """
    if not pod.is_ours or pod.is_deleting or not pod.container_ids:
        return False
    reported = pod.reported
    if reported is None or reported.keys() != pod.container_ids.keys():
        return True
    return any(
        reported[name].container_id != container_id
        or (with_environment and reported[name].env_hash != pod.env_hashes.get(name, 0))
        for name, container_id in pod.container_ids.items()
    )


def report(containers: Sequence[Reported]) -> str:
    """Return the annotation's text."""
    entries = [
        {
            "name": container.name,
            "containerID": container.container_id,
            "restartCount": container.restart_count,
            "hashes": {
                "plainHash": container.plain_hash,
                **({"extractedEnvFromMetadataHash": container.env_hash} if container.env_hash else {}),
            },
        }
        for container in containers
    ]
    return encode_go_json({"containers": entries})


def report_patch(pod: NodePod, containers: Sequence[Reported]) -> Document:
    """Return a merge patch of the pod with the annotation."""
    return {"metadata": {"uid": pod.uid, "annotations": {ANNOTATION: report(containers)}}}


@remember(entries=512, longest=1024)  # the pods of a workload have the same containers
def compute_container_hash(name: str, image: str) -> int:
    """Return the hash that kubelets since Kubernetes 1.31 compute. When it changes, they recreate the container."""
    return hash_bytes(encode_go_json({"image": image, "name": name}).encode())


def list_stale_containers(pod: NodePod, containers: Sequence[Reported]) -> list[str]:
    """Return the containers that must be restarted. During an in-place update, these are the containers whose
    environment does not match the pod's current labels and annotations; otherwise there are none.
    """
    if not pod.is_updating:
        return []
    return [
        container.name
        for container in containers
        if container.env_hash and container.env_hash != pod.env_hashes.get(container.name, container.env_hash)
    ]
