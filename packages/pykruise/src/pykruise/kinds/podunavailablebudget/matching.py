"""Assignment of a pod to a budget.

pod + budgets of its namespace + its workload ──▶ budget_of() ──▶ the oldest budget that covers the pod
pod + its ReplicaSet, if known + one budget   ──▶ may_cover() ──▶ False: the budget does not cover the pod

Pure.
"""

from collections.abc import Iterable, Mapping

from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import DEPLOYMENT, REPLICA_SET, TARGET_VIEWS, TargetView, deployment_name_of
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


def may_cover(budget: BudgetView, pod: PodView, replica_set: TargetView | None = None) -> bool:
    """Whether the budget covers the pod, as far as the pod, its ReplicaSet and the budget alone show it. If a workload
    must be read to decide, the answer is True.
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
    if kind == DEPLOYMENT and GroupKind(owner.group, owner.kind) == REPLICA_SET:
        return replica_set is None or deployment_name_of(replica_set) == name
    return (owner.group, owner.kind, owner.name) == (*kind, name)
