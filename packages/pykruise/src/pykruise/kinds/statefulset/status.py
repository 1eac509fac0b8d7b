"""Status of a StatefulSet.

StatefulSetWorkingSet + stored status ──▶ status_of() ──▶ StatefulSetStatus

Pure: the status is a function of the snapshot, so it shows the writes of a plan only after the next reconcile.
Terminating pods count as replicas and, while they are ready, as ready, but not as current or updated.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.types import ClaimStatus, StatefulSetStatus
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.failed_resizes import read_refused_since
from pykruise.pods.lifecycle.availability import is_available
from pykruise.pods.reasons import NOT_WRITTEN
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import WAITING, drop_conditions, set_condition, set_waiting
from pykruise.runtime.reasons import Reason

FAILED_CREATE: Final = "FailedCreatePod"
FAILED_UPDATE: Final = "FailedUpdatePod"


def build_counters(
    pods: Iterable[PodView], *, current: str, update: str, min_ready_seconds: int, now: Instant
) -> dict[str, Any]:
    """Counters of the status, by field. `current`, `update`: hashes of the revisions."""
    there = [pod for pod in pods if pod.phase]
    ready = [pod for pod in there if pod.is_ready]
    available = [pod for pod in there if is_available(pod, min_ready_seconds=min_ready_seconds, now=now)]
    staying = [pod for pod in there if not pod.is_deleting]
    return {
        "replicas": len(there),
        "ready_replicas": len(ready),
        "available_replicas": len(available),
        "current_replicas": sum(pod.revision == current for pod in staying),
        "updated_replicas": sum(pod.revision == update for pod in staying),
        "updated_ready_replicas": sum(pod.revision == update for pod in ready),
        "updated_available_replicas": sum(pod.revision == update for pod in available),
    }


def status_of(
    ws: StatefulSetWorkingSet,
    *,
    collision_count: int,
    kept: Sequence[str],
    failure: Reason | None,
    waiting: Reason | None,
) -> StatefulSetStatus:
    """Compute the whole status.

    `kept`: types of the stored conditions to keep, because the plan repeats the failed writes that they report.
    `failure`: reason why pods cannot be updated at all.
    """
    statefulset = ws.snapshot.statefulset
    stored = statefulset.status
    counted = build_counters(
        ws.counted,
        current=ws.current.hash,
        update=ws.update.hash,
        min_ready_seconds=ws.limits.min_ready_seconds,
        now=ws.now,
    )
    current = ws.current.name
    if _is_complete(ws, counted):
        current = ws.update.name
        counted["current_replicas"] = counted["updated_replicas"]
    conditions: list[PlainCondition] = [
        condition for condition in stored.conditions or () if condition.type in kept
    ]
    if failure is not None:
        old = [condition for condition in stored.conditions or () if condition.type == FAILED_UPDATE]
        conditions = set_condition(
            [*drop_conditions(conditions, FAILED_UPDATE), *old],
            FAILED_UPDATE,
            reason=failure.code,
            message=failure.message,
            now=ws.now,
        )
    old_waiting = [condition for condition in stored.conditions or () if condition.type == WAITING]
    # After a failure, only a reason with a remedy is shown: "pods are being created" would contradict the failure.
    is_said = waiting is not None and (bool(waiting.remedy) or not conditions)
    if is_said or not any(condition.reason in NOT_WRITTEN for condition in conditions):
        conditions = set_waiting([*conditions, *old_waiting], waiting if is_said else None, now=ws.now)
    else:  # the set still waits because of the rejected write, so the stored condition is kept
        conditions = [*conditions, *old_waiting]
    return StatefulSetStatus(
        **counted,
        observed_generation=statefulset.generation,
        current_revision=current,
        update_revision=ws.update.name,
        collision_count=collision_count,
        label_selector=str(statefulset.selector),
        conditions=conditions,
        volume_claims=_build_claim_statuses(ws),
    )


def _is_complete(ws: StatefulSetWorkingSet, counted: dict[str, Any]) -> bool:
    """Whether all existing pods have the update revision and are ready.

    A rollout that a partition holds back is not complete while pods are missing, because they must be created at the
    old revision.
    """
    if ws.spec.is_on_delete:
        return False
    if not counted["replicas"] == counted["updated_replicas"] == counted["ready_replicas"]:
        return False
    return ws.limits.partition == 0 or 0 < len(ws.slots) == sum(bool(pod.phase) for pod in ws.slot_pods)


def _build_claim_statuses(ws: StatefulSetWorkingSet) -> list[ClaimStatus]:
    """Return an entry for each claim template. The entry counts the desired pods whose claims follow the template."""
    growth = Growth(ws)
    compatible = dict.fromkeys((template.name for template in growth.templates), 0)
    ready = dict(compatible)
    for slot in ws.slots if growth.templates else ():
        for template, claim in growth.list_claims(slot.ordinal):
            if template.is_met_by(claim):
                compatible[template.name] += 1
                ready[template.name] += template.is_ready_in(claim)
    return [
        ClaimStatus(
            volume_claim_name=template.name,
            compatible_replicas=compatible[template.name],
            compatible_ready_replicas=ready[template.name],
        )
        for template in growth.templates
    ]


def observe_status(
    status: StatefulSetStatus, pods: Iterable[PodView], *, min_ready_seconds: int, now: Instant
) -> StatefulSetStatus:
    """Return a stored status with counters computed from the current pods, for a set that must not be changed."""
    counted = build_counters(
        pods,
        current=status.current_revision.rpartition("-")[2],
        update=status.update_revision.rpartition("-")[2],
        min_ready_seconds=min_ready_seconds,
        now=now,
    )
    return msgspec.structs.replace(status, **counted)


def resize_refused_since(ws: StatefulSetWorkingSet) -> Instant | None:
    """Time since which the stored condition reports that the API server rejects a resize; None: the condition does not
    report this.
    """
    stored = ws.snapshot.statefulset.status
    return read_refused_since(stored.conditions, FAILED_UPDATE)
