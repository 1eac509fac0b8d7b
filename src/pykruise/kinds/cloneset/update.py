"""Which pods go to another revision now, and how.

WorkingSet ──▶ plan_update() ──▶ Phase

Pure. The partition says how many pods are updated, the orders say which, maxUnavailable says how many at
once. A pod is recreated by specifying it for deletion: the scale phase then replaces it under all its rules.
When that phase would delete it at once anyway, it is deleted here, which saves a write per pod.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds.cloneset.numbers import Numbers
from pykruise.kinds.cloneset.phase import MOST_AT_ONCE, Phase, leave, mark_step, pod_chain
from pykruise.kinds.cloneset.scale import part
from pykruise.kinds.cloneset.types import PodUpdatePolicy
from pykruise.kinds.cloneset.working_set import Mark, WorkingSet
from pykruise.kube.selectors import Selector, SelectorError, selector_from
from pykruise.plans.plan import Chain, Stage
from pykruise.pods.lifecycle import LifecycleState, is_hooked
from pykruise.pods.ordering import Term, by_ordered_keys, by_weight, first, scatter, update_order
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

__all__ = ["plan_update"]


def plan_update(ws: WorkingSet) -> Phase:
    """The update phase; only asked when the scale phase changes nothing."""
    if ws.spec.is_on_delete:
        return Phase(left=leave(_old(ws), "OnDelete: it is updated when somebody deletes it"))
    if ws.spec.is_paused:
        return Phase(left=leave(_old(ws), "updates are paused"))
    numbers = ws.update_numbers()
    if numbers.update == 0:
        return Phase(left=leave(_old(ws), "the partition keeps this many pods in older revisions"))
    target = ws.update if numbers.update > 0 else ws.current
    ordered = _ordered(ws, _candidates(ws, back=numbers.update < 0))
    wanted, kept = ordered[: abs(numbers.update)], ordered[abs(numbers.update) :]
    now = _within_budget(ws, wanted, numbers, target)
    left = leave(kept, "the partition keeps this many pods in older revisions")
    left |= leave(wanted[len(now) :], "waits for its turn: maxUnavailable is used up")
    if not now:
        return Phase(left=left)
    if ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
        problem = (
            "spec.updateStrategy.rollingUpdate.podUpdatePolicy: InPlaceOnly is not supported yet, no pod was "
            "touched; with ReCreate or InPlaceIfPossible pods are recreated"
        )
        return Phase(left=left | leave(now, "InPlaceOnly is not supported yet"), failure=problem)
    return _recreate(ws, now, target, left)


def _old(ws: WorkingSet) -> list[PodView]:
    return [pod for pod, marks in zip(ws.pods, ws.marks, strict=True) if not marks & Mark.NEW]


# Who


def _candidates(ws: WorkingSet, *, back: bool) -> list[PodView]:
    """Pods that are not of the target, without those on their way out or in a grace period."""
    wanted = Mark.NEW if back else 0
    return [
        pod
        for pod, marks in zip(ws.pods, ws.marks, strict=True)
        if marks & (Mark.NEW | Mark.PRE_DELETING) == wanted
        and not (pod.is_in_grace and pod.state != LifecycleState.UPDATED)
    ]


def _ordered(ws: WorkingSet, candidates: Sequence[PodView]) -> list[PodView]:
    """Base order, then priority, then scatter; pods that already prepare go first."""
    ordered = update_order(candidates)
    block = ws.spec.rolling_update
    if block is not None and block.priority_strategy is not None:
        weights = _weights(ws)
        if block.priority_strategy.weight_priority:
            ordered = by_weight(ordered, weights)
        elif block.priority_strategy.order_priority:
            ordered = by_ordered_keys(
                ordered, [term.ordered_key for term in block.priority_strategy.order_priority]
            )
    if block is not None and block.scatter_strategy:
        ordered = scatter(ordered, ws.pods, [Term(term.key, term.value) for term in block.scatter_strategy])
    return first(ordered, lambda pod: pod.state == LifecycleState.PREPARING_UPDATE)


def _weights(ws: WorkingSet) -> list[tuple[Selector, int]]:
    """Terms that can be read; a malformed selector matches nothing (admission refuses it)."""
    block = ws.spec.rolling_update
    strategy = block.priority_strategy if block else None
    found: list[tuple[Selector, int]] = []
    for term in (strategy.weight_priority if strategy else None) or ():
        try:
            selector = selector_from(msgspec.to_builtins(term.match_selector))
        except SelectorError:
            continue
        found.append((selector, term.weight))
    return found


def _within_budget(
    ws: WorkingSet, wanted: Sequence[PodView], numbers: Numbers, target: RevisionView
) -> Sequence[PodView]:
    """The longest beginning that keeps enough pods available, of all and of the target revision."""
    unavailable = [pod for pod, marks in zip(ws.pods, ws.marks, strict=True) if not marks & Mark.AVAILABLE]
    down = len(unavailable)
    down_of_target = sum(pod.revision == target.hash for pod in unavailable)
    down_names = {pod.name for pod in unavailable}
    for count, pod in enumerate(wanted):
        if down_of_target + count >= numbers.update_budget:
            return wanted[:count]
        if pod.name not in down_names:
            if down >= numbers.update_budget:
                return wanted[:count]
            down += 1
    return wanted


# How


def _recreate(ws: WorkingSet, pods: Sequence[PodView], target: RevisionView, left: dict[str, str]) -> Phase:
    """Delete now what the scale phase would delete next, mark the rest."""
    marked = {pod.name for pod in ws.marked(Mark.TO_DELETE)}
    fresh = [pod for pod in pods if pod.name not in marked]
    later = fresh[MOST_AT_ONCE:]
    fresh = fresh[:MOST_AT_ONCE]
    why = f"recreated for revision {target.name}"
    if ws.spec.policy == PodUpdatePolicy.IN_PLACE_IF_POSSIBLE:
        why += " (updating in place is not supported yet)"
    hook = ws.spec.lifecycle.pre_delete if ws.spec.lifecycle else None
    chains: list[Chain] = []
    at_once: set[str] = set()
    numbers = ws.numbers_if_deleted({pod.name for pod in fresh})
    if numbers.create_now == 0:
        free = [pod for pod in fresh if not is_hooked(hook, pod)]
        going = part(ws, free, ready_budget=numbers.ready_budget, why=why)
        chains += going.chains
        at_once = {chain.subject for chain in going.chains}
    chains += [
        pod_chain(pod, mark_step(ws, pod, because=f"{why}, once it may go"))
        for pod in fresh
        if pod.name not in at_once
    ]
    left |= leave((pod for pod in pods if pod.name in marked), "marked to be recreated; waits for its turn")
    left |= leave(later, f"{why}, after those that go first")
    stages = (Stage(name="update pods", chains=tuple(chains)),) if chains else ()
    return Phase(stages=stages, left=left, is_partial=bool(later))
