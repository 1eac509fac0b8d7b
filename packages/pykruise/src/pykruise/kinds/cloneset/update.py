"""Which pods go to another revision now, and how.

CloneSetWorkingSet ──▶ plan_update() ──▶ Phase

Pure. The partition says how many pods are updated, the orders say which, maxUnavailable says how many at
once. The policy says how: in place where that can be (in_place.py), else by recreating the pod. That is done
by specifying it for deletion: the scale phase then replaces it under all its rules. When that phase would
delete it at once anyway, it is deleted here, which saves a write per pod.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.in_place import CloneSetDifferences, begin
from pykruise.kinds.cloneset.limits import NONE_MAY_GO, Numbers, allows_none
from pykruise.kinds.cloneset.scale import part
from pykruise.kinds.cloneset.status import FAILED_UPDATE
from pykruise.kinds.cloneset.types import CloneSetStatus
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet, numbers_if_deleted
from pykruise.kube.resources import PODS
from pykruise.plans.failed_resizes import overdue_refusals, refused_since
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
"""When a PodUnavailableBudget refused."""


SURPLUS_OF_SURGE: Final = Reason(
    Code.TURN, "is deleted once a pod of the newest revision is available in its place (maxSurge)"
)
"""Old pods beyond replicas, which no partition keeps."""


def _kept(ws: CloneSetWorkingSet) -> Reason:
    """Why pods that are not to be updated stay: where no partition is set, surge has made them surplus."""
    return KEPT_BY_PARTITION if ws.limits.partition else SURPLUS_OF_SURGE


def plan_update(ws: CloneSetWorkingSet) -> tuple[PlanPhase, Collection[str]]:
    """The update phase, and the names of all pods whose update is to come: now, or when it is their turn.

    Only asked when the scale phase changes nothing.
    """
    numbers = ws.update_numbers
    if held := _held(ws, numbers):
        return PlanPhase(skipped={pod.name: held for pod in ws.old}), ()
    target = ws.update if numbers.update > 0 else ws.current
    ordered = _ordered(ws, _candidates(ws, back=numbers.update < 0))
    differences = CloneSetDifferences(ws, target) if ws.spec.is_in_place else None
    refused = differences.refusals(ordered) if differences else {}
    if refused:  # pods that cannot be updated do not count against maxUnavailable
        ordered = sorted(ordered, key=lambda pod: pod.name in refused)
    wanted, kept = ordered[: abs(numbers.update)], ordered[abs(numbers.update) :]
    able = [pod for pod in wanted if pod.name not in refused] if refused else wanted
    now, refusal, spends = _allowed(ws, _within_budget(ws, able, numbers, target))
    used_up = NONE_MAY_GO if allows_none(ws.limits) else MAX_UNAVAILABLE_USED_UP
    stuck = {pod.name: refused[pod.name] for pod in wanted if pod.name in refused} if refused else {}
    skipped = {
        **{pod.name: _kept(ws) for pod in kept},
        **_skip(able[len(now) :], refusal or used_up),
        **stuck,
    }
    phase = _update(ws, now, target, differences)
    phase = msgspec.structs.replace(
        phase,
        stages=(*_spend(ws, spends, phase.touched), *phase.stages),
        skipped={**skipped, **phase.skipped},
        failure=summary_of(stuck, Code.CANNOT_UPDATE),
        look_at=ws.now + ASK_AGAIN_S if refusal else None,
    )
    return phase, {pod.name for pod in wanted}


def _held(ws: CloneSetWorkingSet, numbers: Numbers) -> Reason | None:
    """Why no pod is updated at all."""
    if ws.spec.is_on_delete:
        return ON_DELETE
    if ws.spec.is_paused:
        return PAUSED
    return None if numbers.update else _kept(ws)


def _update(
    ws: CloneSetWorkingSet,
    pods: Sequence[PodView],
    target: RevisionView,
    differences: CloneSetDifferences | None,
) -> PlanPhase:
    """Updates pods in place where possible, and recreates the others."""
    reasons = differences.obstacles(pods) if differences else {pod.name: "" for pod in pods}
    if differences and (refused := _refused_resize(ws, pods, differences, reasons)):
        reasons = {**reasons, **refused}
    able = [pod for pod in pods if pod.name not in reasons] if reasons else pods
    in_place = begin(ws, able, target, differences) if differences else PlanPhase()
    recreated = _recreate(ws, [pod for pod in pods if pod.name in reasons], target, reasons)
    chains = [chain for phase in (in_place, recreated) for stage in phase.stages for chain in stage.chains]
    return PlanPhase(
        stages=stage_of(Purpose.UPDATE_PODS, chains),
        skipped={**in_place.skipped, **recreated.skipped},
        is_partial=in_place.is_partial or recreated.is_partial,
    )


def _refused_resize(
    ws: CloneSetWorkingSet,
    pods: Sequence[PodView],
    differences: CloneSetDifferences,
    reasons: Mapping[str, str],
) -> dict[str, str]:
    """See `overdue_refusals`."""
    if ws.spec.policy != PodUpdatePolicy.IN_PLACE_IF_POSSIBLE:
        return {}
    stored = msgspec.convert(ws.snapshot.cloneset.stored_status, CloneSetStatus)
    return overdue_refusals(
        (pod for pod in pods if pod.name not in reasons),
        differences.of,
        refused_since=refused_since(stored.conditions, FAILED_UPDATE),
        settings=ws.settings.in_place,
        now=ws.now,
    )


def _skip(pods: Iterable[PodView], reason: Reason) -> dict[str, Reason]:
    """Why pods stay as they are. One that prepares is out of service meanwhile, which has to be said too."""
    preparing = LifecycleState.PREPARING_UPDATE.value
    message = f"{reason.message}; it has been chosen before, and stays out of service in {preparing}"
    aside = Reason(reason.code, message)
    return {pod.name: aside if pod.state == preparing else reason for pod in pods}


# Who


def _candidates(ws: CloneSetWorkingSet, *, back: bool) -> list[PodView]:
    """Pods that are not of the target, without those on their way out or in a grace period."""
    return [
        pod
        for pod, mark in zip(ws.pods, ws.marks, strict=True)
        if mark.is_new == back
        and not mark.is_pre_deleting
        and not (pod.is_in_grace and pod.state != LifecycleState.UPDATED)
    ]


def _ordered(ws: CloneSetWorkingSet, candidates: Sequence[PodView]) -> Sequence[PodView]:
    """Base order, then priority, then scatter; pods that already prepare go first."""
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
    """The longest beginning that keeps enough pods available, of all and of the target revision.

    One pod that is out of service already may always be updated, also when missing pods have used the budget up: that
    makes none unavailable, and only its update may bring it back (a corrected image; a pod in PreparingUpdate). Were
    it held, and creations by scaleStrategy.maxUnavailable, each would wait for the other for ever.
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
"""Name of a budget → pods that cost one of it each."""


def _allowed(
    ws: CloneSetWorkingSet, pods: Sequence[PodView]
) -> tuple[Sequence[PodView], Reason | None, Spends]:
    """The pods before the first one that its budget refuses, why it does, and what the others cost."""
    spends: Spends = {}
    if not ws.settings.asks_budgets:
        return pods, None, spends
    marked = {pod.name for pod in ws.to_delete}
    for count, pod in enumerate(pods):
        if pod.name in marked:
            continue  # asked before it was marked
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


def _spend(ws: CloneSetWorkingSet, spends: Spends, touched: Collection[str]) -> tuple[Stage, ...]:
    """One write to each budget for all pods that are begun now; it fails when another writer has spent in between."""
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
        step = Step(action=action, because=f"{len(begun)} of its pods are updated")
        chains.append(Chain(subject=f"budget {name}", steps=(step,)))
    return stage_of(Purpose.SPEND_BUDGETS, chains)


# How


def _recreate(
    ws: CloneSetWorkingSet, pods: Sequence[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> PlanPhase:
    """Delete now what the scale phase would delete next, mark the rest. Of those that are marked already, the scale
    phase says why they wait.

    `reasons`: why a pod is not updated in place, by name; only under a policy that would.
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
        for why, group in _by_reason(free, target, reasons).items():
            going = part(ws, group, ready_budget=budget, why=why)
            budget = going.ready_budget
            chains += _with_recreation_notes(going.chains, fresh, target)
    at_once = {chain.subject for chain in chains}
    chains += [
        pod_chain(pod, _mark_step(pod, target=target, because=f"{why}, once it may go"))
        for why, group in _by_reason(fresh, target, reasons).items()
        for pod in group
        if pod.name not in at_once
    ]
    turn = Reason(Code.TURN, f"{_why(target)}, after those that go first")
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
    """The events that a pod is (or could not be) replaced for an update, with the reasons and texts that
    alerts on OpenKruise's events look for. They are the same where the pod is deleted without being marked."""
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


def _with_recreation_notes(
    chains: Iterable[Chain], pods: Iterable[PodView], target: RevisionView
) -> Iterator[Chain]:
    """The same chains; the deletion of a pod says too that it is for an update."""
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


def _by_reason(
    pods: Iterable[PodView], target: RevisionView, reasons: Mapping[str, str]
) -> dict[str, list[PodView]]:
    groups: dict[str, list[PodView]] = {}
    for pod in pods:
        groups.setdefault(_why(target, reasons.get(pod.name, "")), []).append(pod)
    return groups


def _why(target: RevisionView, reason: str = "") -> str:
    return f"recreated for revision {target.name}" + (f" ({reason})" if reason else "")
