"""The plan for one DaemonSet: the decisions of all phases.

DaemonSetSnapshot ──▶ plan_daemonset() ──▶ Plan ──▶ runtime/execute.py
             the selector guard ▶ adopt pods and revisions ▶ store the revision ▶ pull images in advance
             ▶ bring pods into service ▶ create and delete pods, or else update ▶ tidy up; and the status

Pure: the same snapshot always gives the same plan. A plan does not have to wait until the caches contain this
controller's own writes, because the snapshot contains them. If the stored selector is not that of the revision from
which the pods were created, the selector guard allows only writes of the status and of missing conditions of pods
(pods/workload/selector_guard.py).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.daemonset.limits import limits_of
from pykruise.kinds.daemonset.manage import plan_manage
from pykruise.kinds.daemonset.node_cache import group_by_ownership
from pykruise.kinds.daemonset.pre_download import plan_pre_download
from pykruise.kinds.daemonset.refresh import plan_refresh
from pykruise.kinds.daemonset.revisions import (
    choose_revisions,
    clean_up_revisions,
    merge_pods,
    read_unchanged_revisions,
    store_revisions,
)
from pykruise.kinds.daemonset.snapshot import DaemonSetSnapshot, ReadableDaemonSet
from pykruise.kinds.daemonset.status import build_counters, set_reason, status_of
from pykruise.kinds.daemonset.types import DAEMON_SETS, DaemonSetStatus
from pykruise.kinds.daemonset.update import plan_update
from pykruise.kinds.daemonset.waiting import CORRECT, find_wait_end, waiting_of
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.config_content import make_config_notes
from pykruise.plans.ownership import adopter_of, plan_adoption, release_pods
from pykruise.plans.phases import PlanPhase, skip
from pykruise.plans.pod_writes import stage_of, write_phases, write_pod_phases
from pykruise.plans.purposes import Purpose
from pykruise.plans.warning_events import make_warning_notes
from pykruise.plans.workload_frame import (
    Frame,
    Problem,
    build_changed_status,
    plan_workload,
    requeue_after,
    set_mismatch,
    status_to_amend,
)
from pykruise.pods.lifecycle.blockers import find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import read_pod_labels
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Plan, Stage
from pykruise.runtime.reasons import Reason

NODES_FIRST: Final = Reason(Code.TURN, "is updated when every node has its pods")


def plan_daemonset(snapshot: DaemonSetSnapshot) -> Plan:
    """Plan all writes that this DaemonSet needs now, its status, and when it is reconciled again."""
    return plan_workload(_FRAME, snapshot)


def compute_status_after(snapshot: DaemonSetSnapshot, plan: Plan, failed: Failure) -> Document | None:
    """Return the status that reports this failed write of `plan`; None if the failure is not reported in the status."""
    status = status_to_amend(snapshot.daemonset, plan, failed, DaemonSetStatus)
    return None if status is None else set_reason(status, failed.reason, now=snapshot.now).to_document()


# All phases as one plan


def _plan_phases(snapshot: ReadableDaemonSet, unrecorded: RevisionView | None) -> Plan:
    spec = snapshot.daemonset.spec
    revisions, choice = choose_revisions(snapshot)
    ws = DaemonSetWorkingSet(snapshot, spec=spec, revisions=revisions, overview=snapshot.overview)
    before = [
        *_claim_pods(snapshot),
        *store_revisions(snapshot, revisions, choice, unrecorded=unrecorded),
        *merge_pods(revisions, ws.pods),
    ]
    manage, skipped_nodes = plan_manage(ws)
    update = PlanPhase() if manage.stages else plan_update(ws)
    refresh = plan_refresh(ws, except_for=manage.touched | update.touched)
    skipped = {**refresh.skipped, **update.skipped, **manage.skipped}
    if manage.stages:
        waits = skip(ws.old_pods, NODES_FIRST)
        skipped = {**{name: why for name, why in waits.items() if name not in manage.touched}, **skipped}
    waiting = waiting_of(ws, skipped=skipped, skipped_nodes=skipped_nodes, broken=refresh.failure)
    status = status_of(
        ws,
        collision_count=choice.collision_count,
        waiting=waiting,
        is_writing=bool(before or manage.stages or update.stages),
    )
    config = make_config_notes(snapshot.config_problem)
    notes = (*manage.notes, *update.notes, *refresh.notes, *config)
    noted = {note.reason for note in notes}
    warnings = make_warning_notes(snapshot.daemonset.status.conditions, status.conditions)
    return Plan(
        stages=(
            *before,
            *plan_pre_download(ws),
            # The refresh phase is first, so that started updates are completed before further updates begin.
            *write_pod_phases(refresh, manage, update, prepared=before),
            *stage_of(
                Purpose.TIDY_UP,
                clean_up_revisions(ws.snapshot, ws.spec, revisions, ws.snapshot.pods),
                regardless=True,
            ),
        ),
        status=build_changed_status(
            snapshot.daemonset, status, zeros=() if ws.limits.desired else ("numberAvailable",)
        ),
        requeue_after_s=requeue_after((manage, update, refresh), *_find_times(ws), now=ws.now),
        waiting=waiting,
        skipped=skipped,
        skipped_nodes=skipped_nodes,
        notes=(*notes, *(warning for warning in warnings if warning.reason not in noted)),
    )


def _claim_pods(snapshot: DaemonSetSnapshot) -> list[Stage]:
    """Adopt orphans that the selector matches, and release controlled pods that it does not match.

    A person can isolate a pod by changing its labels, so a pod that no longer matches is released. A revision is never
    released.
    """
    states = snapshot.overview.open
    adopted = [pod for state in states for pod in state.pods if pod.controller is None]
    mismatched = [pod for state in states for pod in state.mismatched]
    return [
        *plan_adoption(adopter_of(snapshot.daemonset, DAEMON_SETS), adopted, snapshot.orphaned_revisions),
        *write_phases(release_pods(mismatched, owner_uid=snapshot.daemonset.uid)),
    ]


def _find_times(ws: DaemonSetWorkingSet) -> Iterator[Instant | None]:
    """Yield the times at which a pod becomes available, or at which the reason why it waits must be reported."""
    yield find_wait_end(ws)
    yield min((time for time in ws.infeasible.values() if time > ws.now), default=None)
    yield find_next_blocker_time(ws.open_pods, now=ws.now)
    if ws.spec.min_ready_seconds > 0:
        for pod in ws.open_pods:
            yield ws.find_available_time(pod)


# Functions that the frame of all workloads calls


def _find_unreadable(snapshot: DaemonSetSnapshot) -> list[Problem]:
    daemonset = snapshot.daemonset
    if daemonset.spec is None:
        return [Problem(daemonset.problem)]
    if daemonset.selector is None:
        return [Problem("spec.selector: is not a valid label selector")]
    if daemonset.selector.is_empty:
        problem = "spec.selector: is empty and would match every pod. A non-empty selector is required"
        return [Problem(problem, Code.SELECTING_ALL)]
    return []


def _find_problems(snapshot: ReadableDaemonSet) -> list[Problem]:
    daemonset, spec = snapshot.daemonset, snapshot.daemonset.spec
    problems = [Problem(problem) for problem in limits_of(spec, desired=0).problems]
    if not daemonset.selector.matches(read_pod_labels(spec.template)):
        problems.append(Problem("spec.template.metadata.labels: do not match spec.selector"))
    return problems


def _build_refused_status(snapshot: DaemonSetSnapshot, problems: Sequence[Problem]) -> DaemonSetStatus:
    message = "; ".join(problem.message for problem in problems)
    waiting = Reason(problems[0].code, f"the manager changes nothing: {message}", CORRECT)
    return set_reason(snapshot.daemonset.status, waiting, now=snapshot.now)


def _build_guarded_status(snapshot: ReadableDaemonSet, message: str) -> DaemonSetStatus:
    """Return the status while the selector guard prevents all other writes. All controlled pods are counted."""
    spec = snapshot.daemonset.spec
    ws = DaemonSetWorkingSet(
        snapshot,
        spec=spec,
        revisions=read_unchanged_revisions(snapshot),
        overview=group_by_ownership(snapshot.overview),
    )
    stored = snapshot.daemonset.status
    conditions = set_mismatch(stored.conditions, message, now=snapshot.now)
    return msgspec.structs.replace(stored, **build_counters(ws), conditions=conditions)


_FRAME: Final = Frame(
    resource=DAEMON_SETS,
    view_of=lambda snapshot: snapshot.daemonset,
    terminating=lambda snapshot: None,  # the garbage collector deletes or orphans the pods
    unreadable=_find_unreadable,
    problems=_find_problems,
    refused=_build_refused_status,
    guarded=_build_guarded_status,
    phases=_plan_phases,
)
