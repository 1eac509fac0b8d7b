"""How a try to pull an image ended, on a real node or on a simulated one. Pure."""

import msgspec

__all__ = ["PullFailure", "Pulled"]


class Pulled(msgspec.Struct, frozen=True):
    """The image is on the node."""

    image_id: str
    """As runtimes report it: `docker.io/library/nginx@sha256:<64 hex digits>`."""


class PullFailure(msgspec.Struct, frozen=True):
    """The image cannot be had: `reason` is what a container waits with at first."""

    reason: str
    """`ErrImagePull` (tried again with backoff) or `InvalidImageName` (never tried)."""
    message: str
