"""Deletions of a CloneSet's pods: which of the chosen pods can be deleted now.

chosen pods + budget ──▶ delete_within_budget() ──▶ decisions, or the reason why a pod waits

Pure. Specified deletion, scale-in and recreation use the same rule: the deletion of a serving pod uses one unit of the
budget, and a pod is deleted only after its preDelete hook has released it.
"""

from collections.abc import Iterable

import msgspec

from pykruise.kinds.cloneset.limits import NONE_MAY_GO, allows_none
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.phases import MOST_AT_ONCE, ChangePod, DeletePod, decide_deletion
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason


class Deletions(msgspec.Struct):
    """Decisions to delete pods. Only the deletion of a serving pod uses the budget."""

    ready_budget: int
    decisions: list[DeletePod | ChangePod]
    skipped: dict[str, Reason]
    is_partial: bool = False


def delete_within_budget(
    ws: CloneSetWorkingSet, pods: Iterable[PodView], *, ready_budget: int, why: str
) -> Deletions:
    """Decide for each pod, in this order, whether it is deleted now or why it waits."""
    result = Deletions(ready_budget=ready_budget, decisions=[], skipped={})
    for pod in pods:
        if len(result.decisions) == MOST_AT_ONCE:
            result.is_partial = True
            result.skipped[pod.name] = Reason(Code.TURN, f"{why}; other pods are deleted first")
            continue
        if pod.is_serving and result.ready_budget <= 0:
            used_up = Reason(Code.BUDGET, f"{why}, but maxUnavailable is used up")
            result.skipped[pod.name] = NONE_MAY_GO if allows_none(ws.limits) else used_up
            continue
        result.ready_budget -= pod.is_serving
        because = (
            f"{why}; maxUnavailable allows the deletion"
            if pod.is_serving
            else f"{why}; the pod does not serve"
        )
        decision = decide_deletion(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=because)
        match decision:
            case Reason():
                result.skipped[pod.name] = decision
            case DeletePod():
                result.decisions.append(ws.claims.with_claims(decision))
            case _:
                result.decisions.append(decision)
    return result
