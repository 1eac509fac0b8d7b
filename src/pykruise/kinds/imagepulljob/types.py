"""The ImagePullJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ ImagePullJob ──▶ snapshot, plan; and by the same types ──▶ crd.py (its schema)
"""

from pykruise.kube.api import ApiObject, Count, Int32, Status, Time
from pykruise.pods.image_api import PullSpec
from pykruise.pods.image_pull_jobs import IMAGE_PULL_JOBS

__all__ = ["IMAGE_PULL_JOBS", "ImagePullJob", "ImagePullJobSpec", "ImagePullJobStatus"]


class ImagePullJobSpec(PullSpec, frozen=True, kw_only=True):
    """What is wanted."""

    image: str
    """The image, as a container names it."""


class ImagePullJobStatus(Status, frozen=True, kw_only=True):
    """What is."""

    active: Int32 = 0
    """Nodes that are pulling."""
    completion_time: Time | None = None
    """When the job ended."""
    desired: Count = 0
    """Nodes that are to have the image."""
    failed: Int32 = 0
    """Nodes where pulling failed."""
    failed_nodes: list[str] | None = None
    """Names of the nodes where pulling failed."""
    message: str = ""
    """Details for people."""
    start_time: Time | None = None
    """When the job was first seen."""
    succeeded: Int32 = 0
    """Nodes that have the image."""


class ImagePullJob(ApiObject, frozen=True, kw_only=True):
    """Pulls an image to nodes before pods need it there."""

    api_version: str = IMAGE_PULL_JOBS.api_version
    kind: str = IMAGE_PULL_JOBS.kind
    spec: ImagePullJobSpec | None = None
    status: ImagePullJobStatus | None = None
