"""Phase of evictions: deletes evicted pods whose successors are available, and successors of an outdated revision.

CloneSetWorkingSet ──▶ plan_evictions() ──▶ PlanPhase

Pure. The deletion of an evicted pod does not use maxUnavailable, because its successor already serves. Like every
deletion, it must be allowed by the pod's PodUnavailableBudget.
"""

from collections.abc import Collection
from typing import Final

from pykruise.kinds.cloneset.deletions import delete_within_budget
from pykruise.kinds.cloneset.evictions import NO_EVICTIONS
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.phases import ChangePod, DecidedStage, PlanPhase
from pykruise.plans.purposes import Purpose
from pykruise.pods.view import keys
from pykruise.pods.workload.evictions import WANTED_S

_FORGOTTEN: Final = {"annotations": {keys.EVICTION_REQUESTED_ANNOTATION: None}}


def plan_evictions(ws: CloneSetWorkingSet, *, except_for: Collection[str]) -> PlanPhase:
    """Plan the deletions, and remove the annotations of eviction requests that have expired. `except_for`: names of
    pods to which another phase writes.
    """
    evictions = ws.evictions
    if evictions is NO_EVICTIONS:
        return PlanPhase()
    stale = delete_within_budget(
        ws,
        evictions.stale,
        ready_budget=0,
        why="the evicted pod's successor does not have the revision that is wanted now",
    )
    released = delete_within_budget(
        ws,
        evictions.released,
        ready_budget=len(evictions.released),
        why="is evicted, and its successor is available",
    )
    forgotten = [
        ChangePod(
            pod=pod,
            metadata=_FORGOTTEN,
            because=f"its eviction was not requested again within {WANTED_S:g} s",
        )
        for pod in evictions.expired
        if pod.name not in except_for
    ]
    return PlanPhase(
        decided=(
            DecidedStage(purpose=Purpose.REFRESH_PODS, decisions=forgotten),
            DecidedStage(purpose=Purpose.DELETE_PODS, decisions=[*stale.decisions, *released.decisions]),
        ),
        skipped={**evictions.explain_waits(), **stale.skipped, **released.skipped},
        look_at=evictions.look_at,
        is_partial=stale.is_partial or released.is_partial,
    )
