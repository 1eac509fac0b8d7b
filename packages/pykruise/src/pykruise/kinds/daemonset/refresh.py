"""Bringing daemon pods into service: readiness conditions, and updates in place under way.

DaemonSetWorkingSet ──▶ plan_refresh() ──▶ Phase

Pure. Runs in every plan, also while paused and under OnDelete: what waits for a condition waits for this.
Daemon pods have no lifecycle states but PreparingDelete, so conditions are all there is to write.
"""

from collections.abc import Collection, Iterator

import msgspec

from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.plans.in_place import InPlaceProgress
from pykruise.plans.lifecycle_refresh import because_of, due_conditions, refresh_phase, service_step
from pykruise.plans.phases import PlanPhase
from pykruise.pods.lifecycle.blockers import resize_blocker
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason


def plan_refresh(ws: DaemonSetWorkingSet, *, except_for: Collection[str]) -> PlanPhase:
    """The writes for each pod that is not as far as it could be; `except_for` are pods written to anyway."""

    def steps(pod: PodView, progress: InPlaceProgress) -> tuple[Step, ...]:
        conditions = due_conditions(pod, progress, now=ws.now)
        return service_step(pod, progress, conditions=conditions, because=because_of(conditions))

    pods = (
        pod
        for pod in ws.open_pods
        if (pod.may_be_updating or pod.open_gates) and pod.is_active and pod.name not in except_for
    )
    phase = refresh_phase(pods, steps_of=steps, now=ws.now, settings=ws.settings.in_place)
    phase = msgspec.structs.replace(phase, skipped={**dict(_infeasible(ws)), **phase.skipped})
    if phase.failure is None:
        return phase
    code, message = phase.failure.code, phase.failure.message
    note = Note(reason=code, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return msgspec.structs.replace(phase, notes=(note,))


def _infeasible(ws: DaemonSetWorkingSet) -> Iterator[tuple[str, Reason]]:
    """Pods that wait for resources which their node can never give them."""
    for pod in ws.open_pods if ws.infeasible else ():
        if pod.uid in ws.infeasible and (blocker := resize_blocker(pod)) is not None:
            yield pod.name, blocker
