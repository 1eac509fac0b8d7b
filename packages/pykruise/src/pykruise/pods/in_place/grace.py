"""Time between taking a pod out of service and changing it: `apps.kruise.io/inplace-update-grace`.

UpdateSpec ──▶ encode_grace() ──▶ annotation, until the time has passed ──▶ parse_grace() ──▶ UpdateSpec

Pure. While the annotation exists, the pod has the old spec but the new revision label.
"""

import math
from typing import Any

import msgspec
import orjson

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.pods.in_place.annotations import (
    AnnotationError,
    WireMetadata,
    encode_annotation,
    read_refs,
    write_changes,
)
from pykruise.pods.in_place.pod import GRACE_ANNOTATIONS, UpdatablePod, read_annotation
from pykruise.pods.in_place.update_spec import UpdateSpec
from pykruise.pods.view import keys


class _Wire(msgspec.Struct, rename="camel"):
    revision: str = ""
    container_images: dict[str, str] | None = None
    container_ref_metadata: dict[str, WireMetadata] | None = None
    container_resources: dict[str, dict[str, dict[str, str] | None]] | None = None
    meta_data_patch: bytes | None = None
    """Base64 in JSON."""
    update_env_from_metadata: bool = False
    grace_seconds: int = 0


_decode = msgspec.json.Decoder(_Wire).decode


def grace_of(pod: UpdatablePod) -> UpdateSpec | None:
    """Change that the pod waits for in its grace period; None if there is no grace period, or the annotation is empty.

    Raises AnnotationError.
    """
    result = read_annotation(pod, GRACE_ANNOTATIONS)
    return parse_grace(result) if result else None


def parse_grace(value: str) -> UpdateSpec:
    """Parse the spec from an annotation's value. Raises AnnotationError when the value is invalid."""
    try:
        wire = _decode(value)
        return UpdateSpec(
            revision=wire.revision,
            images=wire.container_images or {},
            ref_metadata=read_refs(wire.container_ref_metadata),
            resources={
                name: {bound: amounts for bound, amounts in change.items() if amounts}
                for name, change in (wire.container_resources or {}).items()
            },
            metadata_patch=_parse_patch(wire.meta_data_patch),
            update_env_from_metadata=wire.update_env_from_metadata,
            grace_seconds=wire.grace_seconds,
        )
    except ValueError as error:
        raise AnnotationError(keys.IN_PLACE_GRACE_ANNOTATION, error) from error


def _parse_patch(data: bytes | None) -> Document | None:
    if not data:
        return None
    patch: Any = orjson.loads(data)
    if not isinstance(patch, dict) or not isinstance(patch.get("metadata") or {}, dict):
        raise ValueError("metaDataPatch is not a JSON object with an object `metadata`")
    return patch


def encode_grace(spec: UpdateSpec) -> str:
    """Encode the spec as the annotation's value."""
    result: Document = {"revision": spec.revision}
    names = ("containerImages", "containerRefMetadata", "containerResources")
    result |= write_changes(spec.images, spec.ref_metadata, spec.resources, names=names)
    if spec.metadata_patch is not None:
        data = orjson.dumps(spec.metadata_patch)
        result["metaDataPatch"] = msgspec.to_builtins(data)
    if spec.update_env_from_metadata:
        result["updateEnvFromMetadata"] = True
    if spec.grace_seconds > 0:
        result["graceSeconds"] = spec.grace_seconds
    return encode_annotation(result)


def compute_grace_end(started_at: Instant | None, *, seconds: int, now: Instant) -> Instant | None:
    """Time of the next check; None if the grace period has ended.

    The start is stored in whole seconds, rounded down. The remaining time is rounded up, so that the pod always gets
    at least its full grace period.
    """
    left = (started_at or 0.0) + seconds - now
    return now + math.ceil(left) if left > 0 else None
