"""Order in which the pods of a CloneSet are updated.

CloneSetWorkingSet + pods ──▶ sort_candidates() ──▶ update.py, successor_placement.py

Pure.
"""

from collections.abc import Sequence

from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.pods.lifecycle.ordering import OrderTerm, put_first, scatter, sort_by_priority, update_order
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.pod_view import PodView


def sort_candidates(ws: CloneSetWorkingSet, candidates: Sequence[PodView]) -> Sequence[PodView]:
    """Sort the pods: by the base order, then by priorityStrategy, then by scatterStrategy. Pods in PreparingUpdate are
    first.
    """
    ordered: Sequence[PodView] = update_order(candidates)
    block = ws.spec.rolling_update
    if block is not None:
        ordered = sort_by_priority(ordered, block.priority_strategy)
        terms = [OrderTerm(term.key, term.value) for term in block.scatter_strategy or ()]
        ordered = scatter(ordered, ws.pods, terms)
    preparing = LifecycleState.PREPARING_UPDATE.value
    return put_first(ordered, lambda pod: pod.state == preparing)
