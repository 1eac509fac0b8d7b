"""Progress of a pod's in-place update: the annotation `apps.kruise.io/inplace-update-state`.

annotation ──▶ parse_state() ──▶ UpdateState ──▶ encode_state() ──▶ annotation

Pure. All managers that may take over a pod share this format. pykruise adds one field, which other managers ignore: the
id of the container before the change. The image id alone does not show whether the container was replaced, because two
tags of one image have the same image id.
"""

from collections.abc import Mapping

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.pods.in_place.annotations import (
    AnnotationError,
    WireMetadata,
    encode_annotation,
    read_refs,
    read_time,
    write_changes,
    write_time,
)
from pykruise.pods.in_place.pod import STATE_ANNOTATIONS, UpdatablePod, read_annotation
from pykruise.pods.in_place.update_spec import RefMetadata, ResourceChange, UpdateSpec
from pykruise.pods.view import keys


class ImageRecord(
    msgspec.Struct, frozen=True, kw_only=True, rename={"image_id": "imageID", "container_id": "containerID"}
):
    """Image and container before the change."""

    image_id: str = ""
    container_id: str = ""
    """Id of the container, if the change will certainly replace it. Empty (always with other managers): only the image
    proves the change.
    """


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Containers that were changed together."""

    at: Instant | None
    containers: tuple[str, ...] = ()


class UpdateState(msgspec.Struct, frozen=True, kw_only=True):
    """An in-place update, from its start until the next update replaces it."""

    revision: str = ""
    started_at: Instant | None = None
    image_records: Mapping[str, ImageRecord] = {}
    update_env_from_metadata: bool = False
    update_resources: bool = False
    update_images: bool = False
    next_images: Mapping[str, str] = {}
    next_ref_metadata: Mapping[str, RefMetadata] = {}
    next_resources: Mapping[str, ResourceChange] = {}
    required_ready: tuple[str, ...] = ()
    """Containers that must be ready before the next batch."""
    batches: tuple[BatchRecord, ...] = ()

    @property
    def has_next(self) -> bool:
        """Whether containers wait for a later batch."""
        return bool(self.next_images or self.next_ref_metadata or self.next_resources)

    @property
    def next_spec(self) -> UpdateSpec:
        """Changes of the later batches."""
        return UpdateSpec(
            images=self.next_images,
            ref_metadata=self.next_ref_metadata,
            resources=self.next_resources,
            update_env_from_metadata=self.update_env_from_metadata and bool(self.next_ref_metadata),
        )

    def find_change_time(self, container: str) -> Instant | None:
        """Time of the container's last change in this update."""
        times = [batch.at for batch in self.batches if container in batch.containers]
        return times[-1] if times else self.started_at


def state_of(pod: UpdatablePod) -> UpdateState | None:
    """Read the state of a pod from the annotation, or from its older key (`inplace-update-state`); None if the pod was
    never updated in place.

    Raises AnnotationError.
    """
    result = read_annotation(pod, STATE_ANNOTATIONS)
    return None if result is None else parse_state(result)


class _WirePreCheck(msgspec.Struct, rename="camel"):
    containers_required_ready: list[str] | None = None


class _WireBatch(msgspec.Struct):
    timestamp: str | None = None
    containers: list[str] | None = None


class _Wire(msgspec.Struct, rename="camel"):
    revision: str = ""
    update_timestamp: str | None = None
    last_container_statuses: dict[str, ImageRecord] | None = None
    update_env_from_metadata: bool = False
    update_resources: bool = False
    update_images: bool = False
    next_container_images: dict[str, str] | None = None
    next_container_ref_metadata: dict[str, WireMetadata] | None = None
    next_container_resources: dict[str, dict[str, dict[str, str] | None]] | None = None
    pre_check_before_next: _WirePreCheck | None = None
    container_batches_record: list[_WireBatch] | None = None


_decode = msgspec.json.Decoder(_Wire).decode


def parse_state(value: str) -> UpdateState:
    """Parse the state from an annotation's value. Raises AnnotationError when the value is invalid."""
    try:
        wire = _decode(value)
        return UpdateState(
            revision=wire.revision,
            started_at=read_time(wire.update_timestamp),
            image_records=wire.last_container_statuses or {},
            update_env_from_metadata=wire.update_env_from_metadata,
            update_resources=wire.update_resources,
            update_images=wire.update_images,
            next_images=wire.next_container_images or {},
            next_ref_metadata=read_refs(wire.next_container_ref_metadata),
            next_resources=_parse_resources(wire.next_container_resources),
            required_ready=tuple(
                (wire.pre_check_before_next and wire.pre_check_before_next.containers_required_ready) or ()
            ),
            batches=tuple(
                BatchRecord(at=read_time(batch.timestamp), containers=tuple(batch.containers or ()))
                for batch in wire.container_batches_record or ()
            ),
        )
    except ValueError as error:
        raise AnnotationError(keys.IN_PLACE_STATE_ANNOTATION, error) from error


def _parse_resources(
    resources: Mapping[str, Mapping[str, Mapping[str, str] | None]] | None,
) -> dict[str, ResourceChange]:
    return {
        name: {bound: amounts for bound, amounts in change.items() if amounts}
        for name, change in (resources or {}).items()
    }


def encode_state(state: UpdateState) -> str:
    """Encode the state as the annotation's value."""
    result: Document = {
        "revision": state.revision,
        "updateTimestamp": write_time(state.started_at),
        "lastContainerStatuses": {
            name: _write_record(record) for name, record in sorted(state.image_records.items())
        }
        or None,
    }
    for key, flag in (
        ("updateEnvFromMetadata", state.update_env_from_metadata),
        ("updateResources", state.update_resources),
        ("updateImages", state.update_images),
    ):
        if flag:
            result[key] = True
    names = ("nextContainerImages", "nextContainerRefMetadata", "nextContainerResources")
    result |= write_changes(state.next_images, state.next_ref_metadata, state.next_resources, names=names)
    if state.has_next:
        result["preCheckBeforeNext"] = {"containersRequiredReady": sorted(state.required_ready)}
    if state.batches:
        result["containerBatchesRecord"] = [
            {"timestamp": write_time(batch.at), "containers": sorted(batch.containers)}
            for batch in state.batches
        ]
    return encode_annotation(result)


def _write_record(record: ImageRecord) -> Document:
    result: Document = {"imageID": record.image_id} if record.image_id else {}
    if record.container_id:
        result["containerID"] = record.container_id
    return result
