"""Assignment of a new pod to a budget.

pod + budgets of its namespace + its workload ──▶ budget_of() ──▶ the oldest budget that covers the pod

Pure.
"""

from collections.abc import Iterable, Mapping

from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.workload.budgets import BudgetView


def sort_budgets(budgets: Iterable[BudgetView]) -> list[BudgetView]:
    """Budgets that are not being deleted: the oldest first, then by name."""
    result = [budget for budget in budgets if not budget.is_deleting]
    return sorted(result, key=lambda budget: (budget.created_at or 0.0, budget.name))


def budget_of(
    labels: Mapping[str, str],
    budgets: Iterable[BudgetView],
    *,
    owners: Iterable[tuple[GroupKind, str]],
) -> BudgetView | None:
    """The first budget that covers a pod with these labels; None: no budget does.

    `owners`: kind and name of the pod's controller and, if it is a ReplicaSet, of the ReplicaSet's controller, as far
    as they are known.
    """
    known = frozenset(owners)
    for budget in sort_budgets(budgets):
        if budget.target in known if budget.target is not None else budget.selector.matches(labels):
            return budget
    return None
