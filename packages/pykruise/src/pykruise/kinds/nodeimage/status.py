"""Status of a NodeImage that the manager writes instead of the agent, if the agent does not respond or an entry was
removed.

NodeImageSnapshot ──▶ compute_status_after() ──▶ the status to store, entries without a response, and when to look again

Pure. If the agent's status is for an older version of an entry, the agent has not responded to the current version.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.kinds.nodeimage.snapshot import NodeImageSnapshot
from pykruise.kube.clock import format_time, parse_optional_time
from pykruise.kube.documents import Document
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import TagSpec, TagStatus
from pykruise.pods.images.node_images import FAILED, PULLING, SUCCEEDED, WAITING

RESPONSE_S: Final = 600.0
"""Seconds within which an agent must respond to a new entry. The agent has the same time to report the result after the
deadline of a pull.
"""

NO_RESPONSE: Final = "node has not responded for a long time"
TOO_LATE: Final = "pulling exceeds the activeDeadlineSeconds"


class Silent(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that counts as failed, because the agent does not respond."""

    image: ImageName
    entry: TagSpec
    message: str


class StatusAfter(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the status by the manager."""

    document: Document | None = None
    """The new status; None if the status does not change."""
    silent: Sequence[Silent] = ()
    look_again: Sequence[float] = ()
    """Seconds until the agent is late for each of the entries to which it has not responded."""


def compute_status_after(snapshot: NodeImageSnapshot) -> StatusAfter:
    """Return the status to store now, and when the status must be computed again."""
    view = snapshot.node_image
    wanted = dict(view.entries)
    statuses = {image: status for image, status in view.statuses.items() if image in wanted}
    silent: list[Silent] = []
    look_again: list[float] = []
    for image, entry in wanted.items():
        left, message = _compute_time_left(entry, statuses.get(image), snapshot)
        if left is None:
            continue
        if left > 0:
            look_again.append(left)
            continue
        silent.append(Silent(image=image, entry=entry, message=message))
        statuses[image] = _fail_entry(image, entry, statuses.get(image), message, snapshot)
    if not silent and len(statuses) == len(view.statuses):
        return StatusAfter(look_again=look_again)
    return StatusAfter(document=_build_document(snapshot, statuses), silent=silent, look_again=look_again)


def _compute_time_left(
    entry: TagSpec, status: TagStatus | None, snapshot: NodeImageSnapshot
) -> tuple[float | None, str]:
    """Return the seconds until the agent is late, and the message for this case; None if no response is awaited."""
    since = parse_optional_time(entry.created_at)
    if since is None:
        return None, ""
    if status is None or status.version != entry.version:
        return since + RESPONSE_S - snapshot.now, NO_RESPONSE
    deadline_s = entry.pull_policy.active_deadline_seconds if entry.pull_policy else None
    if status.completion_time or deadline_s is None:
        return None, ""
    return since + deadline_s + RESPONSE_S - snapshot.now, TOO_LATE


def _fail_entry(
    image: ImageName, entry: TagSpec, status: TagStatus | None, message: str, snapshot: NodeImageSnapshot
) -> TagStatus:
    if status is None or status.version != entry.version:
        status = TagStatus(tag=image.tag, phase=FAILED)
    return msgspec.structs.replace(
        status,
        phase=FAILED,
        completion_time=format_time(snapshot.now),
        version=entry.version,
        message=message,
    )


def _build_document(snapshot: NodeImageSnapshot, statuses: dict[ImageName, TagStatus]) -> Document:
    """Build the complete status. The agent's report about itself (firstSyncStatus) is kept."""
    stored = snapshot.node_image.stored_status
    images: dict[str, list[Document]] = {}
    for image in sorted(statuses, key=lambda status: (status.name, status.tag)):
        images.setdefault(image.name, []).append(msgspec.to_builtins(statuses[image]))
    document: Document = {
        "desired": sum(1 for _ in snapshot.node_image.entries),
        **_count_phase("succeeded", statuses.values(), SUCCEEDED),
        **_count_phase("failed", statuses.values(), FAILED),
        **_count_phase("pulling", statuses.values(), PULLING),
        **_count_phase("waiting", statuses.values(), WAITING),
    }
    if images:
        document["imageStatuses"] = {name: {"tags": tags} for name, tags in images.items()}
    if stored.get("firstSyncStatus"):
        document["firstSyncStatus"] = stored["firstSyncStatus"]
    return document


def _count_phase(name: str, statuses: Iterable[TagStatus], phase: str) -> Document:
    count = sum(status.phase == phase for status in statuses)
    return {name: count} if count else {}
