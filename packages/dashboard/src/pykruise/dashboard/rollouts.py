"""A row of the first page: one rollout, from what the object says of itself.

document, the revision it comes from ──▶ rollout_row() ──▶ RolloutRow

Pure. Counts and the line are those of `kubectl kruise rollout status`; what it waits for is its condition Waiting, in
the words that `explain` begins with. So a row costs no look at pods, however many there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.explaining import NEEDS_A_PERSON
from pykruise.cli.kubectl.kinds import kind_of, pod_specs_of
from pykruise.cli.kubectl.revisions import NUMBER
from pykruise.cli.kubectl.statuses import Progress, RolloutFailed, partition_of, status_of
from pykruise.dashboard.objects import ROLLOUTS
from pykruise.kinds import named
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Resource
from pykruise.pods.reasons import AT_REST, CODES, Code
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.kstatus import STALLED

__all__ = [
    "MOVES",
    "PERSON",
    "STILL",
    "RolloutRow",
    "older_set",
    "rollout_resources",
    "rollout_row",
    "row_id",
]

PERSON: Final = "person"
"""It does not go on without a person."""
MOVES: Final = "moves"
STILL: Final = "still"

MOST_WORDS: Final = 2_000
"""Characters of a text in a row: messages may be of any length, and a row is one line."""
MOST_IMAGES: Final = 10


class RolloutRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row. Unit of counts: pods (of a SidecarSet: pods that match)."""

    id: str
    resource: str
    """`clonesets.apps.kruise.io`."""
    kind: str
    namespace: str
    name: str
    state: str
    """person, moves or still."""
    word: str
    """The state in a word: stuck, terminating, waiting, moving, paused, partition, done."""
    line: str = ""
    """As `rollout status` says it."""
    code: str = ""
    """What it waits for, as a code."""
    waits: str = ""
    """... in words."""
    since: str = ""
    """Since when it waits; else since when it is there. RFC 3339."""
    desired: int = 0
    updated: int = 0
    ready: int = 0
    kept: int = 0
    """Pods that a partition keeps as they are."""
    images: tuple[str, ...] = ()
    old_images: tuple[str, ...] = ()
    """Of the revision that pods come from, where they differ."""
    labels: Mapping[str, str] = {}


def rollout_resources() -> tuple[Resource, ...]:
    """Resources whose objects have rollouts, of OpenKruise and of Kubernetes."""
    own = ("CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment", "SidecarSet")
    return (
        *(named(kind).resource for kind in own),
        DEPLOYMENTS,
        STATEFUL_SETS,
        DAEMON_SETS,
        ROLLOUTS,
    )


def row_id(resource: Resource, namespace: str, name: str) -> str:
    """`clonesets.apps.kruise.io/shop/web`."""
    return f"{resource}/{namespace}/{name}"


def rollout_row(resource: Resource, document: Document, *, current: Document | None = None) -> RolloutRow:
    """`current`: the revision that its pods come from, where that is another than the newest one."""
    meta = document["metadata"]
    waiting = _condition(document, WAITING) or {}
    code = str(waiting.get("reason") or "")
    progress, failure = _progress(document)
    state, word = _state(document, code, progress, failure)
    desired = _desired(document)
    images = _images(pod_specs_of(document))
    old = _images(_specs_of_revision(current)) if current is not None else ()
    since = waiting.get("lastTransitionTime") or meta.get("creationTimestamp") or ""
    return RolloutRow(
        id=row_id(resource, meta.get("namespace", ""), meta["name"]),
        resource=str(resource),
        kind=resource.kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state=state,
        word=word,
        line=_short(failure or (progress.line if progress is not None else "")),
        code=code,
        waits=_short(str(waiting.get("message") or "")),
        since=str(since),
        desired=desired,
        updated=_count(document, "updatedReplicas", "updatedNumberScheduled", "updatedPods"),
        ready=_count(document, "readyReplicas", "numberReady", "readyPods"),
        kept=_kept(document, desired),
        images=images,
        old_images=() if old == images else old,
        labels=meta.get("labels") or {},
    )


def _progress(document: Document) -> tuple[Progress | None, str]:
    """How far it is, and why it will not be done by waiting, where that is so."""
    if _is_by_hand(document):
        return None, ""
    try:
        return status_of(document), ""
    except RolloutFailed as error:
        return None, str(error)
    except (CommandError, KeyError, TypeError, ValueError) as error:
        # A stored field that admission would have refused.
        return None, f"its status cannot be read: {error}"


_BY_HAND: Final = frozenset({"OnDelete", "NotUpdate"})


def _is_by_hand(document: Document) -> bool:
    """Whether its strategy updates nothing by itself."""
    strategy = get_path(document, "spec", "updateStrategy")
    return isinstance(strategy, Mapping) and strategy.get("type") in _BY_HAND


def _state(document: Document, code: str, progress: Progress | None, failure: str) -> tuple[str, str]:
    if "deletionTimestamp" in document["metadata"]:
        return MOVES, "terminating"
    if failure or _condition(document, STALLED) is not None or code in NEEDS_A_PERSON:
        return PERSON, "stuck"
    if progress is not None and progress.is_done:
        return STILL, "partition" if _is_kept_back(document, code) else "done"
    if code == Code.PAUSED or (progress is not None and _is_paused(document)):
        return STILL, "paused"
    if progress is not None and progress.at_partition:
        return STILL, "partition"
    if code in AT_REST or progress is None:
        return STILL, "done"
    return MOVES, "waiting" if code in CODES else "moving"


def _is_kept_back(document: Document, code: str) -> bool:
    """Whether the partition keeps pods of an older revision; another manager than pykruise's gives no code."""
    desired = _desired(document)
    updated = _count(document, "updatedReplicas", "updatedNumberScheduled", "updatedPods")
    return code == Code.PARTITION or (updated < desired and _kept(document, desired) > 0)


def _is_paused(document: Document) -> bool:
    known = kind_of(document)
    return (
        known is not None
        and known.paused is not None
        and bool(get_path(document, *known.paused.at(document)))
    )


def _condition(document: Document, kind: str) -> Mapping[str, Any] | None:
    for one in (document.get("status") or {}).get("conditions") or ():
        if one.get("type") == kind and one.get("status") == "True":
            found: Mapping[str, Any] = one
            return found
    return None


def _count(document: Document, *fields: str) -> int:
    status = document.get("status") or {}
    return next((status[one] for one in fields if isinstance(status.get(one), int)), 0)


def _desired(document: Document) -> int:
    spec = document.get("spec") or {}
    if isinstance(spec.get("replicas"), int):
        return int(spec["replicas"])
    found = _count(document, "desiredNumberScheduled", "matchedPods", "replicas")
    return found or (1 if "template" in spec and "replicas" in (document.get("status") or {}) else 0)


def _kept(document: Document, desired: int) -> int:
    known = kind_of(document)
    if known is None or known.partition is None:
        return 0
    try:
        return partition_of(get_path(document, *known.partition.at(document)), replicas=desired)
    except (TypeError, ValueError):
        return 0


def _images(specs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    found = {
        _short(str(one.get("image") or ""), most=300): None
        for spec in specs
        for one in spec.get("containers") or ()
        if isinstance(one, Mapping)
    }
    return tuple(one for one in found if one)[:MOST_IMAGES]


def _specs_of_revision(revision: Document) -> list[Mapping[str, Any]]:
    if revision.get("kind") == REPLICA_SETS.kind:
        return list(pod_specs_of(revision))
    template = get_path(revision, "data", "spec", "template")
    spec = template.get("spec") if isinstance(template, Mapping) else None
    return [spec] if isinstance(spec, Mapping) else []


def older_set(sets: Iterable[Document]) -> Document | None:
    """Of a Deployment's ReplicaSets the newest that still has pods, but the very newest; None: there is none."""
    older = sorted(sets, key=_revision_number, reverse=True)[1:]
    return next((one for one in older if (one.get("status") or {}).get("replicas")), None)


def _revision_number(replica_set: Document) -> int:
    found = (replica_set["metadata"].get("annotations") or {}).get(NUMBER, "")
    return int(found) if found.isdecimal() else 0


def _short(text: str, *, most: int = MOST_WORDS) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
