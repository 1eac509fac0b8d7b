"""Results of an attempt to pull an image, on a real or a simulated node. Pure."""

import msgspec

__all__ = ["PullFailure", "Pulled"]


class Pulled(msgspec.Struct, frozen=True):
    """The image is on the node."""

    image_id: str
    """Id of the image as runtimes report it: `docker.io/library/nginx@sha256:<64 hex digits>`."""


class PullFailure(msgspec.Struct, frozen=True):
    """The image cannot be pulled; `reason` is the first waiting reason of the container."""

    reason: str
    """`ErrImagePull` (tried again with backoff) or `InvalidImageName` (not tried)."""
    message: str
