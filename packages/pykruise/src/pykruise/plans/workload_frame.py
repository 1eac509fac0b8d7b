"""Frame of a workload's plan. It is the same for every kind that owns pods and has a selector.

Snapshot ──▶ plan_workload(frame, snapshot) ──▶ Plan
             terminating ▶ unreadable ▶ selector guard ▶ invalid values ▶ the kind's phases

truncate_history(), requeue_after(), build_changed_status(), choose_update_revision() ──▶ shared parts of the phases

Pure. A kind provides its own parts: the status in each of these cases, and its phases. If spec.selector is not the
selector with which the pods were created, the selector guard allows only a write of the status
(pods/workload/selector_guard.py), and missing conditions of pods. Missing conditions are set in every case, because a
pod that starts cannot become ready without them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, labels_of
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.ownership import delete_revision, read_selector
from pykruise.plans.phases import PlanPhase
from pykruise.plans.pod_writes import make_pod_chain, pod_patch, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import Flaw
from pykruise.pods.lifecycle.blockers import find_end_blocker
from pykruise.pods.lifecycle.readiness import list_missing_conditions
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import (
    RevisionView,
    UpdateChoice,
    build_revision_body,
    choose_update,
    to_truncate,
)
from pykruise.pods.workload.selector_guard import (
    LOOK_AGAIN_S,
    SELECTOR_CHANGED,
    SELECTOR_MISMATCH,
    Mismatch,
    check_selector,
    record_of,
)
from pykruise.pods.workload.views import WorkloadView
from pykruise.pods.workload.waiting import WAITING, drop_conditions, set_condition
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason


class Problem(msgspec.Struct, frozen=True):
    """A stored value that admission would reject."""

    message: str
    """Message of the form `<path>: <problem>`."""
    code: Code = Code.INVALID_SPEC
    condition: str = ""
    """Type of the condition that reports the problem, for kinds with several such conditions."""


S = TypeVar("S")


class WorkloadStatus(Protocol):
    """A typed status."""

    def to_document(self) -> Document: ...


class WorkloadSnapshot(Protocol):
    """Fields that the snapshots of all workloads have."""

    @property
    def pods(self) -> Sequence[PodView]: ...
    @property
    def revisions(self) -> Sequence[RevisionView]: ...
    @property
    def now(self) -> Instant: ...
    @property
    def refused(self) -> Sequence[Flaw]: ...


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the plan that each kind provides."""

    resource: Resource
    view_of: Callable[[Any], WorkloadView]
    terminating: Callable[[Any], WorkloadStatus | None]
    """Returns the status of an object that is being deleted, or None if the status does not change."""
    unreadable: Callable[[Any], Sequence[Problem]]
    """Returns the reasons why the object cannot be planned: an unreadable spec or selector."""
    problems: Callable[[Any], Sequence[Problem]]
    """Returns further problems of the spec that prevent a plan."""
    refused: Callable[[Any, Sequence[Problem]], WorkloadStatus]
    """Returns the status that reports these problems."""
    guarded: Callable[[Any, str], WorkloadStatus]
    """Returns the status while the selector guard prevents all other writes. The second argument is the message of the
    guard. observedGeneration does not change, so that a client that waits for it sees that the change was not
    processed.
    """
    condition_of: Callable[[str], str] = lambda _: ""
    """Returns the type of the condition that reports problems of a field, for kinds with several such conditions."""
    phases: Callable[[Any, RevisionView | None], Plan | Sequence[Problem]]
    """Returns the plan in all other cases, or further problems that prevent it. The second argument is a revision that
    does not record the selector yet, if there is one.
    """


def plan_workload(frame: Frame, snapshot: WorkloadSnapshot) -> Plan:
    """Plan all writes that this object needs now, its status, and when it is reconciled again."""
    view = frame.view_of(snapshot)
    if view.is_deleting:
        # Besides missing conditions of pods, only the status is written: it reports the remaining pods.
        return Plan(
            stages=_build_condition_stages(view, snapshot),
            status=build_changed_status(view, frame.terminating(snapshot)),
            skipped=dict(_find_held(snapshot)),
        )
    if problems := frame.unreadable(snapshot):
        return _refuse(frame, snapshot, problems)
    guard = check_selector(
        read_selector(view),
        owned=[revision for revision in snapshot.revisions if revision.controller_uid == view.uid],
        pods=(pod.labels for pod in snapshot.pods if not pod.is_deleting),
    )
    if isinstance(guard, Mismatch):
        return _plan_guarded(frame, snapshot, guard)
    if problems := frame.problems(snapshot) or _list_flaws(frame, snapshot):
        return _refuse(frame, snapshot, problems)
    plan = frame.phases(snapshot, guard.unrecorded)
    return plan if isinstance(plan, Plan) else _refuse(frame, snapshot, plan)


def _find_held(snapshot: WorkloadSnapshot) -> Iterator[tuple[str, Reason]]:
    """Yield the terminating pods that cannot end, each with the reason."""
    for pod in snapshot.pods:
        if pod.is_deleting and (kept := find_end_blocker(pod, now=snapshot.now)) is not None:
            yield pod.name, kept


def _list_flaws(frame: Frame, snapshot: WorkloadSnapshot) -> Sequence[Problem]:
    """Return further stored values that admission would reject."""
    return [Problem(str(flaw), condition=frame.condition_of(flaw.field)) for flaw in snapshot.refused]


def _refuse(frame: Frame, snapshot: WorkloadSnapshot, problems: Sequence[Problem]) -> Plan:
    """Return a plan that writes only the status and missing conditions of pods. A condition and an event of the object
    report the problems.
    """
    view = frame.view_of(snapshot)
    code = problems[0].code
    message = "; ".join(problem.message for problem in problems)
    reason = Reason(code, message)
    return Plan(
        stages=_build_condition_stages(view, snapshot),
        status=build_changed_status(view, frame.refused(snapshot, problems)),
        waiting=Reason(code, message, CODES[code].helps),
        skipped={pod.name: reason for pod in snapshot.pods},
        notes=(Note(reason=code, message=message, warning=True, again_after_s=LOOK_AGAIN_S),),
    )


def _plan_guarded(frame: Frame, snapshot: WorkloadSnapshot, mismatch: Mismatch) -> Plan:
    """Return the plan while the selector guard prevents all writes but the status and missing conditions of pods."""
    view = frame.view_of(snapshot)
    message = mismatch.format_message(frame.resource.kind)
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        stages=_build_condition_stages(view, snapshot),
        status=build_changed_status(view, frame.guarded(snapshot, message)),
        waiting=Reason(Code.SELECTOR_CHANGED, message, CODES[Code.SELECTOR_CHANGED].helps),
        skipped={pod.name: mismatch.reason for pod in snapshot.pods},
        notes=(note,),
        requeue_after_s=LOOK_AGAIN_S,
    )


def _build_condition_stages(view: WorkloadView, snapshot: WorkloadSnapshot) -> tuple[Stage, ...]:
    """Return the writes of the conditions that pods with a node lack. OpenKruise has a controller for KruisePodReady,
    which does not depend on the workload.
    """
    writes = []
    for pod in snapshot.pods:
        is_own = pod.controller is not None and pod.controller.uid == view.uid
        if not is_own or not pod.is_active or not pod.node_name:
            continue
        missing = [
            condition
            for condition in list_missing_conditions(pod, now=snapshot.now)
            if pod.find_condition(condition["type"]) is None
        ]
        if missing:
            step = Step(
                action=pod_patch(pod, {"status": {"conditions": missing}}, subresource="status"),
                because="nothing keeps the pod out of service",
            )
            writes.append(make_pod_chain(pod, step))
    return stage_of(Purpose.SET_READINESS, writes, is_optional=True)


def set_mismatch(
    conditions: Sequence[PlainCondition] | None, message: str, *, now: Instant
) -> list[PlainCondition]:
    """Return the conditions while the selector guard prevents writes: without Waiting, but with SelectorMismatch."""
    kept = drop_conditions(conditions or (), WAITING)
    return set_condition(kept, SELECTOR_MISMATCH, reason=SELECTOR_CHANGED, message=message, now=now)


# Shared parts of the phases


def build_changed_status(
    view: WorkloadView, status: WorkloadStatus | None, *, zeros: Collection[str] = ()
) -> Document | None:
    """Return the status as a document; None if it equals the stored status. `zeros`: counts that are also written if
    they are 0, because Argo CD's scripts treat absent counts as unknown.
    """
    if status is None:
        return None
    document = {**dict.fromkeys(zeros, 0), **status.to_document()}
    return None if document == view.stored_status else document


def status_to_amend(view: WorkloadView, plan: Plan, failed: Failure, kind: type[S]) -> S | None:
    """Return the status in which a failed write of `plan` is reported. None if it is not reported: if the deletion of
    old objects fails, it is repeated in the next plan, and no other write depends on it.
    """
    if failed.purpose == Purpose.TIDY_UP:
        return None
    return msgspec.convert(plan.status if plan.status is not None else view.stored_status, kind)


def requeue_after(phases: Iterable[PlanPhase], *further: Instant | None, now: Instant) -> float | None:
    """Return the seconds until a phase can continue even without an event, or until one of the `further` times. None if
    there is no such time. 0 if further writes must follow immediately.
    """
    phases = tuple(phases)
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [time for time in (*(phase.look_at for phase in phases), *further) if time is not None]
    return max(min(times) - now, 0.0) if times else None


def truncate_history(
    revisions: Iterable[RevisionView], *, live: Collection[RevisionHash], limit: int
) -> list[Chain]:
    """Return the deletions of old revisions that no pod has. `revisions`: the workload's own revisions. `live`: hashes
    of revisions that are in use.
    """
    because = f"no pod has this revision, and revisionHistoryLimit is {limit}"
    return [
        delete_revision(revision, because)
        for revision in to_truncate(list(revisions), live=live, limit=limit)
    ]


def choose_update_revision(
    view: Any,
    revisions: Sequence[RevisionView],
    *,
    resource: Resource,
    others: Mapping[str, RevisionView],
    annotations: Mapping[str, str] | None = None,
    hash_label: str = keys.REVISION_HASH_LABEL,
) -> UpdateChoice:
    """Return the revision of the current template: a stored revision, or a revision to store. `revisions`: the
    workload's own revisions, and revisions that it can adopt. `others`: other revisions, whose names a new revision
    must not get. `annotations`: annotations of the revision besides the recorded selector. `hash_label`: the label with
    its hash.
    """
    spec = view.spec
    recorded = {**(annotations or {}), **record_of(read_selector(view))}
    return choose_update(
        view.candidate,
        revisions,
        owner=view.name,
        collision_count=view.status.collision_count or 0,
        others=others,
        body=partial(
            build_revision_body,
            namespace=view.namespace,
            labels=labels_of(spec.template),
            annotations={**view.annotations, **recorded},
            owner=view.build_reference(resource),
            hash_label=hash_label,
        ),
        annotations=recorded,
    )
