"""Slots of subsets: one is allocated to a new pod, and released when a pod is deleted.

entries (one version's list in the status) + pod ──▶ allocate_slot() ──▶ Allocated ──▶ subset_allocator.py stores it
                                                 ──▶ release_slot()  ──▶ the new list, or None: nothing to store
entry + the pods of its subset ──▶ pending_creations() ──▶ slots that are kept for pods which are not there yet

Pure. An entry's `missingReplicas` is the number of free slots, or -1: any number.

A slot is released when the deletion of its pod is admitted, so that the pod's successor finds it. The deletion may
still be refused afterwards, because the pod is no longer the one that was meant (preconditions). So such a slot is
allocated only when its pod is seen to terminate: `unconfirmed_deletions()` says for which pods that matters.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.injection import read_matched
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, room_in
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus
from pykruise.kube.clock import Instant, parse_time
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of

SCHEDULABLE: Final = "Schedulable"

CREATION_S: Final = 30.0
"""A pod that was admitted must show itself in this time; else its place is free again."""


class Allocated(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one new pod."""

    subset: str = ""
    """Empty: every subset is full; the pod goes where it likes."""
    key: str = ""
    """Under which the place is noted: the pod's name, or a fresh id where it has none. Empty: it is not noted."""
    entries: tuple[SubsetStatus, ...] | None = None
    """The list to store; None: it stays as it is."""


def fresh_entries(subsets: Sequence[Subset], *, replicas: int = 0) -> list[SubsetStatus]:
    """The list of a version that nothing is known of yet. `replicas`: of the workload, for limits that are shares."""
    return [
        SubsetStatus(name=subset.name, replicas=0, missing_replicas=room_in(subset, replicas=replicas))
        for subset in subsets
    ]


def is_schedulable(entry: SubsetStatus) -> bool:
    """Whether new pods may go there: unless it is known that they would find no node."""
    condition = condition_of(entry.conditions, SCHEDULABLE)
    return condition is None or condition.status != "False"


def unconfirmed_deletions(
    entries: Sequence[SubsetStatus], *, wanted: int, going: Collection[str]
) -> Iterable[tuple[Sequence[str], int]]:
    """Pods by subset whose deletion was admitted and that are not known to terminate, and how many of them must
    terminate until `wanted` slots are free. Subsets where it does not matter are left out, and those after enough slots
    that are free in any case.

    `going`: pods that are known to terminate.
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
    """A slot of the first subset with a free one, in order. A pod that has one already gets the same again.

    `going`: of the pods whose deletion was admitted those that are seen to terminate; slots of others are not free.
    None: all of them.
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
    """The list after the deletion of a pod of `subset` was admitted; None: nothing changes.

    `limit`: maxReplicas of the subset. A terminating pod above it does not free a slot: the subset would never shrink
    to a lower maximum. None: it is not known, or does not matter, since a slot is free before (`needs_limit`).

    A pod that is deleted before the controller has seen it created is noted among both: its successor is created at
    once, and would find the subset full. (OpenKruise lets it keep the slot.)
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
    """Whether the limit decides if a released slot is free: where none is free before."""
    return any(entry.name == subset and entry.missing_replicas == 0 for entry in entries)


def pending_creations(
    entry: SubsetStatus | None, pods: Iterable[PodView]
) -> Iterator[tuple[str, str, Instant]]:
    """Pods that were admitted to a subset and are not among its pods: key, since when (as noted), and until when
    their slot is kept."""
    noted = (entry.creating_pods if entry is not None else None) or {}
    come = {_key_of(pod) for pod in pods} if noted else ()
    for key, since in noted.items():
        if key not in come:
            yield key, since, parse_time(since) + CREATION_S


def _key_of(pod: PodView) -> str:
    """Under which its place was noted."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.uid if matched is not None and matched.uid else pod.name
