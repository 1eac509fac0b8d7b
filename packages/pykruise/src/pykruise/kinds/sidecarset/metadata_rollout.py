"""The option roll-on-pod-metadata: it finds pods that lack annotations of `patchPodMetadata`, and containers that must
restart to read changed annotations.

pod + patchPodMetadata ──▶ find_outdated() ──▶ annotations that the pod must get; if any, the pod is outdated
patch of an upgrade    ──▶ find_restarts() ──▶ containers whose variables read a changed annotation
                       ──▶ record_restarts() ──▶ the patch that also records them
record in the pod      ──▶ find_pending() ──▶ recorded containers that have not restarted yet
                       ──▶ build_request() ──▶ the ContainerRecreateRequest that restarts them

Pure. A variable keeps its value until its container starts again. A file of a downwardAPI volume follows its annotation
without a restart.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from pykruise.agent.rules.environment import EnvSource
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kinds.sidecarset.pod_annotations import OVERWRITE
from pykruise.kinds.sidecarset.types import PatchPodMetadata
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.owners import build_owner_reference
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import ROLL_ON_POD_METADATA
from pykruise.runtime.actions import Create

AGAIN_S: Final = 300
"""Seconds after which the restart of a container is requested again. The earlier request has ended by then."""
KEPT_S: Final = 60
"""Seconds until a request that has ended is deleted."""


class Restarts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Record of the restarts that the last change of a pod's annotations requires."""

    containers: Mapping[str, str] = {}
    """Container → its id before the restart."""
    requested_at: str = ""


def rolls_on_metadata(annotations: Mapping[str, str]) -> bool:
    """Whether a SidecarSet with these annotations changes the annotations of running pods."""
    try:
        return ROLL_ON_POD_METADATA.read(annotations) is True
    except ValueError:
        return False  # find_option_errors() reports it


def find_outdated(annotations: Mapping[str, str], entries: Iterable[PatchPodMetadata]) -> Mapping[str, str]:
    """Return the annotations with the policy Overwrite whose value in the pod is missing or different."""
    return {
        key: value
        for entry in entries
        if entry.patch_policy == OVERWRITE
        for key, value in (entry.annotations or {}).items()
        if annotations.get(key) != value
    }


def find_restarts(pod: PodView, body: Document, entries: Iterable[PatchPodMetadata]) -> Mapping[str, str]:
    """Return the containers that must restart after this patch, with their ids. A container that is not running yet
    starts with the new annotations, and so does a container whose image the patch changes.
    """
    given = {key for entry in entries for key in entry.annotations or {}}
    changed = given & body["metadata"]["annotations"].keys()
    replaced = {container["name"] for container in body.get("spec", {}).get("containers", ())}
    ids = _list_ids(pod)
    return {
        container.name: ids[container.name]
        for container in pod.containers
        if container.name not in replaced
        and container.name in ids
        and _is_reading(container.env_sources, changed)
    }


def record_restarts(
    pod: PodView, body: Document, restarts: Mapping[str, str], *, sidecarset: str, now: Instant
) -> Document:
    """Return the patch with a record of these restarts; without restarts, return the patch unchanged."""
    if not restarts:
        return body
    record = Restarts(containers=dict(sorted(restarts.items())), requested_at=format_time(now))
    text = encode_go_json(
        msgspec.to_builtins({**_read_records(pod.annotations), sidecarset: record}), sort_keys=True
    )
    annotations = {**body["metadata"].get("annotations", {}), keys.METADATA_RESTARTS_ANNOTATION: text}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def find_pending(pod: PodView, sidecarset: str) -> Mapping[str, str]:
    """Return the recorded containers that have not restarted yet, with their ids."""
    record = _read_records(pod.annotations).get(sidecarset)
    ids = _list_ids(pod)
    return {name: id_ for name, id_ in record.containers.items() if ids.get(name) == id_} if record else {}


def find_request_time(pod: PodView, sidecarset: str) -> Instant:
    """Return the time of the next request for the recorded restarts; 0 when no request is recorded."""
    record = _read_records(pod.annotations).get(sidecarset)
    try:
        return parse_time(record.requested_at) + AGAIN_S if record and record.requested_at else 0.0
    except ValueError:
        return 0.0


def build_request(pod: PodView, containers: Collection[str], *, sidecarset: str) -> Create:
    """Return the creation of the request that restarts these containers. The name of the request contains the pod's
    resourceVersion.
    """
    name = f"{sidecarset}-{pod.uid[:8]}-{pod.resource_version}"
    body: Document = {
        "apiVersion": REQUESTS.api_version,
        "kind": REQUESTS.kind,
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "ownerReferences": [
                build_owner_reference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid)
            ],
        },
        "spec": {
            "podName": pod.name,
            "containers": [{"name": container} for container in containers],
            "strategy": {"failurePolicy": "Ignore"},
            "activeDeadlineSeconds": AGAIN_S - KEPT_S,
            "ttlSecondsAfterFinished": KEPT_S,
        },
    }
    return Create(resource=REQUESTS, key=Key(pod.namespace, name), body=body)


def _list_ids(pod: PodView) -> Mapping[str, str]:
    return {status.name: status.container_id for status in pod.container_statuses if status.container_id}


def _is_reading(sources: Iterable[EnvSource], changed: Collection[str]) -> bool:
    return any(source.field == "annotations" and source.key in changed for source in sources)


def _read_records(annotations: Mapping[str, str]) -> Mapping[str, Restarts]:
    """Return the records by SidecarSet. An annotation that cannot be read counts as absent."""
    text = annotations.get(keys.METADATA_RESTARTS_ANNOTATION)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Restarts])
    except msgspec.DecodeError:
        return {}
