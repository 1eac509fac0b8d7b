"""Frame of a workload's plan, the same for every kind that owns pods by a selector.

Snapshot ──▶ plan_workload(frame, snapshot) ──▶ Plan
             terminating ▶ unreadable ▶ selector guard ▶ rejected ▶ the kind's phases

truncate_history(), requeue_after(), build_changed_status(), choose_update_revision() ──▶ shared parts of the phases

Pure. A kind supplies its own parts: its status in each of these cases, and its phases.
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
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import Flaw
from pykruise.pods.lifecycle.blockers import find_end_blocker
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
from pykruise.runtime.plan import Chain, Note, Plan
from pykruise.runtime.reasons import Reason


class Problem(msgspec.Struct, frozen=True):
    """A stored value that admission would have rejected."""

    message: str
    """Text of the form `<path>: <problem>`."""
    code: Code = Code.INVALID_SPEC
    condition: str = ""
    """Type of the condition that reports it, for kinds with several."""


S = TypeVar("S")


class WorkloadStatus(Protocol):
    """A typed status."""

    def to_document(self) -> Document: ...


class WorkloadSnapshot(Protocol):
    """Common fields of all workloads' snapshots."""

    @property
    def pods(self) -> Sequence[PodView]: ...
    @property
    def revisions(self) -> Sequence[RevisionView]: ...
    @property
    def now(self) -> Instant: ...
    @property
    def refused(self) -> Sequence[Flaw]: ...


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the plan that each kind supplies."""

    resource: Resource
    view_of: Callable[[Any], WorkloadView]
    terminating: Callable[[Any], WorkloadStatus | None]
    """Returns the status of an object that is being deleted; None: the status does not change."""
    unreadable: Callable[[Any], Sequence[Problem]]
    """Returns the reasons why the object cannot be planned: an unreadable spec or selector."""
    problems: Callable[[Any], Sequence[Problem]]
    """Returns further problems with the spec that prevent a plan."""
    refused: Callable[[Any, Sequence[Problem]], WorkloadStatus]
    """Returns the status that names the invalid fields."""
    guarded: Callable[[Any, str], WorkloadStatus]
    """Returns the status while the selector guard holds, with the guard's message. observedGeneration does not
    change, so that a client that waits for it sees that nothing was done.
    """
    condition_of: Callable[[str], str] = lambda _: ""
    """Returns the type of the condition that reports problems of this field, for kinds with several."""
    phases: Callable[[Any, RevisionView | None], Plan | Sequence[Problem]]
    """Returns the plan in all other cases, or further problems that prevent it. The revision is one that does not
    record the selector yet.
    """


def plan_workload(frame: Frame, snapshot: WorkloadSnapshot) -> Plan:
    """Return all writes that are due for this object, its status, and the time of the next reconcile."""
    view = frame.view_of(snapshot)
    if view.is_deleting:
        # Nothing is created, updated, deleted or released; the status still reports the remaining objects.
        return Plan(
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
    if problems := frame.problems(snapshot) or _flaws_of(frame, snapshot):
        return _refuse(frame, snapshot, problems)
    plan = frame.phases(snapshot, guard.unrecorded)
    return plan if isinstance(plan, Plan) else _refuse(frame, snapshot, plan)


def _find_held(snapshot: WorkloadSnapshot) -> Iterator[tuple[str, Reason]]:
    """Yield the pods of a deleted object that something keeps from ending, with the reason."""
    for pod in snapshot.pods:
        if pod.is_deleting and (kept := find_end_blocker(pod, now=snapshot.now)) is not None:
            yield pod.name, kept


def _flaws_of(frame: Frame, snapshot: WorkloadSnapshot) -> Sequence[Problem]:
    """Return further values that admission would have rejected."""
    return [Problem(str(flaw), condition=frame.condition_of(flaw.field)) for flaw in snapshot.refused]


def _refuse(frame: Frame, snapshot: WorkloadSnapshot, problems: Sequence[Problem]) -> Plan:
    """Return a plan that changes nothing; a condition and an event name the invalid fields."""
    code = problems[0].code
    message = "; ".join(problem.message for problem in problems)
    reason = Reason(code, message)
    return Plan(
        status=build_changed_status(frame.view_of(snapshot), frame.refused(snapshot, problems)),
        waiting=Reason(code, message, CODES[code].helps),
        skipped={pod.name: reason for pod in snapshot.pods},
        notes=(Note(reason=code, message=message, warning=True, again_after_s=LOOK_AGAIN_S),),
    )


def _plan_guarded(frame: Frame, snapshot: WorkloadSnapshot, mismatch: Mismatch) -> Plan:
    """Return the plan while the selector guard holds. It changes neither pods nor revisions."""
    message = mismatch.format_message(frame.resource.kind)
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=build_changed_status(frame.view_of(snapshot), frame.guarded(snapshot, message)),
        waiting=Reason(Code.SELECTOR_CHANGED, message, CODES[Code.SELECTOR_CHANGED].helps),
        skipped={pod.name: mismatch.reason for pod in snapshot.pods},
        notes=(note,),
        requeue_after_s=LOOK_AGAIN_S,
    )


def set_mismatch(
    conditions: Sequence[PlainCondition] | None, message: str, *, now: Instant
) -> list[PlainCondition]:
    """Return the conditions while the selector guard holds: without Waiting, and with the reason."""
    kept = drop_conditions(conditions or (), WAITING)
    return set_condition(kept, SELECTOR_MISMATCH, reason=SELECTOR_CHANGED, message=message, now=now)


# Shared parts of the phases


def build_changed_status(
    view: WorkloadView, status: WorkloadStatus | None, *, zeros: Collection[str] = ()
) -> Document | None:
    """Return the status as a document; None: the stored one is equal. `zeros`: counts that are also written as 0,
    since Argo CD's scripts would treat absent ones as unknown.
    """
    if status is None:
        return None
    document = {**dict.fromkeys(zeros, 0), **status.to_document()}
    return None if document == view.stored_status else document


def status_to_amend(view: WorkloadView, plan: Plan, failed: Failure, kind: type[S]) -> S | None:
    """Return the status that reports a failed write of `plan`. None when there is nothing to report: deletions of old
    objects are tried again in every plan and block nothing.
    """
    if failed.purpose == Purpose.TIDY_UP:
        return None
    return msgspec.convert(plan.status if plan.status is not None else view.stored_status, kind)


def requeue_after(phases: Iterable[PlanPhase], *further: Instant | None, now: Instant) -> float | None:
    """Return the seconds until a phase can continue without an event, or until one of the `further` times. None:
    never; 0: one plan could not contain all writes.
    """
    phases = tuple(phases)
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [time for time in (*(phase.look_at for phase in phases), *further) if time is not None]
    return max(min(times) - now, 0.0) if times else None


def truncate_history(
    revisions: Iterable[RevisionView], *, live: Collection[RevisionHash], limit: int
) -> list[Chain]:
    """Return the deletions of old revisions that no pod has. `revisions`: the workload's own; `live`: hashes in use."""
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
    """Return the revision of the current template: a stored one, or one to store. `revisions`: the workload's own and
    those that it may adopt; `others`: revisions that may have a name it needs; `annotations`: further annotations
    besides the selector's record; `hash_label`: the label with its hash.
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
