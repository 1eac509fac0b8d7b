"""What a workload waits for, as a condition of its status: nobody has to guess why it has not converged.

a kind's waiting.py ──▶ Waiting ──▶ with_waiting() ──▶ conditions
pods with obstacles ──▶ waiting_for_pods() ──▶ Waiting

Pure; for kinds whose conditions are Kubernetes' plain ones.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pykruise.kube.api import PlainCondition
from pykruise.kube.clock import Instant, format_time
from pykruise.pods.obstacles import Obstacle
from pykruise.pods.views import PodView

__all__ = [
    "WAITING",
    "Waiting",
    "goes_by_itself",
    "waiting_for_pods",
    "waiting_for_strategy",
    "with_condition",
    "with_waiting",
    "without",
]

WAITING: Final = "Waiting"
"""Type of the condition."""

_UNPAUSE: Final = "set spec.updateStrategy.rollingUpdate.paused to false"

_NOTHING: Final = "nothing has to be done"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload waits for."""

    reason: str
    """CamelCase."""
    because: str
    remedy: str = ""
    """What somebody has to do; empty: nothing."""

    @property
    def message(self) -> str:
        """For the condition."""
        return f"{self.because}; {self.remedy or _NOTHING}"


def goes_by_itself(message: str) -> bool:
    """Whether a condition's message asks nothing of anybody."""
    return message.endswith(_NOTHING)


def waiting_for_pods(obstacles: Sequence[tuple[PodView, Obstacle]]) -> Waiting | None:
    """The first pod's obstacle, and how many pods share it; None: there is no obstacle."""
    if not obstacles:
        return None
    pod, first = obstacles[0]
    others = sum(found.reason == first.reason for _, found in obstacles) - 1
    more = f" (and {others} more)" if others else ""
    return Waiting(reason=first.reason, because=f"pod {pod.name}{more} {first.because}", remedy=first.remedy)


def waiting_for_strategy(count: str, *, is_on_delete: bool, is_paused: bool) -> Waiting | None:
    """Pods of an older template that `spec.updateStrategy` leaves as they are. `count`: how many, in words."""
    if is_on_delete:
        return Waiting(
            reason="OnDelete",
            because=f"{count}, and the update strategy is OnDelete",
            remedy="delete them to have them updated, or choose RollingUpdate",
        )
    if is_paused:
        return Waiting(reason="Paused", because=f"{count}, and updates are paused", remedy=_UNPAUSE)
    return None


def with_waiting(
    conditions: Sequence[PlainCondition], waiting: Waiting | None, *, now: Instant
) -> list[PlainCondition]:
    """The condition Waiting while there is something to wait for; without `waiting` it is dropped."""
    if waiting is None:
        return without(conditions, WAITING)
    return with_condition(conditions, WAITING, reason=waiting.reason, message=waiting.message, now=now)


def with_condition(
    conditions: Sequence[PlainCondition],
    kind: str,
    *,
    reason: str = "",
    message: str = "",
    status: str = "True",
    now: Instant,
) -> list[PlainCondition]:
    """The conditions with this one. Its words may change without its time: only its status has one."""
    old = next((one for one in conditions if one.type == kind), None)
    kept = old.last_transition_time if old is not None and old.status == status else format_time(now)
    new = PlainCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=kept)
    return [*without(conditions, kind), new]


def without(conditions: Iterable[PlainCondition], *kinds: str) -> list[PlainCondition]:
    """The conditions of other types."""
    return [one for one in conditions if one.type not in kinds]
