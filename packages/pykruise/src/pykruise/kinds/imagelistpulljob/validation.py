"""Validation of an ImageListPullJob (either version): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors

Pure. An unchanged spec is not checked again, so the metadata of a stored job can always be changed. If admission would
reject the job's ImagePullJobs, it already rejects the ImageListPullJob.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.imagelistpulljob.types import ImageListPullJobSpec
from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_required_error,
    make_too_many_error,
)
from pykruise.plans.stored_values import to_document
from pykruise.pods.images.pull_rules import find_image_errors, pull_errors
from pykruise.pods.workload.validation import find_metadata_errors

MOST_IMAGES: Final = 255


def errors_of(
    doc: Mapping[str, Any], spec: ImageListPullJobSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Find all field errors of a document whose typed spec is `spec`. `old` is the stored document on an update."""
    errors = [*find_metadata_errors(doc.get("metadata") or {})]
    given: Mapping[str, Any] = doc.get("spec") or {}
    before: Mapping[str, Any] | None = (old.get("spec") or {}) if old is not None else None
    if is_same(given, before):
        return errors
    errors += pull_errors(spec, given)
    errors += _list_errors(spec.images)
    return errors


def _list_errors(images: Sequence[str]) -> Iterator[Cause]:
    path = "spec.images"
    if not images:
        yield make_required_error(path)
    if len(images) > MOST_IMAGES:
        yield make_too_many_error(path, len(images), MOST_IMAGES)
    seen: set[str] = set()
    for number, image in enumerate(images):
        if image in seen:
            yield make_duplicate_error(f"{path}[{number}]", image)
        seen.add(image)
        yield from find_image_errors(image, f"{path}[{number}]")


def find_stored_errors(spec: ImageListPullJobSpec) -> list[Cause]:
    """Find all field errors of a stored spec."""
    return errors_of(to_document(spec), spec)
