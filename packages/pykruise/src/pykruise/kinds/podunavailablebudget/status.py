"""Status of a budget: the number of pods that serve, the number that must serve, and the number that may become
unavailable.

BudgetSnapshot ──▶ compute() ──▶ ComputedBudget: the status, events, the time of the next change without an event

Pure. The new status keeps the records of admitted pods from the version of the object that was read. If the object
changes before the write, the write fails with a conflict, and the status is computed again.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.kinds.podunavailablebudget.snapshot import BudgetSnapshot
from pykruise.kube.clock import Instant
from pykruise.kube.resources import PODS
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.plans.pod_writes import make_pod_key
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import (
    DISRUPTED_S,
    UPDATED_S,
    BudgetView,
    find_counting_time,
    is_counted_as_available,
    record_time,
)
from pykruise.runtime.plan import Note, Subject


class BudgetAmountError(ValueError):
    """maxUnavailable or minAvailable is invalid; the message names the field."""


class ComputedBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The status, the events to record, and the time of the next computation."""

    status: dict[str, Any]
    notes: tuple[Note, ...] = ()
    due: Instant | None = None
    """Time at which the status changes without an event."""


def compute_desired_available(budget: BudgetView, *, total: int) -> int:
    """Number of the `total` pods that must be available; maxUnavailable takes precedence. Raises BudgetAmountError."""
    if budget.max_unavailable is not None:
        return max(total - _resolve(budget.max_unavailable, "maxUnavailable", of=total), 0)
    if budget.min_available is not None:
        return _resolve(budget.min_available, "minAvailable", of=total)
    raise BudgetAmountError("spec: neither maxUnavailable nor minAvailable is set")


def _resolve(value: int | str, field: str, *, of: int) -> int:
    try:
        return resolve(value, of=of, rounding=Rounding.UP)
    except ValueError as error:
        raise BudgetAmountError(f"spec.{field}: {error}") from error


def compute(snapshot: BudgetSnapshot) -> ComputedBudget:
    """Compute the current status. Raises BudgetAmountError."""
    budget, pods = snapshot.budget, {pod.name: pod for pod in snapshot.pods}
    desired = compute_desired_available(budget, total=snapshot.total)
    disrupted, updated = _Records(pods, snapshot.now, DISRUPTED_S), _Records(pods, snapshot.now, UPDATED_S)
    disrupted.take(budget.disrupted)
    updated.take(budget.unavailable)
    recorded = disrupted.kept.keys() | updated.kept.keys()
    current, due = 0, [*disrupted.due, *updated.due]
    for pod in snapshot.pods:
        if pod.name in recorded:
            continue
        if is_counted_as_available(pod, now=snapshot.now, settings=snapshot.in_place):
            current += 1
        elif at := find_counting_time(pod, now=snapshot.now, settings=snapshot.in_place):
            due.append(at)
    status: dict[str, Any] = {
        "observedGeneration": budget.generation,
        "unavailableAllowed": max(current - desired, 0),
        "currentAvailable": current,
        "desiredAvailable": desired,
        "totalReplicas": snapshot.total,
    }
    if disrupted.kept:
        status["disruptedPods"] = disrupted.kept
    if updated.kept:
        status["unavailablePods"] = updated.kept
    return ComputedBudget(
        status=status, notes=tuple(map(_make_not_deleted_note, disrupted.late)), due=min(due, default=None)
    )


class _Records:
    """Records of existing pods: records that have not expired, and the pods whose records have expired."""

    def __init__(self, pods: Mapping[str, PodView], now: Instant, lasting_s: float) -> None:
        self._pods, self._now, self._lasting_s = pods, now, lasting_s
        self.kept: dict[str, str] = {}
        self.late: list[PodView] = []
        self.due: list[Instant] = []

    def take(self, records: Mapping[str, str]) -> None:
        for name, text in records.items():
            pod, since = self._pods.get(name), record_time(text)
            if pod is None or (pod.created_at is not None and since < int(pod.created_at)):
                continue  # the pod was deleted, or this pod is its successor with the same name
            until = since + self._lasting_s
            if until <= self._now:
                self.late.append(pod)
                continue
            self.kept[name] = text
            self.due.append(until)


def _make_not_deleted_note(pod: PodView) -> Note:
    return Note(
        reason="NotDeleted",
        message="Pod was expected by PUB to be deleted but it wasn't",
        warning=True,
        about=Subject(resource=PODS, key=make_pod_key(pod), uid=pod.uid),
        again_after_s=DISRUPTED_S,
    )
