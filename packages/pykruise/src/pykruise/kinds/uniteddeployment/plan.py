"""The plan for a UnitedDeployment: it joins all decisions.

UnitedSnapshot ──▶ UnitedDeploymentWorkingSet ▸ replicas by subset ▸ Changes ──▶ Plan:
             store unschedulable subsets ▸ adopt, release ▸ mark pods ▸ create ▸ delete ▸ shrink and update ▸ grow
             ▸ stuck pods ▸ old revisions

Pure. Workloads that do not grow are updated before workloads that grow. If an update of a workload that does not grow
fails, no workload grows. Otherwise, a failed write of one subset does not block the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.allocation import AllocationError, Mode
from pykruise.kinds.uniteddeployment.changes import Changes, change_workloads, partition_of
from pykruise.kinds.uniteddeployment.ownership import find_mismatch, plan_adoption, release
from pykruise.kinds.uniteddeployment.schedulability import passed_over_of, schedulable_of
from pykruise.kinds.uniteddeployment.snapshot import ReadableUnitedDeployment, UnitedSnapshot, is_readable
from pykruise.kinds.uniteddeployment.status import (
    ERROR,
    PROVISIONED,
    SUBSETS_UPDATED,
    Conditions,
    StatusInputs,
    set_condition,
    set_mismatch,
    set_updated,
    status_of,
)
from pykruise.kinds.uniteddeployment.stuck_pods import delete_stuck_pods
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS, UnitedDeploymentStatus
from pykruise.kinds.uniteddeployment.working_set import (
    UnitedDeploymentWorkingSet,
    allocate_replicas,
    build_working_set,
    close_growing_subsets,
)
from pykruise.kinds.uniteddeployment.workloads import type_of
from pykruise.kinds.uniteddeployment.writes import add_note, mark, stage_of
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_count
from pykruise.plans.ownership import adopt_used, delete_revision, plan_revisions
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S, SELECTOR_MISMATCH, Mismatch
from pykruise.pods.workload.waiting import condition_of
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import build_status_patch

_AGAIN_S: Final = 600.0

_DEFINED_AGAIN_S: Final = 10.0
"""Seconds until the next check whether the API server serves the kind of the workloads: no event reports this."""


def plan_united(snapshot: UnitedSnapshot) -> Plan:
    """Plan all writes that this object needs now, its status, and the time of the next reconcile."""
    united = snapshot.united
    if united.is_deleting:
        return Plan()
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.united.problem])
    if not united.template:
        return make_refused_plan(["spec.template: exactly one of the templates must be set"])
    if (mismatch := find_mismatch(snapshot)) is not None:
        return _plan_guarded(snapshot, mismatch)
    if not snapshot.is_served:
        kind = type_of(united.template)
        message = f"the API server does not serve {kind}: its CRD is not installed"
        reason = Reason(Code.NO_TARGET, message, f"install the CRD of {kind}")
        return Plan(waiting=reason, requeue_after_s=_DEFINED_AGAIN_S)
    return _plan_readable(snapshot)


def compute_status_after(snapshot: UnitedSnapshot, plan: Plan, failure: Failure) -> Document | None:
    """Return the status with the error. observedGeneration stays at the stored value, because not everything was
    written.

    None when there is nothing to report: an old revision that could not be deleted blocks nothing.
    """
    united = snapshot.united
    if plan.status is None and failure.purpose == Purpose.TRUNCATE_REVISIONS:
        return None
    status = united.status if plan.status is None else msgspec.convert(plan.status, UnitedDeploymentStatus)
    conditions: Conditions = status.conditions or ()
    kind = _CONDITIONS.get(failure.purpose)
    if kind is not None:
        reason = failure.reason
        is_said = reason.code == Code.NAME_TOO_LONG  # messages of other errors come from the API server
        error = f"subset {failure.subject}: {reason.full_message if is_said else reason.message}"
        code = reason.code if is_said else ERROR
        conditions = set_condition(conditions, kind, error=error, code=code, now=snapshot.now)
    seen = united.status.observed_generation
    return _build_document(
        msgspec.structs.replace(status, conditions=list(conditions), observed_generation=seen)
    )


_CONDITIONS: Final[Mapping[str, str]] = {
    Purpose.CREATE_WORKLOADS: PROVISIONED,
    Purpose.DELETE_WORKLOADS: PROVISIONED,
    Purpose.UPDATE_WORKLOADS: SUBSETS_UPDATED,
    Purpose.GROW_WORKLOADS: SUBSETS_UPDATED,
}
"""Type of the condition that reports the failure of a stage."""


def _plan_guarded(snapshot: ReadableUnitedDeployment, mismatch: Mismatch) -> Plan:
    """Return the plan while the selector differs from that of the workloads: it only reports this."""
    united = snapshot.united
    message = mismatch.format_message(UNITED_DEPLOYMENTS.kind)
    conditions = set_mismatch(united.status.conditions or (), message, now=snapshot.now)
    document = _build_document(msgspec.structs.replace(united.status, conditions=list(conditions)))
    return Plan(
        status=None if document == united.stored_status else document,
        waiting=Reason(Code.SELECTOR_CHANGED, message, CODES[Code.SELECTOR_CHANGED].helps),
        notes=(Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S),),
        requeue_after_s=LOOK_AGAIN_S,
    )


def _plan_readable(snapshot: ReadableUnitedDeployment) -> Plan:
    ws = build_working_set(snapshot)
    try:
        allocated = allocate_replicas(ws)
    except AllocationError as error:
        return _plan_ineffective(ws, str(error))
    ws = close_growing_subsets(ws, allocated)
    changes = change_workloads(ws, allocated)
    return _plan_writes(ws, _plan_stages(ws, changes), changes, allocated)


def _plan_ineffective(ws: UnitedDeploymentWorkingSet, error: str) -> Plan:
    """Build a plan that neither scales nor updates workloads. An event reports the error."""
    text = f"Specified subset replicas is ineffective: {error}"
    note = Note(reason="Failed SpecifySubsetReplicas", message=text, warning=True, again_after_s=_AGAIN_S)
    as_they_are = {name: workload.replicas for name, workload in ws.own.workloads.items()}
    plan = _plan_writes(ws, _store_revision(ws), Changes(), as_they_are, is_effective=False)
    remedy = "correct spec.replicas or the replicas of the subsets: percentages that add up to 100% fit every total"
    waiting = Reason(Code.INVALID_SPEC, text, remedy)
    return msgspec.structs.replace(plan, waiting=waiting, notes=(*plan.notes, note))


# ── writes ───────────────────────────────────────────────────────────────


def _plan_stages(ws: UnitedDeploymentWorkingSet, changes: Changes) -> list[Stage]:
    labels = [mark(pod, value) for pod, value in ws.verdict.labels.values()]
    return [
        *_store_revision(ws),
        *plan_adoption(ws.united, ws.own.adopted),
        *release(ws.own.released),
        *([Stage(purpose=Purpose.MARK_PODS, chains=tuple(labels))] if labels else []),
        *stage_of(Purpose.CREATE_WORKLOADS, changes.created, ramp=True),
        *stage_of(Purpose.DELETE_WORKLOADS, changes.deleted),
        *stage_of(Purpose.UPDATE_WORKLOADS, changes.shrinking),
        *stage_of(Purpose.GROW_WORKLOADS, changes.growing, only_after=(Purpose.UPDATE_WORKLOADS,)),
        *stage_of(Purpose.DELETE_PODS, delete_stuck_pods(ws.snapshot, ws.own.workloads, ws.target)),
        *stage_of(Purpose.TRUNCATE_REVISIONS, _delete_old_revisions(ws)),
    ]


def _store_revision(ws: UnitedDeploymentWorkingSet) -> list[Stage]:
    """Stages that store the template's revision, if needed."""
    failed = Note(
        reason="FailedRevisionProvision", message=f"failed to store revision {ws.target}", warning=True
    )
    stages = (
        *adopt_used(ws.choice, ws.united, UNITED_DEPLOYMENTS),
        *plan_revisions(ws.choice, ws.united),
    )
    return [add_note(stage, failed) for stage in stages]


def _delete_old_revisions(ws: UnitedDeploymentWorkingSet) -> list[Chain]:
    limit, own, status = ws.spec.revision_history_limit, ws.snapshot.revisions.own, ws.united.status
    live = {status.current_revision, status.updated_revision, ws.target}
    live |= {workload.revision for workload in ws.own.workloads.values()}
    oldest = own[: max(len(own) - (10 if limit is None else limit), 0)]
    return [
        delete_revision(revision, "beyond revisionHistoryLimit")
        for revision in oldest
        if revision.name not in live and not revision.is_deleting
    ]


def _store_closed_first(ws: UnitedDeploymentWorkingSet, status: UnitedDeploymentStatus) -> Iterator[Stage]:
    """Store the changed Schedulable conditions before the writes that depend on them: after pods are deleted, only
    these conditions show that the subset found no nodes.
    """
    stored = {name: schedulable_of(entry) for name, entry in ws.entries.items()}
    if all(stored.get(name) == condition for name, condition in ws.verdict.conditions.items()):
        return
    wanted = _build_document(_keep_observed_generation(ws, status))
    # The patch contains the conditions of subsets with the rest of the status, but not status.conditions.
    patch = build_status_patch(
        UNITED_DEPLOYMENTS,
        ws.united.key,
        uid=ws.united.uid,
        stored={**ws.united.stored_status, "conditions": None},
        wanted={**wanted, "conditions": None},
    )
    if patch is not None:
        step = Step(action=patch, because="the schedulability of subsets has changed")
        chain = Chain(subject=ws.united.name, steps=(step,))
        yield Stage(purpose=Purpose.REPORT_STATUS, chains=(chain,))


# ── reports ──────────────────────────────────────────────────────────────


def _plan_writes(
    ws: UnitedDeploymentWorkingSet,
    stages: Sequence[Stage],
    changes: Changes,
    allocated: Mapping[str, int],
    *,
    is_effective: bool = True,
) -> Plan:
    is_pending = changes.is_provisioning or changes.is_updating
    status = _build_status(ws, changes, allocated, is_settled=not is_pending)
    if changes.errors or not is_effective:
        status = _keep_observed_generation(ws, status)
    document = _build_document(status)
    is_growing = bool(changes.created or changes.growing)
    dues = [ws.verdict.due] if ws.verdict.due is not None else []
    if is_growing and ws.spec.mode is not Mode.FIXED:
        dues.append(ws.now + ws.spec.critical_s)
    failed = (
        Note(reason="FailedUpdateSubset", message=str(error), warning=True, again_after_s=_AGAIN_S)
        for error in changes.errors
    )
    return Plan(
        stages=(*_store_closed_first(ws, status), *stages) if stages else (),
        status=None if document == ws.united.stored_status else document,
        requeue_after_s=max(min(dues) - ws.now, 0.0) if dues else None,
        waiting=_find_waiting(ws, changes, status, allocated, is_pending=is_pending),
        notes=(*ws.own.notes, *failed),
    )


def _build_status(
    ws: UnitedDeploymentWorkingSet, changes: Changes, allocated: Mapping[str, int], *, is_settled: bool
) -> UnitedDeploymentStatus:
    is_provisioning = changes.is_provisioning or not ws.own.workloads
    conditions = _judge_condition(ws, changes, ws.conditions, PROVISIONED, is_pending=is_provisioning)
    conditions = _judge_condition(ws, changes, conditions, SUBSETS_UPDATED, is_pending=changes.is_updating)
    if condition_of(conditions, SUBSETS_UPDATED) is None:
        conditions = set_condition(conditions, SUBSETS_UPDATED, now=ws.now)
    status = status_of(
        StatusInputs(
            united=ws.united,
            workloads=ws.own.workloads,
            pods=ws.snapshot.subset_pods,
            entries=ws.entries,
            schedulable=ws.verdict.conditions,
            reserved=ws.verdict.reserved,
            allocated=allocated,
            partitions={name: partition_of(ws, name, count) for name, count in allocated.items()},
            target=ws.target,
            collision_count=ws.choice.collision_count,
            is_settled=is_settled,
        ),
        conditions,
    )
    # An update that has just ended is reported as ended in the same status.
    conditions = set_updated(conditions, current=status.current_revision, target=ws.target, now=ws.now)
    return msgspec.structs.replace(status, conditions=list(conditions))


def _judge_condition(
    ws: UnitedDeploymentWorkingSet, changes: Changes, conditions: Conditions, kind: str, *, is_pending: bool
) -> Conditions:
    """Set the condition to False when there are errors. Keep it while a write is pending. Otherwise set it to True."""
    error = "; ".join(map(str, changes.errors_of(kind)))
    if is_pending and not error:
        return conditions
    return set_condition(conditions, kind, error=error, now=ws.now)


def _explain_unplaced(ws: UnitedDeploymentWorkingSet, allocated: Mapping[str, int]) -> Reason | None:
    """Reason when the subsets together have fewer replicas than spec.replicas; None: they have all of them, or the mode
    is RESERVE.
    """
    missing = (ws.spec.replicas or 0) - sum(allocated.values())
    if missing <= 0 or ws.spec.mode is Mode.RESERVE:
        return None
    pods = format_count(missing, "pod fits", "pods fit")
    closed = [name for name, entry in sorted(ws.entries.items()) if passed_over_of(entry) is not None]
    if not closed:
        message = f"{pods} into no subset: each subset has reached its maxReplicas"
        return Reason(Code.NO_SUBSET, message, "raise maxReplicas in spec.topology.subsets")
    subsets = f"subset{'' if len(closed) == 1 else 's'} {', '.join(closed)}"
    return Reason(
        Code.UNSCHEDULABLE,
        f"{pods} into no subset: pods of {subsets} found no node",
        f"make room on the nodes of subset {closed[0]}, whose node selector cannot be changed",
    )


def _find_waiting(
    ws: UnitedDeploymentWorkingSet,
    changes: Changes,
    status: UnitedDeploymentStatus,
    allocated: Mapping[str, int],
    *,
    is_pending: bool,
) -> Reason | None:
    for error in (*changes.errors_of(PROVISIONED), *changes.errors_of(SUBSETS_UPDATED)):
        return Reason(Code.PATCH, str(error), "correct the patch of the subset")
    for name, workload in sorted(ws.own.workloads.items()):
        if (why := workload.waits) is not None:
            return Reason(why.code, f"subset {name}: {why.message}", why.remedy)
    if (unplaced := _explain_unplaced(ws, allocated)) is not None:
        return unplaced
    reserved = status.reserved_pods
    wanted = sum(allocated.values()) - reserved
    if is_pending or status.ready_replicas < wanted or status.replicas != wanted:
        return Reason(Code.SUBSETS, "its subsets do not match the spec yet")
    if reserved:
        message = (
            f"{format_count(reserved, 'pod is', 'pods are')} kept in reserve, because no node was found in time or"
            " the update takes too long; pods of other subsets replace them"
        )
        return Reason(Code.IN_RESERVE, message)
    if status.current_revision != status.updated_revision:
        held = sum(partition_of(ws, name, count) for name, count in allocated.items())
        if held and status.updated_ready_replicas >= wanted - held:
            return Reason(
                Code.PARTITION,
                f"partitions of its subsets keep {format_count(held, 'pod')} at older revisions",
            )
        if (field := _find_pause(ws)) is not None:
            return Reason(Code.PAUSED, "updates of its subsets are paused", f"set {field} to false")
        return Reason(Code.SUBSETS, f"its subsets are not all at revision {status.updated_revision}")
    return None


_PAUSES: Final = (("updateStrategy", "rollingUpdate", "paused"), ("updateStrategy", "paused"), ("paused",))
"""Paths in the spec of a workload whose value true pauses its updates."""


def _find_pause(ws: UnitedDeploymentWorkingSet) -> str | None:
    """Return the field that pauses the updates of all subsets; None if the template has no such field."""
    paused = (path for path in _PAUSES if get_path(ws.workload, "spec", *path) is True)
    path = next(paused, None)
    return None if path is None else ".".join(("spec.template", ws.united.template, "spec", *path))


def _keep_observed_generation(
    ws: UnitedDeploymentWorkingSet, status: UnitedDeploymentStatus
) -> UnitedDeploymentStatus:
    """Return the status with the stored observedGeneration."""
    return msgspec.structs.replace(status, observed_generation=ws.united.status.observed_generation)


def _build_document(status: UnitedDeploymentStatus) -> Document:
    """Return the document to store. It always contains currentRevision, even when it is empty."""
    return {"currentRevision": status.current_revision, **status.to_document()}
