"""Validation of an ImageListPullJob (either version): every error at once, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors

Pure. A spec that did not change is not looked at again: a job that is stored already can still be changed. What its
ImagePullJobs would be refused for is refused here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.imagelistpulljob.types import ImageListPullJobSpec
from pykruise.kube.documents import same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import duplicate, required, too_many
from pykruise.plans.stored_values import as_document
from pykruise.pods.images.pull_rules import image_errors, pull_errors
from pykruise.pods.workload.validation import metadata_errors

MOST_IMAGES: Final = 255


def errors_of(
    doc: Mapping[str, Any], spec: ImageListPullJobSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """All field errors of a document whose spec was read as `spec`; `old` is the stored one on an update."""
    errors = [*metadata_errors(doc.get("metadata") or {})]
    given: Mapping[str, Any] = doc.get("spec") or {}
    before: Mapping[str, Any] | None = (old.get("spec") or {}) if old is not None else None
    if same(given, before):
        return errors
    errors += pull_errors(spec, given)
    errors += _list_errors(spec.images)
    return errors


def _list_errors(images: Sequence[str]) -> Iterator[Cause]:
    path = "spec.images"
    if not images:
        yield required(path)
    if len(images) > MOST_IMAGES:
        yield too_many(path, len(images), MOST_IMAGES)
    seen: set[str] = set()
    for number, image in enumerate(images):
        if image in seen:
            yield duplicate(f"{path}[{number}]", image)
        seen.add(image)
        yield from image_errors(image, f"{path}[{number}]")


def stored_errors(spec: ImageListPullJobSpec) -> list[Cause]:
    """The same of a spec that is stored already."""
    return errors_of(as_document(spec), spec)
