"""Status of a DaemonSet.

DaemonSetWorkingSet + stored status ──▶ status_of() ──▶ DaemonSetStatus
stored status ──▶ set_reason() ──▶ the status with the reason why the controller does nothing

Pure: the status is computed from the snapshot. So the writes of a plan change the status only in the next reconcile.
"""

from typing import Any

import msgspec

from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.types import DaemonSetStatus
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.plans.failed_resizes import drop_other_causes
from pykruise.pods.reasons import NOT_WRITTEN
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING, drop_conditions, set_waiting
from pykruise.runtime.reasons import Reason


def build_counters(ws: DaemonSetWorkingSet) -> dict[str, Any]:
    """Return the counters of the status, by field. If a node has several pods, only its first pod is read."""
    current = ready = available = ws.settled + len(ws.outdated)
    updated = ws.settled
    misscheduled = 0
    for state in ws.nodes:
        if not state.pods:
            continue
        if state.place is not Place.RUN:
            misscheduled += 1
            continue
        first = state.pods[0]
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


def status_of(
    ws: DaemonSetWorkingSet, *, collision_count: int, waiting: Reason | None, is_writing: bool
) -> DaemonSetStatus:
    """Compute the whole status.

    `is_writing`: whether the plan writes pods or revisions. Then the condition that reports a failed write is kept,
    because the write can fail again.
    """
    stored = ws.snapshot.daemonset.status
    kept = drop_conditions(stored.conditions or (), SELECTOR_MISMATCH)
    has_failed = any(condition.type == WAITING and condition.reason in NOT_WRITTEN for condition in kept)
    conditions = kept if is_writing and has_failed else set_waiting(kept, waiting, now=ws.now)
    return DaemonSetStatus(
        **build_counters(ws),
        observed_generation=max(ws.snapshot.daemonset.generation, stored.observed_generation),
        update_revision=ws.revisions.label,
        collision_count=collision_count,
        conditions=conditions,
    )


def set_reason(stored: DaemonSetStatus, waiting: Reason, *, now: Instant) -> DaemonSetStatus:
    """Return the stored status with a new reason in the condition Waiting."""
    old = drop_other_causes(stored.conditions or (), WAITING, waiting)
    conditions = set_waiting(old, waiting, now=now)
    return msgspec.structs.replace(stored, conditions=conditions)
