"""The ImageListPullJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ ImageListPullJob ──▶ snapshot, plan; the same types ──▶ kind.py (its schema)
"""

from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import ApiObject, Count, Int32, Status, Time, Typed
from pykruise.pods.images.api import PullSpec

IMAGE_LIST_PULL_JOBS: Final = Resource("apps.kruise.io", "v1beta1", "imagelistpulljobs", "ImageListPullJob")


class ImageListPullJobSpec(PullSpec, frozen=True, kw_only=True):
    """Desired state of the job."""

    images: list[str]
    """Images to pull, in the same form as in a container. At most 255, without duplicates."""


class FailedImageStatus(Typed, frozen=True, kw_only=True):
    """An image that could not be pulled to every node."""

    image_pull_job: str = ""
    """Name of the ImagePullJob of this image."""
    message: str = ""
    """Human-readable details."""
    name: str = ""
    """Name of the image."""


class ImageListPullJobStatus(Status, frozen=True, kw_only=True):
    """Observed state of the job."""

    active: Int32 = 0
    """Number of images whose ImagePullJob is running."""
    completed: Int32 = 0
    """Number of images whose ImagePullJob has ended."""
    completion_time: Time | None = None
    """Time at which the job ended."""
    desired: Count = 0
    """Number of images to pull."""
    failed_image_statuses: list[FailedImageStatus] | None = None
    """Images that could not be pulled to every node."""
    start_time: Time | None = None
    """Time at which the controller first saw the job."""
    succeeded: Int32 = 0
    """Number of images that were pulled to every node."""


class ImageListPullJob(ApiObject, frozen=True, kw_only=True):
    """Pulls several images to nodes before pods on these nodes need the images."""

    api_version: str = IMAGE_LIST_PULL_JOBS.api_version
    kind: str = IMAGE_LIST_PULL_JOBS.kind
    spec: ImageListPullJobSpec | None = None
    status: ImageListPullJobStatus | None = None
