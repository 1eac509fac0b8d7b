"""Which entries of a NodeImage stay: those that something still wants.

Snapshot ──▶ kept_images() ──▶ Kept: images as they are to be, and when time alone changes that

Pure. An entry stays beyond its time to live while a job that ends wants it and has not ended: else the first nodes of
a long job would pull again while its last ones wait. A reference goes when its job is gone, is another one of that
name, or is for another image now. What was written by hand, or for others, is never taken away but by its time to live.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.kinds.nodeimage.snapshot import NodeImageSnapshot
from pykruise.kube.ids import Key
from pykruise.kube.schemas.types import ObjectReference
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import ImageSpec, SecretReference, TagSpec
from pykruise.pods.images.node_images import instant_of, is_over
from pykruise.pods.images.pull_jobs import is_pull_job


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Remaining entries."""

    images: Mapping[str, ImageSpec]
    """Images by name; an unchanged image is the same value as before."""
    look_again: Sequence[float] = ()
    """Seconds until something more goes."""
    because: str = ""
    """Why something changes; empty: all stays."""


def kept_images(snapshot: NodeImageSnapshot) -> Kept:
    """The images without what nothing wants any more; tags in order."""
    images: dict[str, ImageSpec] = {}
    reasons: list[str] = []
    look_again: list[float] = []
    for name, image in snapshot.node_image.images.items():
        tags = [
            kept
            for tag in image.tags
            if (kept := _kept(ImageName(name, tag.tag), tag, snapshot, look_again, reasons)) is not None
        ]
        if not tags:
            reasons.append(f"nothing wants image {name} any more")
            continue
        tags.sort(key=lambda tag: tag.tag)
        named = list(image.pull_secrets or ())
        secrets = _kept_secrets(named, snapshot)
        if tags == image.tags and secrets == named:
            images[name] = image
            continue
        reasons.append("a secret is gone" if secrets != named else "its tags are put in order")
        images[name] = msgspec.structs.replace(image, tags=tags, pull_secrets=secrets or None)
    return Kept(images=images, look_again=look_again, because=reasons[0] if reasons else "")


def _kept(
    image: ImageName, entry: TagSpec, snapshot: NodeImageSnapshot, look_again: list[float], reasons: list[str]
) -> TagSpec | None:
    if not entry.created_at:
        reasons.append(f"{image.reference} does not say since when it is asked for")
        return None
    owners = [ref for ref in entry.owner_references or () if _is_owner(ref, image, snapshot)]
    if entry.owner_references and not owners:
        reasons.append(f"its jobs want {image.reference} no more")
        return None
    left = _time_left(image, entry, snapshot)
    if left is not None and not any(_goes_on(ref, snapshot) for ref in owners):
        if left <= 0:
            reasons.append(f"{image.reference} was pulled ttlSecondsAfterFinished ago")
            return None
        look_again.append(left)
    if len(owners) < len(entry.owner_references or ()):
        reasons.append(f"a job wants {image.reference} no more")
        return msgspec.structs.replace(entry, owner_references=owners)
    return entry


def _is_owner(ref: ObjectReference, image: ImageName, snapshot: NodeImageSnapshot) -> bool:
    """Whether the reference stays."""
    key = Key(ref.namespace, ref.name)
    if not is_pull_job(ref) or key not in snapshot.jobs:
        return True
    job = snapshot.jobs[key]
    return job is not None and job.uid == ref.uid and job.image in (None, image)


def _goes_on(ref: ObjectReference, snapshot: NodeImageSnapshot) -> bool:
    """Whether the reference is of a job that ends, and has not ended yet."""
    if not is_pull_job(ref):
        return False
    job = snapshot.jobs.get(Key(ref.namespace, ref.name))
    return job is not None and job.ends and job.is_active


def _time_left(image: ImageName, entry: TagSpec, snapshot: NodeImageSnapshot) -> float | None:
    """Seconds that an entry that has ended may still stay; None: as long as it is wanted."""
    ttl = entry.pull_policy.ttl_seconds_after_finished if entry.pull_policy else None
    status = snapshot.node_image.statuses.get(image)
    if ttl is None or status is None or not is_over(entry, status):
        return None
    ended_at = instant_of(status.completion_time)
    return None if ended_at is None else ended_at + ttl - snapshot.now


def _kept_secrets(secrets: Sequence[SecretReference], snapshot: NodeImageSnapshot) -> list[SecretReference]:
    return [
        secret
        for secret in secrets
        if secret.mode or Key(secret.namespace, secret.name) not in snapshot.missing_secrets
    ]
