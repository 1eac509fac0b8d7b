"""Condition of a workload that has not converged: the reason for which it waits.

a kind's waiting.py ──▶ Reason ──▶ set_waiting() ──▶ conditions
pods with obstacles ──▶ find_pod_wait() ──▶ Reason

Pure; for kinds with plain Kubernetes conditions.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.reasons import REPEATED, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason


class _OfType(Protocol):
    @property
    def type(self) -> str: ...


C = TypeVar("C", bound=_OfType)

WAITING: Final = "Waiting"
"""Type of the condition."""

_UNPAUSE: Final = "set spec.updateStrategy.rollingUpdate.paused to false"


def find_pod_wait(obstacles: Sequence[tuple[PodView, Reason]]) -> Reason | None:
    """The first pod's obstacle with the number of other pods that share it; None if there is no obstacle."""
    return find_first_shared([(f"pod {pod.name}", reason) for pod, reason in obstacles])


def find_repeated_wait(obstacles: Iterable[tuple[PodView, Reason]]) -> Reason | None:
    """The first obstacle that an owner repeats from its pods, because it does not disappear automatically."""
    return find_pod_wait([pair for pair in obstacles if pair[1].code in REPEATED])


def find_first_shared(obstacles: Sequence[tuple[str, Reason]]) -> Reason | None:
    """The first obstacle with its object's name and the number of others that share it; None if there is none."""
    if not obstacles:
        return None
    name, first = obstacles[0]
    others = sum(reason.code == first.code for _, reason in obstacles) - 1
    more = f" (and {others} more)" if others else ""
    return Reason(first.code, f"{name}{more}: {first.message}", first.remedy)


def find_strategy_wait(count: str, *, is_on_delete: bool, is_paused: bool) -> Reason | None:
    """Reason of old pods that `spec.updateStrategy` does not update. `count`: number of pods, in words."""
    if is_on_delete:
        remedy = "delete the pods so that they are updated, or set spec.updateStrategy.type to RollingUpdate"
        return Reason(Code.ON_DELETE, f"{count}, and the update strategy is OnDelete", remedy)
    if is_paused:
        return Reason(Code.PAUSED, f"{count}, and updates are paused", _UNPAUSE)
    return None


def set_waiting(
    conditions: Sequence[PlainCondition], waiting: Reason | None, *, now: Instant
) -> list[PlainCondition]:
    """Set the condition Waiting, or remove it when `waiting` is None."""
    if waiting is None:
        return drop_conditions(conditions, WAITING)
    return set_condition(conditions, WAITING, reason=waiting.code, message=waiting.condition_message, now=now)


def set_condition(
    conditions: Sequence[PlainCondition],
    kind: str,
    *,
    reason: str = "",
    message: str = "",
    status: str = "True",
    now: Instant,
) -> list[PlainCondition]:
    """Add or replace a condition. Its time changes only with its status, not with its reason or message."""
    old = condition_of(conditions, kind)
    kept = old.last_transition_time if old is not None and old.status == status else format_time(now)
    new = PlainCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=kept)
    return [*drop_conditions(conditions, kind), new]


def condition_of(conditions: Iterable[C] | None, kind: str) -> C | None:
    """The condition of this type; None if there is none."""
    return next((condition for condition in conditions or () if condition.type == kind), None)


def drop_conditions(conditions: Iterable[C], *kinds: str) -> list[C]:
    """The conditions of other types."""
    return [condition for condition in conditions if condition.type not in kinds]
