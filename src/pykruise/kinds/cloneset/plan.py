"""What to do about one CloneSet: the table of contents of its decisions.

Snapshot ──▶ plan_cloneset() ──▶ Plan ──▶ plans/execute.py
             stages: clean up claims ▶ release pods that no longer match ▶ store the revision
                     ▶ bring pods into service ▶ scale, or else update ▶ tidy up; and the status

Pure: same snapshot, same plan. Nothing waits for caches to catch up: what was written is in the snapshot.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pykruise.kinds.cloneset.claims import claims_to_hand_over, clean_up_stages, keeping_their_claims
from pykruise.kinds.cloneset.numbers import FieldProblem, limits_of
from pykruise.kinds.cloneset.overlap import LOOK_AGAIN_S as LOOK_FOR_OVERLAP_S
from pykruise.kinds.cloneset.overlap import SELECTOR_OVERLAP, overlap_note, overlap_of
from pykruise.kinds.cloneset.pre_download import plan_pre_download
from pykruise.kinds.cloneset.refresh import plan_refresh
from pykruise.kinds.cloneset.scale import plan_scale
from pykruise.kinds.cloneset.snapshot import Snapshot
from pykruise.kinds.cloneset.status import (
    FAILED_SCALE,
    FAILED_UPDATE,
    PROGRESSING,
    SUCCEEDED,
    Failure,
    counters,
    deadline_at,
    status_of,
    with_failures,
    without,
)
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec, CloneSetStatus
from pykruise.kinds.cloneset.update import SPEND_BUDGETS, UPDATE_PODS, plan_update
from pykruise.kinds.cloneset.waiting import waiting_of
from pykruise.kinds.cloneset.working_set import WorkingSet, marks_of, working_set
from pykruise.kube.documents import Document, labels_of
from pykruise.kube.patches.types import PatchType
from pykruise.kube.selectors import Operator, Selector, SelectorError, selector_from
from pykruise.plans.actions import Patch
from pykruise.plans.execute import Failure as WriteFailure
from pykruise.plans.ownership import (
    adopter_of,
    adoption_stages,
    delete_revision,
    release_pod,
    revision_stages,
)
from pykruise.plans.phases import Phase, leave, pod_chain
from pykruise.plans.plan import Chain, Note, Plan, Stage, Step
from pykruise.plans.troubles import trouble_notes
from pykruise.pods import keys
from pykruise.pods.availability import next_available_at
from pykruise.pods.claims import templates_hash
from pykruise.pods.names import short_hash
from pykruise.pods.revisions import (
    RevisionView,
    UpdateChoice,
    choose_current,
    choose_update,
    revision_body,
    to_truncate,
)
from pykruise.pods.selector_guard import (
    LOOK_AGAIN_S,
    SELECTOR_CHANGED,
    SELECTOR_MISMATCH,
    Managed,
    Mismatch,
    check_selector,
    record_of,
)
from pykruise.pods.views import PodView
from pykruise.pods.waiting import WAITING, goes_by_itself

__all__ = ["plan_cloneset", "status_after"]

TIDY_UP: Final = "tidy up"
UPDATE_STAGES: Final = frozenset({"refresh pods", SPEND_BUDGETS, UPDATE_PODS})
"""Stages whose failure is a failed update; every other is a failed scaling."""


def plan_cloneset(snapshot: Snapshot) -> Plan:
    """Everything to be written for this CloneSet now, its status, and when to look again."""
    cloneset, spec = snapshot.cloneset, snapshot.cloneset.spec
    if cloneset.is_deleting:
        return _plan_of_terminating(snapshot)
    if spec is None or cloneset.candidate is None:
        return _refused(snapshot, {FAILED_SCALE: [FieldProblem("spec", cloneset.problem)]})
    guard = _guard(snapshot, spec)
    if isinstance(guard, Mismatch):
        return _guarded(snapshot, guard)
    problems = _problems(spec)
    if problems:
        return _refused(snapshot, problems)
    limits, _ = limits_of(spec)
    selector = selector_from(msgspec.to_builtins(spec.selector))
    matching, strangers = _by_selector(snapshot.pods, selector)
    choice = _choose_update(snapshot, spec)
    ws = working_set(
        snapshot,
        spec=spec,
        limits=limits,
        update=choice.revision,
        current=choose_current(snapshot.revisions, cloneset.status.current_revision, update=choice.revision),
        pods=matching,
    )
    if not selector.matches(labels_of(ws.current.template)):
        field = "spec.template.metadata.labels"
        problem = f"those of revision {ws.current.name} do not match spec.selector"
        return _refused(snapshot, {FAILED_SCALE: [FieldProblem(field, problem)]})
    orphans = _orphans(snapshot, selector)
    return _joined(ws, choice, strangers, orphans=orphans, unrecorded=guard.unrecorded)


def status_after(snapshot: Snapshot, plan: Plan, failed: WriteFailure) -> Document | None:
    """The status when this write of `plan` failed.

    None when there is nothing to report: tidying up is tried again with every plan and holds nobody back.
    """
    stage, message = failed.stage, f"{failed.words}; {failed.remedy}"
    if stage == TIDY_UP:
        return None
    shown = plan.status if plan.status is not None else snapshot.cloneset.stored_status
    status = msgspec.convert(shown, CloneSetStatus)
    kind = FAILED_UPDATE if stage in UPDATE_STAGES else FAILED_SCALE
    failures = {kind: Failure("WriteFailed", f"{stage}: {message}")}
    kept = [one for one in status.conditions or () if one.type != WAITING or not goes_by_itself(one.message)]
    conditions = with_failures(kept, failures, now=snapshot.now)
    return msgspec.structs.replace(status, conditions=list(conditions)).document()


# Joining the phases


def _joined(
    ws: WorkingSet,
    choice: UpdateChoice,
    strangers: Sequence[PodView],
    *,
    orphans: Sequence[PodView],
    unrecorded: RevisionView | None,
) -> Plan:
    scale = plan_scale(ws)
    update, chosen = (Phase(), None) if scale.stages else plan_update(ws)
    # Refreshing comes first of the three: a pod is finished before the next is begun.
    touched = scale.touched | update.touched
    refresh = plan_refresh(ws, chosen=chosen, except_for=touched)
    before = [
        *clean_up_stages(ws.snapshot, ws.spec, touched=touched),
        *_release(ws.snapshot, strangers),
        *_adopt(ws, choice),
        *revision_stages(
            choice,
            namespace=ws.snapshot.cloneset.namespace,
            selector=msgspec.to_builtins(ws.spec.selector),
            unrecorded=unrecorded,
        ),
    ]
    left = {**refresh.left, **update.left, **scale.left}
    keeping = keeping_their_claims(ws, touched=touched | refresh.touched)
    status = status_of(
        ws,
        collision_count=choice.collision_count,
        failures={} if before or scale.stages else _outcomes(refresh, update),
        waiting=waiting_of(ws, left=left),
        generation=ws.snapshot.cloneset.generation,
    )
    overlap = overlap_of(ws.snapshot.overlapping)
    told = Failure(overlap.code, overlap.condition_message) if overlap else Failure("Distinct", "")
    conditions = with_failures(status.conditions or (), {SELECTOR_OVERLAP: told}, now=ws.now)
    status = msgspec.structs.replace(status, conditions=list(conditions) or None)
    changed = _changed(ws.snapshot, status)
    stages = [
        *before,
        *plan_pre_download(ws),
        *refresh.stages,
        *scale.stages,
        *update.stages,
        *_tidy(ws, status_is_stored=changed is None),
    ]
    return Plan(
        stages=tuple(stages),
        status=changed,
        after=_after(ws, status, (scale, update, refresh)),
        left={
            **leave(orphans, "matches spec.selector, but has no owner; it is never adopted"),
            **keeping,
            **left,
        },
        notes=(
            *_orphans_note(orphans),
            *overlap_note(overlap),
            *scale.notes,
            *update.notes,
            *trouble_notes(ws.snapshot.cloneset.status.conditions, status.conditions),
        ),
    )


def _outcomes(refresh: Phase, update: Phase) -> dict[str, Failure]:
    """How the phases went when scaling has nothing to write; what is about to write has not succeeded yet."""
    found = {FAILED_SCALE: SUCCEEDED}
    if update.failure:
        found[FAILED_UPDATE] = Failure(update.failure_reason, update.failure)
    elif refresh.failure:
        found[FAILED_UPDATE] = Failure(refresh.failure_reason, refresh.failure)
    elif not update.stages and not refresh.stages:
        found[FAILED_UPDATE] = SUCCEEDED
    return found


def _changed(snapshot: Snapshot, status: CloneSetStatus) -> Document | None:
    document = status.document()
    return None if document == snapshot.cloneset.stored_status else document


def _after(ws: WorkingSet, status: CloneSetStatus, phases: Sequence[Phase]) -> float | None:
    """Seconds until time alone changes something: a phase goes on, a pod becomes available, or progress is
    overdue. None: never; 0: there is more to write than one plan takes."""
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [max(phase.look_at - ws.now, 0.0) for phase in phases if phase.look_at is not None]
    if ws.snapshot.overlapping:
        times.append(LOOK_FOR_OVERLAP_S)
    available = next_available_at(ws.pods, min_ready_seconds=ws.spec.min_ready_seconds, now=ws.now)
    if available is not None:
        times.append(available - ws.now)
    due = deadline_at(status.condition(PROGRESSING), ws.spec.progress_deadline_seconds)
    if due is not None:
        times.append(max(due - ws.now, 0.0) + 1.0)  # overdue only *after* that second
    return min(times, default=None)


# The selector that pods are managed by


def _guard(snapshot: Snapshot, spec: CloneSetSpec) -> Managed | Mismatch:
    uid = snapshot.cloneset.uid
    return check_selector(
        msgspec.to_builtins(spec.selector),
        owned=[one for one in snapshot.revisions if one.controller_uid == uid],
        pods=(pod.labels for pod in snapshot.pods if not pod.is_deleting),
    )


def _guarded(snapshot: Snapshot, mismatch: Mismatch) -> Plan:
    """Nothing is touched; observedGeneration stays, so that whoever waits for it sees that nothing was done."""
    cloneset = snapshot.cloneset
    message = mismatch.message(CLONE_SETS.kind)
    status = msgspec.structs.replace(
        _observed(snapshot), observed_generation=cloneset.status.observed_generation
    )
    failures = {SELECTOR_MISMATCH: Failure(SELECTOR_CHANGED, message)}
    kept = without(status.conditions or (), WAITING)
    conditions = with_failures(kept, failures, now=snapshot.now)
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=_changed(snapshot, msgspec.structs.replace(status, conditions=list(conditions))),
        left={pod.name: mismatch.why_left() for pod in snapshot.pods},
        notes=(note,),
        after=LOOK_AGAIN_S,
    )


# Pods that no longer match


def _by_selector(pods: Iterable[PodView], selector: Selector) -> tuple[list[PodView], list[PodView]]:
    """Active pods that match, and active pods that do not."""
    active = [pod for pod in pods if pod.is_active]
    equal = {
        one.key: one.values[0]
        for one in selector.requirements
        if one.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN) and len(one.values) == 1
    }
    matching = active
    for key, value in equal.items():  # the usual selector, without a call per pod
        matching = [pod for pod in matching if pod.labels.get(key) == value]
    if len(equal) < len(selector.requirements):
        matching = [pod for pod in matching if selector.matches(pod.labels)]
    if len(matching) == len(active):
        return matching, []
    names = {pod.name for pod in matching}
    return matching, [pod for pod in active if pod.name not in names]


def _orphans(snapshot: Snapshot, selector: Selector) -> list[PodView]:
    found = [pod for pod in snapshot.orphans if pod.is_active and selector.matches(pod.labels)]
    return sorted(found, key=lambda pod: pod.name)


def _orphans_note(orphans: Sequence[PodView]) -> tuple[Note, ...]:
    """Once: pods that look like the CloneSet's own, for example left behind by one that was deleted."""
    if not orphans:
        return ()
    names = ", ".join(pod.name for pod in orphans[:10]) + (", …" if len(orphans) > 10 else "")
    message = (
        f"{len(orphans)} pods match spec.selector but have no owner; they are neither adopted nor counted: "
        f"{names}"
    )
    return (Note(reason="OrphansMatchSelector", message=message, warning=True, again_after_s=math.inf),)


def _release(snapshot: Snapshot, pods: Sequence[PodView]) -> list[Stage]:
    chains = tuple(
        pod_chain(
            pod,
            *claims_to_hand_over(snapshot, pod),
            release_pod(pod, owner_uid=snapshot.cloneset.uid),
        )
        for pod in pods
    )
    return [Stage(name="release pods", chains=chains)] if chains else []


# Revisions


def _choose_update(snapshot: Snapshot, spec: CloneSetSpec) -> UpdateChoice:
    cloneset = snapshot.cloneset
    assert cloneset.candidate is not None
    annotations = {
        keys.CLAIM_TEMPLATES_HASH_ANNOTATION: templates_hash(spec.volume_claim_templates),
        **record_of(msgspec.to_builtins(spec.selector)),
    }
    return choose_update(
        cloneset.candidate,
        snapshot.revisions,
        owner=cloneset.name,
        collision_count=cloneset.status.collision_count or 0,
        others=snapshot.other_revisions,
        body=partial(
            revision_body,
            namespace=cloneset.namespace,
            labels=labels_of(spec.template),
            annotations={**cloneset.annotations, **annotations},
            owner=cloneset.owner_reference,
        ),
        annotations=annotations,
    )


def _adopt(ws: WorkingSet, choice: UpdateChoice) -> list[Stage]:
    """A revision that was left behind and is used again becomes its own: pods are of it, so it must neither go with
    somebody else nor outlive its owner, and it says by which selector pods are managed."""
    revision = choice.revision
    if choice.create is not None or revision.controller_uid or revision.is_deleting:
        return []
    adopter = adopter_of(ws.snapshot.cloneset, CLONE_SETS, selector=ws.spec.selector)
    return adoption_stages(adopter, (), [revision])


# Tidying up


def _tidy(ws: WorkingSet, *, status_is_stored: bool) -> list[Stage]:
    chains = [*_truncate_history(ws), *(_truncate_pods_to_delete(ws) if status_is_stored else ())]
    return [Stage(name=TIDY_UP, chains=tuple(chains))] if chains else []


def _truncate_history(ws: WorkingSet) -> Iterable[Chain]:
    live = {ws.update.hash, ws.current.hash, *{pod.revision for pod in ws.pods}}
    limit = ws.spec.revision_history_limit
    own = [one for one in ws.snapshot.revisions if one.controller_uid == ws.snapshot.cloneset.uid]
    for revision in to_truncate(own, live=live, limit=limit):
        yield delete_revision(revision, f"no pod is of it, and revisionHistoryLimit is {limit}")


def _truncate_pods_to_delete(ws: WorkingSet) -> Iterable[Chain]:
    """Only once the status is stored: that write moves the resourceVersion this one insists on."""
    strategy = ws.spec.scale_strategy
    listed = (strategy.pods_to_delete if strategy else None) or []
    names = {pod.name for pod in ws.pods}
    kept = [name for name in listed if name in names]
    if kept == listed:
        return
    cloneset = ws.snapshot.cloneset
    action = Patch(
        resource=CLONE_SETS,
        key=cloneset.key,
        patch_type=PatchType.MERGE,
        body={"spec": {"scaleStrategy": {"podsToDelete": kept or None}}},
        uid=cloneset.uid,
        resource_version=str(cloneset.resource_version),
    )
    gone = ", ".join(name for name in listed if name not in names)
    yield Chain(subject="", steps=(Step(action=action, because=f"no such pods any more: {gone}"),))


# What cannot be carried out


def _problems(spec: CloneSetSpec) -> dict[str, list[FieldProblem]]:
    """Stored values that admission would have refused, by the condition that reports them."""
    found: dict[str, list[FieldProblem]] = {}

    def report(kind: str, field: str, problem: str) -> None:
        found.setdefault(kind, []).append(FieldProblem(field, problem))

    try:
        selector = selector_from(msgspec.to_builtins(spec.selector))
        if selector.is_empty:
            report(FAILED_SCALE, "spec.selector", "is empty and would match every pod")
        elif not selector.matches(labels_of(spec.template)):
            report(FAILED_SCALE, "spec.template.metadata.labels", "do not match spec.selector")
    except SelectorError as error:
        report(FAILED_SCALE, "spec.selector", str(error))
    for problem in limits_of(spec)[1]:
        kind = FAILED_UPDATE if problem.field.startswith("spec.updateStrategy") else FAILED_SCALE
        report(kind, problem.field, problem.problem)
    return found


def _refused(snapshot: Snapshot, problems: Mapping[str, Sequence[FieldProblem]]) -> Plan:
    """Nothing is touched, and the conditions say which fields are in the way."""
    failures = {kind: Failure("InvalidSpec", "; ".join(map(str, found))) for kind, found in problems.items()}
    status = _observed(snapshot)
    kept = without(status.conditions or (), SELECTOR_MISMATCH, WAITING)
    conditions = with_failures(kept, failures, now=snapshot.now)
    return Plan(
        status=_changed(snapshot, msgspec.structs.replace(status, conditions=list(conditions))),
        left={pod.name: "; ".join(failure.message for failure in failures.values()) for pod in snapshot.pods},
        notes=trouble_notes(snapshot.cloneset.status.conditions, conditions),
    )


def _plan_of_terminating(snapshot: Snapshot) -> Plan:
    """Nothing is created, updated, deleted or released; what is left of it is still reported."""
    return Plan(status=_changed(snapshot, _observed(snapshot)))


def _observed(snapshot: Snapshot) -> CloneSetStatus:
    """The stored status with the counters as they are now."""
    cloneset = snapshot.cloneset
    counted: dict[str, Any] = counters(
        marks_of(
            [pod for pod in snapshot.pods if pod.is_active],
            update=short_hash(cloneset.status.update_revision),
            to_delete=frozenset(),
            min_ready_seconds=cloneset.spec.min_ready_seconds if cloneset.spec else 0,
            now=snapshot.now,
        )
    )
    return msgspec.structs.replace(cloneset.status, **counted, observed_generation=cloneset.generation)
