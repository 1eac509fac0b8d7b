"""Which budget a new pod is tied to.

pod + budgets of its namespace + its workload ──▶ budget_of() ──▶ the oldest that means it

Pure.
"""

from collections.abc import Iterable, Mapping

from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.budgets import BudgetView


def in_order(budgets: Iterable[BudgetView]) -> list[BudgetView]:
    """Budgets that are not being deleted: the oldest first, then by name."""
    result = [budget for budget in budgets if not budget.is_deleting]
    return sorted(result, key=lambda budget: (budget.created_at or 0.0, budget.name))


def budget_of(
    labels: Mapping[str, str],
    budgets: Iterable[BudgetView],
    *,
    owners: Iterable[tuple[GroupKind, str]],
) -> BudgetView | None:
    """The first budget that means a pod with these labels. `owners`: kind and name of its controller, and of that of
    its ReplicaSet, as far as they are known."""
    known = frozenset(owners)
    for budget in in_order(budgets):
        if budget.target in known if budget.target is not None else budget.selector.matches(labels):
            return budget
    return None
