"""Why a node does not have an image that is requested on it. NodeImages and the jobs that request images share these
reasons.

NodeImageView + image + now ──▶ obstacle_of() ──▶ Reason; None: the image is present or not requested

Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pykruise.kube.clock import Instant, parse_optional_time
from pykruise.kube.ids import Key
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.corrections import create_pull_secret
from pykruise.pods.images.node_image_api import TagSpec, TagStatus
from pykruise.pods.images.node_images import FAILED, NodeImageView, is_over
from pykruise.pods.reasons import NEEDS_A_PERSON, Code
from pykruise.pods.workload.waiting import find_first_shared
from pykruise.runtime.reasons import Reason

ANSWERS_IN_S: Final = 60.0
"""Seconds within which a working agent begins to pull a requested image."""

_AGENT: Final = "start the agent on node {}, or bring the node back"
IMAGE_REMEDY: Final = (
    "make the image available, or correct the image or its pull secrets; then create the job again"
)
"""Remedy of a pull that has ended."""
_WHILE_IT_TRIES: Final = (
    "if that lasts, make the image available, or create the job again with the right image and pull secrets"
)


def obstacle_of(
    node: NodeImageView,
    image: ImageName,
    *,
    now: Instant,
    secrets: Sequence[str] = (),
    missing: Sequence[Key] = (),
) -> Reason | None:
    """Obstacle of an entry that has not succeeded. `secrets`: pull secrets of the job that requested it; `missing`:
    those that do not exist, in the job's namespace.
    """
    entry, status = node.find_entry(image), node.statuses.get(image)
    if entry is None:
        return None
    if status is not None and is_over(entry, status):
        if status.phase != FAILED:
            return None
        if entry.owner_references:
            return _explain_failure(entry, status, image, secrets=secrets, missing=missing)
        listed = node.images[image.name].pull_secrets or ()
        names = [f"{secret.namespace}/{secret.name}" for secret in listed]
        failure = _explain_failure(entry, status, image, secrets=names, missing=())
        words = failure.message if names else f"{failure.message}; {_NO_SECRET}"
        remedy = _describe_remedy_without_job(entry, status, node.name, image, has_secrets=bool(names))
        return Reason(failure.code, words, remedy)
    if status is None or not _has_begun(entry, status):
        late_at = _find_late_time(entry)
        if late_at is not None and now >= late_at:
            words = f"the agent of node {node.name} has not answered since {entry.created_at}"
            return Reason(Code.NO_AGENT, words, _AGENT.format(node.name))
        return Reason(
            Code.IMAGE_PULLING,
            f"the pull was requested at {entry.created_at}; the agent has not answered yet",
        )
    if status.message:  # the agent tries again
        words = f"image {image.reference} is not pulled yet: {status.message}"
        if not entry.owner_references:
            remedy = f"if that lasts, {_describe_remedy_without_job(entry, status, node.name, image)}"
            return Reason(Code.IMAGE_PULLING, words, remedy)
        return Reason(Code.IMAGE_PULLING, words, f"{_WHILE_IT_TRIES}{_offer_more_time(entry, status, now)}")
    return Reason(Code.IMAGE_PULLING, status.phase)


def _offer_more_time(entry: TagSpec, status: TagStatus, now: Instant) -> str:
    """Return another instruction for an image that is pulled again: a longer timeout, if a try can have reached it."""
    policy, begun = entry.pull_policy, parse_optional_time(status.start_time)
    timeout_s = policy.timeout_seconds if policy is not None else None
    if not timeout_s or begun is None or now < begun + timeout_s:
        return ""
    longer = "create the job again with a higher pullPolicy.timeoutSeconds"
    return f"; or if a pull takes longer than {timeout_s} s, {longer}"


def _explain_failure(
    entry: TagSpec,
    status: TagStatus,
    image: ImageName,
    *,
    secrets: Sequence[str],
    missing: Sequence[Key],
) -> Reason:
    """Return the obstacle of a pull that failed: the limit that ended it, a missing secret, or the agent's message."""
    said = status.message or "the agent reported no reason"
    if (ended := _find_ending_limit(entry, status)) is not None:
        limit, seconds = ended
        words = f"image {image.reference} was not pulled within {limit} ({seconds} s): {said}"
        return Reason(Code.IMAGE_PULL, words, remedy_of_limit(limit))
    present = [name for name in secrets if name not in {key.name for key in missing}]
    given = f", with pull secrets {', '.join(present)}" if present else ""
    words = f"image {image.reference} cannot be pulled{given}: {said}"
    if missing:
        names = " and ".join(f"secret {key.name} in namespace {key.namespace}" for key in missing)
        created = " and ".join(
            f"secret {key.name} ({create_pull_secret(key.namespace, key.name)})" for key in missing
        )
        return Reason(
            Code.IMAGE_PULL, f"{words}; there is no {names}", f"create {created}, then create the job again"
        )
    return Reason(Code.IMAGE_PULL, words, IMAGE_REMEDY)


_NO_SECRET: Final = (
    "it is pulled without a pull secret, because none is listed (the manager removes references to secrets that do not"
    " exist)"
)


def _describe_remedy_without_job(
    entry: TagSpec, status: TagStatus, node: str, image: ImageName, *, has_secrets: bool = True
) -> str:
    """Return the remedy for an entry that no job requested: a person wrote it into the NodeImage."""
    tag = f"tag {image.tag} of {image.name} in NodeImage {node}"
    if (ended := _find_ending_limit(entry, status)) is not None:
        field = f"pullPolicy.{ended[0].rpartition('.')[2]}"
        return f"raise {field} of {tag}, and raise version of this tag by 1{_PULLS_AGAIN.format(node)}"
    login = (
        ""
        if has_secrets
        else f"; if the registry requires a login, create the secret before you list it in pullSecrets of {image.name}"
    )
    return (
        f"make the image available, or correct {tag}{login}; then raise version of this tag by 1"
        f"{_PULLS_AGAIN.format(node)}"
    )


_PULLS_AGAIN: Final = ": a node pulls again only for a higher version (kubectl edit nodeimage {})"


def remedy_of_limit(field: str) -> str:
    """Return the remedy for a pull that a limit of its job has ended."""
    return f"create the job again with a higher {field}: the pull takes longer than this limit"


def _find_ending_limit(entry: TagSpec, status: TagStatus) -> tuple[str, int] | None:
    """Return the field of a job and its value, when the pull ended because it took so long. None if the pull ended for
    another reason.
    """
    policy, begun, ended = (
        entry.pull_policy,
        parse_optional_time(status.start_time),
        parse_optional_time(status.completion_time),
    )
    if policy is None or begun is None or ended is None:
        return None
    deadline_s, timeout_s = policy.active_deadline_seconds, policy.timeout_seconds
    retries = max(policy.backoff_limit or 0, 0)
    if timeout_s and ended - begun >= timeout_s * (retries + 1):
        return "pullPolicy.timeoutSeconds", timeout_s
    if deadline_s and ended - begun >= deadline_s:
        return "completionPolicy.activeDeadlineSeconds", deadline_s
    return None


def _find_late_time(entry: TagSpec) -> Instant | None:
    """Time from which an agent that has not begun with the entry is late; None if the entry has no valid creation
    time.
    """
    asked_at = parse_optional_time(str(entry.created_at or ""))
    return None if asked_at is None else asked_at + ANSWERS_IN_S


def find_next_late_time(asked: Iterable[tuple[NodeImageView, ImageName]], *, now: Instant) -> Instant | None:
    """Earliest time at which an agent that has not begun with an image becomes late; None if there is no such time."""
    times = (
        time
        for node, image in asked
        if (entry := node.find_entry(image)) is not None and not _has_begun(entry, node.statuses.get(image))
        if (time := _find_late_time(entry)) is not None and time > now
    )
    return min(times, default=None)


def _has_begun(entry: TagSpec, status: TagStatus | None) -> bool:
    return status is not None and status.version == entry.version


def find_first_obstacle(obstacles: dict[str, Reason]) -> Reason | None:
    """First obstacle on a job's nodes that needs a person, with the number of nodes that share it, or None."""
    return find_first_shared(
        [
            (f"node {node}", obstacle)
            for node, obstacle in obstacles.items()
            if obstacle.code in NEEDS_A_PERSON
        ]
    )
