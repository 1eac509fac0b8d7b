"""Time of the last schedule change of an AdvancedCronJob. Due times before the change are ignored.

UPDATE + the time ──▶ record_change() ──▶ the object with the annotation SCHEDULED_SINCE (its mutating webhook)
last observed spec ──▶ SeenSchedule.find_seen_since() ──▶ the same time, if no webhook recorded the change

Pure. When the schedule, the time zone or the deadline changes, or when a pause ends, no job must be created for an
earlier due time. The annotation survives a restart of the manager; the observed spec is only in memory.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time, parse_optional_time
from pykruise.kube.documents import Document, annotations_of

SCHEDULED_SINCE: Final = "pykruise.io/scheduled-since"

_FIELDS: Final = ("schedule", "timeZone", "paused", "startingDeadlineSeconds")
"""Fields that determine which times are due."""

_Shape = tuple[Any, ...]


def _read_shape(spec: Mapping[str, Any]) -> _Shape:
    return tuple(spec.get(field) or None for field in _FIELDS)


def record_change(doc: Document, old: Mapping[str, Any] | None, *, now: Instant) -> Document:
    """Return the object with the time of its last change. The annotation is restored if the update omits it."""
    if old is None:
        return doc
    if _read_shape(doc.get("spec") or {}) != _read_shape(old.get("spec") or {}):
        return _set_annotation(doc, format_time(now))
    before = annotations_of(old).get(SCHEDULED_SINCE)
    is_lost = before is not None and SCHEDULED_SINCE not in annotations_of(doc)
    return _set_annotation(doc, before) if is_lost and before is not None else doc


def _set_annotation(doc: Document, since: str) -> Document:
    metadata = doc.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), SCHEDULED_SINCE: since}
    return {**doc, "metadata": {**metadata, "annotations": annotations}}


def read_scheduled_since(annotations: Mapping[str, str]) -> Instant | None:
    """Return the time in the annotation; None if the annotation is missing or unreadable."""
    return parse_optional_time(annotations.get(SCHEDULED_SINCE))


class SeenSchedule:
    """The last observed schedule of an object, and the time of its last change."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._noted: Instant | None = None
        self._since: Instant | None = None

    def find_seen_since(self, shape: _Shape, *, noted: Instant | None, now: Instant) -> Instant | None:
        """Return the time at which the last change of the schedule was observed. None if no change was observed, or if
        the annotation (`noted`) changed together with the schedule: the annotation is more exact.
        """
        if self._shape is not None and self._shape != shape:
            self._since = now if noted == self._noted else None
        self._shape, self._noted = shape, noted
        return self._since
