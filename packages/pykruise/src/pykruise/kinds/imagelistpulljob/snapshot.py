"""Everything a decision about one ImageListPullJob needs, as one value.

bytes of an ImageListPullJob ──▶ LIST_JOB_VIEWS ──▶ ListJobView (what a cache keeps)
ListJobView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from pykruise.kinds.imagelistpulljob.types import (
    IMAGE_LIST_PULL_JOBS,
    ImageListPullJobSpec,
    ImageListPullJobStatus,
)
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, canonical
from pykruise.kube.values.hashing import fnv32a, hash_text
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.api import PullSpec
from pykruise.pods.images.pull_jobs import PullJobView, pull_problem
from pykruise.pods.images.pull_rules import with_pull_defaults
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.names import IdSource
from pykruise.pods.workload.views import Projector, WorkloadView, spec_reader
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views


class ListJobView(WorkloadView, frozen=True, kw_only=True):
    """One ImageListPullJob as the cache keeps it."""

    spec: ImageListPullJobSpec | None
    """None: it cannot be read; `problem` says why."""
    status: ImageListPullJobStatus = ImageListPullJobStatus()
    template: Document = msgspec.field(default_factory=dict)
    """The spec of its ImagePullJobs, with defaults, without the image."""

    @property
    def template_hash(self) -> str:
        """Hash of the template, as a label's value."""
        return hash_text(fnv32a(canonical(self.template)))


read_spec: Final = spec_reader(ImageListPullJobSpec)


def read_stored(spec: Mapping[str, Any]) -> tuple[ImageListPullJobSpec | None, str]:
    """The typed spec; None, and what is wrong with it, also where its ImagePullJobs could not be read."""
    result, problem = read_spec(spec)
    if result is None:
        return None, problem
    images = {f"spec.images[{number}]": image for number, image in enumerate(result.images)}
    if problem := pull_problem(result, images):
        return None, problem
    return result, problem


def template_of(spec: PullSpec) -> Document:
    """Common part of specs that pull alike: all fields but the images, with defaults.

    Without a time to live: an ImagePullJob that went before the others of its list have ended would be made again.
    It goes with the list.
    """
    document: Document = msgspec.to_builtins(spec)
    kept = {
        name: value for name, value in document.items() if name not in ("image", "images") and value != []
    }
    template = with_pull_defaults(kept, pull_policy=True)
    template["completionPolicy"].pop("ttlSecondsAfterFinished", None)
    return template


LIST_JOB_VIEWS: Final = Views[ListJobView](
    resource=IMAGE_LIST_PULL_JOBS,
    projector=lambda: Projector(
        ListJobView,
        read_spec=read_stored,
        status=ImageListPullJobStatus,
        derived=lambda spec, _: {"template": template_of(spec)},
    ),
)


class ImageListPullJobSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one ImageListPullJob at one instant."""

    job: ListJobView
    children: Sequence[PullJobView] = ()
    """The ImagePullJobs that it controls, by name."""
    now: Instant
    ids: IdSource = IdSource(0)


class ReadableListJobView(ListJobView, frozen=True, kw_only=True):
    """One whose spec can be read. A type alone: `is_readable()` says which snapshots have it."""

    spec: ImageListPullJobSpec


class ReadableImageListPullJob(ImageListPullJobSnapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    job: ReadableListJobView


def is_readable(snapshot: ImageListPullJobSnapshot) -> TypeGuard[ReadableImageListPullJob]:
    """Whether the spec can be read, and admission has nothing against what is stored. The one place that decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


async def snapshot(view: ListJobView, read: Read[NoSettings]) -> ImageListPullJobSnapshot:
    """The job with its ImagePullJobs, as they are known now."""
    children = read.owned(PULL_JOB_VIEWS, view.uid)
    return ImageListPullJobSnapshot(
        job=view,
        children=sorted(children, key=lambda child: child.name),
        now=read.now(),
        ids=IdSource(read.draw_seed()),
    )
