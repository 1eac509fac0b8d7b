"""The plan for one StatefulSet: it joins the decisions of all phases.

StatefulSetSnapshot ──▶ plan_statefulset() ──▶ Plan ──▶ runtime/execute.py
             the selector guard ▶ adopt and release pods ▶ store the revision ▶ pull images in advance
             ▶ bring pods into service ▶ create, replace and delete pods ▶ update ▶ tidy up; and the status

Pure: the same snapshot always gives the same plan. No plan waits for the caches to catch up, because the snapshot
contains this controller's own writes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.in_place import differences_of
from pykruise.kinds.statefulset.limits import limits_of
from pykruise.kinds.statefulset.never_ready import NeverReady
from pykruise.kinds.statefulset.pod_group import StatefulSetGang, find_gang, find_policy_problem
from pykruise.kinds.statefulset.pre_download import plan_pre_download
from pykruise.kinds.statefulset.refresh import plan_refresh
from pykruise.kinds.statefulset.scale import Scale, plan_scale
from pykruise.kinds.statefulset.snapshot import ReadableStatefulSet, StatefulSetSnapshot
from pykruise.kinds.statefulset.status import (
    FAILED_CREATE,
    FAILED_UPDATE,
    observe_status,
    status_of,
)
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, ClaimUpdateType, StatefulSetStatus
from pykruise.kinds.statefulset.update import list_updating_names, plan_update
from pykruise.kinds.statefulset.waiting import waiting_of
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.plans.config_content import make_config_notes
from pykruise.plans.failed_resizes import drop_other_causes
from pykruise.plans.ownership import adopter_of, plan_adoption, plan_revisions, release_pods
from pykruise.plans.phases import PlanPhase
from pykruise.plans.pod_groups import drop_groups, keep_groups, list_used_names, look_again
from pykruise.plans.pod_writes import stage_of, write_phases, write_pod_phases
from pykruise.plans.purposes import Purpose
from pykruise.plans.warning_events import make_warning_notes
from pykruise.plans.workload_frame import (
    Frame,
    Problem,
    build_changed_status,
    choose_update_revision,
    plan_workload,
    requeue_after,
    set_mismatch,
    status_to_amend,
    truncate_history,
)
from pykruise.pods.lifecycle.availability import find_next_available_time
from pykruise.pods.lifecycle.blockers import find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import read_pod_labels
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice, choose_current, sort_revisions
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S, SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING, drop_conditions, set_condition
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Chain, Note, Plan, Stage
from pykruise.runtime.reasons import Reason

TAKEN_AGAIN_S: Final = 15.0
"""Seconds after which the set checks again whether pods of other owners occupy its pods' names. Events of these pods do
not enqueue the set.
"""

_NOT_ITS_OWN: Final = "its labels or its name no longer match the StatefulSet"


def plan_statefulset(snapshot: StatefulSetSnapshot) -> Plan:
    """Plan all writes that this StatefulSet needs now, its status, and the time of the next reconcile."""
    return look_again(plan_workload(_FRAME, snapshot), snapshot.groups)


def compute_status_after(snapshot: StatefulSetSnapshot, plan: Plan, failed: Failure) -> Document | None:
    """Return the status after this write of `plan` failed; None when there is nothing to report."""
    status = status_to_amend(snapshot.statefulset, plan, failed, StatefulSetStatus)
    if status is None:
        return None
    kind = FAILED_CREATE if failed.purpose == Purpose.CREATE_PODS else FAILED_UPDATE
    conditions = status.conditions or []
    reason = failed.reason
    waits = () if plan.waiting is not None and plan.waiting.remedy else (WAITING,)
    for said in (kind, *waits):
        conditions = set_condition(
            drop_other_causes(conditions, said, reason),
            said,
            reason=reason.code,
            message=reason.full_message,
            now=snapshot.now,
        )
    return msgspec.structs.replace(status, conditions=conditions).to_document()


# Joining the phases


def _plan_phases(snapshot: ReadableStatefulSet, unrecorded: RevisionView | None) -> Plan:
    spec = snapshot.statefulset.spec
    limits, _ = limits_of(spec)
    own = sort_revisions([*snapshot.revisions, *snapshot.orphaned_revisions])
    statefulset = snapshot.statefulset
    choice = choose_update_revision(
        statefulset, own, resource=ADVANCED_STATEFUL_SETS, others=snapshot.other_revisions
    )
    members: list[PodView] = []
    mismatched: list[PodView] = []
    for pod in snapshot.pods:
        (members if statefulset.may_own(pod) else mismatched).append(pod)
    ws = StatefulSetWorkingSet(
        snapshot,
        spec=spec,
        limits=limits,
        update=choice.revision,
        current=choose_current(own, statefulset.status.current_revision, update=choice.revision),
        revisions=own,
        pods=[*members, *snapshot.orphans],
    )
    return _join_phases(ws, choice, mismatched, unrecorded=unrecorded)


def _find_next_missing(ws: StatefulSetWorkingSet, scale: Scale) -> dict[str, Reason]:
    """Return the next pod that OrderedReady does not create yet, with the earlier pod that it waits for. One entry is
    enough for all missing pods, however many there are.
    """
    earlier = next((slot for slot in ws.slots if slot.name == scale.only), None)
    if earlier is None or earlier.pod is None:
        return {}
    later = [slot for slot in ws.slots if slot.pod is None and slot.ordinal > earlier.ordinal]
    if not later:
        return {}
    others = (
        f"; {format_count(len(later) - 1, 'later pod waits', 'later pods wait')} too"
        if len(later) > 1
        else ""
    )
    message = (
        f"waits until pod {earlier.name} is available, because podManagementPolicy is OrderedReady{others}"
    )
    return {later[0].name: Reason(Code.TURN, message)}


def _join_phases(
    ws: StatefulSetWorkingSet,
    choice: UpdateChoice,
    mismatched: Sequence[PodView],
    *,
    unrecorded: RevisionView | None,
) -> Plan:
    snapshot, statefulset = ws.snapshot, ws.snapshot.statefulset
    differences = differences_of(ws)
    never_ready = NeverReady(ws)
    gang = find_gang(ws, differences)
    scale = plan_scale(ws, never_ready, gang.pods if gang is not None else None)
    update = (
        plan_update(ws, differences, never_ready, written=scale.phase.touched, only=scale.only, gang=gang)
        if scale.may_update
        else PlanPhase()
    )
    written = scale.phase.touched | update.touched
    updating = frozenset() if gang is not None and gang.hold is not None else list_updating_names(ws)
    refresh = plan_refresh(
        ws, differences, updating=updating, except_for=written, recreates=gang is not None and gang.recreates
    )
    acted = update.touched | refresh.touched | (scale.phase.touched - scale.phase.skipped.keys())
    reasons = {**refresh.skipped, **update.skipped, **scale.phase.skipped}
    skipped = {
        **_find_claims_left(ws),
        **{name: why for name, why in reasons.items() if name not in acted},
    }
    failure = update.failure or refresh.failure
    waiting = waiting_of(ws, scale, never_ready, skipped=skipped, problem=failure)
    status = status_of(
        ws,
        collision_count=choice.collision_count,
        kept=_list_conditions_to_keep(scale.phase, update, refresh),
        failure=failure,
        waiting=waiting,
    )
    prepared = (
        *plan_adoption(
            adopter_of(statefulset, ADVANCED_STATEFUL_SETS), snapshot.orphans, snapshot.orphaned_revisions
        ),
        *write_phases(release_pods(mismatched, owner_uid=statefulset.uid, because=_NOT_ITS_OWN)),
        *plan_revisions(choice, statefulset, unrecorded=unrecorded),
    )
    grouped = _keep_groups(ws, gang, scale.phase)
    return Plan(
        stages=(
            *prepared,
            *plan_pre_download(ws, differences),
            *grouped,
            # Phases that bring pods into service come first, so that running updates are completed before further
            # updates start.
            *write_pod_phases(refresh, scale.phase, update, prepared=(*prepared, *grouped)),
            *stage_of(
                Purpose.TIDY_UP,
                [*_truncate_history(ws), *_drop_groups(ws, gang, scale.phase)],
                regardless=True,
            ),
        ),
        status=build_changed_status(
            statefulset, status, zeros=() if ws.slots else ("updatedAvailableReplicas",)
        ),
        requeue_after_s=requeue_after(
            (scale.phase, update, refresh),
            find_next_available_time(ws.counted, min_ready_seconds=ws.limits.min_ready_seconds, now=ws.now),
            find_next_blocker_time((*ws.slot_pods, *ws.surplus), now=ws.now),
            ws.now + TAKEN_AGAIN_S if snapshot.taken else None,
            never_ready.find_next_time(),
            now=ws.now,
        ),
        waiting=waiting,
        skipped={**_find_next_missing(ws, scale), **skipped},
        notes=(
            *_make_reserved_notes(ws),
            *make_config_notes(snapshot.config_problem),
            *_make_obstacle_notes(snapshot, status),
            *scale.phase.notes,
            *update.notes,
            *refresh.notes,
        ),
    )


def _keep_groups(
    ws: StatefulSetWorkingSet, gang: StatefulSetGang | None, scale: PlanPhase
) -> tuple[Stage, ...]:
    """Create or change the groups of the pods, before pods are created in these groups."""
    if gang is None:
        return ()
    return keep_groups(
        ws.snapshot.groups,
        owner=ws.snapshot.statefulset,
        resource=ADVANCED_STATEFUL_SETS,
        used=list_used_names(ws.pods, scale),
        min_count=gang.pods.min_count,
        template=ws.update.template,
    )


def _drop_groups(
    ws: StatefulSetWorkingSet, gang: StatefulSetGang | None, scale: PlanPhase
) -> Iterator[Chain]:
    if ws.snapshot.groups.is_any:
        used = list_used_names(ws.snapshot.pods, scale)
        yield from drop_groups(ws.snapshot.groups, used=used, is_wanted=gang is not None)


def _find_claims_left(ws: StatefulSetWorkingSet) -> dict[str, Reason]:
    """Pods whose claims should follow their templates but do not, because the gate is off."""
    growth, strategy = Growth(ws), ws.spec.volume_claim_update_strategy
    if growth.is_on or strategy is None or strategy.type != ClaimUpdateType.ON_POD_ROLLING_UPDATE:
        return {}
    message = (
        "its claims differ from their templates: without the gate StatefulSetAutoResizePVCGate of the manager,"
        " volumeClaimUpdateStrategy has no effect"
    )
    reason = Reason(Code.CLAIMS, message, "turn on the gate StatefulSetAutoResizePVCGate of the manager")
    return {slot.name: reason for slot in ws.slots if slot.pod and not growth.is_compatible(slot.ordinal)}


def _list_conditions_to_keep(scale: PlanPhase, update: PlanPhase, refresh: PlanPhase) -> list[str]:
    """Return the types of the conditions to keep: each reports a failed write, and the plan contains a write of the
    same kind again.
    """
    purposes = {stage.purpose for stage in (*scale.stages, *update.stages, *refresh.stages)}
    kept = [FAILED_CREATE] if Purpose.CREATE_PODS in purposes else []
    return [*kept, FAILED_UPDATE] if purposes - {Purpose.CREATE_PODS} else kept


def _truncate_history(ws: StatefulSetWorkingSet) -> list[Chain]:
    live = {ws.update.hash, ws.current.hash, *(pod.revision for pod in ws.pods)}
    return truncate_history(ws.snapshot.revisions, live=live, limit=ws.limits.history)


def _make_obstacle_notes(snapshot: StatefulSetSnapshot, status: StatefulSetStatus) -> Sequence[Note]:
    """Warnings about obstacles that keep pods from serving. A pod that cannot be updated is left out, because another
    event reports it.
    """
    waiting = [
        condition
        for condition in status.conditions or ()
        if (condition.type, condition.reason) != (WAITING, Code.CANNOT_UPDATE)
    ]
    return make_warning_notes(
        snapshot.statefulset.status.conditions,
        [condition for condition in waiting if condition.type == WAITING],
    )


def _make_reserved_notes(ws: StatefulSetWorkingSet) -> list[Note]:
    if not ws.reserved.problems:
        return []
    message = "; ".join(ws.reserved.problems) + "; the other entries are used"
    return [Note(reason="InvalidReserveOrdinals", message=message, warning=True, again_after_s=LOOK_AGAIN_S)]


# Functions that plans/workload_frame.py calls


def _find_unreadable(snapshot: StatefulSetSnapshot) -> list[Problem]:
    statefulset = snapshot.statefulset
    if statefulset.spec is None:
        return [Problem(statefulset.problem)]
    if statefulset.selector is None or statefulset.selector.is_empty:
        return [
            Problem("spec.selector: is not a valid label selector, or is empty and would match every pod")
        ]
    return []


def _find_problems(snapshot: ReadableStatefulSet) -> list[Problem]:
    """Stored values that admission would have rejected."""
    statefulset, spec = snapshot.statefulset, snapshot.statefulset.spec
    problems = limits_of(spec)[1]
    if not statefulset.selector.matches(read_pod_labels(spec.template)):
        problems.append("spec.template.metadata.labels: do not match spec.selector")
    of_groups = (snapshot.groups.problem, find_policy_problem(statefulset, spec))
    return [Problem(problem) for problem in (*problems, *of_groups) if problem]


def _build_refused_status(snapshot: StatefulSetSnapshot, problems: Sequence[Problem]) -> StatefulSetStatus:
    message = "; ".join(problem.message for problem in problems)
    status = _build_observed_status(snapshot)
    kept = drop_conditions(status.conditions or (), SELECTOR_MISMATCH, WAITING, FAILED_CREATE)
    conditions = set_condition(
        kept, FAILED_UPDATE, reason=Code.INVALID_SPEC, message=message, now=snapshot.now
    )
    return msgspec.structs.replace(status, conditions=conditions)


def _build_guarded_status(snapshot: StatefulSetSnapshot, message: str) -> StatefulSetStatus:
    stored = snapshot.statefulset.status
    conditions = set_mismatch(stored.conditions, message, now=snapshot.now)
    return msgspec.structs.replace(
        _build_observed_status(snapshot),
        observed_generation=stored.observed_generation,
        conditions=conditions,
    )


def _build_observed_status(snapshot: StatefulSetSnapshot) -> StatefulSetStatus:
    """The stored status with counters computed from the current pods."""
    statefulset = snapshot.statefulset
    spec = statefulset.spec
    stateful_set_status = observe_status(
        statefulset.status,
        snapshot.pods,
        min_ready_seconds=limits_of(spec)[0].min_ready_seconds if spec else 0,
        now=snapshot.now,
    )
    return msgspec.structs.replace(stateful_set_status, observed_generation=statefulset.generation)


_FRAME: Final = Frame(
    resource=ADVANCED_STATEFUL_SETS,
    view_of=lambda snapshot: snapshot.statefulset,
    terminating=_build_observed_status,
    unreadable=_find_unreadable,
    problems=_find_problems,
    refused=_build_refused_status,
    guarded=_build_guarded_status,
    phases=_plan_phases,
)
