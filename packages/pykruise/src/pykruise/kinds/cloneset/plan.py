"""The plan for one CloneSet: the decisions of all phases.

CloneSetSnapshot ──▶ plan_cloneset() ──▶ Plan ──▶ runtime/execute.py
             stages: clean up claims ▶ release pods that no longer match ▶ store the revision
                     ▶ bring pods into service ▶ scale, or else update ▶ tidy up; and the status

A write that the API server rejects every time does not prevent independent work: pods are brought into service, the
number of pods changes, and pods are updated even if writes of another phase were rejected. An update begins only if
scaling has nothing to write, or if all writes of scaling are rejected: both use the same limits.

Pure: the same snapshot always gives the same plan. A plan does not have to wait until the caches contain this
controller's own writes, because the snapshot contains them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.cloneset.evict import plan_evictions
from pykruise.kinds.cloneset.limits import FieldProblem, limits_of
from pykruise.kinds.cloneset.pre_download import plan_pre_download
from pykruise.kinds.cloneset.refresh import plan_refresh
from pykruise.kinds.cloneset.scale import plan_scale
from pykruise.kinds.cloneset.selector_overlap import SELECTOR_OVERLAP, make_overlap_note, overlap_of
from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot, ReadableCloneSet
from pykruise.kinds.cloneset.status import (
    FAILED_SCALE,
    FAILED_UPDATE,
    build_counters,
    find_progress_overdue,
    is_write_refused,
    set_failures,
    set_waiting,
    status_of,
)
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetCondition, CloneSetStatus
from pykruise.kinds.cloneset.update import plan_update
from pykruise.kinds.cloneset.waiting import waiting_of
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet, build_working_set, marks_of
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import Selector, SelectorError, SelectorOperator, parse_selector
from pykruise.plans.config_content import make_config_notes
from pykruise.plans.failed_resizes import drop_other_causes
from pykruise.plans.ownership import adopt_used, plan_revisions, release_pods
from pykruise.plans.phases import DecidedStage, PlanPhase, list_alternatives, skip
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
    status_to_amend,
    truncate_history,
)
from pykruise.pods.lifecycle.availability import find_next_available_time
from pykruise.pods.lifecycle.blockers import find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import read_pod_labels
from pykruise.pods.view import keys
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import hash_templates
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice, choose_current
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import WAITING, drop_conditions
from pykruise.runtime.actions import patch_object
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

_NEVER_ADOPTED: Final = Reason(
    Code.ORPHAN, "matches spec.selector, but has no owner; a CloneSet never adopts pods"
)

UPDATE_STAGES: Final = frozenset({Purpose.REFRESH_PODS, Purpose.SPEND_BUDGETS, Purpose.UPDATE_PODS})
"""Stages whose failure sets the condition FailedUpdate. The failure of any other stage sets FailedScale."""


def plan_cloneset(snapshot: CloneSetSnapshot) -> Plan:
    """Plan all writes that this CloneSet needs now, its status, and when it is reconciled again."""
    return look_again(plan_workload(_FRAME, snapshot), snapshot.groups)


def compute_status_after(snapshot: CloneSetSnapshot, plan: Plan, failed: Failure) -> Document | None:
    """Return the status that reports this failed write of `plan`; None if the failure is not reported in the status."""
    status = status_to_amend(snapshot.cloneset, plan, failed, CloneSetStatus)
    if status is None:
        return None
    kind = FAILED_UPDATE if failed.purpose in UPDATE_STAGES else FAILED_SCALE
    conditions: Sequence[CloneSetCondition] = status.conditions or ()
    conditions = drop_other_causes(conditions, kind, failed.reason)
    conditions = set_failures(conditions, {kind: failed.reason}, now=snapshot.now)
    conditions = set_waiting(conditions, plan.waiting, now=snapshot.now)
    return msgspec.structs.replace(status, conditions=list(conditions)).to_document()


# All phases as one plan


def _join_phases(
    ws: CloneSetWorkingSet,
    choice: UpdateChoice,
    mismatched: Sequence[PodView],
    *,
    orphans: Sequence[PodView],
    unrecorded: RevisionView | None,
) -> Plan:
    scale = plan_scale(ws)
    is_refused = is_write_refused(ws)
    may_update = not scale.stages or is_refused
    update, chosen = plan_update(ws) if may_update else (PlanPhase(), None)
    evictions = plan_evictions(ws, except_for=scale.touched | update.touched)
    touched = scale.touched | update.touched | evictions.touched
    # If the writes of scaling are rejected every time, their pods still return to service after an update.
    written_otherwise = update.touched | evictions.touched if is_refused else touched
    refresh = plan_refresh(ws, chosen=chosen, except_for=written_otherwise)
    skipped = {**refresh.skipped, **update.skipped, **scale.skipped, **evictions.skipped}
    waiting, shown = waiting_of(ws, skipped=skipped)
    overlap = overlap_of(ws.snapshot.overlapping)
    notes = (
        *_make_orphan_notes(orphans),
        *make_overlap_note(overlap),
        *make_config_notes(ws.snapshot.config_problem),
        *scale.notes,
        *update.notes,
    )
    outcomes = _build_outcomes(scale, update, refresh, evictions, may_update=may_update)
    unused = [write.chain for write in ws.claims.clean_up if write.staying_pod not in touched]
    clean_up = PlanPhase(decided=(DecidedStage(purpose=Purpose.CLEAN_UP_CLAIMS, decisions=unused),))
    release = release_pods(mismatched, owner_uid=ws.snapshot.cloneset.uid, before=ws.claims.handed_over)
    of_revisions = [
        *adopt_used(choice, ws.snapshot.cloneset, CLONE_SETS),
        *plan_revisions(choice, ws.snapshot.cloneset, unrecorded=unrecorded),
    ]
    is_prepared = not (clean_up.stages or release.stages or of_revisions)
    status = status_of(
        ws,
        collision_count=choice.collision_count,
        failures={**(outcomes if is_prepared else {}), SELECTOR_OVERLAP: overlap},
        waiting=shown,
        generation=ws.snapshot.cloneset.generation,
    )
    overdue_at = find_progress_overdue(status, ws.spec)
    zeros = () if ws.limits.replicas else ("updatedAvailableReplicas",)
    changed = build_changed_status(ws.snapshot.cloneset, status, zeros=zeros)
    requeue_after_s = requeue_after(
        (scale, update, refresh, evictions),
        find_next_available_time(ws.all_pods, min_ready_seconds=ws.spec.min_ready_seconds, now=ws.now),
        find_next_blocker_time(ws.snapshot.pods, now=ws.now),
        overdue_at,
        now=ws.now,
    )
    written = touched | refresh.touched
    prepared = (*write_phases(clean_up, release), *of_revisions)
    grouped = _keep_groups(ws, scale)
    scale_or_update = PlanPhase(decided=list_alternatives(scale, update))
    return Plan(
        stages=(
            *prepared,
            *plan_pre_download(ws),
            *grouped,
            # The refresh phase is first, so that started updates are completed before further updates start.
            *write_pod_phases(refresh, scale_or_update, evictions, prepared=(*prepared, *grouped)),
            *stage_of(
                Purpose.TIDY_UP,
                [*_drop_groups(ws, scale), *_tidy(ws, status_is_stored=changed is None)],
                regardless=True,
            ),
        ),
        status=changed,
        requeue_after_s=requeue_after_s,
        waiting=waiting,
        skipped={
            **skip(orphans, _NEVER_ADOPTED),
            **{name: reason for name, reason in ws.claims.keeping.items() if name not in written},
            **skipped,
        },
        notes=(*notes, *make_warning_notes(ws.snapshot.cloneset.status.conditions, status.conditions)),
        memory=ws.recall.seen,
    )


def _build_outcomes(
    scale: PlanPhase, update: PlanPhase, refresh: PlanPhase, evictions: PlanPhase, *, may_update: bool
) -> dict[str, Reason | None]:
    """Return the results of the phases. A phase with writes has no result yet, and the update has none if it is not
    planned.
    """
    if not may_update:
        return {}
    scaled: dict[str, Reason | None] = {} if scale.stages or evictions.stages else {FAILED_SCALE: None}
    failure = update.failure or refresh.failure
    is_known = failure is not None or not (update.stages or refresh.stages)
    return {**scaled, **({FAILED_UPDATE: failure} if is_known else {})}


# Pods that no longer match


def _split_by_selector(pods: Iterable[PodView], selector: Selector) -> tuple[list[PodView], list[PodView]]:
    """Return the active pods that match the selector, and the active pods that do not match."""
    active = [pod for pod in pods if pod.is_active]
    equal = {
        requirement.key: value
        for requirement in selector.requirements
        if requirement.operator
        in (SelectorOperator.EQUALS, SelectorOperator.DOUBLE_EQUALS, SelectorOperator.IN)
        and len(requirement.values) == 1
        for value in requirement.values
    }
    matching = active
    for key, value in equal.items():  # fast: most selectors need no function call per pod
        matching = [pod for pod in matching if pod.labels.get(key) == value]
    if len(equal) < len(selector.requirements):
        matching = [pod for pod in matching if selector.matches(pod.labels)]
    if len(matching) == len(active):
        return matching, []
    names = {pod.name for pod in matching}
    return matching, [pod for pod in active if pod.name not in names]


def _select_orphans(snapshot: CloneSetSnapshot, selector: Selector) -> list[PodView]:
    pods = [pod for pod in snapshot.orphans if pod.is_active and selector.matches(pod.labels)]
    return sorted(pods, key=lambda pod: pod.name)


def _make_orphan_notes(orphans: Sequence[PodView]) -> tuple[Note, ...]:
    """Return one event about all orphans that the selector matches, such as pods of a deleted CloneSet."""
    if not orphans:
        return ()
    what = ", ".join(pod.name for pod in orphans[:10]) + (", …" if len(orphans) > 10 else "")
    message = (
        f"{format_count(len(orphans), 'pod matches spec.selector but has', 'pods match spec.selector but have')} "
        "no owner; "
        "they are neither adopted nor counted: "
        f"{what}"
    )
    return (Note(reason="OrphansMatchSelector", message=message, warning=True, again_after_s=math.inf),)


# Groups of pods


def _keep_groups(ws: CloneSetWorkingSet, scale: PlanPhase) -> tuple[Stage, ...]:
    """Return the writes to the pod groups. They are sent before pods of these groups are created."""
    if ws.gang is None:
        return ()
    return keep_groups(
        ws.snapshot.groups,
        owner=ws.snapshot.cloneset,
        resource=CLONE_SETS,
        used=list_used_names(ws.all_pods, scale),
        min_count=ws.gang.min_count,
        template=ws.update.template,
    )


def _drop_groups(ws: CloneSetWorkingSet, scale: PlanPhase) -> Iterator[Chain]:
    if ws.snapshot.groups.is_any:
        used = list_used_names(ws.snapshot.pods, scale)
        yield from drop_groups(ws.snapshot.groups, used=used, is_wanted=ws.gang is not None)


# Tidying up


def _tidy(ws: CloneSetWorkingSet, *, status_is_stored: bool) -> Iterator[Chain]:
    """Delete old revisions, and remove names of deleted pods from podsToDelete. podsToDelete is written only if this
    plan writes no status: a status write would change the resourceVersion that the patch requires.
    """
    live = {ws.update.hash, ws.current.hash, *{pod.revision for pod in ws.all_pods}}
    uid = ws.snapshot.cloneset.uid
    own = (revision for revision in ws.snapshot.revisions if revision.controller_uid == uid)
    yield from truncate_history(own, live=live, limit=ws.spec.revision_history_limit)
    strategy = ws.spec.scale_strategy
    listed = (strategy.pods_to_delete if strategy else None) or []
    names = {pod.name for pod in ws.all_pods} if listed else set()
    kept = [name for name in listed if name in names]
    if status_is_stored and kept != listed:
        body = {"spec": {"scaleStrategy": {"podsToDelete": kept or None}}}
        action = patch_object(CLONE_SETS, ws.snapshot.cloneset, body, unchanged=True)
        what = ", ".join(name for name in listed if name not in names)
        yield Chain(subject="", steps=(Step(action=action, because=f"these pods no longer exist: {what}"),))


# Functions that the frame of all workloads calls


def _plan_phases(snapshot: ReadableCloneSet, unrecorded: RevisionView | None) -> Plan | Sequence[Problem]:
    cloneset, spec = snapshot.cloneset, snapshot.cloneset.spec
    limits, _ = limits_of(spec)
    selector = parse_selector(msgspec.to_builtins(spec.selector))
    matching, mismatched = _split_by_selector(snapshot.pods, selector)
    orphans = _select_orphans(snapshot, selector)
    choice = choose_update_revision(
        cloneset,
        snapshot.revisions,
        resource=CLONE_SETS,
        others=snapshot.other_revisions,
        annotations={keys.CLAIM_TEMPLATES_HASH_ANNOTATION: hash_templates(spec.volume_claim_templates)},
    )
    current = choose_current(snapshot.revisions, cloneset.status.current_revision, update=choice.revision)
    if not selector.matches(read_pod_labels(current.template)):
        problem = f"the labels of revision {current.name} do not match spec.selector"
        return [_make_scale_problem("spec.template.metadata.labels", problem)]
    ws = build_working_set(
        snapshot,
        limits=limits,
        update=choice.revision,
        current=current,
        pods=matching,
        mismatched=mismatched,
    )
    return _join_phases(ws, choice, mismatched, orphans=orphans, unrecorded=unrecorded)


def _find_unreadable(snapshot: CloneSetSnapshot) -> list[Problem]:
    cloneset = snapshot.cloneset
    if cloneset.spec is None:
        return [Problem(f"spec: {cloneset.problem}", condition=FAILED_SCALE)]
    return []


def _find_problems(snapshot: ReadableCloneSet) -> list[Problem]:
    """Find stored values that admission would reject, each with the type of the condition that reports it."""
    spec = snapshot.cloneset.spec
    problems: list[Problem] = []
    try:
        selector = parse_selector(msgspec.to_builtins(spec.selector))
        if selector.is_empty:
            problems.append(_make_scale_problem("spec.selector", "is empty and would match every pod"))
        elif not selector.matches(read_pod_labels(spec.template)):
            problems.append(
                _make_scale_problem("spec.template.metadata.labels", "do not match spec.selector")
            )
    except SelectorError as error:
        problems.append(_make_scale_problem("spec.selector", str(error)))
    if snapshot.groups.problem:
        problems.append(Problem(snapshot.groups.problem, condition=FAILED_SCALE))
    for problem in limits_of(spec)[1]:
        problems.append(Problem(str(problem), condition=_choose_condition(problem.field)))
    return problems


def _choose_condition(field: str) -> str:
    return FAILED_UPDATE if field.startswith("spec.updateStrategy") else FAILED_SCALE


def _make_scale_problem(field: str, problem: str) -> Problem:
    return Problem(str(FieldProblem(field, problem)), condition=FAILED_SCALE)


def _build_refused_status(snapshot: CloneSetSnapshot, problems: Sequence[Problem]) -> CloneSetStatus:
    by_condition: dict[str, list[str]] = {}
    for problem in problems:
        by_condition.setdefault(problem.condition, []).append(problem.message)
    failures: dict[str, Reason | None] = {
        kind: Reason(Code.INVALID_SPEC, "; ".join(result)) for kind, result in by_condition.items()
    }
    status = _build_observed_status(snapshot)
    kept = drop_conditions(status.conditions or (), SELECTOR_MISMATCH, WAITING)
    conditions = set_failures(kept, failures, now=snapshot.now)
    return msgspec.structs.replace(status, conditions=list(conditions))


def _build_guarded_status(snapshot: CloneSetSnapshot, message: str) -> CloneSetStatus:
    status = _build_observed_status(snapshot)
    failures: dict[str, Reason | None] = {SELECTOR_MISMATCH: Reason(Code.SELECTOR_CHANGED, message)}
    conditions = set_failures(drop_conditions(status.conditions or (), WAITING), failures, now=snapshot.now)
    observed = snapshot.cloneset.status.observed_generation
    return msgspec.structs.replace(status, observed_generation=observed, conditions=list(conditions))


def _build_observed_status(snapshot: CloneSetSnapshot) -> CloneSetStatus:
    """Return the stored status, but with counters computed from the current pods."""
    cloneset = snapshot.cloneset
    marks = marks_of(
        [pod for pod in snapshot.pods if pod.is_active],
        update=shorten_hash(cloneset.status.update_revision),
        to_delete=frozenset(),
        min_ready_seconds=cloneset.spec.min_ready_seconds if cloneset.spec else 0,
        now=snapshot.now,
    )
    counted: dict[str, Any] = build_counters(Counter(marks))
    return msgspec.structs.replace(cloneset.status, **counted, observed_generation=cloneset.generation)


_FRAME: Final = Frame(
    resource=CLONE_SETS,
    view_of=lambda snapshot: snapshot.cloneset,
    terminating=_build_observed_status,
    unreadable=_find_unreadable,
    problems=_find_problems,
    refused=_build_refused_status,
    guarded=_build_guarded_status,
    condition_of=_choose_condition,
    phases=_plan_phases,
)
