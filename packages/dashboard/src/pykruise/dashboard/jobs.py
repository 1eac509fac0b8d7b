"""Rows of the page of jobs and images: jobs that run to completion, and images that are pulled on nodes.

document ──▶ build_job_row() ──▶ JobRow: jobs, schedules, and nodes with their images

Pure. The `line` of a row is the headline of `explain`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from pykruise.dashboard.rollouts import format_row_id, list_resources_on, owner_of
from pykruise.kinds import find_kind, find_shown
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource

MOST_IMAGES: Final = 200
MOST_WORDS: Final = 500


class ImageState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One image on a node."""

    image: str
    phase: str
    progress: int = 0
    message: str = ""


class JobRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job, or one node with its images. The kind decides whether the counts are pods, nodes or images."""

    id: str
    resource: str
    kind: str
    namespace: str
    name: str
    phase: str
    """See RolloutRow."""
    needs_action: bool = False
    owner_kind: str = ""
    owner: str = ""
    """The AdvancedCronJob or ImageListPullJob that created the job; empty if it has no owner."""
    line: str = ""
    desired: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    begun: str = ""
    ended: str = ""
    schedule: str = ""
    is_node: bool = False
    """Whether the row is about the images of a node."""
    images: tuple[ImageState, ...] = ()
    asked_by: tuple[str, ...] = ()
    """Ids of the rows of the jobs that requested images which could not be pulled. Empty if all images could be pulled,
    if one of the failed images belongs to no job, or if there are more than MOST_IMAGES jobs.
    """


def list_job_resources() -> tuple[Resource, ...]:
    """Resources of the page."""
    return list_resources_on("jobs")


def build_job_row(resource: Resource, document: Document) -> JobRow:
    """Return the row of an object of one of these kinds."""
    meta, spec = document["metadata"], document.get("spec") or {}
    status = document.get("status") or {}
    shown = find_shown(resource.group, resource.kind)
    assert shown is not None, f"{resource.kind} declares no display"
    progress = shown.progress_of(document)
    owner_kind, owner = owner_of(meta)
    begun = status.get("startTime") or status.get("lastScheduleTime") or meta.get("creationTimestamp")
    return JobRow(
        id=format_row_id(resource, meta.get("namespace", ""), meta["name"]),
        resource=str(resource),
        kind=resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        phase=progress.phase,
        needs_action=progress.phase.needs_a_person,
        owner_kind=owner_kind,
        owner=owner,
        line=headline_of(resource, status),
        desired=progress.wanted,
        active=progress.active,
        succeeded=progress.succeeded,
        failed=progress.failed,
        begun=str(begun or ""),
        ended=str(status.get("completionTime") or ""),
        schedule=str(spec.get("schedule") or "")[:MOST_WORDS],
        is_node=shown.keeps_images,
        images=tuple(_list_images(spec, status))[:MOST_IMAGES] if shown.keeps_images else (),
        asked_by=_list_asking_jobs(spec, status) if shown.keeps_images else (),
    )


def headline_of(resource: Resource, status: Mapping[str, Any]) -> str:
    """Return the headline of `explain` for an object with this status; empty if its kind has no such headline."""
    insight = find_kind(resource.kind).insight
    if insight is None or insight.headline is None:
        return ""
    try:
        return insight.headline(status)[:MOST_WORDS]
    except (KeyError, TypeError, ValueError):
        return ""


def _read_number(status: Mapping[str, Any], *fields: str) -> int:
    return next((status[field] for field in fields if isinstance(status.get(field), int)), 0)


_Entry = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A repository, a requested tag of this repository, and the state of the tag."""


def _list_entries(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[_Entry]:
    for repository, wanted in (spec.get("images") or {}).items():
        states = get_path(dict(status), "imageStatuses", repository, "tags") or ()
        by_tag = {state.get("tag"): state for state in states}
        for tag in wanted.get("tags") or ():
            yield repository, tag, by_tag.get(tag.get("tag")) or {}


@cache
def _find_puller() -> Resource:
    """The resource of jobs that pull one image on nodes."""
    return next(
        resource
        for resource in list_job_resources()
        if (shown := find_shown(resource.group, resource.kind)) is not None and shown.pulls_image
    )


def _list_asking_jobs(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the jobs: see JobRow.asked_by."""
    puller = _find_puller()
    jobs: dict[str, None] = {}
    for _, tag, state in _list_entries(spec, status):
        if state.get("phase") != "Failed":
            continue
        owners = [ref for ref in tag.get("ownerReferences") or () if ref.get("kind") == puller.kind]
        if not owners:
            return ()
        jobs |= {
            format_row_id(puller, str(ref.get("namespace") or ""), str(ref.get("name") or "")): None
            for ref in owners
        }
        if len(jobs) > MOST_IMAGES:
            return ()
    return tuple(jobs)


def _list_images(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[ImageState]:
    for repository, tag, state in _list_entries(spec, status):
        yield ImageState(
            image=f"{repository}:{tag.get('tag')}"[:MOST_WORDS],
            phase=str(state.get("phase") or "Waiting"),
            progress=_read_number(state, "progress"),
            message=str(state.get("message") or "")[:MOST_WORDS],
        )
