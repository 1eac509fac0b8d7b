"""Limits of a DaemonSet's spec, as numbers of nodes or pods.

spec + number of nodes that should run a pod ──▶ limits_of() ──▶ DaemonSetLimits, and the invalid fields

Pure. If a value is invalid, the result names the field, and the controller writes nothing. It must not use 0 instead: a
partition of 0 would update every node. Only an invalid burstReplicas stops nothing: it counts as 1.
"""

import msgspec

from pykruise.kinds.daemonset.types import DEFAULT_BURST, DaemonSetSpec
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve

BLOCK = "spec.updateStrategy.rollingUpdate"


class DaemonSetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, as numbers of nodes or pods."""

    desired: int
    """Number of nodes that should run a pod."""
    max_unavailable: int
    max_surge: int
    partition: int
    """Number of nodes that keep older revisions."""
    burst: int
    """Maximum number of creations in one plan. The same limit applies separately to deletions and to in-place updates.
    At least 1.
    """
    allows_surge: bool
    """Whether a node can have an old and a new pod at the same time."""
    problems: tuple[str, ...] = ()
    """Invalid fields, each as `<field>: <problem>`. If there is an invalid field, nothing must be written."""


def limits_of(spec: DaemonSetSpec, *, desired: int) -> DaemonSetLimits:
    """Return the limits for `desired` nodes.

    100% is `desired`. Percentages of maxUnavailable and maxSurge are rounded up, those of partition and burstReplicas
    down (but a burst is never 0). If both maxUnavailable and maxSurge are 0 or absent, maxUnavailable is 1.
    """
    problems: list[str] = []

    def number(value: IntOrPercent | None, field: str, rounding: Rounding) -> int:
        if value is None:
            return 0
        try:
            number = resolve(value, of=desired, rounding=rounding)
        except ValueError as error:
            problems.append(f"{field}: {error}")
            return 0
        if number < 0:
            problems.append(f"{field}: {value} is negative")
        return max(number, 0)

    block = spec.rolling_update
    max_unavailable = number(block.max_unavailable if block else None, f"{BLOCK}.maxUnavailable", Rounding.UP)
    max_surge = number(block.max_surge if block else None, f"{BLOCK}.maxSurge", Rounding.UP)
    partition = number(block.partition if block else None, f"{BLOCK}.partition", Rounding.DOWN)
    if max_unavailable == 0 and max_surge == 0:
        max_unavailable = 1
    return DaemonSetLimits(
        desired=desired,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=partition,
        burst=_compute_burst(spec.burst_replicas, desired=desired),
        allows_surge=block is not None and _is_positive(block.max_surge),
        problems=tuple(problems),
    )


def _compute_burst(value: IntOrPercent | None, *, desired: int) -> int:
    """Return the burst. If the value is invalid (because admission was bypassed), the burst is 1, the most careful
    value.
    """
    if value is None:
        return DEFAULT_BURST
    try:
        return max(resolve(value, of=desired, rounding=Rounding.DOWN), 1)
    except ValueError:
        return 1


def _is_positive(value: IntOrPercent | None) -> bool:
    try:
        return value is not None and resolve(value, of=1, rounding=Rounding.UP) > 0
    except ValueError:
        return False
