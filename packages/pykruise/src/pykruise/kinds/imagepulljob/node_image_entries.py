"""Requests to nodes to pull an image. Each request is one patch of a NodeImage.

NodeImage + job     ──▶ build_entry_patch()   ──▶ a new entry, or the existing entry with a higher version
NodeImage + secrets ──▶ build_secrets_patch() ──▶ the existing entry with further secrets

Pure. Several jobs can share an entry; each limit is the larger value of these jobs. The patch removes references to
deleted jobs. It increases the version of the entry, so that the node pulls again and the earlier result is ignored.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import msgspec

from pykruise.kinds.imagepulljob.snapshot import ReadableImagePullJob
from pykruise.kube.clock import format_time
from pykruise.kube.documents import Document
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.schemas.types import ObjectReference
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.api import ImagePullJobSpec, SandboxConfig
from pykruise.pods.images.node_image_api import (
    NODE_IMAGES,
    ImageSpec,
    SecretReference,
    TagPullPolicy,
    TagSpec,
)
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.images.pull_rules import BACKOFF_LIMIT, TIMEOUT_S
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Chain, Step

DAY_S: Final = 86_400
SPREAD_S: Final = 300
DAILY_SPREAD_S: Final = 1200
"""Seconds over which the daily pulls of a job that never ends are distributed: the time between the first and the last
expiry of its entries.
"""
LARGEST: Final = 2**31 - 1
LEAST_DEADLINE_S: Final = 1800
"""Minimum deadline in seconds for the pulls of a job that never ends."""


def build_entry_patch(
    node: NodeImageView, snapshot: ReadableImagePullJob, image: ImageName, secrets: Sequence[SecretReference]
) -> Chain:
    """Return the patch that requests a pull from a node whose NodeImage has no entry of this job."""
    job = snapshot.job
    before = node.images.get(image.name)
    entry = node.find_entry(image)
    wanted = _raise_entry(entry, node, snapshot) if entry is not None else _build_entry(node, snapshot, image)
    others = [tag for tag in (before.tags if before else ()) if tag.tag != image.tag]
    after = ImageSpec(
        pull_secrets=_merge_secrets(before, secrets),
        sandbox_config=_merge_sandbox(
            before, job.spec.sandbox_config, is_shared=bool(others or _find_sharers(entry, snapshot))
        ),
        tags=sorted([*others, wanted], key=lambda tag: tag.tag),
    )
    return _patch_image(node, image, before, after, f"a job requests image {image.reference}")


def lacks_secrets(node: NodeImageView, image: ImageName, secrets: Sequence[SecretReference]) -> bool:
    """Whether the NodeImage lacks references to some of these secrets. It must contain the image."""
    before = node.images[image.name]
    return len(_merge_secrets(before, secrets) or ()) > len(before.pull_secrets or ())


def build_secrets_patch(node: NodeImageView, image: ImageName, secrets: Sequence[SecretReference]) -> Chain:
    """Return the patch that adds secrets to an existing request."""
    before = node.images[image.name]
    after = msgspec.structs.replace(before, pull_secrets=_merge_secrets(before, secrets))
    return _patch_image(node, image, before, after, "a pull secret was added")


def _patch_image(
    node: NodeImageView, image: ImageName, before: ImageSpec | None, after: ImageSpec, because: str
) -> Chain:
    changes: Document = diff_merge(
        msgspec.to_builtins(before) if before is not None else {}, msgspec.to_builtins(after)
    )
    action = patch_object(NODE_IMAGES, node, {"spec": {"images": {image.name: changes}}}, unchanged=True)
    return Chain(subject=node.name, steps=(Step(action=action, because=because),))


# ── the entry ────────────────────────────────────────────────────────────────


def _build_entry(node: NodeImageView, snapshot: ReadableImagePullJob, image: ImageName) -> TagSpec:
    """Return a new entry. Its version differs from the version in an existing status of the node."""
    job, left = snapshot.job, node.statuses.get(image)
    return TagSpec(
        tag=image.tag,
        version=left.version + 1 if left is not None else 0,
        pull_policy=policy_of(job.spec, snapshot, seed=f"{job.uid}/{node.name}"),
        owner_references=[_build_reference(job)],
        created_at=format_time(snapshot.now),
        image_pull_policy=job.spec.image_pull_policy,
    )


def _raise_entry(entry: TagSpec, node: NodeImageView, snapshot: ReadableImagePullJob) -> TagSpec:
    job = snapshot.job
    sharers = _find_sharers(entry, snapshot)
    policy = policy_of(job.spec, snapshot, seed=f"{job.uid}/{node.name}")
    if entry.pull_policy is not None and not all(_is_replaced(ref, snapshot) for ref in sharers):
        policy = _merge_limits(entry.pull_policy, policy)
    return msgspec.structs.replace(
        entry,
        version=entry.version + 1,
        pull_policy=policy,
        owner_references=[*sharers, _build_reference(job)],
        created_at=format_time(snapshot.now),
        image_pull_policy=job.spec.image_pull_policy,
    )


def _find_sharers(entry: TagSpec | None, snapshot: ReadableImagePullJob) -> list[ObjectReference]:
    """Return the references to other jobs that share the entry, without references to deleted jobs."""
    references = (entry.owner_references if entry is not None else None) or ()
    gone = {uid for uid, job in snapshot.others.items() if job is None}
    return [ref for ref in references if ref.uid not in gone]


def _is_replaced(ref: ObjectReference, snapshot: ReadableImagePullJob) -> bool:
    """Whether the referenced job has the same controller as this job. In this case, this job replaces the referenced
    job, whose limits do not apply any more.
    """
    other = snapshot.others.get(ref.uid)
    return other is not None and other.controller_uid == snapshot.job.controller_uid != ""


def _build_reference(job: PullJobView) -> ObjectReference:
    return ObjectReference(
        api_version=IMAGE_PULL_JOBS.api_version,
        kind=IMAGE_PULL_JOBS.kind,
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
    )


def policy_of(spec: ImagePullJobSpec, snapshot: ReadableImagePullJob, *, seed: str) -> TagPullPolicy:
    """Return the pull policy of an entry, with a time to live. `seed` lets the time to live differ by some minutes
    between entries.
    """
    given = spec.pull_policy
    timeout_s = TIMEOUT_S if given is None or given.timeout_seconds is None else given.timeout_seconds
    retries = BACKOFF_LIMIT if given is None or given.backoff_limit is None else given.backoff_limit
    done = spec.completion_policy
    fraction = crc32(seed.encode()) / 2**32
    if done.type == "Never":
        ttl_s = DAY_S - DAILY_SPREAD_S // 2 + int(DAILY_SPREAD_S * fraction)
        deadline_s: int | None = max(LEAST_DEADLINE_S, timeout_s)
    else:
        bases = (done.ttl_seconds_after_finished, done.active_deadline_seconds, timeout_s * max(retries, 0))
        base_s = next(base for base in bases if base is not None)
        ttl_s = base_s + snapshot.settings.default_ttl_s + int(SPREAD_S * fraction)
        deadline_s = done.active_deadline_seconds
    return TagPullPolicy(
        timeout_seconds=timeout_s,
        backoff_limit=retries,
        ttl_seconds_after_finished=min(max(ttl_s, 0), LARGEST),
        active_deadline_seconds=deadline_s,
    )


def _merge_limits(tag_pull_policy: TagPullPolicy, other: TagPullPolicy) -> TagPullPolicy:
    """Return the larger value of each limit. If one policy has no deadline, the result has no deadline."""
    deadlines = (tag_pull_policy.active_deadline_seconds, other.active_deadline_seconds)
    return TagPullPolicy(
        timeout_seconds=_compute_largest(tag_pull_policy.timeout_seconds, other.timeout_seconds),
        backoff_limit=_compute_largest(tag_pull_policy.backoff_limit, other.backoff_limit),
        ttl_seconds_after_finished=_compute_largest(
            tag_pull_policy.ttl_seconds_after_finished, other.ttl_seconds_after_finished
        ),
        active_deadline_seconds=None if None in deadlines else _compute_largest(*deadlines),
    )


def _compute_largest(*amounts: int | None) -> int | None:
    """Return the largest limit that is not None; None if all are None."""
    return max((amount for amount in amounts if amount is not None), default=None)


# ── the image ────────────────────────────────────────────────────────────────


def _merge_secrets(
    before: ImageSpec | None, secrets: Sequence[SecretReference]
) -> list[SecretReference] | None:
    """Return the stored references, followed by references to secrets that were missing. The mode of references is not
    compared.
    """
    references = list((before.pull_secrets if before is not None else None) or ())
    known = {(reference.namespace, reference.name) for reference in references}
    references += [secret for secret in secrets if (secret.namespace, secret.name) not in known]
    return references or None


def _merge_sandbox(
    before: ImageSpec | None, wanted: SandboxConfig | None, *, is_shared: bool
) -> SandboxConfig | None:
    """Return the job's sandbox configuration. If other jobs pull the image too, it is added to the stored configuration
    and takes precedence.
    """
    stored = before.sandbox_config if before is not None else None
    if not is_shared or stored is None:
        return wanted
    if wanted is None:
        return stored
    return SandboxConfig(
        annotations={**(stored.annotations or {}), **(wanted.annotations or {})} or None,
        labels={**(stored.labels or {}), **(wanted.labels or {})} or None,
    )
