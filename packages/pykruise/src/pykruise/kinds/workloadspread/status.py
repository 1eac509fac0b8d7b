"""Status: pods, free slots and conditions of each subset, in total and by version.

SpreadSnapshot + Grouped ──▶ compute_spread() ──▶ the status, events, pods to reschedule, the next reconcile

Pure. The slots that admission recorded (creatingPods, deletingPods) come from the stored status of the snapshot. If the
object has changed when the new status is written, the write fails with a conflict, and the status is computed again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.slots import CREATION_S, SCHEDULABLE, find_pending_creations
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.subset_grouping import Grouped
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus, WorkloadSpreadStatus
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.schemas.types import Condition
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of
from pykruise.runtime.plan import Note

__all__ = [
    "CREATION_S",
    "DELETION_S",
    "WINDOW_S",
    "ComputedSpread",
    "compute_spread",
    "find_closing_time",
    "find_move_time",
    "normalize_status",
]

DELETION_S: Final = 15.0
"""Seconds within which a pod with an admitted deletion must terminate. After this time the pod occupies
its slot again.
"""

WINDOW_S: Final = 300.0
"""Seconds for which a subset is closed when its pods find no node."""

SUFFICIENT: Final = "Sufficient"
POD_UNSCHEDULABLE: Final = "PodUnschedulable"
AGAIN_S: Final = 300.0
"""Seconds until the same event is recorded again. So when the status is computed again after a conflict, no event is
recorded twice.
"""


class ComputedSpread(msgspec.Struct, frozen=True, kw_only=True):
    """The status, and decisions that follow from it."""

    status: WorkloadSpreadStatus
    notes: tuple[Note, ...] = ()
    timed_out: tuple[PodView, ...] = ()
    """Pods that found no node for too long and may be moved to another subset."""
    due: Instant | None = None
    """Instant at which the status changes without an event."""


class _Tally:
    """Collects the events, times and pods that result from the computation, besides the entries."""

    def __init__(self) -> None:
        self.notes: dict[tuple[str, str], Note] = {}
        self.due: list[Instant] = []
        self.timed_out: dict[str, PodView] = {}

    def tell(self, reason: str, message: str, *, warning: bool = True) -> None:
        self.notes[reason, message] = Note(
            reason=reason, message=message, warning=warning, again_after_s=AGAIN_S
        )


def compute_spread(snapshot: SpreadSnapshot, groups: Grouped) -> ComputedSpread:
    """Compute the status for this instant."""
    spread, tally = snapshot.spread, _Tally()
    overall = _compute_entries(
        snapshot,
        {subset.name: list(groups.list_pods(subset.name)) for subset in spread.subsets},
        spread.status.subset_statuses or (),
        tally,
    )
    stored = spread.status.versioned_subset_statuses or {}
    versioned: dict[str, list[SubsetStatus]] = {}
    noted = [version for version, entries in stored.items() if any(map(_is_remembered, entries))]
    for version in {**dict.fromkeys(groups.versions), **dict.fromkeys(noted)}:
        members = groups.versions.get(version, {})
        entries = _compute_entries(snapshot, members, stored.get(version) or (), tally)
        if version in groups.versions or any(map(_is_remembered, entries)):
            versioned[version] = entries
    return ComputedSpread(
        status=WorkloadSpreadStatus(
            observed_generation=spread.generation,
            spread=_summarize(snapshot, overall),
            subset_statuses=overall or None,
            versioned_subset_statuses=versioned or None,
        ),
        notes=tuple(tally.notes.values()),
        timed_out=tuple(tally.timed_out.values()),
        due=min(tally.due, default=None),
    )


def _is_remembered(entry: SubsetStatus) -> bool:
    """Whether the entry must be kept although the version has no pods: admission recorded pods that may still be
    created, or the subset is closed.

    All pods of a version may be rescheduled at the same time; admission of their successors still needs the list of
    this version. The list is also kept for versions that are not the latest, because such a version may become the
    latest again.
    """
    return bool(entry.creating_pods) or find_closing_time(entry) is not None


def _summarize(snapshot: SpreadSnapshot, entries: Iterable[SubsetStatus]) -> str | None:
    """Return a summary such as `a 3/3, b 2`, in the order of the spec. A subset that is unlimited, or whose limit
    cannot be read, has no second number.
    """
    shown = []
    for subset, entry in zip(snapshot.spread.subsets, entries, strict=True):
        try:
            limit = limit_of(subset, replicas=snapshot.replicas)
        except LimitError:
            limit = ANY_NUMBER
        shown.append(f"{entry.name} {entry.replicas}" + (f"/{limit}" if limit != ANY_NUMBER else ""))
    return ", ".join(shown) or None


def normalize_status(status: WorkloadSpreadStatus) -> WorkloadSpreadStatus:
    """Return a stored status in the form that `compute_spread` writes: an empty map or list becomes absent."""
    versioned = status.versioned_subset_statuses or {}
    return WorkloadSpreadStatus(
        observed_generation=status.observed_generation,
        spread=status.spread,
        subset_statuses=[_normalize_entry(item) for item in status.subset_statuses or ()] or None,
        versioned_subset_statuses={
            key: [_normalize_entry(status) for status in value] for key, value in versioned.items()
        }
        or None,
    )


def _normalize_entry(entry: SubsetStatus) -> SubsetStatus:
    return msgspec.structs.replace(
        entry,
        creating_pods=entry.creating_pods or None,
        deleting_pods=entry.deleting_pods or None,
        conditions=entry.conditions or None,
    )


def _compute_entries(
    snapshot: SpreadSnapshot,
    members: Mapping[str, Sequence[PodView]],
    stored: Iterable[SubsetStatus],
    tally: _Tally,
) -> list[SubsetStatus]:
    """Compute the entries of all subsets for one version or for all versions together, in the order of the spec."""
    old = {status.name: status for status in stored}
    subsets = snapshot.spread.subsets
    statuses: list[SubsetStatus] = []
    for number, subset in enumerate(subsets):
        pods = members.get(subset.name, ())
        before = old.get(subset.name)
        entry = _build_entry(subset, pods, before, snapshot, tally)
        is_last = number == len(subsets) - 1
        late = () if is_last else _find_timed_out(pods, snapshot, tally)
        tally.timed_out |= {pod.name: pod for pod in late}
        condition = _compute_condition(
            before, snapshot, tally, is_last=is_last, is_late=bool(late), name=subset.name
        )
        statuses.append(msgspec.structs.replace(entry, conditions=[condition] if condition else None))
    return statuses


# ── slots ────────────────────────────────────────────────────────────────────


def _build_entry(
    subset: Subset,
    pods: Sequence[PodView],
    old: SubsetStatus | None,
    snapshot: SpreadSnapshot,
    tally: _Tally,
) -> SubsetStatus:
    active = [pod for pod in pods if pod.is_active]
    creating, leaving = (old.creating_pods, old.deleting_pods) if old is not None else (None, None)
    try:
        limit = limit_of(subset, replicas=snapshot.replicas)
    except LimitError as error:
        tally.tell("InvalidMaxReplicas", f"subset {subset.name}: maxReplicas: {error}")
        return SubsetStatus(
            name=subset.name,
            replicas=len(active),
            missing_replicas=0,
            creating_pods=creating or None,
            deleting_pods=leaving or None,
        )
    deleting: dict[str, str] = {}
    for pod in active:
        if not leaving or pod.name not in leaving:
            continue
        until = parse_time(leaving[pod.name]) + DELETION_S
        if until <= snapshot.now:
            tally.tell("DeletePodFailed", f"pod {pod.name} was expected to be deleted and still exists")
            continue
        deleting[pod.name] = leaving[pod.name]
        tally.due.append(until)
    # A terminating pod above maxReplicas does not free a slot.
    missing = limit if limit == ANY_NUMBER else max(limit - (len(active) - len(deleting)), 0)
    waiting: dict[str, str] = {}
    for key, since, until in find_pending_creations(old, pods):
        if until <= snapshot.now:
            tally.tell("CreatePodFailed", f"pod {key} was admitted, but was not created")
            continue
        waiting[key] = since
        missing = missing - 1 if missing > 0 else missing
        tally.due.append(until)
    return SubsetStatus(
        name=subset.name,
        replicas=len(active),
        missing_replicas=missing,
        creating_pods=waiting or None,
        deleting_pods=deleting or None,
    )


# ── whether pods find nodes ──────────────────────────────────────────────────


def find_move_time(pod: PodView, snapshot: SpreadSnapshot) -> Instant | None:
    """Instant at which a pod that finds no node has waited long enough in its subset; None: it is not rescheduled.

    Pods of the last subset are never rescheduled; the caller must exclude them.
    """
    patience = snapshot.spread.reschedule_after_s
    if not patience or pod.created_at is None or not _is_unschedulable(pod):
        return None
    return pod.created_at + patience


def _find_timed_out(pods: Iterable[PodView], snapshot: SpreadSnapshot, tally: _Tally) -> tuple[PodView, ...]:
    """Return the pods that found no node within the allowed time."""
    result: list[PodView] = []
    for pod in pods:
        at = find_move_time(pod, snapshot)
        if at is None:
            continue
        if at <= snapshot.now:
            result.append(pod)
        else:
            tally.due.append(at)
    return tuple(result)


def find_closing_time(entry: SubsetStatus) -> Instant | None:
    """Instant since which the subset is closed to new pods; None: it is open."""
    condition = condition_of(entry.conditions, SCHEDULABLE)
    return (
        parse_time(condition.last_transition_time)
        if condition is not None and condition.status == "False"
        else None
    )


def _is_unschedulable(pod: PodView) -> bool:
    if pod.is_deleting or pod.phase != "Pending" or pod.node_name:
        return False
    condition = pod.find_condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"


def _compute_condition(
    old: SubsetStatus | None,
    snapshot: SpreadSnapshot,
    tally: _Tally,
    *,
    is_last: bool,
    is_late: bool,
    name: str,
) -> Condition | None:
    if not snapshot.spread.reschedule_after_s:
        return None
    before = condition_of(old.conditions if old else None, SCHEDULABLE)
    if is_last:
        return _build_condition(before, "True", SUFFICIENT, snapshot.now)
    if is_late:
        return _build_condition(before, "False", POD_UNSCHEDULABLE, snapshot.now)
    if before is None:
        return _build_condition(None, "True", SUFFICIENT, snapshot.now)
    if before.status != "False":
        return before
    until = parse_time(before.last_transition_time) + WINDOW_S
    if until > snapshot.now:
        tally.due.append(until)
        return before
    tally.tell("RecoverSchedulable", f"subset {name} gets new pods again", warning=False)
    return _build_condition(before, "True", SUFFICIENT, snapshot.now)


def _build_condition(before: Condition | None, status: str, reason: str, now: Instant) -> Condition:
    since = (
        before.last_transition_time if before is not None and before.status == status else format_time(now)
    )
    return Condition(type=SCHEDULABLE, status=status, reason=reason, message="", last_transition_time=since)
