"""Selection of the pods that are updated to another revision now, and whether they are updated in place.

CloneSetWorkingSet ──▶ plan_update() ──▶ PlanPhase

Pure. The partition limits how many pods are updated, and maxUnavailable how many at the same time. The order
(update_order.py) determines which pods are first. The policy determines how a pod is updated: in place (in_place.py) or
by recreation (recreation.py).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

import msgspec

from pykruise.kinds.cloneset.differences import differences_to
from pykruise.kinds.cloneset.in_place import begin
from pykruise.kinds.cloneset.limits import NONE_MAY_GO, Numbers, allows_none
from pykruise.kinds.cloneset.recreation import recreate
from pykruise.kinds.cloneset.status import resize_refused_since
from pykruise.kinds.cloneset.update_order import sort_candidates
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.failed_resizes import find_overdue_refusals
from pykruise.plans.in_place import Differences, summary_of
from pykruise.plans.phases import (
    MAX_UNAVAILABLE_USED_UP,
    ON_DELETE,
    PAUSED,
    DecidedStage,
    PlanPhase,
    SpendBudget,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import UpdateSpec
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import Operation, ask, budget_name_of
from pykruise.pods.workload.pod_groups import BEFORE_OTHERS, explain_hold
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

KEPT_BY_PARTITION: Final = Reason(Code.PARTITION, "the partition allows no more pods to be updated")

_UPDATABLE: Final = frozenset({"", *LifecycleState} - {LifecycleState.PREPARING_DELETE})

ASK_AGAIN_S: Final = 1.0
"""Seconds until an update is tried again after a PodUnavailableBudget rejected it."""


SURPLUS_OF_SURGE: Final = Reason(
    Code.TURN, "is deleted once a pod of the newest revision is available in its place (maxSurge)"
)
"""Reason why old pods beyond replicas are not updated, if no partition keeps them."""


def _explain_stay(ws: CloneSetWorkingSet) -> Reason:
    """Return why pods keep their revision: because of the partition, or, without a partition, because they are surplus
    pods during an update with maxSurge.
    """
    return KEPT_BY_PARTITION if ws.limits.partition else SURPLUS_OF_SURGE


class UpdateSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Pods to update to one revision, and why other pods wait."""

    target: RevisionView
    differences: Differences | None
    """Changes that update pods to the target in place; None if the policy recreates all pods."""
    wanted: Sequence[PodView]
    """All pods that are to be updated, now or when their turn comes."""
    now: Sequence[PodView]
    spends: Mapping[str, Sequence[PodView]]
    """Name of a PodUnavailableBudget → pods. The update of each pod uses one unit of the budget."""
    skipped: Mapping[str, Reason]
    failure: Reason | None
    """Reason why some pods cannot be updated at all."""
    refusal: Reason | None
    """Reason why a PodUnavailableBudget rejects an update."""


def plan_update(ws: CloneSetWorkingSet) -> tuple[PlanPhase, Collection[str]]:
    """Plan the update phase, and return the names of all pods that are to be updated, now or when their turn comes.

    The pods are updated only if the scale phase writes nothing, or if all of its writes are rejected.
    """
    numbers = ws.update_numbers
    if held := _explain_no_update(ws, numbers):
        return PlanPhase(skipped={pod.name: held for pod in ws.old}), ()
    choice = _choose_pods(ws, numbers)
    now, differences = choice.now, choice.differences
    changes, reasons = _choose_ways(ws, now, differences)
    begun, others_first, is_partial = begin(ws, changes, choice.target)
    rest = [pod for pod in now if pod.name in reasons] if differences else now
    recreated, postponed = recreate(ws, rest, choice.target, reasons)
    touched = {decision.subject for decision in (*begun, *recreated)}
    paying = ((name, [pod for pod in pods if pod.name in touched]) for name, pods in choice.spends.items())
    spending = [
        SpendBudget(budget=ws.snapshot.budgets[name], pods=pods, now=ws.now)
        for name, pods in sorted(paying, key=itemgetter(0))
        if pods
    ]
    phase = PlanPhase(
        decided=(
            DecidedStage(purpose=Purpose.SPEND_BUDGETS, decisions=spending),
            DecidedStage(
                purpose=Purpose.UPDATE_PODS,
                decisions=[*begun, *recreated],
                only_after=(Purpose.SPEND_BUDGETS,),
            ),
        ),
        skipped={**choice.skipped, **others_first, **postponed},
        failure=choice.failure,
        look_at=ws.now + ASK_AGAIN_S if choice.refusal else None,
        is_partial=is_partial or bool(postponed),
    )
    return phase, {pod.name for pod in choice.wanted}


def _choose_ways(
    ws: CloneSetWorkingSet, pods: Sequence[PodView], differences: Differences | None
) -> tuple[Sequence[tuple[PodView, UpdateSpec]], dict[str, str]]:
    """Return the pods to update in place, each with its changes, and the names of the pods to recreate, each with the
    reason. Pods of a group are all updated in place or all recreated.
    """
    if differences is None:
        return [], {}
    changes, reasons = differences.split(pods)
    may_recreate = ws.spec.policy == PodUpdatePolicy.IN_PLACE_IF_POSSIBLE
    if overdue := find_overdue_refusals(
        changes if may_recreate else (),
        refused_since=resize_refused_since(ws),
        settings=ws.settings.in_place,
        now=ws.now,
    ):
        changes = [(pod, change) for pod, change in changes if pod.name not in overdue]
        reasons |= overdue
    if ws.gang is not None and reasons:
        return [], {**dict.fromkeys((pod.name for pod in pods), BEFORE_OTHERS), **reasons}
    return changes, reasons


def _choose_pods(ws: CloneSetWorkingSet, numbers: Numbers) -> UpdateSelection:
    """Choose the pods to update now, within all limits."""
    is_back, count = numbers.update < 0, abs(numbers.update)
    target = ws.current if is_back else ws.update
    candidates = _select_candidates(ws, back=is_back)
    ordered = sort_candidates(ws, candidates)
    differences: Differences | None = None
    refused: dict[str, Reason] = {}
    if ws.spec.is_in_place:
        differences = differences_to(target, ws.snapshot, ws.recall) if is_back else ws.differences
        only = ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY
        refused = differences.find_refusals(ordered, only=only, updatable=_UPDATABLE)
    if refused:  # pods that cannot be updated are last, so that other pods are chosen first
        ordered = sorted(ordered, key=lambda pod: pod.name in refused)
    wanted, kept = ordered[:count], ordered[count:]
    able = [pod for pod in wanted if pod.name not in refused] if refused else wanted
    stuck = {pod.name: refused[pod.name] for pod in wanted if pod.name in refused} if refused else {}
    failure = summary_of(stuck, Code.CANNOT_UPDATE)
    affordable = _select_within_budget(ws, able, numbers, target)
    now, refusal, spends = _select_allowed(ws, affordable)
    if ws.gang is not None and len(now) < len(ordered):
        return _hold_group(target, differences, ordered, refused=refused, refusal=refusal)
    used_up = NONE_MAY_GO if allows_none(ws.limits) else MAX_UNAVAILABLE_USED_UP
    stay, chosen = _explain_stay(ws), {pod.name for pod in now}
    return UpdateSelection(
        target=target,
        differences=differences,
        wanted=wanted,
        now=now,
        spends=spends,
        skipped={
            **{name: why for name, why in ws.left_out.items() if name not in chosen},
            **{pod.name: stay for pod in kept},
            **_skip_pods(able[len(now) :], refusal or used_up),
            **stuck,
        },
        failure=failure,
        refusal=refusal,
    )


def _hold_group(
    target: RevisionView,
    differences: Differences | None,
    pods: Sequence[PodView],
    *,
    refused: Mapping[str, Reason],
    refusal: Reason | None,
) -> UpdateSelection:
    """Return a selection that updates no pod, because not all pods of the group can be updated now."""
    reason = explain_hold(refusal or next(iter(refused.values()), None))
    return UpdateSelection(
        target=target,
        differences=differences,
        wanted=pods,
        now=(),
        spends={},
        skipped={**_skip_pods(pods, reason), **refused},
        failure=summary_of(refused, Code.CANNOT_UPDATE),
        refusal=refusal,
    )


def _explain_no_update(ws: CloneSetWorkingSet, numbers: Numbers) -> Reason | None:
    """Return why no pod is updated at all; None if pods can be updated."""
    if ws.spec.is_on_delete:
        return ON_DELETE
    if ws.spec.is_paused:
        return PAUSED
    return None if numbers.update else _explain_stay(ws)


def _skip_pods(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Return why each of the pods is not updated now. The reason for a pod in PreparingUpdate adds that the pod is
    still out of service.
    """
    preparing = LifecycleState.PREPARING_UPDATE.value
    message = f"{reason.message}; the pod was chosen earlier, and stays out of service in {preparing}"
    aside = Reason(reason.code, message)
    return {pod.name: aside if pod.state == preparing else reason for pod in pods}


# Choice of pods


def _select_candidates(ws: CloneSetWorkingSet, *, back: bool) -> list[PodView]:
    """Return the pods without the target revision, except pods that are being deleted, that will be evicted, or whose
    grace period has not ended. A pod is included if its grace period cannot end, because its resize is rejected.
    """
    evicted = {pod.name for pod in ws.evictions.waiting}
    is_refused = resize_refused_since(ws) is not None
    return [
        pod
        for pod, mark in zip(ws.pods, ws.marks, strict=True)
        if (
            mark.is_new == back
            and not mark.is_pre_deleting
            and pod.name not in evicted
            and not (pod.is_in_grace and pod.state != LifecycleState.UPDATED)
        )
        or (is_refused and mark.is_new == back and _is_kept_in_grace(ws, pod))
    ]


def _is_kept_in_grace(ws: CloneSetWorkingSet, pod: PodView) -> bool:
    """Whether the pod's grace period is over, and its next step is a resize. Call this only while the API server
    rejects resizes: the pod then stays in its grace period.
    """
    if not pod.is_in_grace:
        return False
    decision = ws.recall.find_progress(pod, now=ws.now, settings=ws.settings.in_place).decision
    return decision is not None and decision.is_resize


def _select_within_budget(
    ws: CloneSetWorkingSet, wanted: Sequence[PodView], numbers: Numbers, target: RevisionView
) -> Sequence[PodView]:
    """Return the longest prefix of `wanted` whose update leaves enough pods available, of all revisions and of the
    target revision.

    One pod that is already unavailable can always be updated, even if missing pods have used up the budget: its update
    makes no further pod unavailable, and perhaps only the update makes it available again (a corrected image; a pod in
    PreparingUpdate). Otherwise the update could wait for missing pods forever, while scaleStrategy.maxUnavailable
    prevents their creation until the unavailable pod is updated. Pods in `left_out` never use up the budget.
    """
    budget = numbers.update_budget
    counted = [pod for pod in ws.unavailable if pod.name not in ws.left_out]
    down = len(counted)
    if down + len(wanted) <= budget:
        return wanted
    down_of_target = sum(pod.revision == target.hash for pod in counted)
    down_names = {pod.name for pod in counted}
    updated = 0
    for index, pod in enumerate(wanted):
        if pod.name in ws.left_out:
            continue
        is_down = pod.name in down_names
        if down_of_target + updated >= max(budget, int(is_down)):
            return wanted[:index]
        if not is_down:
            if down >= budget:
                return wanted[:index]
            down += 1
        updated += 1
    return wanted


def _select_allowed(
    ws: CloneSetWorkingSet, pods: Sequence[PodView]
) -> tuple[Sequence[PodView], Reason | None, Mapping[str, Sequence[PodView]]]:
    """Return the pods before the first pod whose PodUnavailableBudget rejects the update, the reason of this rejection,
    and which budgets the updates of the returned pods use.
    """
    spends: dict[str, list[PodView]] = {}
    if not ws.settings.asks_budgets:
        return pods, None, spends
    marked = {pod.name for pod in ws.to_delete}
    for count, pod in enumerate(pods):
        if pod.name in marked:
            continue  # the budget allowed the update when the pod was marked
        name = budget_name_of(pod)
        answer = ask(
            ws.snapshot.budgets.get(name),
            pod,
            Operation.UPDATE,
            spent=len(spends.get(name, ())),
            now=ws.now,
            settings=ws.settings.in_place,
        )
        if answer.refusal:
            message = f"waits for its turn: {answer.refusal}"
            return pods[:count], Reason(Code.DISRUPTION_BUDGET, message, answer.remedy), spends
        if answer.spends:
            spends.setdefault(name, []).append(pod)
    return pods, None, spends
