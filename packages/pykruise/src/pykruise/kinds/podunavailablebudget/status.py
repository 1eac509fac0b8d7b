"""Status of a budget: how many pods serve, how many must serve, and how many may be unavailable.

Snapshot ──▶ compute() ──▶ Computed: the status, events, when time alone changes it

Pure. The records of pods that were let go are taken from the very object that the new status is written against: a
change in between is a conflict, and all is worked out anew.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.kinds.podunavailablebudget.snapshot import BudgetSnapshot
from pykruise.kube.clock import Instant
from pykruise.kube.resources import PODS
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.plans.phases import pod_key
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import (
    DISRUPTED_S,
    UPDATED_S,
    BudgetView,
    counts_as_available,
    counts_at,
    record_time,
)
from pykruise.runtime.plan import Note, Subject


class BudgetAmountError(ValueError):
    """maxUnavailable or minAvailable cannot be read; the message says which."""


class ComputedBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The status and what follows from it."""

    status: dict[str, Any]
    notes: tuple[Note, ...] = ()
    due: Instant | None = None
    """When time alone changes something."""


def desired_available(budget: BudgetView, *, total: int) -> int:
    """Pods that must be available of `total`. maxUnavailable goes before minAvailable. Raises BudgetAmountError."""
    if budget.max_unavailable is not None:
        return max(total - _resolved(budget.max_unavailable, "maxUnavailable", of=total), 0)
    if budget.min_available is not None:
        return _resolved(budget.min_available, "minAvailable", of=total)
    raise BudgetAmountError("spec: neither maxUnavailable nor minAvailable is there")


def _resolved(value: int | str, field: str, *, of: int) -> int:
    try:
        return resolve(value, of=of, rounding=Rounding.UP)
    except ValueError as error:
        raise BudgetAmountError(f"spec.{field}: {error}") from error


def compute(snapshot: BudgetSnapshot) -> ComputedBudget:
    """The status for this instant. Raises BudgetAmountError."""
    budget, pods = snapshot.budget, {pod.name: pod for pod in snapshot.pods}
    desired = desired_available(budget, total=snapshot.total)
    disrupted, updated = _Records(pods, snapshot.now, DISRUPTED_S), _Records(pods, snapshot.now, UPDATED_S)
    disrupted.take(budget.disrupted)
    updated.take(budget.unavailable)
    recorded = disrupted.kept.keys() | updated.kept.keys()
    current, due = 0, [*disrupted.due, *updated.due]
    for pod in snapshot.pods:
        if pod.name in recorded:
            continue
        if counts_as_available(pod, now=snapshot.now, settings=snapshot.in_place):
            current += 1
        elif at := counts_at(pod, now=snapshot.now, settings=snapshot.in_place):
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
        status=status, notes=tuple(map(_not_deleted, disrupted.late)), due=min(due, default=None)
    )


class _Records:
    """The records that still count, of pods that are there."""

    def __init__(self, pods: Mapping[str, PodView], now: Instant, lasting_s: float) -> None:
        self._pods, self._now, self._lasting_s = pods, now, lasting_s
        self.kept: dict[str, str] = {}
        self.late: list[PodView] = []
        self.due: list[Instant] = []

    def take(self, records: Mapping[str, str]) -> None:
        for name, text in records.items():
            pod, since = self._pods.get(name), record_time(text)
            if pod is None or (pod.created_at is not None and since < int(pod.created_at)):
                continue  # gone, or a successor under the same name
            until = since + self._lasting_s
            if until <= self._now:
                self.late.append(pod)
                continue
            self.kept[name] = text
            self.due.append(until)


def _not_deleted(pod: PodView) -> Note:
    return Note(
        reason="NotDeleted",
        message="Pod was expected by PUB to be deleted but it wasn't",
        warning=True,
        about=Subject(resource=PODS, key=pod_key(pod), uid=pod.uid),
        again_after_s=DISRUPTED_S,
    )
