"""Common format of the annotations of in-place updates: functions that read and write their parts.

Pure. Readers ignore unknown keys. Writers use the same order of keys, and leave out the same empty fields, as
all other managers.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.pods.in_place.update_spec import RefMetadata, ResourceChange


class AnnotationError(ValueError):
    """An annotation of an in-place update that cannot be read; the message names it and the reason."""

    def __init__(self, key: str, problem: object) -> None:
        super().__init__(f"annotation {key} cannot be read: {problem}")


class WireMetadata(msgspec.Struct):
    """Labels and annotations in the form of an object's whole metadata."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def write_changes(
    images: Mapping[str, str],
    refs: Mapping[str, RefMetadata],
    resources: Mapping[str, ResourceChange],
    *,
    names: tuple[str, str, str],
) -> Document:
    """Changes by container; empty parts are left out. `names`: names of the three fields."""
    written = (dict(sorted(images.items())), write_refs(refs), write_resources(resources))
    return {name: part for name, part in zip(names, written, strict=True) if part}


def read_refs(refs: Mapping[str, WireMetadata] | None) -> dict[str, RefMetadata]:
    """Metadata by container."""
    return {
        name: RefMetadata(labels=wire.labels or {}, annotations=wire.annotations or {})
        for name, wire in (refs or {}).items()
    }


def write_refs(refs: Mapping[str, RefMetadata]) -> Document:
    """Metadata by container, each with the null creationTimestamp that a Go client writes."""
    return {name: _write_ref(ref) for name, ref in sorted(refs.items())}


def _write_ref(ref: RefMetadata) -> Document:
    result: Document = {"creationTimestamp": None}
    if ref.labels:
        result["labels"] = dict(sorted(ref.labels.items()))
    if ref.annotations:
        result["annotations"] = dict(sorted(ref.annotations.items()))
    return result


def write_resources(resources: Mapping[str, ResourceChange]) -> Document:
    """Resources by container; empty `limits` and `requests` are left out."""
    return {
        name: {
            bound: dict(sorted(change[bound].items()))
            for bound in ("limits", "requests")
            if change.get(bound)
        }
        for name, change in sorted(resources.items())
    }


def read_time(text_or_none: str | None) -> Instant | None:
    """Parse a time; None for null. Raises ValueError."""
    return parse_time(text_or_none) if text_or_none else None


def write_time(instant: Instant | None) -> str | None:
    """Format a time; None becomes null."""
    return None if instant is None else format_time(instant)


def encode_annotation(document: Mapping[str, Any]) -> str:
    """Encode the document as the annotation's value."""
    return orjson.dumps(document).decode()
