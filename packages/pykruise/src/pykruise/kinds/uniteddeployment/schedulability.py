"""Which subsets find no nodes for their pods, and which pods are in reserve.

workloads + pods + stored conditions ──▶ judge() ──▶ Verdict by subset, labels to be written, when to look again

Pure. Two modes: ADAPTIVE passes a subset over for a while, RESERVE keeps its pods and has others stand in for them.
Times are those of the stored conditions, so a manager that comes back goes on where the last one was.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kinds.uniteddeployment.snapshot import UnitedView
from pykruise.kinds.uniteddeployment.types import SubsetStatus
from pykruise.kinds.uniteddeployment.workloads import RESERVED_LABEL, REVISION_LABEL, SubsetWorkload
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import condition_of

SCHEDULABLE: Final = "Schedulable"
"""Type of the condition."""

WORKS: Final = "false"
IN_RESERVE: Final = "true"


class SchedulabilityVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Schedulability of the subsets that have a workload."""

    unschedulable: frozenset[str] = frozenset()
    were_unschedulable: frozenset[str] = frozenset()
    """Their stored condition says so."""
    conditions: Mapping[str, PlainCondition] = {}
    """The condition Schedulable as it is to be, by subset."""
    reserved: Mapping[str, int] = {}
    """Pods in reserve, by subset."""
    unborn: Mapping[str, int] = {}
    """Pods that are still to be created, and begin in reserve, by subset."""
    labels: Mapping[str, tuple[PodView, str]] = {}
    """Pods whose label is to be written, by name, and what it is to say."""
    update_timeouts: Mapping[str, int] = {}
    """Pods that are in reserve since their update takes too long, by subset."""
    due: Instant | None = None
    """When time alone changes something."""


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One subset with its workload."""

    name: str
    workload: SubsetWorkload
    pods: Sequence[PodView]
    condition: PlainCondition | None
    was_passed_over: bool
    partition: int


def judge(
    united: UnitedView,
    workloads: Mapping[str, SubsetWorkload],
    pods: Mapping[str, Sequence[PodView]],
    entries: Mapping[str, SubsetStatus],
    *,
    target: str,
    updating_since: Instant | None,
    now: Instant,
) -> SchedulabilityVerdict:
    """`workloads`, `entries`: by subset. `pods`: by uid of the workload. `target`: name of the revision that pods are
    updated to, `updating_since`: since when they are."""
    cases = [
        _Case(
            name=name,
            workload=workload,
            pods=[pod for pod in pods.get(workload.uid, ()) if pod.is_active],
            condition=schedulable_of(entries[name]),
            was_passed_over=is_passed_over(entries[name]),
            partition=united.partition(name),
        )
        for name, workload in workloads.items()
        if name in entries
    ]
    match united.mode:
        case Mode.FIXED:
            return SchedulabilityVerdict()
        case Mode.ADAPTIVE:
            return _joined(_adaptive(case, united, now=now) for case in cases)
        case Mode.RESERVE:
            since = now if updating_since is None else updating_since
            return _joined(
                _Reserve(case, united, target=target, updating_since=since, now=now).verdict()
                for case in cases
            )


def schedulable_of(entry: SubsetStatus) -> PlainCondition | None:
    """The stored condition of a subset."""
    return condition_of(entry.conditions, SCHEDULABLE)


def is_passed_over(entry: SubsetStatus) -> bool:
    """Whether its stored condition says that it finds no nodes."""
    condition = schedulable_of(entry)
    return condition is not None and condition.status == "False"


def is_unschedulable(pod: PodView) -> bool:
    """Whether the scheduler has said that there is no node for it."""
    scheduled = pod.condition("PodScheduled")
    return (
        not pod.is_deleting
        and pod.phase == "Pending"
        and not pod.node_name
        and scheduled is not None
        and scheduled.status == "False"
        and scheduled.reason == "Unschedulable"
    )


def with_schedulable(
    old: PlainCondition | None, *, status: str, reason: str, message: str, now: Instant
) -> PlainCondition:
    """The condition; with the same status and reason it stays as it is, so that its time marks the first failure."""
    if old is not None and old.status == status and old.reason == reason:
        return old
    return PlainCondition(
        type=SCHEDULABLE,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=format_time(now),
    )


def passed_over_again(old: PlainCondition | None, *, now: Instant) -> PlainCondition:
    """Whether a subset has just recovered and grows: its new pods begin in reserve."""
    message = "subset just recovered scaled up"
    return with_schedulable(old, status="False", reason="reschedule", message=message, now=now)


def _joined(verdicts: Iterable[SchedulabilityVerdict]) -> SchedulabilityVerdict:
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


# ── passed over for a while ──────────────────────────────────────────────


def _adaptive(case: _Case, united: UnitedView, *, now: Instant) -> SchedulabilityVerdict:
    condition, was = case.condition, frozenset[str]()
    if case.was_passed_over:
        assert condition is not None
        was = frozenset({case.name})
        until = _time(condition, default=now) + united.unschedulable_s
        if now < until:
            return SchedulabilityVerdict(unschedulable=was, were_unschedulable=was, due=until)
        message = f"unschedulable subset recovered after {united.unschedulable_s:.6f} seconds"
        condition = with_schedulable(condition, status="True", reason="recover", message=message, now=now)
    late, due = _late(case, united, now=now)
    if late:
        message = "timeout pending pods found"
        condition = with_schedulable(condition, status="False", reason="reschedule", message=message, now=now)
        due = now + united.unschedulable_s
    return SchedulabilityVerdict(
        unschedulable=frozenset({case.name}) if late else frozenset(),
        were_unschedulable=was,
        conditions={} if condition is None else {case.name: condition},
        due=due,
    )


def _late(case: _Case, united: UnitedView, *, now: Instant) -> tuple[int, Instant | None]:
    """Pods that have waited too long for a node, and when the next one will have."""
    if case.workload.ready >= case.workload.status_replicas:
        return 0, None
    ends = [(pod.created_at or now) + united.critical_s for pod in case.pods if is_unschedulable(pod)]
    return sum(end <= now for end in ends), min((end for end in ends if end > now), default=None)


def _time(condition: PlainCondition, *, default: Instant) -> Instant:
    try:
        return parse_time(condition.last_transition_time or "")
    except ValueError:
        return default


# ── in reserve ───────────────────────────────────────────────────────────


class _Reserve:
    """One subset whose pods may be in reserve."""

    def __init__(
        self, case: _Case, united: UnitedView, *, target: str, updating_since: Instant, now: Instant
    ) -> None:
        self._case = case
        self._critical_s, self._ready_s = united.critical_s, united.unschedulable_s
        self._target = target
        self._update_ends = updating_since + united.critical_s
        self._now = now
        self._was = case.was_passed_over
        self._dues: list[Instant] = []
        self._late_updates = self._late() if self._update_ends <= now else frozenset()

    def verdict(self) -> SchedulabilityVerdict:
        """Verdict about its pods."""
        name = self._case.name
        in_reserve = {pod.name: self._is_reserved(pod) for pod in self._case.pods}
        count = sum(in_reserve.values())
        # What is created next begins in reserve: it does not count as working before it is there.
        unborn = max(self._case.workload.replicas - len(self._case.pods), 0) if self._was else 0
        return SchedulabilityVerdict(
            unschedulable=frozenset({name}) if count or unborn else frozenset(),
            were_unschedulable=frozenset({name}) if self._was else frozenset(),
            conditions={name: self._condition(count, unborn)},
            reserved={name: count},
            unborn={name: unborn},
            labels=dict(self._labels(in_reserve)),
            update_timeouts={name: sum(in_reserve[update] for update in self._late_updates)},
            due=min(self._dues, default=None),
        )

    def _condition(self, count: int, unborn: int) -> PlainCondition:
        old = self._case.condition
        if unborn and not count:
            assert old is not None
            return old
        status, message = ("False", "reserved pods found") if count else ("True", "no reserved pods")
        return with_schedulable(old, status=status, reason="reschedule", message=message, now=self._now)

    def _labels(self, in_reserve: Mapping[str, bool]) -> Iterator[tuple[str, tuple[PodView, str]]]:
        for pod in self._case.pods:
            value = IN_RESERVE if in_reserve[pod.name] else WORKS
            if pod.labels.get(RESERVED_LABEL) != value:
                yield pod.name, (pod, value)

    def _is_reserved(self, pod: PodView) -> bool:
        label = pod.labels.get(RESERVED_LABEL)
        if self._was and label is None:
            self._dues.append(self._now + self._ready_s)
            return True
        if label == IN_RESERVE:
            return not self._has_proved(pod)
        if self._is_updated(pod):
            return self._waits_for_node(pod)
        return self._is_late(pod)

    def _has_proved(self, pod: PodView) -> bool:
        """A pod in reserve works again once it was ready for long enough."""
        if not (pod.phase == "Running" and self._is_updated(pod) and pod.has_ready_condition):
            self._dues.append(self._now + self._ready_s)
            return False
        return self._has_passed((pod.ready_since or self._now) + self._ready_s)

    def _waits_for_node(self, pod: PodView) -> bool:
        if not is_unschedulable(pod):
            return False
        if not self._has_passed((pod.created_at or self._now) + self._critical_s):
            return False
        self._dues.append(self._now + self._ready_s)
        return True

    def _is_late(self, pod: PodView) -> bool:
        if self._update_ends > self._now:
            self._dues.append(self._update_ends)
            return False
        if pod.name not in self._late_updates:
            return False
        self._dues.append(self._now + self._ready_s)
        return True

    def _late(self) -> frozenset[str]:
        """Pods whose update takes too long. The partition keeps some where they are: those that are not ready, and of
        the others the newest, are not among them."""
        old = [pod for pod in self._case.pods if not self._is_updated(pod)]
        old.sort(key=lambda pod: (pod.is_ready, -(pod.created_at or self._now), pod.name))
        return frozenset(pod.name for pod in old[: max(len(old) - self._case.partition, 0)])

    def _is_updated(self, pod: PodView) -> bool:
        return pod.labels.get(REVISION_LABEL) == self._target

    def _has_passed(self, end: Instant) -> bool:
        if end <= self._now:
            return True
        self._dues.append(end)
        return False
