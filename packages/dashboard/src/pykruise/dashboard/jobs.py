"""A row of the page of jobs and images: what runs to its end, what is pulled where.

document ──▶ job_row() ──▶ JobRow: BroadcastJob, AdvancedCronJob, image jobs, recreations, EphemeralJob; NodeImage

Pure. The line is the headline of `explain`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.dashboard.rollouts import row_id
from pykruise.kinds import named
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource

__all__ = ["ImageState", "JobRow", "headline_of", "job_resources", "job_row"]

_KINDS: Final = (
    "BroadcastJob",
    "AdvancedCronJob",
    "ImagePullJob",
    "ImageListPullJob",
    "ContainerRecreateRequest",
    "EphemeralJob",
    "NodeImage",
)
MOST_IMAGES: Final = 200
MOST_WORDS: Final = 500


class ImageState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One image on a node."""

    image: str
    phase: str
    progress: int = 0
    message: str = ""


class JobRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job, or one node with its images. Unit of counts: pods, nodes or images, as its kind counts them."""

    id: str
    resource: str
    kind: str
    namespace: str
    name: str
    state: str
    """person (something failed), moves or still."""
    phase: str = ""
    line: str = ""
    desired: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    begun: str = ""
    ended: str = ""
    schedule: str = ""
    images: tuple[ImageState, ...] = ()


def job_resources() -> tuple[Resource, ...]:
    """What stands on the page."""
    return tuple(named(kind).resource for kind in _KINDS)


def job_row(resource: Resource, document: Document) -> JobRow:
    """The row of an object of one of these kinds."""
    meta, spec = document["metadata"], document.get("spec") or {}
    status = document.get("status") or {}
    images = tuple(_images(spec, status))[:MOST_IMAGES] if resource.kind == "NodeImage" else ()
    failed = _number(status, "failed") + len(status.get("failedImageStatuses") or ())
    ended = status.get("completionTime") or ""
    active = status.get("active")
    is_moving = bool(not ended and (active or _number(status, "pulling"))) or any(
        one.phase in ("Pulling", "Waiting") for one in images
    )
    return JobRow(
        id=row_id(resource, meta.get("namespace", ""), meta["name"]),
        resource=str(resource),
        kind=resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state="person" if failed else "moves" if is_moving or _is_begun(resource, status) else "still",
        phase=str(status.get("phase") or ("completed" if ended else "")),
        line=headline_of(resource, status),
        desired=_number(status, "desired") or _number(status, "matches"),
        active=len(active) if isinstance(active, list) else _number(status, "active", "pulling", "running"),
        succeeded=_number(status, "succeeded", "completed"),
        failed=failed,
        begun=str(
            status.get("startTime") or status.get("lastScheduleTime") or meta.get("creationTimestamp") or ""
        ),
        ended=str(ended),
        schedule=str(spec.get("schedule") or "")[:MOST_WORDS],
        images=images,
    )


def _is_begun(resource: Resource, status: Mapping[str, Any]) -> bool:
    """Whether it has no end yet that its kind will have."""
    return resource.kind in ("ImagePullJob", "ImageListPullJob", "BroadcastJob") and not status.get(
        "completionTime"
    )


def headline_of(resource: Resource, status: Mapping[str, Any]) -> str:
    """What `explain` says first of an object of ours with that status; empty: nothing."""
    insight = named(resource.kind).insight
    if insight is None or insight.headline is None:
        return ""
    try:
        return insight.headline(status)[:MOST_WORDS]
    except (KeyError, TypeError, ValueError):
        return ""


def _number(status: Mapping[str, Any], *fields: str) -> int:
    return next((status[one] for one in fields if isinstance(status.get(one), int)), 0)


def _images(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[ImageState]:
    for repository, wanted in (spec.get("images") or {}).items():
        states = get_path(dict(status), "imageStatuses", repository, "tags") or ()
        by_tag = {one.get("tag"): one for one in states}
        for tag in wanted.get("tags") or ():
            state = by_tag.get(tag.get("tag")) or {}
            yield ImageState(
                image=f"{repository}:{tag.get('tag')}"[:MOST_WORDS],
                phase=str(state.get("phase") or "Waiting"),
                progress=_number(state, "progress"),
                message=str(state.get("message") or "")[:MOST_WORDS],
            )
