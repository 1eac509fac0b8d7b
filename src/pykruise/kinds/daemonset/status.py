"""What a DaemonSet reports of itself.

WorkingSet + stored status ──▶ status_of() ──▶ DaemonSetStatus
Snapshot (nothing may be touched) ──▶ observed() ──▶ the stored status with the counters of now

Pure: a function of the snapshot, so it lags the writes of the same plan by one look.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.types import DaemonSetStatus
from pykruise.kinds.daemonset.working_set import WorkingSet
from pykruise.kube.api import PlainCondition
from pykruise.kube.clock import Instant, format_time
from pykruise.pods.selector_guard import SELECTOR_CHANGED, SELECTOR_MISMATCH

__all__ = ["counters", "status_of", "with_mismatch"]


def counters(ws: WorkingSet) -> dict[str, Any]:
    """The counters of the status, by their field. A node counts by its first pod."""
    current = ready = available = updated = misscheduled = 0
    for node, pods in ws.by_node.items():
        if not pods:
            continue
        if ws.place(node) is not Place.RUN:
            misscheduled += 1
            continue
        first = pods[0]
        current += 1
        if first.has_ready_condition:
            ready += 1
            available += ws.is_available(first)
        updated += ws.is_updated(first)
    desired = ws.limits.desired
    return {
        "desired_number_scheduled": desired,
        "current_number_scheduled": current,
        "number_misscheduled": misscheduled,
        "number_ready": ready,
        "number_available": available,
        "number_unavailable": desired - available,
        "updated_number_scheduled": updated,
    }


def status_of(ws: WorkingSet) -> DaemonSetStatus:
    """The whole status. Only a selector that was changed is a condition, and here it was not."""
    stored = ws.snapshot.daemonset.status
    conditions = [one for one in stored.conditions or () if one.type != SELECTOR_MISMATCH]
    return DaemonSetStatus(
        **counters(ws),
        observed_generation=max(ws.snapshot.daemonset.generation, stored.observed_generation),
        update_revision=ws.revisions.label,
        collision_count=ws.revisions.collision_count or stored.collision_count,
        conditions=conditions or None,
    )


def with_mismatch(
    stored: DaemonSetStatus, counted: Mapping[str, Any], *, message: str, now: Instant
) -> DaemonSetStatus:
    """The stored status with these counters, and the condition that says why nothing is done."""
    old = next((one for one in stored.conditions or () if one.type == SELECTOR_MISMATCH), None)
    since = old.last_transition_time if old is not None and old.status == "True" else format_time(now)
    condition = PlainCondition(
        type=SELECTOR_MISMATCH,
        status="True",
        reason=SELECTOR_CHANGED,
        message=message,
        last_transition_time=since,
    )
    others: Sequence[PlainCondition] = [
        one for one in stored.conditions or () if one.type != SELECTOR_MISMATCH
    ]
    return msgspec.structs.replace(stored, **counted, conditions=[*others, condition])
