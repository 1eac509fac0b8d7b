"""Limits of a DaemonSet's spec, as whole numbers.

spec + number of nodes that run a pod ──▶ limits_of() ──▶ Limits, and the fields that cannot be read

Pure. A value that cannot be read never becomes a harmless-looking 0, which as a partition would update
everything: nothing is touched, and its field is named.
"""

import msgspec

from pykruise.kinds.daemonset.types import DEFAULT_BURST, DaemonSetSpec
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve

BLOCK = "spec.updateStrategy.rollingUpdate"


class DaemonSetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts, in nodes or pods."""

    desired: int
    """Nodes that run a pod."""
    max_unavailable: int
    max_surge: int
    partition: int
    """Nodes that stay on older revisions."""
    burst: int
    """Creations, deletions and updates in place of one plan, each counted apart; at least 1."""
    allows_surge: bool
    """Whether a node may have an old and a new pod."""
    problems: tuple[str, ...] = ()
    """`<field>: <what is wrong>`; with any, nothing may be touched."""


def limits_of(spec: DaemonSetSpec, *, desired: int) -> DaemonSetLimits:
    """The limits for that number of nodes.

    Percentages are of those nodes: maxUnavailable and maxSurge rounded up, partition and burstReplicas down
    (but a burst is never 0). With neither maxUnavailable nor maxSurge one node at a time is updated.
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
        allows_surge=block is not None and _is_more_than_none(block.max_surge),
        problems=tuple(problems),
    )


def _burst(value: IntOrPercent | None, *, desired: int) -> int:
    """A value that cannot be read (admission was bypassed) is taken for the most careful one."""
    if value is None:
        return DEFAULT_BURST
    try:
        return max(resolve(value, of=desired, rounding=Rounding.DOWN), 1)
    except ValueError:
        return 1


def _is_more_than_none(value: IntOrPercent | None) -> bool:
    try:
        return value is not None and resolve(value, of=1, rounding=Rounding.UP) > 0
    except ValueError:
        return False
