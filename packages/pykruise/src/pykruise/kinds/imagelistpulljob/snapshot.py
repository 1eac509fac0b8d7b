"""Everything that a decision about one ImageListPullJob needs, as one value.

bytes of an ImageListPullJob ──▶ LIST_JOB_VIEWS ──▶ ListJobView (stored in the cache)
ListJobView + Read ──▶ read_snapshot() ──▶ ImageListPullJobSnapshot ──▶ plan.py
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
from pykruise.kube.documents import Document, encode_canonical
from pykruise.kube.values.hashing import hash_fnv32a, hash_text
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.api import PullSpec
from pykruise.pods.images.pull_jobs import PullJobView, pull_problem
from pykruise.pods.images.pull_rules import add_pull_defaults
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.names import IdSource
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views


class ListJobView(WorkloadView, frozen=True, kw_only=True):
    """One ImageListPullJob as stored in the cache."""

    spec: ImageListPullJobSpec | None
    """The typed spec; None if it is unreadable: `problem` describes the error."""
    status: ImageListPullJobStatus = ImageListPullJobStatus()
    template: Document = msgspec.field(default_factory=dict)
    """The spec of the ImagePullJobs to create, with defaults and without the image."""

    @property
    def template_hash(self) -> str:
        """Hash of the template, as the value of a label."""
        return hash_text(hash_fnv32a(encode_canonical(self.template)))


read_spec: Final = make_spec_reader(ImageListPullJobSpec)


def read_stored(spec: Mapping[str, Any]) -> tuple[ImageListPullJobSpec | None, str]:
    """Return the typed spec, or None and the problem. It is also a problem if ImagePullJobs with this spec would be
    unreadable.
    """
    result, problem = read_spec(spec)
    if result is None:
        return None, problem
    images = {f"spec.images[{number}]": image for number, image in enumerate(result.images)}
    if problem := pull_problem(result, images):
        return None, problem
    return result, problem


def template_of(spec: PullSpec) -> Document:
    """Return the template of a spec: all fields except the images, with defaults.

    The template has no time to live. Otherwise an ImagePullJob could be deleted while other ImagePullJobs of the list
    run, and would be created again. ImagePullJobs are deleted together with their ImageListPullJob.
    """
    document: Document = msgspec.to_builtins(spec)
    kept = {
        name: value for name, value in document.items() if name not in ("image", "images") and value != []
    }
    template = add_pull_defaults(kept, pull_policy=True)
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
    """All that is known about one ImageListPullJob at one instant."""

    job: ListJobView
    children: Sequence[PullJobView] = ()
    """The ImagePullJobs that the ImageListPullJob controls, sorted by name."""
    now: Instant
    ids: IdSource = IdSource(0)


class ReadableListJobView(ListJobView, frozen=True, kw_only=True):
    """A ListJobView with a readable spec. Only a type: no object is created from this class."""

    spec: ImageListPullJobSpec


class ReadableImageListPullJob(ImageListPullJobSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    job: ReadableListJobView


def is_readable(snapshot: ImageListPullJobSnapshot) -> TypeGuard[ReadableImageListPullJob]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


async def read_snapshot(view: ListJobView, read: Read[NoSettings]) -> ImageListPullJobSnapshot:
    """Read the job and its ImagePullJobs from the caches."""
    children = read.list_owned(PULL_JOB_VIEWS, view.uid)
    return ImageListPullJobSnapshot(
        job=view,
        children=sorted(children, key=lambda child: child.name),
        now=read.now(),
        ids=IdSource(read.draw_seed()),
    )
