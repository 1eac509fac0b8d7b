"""What to do about one StatefulSet: the table of contents of its decisions.

Snapshot ──▶ plan_statefulset() ──▶ Plan ──▶ plans/execute.py
             the selector guard ▶ adopt and release pods ▶ store the revision ▶ pull images ahead
             ▶ bring pods into service ▶ make, replace and delete pods ▶ update ▶ tidy up; and the status

Pure: same snapshot, same plan. Nothing waits for caches to catch up: what was written is in the snapshot.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from pykruise.kinds.statefulset.in_place import Differences
from pykruise.kinds.statefulset.limits import Limits, limits_of
from pykruise.kinds.statefulset.pre_download import plan_pre_download
from pykruise.kinds.statefulset.refresh import plan_refresh
from pykruise.kinds.statefulset.scale import CREATE_PODS, plan_scale
from pykruise.kinds.statefulset.snapshot import Snapshot
from pykruise.kinds.statefulset.status import (
    FAILED_CREATE,
    FAILED_UPDATE,
    observed,
    status_of,
    with_mismatch,
)
from pykruise.kinds.statefulset.types import (
    ADVANCED_STATEFUL_SETS,
    StatefulSetSpec,
    StatefulSetStatus,
)
from pykruise.kinds.statefulset.update import plan_update, updating_names
from pykruise.kinds.statefulset.waiting import waiting_of
from pykruise.kinds.statefulset.working_set import WorkingSet
from pykruise.kube.documents import Document, labels_of
from pykruise.plans.execute import Failure
from pykruise.plans.ownership import (
    Adopter,
    adopter_of,
    adoption_stages,
    delete_revision,
    release_stages,
    revision_stages,
)
from pykruise.plans.phases import Phase
from pykruise.plans.plan import Chain, Note, Plan, Stage
from pykruise.plans.troubles import trouble_notes
from pykruise.pods.availability import next_available_at
from pykruise.pods.revisions import (
    RevisionView,
    UpdateChoice,
    choose_current,
    choose_update,
    revision_body,
    sorted_revisions,
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
from pykruise.pods.waiting import WAITING, goes_by_itself, with_condition, without

__all__ = ["TIDY_UP", "plan_statefulset", "status_after"]

TIDY_UP: Final = "tidy up"


def plan_statefulset(snapshot: Snapshot) -> Plan:
    """Everything to be written for this StatefulSet now, its status, and when to look again."""
    statefulset, spec = snapshot.statefulset, snapshot.statefulset.spec
    if statefulset.is_deleting:
        return Plan(status=_changed(snapshot, _observed(snapshot)))
    if spec is None or statefulset.candidate is None:
        return _refused(snapshot, [statefulset.problem])
    if statefulset.selector is None or statefulset.selector.is_empty:
        return _refused(snapshot, ["spec.selector: cannot be read, or would match every pod"])
    guard = _guard(snapshot, spec)
    if isinstance(guard, Mismatch):
        return _guarded(snapshot, guard)
    limits, problems = limits_of(spec)
    if not statefulset.selector.matches(labels_of(spec.template)):
        problems.append("spec.template.metadata.labels: do not match spec.selector")
    if problems:
        return _refused(snapshot, problems)
    return _joined(snapshot, spec, limits, unrecorded=guard.unrecorded)


def status_after(snapshot: Snapshot, plan: Plan, failed: Failure) -> Document | None:
    """The status when this write of `plan` failed.

    None when there is nothing to report: tidying up is tried again with every plan and holds nobody back.
    """
    stage, message = failed.stage, f"{failed.words}; {failed.remedy}"
    if stage == TIDY_UP:
        return None
    shown = plan.status if plan.status is not None else snapshot.statefulset.stored_status
    status = msgspec.convert(shown, StatefulSetStatus)
    kind = FAILED_CREATE if stage == CREATE_PODS else FAILED_UPDATE
    kept = [one for one in status.conditions or () if one.type != WAITING or not goes_by_itself(one.message)]
    conditions = with_condition(
        kept, kind, reason="WriteFailed", message=f"{stage}: {message}", now=snapshot.now
    )
    return msgspec.structs.replace(status, conditions=conditions).document()


# Joining the phases


def _joined(
    snapshot: Snapshot, spec: StatefulSetSpec, limits: Limits, *, unrecorded: RevisionView | None
) -> Plan:
    own = sorted_revisions([*snapshot.revisions, *snapshot.orphaned_revisions])
    choice = _choose_update(snapshot, spec, own)
    statefulset = snapshot.statefulset
    members: list[PodView] = []
    strangers: list[PodView] = []
    for pod in snapshot.pods:
        (members if statefulset.may_own(pod) else strangers).append(pod)
    ws = WorkingSet(
        snapshot,
        spec=spec,
        limits=limits,
        update=choice.revision,
        current=choose_current(own, statefulset.status.current_revision, update=choice.revision),
        revisions=own if choice.create is None else [*own, choice.revision],
        pods=[*members, *snapshot.orphans],
    )
    return _planned(ws, choice, strangers, unrecorded=unrecorded)


def _planned(
    ws: WorkingSet, choice: UpdateChoice, strangers: Sequence[PodView], *, unrecorded: RevisionView | None
) -> Plan:
    snapshot = ws.snapshot
    differences = Differences(ws)
    scale = plan_scale(ws)
    update = (
        plan_update(ws, differences, written=scale.phase.touched, only=scale.only)
        if scale.may_update
        else Phase()
    )
    # Refreshing comes first of the three: a pod is finished before the next is begun.
    written = scale.phase.touched | update.touched
    refresh = plan_refresh(ws, differences, updating=updating_names(ws), except_for=written)
    acted = update.touched | refresh.touched
    told = {**refresh.left, **update.left, **scale.phase.left}
    left = {name: why for name, why in told.items() if name not in acted}
    status = status_of(
        ws,
        collision_count=choice.collision_count,
        kept=_kept(scale.phase, update, refresh),
        failures=_failures(update, refresh),
        waiting=waiting_of(ws, scale, left=left, problem=update.failure or refresh.failure),
    )
    return Plan(
        stages=(
            *adoption_stages(_adopter(snapshot), snapshot.orphans, snapshot.orphaned_revisions),
            *_released(snapshot, strangers),
            *_stored(ws, choice, unrecorded),
            *plan_pre_download(ws, differences),
            *refresh.stages,
            *scale.phase.stages,
            *update.stages,
            *_tidy(ws),
        ),
        status=_changed(snapshot, status),
        after=_after(ws, (scale.phase, update, refresh)),
        left=left,
        notes=(
            *_reserved_notes(ws),
            *_trouble_notes(snapshot, status),
            *scale.phase.notes,
            *update.notes,
            *refresh.notes,
        ),
    )


def _kept(scale: Phase, update: Phase, refresh: Phase) -> list[str]:
    """Conditions of failed writes stay until the writes have been made: what is about to be has not succeeded."""
    stages = {stage.name for stage in (*scale.stages, *update.stages, *refresh.stages)}
    kept = [FAILED_CREATE] if CREATE_PODS in stages else []
    return [*kept, FAILED_UPDATE] if stages - {CREATE_PODS} else kept


def _failures(*phases: Phase) -> list[tuple[str, str, str]]:
    return [(FAILED_UPDATE, phase.failure_reason, phase.failure) for phase in phases if phase.failure][:1]


def _changed(snapshot: Snapshot, status: StatefulSetStatus) -> Document | None:
    document = status.document()
    return None if document == snapshot.statefulset.stored_status else document


def _after(ws: WorkingSet, phases: Sequence[Phase]) -> float | None:
    """Seconds until time alone changes something: a phase goes on, or a pod becomes available. None: never;
    0: there is more to write than one plan takes."""
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [phase.look_at for phase in phases if phase.look_at is not None]
    available = next_available_at(ws.counted, min_ready_seconds=ws.limits.min_ready_seconds, now=ws.now)
    if available is not None:
        times.append(available)
    return max(min(times) - ws.now, 0.0) if times else None


def _trouble_notes(snapshot: Snapshot, status: StatefulSetStatus) -> Sequence[Note]:
    """Of what keeps pods from serving. What cannot be updated has an event of its own."""
    told = [one for one in status.conditions or () if one.type == WAITING and one.reason != "CannotUpdate"]
    return trouble_notes(snapshot.statefulset.status.conditions, told)


def _reserved_notes(ws: WorkingSet) -> list[Note]:
    if not ws.reserved.problems:
        return []
    message = "; ".join(ws.reserved.problems) + "; the other entries count"
    return [Note(reason="InvalidReserveOrdinals", message=message, warning=True, again_after_s=LOOK_AGAIN_S)]


# The selector that pods are managed by


def _guard(snapshot: Snapshot, spec: StatefulSetSpec) -> Managed | Mismatch:
    return check_selector(
        msgspec.to_builtins(spec.selector),
        owned=snapshot.revisions,
        pods=(pod.labels for pod in snapshot.pods if not pod.is_deleting),
    )


def _guarded(snapshot: Snapshot, mismatch: Mismatch) -> Plan:
    """Nothing is touched; observedGeneration stays, so that whoever waits for it sees that nothing was done."""
    message = mismatch.message(ADVANCED_STATEFUL_SETS.kind)
    status = with_mismatch(
        msgspec.structs.replace(
            _observed(snapshot), observed_generation=snapshot.statefulset.status.observed_generation
        ),
        reason=SELECTOR_CHANGED,
        message=message,
        now=snapshot.now,
    )
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=_changed(snapshot, status),
        left={pod.name: mismatch.why_left() for pod in snapshot.pods},
        notes=(note,),
        after=LOOK_AGAIN_S,
    )


# Pods that come and go by their labels


def _adopter(snapshot: Snapshot) -> Adopter:
    statefulset = snapshot.statefulset
    assert statefulset.spec is not None
    return adopter_of(statefulset, ADVANCED_STATEFUL_SETS, selector=statefulset.spec.selector)


def _released(snapshot: Snapshot, strangers: Sequence[PodView]) -> list[Stage]:
    return release_stages(
        strangers,
        owner_uid=snapshot.statefulset.uid,
        because="its labels or its name are no longer those of a pod of the set",
    )


# Revisions


def _choose_update(snapshot: Snapshot, spec: StatefulSetSpec, own: Sequence[RevisionView]) -> UpdateChoice:
    statefulset = snapshot.statefulset
    assert statefulset.candidate is not None
    annotations = record_of(msgspec.to_builtins(spec.selector))
    return choose_update(
        statefulset.candidate,
        own,
        owner=statefulset.name,
        collision_count=statefulset.status.collision_count or 0,
        others=snapshot.other_revisions,
        body=partial(
            revision_body,
            namespace=statefulset.namespace,
            labels=labels_of(spec.template),
            annotations={**statefulset.annotations, **annotations},
            owner=statefulset.reference_as(ADVANCED_STATEFUL_SETS),
        ),
        annotations=annotations,
    )


def _stored(ws: WorkingSet, choice: UpdateChoice, unrecorded: RevisionView | None) -> list[Stage]:
    return revision_stages(
        choice,
        namespace=ws.snapshot.statefulset.namespace,
        selector=msgspec.to_builtins(ws.spec.selector),
        unrecorded=unrecorded,
    )


def _tidy(ws: WorkingSet) -> list[Stage]:
    chains = tuple(_truncate_history(ws))
    return [Stage(name=TIDY_UP, chains=chains)] if chains else []


def _truncate_history(ws: WorkingSet) -> Iterable[Chain]:
    live = {ws.update.hash, ws.current.hash, *(pod.revision for pod in ws.pods)}
    for revision in to_truncate(ws.snapshot.revisions, live=live, limit=ws.limits.history):
        yield delete_revision(revision, f"no pod is of it, and revisionHistoryLimit is {ws.limits.history}")


# What cannot be carried out


def _refused(snapshot: Snapshot, problems: Sequence[str]) -> Plan:
    """Nothing is touched, and a condition and an event say which fields are in the way."""
    message = "; ".join(problems)
    status = _observed(snapshot)
    kept = without(status.conditions or (), SELECTOR_MISMATCH, WAITING, FAILED_CREATE)
    conditions = with_condition(kept, FAILED_UPDATE, reason="InvalidSpec", message=message, now=snapshot.now)
    note = Note(reason="InvalidSpec", message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=_changed(snapshot, msgspec.structs.replace(status, conditions=conditions)),
        left={pod.name: message for pod in snapshot.pods},
        notes=(note,),
    )


def _observed(snapshot: Snapshot) -> StatefulSetStatus:
    """The stored status with the counters as they are now."""
    statefulset = snapshot.statefulset
    spec = statefulset.spec
    found = observed(
        statefulset.status,
        snapshot.pods,
        min_ready_seconds=limits_of(spec)[0].min_ready_seconds if spec else 0,
        now=snapshot.now,
    )
    return msgspec.structs.replace(found, observed_generation=statefulset.generation)
