"""Notes of a plan about budgets that a rollout violates, because a rollout does not evict pods.

Client ──read_budgets()──▶ budgets of the namespace ──list_budgets_below()──▶ one line each

Managers delete pods and update them in place. Only evictions check PodDisruptionBudgets. PodUnavailableBudgets are
checked by a webhook or, if gate PodUnavailableBudgetUpdateGate is on, by the controller of CloneSets (which the
simulation includes, see forecasting.py). So none of these budgets blocks the simulated rollout. But during the rollout,
drains wait, and a webhook may reject deletions and updates of pods.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.resources import POD_DISRUPTION_BUDGETS, Resource
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, budget_name_of


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets of a namespace."""

    disruption: Sequence[Document] = ()
    unavailable: Sequence[Document] = ()
    """PodUnavailableBudgets, without those that the manager checks itself."""


async def read_budgets(client: Client, namespace: str, *, checked_by_manager: bool) -> Budgets:
    """Read the existing budgets that the user may read. `checked_by_manager`: the manager checks
    PodUnavailableBudgets, so they are left out.
    """
    return Budgets(
        disruption=await read_disruption_budgets(client, namespace),
        unavailable=()
        if checked_by_manager
        else await _list_readable(client, POD_UNAVAILABLE_BUDGETS, namespace),
    )


async def read_disruption_budgets(client: Client, namespace: str) -> Sequence[Document]:
    """Read the PodDisruptionBudgets of a namespace; empty when the user may not read them."""
    return await _list_readable(client, POD_DISRUPTION_BUDGETS, namespace)


def describe_disruption_budget(budget: Document) -> str:
    """Describe a PodDisruptionBudget that must allow evictions in addition to another budget."""
    status: Mapping[str, int] = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    allowed = status.get("disruptionsAllowed", 0)
    counts = f"{format_count(healthy, 'of its pods is', 'of its pods are')} healthy, {desired} must be"
    name = budget["metadata"]["name"]
    return f"PodDisruptionBudget {name} must allow evictions too, and allows {allowed} now: {counts}"


def find_doubles(budgets: Sequence[Document], pods: Sequence[PodView]) -> Mapping[str, Wait]:
    """Return a wait for each of the pods that several PodDisruptionBudgets cover, by the name of the pod."""
    names: dict[str, list[str]] = {}
    for budget in sorted(budgets, key=lambda entry: str(entry["metadata"]["name"])):
        selects = make_selection(budget)
        for pod in filter(selects, pods):
            names.setdefault(pod.name, []).append(str(budget["metadata"]["name"]))
    return {pod: _make_double(pod, given) for pod, given in names.items() if len(given) > 1}


def _make_double(pod: str, budgets: Sequence[str]) -> Wait:
    return Wait(
        code=Code.EVICTION_BUDGET,
        words=f"is covered by PodDisruptionBudgets {' and '.join(budgets)}: API servers evict no pod with two budgets",
        pods=(pod,),
        remedy="cover each pod with only one PodDisruptionBudget",
    )


async def _list_readable(client: Client, resource: Resource, namespace: str) -> Sequence[Document]:
    """List the objects. Return nothing when the kind is not defined or the user may not read it: then the plan only
    lacks a note.
    """
    try:
        return [decode(raw) for raw in (await client.list(resource, namespace)).items]
    except (NotFoundError, ForbiddenError):
        return ()


def list_budgets_below(budgets: Budgets, pods: Sequence[PodView], *, lowest: int) -> Iterator[str]:
    """Yield a line for each budget that protects some of a workload's `pods` and is violated when only `lowest` pods of
    the workload are available.
    """
    for entry in budgets.disruption:
        result = _find_shortfall(
            entry, make_selection(entry), pods, lowest=lowest, wanted="desiredHealthy", now="currentHealthy"
        )
        for name, wanted, left in result:
            yield (
                f"PodDisruptionBudget {name} requires {wanted} available pods, but at times only "
                f"{format_count(left, 'remains', 'remain')}: the budget does not block controllers, but drains wait "
                "during that time"
            )
    for entry in budgets.unavailable:
        name = str(entry["metadata"]["name"])
        result = _find_shortfall(
            entry,
            lambda pod, name=name: budget_name_of(pod) == name,  # type: ignore[misc]
            pods,
            lowest=lowest,
            wanted="desiredAvailable",
            now="currentAvailable",
        )
        for name, wanted, left in result:
            yield (
                f"PodUnavailableBudget {name} requires {wanted} available pods, but at times only "
                f"{format_count(left, 'remains', 'remain')}: a webhook that checks this budget rejects "
                f"disruptions that would leave fewer than {wanted}"
            )


def _find_shortfall(
    budget: Document,
    protects: Callable[[PodView], bool],
    pods: Sequence[PodView],
    *,
    lowest: int,
    wanted: str,
    now: str,
) -> Iterator[tuple[str, int, int]]:
    """Yield the budget's name, the number of pods that it requires and the number that remains, if fewer remain than
    required.
    """
    own = [pod for pod in pods if pod.is_active and protects(pod)]
    status: Mapping[str, int] = budget.get("status") or {}
    if not own or wanted not in status:
        return
    serving = sum(pod.is_serving for pod in own)
    # The pods of other workloads remain, and at most `lowest` pods of this workload.
    left = max(status.get(now, 0) - serving, 0) + min(lowest, len(own))
    if left < status[wanted] and left < status.get(now, 0):
        yield str(budget["metadata"]["name"]), status[wanted], left


def make_selection(budget: Document) -> Callable[[PodView], bool]:
    """Return a predicate: whether a PodDisruptionBudget selects a pod of its namespace."""
    given = (budget.get("spec") or {}).get("selector")
    if given is None:
        return lambda _: False
    try:
        selector = parse_selector(given)
    except SelectorError:
        return lambda _: False
    return lambda pod: selector.matches(pod.labels)
