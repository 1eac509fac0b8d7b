"""Deletions of a CloneSet's pods: how many of the chosen pods may be deleted now.

chosen pods + budget ──▶ delete_within_budget() ──▶ decisions, or the reason why a pod waits

Pure. Specified deletion, scale-in and recreation use this same rule: a serving pod costs one unit of the budget, and
the preDelete hook comes before the deletion.
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
    """Deletions in order, limited by a budget of serving pods. A pod that does not serve costs no budget."""

    ready_budget: int
    decisions: list[DeletePod | ChangePod]
    skipped: dict[str, Reason]
    is_partial: bool = False


def delete_within_budget(
    ws: CloneSetWorkingSet, pods: Iterable[PodView], *, ready_budget: int, why: str
) -> Deletions:
    """Delete pods in order within the budget."""
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
