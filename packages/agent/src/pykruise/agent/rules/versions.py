"""Conversion of NodeImages and ContainerRecreateRequests, the kinds of node agents, between v1alpha1 and v1beta1.

An agent uses v1beta1. On a cluster that stores v1alpha1, its transport converts the objects (`use_stored_versions`).

Secrets of a NodeImage have a mode only in v1beta1. Two parts of the v1beta1 status of a ContainerRecreateRequest are
annotations in v1alpha1: the snapshot of the container statuses, as JSON, and the time since which the pod has been out
of service. The conversion to v1beta1 does not remove the annotations. The conversion to v1alpha1 writes an annotation
if the status has its value. A condition PreRecreateGrace that is not True, or has no valid time, removes the annotation
with the time. In all other cases an annotation stays unchanged, even if it is unreadable.
"""

from typing import Any, Final

import msgspec
import orjson

from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.client.stored_versions import StoredVersionTransport
from pykruise.kube.client.transport import Transport
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document, is_same
from pykruise.kube.schemas.conversion import Conversion, annotate, drop, find_section, iterate_objects

SNAPSHOT: Final = "crr.apps.kruise.io/sync-container-statuses"
"""Annotation in v1alpha1: `status.containerStatusSnapshot` as JSON."""
UNREADY_SINCE: Final = "crr.apps.kruise.io/unready-acquired"
"""Annotation in v1alpha1: time at which the condition PreRecreateGrace became true."""
PRE_RECREATE_GRACE: Final = "PreRecreateGrace"
"""Condition type: the pod is out of service, and its containers will be stopped."""

_MESSAGE: Final = "the pod is kept out of service; its containers are stopped after the grace period"


def _request_to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1. An object without status was just created, and gets no status."""
    status = find_section(doc, "status")
    if status is None:
        return doc
    annotations = find_section(doc, "metadata", "annotations") or {}
    snapshot = _parse_snapshot(annotations.get(SNAPSHOT))
    if snapshot is not None:
        status["containerStatusSnapshot"] = snapshot
    since = _to_utc(annotations.get(UNREADY_SINCE))
    if since is not None:
        status["conditions"] = [
            {
                "type": PRE_RECREATE_GRACE,
                "status": "True",
                "reason": PRE_RECREATE_GRACE,
                "lastTransitionTime": since,
                "message": _MESSAGE,
            }
        ]
    return doc


def _request_to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    status = find_section(doc, "status")
    if status is None:
        return doc
    annotations = find_section(doc, "metadata", "annotations") or {}
    snapshot = status.get("containerStatusSnapshot")
    if isinstance(snapshot, list) and not is_same(snapshot, _parse_snapshot(annotations.get(SNAPSHOT))):
        annotate(doc, SNAPSHOT, orjson.dumps(snapshot).decode())
    conditions = iterate_objects(status.get("conditions"))
    grace = next((condition for condition in conditions if condition.get("type") == PRE_RECREATE_GRACE), None)
    if grace is not None:
        since = _to_utc(grace.get("lastTransitionTime")) if grace.get("status") == "True" else None
        if since is None or since != _to_utc(annotations.get(UNREADY_SINCE)):
            annotate(doc, UNREADY_SINCE, since)
    drop(status, "containerStatusSnapshot", "conditions")
    return doc


class _SnapshotItem(msgspec.Struct, rename="camel"):
    name: str
    ready: bool
    restart_count: int
    container_id: str = msgspec.field(name="containerID", default="")


def _parse_snapshot(text: Any) -> list[Any] | None:
    """Return the items of the annotation; None when it is absent or invalid."""
    try:
        items: list[Any] = orjson.loads(text)
        msgspec.convert(items, list[_SnapshotItem])
    except (orjson.JSONDecodeError, msgspec.ValidationError):
        return None
    return items


def _to_utc(text: object) -> str | None:
    """Return the time in UTC, as Kubernetes writes it; None for an invalid time."""
    try:
        return format_time(parse_time(text)) if isinstance(text, str) else None
    except ValueError:
        return None


def _node_image_to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    for image in iterate_objects((find_section(doc, "spec") or {}).get("images")):
        for secret in iterate_objects(image.get("pullSecrets")):
            drop(secret, "mode")
    return doc


NODE_IMAGE_VERSIONS: Final = Conversion(NODE_IMAGES, "v1alpha1", to_spoke=_node_image_to_spoke)
CONTAINER_RECREATE_REQUEST_VERSIONS: Final = Conversion(
    REQUESTS, "v1alpha1", to_hub=_request_to_hub, to_spoke=_request_to_spoke
)


def use_stored_versions(transport: Transport) -> StoredVersionTransport:
    """Return the transport of an agent for a cluster that may store the agent's kinds in v1alpha1."""
    table = {
        (conversion.resource.group, conversion.resource.kind): conversion
        for conversion in (NODE_IMAGE_VERSIONS, CONTAINER_RECREATE_REQUEST_VERSIONS)
    }
    return StoredVersionTransport(transport, table, groups=(NODE_IMAGES.group,))
