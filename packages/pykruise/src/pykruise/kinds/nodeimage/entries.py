"""Entries of a NodeImage that are still needed. All other entries are removed.

NodeImageSnapshot ──▶ list_kept_images() ──▶ Kept: the images that are kept, and when entries expire

Pure. While a job whose type is not Never runs, its entries are kept even after their time to live. Otherwise the first
nodes of a long job would pull again before its last nodes have pulled. A reference to a job is removed if the job was
deleted, if its name belongs to a new job, or if the job now pulls another image. An entry without references, which a
user or another program wrote, is removed only after its time to live.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.kinds.nodeimage.snapshot import NodeImageSnapshot
from pykruise.kube.clock import parse_optional_time
from pykruise.kube.ids import Key
from pykruise.kube.schemas.types import ObjectReference
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import ImageSpec, SecretReference, TagSpec
from pykruise.pods.images.node_images import is_over
from pykruise.pods.images.pull_jobs import is_pull_job


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that are kept."""

    images: Mapping[str, ImageSpec]
    """Name of each image that is kept → the image. An unchanged image is the same Python object as before."""
    look_again: Sequence[float] = ()
    """Times of the next expiries, each in seconds from now."""
    because: str = ""
    """Reason for a change; empty if nothing changes."""


def list_kept_images(snapshot: NodeImageSnapshot) -> Kept:
    """Return the images without the entries that are no longer needed. Tags are sorted."""
    images: dict[str, ImageSpec] = {}
    reasons: list[str] = []
    look_again: list[float] = []
    for name, image in snapshot.node_image.images.items():
        tags = [
            kept
            for tag in image.tags
            if (kept := _keep_entry(ImageName(name, tag.tag), tag, snapshot, look_again, reasons)) is not None
        ]
        if not tags:
            reasons.append(f"no job requests image {name}")
            continue
        tags.sort(key=lambda tag: tag.tag)
        named = list(image.pull_secrets or ())
        secrets = _keep_secrets(named, snapshot)
        if tags == image.tags and secrets == named:
            images[name] = image
            continue
        reasons.append("a pull secret was removed" if secrets != named else "its tags are sorted")
        images[name] = msgspec.structs.replace(image, tags=tags, pull_secrets=secrets or None)
    return Kept(images=images, look_again=look_again, because=reasons[0] if reasons else "")


def _keep_entry(
    image: ImageName, entry: TagSpec, snapshot: NodeImageSnapshot, look_again: list[float], reasons: list[str]
) -> TagSpec | None:
    if not entry.created_at:
        reasons.append(f"the entry of {image.reference} has no createdAt")
        return None
    owners = [ref for ref in entry.owner_references or () if _is_owner(ref, image, snapshot)]
    if entry.owner_references and not owners:
        reasons.append(f"its jobs no longer request {image.reference}")
        return None
    left = _compute_time_left(image, entry, snapshot)
    if left is not None and not any(_is_running(ref, snapshot) for ref in owners):
        if left <= 0:
            reasons.append(f"ttlSecondsAfterFinished has passed since {image.reference} was pulled")
            return None
        look_again.append(left)
    if len(owners) < len(entry.owner_references or ()):
        reasons.append(f"a job no longer requests {image.reference}")
        return msgspec.structs.replace(entry, owner_references=owners)
    return entry


def _is_owner(ref: ObjectReference, image: ImageName, snapshot: NodeImageSnapshot) -> bool:
    """Whether the reference is kept."""
    key = Key(ref.namespace, ref.name)
    if not is_pull_job(ref) or key not in snapshot.jobs:
        return True
    job = snapshot.jobs[key]
    return job is not None and job.uid == ref.uid and job.image in (None, image)


def _is_running(ref: ObjectReference, snapshot: NodeImageSnapshot) -> bool:
    """Whether the reference is to a running job whose type is not Never."""
    if not is_pull_job(ref):
        return False
    job = snapshot.jobs.get(Key(ref.namespace, ref.name))
    return job is not None and job.ends and job.is_active


def _compute_time_left(image: ImageName, entry: TagSpec, snapshot: NodeImageSnapshot) -> float | None:
    """Return the seconds until the entry's time to live has passed; None if it does not apply (yet)."""
    ttl = entry.pull_policy.ttl_seconds_after_finished if entry.pull_policy else None
    status = snapshot.node_image.statuses.get(image)
    if ttl is None or status is None or not is_over(entry, status):
        return None
    ended_at = parse_optional_time(status.completion_time)
    return None if ended_at is None else ended_at + ttl - snapshot.now


def _keep_secrets(secrets: Sequence[SecretReference], snapshot: NodeImageSnapshot) -> list[SecretReference]:
    return [
        secret
        for secret in secrets
        if secret.mode or Key(secret.namespace, secret.name) not in snapshot.missing_secrets
    ]
