"""Selection of the pods that are updated to another revision now, and the way of their update.

CloneSetWorkingSet ──▶ plan_update() ──▶ PlanPhase

Pure. The partition limits how many pods are updated, the orders choose which ones, and maxUnavailable limits how many
at the same time. The policy decides the way: in place where possible (in_place.py), otherwise by recreating the pod.
Recreation specifies the pod for deletion, so the scale phase replaces it under all its rules. When the scale phase
would delete the pod immediately, this phase deletes it directly, which saves one write per pod.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.in_place import CloneSetDifferences, begin
from pykruise.kinds.cloneset.limits import NONE_MAY_GO, Numbers, allows_none
from pykruise.kinds.cloneset.scale import part
from pykruise.kinds.cloneset.status import resize_refused_since
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet, numbers_if_deleted
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import counted
from pykruise.plans.failed_resizes import is_resize, overdue_refusals
from pykruise.plans.in_place import summary_of
from pykruise.plans.phases import (
    MAX_UNAVAILABLE_USED_UP,
    MOST_AT_ONCE,
    ON_DELETE,
    PAUSED,
    PlanPhase,
    pod_chain,
    pod_patch,
    stage_of,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.lifecycle.ordering import OrderTerm, by_priority, first, scatter, update_order
from pykruise.pods.lifecycle.states import LifecycleState, is_hooked
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import (
    POD_UNAVAILABLE_BUDGETS,
    Operation,
    ask,
    budget_name_of,
    spend_patch,
)
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step
from pykruise.runtime.reasons import Reason

KEPT_BY_PARTITION: Final = Reason(Code.PARTITION, "the partition keeps this many pods in older revisions")

ASK_AGAIN_S: Final = 1.0
"""Seconds until the next try after a PodUnavailableBudget refused."""


SURPLUS_OF_SURGE: Final = Reason(
    Code.TURN, "is deleted once a pod of the newest revision is available in its place (maxSurge)"
)
"""Reason for old pods beyond replicas, which no partition keeps."""


def _reason_to_stay(ws: CloneSetWorkingSet) -> Reason:
    """Reason why pods that are not updated stay: without a partition, they are surplus because of the surge."""
    return KEPT_BY_PARTITION if ws.limits.partition else SURPLUS_OF_SURGE


def plan_update(ws: CloneSetWorkingSet) -> tuple[PlanPhase, Collection[str]]:
    """Plan the update phase, and return the names of all pods that are to be updated, now or when their turn comes.

    It runs only when the scale phase changes nothing.
    """
    numbers = ws.update_numbers
    if held := _reason_to_hold(ws, numbers):
        return PlanPhase(skipped={pod.name: held for pod in ws.old}), ()
    target = ws.update if numbers.update > 0 else ws.current
    ordered = _sort_candidates(ws, _select_candidates(ws, back=numbers.update < 0))
    differences = CloneSetDifferences(ws, target) if ws.spec.is_in_place else None
    refused = differences.refusals(ordered) if differences else {}
    if refused:  # pods that cannot be updated do not count against maxUnavailable
        ordered = sorted(ordered, key=lambda pod: pod.name in refused)
    wanted, kept = ordered[: abs(numbers.update)], ordered[abs(numbers.update) :]
    able = [pod for pod in wanted if pod.name not in refused] if refused else wanted
    now, refusal, spends = _select_allowed(ws, _within_budget(ws, able, numbers, target))
    used_up = NONE_MAY_GO if allows_none(ws.limits) else MAX_UNAVAILABLE_USED_UP
    stuck = {pod.name: refused[pod.name] for pod in wanted if pod.name in refused} if refused else {}
    skipped = {
        **{pod.name: _reason_to_stay(ws) for pod in kept},
        **_skip_pods(able[len(now) :], refusal or used_up),
        **stuck,
    }
    phase = _update_pods(ws, now, target, differences)
    phase = msgspec.structs.replace(
        phase,
        stages=(*_spend_budgets(ws, spends, phase.touched), *phase.stages),
        skipped={**skipped, **phase.skipped},
        failure=summary_of(stuck, Code.CANNOT_UPDATE),
        look_at=ws.now + ASK_AGAIN_S if refusal else None,
    )
    return phase, {pod.name for pod in wanted}


def _reason_to_hold(ws: CloneSetWorkingSet, numbers: Numbers) -> Reason | None:
    """Reason why no pod is updated at all; None: pods may be updated."""
    if ws.spec.is_on_delete:
        return ON_DELETE
    if ws.spec.is_paused:
        return PAUSED
    return None if numbers.update else _reason_to_stay(ws)


def _update_pods(
    ws: CloneSetWorkingSet,
    pods: Sequence[PodView],
    target: RevisionView,
    differences: CloneSetDifferences | None,
) -> PlanPhase:
    """Update pods in place where possible, and recreate the others."""
    reasons = differences.obstacles(pods) if differences else {pod.name: "" for pod in pods}
    if differences and (refused := _find_refused_resizes(ws, pods, differences, reasons)):
        reasons = {**reasons, **refused}
    able = [pod for pod in pods if pod.name not in reasons] if reasons else pods
    in_place = begin(ws, able, target, differences) if differences else PlanPhase()
    recreated = _recreate_pods(ws, [pod for pod in pods if pod.name in reasons], target, reasons)
    chains = [chain for phase in (in_place, recreated) for stage in phase.stages for chain in stage.chains]
    return PlanPhase(
        stages=stage_of(Purpose.UPDATE_PODS, chains),
        skipped={**in_place.skipped, **recreated.skipped},
        is_partial=in_place.is_partial or recreated.is_partial,
    )


def _find_refused_resizes(
    ws: CloneSetWorkingSet,
    pods: Sequence[PodView],
    differences: CloneSetDifferences,
    reasons: Mapping[str, str],
) -> dict[str, str]:
    """Find pods whose resize was refused for too long, see `overdue_refusals`."""
    if ws.spec.policy != PodUpdatePolicy.IN_PLACE_IF_POSSIBLE:
        return {}
    return overdue_refusals(
        (pod for pod in pods if pod.name not in reasons),
        differences.of,
        refused_since=resize_refused_since(ws),
        settings=ws.settings.in_place,
        now=ws.now,
    )


def _skip_pods(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Reasons why pods are not updated now. For a pod in PreparingUpdate, the reason adds that it stays out of
    service.
    """
    preparing = LifecycleState.PREPARING_UPDATE.value
    message = f"{reason.message}; it was chosen earlier, and stays out of service in {preparing}"
    aside = Reason(reason.code, message)
    return {pod.name: aside if pod.state == preparing else reason for pod in pods}


# Choice of pods


def _select_candidates(ws: CloneSetWorkingSet, *, back: bool) -> list[PodView]:
    """Pods that do not have the target revision, except pods that are being deleted or in a grace period that can
    end.
    """
    is_refused = resize_refused_since(ws) is not None
    return [
        pod
        for pod, mark in zip(ws.pods, ws.marks, strict=True)
        if (
            mark.is_new == back
            and not mark.is_pre_deleting
            and not (pod.is_in_grace and pod.state != LifecycleState.UPDATED)
        )
        or (is_refused and mark.is_new == back and _is_kept_in_grace(ws, pod))
    ]


def _is_kept_in_grace(ws: CloneSetWorkingSet, pod: PodView) -> bool:
    """Whether the pod's grace period is over, but ends with a resize, which the API server refuses."""
    if not pod.is_in_grace:
        return False
    return any(map(is_resize, ws.recall.go_on(pod, now=ws.now, settings=ws.settings.in_place).steps))


def _sort_candidates(ws: CloneSetWorkingSet, candidates: Sequence[PodView]) -> Sequence[PodView]:
    """Sort the pods: base order, then priority, then scatter. Pods in PreparingUpdate are first."""
    ordered: Sequence[PodView] = update_order(candidates)
    block = ws.spec.rolling_update
    if block is not None:
        ordered = by_priority(ordered, block.priority_strategy)
        terms = [OrderTerm(term.key, term.value) for term in block.scatter_strategy or ()]
        ordered = scatter(ordered, ws.pods, terms)
    preparing = LifecycleState.PREPARING_UPDATE.value
    return first(ordered, lambda pod: pod.state == preparing)


def _within_budget(
    ws: CloneSetWorkingSet, wanted: Sequence[PodView], numbers: Numbers, target: RevisionView
) -> Sequence[PodView]:
    """Return the longest prefix that keeps enough pods available, of all pods and of the target revision.

    One pod that is already out of service may always be updated, even when missing pods have used up the budget. Its
    update makes no pod unavailable, and only the update may bring it back (a corrected image; a pod in
    PreparingUpdate). If its update waited while scaleStrategy.maxUnavailable limits creations, each would wait for
    the other forever.
    """
    budget = numbers.update_budget
    down = len(ws.unavailable)
    if down + len(wanted) <= budget:
        return wanted
    down_of_target = sum(pod.revision == target.hash for pod in ws.unavailable)
    down_names = {pod.name for pod in ws.unavailable}
    for count, pod in enumerate(wanted):
        is_down = pod.name in down_names
        if down_of_target + count >= max(budget, int(is_down)):
            return wanted[:count]
        if not is_down:
            if down >= budget:
                return wanted[:count]
            down += 1
    return wanted


Spends = dict[str, list[PodView]]
"""Name of a budget → pods that cost one unit of the budget each."""


def _select_allowed(
    ws: CloneSetWorkingSet, pods: Sequence[PodView]
) -> tuple[Sequence[PodView], Reason | None, Spends]:
    """Return the pods before the first one that its budget refuses, the reason of the refusal, and the cost of the
    others.
    """
    spends: Spends = {}
    if not ws.settings.asks_budgets:
        return pods, None, spends
    marked = {pod.name for pod in ws.to_delete}
    for count, pod in enumerate(pods):
        if pod.name in marked:
            continue  # the budget was checked before the pod was marked
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
            return pods[:count], Reason(Code.DISRUPTION_BUDGET, message), spends
        if answer.spends:
            spends.setdefault(name, []).append(pod)
    return pods, None, spends


def _spend_budgets(ws: CloneSetWorkingSet, spends: Spends, touched: Collection[str]) -> tuple[Stage, ...]:
    """Write once to each budget for all pods whose update starts now. The write fails when another writer spent in
    between.
    """
    chains: list[Chain] = []
    for name, pods in sorted(spends.items()):
        begun = [pod for pod in pods if pod.name in touched]
        if not begun:
            continue
        budget = ws.snapshot.budgets[name]
        action = patch_object(
            POD_UNAVAILABLE_BUDGETS,
            budget,
            spend_patch(budget, {pod.name: Operation.UPDATE for pod in begun}, now=ws.now),
            subresource="status",
            unchanged=True,
        )
        step = Step(
            action=action, because=f"{counted(len(begun), 'of its pods is', 'of its pods are')} updated"
        )
        chains.append(Chain(subject=f"budget {name}", steps=(step,)))
    return stage_of(Purpose.SPEND_BUDGETS, chains)


# Recreation


def _recreate_pods(
    ws: CloneSetWorkingSet, pods: Sequence[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> PlanPhase:
    """Delete the pods that the scale phase would delete next, and mark the rest. For pods that are already marked,
    the scale phase reports why they wait.

    `reasons`: name of a pod → reason why it is not updated in place; only under a policy that prefers updates in
    place.
    """
    if not pods:
        return PlanPhase()
    marked = {pod.name for pod in ws.to_delete}
    fresh = [pod for pod in pods if pod.name not in marked]
    later = fresh[MOST_AT_ONCE:]
    fresh = fresh[:MOST_AT_ONCE]
    chains: list[Chain] = []
    numbers = numbers_if_deleted(ws, {pod.name for pod in fresh})
    if numbers.create_now == 0:
        free = [pod for pod in fresh if not is_hooked(ws.spec.hooks.pre_delete, pod)]
        budget = numbers.ready_budget
        for why, group in _group_by_reason(free, target, reasons).items():
            going = part(ws, group, ready_budget=budget, why=why)
            budget = going.ready_budget
            chains += _add_recreation_notes(going.chains, fresh, target)
    at_once = {chain.subject for chain in chains}
    chains += [
        pod_chain(pod, _mark_step(pod, target=target, because=f"{why}, as soon as it can be deleted"))
        for why, group in _group_by_reason(fresh, target, reasons).items()
        for pod in group
        if pod.name not in at_once
    ]
    turn = Reason(Code.TURN, f"{_describe_recreation(target)}; other pods are recreated first")
    skipped = {pod.name: turn for pod in later}
    stages = stage_of(Purpose.UPDATE_PODS, chains)
    return PlanPhase(stages=stages, skipped=skipped, is_partial=bool(later))


def _mark_step(pod: PodView, *, target: RevisionView, because: str) -> Step:
    """Specify the pod for deletion, so that the scale phase replaces it under all its rules."""
    done, failed = _recreation_notes(pod, target)
    return Step(
        action=pod_patch(pod, {"metadata": {"labels": {keys.SPECIFIED_DELETE_LABEL: "true"}}}),
        because=because,
        done=done,
        failed=failed,
    )


def _recreation_notes(pod: PodView, target: RevisionView) -> tuple[Note, Note]:
    """Return the events for a pod that is replaced for an update, or could not be. Their reasons and texts are those
    that alerts on OpenKruise's events search for. They are the same when the pod is deleted without being marked.
    """
    revision = f"for update(revision {target.name})"
    return (
        Note(
            reason="SuccessfulUpdatePodReCreate",
            message=f"successfully patch pod {pod.name} specified-delete {revision}",
        ),
        Note(
            reason="FailedUpdatePodReCreate",
            message=f"failed to patch pod specified-delete {pod.name} {revision}",
            warning=True,
        ),
    )


def _add_recreation_notes(
    chains: Iterable[Chain], pods: Iterable[PodView], target: RevisionView
) -> Iterator[Chain]:
    """Return the same chains, in which the deletion of a pod also records the event of its recreation."""
    named = {pod.name: pod for pod in pods}
    for chain in chains:
        notes = _recreation_notes(named[chain.subject], target)
        yield msgspec.structs.replace(
            chain,
            steps=tuple(
                msgspec.structs.replace(step, also=notes) if step.action.resource == PODS else step
                for step in chain.steps
            ),
        )


def _group_by_reason(
    pods: Iterable[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> dict[str, list[PodView]]:
    groups: dict[str, list[PodView]] = {}
    for pod in pods:
        groups.setdefault(_describe_recreation(target, reasons.get(pod.name, "")), []).append(pod)
    return groups


def _describe_recreation(target: RevisionView, reason: str = "") -> str:
    return f"recreated for revision {target.name}" + (f" ({reason})" if reason else "")
