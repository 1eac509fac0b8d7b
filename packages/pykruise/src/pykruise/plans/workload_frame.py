"""The frame of a workload's plan, the same for every kind that owns pods by a selector.

Snapshot ──▶ plan_workload(frame, snapshot) ──▶ Plan
             terminating ▶ unreadable ▶ selector guard ▶ refused ▶ the kind's phases

truncate_history(), requeue_after(), changed_status(), choose_update_revision() ──▶ what the phases end with

Pure. A kind supplies what is its own: what its status says of each, and its phases.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, labels_of
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import PlainCondition
from pykruise.plans.ownership import delete_revision, selector_in
from pykruise.plans.phases import PlanPhase
from pykruise.plans.stored_values import Flaw
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.view import keys
from pykruise.pods.view.names import RevisionHash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import (
    RevisionView,
    UpdateChoice,
    choose_update,
    revision_body,
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
from pykruise.pods.workload.waiting import WAITING, with_condition, without
from pykruise.runtime.plan import Chain, Note, Plan
from pykruise.runtime.reasons import Reason


class Problem(msgspec.Struct, frozen=True):
    """A stored value that admission would have refused."""

    message: str
    """`<path>: <what is wrong>`."""
    code: Code = Code.INVALID_SPEC
    condition: str = ""
    """Type of the condition that reports it, of kinds with several."""


class WorkloadStatus(Protocol):
    """A typed status."""

    def document(self) -> Document: ...


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
    """Parts of the frame that each kind supplies."""

    resource: Resource
    view_of: Callable[[Any], WorkloadView]
    terminating: Callable[[Any], WorkloadStatus | None]
    """The status of an object that is being deleted; None: it stays as it is."""
    unreadable: Callable[[Any], Sequence[Problem]]
    """Why nothing at all can be said of it: a spec or a selector that cannot be read."""
    problems: Callable[[Any], Sequence[Problem]]
    """Further problems that cannot be carried out."""
    refused: Callable[[Any, Sequence[Problem]], WorkloadStatus]
    """The status that says which fields are in the way."""
    guarded: Callable[[Any, str], WorkloadStatus]
    """The status while the selector guard holds, with the guard's message. observedGeneration stays, so that who
    waits for it sees that nothing was done."""
    condition_of: Callable[[str], str] = lambda _: ""
    """Type of the condition that reports what is wrong with this field, of kinds with several."""
    phases: Callable[[Any, RevisionView | None], Plan]
    """All that is done otherwise. The revision is one that has no record of the selector yet."""


def plan_workload(frame: Frame, snapshot: WorkloadSnapshot) -> Plan:
    """Everything to be written for this object now, its status, and when to look again."""
    view = frame.view_of(snapshot)
    if view.is_deleting:
        # Nothing is created, updated, deleted or released; what is left of it is still reported.
        return Plan(status=changed_status(view, frame.terminating(snapshot)))
    if problems := frame.unreadable(snapshot):
        return refuse(frame, snapshot, problems)
    guard = check_selector(
        selector_in(view),
        owned=[revision for revision in snapshot.revisions if revision.controller_uid == view.uid],
        pods=(pod.labels for pod in snapshot.pods if not pod.is_deleting),
    )
    if isinstance(guard, Mismatch):
        return _guarded(frame, snapshot, guard)
    if problems := frame.problems(snapshot) or _flaws(frame, snapshot):
        return refuse(frame, snapshot, problems)
    return frame.phases(snapshot, guard.unrecorded)


def _flaws(frame: Frame, snapshot: WorkloadSnapshot) -> Sequence[Problem]:
    """Further errors that admission would have refused."""
    return [Problem(str(flaw), condition=frame.condition_of(flaw.field)) for flaw in snapshot.refused]


def refuse(frame: Frame, snapshot: WorkloadSnapshot, problems: Sequence[Problem]) -> Plan:
    """Nothing is touched; a condition and an event say which fields are in the way."""
    code = problems[0].code
    message = "; ".join(problem.message for problem in problems)
    reason = Reason(code, message)
    return Plan(
        status=changed_status(frame.view_of(snapshot), frame.refused(snapshot, problems)),
        waiting=Reason(code, message, CODES[code].helps),
        skipped={pod.name: reason for pod in snapshot.pods},
        notes=(Note(reason=code, message=message, warning=True, again_after_s=LOOK_AGAIN_S),),
    )


def _guarded(frame: Frame, snapshot: WorkloadSnapshot, mismatch: Mismatch) -> Plan:
    """Nothing is touched, neither pod nor revision."""
    message = mismatch.message(frame.resource.kind)
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=changed_status(frame.view_of(snapshot), frame.guarded(snapshot, message)),
        waiting=Reason(Code.SELECTOR_CHANGED, message, CODES[Code.SELECTOR_CHANGED].helps),
        skipped={pod.name: mismatch.reason for pod in snapshot.pods},
        notes=(note,),
        requeue_after_s=LOOK_AGAIN_S,
    )


def with_mismatch(
    conditions: Sequence[PlainCondition] | None, message: str, *, now: Instant
) -> list[PlainCondition]:
    """The conditions while the selector guard holds: nothing is waited for, and one says why."""
    kept = without(conditions or (), WAITING)
    return with_condition(kept, SELECTOR_MISMATCH, reason=SELECTOR_CHANGED, message=message, now=now)


# What phases end with


def changed_status(
    view: WorkloadView, status: WorkloadStatus | None, *, zeros: Collection[str] = ()
) -> Document | None:
    """The status as a document; None: it is stored like that already. `zeros`: counts that are written when they are
    0 too, which Argo CD's scripts would take for unknown."""
    if status is None:
        return None
    document = {**dict.fromkeys(zeros, 0), **status.document()}
    return None if document == view.stored_status else document


def requeue_after(phases: Iterable[PlanPhase], *further: Instant | None, now: Instant) -> float | None:
    """Seconds until time alone changes something: a phase goes on, or one of the `further` times comes. None: never;
    0: there is more to write than one plan takes."""
    phases = tuple(phases)
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [time for time in (*(phase.look_at for phase in phases), *further) if time is not None]
    return max(min(times) - now, 0.0) if times else None


def truncate_history(
    revisions: Iterable[RevisionView], *, live: Collection[RevisionHash], limit: int
) -> list[Chain]:
    """The ends of old revisions that no pod is of. `revisions`: its own; `live`: hashes in use."""
    because = f"no pod is of it, and revisionHistoryLimit is {limit}"
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
    """The revision of the present template: one that is stored, or one to store. `revisions`: its own and those that it
    may adopt; `others` hold names that it may want; `annotations`: what it carries besides the selector's record;
    `hash_label`: the label that has its hash."""
    spec = view.spec
    recorded = {**(annotations or {}), **record_of(selector_in(view))}
    return choose_update(
        view.candidate,
        revisions,
        owner=view.name,
        collision_count=view.status.collision_count or 0,
        others=others,
        body=partial(
            revision_body,
            namespace=view.namespace,
            labels=labels_of(spec.template),
            annotations={**view.annotations, **recorded},
            owner=view.reference_as(resource),
            hash_label=hash_label,
        ),
        annotations=recorded,
    )
