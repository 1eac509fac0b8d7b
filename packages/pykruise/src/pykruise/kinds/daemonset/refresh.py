"""Readiness conditions of daemon pods, and in-place updates in progress.

DaemonSetWorkingSet ──▶ plan_refresh() ──▶ PlanPhase

Pure. Every plan runs this phase, even while the DaemonSet is paused and under OnDelete, because pods wait for the
conditions that it writes. It writes no lifecycle state: the only state of daemon pods is PreparingDelete.
"""

from collections.abc import Collection, Iterator
from functools import partial

import msgspec

from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.plans.lifecycle_refresh import bring_into_service, refresh_phase
from pykruise.plans.phases import PlanPhase
from pykruise.pods.lifecycle.blockers import resize_blocker
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason


def plan_refresh(ws: DaemonSetWorkingSet, *, except_for: Collection[str]) -> PlanPhase:
    """Plan the writes for each pod whose conditions are out of date. `except_for`: names of pods to which another phase
    writes.
    """
    pods = (
        pod
        for pod in ws.open_pods
        if (pod.may_be_updating or pod.open_gates) and pod.is_active and pod.name not in except_for
    )
    phase = refresh_phase(
        pods,
        decide=partial(bring_into_service, now=ws.now),
        now=ws.now,
        settings=ws.settings.in_place,
    )
    phase = msgspec.structs.replace(phase, skipped={**dict(_find_infeasible(ws)), **phase.skipped})
    if phase.failure is None:
        return phase
    code, message = phase.failure.code, phase.failure.message
    note = Note(reason=code, message=message, warning=True, again_after_s=LOOK_AGAIN_S)
    return msgspec.structs.replace(phase, notes=(note,))


def _find_infeasible(ws: DaemonSetWorkingSet) -> Iterator[tuple[str, Reason]]:
    """Yield pods whose node can never provide their new resources, each with the reason."""
    for pod in ws.open_pods if ws.infeasible else ():
        if pod.uid in ws.infeasible and (blocker := resize_blocker(pod)) is not None:
            yield pod.name, blocker
