"""The ImagePullJob kind in its hub version, v1beta1: every field, typed. v1alpha1 has the same fields.

JSON of the API server ──▶ ImagePullJob ──▶ snapshot, plan; the same types ──▶ kind.py (its schema)
"""

from pykruise.kube.schemas.types import ApiObject
from pykruise.pods.images.api import ImagePullJobSpec, ImagePullJobStatus
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS

__all__ = ["IMAGE_PULL_JOBS", "ImagePullJob", "ImagePullJobSpec", "ImagePullJobStatus"]


class ImagePullJob(ApiObject, frozen=True, kw_only=True):
    """Pulls an image to nodes before pods on these nodes need the image."""

    api_version: str = IMAGE_PULL_JOBS.api_version
    kind: str = IMAGE_PULL_JOBS.kind
    spec: ImagePullJobSpec | None = None
    status: ImagePullJobStatus | None = None
