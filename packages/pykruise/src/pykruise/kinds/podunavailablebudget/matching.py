"""Assignment of a pod to a budget.

pod + budgets of its namespace + its workload ──▶ budget_of() ──▶ the oldest budget that covers the pod
pod + one budget                              ──▶ may_cover() ──▶ False: the budget does not cover the pod

Pure.
"""

from collections.abc import Iterable, Mapping

from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import DEPLOYMENT, REPLICA_SET, TARGET_VIEWS
from pykruise.pods.view.pod_view import PodView
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


def may_cover(budget: BudgetView, pod: PodView) -> bool:
    """Whether the budget covers the pod, as far as the pod and the budget alone show it. If the workload must be read
    to decide, the answer is True.
    """
    if budget.problem:
        return True
    if budget.target is None:
        return budget.selector.matches(pod.labels)
    kind, name = budget.target
    owner = pod.controller
    if kind not in TARGET_VIEWS:
        return True  # its scale subresource selects the pods
    if owner is None:
        return False
    is_replica_set = GroupKind(owner.group, owner.kind) == REPLICA_SET
    return (owner.group, owner.kind, owner.name) == (*kind, name) or (
        kind == DEPLOYMENT and is_replica_set and owner.name.startswith(f"{name}-")
    )
