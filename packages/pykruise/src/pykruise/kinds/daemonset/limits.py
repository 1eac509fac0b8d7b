"""Limits of a DaemonSet's spec, as whole numbers.

spec + number of nodes that should run a pod ──▶ limits_of() ──▶ DaemonSetLimits, and the invalid fields

Pure. An invalid value never becomes a harmless-looking 0, which as a partition would update every node. The limits
name the field instead, and the controller writes nothing.
"""

import msgspec

from pykruise.kinds.daemonset.types import DEFAULT_BURST, DaemonSetSpec
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve

BLOCK = "spec.updateStrategy.rollingUpdate"


class DaemonSetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits, as numbers of nodes or pods."""

    desired: int
    """Nodes that should run a pod."""
    max_unavailable: int
    max_surge: int
    partition: int
    """Nodes that stay at older revisions."""
    burst: int
    """Maximum number of creations, of deletions, and of in-place updates in one plan, each counted separately; at
    least 1.
    """
    allows_surge: bool
    """Whether a node may have an old and a new pod at the same time."""
    problems: tuple[str, ...] = ()
    """Invalid fields, each as `<field>: <problem>`. If there are any, nothing may be written."""


def limits_of(spec: DaemonSetSpec, *, desired: int) -> DaemonSetLimits:
    """Return the limits for `desired` nodes.

    Percentages refer to those nodes: maxUnavailable and maxSurge are rounded up, partition and burstReplicas down
    (but a burst is never 0). If both maxUnavailable and maxSurge are absent, one node is updated at a time.
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
        burst=_burst(spec.burst_replicas, desired=desired),
        allows_surge=block is not None and _is_positive(block.max_surge),
        problems=tuple(problems),
    )


def _burst(value: IntOrPercent | None, *, desired: int) -> int:
    """Return the burst. An invalid value (admission was bypassed) becomes 1, the most careful burst."""
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
