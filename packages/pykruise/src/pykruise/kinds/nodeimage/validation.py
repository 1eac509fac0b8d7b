"""Validation of a NodeImage (either version): all errors in one response, each with its field.

spec ──▶ errors_of() ──▶ field errors

Pure. Same rules as OpenKruise.
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_invalid_error,
    make_required_error,
    make_too_many_error,
)
from pykruise.pods.images.node_image_api import ImageSpec, NodeImageSpec, TagSpec
from pykruise.pods.images.node_images import NodeImageView

MOST_IMAGES: Final = 256


def errors_of(spec: NodeImageSpec) -> list[Cause]:
    """Find all field errors of a spec."""
    images = spec.images or {}
    errors: list[Cause] = []
    if len(images) > MOST_IMAGES:
        errors.append(make_too_many_error("spec.images", len(images), MOST_IMAGES))
    for name, image in images.items():
        path = f"spec.images[{name}]"
        if not name:
            errors.append(make_invalid_error("spec.images", name, "an image must have a name"))
        errors += _find_image_errors(image, path)
    return errors


def _find_image_errors(image: ImageSpec, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for number, tag in enumerate(image.tags):
        place = f"{path}.tags[{number}]"
        yield from _find_tag_errors(tag, place)
        if tag.tag in seen:
            yield make_duplicate_error(f"{place}.tag", tag.tag)
        seen.add(tag.tag)


def _find_tag_errors(tag: TagSpec, path: str) -> Iterator[Cause]:
    if not tag.tag:
        yield make_required_error(f"{path}.tag")
    if not tag.created_at:
        yield make_required_error(f"{path}.createdAt")
    if tag.version < 0:
        yield make_invalid_error(f"{path}.version", tag.version, "must not be negative")
    if tag.pull_policy is None:
        yield make_required_error(f"{path}.pullPolicy")
    elif tag.pull_policy.ttl_seconds_after_finished is None:
        yield make_required_error(f"{path}.pullPolicy.ttlSecondsAfterFinished")


def find_stored_errors(view: NodeImageView) -> list[Cause]:
    """Find all field errors of a stored NodeImage."""
    return errors_of(NodeImageSpec(images=dict(view.images)))
