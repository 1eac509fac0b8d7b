"""Parts of a NodeImage that the kinds about images share: the desired and the observed images of a node.

kinds/nodeimage, kinds/imagepulljob ──▶ these types ──▶ node_images.py (the view that decisions use)
"""

from typing import Annotated

import msgspec

from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.kube.schemas.crds import schema
from pykruise.kube.schemas.types import Count, Int32, Int64, ObjectReference, Status, Time, Typed
from pykruise.pods.images.api import SandboxConfig

__all__ = [
    "NODE_IMAGES",
    "CommonImageSpec",
    "FirstSyncStatus",
    "ImageSpec",
    "ImageStatus",
    "LegacySecretReference",
    "NodeImageSpec",
    "NodeImageStatus",
    "SecretReference",
    "TagPullPolicy",
    "TagSpec",
    "TagStatus",
]


class TagPullPolicy(Typed, frozen=True, kw_only=True):
    """Limits of the attempts to pull a tag, and the lifetime of its entry."""

    active_deadline_seconds: Int64 | None = None
    """Seconds after which pulling fails. No deadline by default."""
    backoff_limit: Int32 | None = None
    """Number of retries after the first attempt. Defaults to 3."""
    timeout_seconds: Int32 | None = None
    """Timeout of one attempt in seconds. Defaults to 600."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after the end of the pull at which the entry is removed. Required."""


class TagSpec(Typed, frozen=True, kw_only=True):
    """A tag that should be present on the node."""

    created_at: Time | None = None
    """Time when the entry was created. Admission sets it."""
    image_pull_policy: str = ""
    """IfNotPresent skips an image that is present. Always, or an empty value, pulls the image even if it is present."""
    owner_references: list[Annotated[ObjectReference, schema(map_type="atomic")]] | None = None
    """ImagePullJobs that requested the tag."""
    pull_policy: TagPullPolicy | None = None
    tag: str
    """Tag or digest of the image."""
    version: Int64 = 0
    """Version of the request. A higher version pulls the tag again."""


class LegacySecretReference(Typed, frozen=True, kw_only=True):
    """Reference to a pull secret."""

    name: str = ""
    """Name of the secret."""
    namespace: str = ""
    """Namespace of the secret."""


class SecretReference(LegacySecretReference, frozen=True, kw_only=True):
    """Reference to a pull secret."""

    mode: str = ""
    """batch: the secret is a copy for all jobs that use the same original. Empty for any other secret."""


class CommonImageSpec(Typed, frozen=True, kw_only=True):
    """An image: the fields that all versions have."""

    sandbox_config: SandboxConfig | None = None
    tags: list[TagSpec]
    """Tags of the image, sorted."""


class ImageSpec(CommonImageSpec, frozen=True, kw_only=True):
    """An image that should be present on the node."""

    pull_secrets: list[SecretReference] | None = None
    """Pull secrets of the image."""


class NodeImageSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the node's images."""

    images: dict[str, ImageSpec] | None = None
    """Images by name without tag, at most 256."""


class TagStatus(Typed, frozen=True, kw_only=True):
    """Observed state of one tag."""

    completion_time: Time | None = None
    """Time when pulling ended."""
    image_id: str = msgspec.field(name="imageID", default="")
    """ID of the image in the container runtime."""
    message: str = ""
    """Human-readable details."""
    phase: str
    """Waiting, Pulling, Succeeded or Failed."""
    progress: Int32 = 0
    """Progress of the pull in percent. It may fall when pulling starts over."""
    start_time: Time | None = None
    """Time when pulling began."""
    tag: str
    """Tag or digest of the image."""
    version: Int64 = 0
    """Version of the entry that this status describes."""


class ImageStatus(Typed, frozen=True, kw_only=True):
    """Observed state of one image."""

    tags: list[TagStatus]
    """Statuses by tag."""


class FirstSyncStatus(Typed, frozen=True, kw_only=True):
    """Result of the node's first synchronization of its images."""

    message: str = ""
    """Human-readable details."""
    status: str = ""
    """Succeeded or Failed."""
    sync_at: Time | None = None
    """Time of the synchronization."""


class NodeImageStatus(Status, frozen=True, kw_only=True):
    """Observed state of the node's images."""

    desired: Count = 0
    """Tags that should be present."""
    failed: Int32 = 0
    """Tags whose pulling failed."""
    first_sync_status: FirstSyncStatus | None = None
    image_statuses: dict[str, ImageStatus] | None = None
    """Observed state of each image, by name without tag."""
    pulling: Int32 = 0
    """Tags that are being pulled."""
    succeeded: Int32 = 0
    """Tags that are present."""
    waiting: Int32 = 0
    """Tags whose pull has not started yet."""
