"""Parts of a NodeImage, which the kinds about images share: what is to be on a node, and what is.

kinds/nodeimage, kinds/imagepulljob ──▶ these ──▶ node_images.py (how decisions see them)
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
    """How often and how long pulling is tried, and when the entry goes."""

    active_deadline_seconds: Int64 | None = None
    """Seconds after which pulling has failed; no deadline by default."""
    backoff_limit: Int32 | None = None
    """Tries after the first one; 3 by default."""
    timeout_seconds: Int32 | None = None
    """Seconds that one try may take; 600 by default."""
    ttl_seconds_after_finished: Int32 | None = None
    """Seconds after the end at which the entry is removed. Must be given."""


class TagSpec(Typed, frozen=True, kw_only=True):
    """One tag that is to be on the node."""

    created_at: Time | None = None
    """When the entry was made. Admission adds it."""
    image_pull_policy: str = ""
    """IfNotPresent skips an image that is present; Always, or empty, pulls it."""
    owner_references: list[Annotated[ObjectReference, schema(map_type="atomic")]] | None = None
    """The ImagePullJobs that want the entry."""
    pull_policy: TagPullPolicy | None = None
    tag: str
    """The tag, or the digest."""
    version: Int64 = 0
    """Raised to have the tag pulled again."""


class LegacySecretReference(Typed, frozen=True, kw_only=True):
    """A secret for pulling."""

    name: str = ""
    """Name of the secret."""
    namespace: str = ""
    """Namespace of the secret."""


class SecretReference(LegacySecretReference, frozen=True, kw_only=True):
    """A secret for pulling."""

    mode: str = ""
    """batch for a secret that was copied for all jobs together; empty for one named by itself."""


class CommonImageSpec(Typed, frozen=True, kw_only=True):
    """One image: the fields that all versions have."""

    sandbox_config: SandboxConfig | None = None
    tags: list[TagSpec]
    """Tags of the image, sorted."""


class ImageSpec(CommonImageSpec, frozen=True, kw_only=True):
    """One image that is to be on the node."""

    pull_secrets: list[SecretReference] | None = None
    """Secrets for pulling the image."""


class NodeImageSpec(Typed, frozen=True, kw_only=True):
    """Desired state of the node's images."""

    images: dict[str, ImageSpec] | None = None
    """Images by name without tag; up to 256."""


class TagStatus(Typed, frozen=True, kw_only=True):
    """How far one tag is."""

    completion_time: Time | None = None
    """When pulling ended."""
    image_id: str = msgspec.field(name="imageID", default="")
    """Image ID of the container runtime."""
    message: str = ""
    """Details for people."""
    phase: str
    """Waiting, Pulling, Succeeded or Failed."""
    progress: Int32 = 0
    """Percentage; may fall when pulling starts over."""
    start_time: Time | None = None
    """When pulling began."""
    tag: str
    """The tag, or the digest."""
    version: Int64 = 0
    """Version of the entry that this is about."""


class ImageStatus(Typed, frozen=True, kw_only=True):
    """How far one image is."""

    tags: list[TagStatus]
    """Statuses by tag."""


class FirstSyncStatus(Typed, frozen=True, kw_only=True):
    """How the node's first look at its images went."""

    message: str = ""
    """Details for people."""
    status: str = ""
    """Succeeded or Failed."""
    sync_at: Time | None = None
    """When it was."""


class NodeImageStatus(Status, frozen=True, kw_only=True):
    """Observed state of the node's images."""

    desired: Count = 0
    """Tags that are to be there."""
    failed: Int32 = 0
    """Tags whose pulling failed."""
    first_sync_status: FirstSyncStatus | None = None
    image_statuses: dict[str, ImageStatus] | None = None
    """How far each image is, by name without tag."""
    pulling: Int32 = 0
    """Tags that are being pulled."""
    succeeded: Int32 = 0
    """Tags that are there."""
    waiting: Int32 = 0
    """Tags that wait for their turn."""
