"""Decisions about one PodUnavailableBudget: the sequence of steps.

BudgetSnapshot ──▶ plan_budget() ──▶ Plan ──▶ runtime/execute.py
                 annotate pods that do not name their budget yet ▶ the status

Pure: the same snapshot gives the same plan.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pykruise.kinds.podunavailablebudget.snapshot import BudgetSnapshot
from pykruise.kinds.podunavailablebudget.status import (
    BudgetAmountError,
    ComputedBudget,
    compute,
    compute_desired_available,
)
from pykruise.kube.values.counts import format_count, format_first
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD, replace_target
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import NO_PROTECT_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import budget_name_of, build_related_annotations, is_exempt
from pykruise.pods.workload.waiting import find_repeated_wait
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

AGAIN_S: Final = 600.0
"""Seconds until the same event is recorded again."""


def plan_budget(snapshot: BudgetSnapshot) -> Plan:
    """Plan the writes, the status, and the time of the next reconcile."""
    budget = snapshot.budget
    if budget.is_deleting:
        return Plan()
    if budget.problem or snapshot.refused:
        # The stored status is kept: it allows nothing that was not allowed before.
        return make_refused_plan([budget.problem] if budget.problem else snapshot.refused)
    notes = [*_make_notes(snapshot)]
    chains = tuple(_make_marks(snapshot))
    stages = (Stage(purpose=Purpose.MARK_PODS, chains=chains[:MOST_AT_ONCE]),) if chains else ()
    try:
        computed = compute(snapshot)
    except BudgetAmountError as error:
        # The stored status is kept: it allows nothing that was not allowed before.
        note = Note(
            reason="CalculateExpectedPodCountFailed", message=str(error), warning=True, again_after_s=AGAIN_S
        )
        return Plan(stages=stages, notes=(*notes, note))
    return Plan(
        stages=stages,
        status=None if computed.status == budget.stored_status else computed.status,
        requeue_after_s=_compute_requeue_after(snapshot, computed, is_partial=len(chains) > MOST_AT_ONCE),
        waiting=_find_waiting_reason(snapshot),
        skipped=dict(_find_pods_of_others(snapshot)),
        notes=(*notes, *computed.notes),
    )


def _find_waiting_reason(snapshot: BudgetSnapshot) -> Reason | None:
    """Reason why pods do not serve and use up the budget, or why the budget protects nothing."""
    if snapshot.is_target_missing and snapshot.budget.target is not None:
        kind, name = snapshot.budget.target
        words = f"{kind.kind} {name} does not exist: the budget protects nothing"
        remedy = replace_target(kind.kind, name, of=f"PodUnavailableBudget {snapshot.budget.name}")
        return Reason(Code.NO_TARGET, words, remedy)
    if (reason := find_exemption(snapshot) or find_takeover(snapshot)) is not None:
        return reason
    if (reason := find_stale_total(snapshot)) is not None:
        return reason
    down = (pod for pod in snapshot.pods if not pod.is_serving)
    obstacles = blockers_of(down, None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    return find_repeated_wait(obstacles)


def find_exemption(snapshot: BudgetSnapshot) -> Reason | None:
    """Return the reason why the budget protects none of its pods: an annotation exempts them all. None if the budget
    protects some of them, or has no pods.
    """
    exempt = list_exempt(snapshot)
    if not exempt or len(exempt) < len(snapshot.pods):
        return None
    words = f"annotation {NO_PROTECT_ANNOTATION} exempts {_describe_all(len(exempt))}, so the budget protects nothing"
    return Reason(Code.PROTECTS_NOTHING, words)


def find_takeover(snapshot: BudgetSnapshot) -> Reason | None:
    """Return the reason why the budget protects none of its pods: other budgets cover and protect them all. None if the
    budget protects some of them, or has no pods.
    """
    names = count_pods_of_others(snapshot)
    if not names or names.total() < len(snapshot.pods):
        return None
    covers, applies = ("covers", "applies") if len(names) == 1 else ("cover", "apply")
    words = (
        f"{describe_budgets(names)} {covers} {_describe_all(len(snapshot.pods))} and {applies} to them, so this budget"
        " protects none of them"
    )
    return Reason(Code.PROTECTS_NOTHING, words, separate_budgets(snapshot.budget.namespace, names))


def count_pods_of_others(snapshot: BudgetSnapshot) -> Counter[str]:
    """Return the number of the budget's pods to which another budget applies, by the name of the other budget."""
    return Counter(budget_name_of(pod) for pod in snapshot.pods if _is_of_other(pod, snapshot))


def describe_budgets(names: Iterable[str]) -> str:
    """Return the kind and the first names of these budgets."""
    known = sorted(names)
    return f"PodUnavailableBudget{'s' if len(known) > 1 else ''} {format_first(known, _MOST_NAMED)}"


def separate_budgets(namespace: str, others: Iterable[str]) -> str:
    """Return the remedy for a budget if these other budgets protect some of its pods."""
    names = sorted(others)
    command = f"kubectl delete pub -n {namespace} {' '.join(names[:_MOST_NAMED])}"
    return (
        f"delete {describe_budgets(names)} ({command}): then this budget protects the pods; or delete this budget, or"
        " replace one of the budgets by a budget that covers other pods"
    )


_MOST_NAMED: Final = 5
"""Maximum number of other budgets that a message or a command names."""


def list_exempt(snapshot: BudgetSnapshot) -> Sequence[PodView]:
    """Return the pods of the budget that an annotation exempts from it."""
    return [pod for pod in snapshot.pods if is_exempt(pod.annotations)]


def _describe_all(count: int) -> str:
    return "its only pod" if count == 1 else f"all its {format_count(count, 'pod')}"


def find_stale_total(snapshot: BudgetSnapshot) -> Reason | None:
    """Return the reason if protectTotalReplicas is larger than the number of pods that the workloads want, so that the
    budget requires all these pods or more. None otherwise, and also if the budget would require as many pods without
    protectTotalReplicas.
    """
    budget, wanted = snapshot.budget, snapshot.wanted
    if budget.total is None or wanted is None or wanted >= budget.total or not snapshot.pods:
        return None
    try:
        required = compute_desired_available(budget, total=budget.total)
        enough = compute_desired_available(budget, total=wanted)
    except BudgetAmountError:
        return None
    if required < wanted or enough > wanted or enough == required:
        return None
    names = format_first([f"{kind.kind} {name}" for kind, name in snapshot.workloads], 5)
    pods = format_count(required, "pod serves", "pods serve")
    words = (
        f"spec.protectTotalReplicas is {budget.total}, but {names} should have only {format_count(wanted, 'pod')}: the"
        f" budget allows a disruption only while more than {pods}"
    )
    remedy = f"lower spec.protectTotalReplicas of PodUnavailableBudget {budget.name} to {wanted}, or remove the field"
    return Reason(Code.DISRUPTION_REFUSED, words, remedy)


REMEDY_OF_UNKNOWN: Final = "set spec.protectTotalReplicas"


def describe_unknown(snapshot: BudgetSnapshot) -> str:
    """Return the problem of workloads whose desired number of pods is unknown."""
    names = ", ".join(snapshot.unknown)
    return f"the desired number of pods of {names} is unknown, so the budget does not protect these pods"


def _make_notes(snapshot: BudgetSnapshot) -> Iterator[Note]:
    budget = snapshot.budget
    if not snapshot.pods:
        yield Note(reason="NoPods", message="No matching pods found", again_after_s=AGAIN_S)
    if snapshot.unknown and budget.total is None:
        text = f"{describe_unknown(snapshot)}: {REMEDY_OF_UNKNOWN}"
        yield Note(reason="UnknownReplicas", message=text, warning=True, again_after_s=AGAIN_S)
    doubles = dict.fromkeys(reason.message for _, reason in _find_pods_of_others(snapshot))
    if doubles:
        text = "; ".join(doubles)
        yield Note(reason="PodsOfAnotherBudget", message=text, warning=True, again_after_s=AGAIN_S)


def _make_marks(snapshot: BudgetSnapshot) -> Iterator[Chain]:
    """Build one write for each pod that names no budget, or names a budget that no longer exists or covers it."""
    name = snapshot.budget.name
    for pod in snapshot.pods:
        text = budget_name_of(pod)
        if text == name or _is_of_other(pod, snapshot):
            continue
        because = "the pod is assigned to no PodUnavailableBudget yet"
        if text:
            ended = "covers it" if text in snapshot.others else "exists"
            because = f"its PodUnavailableBudget {text} no longer {ended}"
        yield make_pod_chain(pod, _make_mark(pod, name, because))


def _is_of_other(pod: PodView, snapshot: BudgetSnapshot) -> bool:
    """Whether the pod is assigned to another budget that covers it: only the other budget decides about the pod."""
    return budget_name_of(pod) in snapshot.others and pod.name not in snapshot.released


def _make_mark(pod: PodView, name: str, because: str) -> Step:
    action = pod_patch(pod, {"metadata": {"annotations": build_related_annotations(name)}})
    return Step(action=action, because=because)


def _find_pods_of_others(snapshot: BudgetSnapshot) -> Iterator[tuple[str, Reason]]:
    """Pods to which another budget is assigned. Only the other budget decides about these pods."""
    for pod in snapshot.pods:
        if _is_of_other(pod, snapshot):
            result = budget_name_of(pod)
            text = (
                f"some pods of this budget are assigned to PodUnavailableBudget {result}: for these pods only "
                f"{result} is checked"
            )
            yield pod.name, Reason(Code.OTHER_BUDGET, text, separate_budgets(pod.namespace, [result]))


def _compute_requeue_after(
    snapshot: BudgetSnapshot, computed: ComputedBudget, *, is_partial: bool
) -> float | None:
    if is_partial:
        return 0.0
    times = [] if computed.due is None else [computed.due - snapshot.now]
    if (late_at := find_next_blocker_time(snapshot.pods, now=snapshot.now)) is not None:
        times.append(late_at - snapshot.now)
    if snapshot.polls_after_s is not None:
        times.append(snapshot.polls_after_s)
    return min(times, default=None)
