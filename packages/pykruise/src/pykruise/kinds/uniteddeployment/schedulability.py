"""Schedulability: subsets whose pods find no nodes, and reserved pods.

workloads + pods + stored conditions ──▶ judge_subsets() ──▶ verdict by subset, labels to write, next reconcile

Pure. There are two modes for a subset whose pods find no nodes. ADAPTIVE gives the subset no new pods for a while.
RESERVE keeps the pods of the subset as reserved pods, and other subsets replace them. The start of each waiting time is
stored in conditions, so a restarted manager continues correctly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kinds.uniteddeployment.types import SubsetStatus, UnitedDeploymentSpec
from pykruise.kinds.uniteddeployment.workloads import RESERVED_LABEL, REVISION_LABEL, SubsetWorkload
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of

SCHEDULABLE: Final = "Schedulable"
"""Type of the condition that reports whether the pods of a subset find nodes."""

WORKS: Final = "false"
IN_RESERVE: Final = "true"


class SchedulabilityVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Schedulability of the subsets that have a workload."""

    unschedulable: frozenset[str] = frozenset()
    were_unschedulable: frozenset[str] = frozenset()
    """Subsets whose stored condition already reports that they find no nodes."""
    conditions: Mapping[str, PlainCondition] = {}
    """New value of the condition Schedulable, by subset."""
    reserved: Mapping[str, int] = {}
    """Number of reserved pods, by subset."""
    unborn: Mapping[str, int] = {}
    """Number of pods that do not exist yet and will be created as reserved pods, by subset."""
    labels: Mapping[str, tuple[PodView, str]] = {}
    """Pods whose label `RESERVED_LABEL` must be written, by name, with the new value."""
    update_timeouts: Mapping[str, int] = {}
    """Number of pods that are reserved because their update takes too long, by subset."""
    due: Instant | None = None
    """Instant at which a verdict changes without an event."""


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A subset with its workload."""

    name: str
    workload: SubsetWorkload
    pods: Sequence[PodView]
    condition: PlainCondition | None
    passed_over: PlainCondition | None
    """The stored condition when it reports that the subset finds no nodes."""
    spec: UnitedDeploymentSpec
    now: Instant


def judge_subsets(
    spec: UnitedDeploymentSpec,
    workloads: Mapping[str, SubsetWorkload],
    pods: Mapping[str, Sequence[PodView]],
    entries: Mapping[str, SubsetStatus],
    *,
    target: str,
    updating_since: Instant | None,
    now: Instant,
) -> SchedulabilityVerdict:
    """Judge all subsets. `workloads`, `entries`: by subset. `pods`: by uid of the workload. `target`: name of the
    revision to which pods are updated; the update started at `updating_since`.
    """
    cases = [
        _Case(
            name=name,
            workload=workload,
            pods=[pod for pod in pods.get(workload.uid, ()) if pod.is_active],
            condition=schedulable_of(entries[name]),
            passed_over=passed_over_of(entries[name]),
            spec=spec,
            now=now,
        )
        for name, workload in workloads.items()
        if name in entries
    ]
    match spec.mode:
        case Mode.FIXED:
            return SchedulabilityVerdict()
        case Mode.ADAPTIVE:
            return _join_verdicts(_judge_adaptive(case) for case in cases)
        case Mode.RESERVE:
            since = now if updating_since is None else updating_since
            return _join_verdicts(_judge_reserve(case, target=target, updating_since=since) for case in cases)


def schedulable_of(entry: SubsetStatus) -> PlainCondition | None:
    """Return the stored condition of a subset."""
    return condition_of(entry.conditions, SCHEDULABLE)


def passed_over_of(entry: SubsetStatus) -> PlainCondition | None:
    """Return the stored condition when it reports that the subset finds no nodes."""
    condition = schedulable_of(entry)
    return condition if condition is not None and condition.status == "False" else None


def is_unschedulable(pod: PodView) -> bool:
    """Whether the scheduler has reported that it finds no node for the pod."""
    scheduled = pod.find_condition("PodScheduled")
    return (
        not pod.is_deleting
        and pod.phase == "Pending"
        and not pod.node_name
        and scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == "Unschedulable"
    )


def set_schedulable(
    old: PlainCondition | None, *, status: str, reason: str, message: str, now: Instant
) -> PlainCondition:
    """Return the new condition, or the old condition if it has the same status and reason: it keeps the time of the
    first failure.
    """
    if old is not None and old.status == status and old.reason == reason:
        return old
    return PlainCondition(
        type=SCHEDULABLE,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=format_time(now),
    )


def set_passed_over_again(old: PlainCondition | None, *, now: Instant) -> PlainCondition:
    """Return the condition of a subset that has just recovered and grows: its new pods start as reserved pods."""
    message = "subset just recovered scaled up"
    return set_schedulable(old, status="False", reason="reschedule", message=message, now=now)


def _join_verdicts(verdicts: Iterable[SchedulabilityVerdict]) -> SchedulabilityVerdict:
    result = list(verdicts)
    return SchedulabilityVerdict(
        unschedulable=frozenset().union(*(verdict.unschedulable for verdict in result)),
        were_unschedulable=frozenset().union(*(verdict.were_unschedulable for verdict in result)),
        conditions={name: value for verdict in result for name, value in verdict.conditions.items()},
        reserved={name: value for verdict in result for name, value in verdict.reserved.items()},
        unborn={name: value for verdict in result for name, value in verdict.unborn.items()},
        labels={name: value for verdict in result for name, value in verdict.labels.items()},
        update_timeouts={
            name: value for verdict in result for name, value in verdict.update_timeouts.items()
        },
        due=min((verdict.due for verdict in result if verdict.due is not None), default=None),
    )


# ── ADAPTIVE: no new pods for a while ────────────────────────────────────


def _judge_adaptive(case: _Case) -> SchedulabilityVerdict:
    condition, spec, now = case.condition, case.spec, case.now
    were_unschedulable = frozenset[str]()
    if case.passed_over is not None:
        were_unschedulable = frozenset({case.name})
        until = _read_time(case.passed_over, default=now) + spec.unschedulable_s
        if now < until:
            return SchedulabilityVerdict(
                unschedulable=were_unschedulable, were_unschedulable=were_unschedulable, due=until
            )
        message = f"unschedulable subset recovered after {spec.unschedulable_s:.6f} seconds"
        condition = set_schedulable(condition, status="True", reason="recover", message=message, now=now)
    late, due = _count_late(case)
    if late:
        message = "timeout pending pods found"
        condition = set_schedulable(condition, status="False", reason="reschedule", message=message, now=now)
        due = now + spec.unschedulable_s
    return SchedulabilityVerdict(
        unschedulable=frozenset({case.name}) if late else frozenset(),
        were_unschedulable=were_unschedulable,
        conditions={} if condition is None else {case.name: condition},
        due=due,
    )


def _count_late(case: _Case) -> tuple[int, Instant | None]:
    """Count the pods that have waited too long for a node, and return the time at which the next pod will have waited
    too long. If all pods of the workload are ready, the result is 0 and None.
    """
    if case.workload.ready >= case.workload.status_replicas:
        return 0, None
    now = case.now
    ends = [(pod.created_at or now) + case.spec.critical_s for pod in case.pods if is_unschedulable(pod)]
    return sum(end <= now for end in ends), min((end for end in ends if end > now), default=None)


def _read_time(condition: PlainCondition, *, default: Instant) -> Instant:
    try:
        return parse_time(condition.last_transition_time or "")
    except ValueError:
        return default


# ── RESERVE: reserved pods ───────────────────────────────────────────────


class _Update(msgspec.Struct, frozen=True, kw_only=True):
    """The running update, for one subset."""

    target: str
    """Name of the revision."""
    ends_at: Instant
    """Instant at which the time limit of the update ends."""
    late: frozenset[str]
    """Names of the pods whose update takes too long."""

    def has(self, pod: PodView) -> bool:
        """Whether the pod has the revision of the update."""
        return pod.labels.get(REVISION_LABEL) == self.target


def _judge_reserve(case: _Case, *, target: str, updating_since: Instant) -> SchedulabilityVerdict:
    """Judge the pods of one subset in the mode RESERVE."""
    name, passed_over = case.name, case.passed_over
    ends_at = updating_since + case.spec.critical_s
    late = _find_late_updates(case, target) if ends_at <= case.now else frozenset()
    update = _Update(target=target, ends_at=ends_at, late=late)
    judged = {pod.name: _is_reserved(pod, case, update) for pod in case.pods}
    in_reserve = {pod_name: is_reserved for pod_name, (is_reserved, _) in judged.items()}
    count = sum(in_reserve.values())
    # Pods that do not exist yet start as reserved pods: a pod must not count as working before it exists.
    unborn = max(case.workload.replicas - len(case.pods), 0) if passed_over is not None else 0
    if passed_over is not None and unborn and not count:
        condition = passed_over
    else:
        status, message = ("False", "reserved pods found") if count else ("True", "no reserved pods")
        condition = set_schedulable(
            case.condition, status=status, reason="reschedule", message=message, now=case.now
        )
    return SchedulabilityVerdict(
        unschedulable=frozenset({name}) if count or unborn else frozenset(),
        were_unschedulable=frozenset({name}) if passed_over is not None else frozenset(),
        conditions={name: condition},
        reserved={name: count},
        unborn={name: unborn},
        labels={
            pod.name: (pod, value)
            for pod in case.pods
            if pod.labels.get(RESERVED_LABEL) != (value := IN_RESERVE if in_reserve[pod.name] else WORKS)
        },
        update_timeouts={name: sum(in_reserve[pod_name] for pod_name in late)},
        due=min((due for _, due in judged.values() if due is not None), default=None),
    )


def _find_late_updates(case: _Case, target: str) -> frozenset[str]:
    """Names of the pods whose update takes too long: pods of older revisions, except those that the partition keeps.
    The partition keeps ready pods first, and among these the oldest.
    """
    old = [pod for pod in case.pods if pod.labels.get(REVISION_LABEL) != target]
    old.sort(key=lambda pod: (pod.is_ready, -(pod.created_at or case.now), pod.name))
    partition = case.spec.partition_of(case.name)
    return frozenset(pod.name for pod in old[: max(len(old) - partition, 0)])


def _is_reserved(pod: PodView, case: _Case, update: _Update) -> tuple[bool, Instant | None]:
    """Return whether the pod is reserved, and the time at which this may change without an event.

    A reserved pod of the update's revision counts as working again after it has been ready for `unschedulable_s`. A
    working pod becomes reserved when it waits too long for a node or for its update.
    """
    now = case.now
    look_again = now + case.spec.unschedulable_s
    label = pod.labels.get(RESERVED_LABEL)
    if case.passed_over is not None and label is None:
        return True, look_again
    if label == IN_RESERVE:
        if not (pod.phase == "Running" and update.has(pod) and pod.has_ready_condition):
            return True, look_again
        proved_at = (pod.ready_since or now) + case.spec.unschedulable_s
        return (False, None) if proved_at <= now else (True, proved_at)
    if update.has(pod):
        if not is_unschedulable(pod):
            return False, None
        given_up_at = (pod.created_at or now) + case.spec.critical_s
        return (True, look_again) if given_up_at <= now else (False, given_up_at)
    if update.ends_at > now:
        return False, update.ends_at
    return (True, look_again) if pod.name in update.late else (False, None)
