"""Steps of the node's agent for its NodeImage: pull, retry, give up, report.

NodeImage (wanted) + pulls in progress + now ──▶ advance_pulls() ──▶ pulls, time of the next step ──▶ report_of()

Pure. The rules are those of OpenKruise's kruise-daemon. A pull has at most `backoffLimit` + 1 tries, with pauses of 1,
2, 4 … 30 s. A try takes at most `timeoutSeconds`, and the whole pull at most `activeDeadlineSeconds`. A pull that has
ended is not repeated for the same version. An image that is already on the node is pulled anyway, unless the policy is
IfNotPresent.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.excerpts import fit_status
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.image_pulls import Pulled, PullFailure
from pykruise.kube.values.image_references import ImageName

NODE_IMAGES: Final = Resource("apps.kruise.io", "v1beta1", "nodeimages", "NodeImage", namespaced=False)

NEVER: Instant = math.inf
LONGEST_PAUSE_S = 30.0

STATUS_BURST: Final = 5
STATUS_PER_S: Final = 0.5
"""Maximum number of writes of a NodeImage's status per second. Same value as in OpenKruise's agent."""

QUICK_S: Final = 2.0
"""Seconds. A pull that takes less time is reported only at its end, so it causes one write instead of two."""


# ── requested pulls ──────────────────────────────────────────────────────────


class NodePullPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """Pull policy of one tag. Times in seconds."""

    timeout_seconds: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None


class WantedPull(msgspec.Struct, frozen=True, rename="camel"):
    """A requested tag of an image."""

    tag: str
    version: int = 0
    pull_policy: NodePullPolicy | None = None
    image_pull_policy: str = ""
    owner_references: tuple[dict[str, Any], ...] | None = None

    @property
    def tries(self) -> int:
        limit = self.pull_policy.backoff_limit if self.pull_policy else None
        return (3 if limit is None or limit < 0 else limit) + 1

    @property
    def timeout_s(self) -> float:
        return float((self.pull_policy.timeout_seconds if self.pull_policy else None) or 600)

    @property
    def deadline_s(self) -> float:
        number = self.pull_policy.active_deadline_seconds if self.pull_policy else None
        return NEVER if number is None else float(number)


class SecretName(msgspec.Struct, frozen=True):
    """A secret with credentials."""

    namespace: str = ""
    name: str = ""


class PullSandbox(msgspec.Struct, frozen=True):
    """Facts about the pod that needs the image. The runtime receives them in the pull request."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Image(msgspec.Struct, frozen=True, rename="camel"):
    tags: tuple[WantedPull, ...] | None = None
    pull_secrets: tuple[SecretName, ...] | None = None
    sandbox_config: PullSandbox | None = None


class _Spec(msgspec.Struct, frozen=True):
    images: dict[str, _Image] | None = None


class _TagStatus(msgspec.Struct, frozen=True, rename="camel"):
    tag: str
    phase: str = ""
    version: int = 0
    completion_time: str | None = None


class _ImageStatus(msgspec.Struct, frozen=True):
    tags: tuple[_TagStatus, ...] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    image_statuses: dict[str, _ImageStatus] | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = "0"
    deletion_timestamp: str | None = None


class _NodeImage(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec | None = None
    status: dict[str, Any] | None = None


class AgentNodeImageView(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a NodeImage that its node's agent uses."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    is_deleting: bool = False
    wanted: Mapping[ImageName, WantedPull] = {}
    secrets: Mapping[str, Sequence[SecretName]] = {}
    """The pull secrets, by image without tag."""
    sandboxes: Mapping[str, PullSandbox] = {}
    """The sandbox configuration of the pulls, by image without tag."""
    ended: Mapping[ImageName, int] = {}
    """The version of the pull that has ended, by image with tag."""
    stored_status: Document = {}


_decode = msgspec.json.Decoder(_NodeImage).decode


def project_node_image(raw: bytes | msgspec.Raw) -> AgentNodeImageView:
    """Return the view of a NodeImage's JSON text. Raises msgspec.DecodeError for invalid JSON."""
    node_image = _decode(raw)
    meta, images = node_image.metadata, (node_image.spec.images if node_image.spec else None) or {}
    status = msgspec.convert(node_image.status or {}, _Status)
    return AgentNodeImageView(
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        is_deleting=meta.deletion_timestamp is not None,
        wanted={
            ImageName(name, tag.tag): tag
            for name, image in sorted(images.items())
            for tag in image.tags or ()
        },
        secrets={name: image.pull_secrets for name, image in images.items() if image.pull_secrets},
        sandboxes={name: image.sandbox_config for name, image in images.items() if image.sandbox_config},
        ended={
            ImageName(name, tag.tag): tag.version
            for name, image in (status.image_statuses or {}).items()
            for tag in image.tags or ()
            if tag.completion_time
        },
        stored_status=node_image.status or {},
    )


# ── progress ─────────────────────────────────────────────────────────────────


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one tag."""

    version: int
    phase: str = "Waiting"
    started_at: Instant | None = None
    attempt: int = 0
    """Number of tries, including the current one."""
    attempt_at: Instant = 0.0
    """Start time of the current or next try."""
    is_resting: bool = False
    """Whether the last try has failed and the next one has not begun."""
    message: str = ""
    image_id: str = ""
    completed_at: Instant | None = None


def open_images(view: AgentNodeImageView, pulls: Mapping[ImageName, Pull]) -> set[str]:
    """Return the names (without tags) of the images that must still be pulled."""
    return {
        image.name
        for image, wanted in view.wanted.items()
        if view.ended.get(image) != wanted.version
        and not ((pull := pulls.get(image)) and pull.version == wanted.version and pull.completed_at)
    }


class Attempt(msgspec.Struct, frozen=True):
    """Result of one attempt to pull an image."""

    takes_s: float
    """Seconds that the attempt takes, 0 at least; infinity until that is known."""
    answer: Pulled | PullFailure | None


def advance_pulls(
    pulls: Mapping[ImageName, Pull],
    view: AgentNodeImageView,
    *,
    attempt: Callable[[ImageName, WantedPull, int], Attempt],
    most: int,
    now: Instant,
) -> tuple[dict[ImageName, Pull], Instant]:
    """Return the pulls after all steps that are due until `now`, and the time of the next step (NEVER if none).

    `attempt` returns the result of the n-th try (from 1) of an image; it is called again until the result is known.
    `most`: maximum number of images pulled at the same time; 0: no limit.
    """
    result: dict[ImageName, Pull] = {}
    look_at = NEVER
    for image, wanted in view.wanted.items():
        pull = pulls.get(image)
        if pull is not None and pull.version == wanted.version:
            result[image] = pull
        elif view.ended.get(image) != wanted.version:
            result[image] = Pull(version=wanted.version)
    busy = sum(pull.phase == "Pulling" for pull in result.values())
    # Pulls in progress come first, because a pull that ends makes room for another one.
    for image, pull in sorted(result.items(), key=lambda item: item[1].phase != "Pulling"):
        wanted = view.wanted[image]
        if pull.phase == "Waiting" and (not most or busy < most):
            pull = msgspec.structs.replace(pull, phase="Pulling", started_at=now, attempt=1, attempt_at=now)
            busy += 1
        if pull.phase == "Pulling":
            pull, due = _advance_pull(pull, image, wanted, attempt, now)
            busy -= pull.phase != "Pulling"
            look_at = min(look_at, due)
        result[image] = pull
    waits = any(pull.phase == "Waiting" for pull in result.values())
    return result, now if waits and (not most or busy < most) else look_at


def _advance_pull(
    pull: Pull,
    image: ImageName,
    wanted: WantedPull,
    attempt: Callable[[ImageName, WantedPull, int], Attempt],
    now: Instant,
) -> tuple[Pull, Instant]:
    pull = _correct_times(pull, now)
    assert pull.started_at is not None
    ends_at = pull.started_at + wanted.deadline_s
    while True:
        if pull.is_resting:
            if now < pull.attempt_at:
                return pull, pull.attempt_at
            pull = msgspec.structs.replace(pull, is_resting=False)
        if pull.attempt_at >= ends_at:
            return _fail(pull, pull.attempt_at, "pulling exceeds the activeDeadlineSeconds"), NEVER
        becomes = attempt(image, wanted, pull.attempt)
        longest = min(wanted.timeout_s, ends_at - pull.attempt_at)
        due = pull.attempt_at + min(becomes.takes_s, longest)
        if now < due:
            return pull, due
        answer, limit = becomes.answer, ""
        if answer is None or becomes.takes_s > longest:
            answer = PullFailure("ErrImagePull", "context deadline exceeded")
            by_timeout = wanted.timeout_s <= ends_at - pull.attempt_at
            field = "timeoutSeconds" if by_timeout else "activeDeadlineSeconds"
            seconds = wanted.timeout_s if by_timeout else wanted.deadline_s
            limit = f" (pullPolicy.{field} is {seconds:g})"
        if isinstance(answer, Pulled):
            done = msgspec.structs.replace(
                pull, phase="Succeeded", completed_at=due, image_id=answer.image_id, message=""
            )
            return done, NEVER
        if pull.attempt >= wanted.tries:
            return _fail(pull, due, answer.message), NEVER
        pause = min(LONGEST_PAUSE_S, 2.0 ** min(pull.attempt - 1, 10))
        message = f"try {pull.attempt} of {wanted.tries} failed: {answer.message}{limit}"
        pull = msgspec.structs.replace(
            pull, attempt=pull.attempt + 1, attempt_at=due + pause, is_resting=True, message=message
        )


def shift_times(pulls: Mapping[ImageName, Pull], step_s: float) -> dict[ImageName, Pull]:
    """Return the pulls after a step of the clock. The times of running pulls move with the clock. Otherwise a step
    would prolong the current try, or end it and the following tries.
    """
    return {
        image: msgspec.structs.replace(
            pull,
            started_at=None if pull.started_at is None else pull.started_at + step_s,
            attempt_at=pull.attempt_at + step_s,
        )
        if pull.phase == "Pulling"
        else pull
        for image, pull in pulls.items()
    }


def _correct_times(pull: Pull, now: Instant) -> Pull:
    """Return the pull. If the clock was set back, times that are now in the future are replaced by the present time."""
    latest = now + LONGEST_PAUSE_S if pull.is_resting else now
    started_at = pull.started_at
    if pull.attempt_at <= latest and (started_at is None or started_at <= now):
        return pull
    return msgspec.structs.replace(
        pull,
        attempt_at=pull.attempt_at if pull.attempt_at <= latest else now,
        started_at=now if started_at is None else min(started_at, now),
    )


def _fail(pull: Pull, at: Instant, message: str) -> Pull:
    return msgspec.structs.replace(pull, phase="Failed", completed_at=at, message=message)


# ── reports ──────────────────────────────────────────────────────────────────


def status_of(view: AgentNodeImageView, pulls: Mapping[ImageName, Pull]) -> Document:
    """Return the whole status: earlier reports that are still valid, and the progress of the other pulls.

    `firstSyncStatus` is kept; the agent sets it when all initially requested pulls have ended.
    """
    stored = _index_stored_tags(view)
    images: dict[str, list[Document]] = {}
    for image in view.wanted:
        pull = pulls.get(image)
        if pull is not None:
            images.setdefault(image.name, []).append(_build_tag_status(image, pull))
        elif image in stored:
            images.setdefault(image.name, []).append(stored[image])
    tags = [tag for result in images.values() for tag in result]
    phases = [tag.get("phase") for tag in tags]
    status: Document = {
        "desired": len(view.wanted),
        **_to_count("succeeded", phases.count("Succeeded")),
        **_to_count("failed", phases.count("Failed")),
        **_to_count("pulling", phases.count("Pulling")),
        **_to_count("waiting", phases.count("Waiting")),
    }
    if images:
        status["imageStatuses"] = {
            name: {"tags": sorted(result, key=lambda tag: str(tag["tag"]))} for name, result in images.items()
        }
    first = view.stored_status.get("firstSyncStatus") or _build_first_sync(view, tags)
    return {**status, **({"firstSyncStatus": first} if first else {})}


def _index_stored_tags(view: AgentNodeImageView) -> dict[ImageName, Document]:
    return {
        ImageName(name, tag["tag"]): tag
        for name, image in (view.stored_status.get("imageStatuses") or {}).items()
        for tag in image.get("tags") or ()
    }


def _to_count(name: str, count: int) -> Document:
    return {name: count} if count else {}


def _build_tag_status(image: ImageName, pull: Pull) -> Document:
    status: Document = {"tag": image.tag, "phase": pull.phase, "version": pull.version}
    if pull.phase == "Succeeded":
        status |= {"progress": 100, "imageID": f"{image.name}@{pull.image_id.rpartition('@')[2]}"}
    if pull.started_at is not None:
        status["startTime"] = format_time(pull.started_at)
    if pull.completed_at is not None:
        status["completionTime"] = format_time(pull.completed_at)
    if pull.message:
        status["message"] = pull.message
    return status


def _build_first_sync(view: AgentNodeImageView, tags: Sequence[Document]) -> Document | None:
    ended = [tag for tag in tags if tag.get("completionTime")]
    if not tags or len(ended) < len(view.wanted):
        return None
    failed = sum(tag["phase"] == "Failed" for tag in ended)
    return {
        "syncAt": max(str(tag["completionTime"]) for tag in ended),
        "status": "Failed" if failed else "Succeeded",
        **(
            {"message": f"{failed} of {format_count(len(ended), 'image')} could not be pulled"}
            if failed
            else {}
        ),
    }


class PullStatusPace(msgspec.Struct):
    """Limits how often a status is written: a token bucket."""

    tokens: float = STATUS_BURST
    filled_at: Instant = 0.0

    def wait_s(self, now: Instant) -> float:
        """Return the seconds to wait before a write. If it is allowed now, count it and return 0."""
        self.tokens = min(STATUS_BURST, self.tokens + max(0.0, now - self.filled_at) * STATUS_PER_S)
        self.filled_at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / STATUS_PER_S


class Report(msgspec.Struct, frozen=True):
    """Status changes to write now."""

    patch: Document
    """A merge patch; empty if there is no change to write."""
    again_s: float
    """Seconds until the next report is due; infinity if none is due before something changes."""


def report_of(
    view: AgentNodeImageView, pulls: Mapping[ImageName, Pull], *, pace: PullStatusPace, now: Instant
) -> Report:
    """Return the changes to the stored status. If there is a patch, it is counted as a write by `pace`."""
    patch = diff_merge(view.stored_status, fit_status(status_of(view, pulls)))
    if not patch or not (view.wanted or view.stored_status):
        return Report({}, math.inf)
    wait_s = _compute_due_time(view, pulls, now) - now
    if wait_s <= 0:
        wait_s = pace.wait_s(now)
    return Report({}, wait_s) if wait_s > 0 else Report(patch, math.inf)


def _compute_due_time(view: AgentNodeImageView, pulls: Mapping[ImageName, Pull], now: Instant) -> Instant:
    """Return the time of the next write if nothing else happens: now, but later for pulls that have just begun."""
    stored = _index_stored_tags(view)
    begun = (
        now if pull.completed_at is not None else pull.started_at + QUICK_S
        for image, pull in pulls.items()
        if pull.started_at is not None and _build_tag_status(image, pull) != stored.get(image)
    )
    return min(begun, default=now)


# ── messages for people ──────────────────────────────────────────────────────


class PullEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An Event for one object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    is_failure: bool
    message: str

    @property
    def reason(self) -> str:
        return "PullImageFailed" if self.is_failure else "PullImageSucceed"


def events_of(
    view: AgentNodeImageView, before: Mapping[ImageName, Pull], after: Mapping[ImageName, Pull]
) -> Iterator[PullEvent]:
    """Yield events for each image whose pull succeeded or failed: one about the NodeImage, and after a failure also one
    about each job that requested the image.
    """
    for image, pull in after.items():
        old = before.get(image)
        is_known = old is not None and old.version == pull.version and old.completed_at is not None
        if pull.completed_at is None or is_known:
            continue
        is_failure = pull.phase == "Failed"
        took_s = pull.completed_at - (pull.completed_at if pull.started_at is None else pull.started_at)
        said = f": {pull.message}" if is_failure else f" in {took_s:.1f} s"
        message = (
            f"node {view.name} {'could not pull' if is_failure else 'pulled'} image {image.reference}{said}"
        )
        about: list[tuple[Resource, Mapping[str, Any]]] = [
            (NODE_IMAGES, {"name": view.name, "uid": view.uid})
        ]
        if is_failure:
            owners = view.wanted[image].owner_references or ()
            about += [(_build_resource(owner), owner) for owner in owners if owner.get("uid")]
        for resource, value in about:
            yield PullEvent(
                resource=resource,
                namespace=str(value.get("namespace") or ""),
                name=str(value.get("name") or ""),
                uid=str(value.get("uid") or ""),
                is_failure=is_failure,
                message=message,
            )


def _build_resource(reference: Mapping[str, Any]) -> Resource:
    group, _, version = str(reference.get("apiVersion") or "").rpartition("/")
    kind = str(reference.get("kind") or "")
    return Resource(group or NODE_IMAGES.group, version or "v1beta1", f"{kind.lower()}s", kind)
