"""Ranks by which pods are sorted, computed once per event of a pod, before any decision.

fields of a pod ──▶ update_rank() ──▶ PodView.rank ──▶ pods/lifecycle/ordering.py

Pure. Sorting ten thousand pods by precomputed tuples takes milliseconds. Reading conditions and times in a sort key
takes ten times as long.
"""

import re
from typing import Final, NamedTuple

from pykruise.kube.clock import Instant


class Rank(NamedTuple):
    """Position of a pod in the base order of updates: the first field that differs decides, the lower value first.

    It is a tuple because sorting compares tuples in C.
    """

    has_node: bool = False
    phase: int = 0
    """Pending or any other phase, Unknown, Running."""
    is_ready: bool = False
    """The Ready condition alone, independent of the phase and the readiness gates."""
    has_ready_time: bool = False
    minus_ready_since: float = 0.0
    minus_restarts: int = 0
    minus_init_restarts: int = 0
    """Restarts of restartable init containers, negated."""
    has_creation_time: bool = False
    minus_created_at: float = 0.0
    name: str = ""
    """Makes the order total."""


_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"0|(?:-[0-9]|[1-9])[0-9]{0,9}", re.ASCII)
_INT32: Final = range(-(2**31), 2**31)


def update_rank(
    *,
    name: str,
    node_name: str,
    phase: str,
    ready: bool,
    ready_since: Instant | None,
    restarts: int,
    init_restarts: int,
    created_at: Instant | None,
) -> Rank:
    """Rank of a pod in the base order of updates: pods whose loss costs least come first.

    Unassigned before assigned; Pending, Unknown, Running (any other phase counts as Pending); not ready before ready;
    ready pods without a time, then the most recently ready; more restarts first, of regular containers, then of
    restartable init containers; pods without a creation time, then the newest.
    """
    since = ready_since if ready else None
    # Twice as fast as the constructor; runs once per event of a pod.
    return tuple.__new__(
        Rank,
        (
            bool(node_name),
            _PHASES.get(phase, 0),
            ready,
            since is not None,
            0.0 if since is None else -since,
            -restarts,
            -init_restarts,
            created_at is not None,
            0.0 if created_at is None else -created_at,
            name,
        ),
    )


def parse_deletion_cost(text: str | None) -> int:
    """The pod-deletion-cost annotation as a number; 0 when absent or malformed.

    This is the rule of Kubernetes' ReplicaSets: no plus sign, no leading zeros, and it must fit 32 bits.
    """
    if text is None or not _COST.fullmatch(text):
        return 0
    cost = int(text)
    return cost if cost in _INT32 else 0
