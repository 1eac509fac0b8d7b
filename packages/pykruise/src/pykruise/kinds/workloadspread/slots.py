"""Slots of subsets: one is allocated to a new pod, and released when a pod is deleted.

entries (one version's list in the status) + pod ──▶ allocate_slot() ──▶ Allocated ──▶ subset_allocator.py stores it
                                                 ──▶ release_slot()  ──▶ the new list, or None: nothing to store
entry + the pods of its subset ──▶ find_pending_creations() ──▶ slots that are kept for pods that do not exist yet

Pure. An entry's `missingReplicas` is the number of free slots, or -1: unlimited.

A slot is released when the deletion of its pod is admitted, so that the pod's successor finds a free slot. After that,
the API server may still reject the deletion, because the pod no longer meets the preconditions of the request. Such a
slot is therefore allocated only after the pod is known to terminate: `find_unconfirmed_deletions()` returns the pods
for which this must be checked.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, compute_room
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus
from pykruise.kube.clock import Instant, parse_time
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import read_matched
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of

SCHEDULABLE: Final = "Schedulable"

CREATION_S: Final = 30.0
"""Seconds within which an admitted pod must be created. After this time its slot is free again."""


class Allocated(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one new pod."""

    subset: str = ""
    """Name of the subset; empty: every subset is full, and the scheduler places the pod freely."""
    key: str = ""
    """Key of the slot: the pod's name, or a fresh id when the pod has no name. Empty: no slot is recorded."""
    entries: tuple[SubsetStatus, ...] | None = None
    """The list to store; None: it is unchanged."""


def make_fresh_entries(subsets: Sequence[Subset], *, replicas: int = 0) -> list[SubsetStatus]:
    """Build the list of a version for which the status has no list. `replicas`: those of the workload, for limits in
    percent.
    """
    return [
        SubsetStatus(name=subset.name, replicas=0, missing_replicas=compute_room(subset, replicas=replicas))
        for subset in subsets
    ]


def is_schedulable(entry: SubsetStatus) -> bool:
    """Whether new pods may be placed in the subset: False when its pods are known to find no node."""
    condition = condition_of(entry.conditions, SCHEDULABLE)
    return condition is None or condition.status != "False"


def find_unconfirmed_deletions(
    entries: Sequence[SubsetStatus], *, wanted: int, going: Collection[str]
) -> Iterable[tuple[Sequence[str], int]]:
    """Yield, for each subset, the pods in `deletingPods` that are not known to terminate, and the number of these pods
    that must terminate so that `wanted` slots are free.

    A subset is left out if it has no free slot, or if the slots that are certainly free, in this subset and in the
    subsets before it, are enough. `going`: pods that are known to terminate.
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


def allocate_slot(
    entries: Sequence[SubsetStatus],
    *,
    pod_name: str,
    fresh_id: Callable[[], str],
    now: str,
    going: Collection[str] | None = None,
) -> Allocated:
    """Allocate a slot of the first subset that has a free slot. A pod that already has a slot gets the same slot again.

    `going`: names of the pods in `deletingPods` that are known to terminate. The slots of the other pods in
    `deletingPods` are not free. None: all pods in `deletingPods` count as terminating.
    """
    if pod_name:
        for entry in entries:
            if pod_name in (entry.creating_pods or {}) or pod_name in (entry.deleting_pods or {}):
                return Allocated(subset=entry.name, key=pod_name)
    for number, entry in enumerate(entries):
        if not is_schedulable(entry):
            continue
        if entry.missing_replicas == ANY_NUMBER:
            return Allocated(subset=entry.name)
        staying = 0 if going is None else sum(name not in going for name in entry.deleting_pods or ())
        if entry.missing_replicas <= staying:
            continue
        key = pod_name or fresh_id()
        taken = msgspec.structs.replace(
            entry,
            missing_replicas=entry.missing_replicas - 1,
            creating_pods={**(entry.creating_pods or {}), key: now},
        )
        return Allocated(
            subset=entry.name, key=key, entries=(*entries[:number], taken, *entries[number + 1 :])
        )
    return Allocated()


def release_slot(
    entries: Sequence[SubsetStatus], *, pod_name: str, subset: str, now: str, limit: int | None = None
) -> tuple[SubsetStatus, ...] | None:
    """Return the list after the deletion of a pod of `subset` was admitted; None: nothing changes.

    `limit`: maxReplicas of the subset. A terminating pod above this limit does not free a slot: otherwise the subset
    would never shrink to a lower maximum. None: the limit is unknown, or does not matter because a slot was already
    free (`needs_limit`).

    A pod that is deleted before the controller has seen it is recorded in both maps: its successor is created
    immediately, and would otherwise find the subset full. (OpenKruise lets the deleted pod keep its slot.)
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
        is_free = limit is None or limit == ANY_NUMBER or staying < limit
        given = msgspec.structs.replace(
            entry, missing_replicas=entry.missing_replicas + is_free, deleting_pods=deleting
        )
        return (*entries[:number], given, *entries[number + 1 :])
    return None


def needs_limit(entries: Sequence[SubsetStatus], *, subset: str) -> bool:
    """Whether the limit decides if a released slot is free. This is only the case when no slot was free before."""
    return any(entry.name == subset and entry.missing_replicas == 0 for entry in entries)


def find_pending_creations(
    entry: SubsetStatus | None, pods: Iterable[PodView]
) -> Iterator[tuple[str, str, Instant]]:
    """Yield the pods that were admitted to a subset but do not exist yet: the key of the slot, the recorded time, and
    the time until which the slot is kept.
    """
    noted = (entry.creating_pods if entry is not None else None) or {}
    come = {_find_slot_key(pod) for pod in pods} if noted else ()
    for key, since in noted.items():
        if key not in come:
            yield key, since, parse_time(since) + CREATION_S


def _find_slot_key(pod: PodView) -> str:
    """Key under which the pod's slot was recorded."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.uid if matched is not None and matched.uid else pod.name
