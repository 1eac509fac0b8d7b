"""The ImageListPullJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ ImageListPullJob ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)
"""

from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import ApiObject, Count, Int32, Status, Time, Typed
from pykruise.pods.images.api import PullSpec

IMAGE_LIST_PULL_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "imagelistpulljobs", "ImageListPullJob")


class ImageListPullJobSpec(PullSpec, frozen=True, kw_only=True):
    """Desired state of the job."""

    images: list[str]
    """The images, as containers name them; up to 255, each once."""


class FailedImageStatus(Typed, frozen=True, kw_only=True):
    """An image that could not be pulled everywhere."""

    image_pull_job: str = ""
    """Name of its ImagePullJob."""
    message: str = ""
    """Details for people."""
    name: str = ""
    """The image."""


class ImageListPullJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Images whose job runs."""
    completed: Int32 = 0
    """Images whose job is over."""
    completion_time: Time | None = None
    """When the job ended."""
    desired: Count = 0
    """Images that are to be pulled."""
    failed_image_statuses: list[FailedImageStatus] | None = None
    """Images that could not be pulled everywhere."""
    start_time: Time | None = None
    """When the job was first seen."""
    succeeded: Int32 = 0
    """Images that were pulled everywhere."""


class ImageListPullJob(ApiObject, frozen=True, kw_only=True):
    """Pulls several images to nodes before pods need them there."""

    api_version: str = IMAGE_LIST_PULL_JOBS.api_version
    kind: str = IMAGE_LIST_PULL_JOBS.kind
    spec: ImageListPullJobSpec | None = None
    status: ImageListPullJobStatus | None = None
