"""Rows of the first page: one rollout each, from the object's own status.

document, the revision of its pods ──▶ build_rollout_row() ──▶ RolloutRow

Pure. The phase, the counts and the line are those of `kubectl kruise rollout status`. The wait is the text of the
condition Waiting, which `explain` prints too. So no pods have to be read for a row. If `explain` finds more than the
status shows (verdicts.py), its phase replaces the phase of the status.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.kubectl.kinds import pod_specs_of
from pykruise.cli.kubectl.revisions import NUMBER
from pykruise.dashboard.objects import list_watched_resources
from pykruise.kinds import find_shown
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import REPLICA_SETS, Resource
from pykruise.kube.values.counts import format_count
from pykruise.plans.progress import Progress
from pykruise.plans.shown import Shown
from pykruise.pods.workload.waiting import WAITING

MOST_WORDS: Final = 2_000
"""Maximum number of characters of a text in a row: messages may have any length, and a row is one line."""
MOST_IMAGES: Final = 10


class RolloutRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row. The counts are numbers of pods; for a SidecarSet, of matching pods."""

    id: str
    resource: str
    """`clonesets.apps.kruise.io`."""
    kind: str
    namespace: str
    name: str
    phase: str
    """Phase: Progressing, Healthy, Degraded, Paused, Failed or Completed."""
    needs_action: bool = False
    """Whether the object stays in this phase until a person acts."""
    owner_kind: str = ""
    owner: str = ""
    """Name of the object's controller; empty if it has none."""
    line: str = ""
    """The line of `rollout status`."""
    code: str = ""
    """Code of the wait."""
    waits: str = ""
    """Text of the wait."""
    since: str = ""
    """Time since which the object waits; if it does not wait, its creation time. In RFC 3339."""
    desired: int = 0
    updated: int = 0
    ready: int = 0
    kept: int = 0
    """Number of pods that a partition keeps at older revisions."""
    images: tuple[str, ...] = ()
    old_images: tuple[str, ...] = ()
    """Images of the current revision that the new revision does not have."""
    labels: Mapping[str, str] = {}


def list_rollout_resources() -> tuple[Resource, ...]:
    """Resources whose objects have rollouts."""
    return list_resources_on("rollouts")


def format_row_id(resource: Resource, namespace: str, name: str) -> str:
    """`clonesets.apps.kruise.io/shop/web`."""
    return f"{resource}/{namespace}/{name}"


def build_rollout_row(
    resource: Resource, document: Document, *, current: Document | None = None
) -> RolloutRow:
    """Return the row of a rollout. `current` is the revision of its pods, if it is not the newest revision."""
    meta = document["metadata"]
    waiting = _find_condition(document, WAITING) or {}
    shown = find_shown(resource.group, resource.kind)
    progress, line = _read(shown, document)
    images = _list_images(pod_specs_of(document))
    old = _list_images(_list_specs_of_revision(current)) if current is not None else ()
    owner_kind, owner = owner_of(meta)
    since = waiting.get("lastTransitionTime") or meta.get("creationTimestamp") or ""
    return RolloutRow(
        id=format_row_id(resource, meta.get("namespace", ""), meta["name"]),
        resource=str(resource),
        kind=resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        phase="" if progress is None else progress.phase,
        needs_action=progress is not None and progress.phase.needs_a_person,
        owner_kind=owner_kind,
        owner=owner,
        line=_shorten(line),
        code=str(waiting.get("reason") or ""),
        waits=_shorten(str(waiting.get("message") or "")),
        since=str(since),
        desired=progress.wanted if progress else 0,
        updated=progress.updated if progress else 0,
        ready=progress.ready if progress else 0,
        kept=min(progress.kept, max(progress.wanted - progress.updated, 0)) if progress else 0,
        images=images,
        old_images=() if old == images else old,
        labels=meta.get("labels") or {},
    )


def _read(shown: Shown | None, document: Document) -> tuple[Progress | None, str]:
    """Return the progress and its text; None if the kind reports no progress. For an invalid status, the text is the
    error.
    """
    if shown is None or shown.progress is None:
        return None, ""
    progress = shown.progress_of(document)
    try:
        return progress, shown.line_of(document, progress)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The status has a field that admission would have rejected.
        return progress, f"the status of the object cannot be read: {error}"


def owner_of(meta: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of the object's controller; empty if it has none."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("kind") or ""), str(owner.get("name") or "")
    return "", ""


def list_resources_on(board: str) -> tuple[Resource, ...]:
    """Return the resources of OpenKruise and Kubernetes that a page lists, according to their kinds."""
    return tuple(
        resource
        for resource in list_watched_resources()
        if (shown := find_shown(resource.group, resource.kind)) is not None and shown.board == board
        if shown.progress is not None
    )


def _find_condition(document: Document, kind: str) -> Mapping[str, Any] | None:
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            result: Mapping[str, Any] = condition
            return result
    return None


def _list_images(specs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    images = {
        _shorten(str(container.get("image") or ""), most=300): None
        for spec in specs
        for container in spec.get("containers") or ()
        if isinstance(container, Mapping)
    }
    return tuple(text for text in images if text)[:MOST_IMAGES]


def _list_specs_of_revision(revision: Document) -> list[Mapping[str, Any]]:
    if revision.get("kind") == REPLICA_SETS.kind:
        return list(pod_specs_of(revision))
    template = get_path(revision, "data", "spec", "template")
    spec = template.get("spec") if isinstance(template, Mapping) else None
    return [spec] if isinstance(spec, Mapping) else []


def find_older_set(sets: Iterable[Document]) -> Document | None:
    """Return the newest ReplicaSet with pods, except the Deployment's newest ReplicaSet; None if no other has pods."""
    older = sorted(sets, key=_read_revision_number, reverse=True)[1:]
    return next((entry for entry in older if (entry.get("status") or {}).get("replicas")), None)


def _read_revision_number(replica_set: Document) -> int:
    result = (replica_set["metadata"].get("annotations") or {}).get(NUMBER, "")
    return int(result) if result.isdecimal() else 0


def _shorten(text: str, *, most: int = MOST_WORDS) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({format_count(len(text), 'character')})"
