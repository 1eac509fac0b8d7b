"""Since when an AdvancedCronJob has the schedule that it has: times before a change are none of the new schedule's.

UPDATE + the time ──▶ with_change() ──▶ the object with the annotation SCHEDULED_SINCE (its mutating webhook)
spec, as it was looked at last ──▶ SeenSchedule.since() ──▶ the same of a change that no webhook has seen

Pure. A schedule that becomes more frequent, another zone, another deadline or a resume would otherwise be due at once,
for a time that was scheduled by nothing. The annotation outlives managers; what is seen is only in memory.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document, annotations_of

SCHEDULED_SINCE: Final = "pykruise.io/scheduled-since"

_FIELDS: Final = ("schedule", "timeZone", "paused", "startingDeadlineSeconds")
"""Fields that decide which times are due."""

_Shape = tuple[Any, ...]


def _shape_of(spec: Mapping[str, Any]) -> _Shape:
    return tuple(spec.get(field) or None for field in _FIELDS)


def with_change(doc: Document, old: Mapping[str, Any] | None, *, now: Instant) -> Document:
    """The object, with the time of its last change; a writer that leaves the annotation out does not take it away."""
    if old is None:
        return doc
    if _shape_of(doc.get("spec") or {}) != _shape_of(old.get("spec") or {}):
        return _annotated(doc, format_time(now))
    before = annotations_of(old).get(SCHEDULED_SINCE)
    is_lost = before is not None and SCHEDULED_SINCE not in annotations_of(doc)
    return _annotated(doc, before) if is_lost and before is not None else doc


def _annotated(doc: Document, since: str) -> Document:
    metadata = doc.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), SCHEDULED_SINCE: since}
    return {**doc, "metadata": {**metadata, "annotations": annotations}}


def scheduled_since(annotations: Mapping[str, str]) -> Instant | None:
    """Time in the annotation; None: no annotation, or an unreadable one."""
    text = annotations.get(SCHEDULED_SINCE)
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


class SeenSchedule:
    """Object as last seen, and since when."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._noted: Instant | None = None
        self._since: Instant | None = None

    def since(self, shape: _Shape, *, noted: Instant | None, now: Instant) -> Instant | None:
        """When it was first seen like this; None: it was never seen otherwise, or the annotation, which says `noted`,
        has changed too and knows it better."""
        if self._shape is not None and self._shape != shape:
            self._since = now if noted == self._noted else None
        self._shape, self._noted = shape, noted
        return self._since
