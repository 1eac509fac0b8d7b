"""Report of the node's agent about a pod's containers: `apps.kruise.io/runtime-containers-meta`.

annotation ──▶ runtime_meta_of() ──▶ meta by container ──▶ is_running_as_specified(), find_lacking_environment()

Pure. The plain hash is the kubelet's hash of name and image (since Kubernetes 1.31). The environment hash is the
agent's hash of the variables that read metadata. An equal hash proves that the container was created with this spec.
A different hash may also come from an older kubelet.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pykruise.agent.rules import environment
from pykruise.agent.rules.container_metadata import compute_container_hash
from pykruise.pods.in_place.annotations import AnnotationError
from pykruise.pods.in_place.pod import RUNTIME_META_ANNOTATION, UpdatablePod
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts


class ContainerMeta(msgspec.Struct, frozen=True, kw_only=True):
    """A container as its runtime reports it."""

    container_id: str = ""
    plain_hash: int = 0
    environment_hash: int = 0


class _Hashes(msgspec.Struct, rename="camel"):
    plain_hash: int = 0
    extracted_env_from_metadata_hash: int = 0


class _Container(msgspec.Struct):
    name: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    hashes: _Hashes | None = None


class _Wire(msgspec.Struct):
    containers: list[_Container] | None = None


_decode = msgspec.json.Decoder(_Wire).decode


def runtime_meta_of(pod: UpdatablePod) -> Mapping[str, ContainerMeta] | None:
    """Meta by container name; None if the agent has not reported yet. Raises AnnotationError."""
    value = pod.annotations.get(RUNTIME_META_ANNOTATION)
    if value is None:
        return None
    try:
        wire = _decode(value)
    except ValueError as error:
        raise AnnotationError(RUNTIME_META_ANNOTATION, error) from error
    return {
        container.name: ContainerMeta(
            container_id=container.container_id,
            plain_hash=hashes.plain_hash,
            environment_hash=hashes.extracted_env_from_metadata_hash,
        )
        for container in wire.containers or ()
        for hashes in (container.hashes or _Hashes(),)
    }


def compute_environment_hash(
    container: ContainerFacts, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> int:
    """Compute the agent's hash of the variables that read these labels and annotations."""
    return environment.compute_environment_hash(
        container.env_sources,
        lambda source: (labels if source.field == "labels" else annotations).get(source.key, ""),
    )


def is_running_as_specified(pod: UpdatablePod, meta: Mapping[str, ContainerMeta]) -> bool:
    """Whether the meta proves that every regular container was created with the current spec."""
    return all(
        entry is not None and entry.plain_hash == compute_container_hash(container.name, container.image)
        for container, entry in _with_present_meta(pod, meta)
    )


def find_lacking_environment(pod: UpdatablePod, meta: Mapping[str, ContainerMeta]) -> str:
    """Name of the first container whose environment lacks the current labels or annotations; empty if no container
    lacks them.
    """
    for container, entry in _with_present_meta(pod, meta):
        expected = compute_environment_hash(container, labels=pod.labels, annotations=pod.annotations)
        if entry is None or entry.environment_hash != expected:
            return container.name
    return ""


def _with_present_meta(
    pod: UpdatablePod, meta: Mapping[str, ContainerMeta]
) -> Iterable[tuple[ContainerFacts, ContainerMeta | None]]:
    """Yield each container with the meta of the same name, or with None when this meta is not from the running
    container.
    """
    statuses: Mapping[str, ContainerStatusFacts] = {status.name: status for status in pod.container_statuses}
    for container in pod.containers:
        status, entry = statuses.get(container.name), meta.get(container.name)
        is_present = status is not None and entry is not None and status.container_id == entry.container_id
        yield container, entry if is_present else None
