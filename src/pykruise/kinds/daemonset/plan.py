"""What to do about one DaemonSet: the table of contents of its decisions.

Snapshot ──▶ plan_daemonset() ──▶ Plan ──▶ plans/execute.py
             the selector guard ▶ claim pods and revisions ▶ store the revision ▶ pull images ahead
             ▶ bring pods into service ▶ pods to and from nodes, or else update ▶ tidy up; and the status

Pure: same snapshot, same plan. Nothing waits for caches to catch up: what was written is in the snapshot.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykruise.kinds.daemonset.board import by_ownership
from pykruise.kinds.daemonset.claim import claim
from pykruise.kinds.daemonset.manage import plan_manage
from pykruise.kinds.daemonset.pre_download import plan_pre_download
from pykruise.kinds.daemonset.refresh import plan_refresh
from pykruise.kinds.daemonset.revisions import (
    Revisions,
    choose_revisions,
    cleaned_up,
    merged_pods,
    stored,
    unchanged_revisions,
)
from pykruise.kinds.daemonset.snapshot import Snapshot
from pykruise.kinds.daemonset.status import WRITE_FAILED, counters, status_of, with_mismatch, with_reason
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetSpec, DaemonSetStatus
from pykruise.kinds.daemonset.update import INVALID_SPEC, plan_update
from pykruise.kinds.daemonset.waiting import CORRECT, waiting_of, waits_until
from pykruise.kinds.daemonset.working_set import WorkingSet
from pykruise.kube.documents import Document
from pykruise.plans.execute import Failure
from pykruise.plans.phases import Phase, leave
from pykruise.plans.plan import Note, Plan, Stage
from pykruise.plans.troubles import trouble_notes
from pykruise.pods.revisions import RevisionView
from pykruise.pods.selector_guard import (
    LOOK_AGAIN_S,
    SELECTOR_MISMATCH,
    Managed,
    Mismatch,
    check_selector,
)
from pykruise.pods.waiting import Waiting

__all__ = ["TIDY_UP", "plan_daemonset", "status_after"]

TIDY_UP: Final = "tidy up"


def plan_daemonset(snapshot: Snapshot) -> Plan:
    """Everything to be written for this DaemonSet now, its status, and when to look again."""
    daemonset, spec = snapshot.daemonset, snapshot.daemonset.spec
    if daemonset.is_deleting:
        return Plan()  # what it owns is collected, or orphaned, by others
    if spec is None:
        return _refused(snapshot, INVALID_SPEC, daemonset.problem)
    if daemonset.selector is None:
        return _refused(snapshot, INVALID_SPEC, "spec.selector: cannot be read")
    if daemonset.selector.is_empty:
        return _refused(
            snapshot,
            "SelectingAll",
            "spec.selector: is empty and would match every pod. A non-empty selector is required",
        )
    guard = _guard(snapshot, spec)
    if isinstance(guard, Mismatch):
        return _guarded(snapshot, spec, guard)
    if not daemonset.selector.matches(_template_labels(spec)):
        return _refused(snapshot, INVALID_SPEC, "spec.template.metadata.labels: do not match spec.selector")
    revisions = choose_revisions(snapshot, spec)
    ws = WorkingSet(snapshot, spec=spec, revisions=revisions, board=snapshot.board)
    return _joined(ws, unrecorded=guard.unrecorded)


def status_after(snapshot: Snapshot, plan: Plan, failed: Failure) -> Document | None:
    """The status when this write of `plan` failed. None: there is nothing to report,
    as tidying up is tried again with every plan and holds nobody back."""
    if failed.stage == TIDY_UP:
        return None
    shown = plan.status if plan.status is not None else snapshot.daemonset.stored_status
    waiting = Waiting(reason=WRITE_FAILED, because=f"{failed.stage}: {failed.words}", remedy=failed.remedy)
    return with_reason(msgspec.convert(shown, DaemonSetStatus), waiting, now=snapshot.now).document()


def _template_labels(spec: DaemonSetSpec) -> dict[str, str]:
    labels: dict[str, str] = (spec.template.get("metadata") or {}).get("labels") or {}
    return labels


def _refused(snapshot: Snapshot, reason: str, problem: str) -> Plan:
    """Nothing is touched; an event and the condition Waiting say which field is in the way."""
    note = Note(reason=reason, message=problem, warning=True, again_after_s=LOOK_AGAIN_S)
    waiting = Waiting(reason=reason, because=f"nothing is done: {problem}", remedy=CORRECT)
    status = with_reason(snapshot.daemonset.status, waiting, now=snapshot.now)
    left = {pod.name: problem for pod in snapshot.pods}
    return Plan(status=_changed(snapshot, status), notes=(note,), left=left)


# The selector that pods are managed by


def _guard(snapshot: Snapshot, spec: DaemonSetSpec) -> Managed | Mismatch:
    return check_selector(
        msgspec.to_builtins(spec.selector),
        owned=snapshot.revisions,
        pods=(pod.labels for pod in snapshot.pods if not pod.is_deleting),
    )


def _guarded(snapshot: Snapshot, spec: DaemonSetSpec, mismatch: Mismatch) -> Plan:
    """Nothing is touched, neither pod nor revision. The counters go on, over what is owned; observedGeneration
    stays, so that whoever waits for it sees that nothing was done."""
    daemonset = snapshot.daemonset
    ws = WorkingSet(
        snapshot, spec=spec, revisions=unchanged_revisions(snapshot), board=by_ownership(snapshot.board)
    )
    message = mismatch.message(DAEMON_SETS.kind)
    status = with_mismatch(daemonset.status, counters(ws), message=message, now=snapshot.now)
    note = Note(reason=SELECTOR_MISMATCH, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return Plan(
        status=_changed(snapshot, status),
        after=LOOK_AGAIN_S,
        notes=(note,),
        left={pod.name: mismatch.why_left() for pod in snapshot.pods},
    )


# Joining the phases


def _joined(ws: WorkingSet, *, unrecorded: RevisionView | None) -> Plan:
    snapshot, revisions = ws.snapshot, ws.revisions
    before = [
        *claim(snapshot),
        *stored(snapshot, revisions, unrecorded=unrecorded),
        *merged_pods(revisions, ws.pods),
    ]
    manage, left_nodes = plan_manage(ws)
    update = Phase() if manage.stages else plan_update(ws)
    # Refreshing comes first of the three: a pod is finished before the next is begun.
    refresh = plan_refresh(ws, except_for=manage.touched | update.touched)
    left = {**refresh.left, **update.left, **manage.left}
    if manage.stages:
        waits = leave(ws.old_pods, "is updated when every node has the pods that it is to have")
        left = {**{name: why for name, why in waits.items() if name not in manage.touched}, **left}
    status = status_of(
        ws,
        waiting=waiting_of(ws, left=left, left_nodes=left_nodes, broken=refresh.failure),
        is_writing=bool(before or manage.stages or update.stages),
    )
    notes = (*manage.notes, *update.notes, *refresh.notes)
    told = {note.reason for note in notes}
    troubles = trouble_notes(snapshot.daemonset.status.conditions, status.conditions)
    return Plan(
        stages=(
            *before,
            *plan_pre_download(ws),
            *refresh.stages,
            *manage.stages,
            *update.stages,
            *_tidy(ws, revisions),
        ),
        status=_changed(snapshot, status),
        after=_after(ws, (manage, update, refresh)),
        left=left,
        left_nodes=left_nodes,
        notes=(*notes, *(one for one in troubles if one.reason not in told)),
    )


def _tidy(ws: WorkingSet, revisions: Revisions) -> list[Stage]:
    chains = tuple(cleaned_up(ws.snapshot, ws.spec, revisions, ws.snapshot.pods))
    return [Stage(name=TIDY_UP, chains=chains)] if chains else []


def _changed(snapshot: Snapshot, status: DaemonSetStatus) -> Document | None:
    document = status.document()
    return None if document == snapshot.daemonset.stored_status else document


def _after(ws: WorkingSet, phases: Sequence[Phase]) -> float | None:
    """Seconds until time alone changes something: a phase goes on, or a pod becomes available. None: never;
    0: there is more to write than one plan takes."""
    if any(phase.is_partial for phase in phases):
        return 0.0
    times = [phase.look_at for phase in phases if phase.look_at is not None]
    if (named := waits_until(ws)) is not None:
        times.append(named)
    if ws.spec.min_ready_seconds > 0:
        times += [due for pod in ws.open_pods if (due := ws.available_at(pod)) is not None]
    return max(min(times) - ws.now, 0.0) if times else None
