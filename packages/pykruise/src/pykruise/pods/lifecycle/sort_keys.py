"""Sort keys of pods: one tuple per pod, computed once per event.

fields of a pod ──▶ update_rank() ──▶ PodView.update_rank ──▶ pods/lifecycle/ordering.py

Pure. Sorting ten thousand pods by ready-made tuples takes milliseconds; reading conditions and times in a
sort key takes ten times that.
"""

import re
from typing import Final

from pykruise.kube.clock import Instant

Rank = tuple[bool, int, bool, bool, float, int, int, bool, float, str]
"""assigned, phase, ready, ready time known, -ready time, -restarts, -restarts of init containers, creation
known, -creation, name. Ascending: who goes first. The name makes the order total."""

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
    """The base order of updates: first the pods whose loss is least felt.

    Unassigned before assigned; Pending, Unknown, Running (any other phase as Pending); not ready before
    ready; of ready ones those without a time, then the most recent; more restarts first, of regular
    containers, then of restartable init containers; those without a creation time, then the newest.
    """
    since = ready_since if ready else None
    return (
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
    )


def deletion_cost(text: str | None) -> int:
    """The pod-deletion-cost annotation as a number; absent or malformed is 0.

    Rule: Kubernetes' ReplicaSets. No plus sign, no leading zeros, and it must fit 32 bits.
    """
    if text is None or not _COST.fullmatch(text):
        return 0
    cost = int(text)
    return cost if cost in _INT32 else 0
