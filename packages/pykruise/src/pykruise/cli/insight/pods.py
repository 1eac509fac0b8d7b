"""A pod in words: the budgets that protect it, whether it may be deleted now, and why it is not ready.

Client ──▶ look_at_pod() ──▶ PodSight ──▶ explain_pod() ──▶ Explanation

This module only reads. Its text about the budget is the text of `explain pub/NAME` (unavailability.py), and its
decisions are those of admission (pods/workload/budgets.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.budgets import (
    describe_disruption_budget,
    find_doubles,
    make_selection,
    read_disruption_budgets,
)
from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits, wait_of
from pykruise.cli.insight.unavailability import (
    BudgetSight,
    describe_unreviewed,
    explain_budget,
    headline_of,
    look_at,
)
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.matching import may_cover
from pykruise.kinds.podunavailablebudget.readers import LiveBudgets, find_surging_owner
from pykruise.kinds.podunavailablebudget.snapshot import BudgetSettings as BudgetSettings
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.lifecycle.blockers import is_overdue
from pykruise.pods.reasons import AT_REST, CODES, NEEDS_A_PERSON, Code
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import NO_PROTECT_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import (
    POD_UNAVAILABLE_BUDGETS,
    BudgetView,
    Operation,
    ask,
    budget_name_of,
    is_admitted_again,
    is_counted_as_available,
    is_exempt,
    list_protected_operations,
    project_budget,
)

NAMES: Final = frozenset({"po", "pod", "pods"})
"""Names of the kind Pod on the command line."""

_NOUNS: Final = {
    Operation.DELETE: "deletion",
    Operation.EVICT: "eviction",
    Operation.UPDATE: "update",
    Operation.RESIZE: "resize",
}


class PodSight(msgspec.Struct, frozen=True, kw_only=True):
    """One pod with its budgets."""

    document: Document
    view: PodView
    budget: BudgetSight | None = None
    """Budget that the pod names; None if the pod names no budget, or the budget does not exist."""
    meant_by: Sequence[str] = ()
    """Names of the budgets that cover the pod, whether or not the pod names them."""
    disruption: Sequence[Document] = ()
    """PodDisruptionBudgets that select it."""
    unhealthy: Mapping[str, Document] = {}
    """Other pods that use up the only PodDisruptionBudget of the pod, because they are not ready, by name."""
    surging: str = ""
    """Name of the CloneSet that creates a successor before the pod is evicted; empty if no CloneSet does."""
    settings: BudgetSettings = BudgetSettings()
    now: Instant


async def look_at_pod(
    client: Client, key: Key, *, now: Instant, settings: ManagerSettings | None = None
) -> PodSight:
    """Read one pod. Raises NotFoundError when it does not exist, and the error of a read that is denied."""
    raw = await client.get(PODS, key.namespace, key.name)
    view = project_pod(raw)
    named = budget_name_of(view)
    sights: dict[str, BudgetSight] = {}
    for budget in await _list_possible_budgets(client, view, named):
        sights[budget.name] = await look_at(client, budget.key, now=now, settings=settings)
    disruption = await read_disruption_budgets(client, key.namespace)
    disruption = [entry for entry in disruption if make_selection(entry)(view)]
    own: BudgetSettings = (settings or ManagerSettings()).read_kind_settings(KIND)
    return PodSight(
        document=decode(raw),
        view=view,
        budget=sights.get(named),
        meant_by=sorted(name for name, sight in sights.items() if key.name in sight.pods),
        disruption=disruption,
        unhealthy=await _read_unhealthy(client, disruption[0], view)
        if len(disruption) == 1 and not _count_allowed_disruptions(disruption[0])
        else {},
        surging=await find_surging_owner(view, LiveBudgets(lambda: client, clock=lambda: now))
        if named
        else "",
        settings=own,
        now=now,
    )


async def _read_unhealthy(client: Client, budget: Document, pod: PodView) -> Mapping[str, Document]:
    """Read the other pods that the PodDisruptionBudget selects and that are not ready."""
    selects = make_selection(budget)
    try:
        listed = await client.list(PODS, pod.namespace)
    except ForbiddenError:
        return {}
    pairs = ((project_pod(raw), raw) for raw in listed.items)
    return {
        view.name: decode(raw)
        for view, raw in pairs
        if view.is_active and not view.is_ready and view.name != pod.name and selects(view)
    }


async def _list_possible_budgets(client: Client, pod: PodView, named: str) -> list[BudgetView]:
    """Return budgets whose selector or target may match the pod, and the budget that the pod names."""
    try:
        listed = await client.list(POD_UNAVAILABLE_BUDGETS, pod.namespace)
    except NotFoundError:
        return []
    return [item for item in map(project_budget, listed.items) if item.name == named or may_cover(item, pod)]


def explain_pod(sight: PodSight) -> Explanation:
    """Explain which budget covers the pod, which pods have used the budget up, how much of it remains, which pods wait,
    and when the budget allows more. Also explain why the pod itself is not ready, or still terminates.
    """
    meta, pod = sight.document["metadata"], sight.view
    of_budget = explain_budget(sight.budget) if sight.budget is not None else None
    answers = dict(_find_answers(sight))
    others = of_budget.waits if of_budget is not None else ()
    waits = rank_waits([*_own_waits(sight), *(wait for wait in others if wait.code != Code.EVICTION_BUDGET)])
    follows = (
        *_answer_lines(answers),
        *(describe_disruption_budget(entry) for entry in sight.disruption if len(sight.disruption) == 1),
        *(of_budget.next if of_budget is not None else ()),
    )
    return Explanation(
        kind="Pod",
        namespace=meta["namespace"],
        name=meta["name"],
        verdict=_choose_verdict(pod, answers, waits),
        phase=_choose_phase(sight, answers, waits),
        headline=_describe_coverage(sight),
        done=of_budget.done if of_budget is not None else (),
        waits=waits,
        next=tuple(dict.fromkeys(follows)),  # both may describe the same PodDisruptionBudgets
    )


def _choose_verdict(pod: PodView, answers: dict[Operation, str], waits: Sequence[Wait]) -> str:
    if pod.is_deleting:
        return "terminating"
    is_held = _REFUSED in answers.values() or any(wait.code == Code.EVICTION_BUDGET for wait in waits)
    return (
        "waiting"
        if is_held or any(pod.name in wait.pods for wait in waits if wait.code not in AT_REST)
        else "done"
    )


def _choose_phase(sight: PodSight, answers: dict[Operation, str], waits: Sequence[Wait]) -> Phase:
    pod = sight.view
    own = {wait.code for wait in waits if pod.name in wait.pods}
    is_late = pod.ends_at is not None and is_overdue(pod.ends_at, now=sight.now)
    is_stuck = Code.EVICTION_BUDGET in own and any(
        wait.code in NEEDS_A_PERSON for wait in waits if not sight.unhealthy.keys().isdisjoint(wait.pods)
    )
    is_kept = is_stuck or _is_never_evicted(sight)
    needs_a_person = bool(own & NEEDS_A_PERSON) or (is_kept and not pod.is_deleting)
    if needs_a_person and (is_late or not pod.is_deleting):
        return Phase.DEGRADED
    return Phase.HEALTHY if _choose_verdict(pod, answers, waits) == "done" else Phase.PROGRESSING


def _describe_coverage(sight: PodSight) -> str:
    named = budget_name_of(sight.view)
    if sight.budget is not None and is_exempt(sight.view.annotations):
        return (
            f"annotation {NO_PROTECT_ANNOTATION} of the pod exempts it from PodUnavailableBudget {named}: no budget"
            " covers the pod"
        )
    if sight.budget is not None:
        return f"PodUnavailableBudget {named} covers the pod: {headline_of(sight.budget)}"
    if named:
        return f"the pod names PodUnavailableBudget {named}, which does not exist: no budget covers the pod"
    if sight.meant_by:
        name = sight.meant_by[0]
        return (
            f"PodUnavailableBudget {name} matches the pod, but is not assigned yet: no budget covers the pod"
        )
    return "no PodUnavailableBudget covers the pod"


def _own_waits(sight: PodSight) -> Iterator[Wait]:
    pod = sight.view
    others = [name for name in sight.meant_by if name != budget_name_of(pod)]
    if sight.budget is not None and others:
        selecting = " and ".join(others)
        words = (
            f"is also selected by PodUnavailableBudget {selecting}, but only {budget_name_of(pod)} is checked"
        )
        named = budget_name_of(pod)
        remedy = (
            f"if PodUnavailableBudget {selecting} should apply instead, delete PodUnavailableBudget {named} (kubectl"
            f" delete pub -n {pod.namespace} {named})"
        )
        yield Wait(code=Code.OTHER_BUDGET, words=words, pods=(pod.name,), remedy=remedy)
    if doubles := find_doubles(sight.disruption, [pod]):
        yield from doubles.values()
    elif sight.disruption and pod.has_ready_condition and not _count_allowed_disruptions(sight.disruption[0]):
        used_up = list(_find_unhealthy_waits(sight))
        yield _wait_for_disruption_budget(sight.disruption[0], pod, used_up)
        covered = sight.budget.pods if sight.budget is not None else {}
        yield from (
            wait for wait in used_up if wait.code in NEEDS_A_PERSON and covered.keys().isdisjoint(wait.pods)
        )
    if sight.budget is None or pod.name not in sight.budget.pods:
        # Otherwise the budget's explanation has the cause.
        cause = cause_of(sight.document, pod, now=sight.now, correction=OF_THE_WORKLOAD)
        if cause is not None:
            yield wait_of(cause, pod.name)


def _find_unhealthy_waits(sight: PodSight) -> Iterator[Wait]:
    """Yield the waits of other pods, which use up the PodDisruptionBudget because they are not ready."""
    for name, document in list(sight.unhealthy.items())[:_MOST_UNHEALTHY]:
        view = project_pod(encode(document))
        cause = cause_of(document, view, now=sight.now, correction=OF_THE_WORKLOAD)
        if cause is not None:
            yield wait_of(cause, name)


_MOST_UNHEALTHY: Final = 5
"""Maximum number of pods that use up a PodDisruptionBudget and are examined."""


def _wait_for_disruption_budget(budget: Document, pod: PodView, used_up: Sequence[Wait]) -> Wait:
    """Return the wait of a pod whose PodDisruptionBudget allows no eviction now. `used_up`: waits of the pods that use
    up the budget.
    """
    name, namespace = budget["metadata"]["name"], budget["metadata"]["namespace"]
    words = f"PodDisruptionBudget {name} allows no eviction of its pods now"
    remedy = CODES[Code.EVICTION_BUDGET].helps
    if used_up:
        names = ", ".join(name for wait in used_up for name in wait.pods)
        words += f", because pods that it covers are not ready ({names})"
    if any(wait.code in NEEDS_A_PERSON for wait in used_up):
        remedy = (
            "correct the cause of the pods that are not ready; or change the budget so that it allows more, or does not"
            f" cover them (kubectl edit pdb -n {namespace} {name})"
        )
    if _allows_none_ever(budget):
        spec = budget["spec"]
        field, change = (
            ("maxUnavailable", "raise")
            if spec.get("maxUnavailable") is not None
            else ("minAvailable", "lower")
        )
        words = (
            f"PodDisruptionBudget {name} never allows an eviction of its pods: spec.{field} is {spec.get(field)}, so"
            f" all {budget['status']['expectedPods']} must stay healthy"
        )
        remedy = (
            f"{change} spec.{field} of PodDisruptionBudget {name} (kubectl edit pdb -n {namespace} {name})"
        )
    return Wait(code=Code.EVICTION_BUDGET, words=words, pods=(pod.name,), remedy=remedy)


def _allows_none_ever(budget: Document) -> bool:
    """Whether a PodDisruptionBudget allows no eviction even while all its pods are healthy."""
    status = budget.get("status") or {}
    return 0 < int(status.get("expectedPods") or 0) <= int(status.get("desiredHealthy") or 0)


def _is_never_evicted(sight: PodSight) -> bool:
    """Whether no eviction of the pod is allowed until a person changes its PodDisruptionBudgets."""
    is_counted = sight.view.has_ready_condition
    return len(sight.disruption) > 1 or (is_counted and any(map(_allows_none_ever, sight.disruption)))


def _is_eviction_refused(sight: PodSight) -> bool:
    """Whether the PodDisruptionBudgets of the pod reject its eviction now."""
    if len(sight.disruption) > 1:
        return True
    return sight.view.has_ready_condition and any(
        not _count_allowed_disruptions(entry) for entry in sight.disruption
    )


def _count_allowed_disruptions(budget: Document) -> int:
    return int((budget.get("status") or {}).get("disruptionsAllowed") or 0)


# ── results of admission ─────────────────────────────────────────────────────

_REFUSED: Final = "would be rejected"


def _answer_lines(answers: dict[Operation, str]) -> Iterator[str]:
    """Yield one line for all operations with the same result."""
    for answer in dict.fromkeys(answers.values()):
        nouns = [_NOUNS[operation] for operation, text in answers.items() if text == answer]
        yield f"{', '.join(nouns)}: {answer}"


def _find_answers(sight: PodSight) -> Iterator[tuple[Operation, str]]:
    if sight.budget is None or sight.view.is_deleting:
        return
    for operation in Operation:
        if sight.budget.unreviewed is not None:
            yield operation, f"no budget is checked, because {describe_unreviewed(sight.budget.unreviewed)}"
            continue
        yield operation, _answer(sight, sight.budget.snapshot.budget, operation)


def _answer(sight: PodSight, budget: BudgetView, operation: Operation) -> str:
    settings, pod = sight.settings, sight.view
    is_deletion = operation in (Operation.DELETE, Operation.EVICT)
    if not (settings.guards_deletion if is_deletion else settings.guards_updates):
        gate = "PodUnavailableBudgetDeleteGate" if is_deletion else "PodUnavailableBudgetUpdateGate"
        return f"no budget is checked (feature gate {gate} is off)"
    answer = ask(
        budget,
        pod,
        operation,
        spent=0,
        now=sight.now,
        settings=settings.in_place,
        is_resize_apart=settings.is_resize_apart,
    )
    if sight.surging and operation == Operation.EVICT and (answer.refusal or answer.spends):
        creates = f"CloneSet {sight.surging} creates a successor first"
        return f"{creates}, and deletes the pod when the successor is available"
    if answer.refusal or (operation == Operation.EVICT and _is_eviction_refused(sight)):
        return _REFUSED
    if answer.spends:
        return f"would be allowed, and use up 1 of {budget.unavailable_allowed} allowed disruptions"
    return f"uses no allowed disruption, because {_explain_free_operation(sight, budget, operation)}"


def _explain_free_operation(sight: PodSight, budget: BudgetView, operation: Operation) -> str:
    settings, pod = sight.settings, sight.view
    if is_exempt(pod.annotations):
        return f"annotation {NO_PROTECT_ANNOTATION} of the pod exempts it"
    if not is_counted_as_available(pod, now=sight.now, settings=settings.in_place):
        return "the pod does not serve"
    if budget.ignored is not None and budget.ignored.matches(pod.labels):
        return "spec.ignoredPodSelector excludes the pod"
    if budget.desired_available == 0:
        return "the budget allows all its pods to be unavailable"
    if operation not in list_protected_operations(budget, is_resize_apart=settings.is_resize_apart):
        return "spec.protectOperations does not contain this operation"
    assert is_admitted_again(budget, pod, now=sight.now)
    return "the budget has already allowed a disruption of this pod"
