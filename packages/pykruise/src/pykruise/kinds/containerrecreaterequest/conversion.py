"""ContainerRecreateRequests between v1alpha1 and v1beta1.

Two parts of the v1beta1 status are annotations in v1alpha1: the snapshot of the container statuses, as JSON,
and since when the pod is out of service, as a time. Annotations stay on the object; in v1alpha1 they follow the
status where it says something. What cannot be read is left where it is.
"""

from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerStatusSnapshot,
)
from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.conversion import Conversion, annotate, drop, each, section
from pykruise.kube.documents import Document, same

__all__ = ["CONVERSION", "PRE_RECREATE_GRACE", "SNAPSHOT", "UNREADY_SINCE"]

SNAPSHOT: Final = "crr.apps.kruise.io/sync-container-statuses"
"""Annotation in v1alpha1: `status.containerStatusSnapshot` as JSON."""
UNREADY_SINCE: Final = "crr.apps.kruise.io/unready-acquired"
"""Annotation in v1alpha1: when the condition PreRecreateGrace became true."""
PRE_RECREATE_GRACE: Final = "PreRecreateGrace"
"""Condition: the pod is out of service, and its containers are about to be stopped."""

_MESSAGE: Final = "the pod is not ready, its containers are stopped after the grace period"


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1. An object without status gets none: it has only just been written."""
    status = section(doc, "status")
    if status is None:
        return doc
    annotations = section(doc, "metadata", "annotations") or {}
    snapshot = _snapshot(annotations.get(SNAPSHOT))
    if snapshot is not None:
        status["containerStatusSnapshot"] = snapshot
    since = _time(annotations.get(UNREADY_SINCE))
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


def to_spoke(doc: Document) -> Document:
    """v1beta1 as v1alpha1."""
    status = section(doc, "status")
    if status is None:
        return doc
    annotations = section(doc, "metadata", "annotations") or {}
    snapshot = status.get("containerStatusSnapshot")
    if isinstance(snapshot, list) and not same(snapshot, _snapshot(annotations.get(SNAPSHOT))):
        annotate(doc, SNAPSHOT, orjson.dumps(snapshot).decode())
    conditions = each(status.get("conditions"))
    grace = next((one for one in conditions if one.get("type") == PRE_RECREATE_GRACE), None)
    if grace is not None:
        since = _time(grace.get("lastTransitionTime")) if grace.get("status") == "True" else None
        if since is None or since != _time(annotations.get(UNREADY_SINCE)):
            annotate(doc, UNREADY_SINCE, since)
    drop(status, "containerStatusSnapshot", "conditions")
    return doc


def _snapshot(text: Any) -> list[Any] | None:
    """The items of the annotation; None when there is none, or they are not what they should be."""
    try:
        items: list[Any] = orjson.loads(text)
        msgspec.convert(items, list[ContainerStatusSnapshot])
    except (orjson.JSONDecodeError, msgspec.ValidationError):
        return None
    return items


def _time(text: object) -> str | None:
    """The time in UTC, as Kubernetes writes it; None for what is no time."""
    try:
        return format_time(parse_time(text)) if isinstance(text, str) else None
    except ValueError:
        return None


CONVERSION: Final = Conversion(CONTAINER_RECREATE_REQUESTS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
