"""Budgets that a rollout would go below, although no eviction asks them before it: what a plan notes of them.

Client ──read_budgets()──▶ budgets of the namespace ──gone_below()──▶ one line each

Managers delete pods and change them in place; PodDisruptionBudgets are asked at evictions alone, and
PodUnavailableBudgets where a webhook or, with its gate, the CloneSet's manager asks them (that is played, see
forecasting.py). So none of these holds the rollout up here, but drains wait meanwhile, and a webhook may refuse.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.resources import POD_DISRUPTION_BUDGETS, Resource
from pykruise.kube.values.selectors import SelectorError, selector_from
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, budget_name_of


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets of a namespace."""

    disruption: Sequence[Document] = ()
    unavailable: Sequence[Document] = ()
    """Without those that the manager asks by itself."""


async def read_budgets(client: Client, namespace: str, *, are_asked: bool) -> Budgets:
    """Existing budgets that the user may read. `are_asked`: PodUnavailableBudgets are left to the manager."""
    return Budgets(
        disruption=await read_disruption_budgets(client, namespace),
        unavailable=() if are_asked else await _read(client, POD_UNAVAILABLE_BUDGETS, namespace),
    )


async def read_disruption_budgets(client: Client, namespace: str) -> Sequence[Document]:
    """PodDisruptionBudgets of a namespace, as far as they may be read."""
    return await _read(client, POD_DISRUPTION_BUDGETS, namespace)


def says_disruption_budget(budget: Document) -> str:
    """State of a PodDisruptionBudget, which evictions need as well."""
    status: Mapping[str, int] = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    allowed = status.get("disruptionsAllowed", 0)
    counts = f"{healthy} of its pods are healthy, {desired} must be"
    name = budget["metadata"]["name"]
    return f"PodDisruptionBudget {name} has to allow evictions too, and allows {allowed} now: {counts}"


async def _read(client: Client, resource: Resource, namespace: str) -> Sequence[Document]:
    """None where the kind is not defined; a note is no reason to fail for who may not read them."""
    try:
        return [decode(raw) for raw in (await client.list(resource, namespace)).items]
    except (NotFoundError, ForbiddenError):
        return ()


def gone_below(budgets: Budgets, pods: Sequence[PodView], *, lowest: int) -> Iterator[str]:
    """Each budget that protects some of a workload's `pods`, and more of them than `lowest` available ones leave."""
    for entry in budgets.disruption:
        result = _described(
            entry, selected_by(entry), pods, lowest=lowest, wanted="desiredHealthy", now="currentHealthy"
        )
        for name, wanted, left in result:
            yield (
                f"PodDisruptionBudget {name} wants {wanted} available, and {left} are left at times: "
                "managers are not held up by it, but drains wait meanwhile"
            )
    for entry in budgets.unavailable:
        name = str(entry["metadata"]["name"])
        result = _described(
            entry,
            lambda pod, name=name: budget_name_of(pod) == name,  # type: ignore[misc]
            pods,
            lowest=lowest,
            wanted="desiredAvailable",
            now="currentAvailable",
        )
        for name, wanted, left in result:
            yield (
                f"PodUnavailableBudget {name} wants {wanted} available, and {left} are left at times: "
                "a webhook that asks it refuses what goes below"
            )


def _described(
    budget: Document,
    protects: Callable[[PodView], bool],
    pods: Sequence[PodView],
    *,
    lowest: int,
    wanted: str,
    now: str,
) -> Iterator[tuple[str, int, int]]:
    """Name, how many are wanted, and how many are left, when these are fewer."""
    own = [pod for pod in pods if pod.is_active and protects(pod)]
    status: Mapping[str, int] = budget.get("status") or {}
    if not own or wanted not in status:
        return
    serving = sum(pod.is_serving for pod in own)
    # Of the pods that the workload has at its lowest no more are protected than there are.
    left = max(status.get(now, 0) - serving, 0) + min(lowest, len(own))
    if left < status[wanted] and left < status.get(now, 0):
        yield str(budget["metadata"]["name"]), status[wanted], left


def selected_by(budget: Document) -> Callable[[PodView], bool]:
    """Whether a PodDisruptionBudget is about a pod of its namespace."""
    given = (budget.get("spec") or {}).get("selector")
    if given is None:
        return lambda _: False
    try:
        selector = selector_from(given)
    except SelectorError:
        return lambda _: False
    return lambda pod: selector.matches(pod.labels)
