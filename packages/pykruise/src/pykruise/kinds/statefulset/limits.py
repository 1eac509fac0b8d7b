"""Numbers of pods of a StatefulSet: desired, kept at the current revision, and allowed to be unavailable.

spec ──▶ limits_of() ──▶ StatefulSetLimits, and the errors of stored values

Pure. A percentage is a percentage of replicas, rounded down. maxUnavailable is at least 1, because otherwise no pod
could ever be updated.
"""

from typing import Final

import msgspec

from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.pods.workload.spec import LARGEST_SET, describe_excess

BLOCK: Final = "spec.updateStrategy.rollingUpdate"


class StatefulSetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts in pods, times in seconds."""

    replicas: int = 1
    partition: int = 0
    """Number of pods that stay at the current revision: the pods with the lowest ranks, unless unorderedUpdate sets
    priorities.
    """
    max_unavailable: int = 1
    scale_max_unavailable: int | None = None
    """Number of pods that may be unavailable while pods are created or repaired; None: there is no limit."""
    min_ready_seconds: int = 0
    history: int = 10

    @property
    def quota(self) -> int:
        """Number of pods that should have the update revision."""
        return max(self.replicas - self.partition, 0)


def limits_of(spec: StatefulSetSpec) -> tuple[StatefulSetLimits, list[str]]:
    """Return the limits, and `<field>: <problem>` of each field that cannot be read."""
    problems: list[str] = []
    replicas = 1 if spec.replicas is None else spec.replicas
    if replicas < 0:
        problems.append(f"spec.replicas: {replicas} is negative")
        replicas = 0
    if replicas > LARGEST_SET:
        problems.append(f"spec.replicas: {describe_excess(replicas)}")
        replicas = LARGEST_SET

    def amount(value: IntOrPercent, field: str) -> int:
        try:
            return max(resolve(value, of=replicas, rounding=Rounding.DOWN), 1)
        except ValueError as error:
            problems.append(f"{field}: {error}")
            return 1

    def number(value: int | None, field: str) -> int:
        if value is not None and value < 0:
            problems.append(f"{field}: {value} is negative")
        return max(value or 0, 0)

    block = spec.rolling_update
    down = block.max_unavailable if block else None
    scale = spec.scale_strategy.max_unavailable if spec.scale_strategy else None
    history = spec.revision_history_limit
    return (
        StatefulSetLimits(
            replicas=replicas,
            partition=number(block.partition if block else None, f"{BLOCK}.partition"),
            max_unavailable=1 if down is None else amount(down, f"{BLOCK}.maxUnavailable"),
            scale_max_unavailable=None
            if scale is None
            else amount(scale, "spec.scaleStrategy.maxUnavailable"),
            min_ready_seconds=number(block.min_ready_seconds if block else None, f"{BLOCK}.minReadySeconds"),
            history=10 if history is None else number(history, "spec.revisionHistoryLimit"),
        ),
        problems,
    )
