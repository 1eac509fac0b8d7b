"""Defaults that admission writes into a NodeImage (either version).

document ──▶ add_defaults() ──▶ the document to store

Pure; the input document is not changed. Same rules as OpenKruise's mutating webhook. The time to live of an entry and
the image pull policy have no default.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, get_path

TIMEOUT_S: Final = 600
BACKOFF_LIMIT: Final = 3


def add_defaults(doc: Mapping[str, Any], *, now: Instant) -> Document:
    """Return the document with defaults and with sorted tags."""
    defaults = dict(doc)
    images = get_path(doc, "spec", "images")
    if isinstance(images, Mapping):
        completed = {name: _complete_image(image, now=now) for name, image in images.items()}
        defaults["spec"] = {**doc["spec"], "images": completed}
    statuses = get_path(doc, "status", "imageStatuses")
    if isinstance(statuses, Mapping):
        ordered = {name: _with_tags_in_order(status) for name, status in statuses.items()}
        defaults["status"] = {**doc["status"], "imageStatuses": ordered}
    return defaults


def _complete_image(image: Any, *, now: Instant) -> Any:
    if not isinstance(image, Mapping) or not isinstance(image.get("tags"), list):
        return image
    tags = [_complete_tag(tag, now=now) if isinstance(tag, Mapping) else tag for tag in image["tags"]]
    return _with_tags_in_order({**image, "tags": tags})


def _complete_tag(tag: Mapping[str, Any], *, now: Instant) -> Document:
    result = dict(tag)
    result["createdAt"] = tag.get("createdAt") or format_time(now)
    policy = {name: value for name, value in (tag.get("pullPolicy") or {}).items() if value is not None}
    policy.setdefault("timeoutSeconds", TIMEOUT_S)
    policy.setdefault("backoffLimit", BACKOFF_LIMIT)
    result["pullPolicy"] = policy
    return result


def _with_tags_in_order(image: Any) -> Any:
    tags = image.get("tags") if isinstance(image, Mapping) else None
    if not isinstance(tags, list) or not all(isinstance(tag, Mapping) for tag in tags):
        return image
    return {**image, "tags": sorted(tags, key=lambda tag: str(tag.get("tag")))}
