"""Places in subsets: taking one for a new pod, giving one back for a pod that goes.

entries (one version's list in the status) + pod ──▶ take() ──▶ Taken ──▶ claims.py stores the new list
                                                 ──▶ give_back() ──▶ the new list, or None: nothing to store
entry + the pods of its subset ──▶ pending_creations() ──▶ places that are kept for pods which have not come yet

Pure. An entry's `missingReplicas` is the number of free places, or -1: any number.

A place is given back when the deletion of its pod is admitted, so that the pod's successor finds it. Admission is not
the last word: an API server may refuse the deletion afterwards, because the pod is no longer the one that was meant
(preconditions). So nobody takes such a place before its pod is seen to go: `doubtful()` says of whom that matters.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.injection import read_matched
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus
from pykruise.kube.clock import Instant, parse_time
from pykruise.pods.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.views import PodView

__all__ = [
    "CREATION_S",
    "SCHEDULABLE",
    "Taken",
    "condition_of",
    "doubtful",
    "fresh_entries",
    "give_back",
    "is_schedulable",
    "needs_limit",
    "pending_creations",
    "take",
]

SCHEDULABLE: Final = "Schedulable"

CREATION_S: Final = 30.0
"""A pod that was admitted must show itself in this time; else its place is free again."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one new pod."""

    subset: str = ""
    """Empty: every subset is full; the pod goes where it likes."""
    key: str = ""
    """Under which the place is noted: the pod's name, or a fresh id where it has none. Empty: it is not noted."""
    entries: tuple[SubsetStatus, ...] | None = None
    """The list to store; None: it stays as it is."""


def fresh_entries(subsets: Sequence[Subset], *, replicas: int) -> list[SubsetStatus]:
    """The list of a version that nothing is known of yet. A limit that means no number is full."""
    return [SubsetStatus(name=one.name, replicas=0, missing_replicas=_room(one, replicas)) for one in subsets]


def _room(subset: Subset, replicas: int) -> int:
    try:
        return limit_of(subset, replicas=replicas)
    except LimitError:
        return 0


def condition_of(entry: SubsetStatus) -> str:
    """The status of the condition Schedulable; empty without one."""
    return next((one.status for one in entry.conditions or () if one.type == SCHEDULABLE), "")


def is_schedulable(entry: SubsetStatus) -> bool:
    """Whether new pods may go there: unless it is known that they would find no node."""
    return condition_of(entry) != "False"


def doubtful(
    entries: Sequence[SubsetStatus], *, wanted: int, going: Collection[str]
) -> Iterable[tuple[Sequence[str], int]]:
    """By subset, pods whose deletion was admitted and of whom it is not known that they go, and how many of them have
    to go until so many places are free as are `wanted`. Subsets where it does not matter are left out, and those
    after enough places that are free in any case.

    `going`: those of whom it is known.
    """
    for entry in entries:
        if not is_schedulable(entry):
            continue
        if entry.missing_replicas == ANY_NUMBER or wanted <= 0:
            return
        unknown = [name for name in entry.deleting_pods or () if name not in going]
        certain = entry.missing_replicas - len(unknown)
        if unknown and entry.missing_replicas > 0 and wanted > certain:
            yield unknown, wanted - certain
        wanted -= max(certain, 0)


def take(
    entries: Sequence[SubsetStatus],
    *,
    pod_name: str,
    fresh_id: Callable[[], str],
    now: str,
    going: Collection[str] | None = None,
) -> Taken:
    """The first subset with room, in order. A pod that is noted already gets its place again.

    `going`: of the pods whose deletion was admitted those that are seen to go; places of others are not free.
    None: all of them.
    """
    if pod_name:
        for entry in entries:
            if pod_name in (entry.creating_pods or {}) or pod_name in (entry.deleting_pods or {}):
                return Taken(subset=entry.name, key=pod_name)
    for number, entry in enumerate(entries):
        if not is_schedulable(entry):
            continue
        if entry.missing_replicas == ANY_NUMBER:
            return Taken(subset=entry.name)
        staying = 0 if going is None else sum(name not in going for name in entry.deleting_pods or ())
        if entry.missing_replicas <= staying:
            continue
        key = pod_name or fresh_id()
        taken = msgspec.structs.replace(
            entry,
            missing_replicas=entry.missing_replicas - 1,
            creating_pods={**(entry.creating_pods or {}), key: now},
        )
        return Taken(subset=entry.name, key=key, entries=(*entries[:number], taken, *entries[number + 1 :]))
    return Taken()


def give_back(
    entries: Sequence[SubsetStatus], *, pod_name: str, subset: str, now: str, limit: int | None = None
) -> tuple[SubsetStatus, ...] | None:
    """The list after the deletion of a pod of `subset` was admitted; None: nothing changes.

    `limit`: how many pods the subset takes. Where it has more, the place of a pod that goes is not free: a subset
    would never come down to a lower maximum. None: it is not known, or does not matter (`needs_limit`).

    A pod that goes before the controller has seen it come is noted among both: its successor comes at once, and would
    find the subset full. (OpenKruise lets it keep the place.)
    """
    if any(pod_name in (entry.deleting_pods or {}) for entry in entries):
        return None
    for number, entry in enumerate(entries):
        if entry.name != subset:
            continue
        if entry.missing_replicas == ANY_NUMBER:
            return None
        deleting = {**(entry.deleting_pods or {}), pod_name: now}
        staying = entry.replicas - len(deleting) + len(entry.creating_pods or {})
        is_free = limit is None or limit == ANY_NUMBER or staying + entry.missing_replicas < limit
        given = msgspec.structs.replace(
            entry, missing_replicas=entry.missing_replicas + is_free, deleting_pods=deleting
        )
        return (*entries[:number], given, *entries[number + 1 :])
    return None


def needs_limit(entries: Sequence[SubsetStatus], *, subset: str) -> bool:
    """Whether it takes the limit to say that a place which is given back is free: where none is free before."""
    return any(one.name == subset and one.missing_replicas == 0 for one in entries)


def pending_creations(
    entry: SubsetStatus | None, pods: Iterable[PodView]
) -> Iterator[tuple[str, str, Instant]]:
    """Pods that were admitted to a subset and are not among its pods: key, since when (as noted), and until when
    the place is kept."""
    noted = (entry.creating_pods if entry is not None else None) or {}
    come = {_key_of(pod) for pod in pods} if noted else ()
    for key, since in noted.items():
        if key not in come:
            yield key, since, parse_time(since) + CREATION_S


def _key_of(pod: PodView) -> str:
    """Under which its place was noted."""
    found = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return found.uid if found is not None and found.uid else pod.name
