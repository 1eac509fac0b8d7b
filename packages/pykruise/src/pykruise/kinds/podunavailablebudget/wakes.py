"""Events that enqueue budgets.

change of a budget, a pod or a workload ──▶ keys of budgets whose status it may change

Pure, except for the caches that `around` reads.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from pykruise.kinds.podunavailablebudget.snapshot import COUNTED_VIEWS, BudgetSettings
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import DEPLOYMENT, REPLICA_SET, TargetView, deployment_of
from pykruise.plans.views import BUDGET_VIEWS, POD_VIEWS
from pykruise.pods.lifecycle.blockers import has_new_obstacle
from pykruise.pods.view.pod_view import ControllerView, PodView
from pykruise.pods.workload.budgets import (
    BudgetView,
    budget_name_of,
    is_counted_as_available,
    is_exempt,
    is_recorded,
)
from pykruise.runtime.read import Around, Mirrors
from pykruise.runtime.views import BY_NAMESPACE
from pykruise.runtime.wakes import Later, Wake, wake_itself

GOING_S: Final = 5.0
"""Seconds after which the deletion of a recorded pod enqueues the budget. Until then the status keeps the pod's record.
"""

_LATER: Final = float("inf")
"""A time at which every update is complete, if it completes without further events."""


def list_wakes(settings: BudgetSettings) -> Sequence[Wake]:
    """Wakes of all caches."""
    return (
        wake_itself(BUDGET_VIEWS),
        Wake(on=BUDGET_VIEWS, keys=_find_keys_of_successors),
        Wake(on=POD_VIEWS, keys=_find_keys_of_pod),
        *(
            Wake(on=views, keys=partial(_find_keys_of_workload, kind))
            for kind, views in COUNTED_VIEWS.items()
        ),
    )


def _find_keys_of_successors(change: Change[BudgetView], around: Around[BudgetSettings]) -> Iterator[Key]:
    """Keys of the other budgets of the namespace, after a budget was deleted or covers other pods than before: they
    take over its pods.
    """
    old, new = change.old, change.new
    if old is None or (new is not None and _list_coverage_facts(old) == _list_coverage_facts(new)):
        return
    for budget in around.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, old.namespace):
        if budget.name != old.name:
            yield budget.key


def _list_coverage_facts(budget: BudgetView) -> tuple[object, ...]:
    """Facts that decide which pods a budget covers."""
    return budget.uid, budget.is_deleting, budget.selector, budget.target


def _find_keys_of_pod(change: Change[PodView], around: Around[BudgetSettings]) -> Iterator[Key | Later]:
    budgets = around.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, change.latest.namespace)
    if not budgets:
        return
    old, new = change.old, change.new
    if old is None or new is None or new.is_deleting != old.is_deleting:
        yield from _find_keys_of_arrival_or_departure(old, new, budgets, around)
    elif _list_matching_facts(old) != _list_matching_facts(new):
        yield from dict.fromkeys(
            (*_find_keys_of_budgets(old, budgets, around), *_find_keys_of_budgets(new, budgets, around))
        )
    elif (
        _is_counted(old, around) != _is_counted(new, around)
        or old.is_active != new.is_active
        or has_new_obstacle(old, new)
    ):
        yield from _find_keys_of_budgets(new, budgets, around)


def _list_matching_facts(pod: PodView) -> tuple[object, ...]:
    """Facts that decide which budgets cover a pod, and whether they protect it. They change when the pod is relabelled,
    released, adopted or exempted.
    """
    return pod.labels, pod.controller, budget_name_of(pod), is_exempt(pod.annotations)


def _find_keys_of_arrival_or_departure(
    old: PodView | None, new: PodView | None, budgets: Sequence[BudgetView], around: Around[BudgetSettings]
) -> Iterator[Key | Later]:
    if old is None:
        if new is not None:
            yield from _find_keys_of_budgets(new, budgets, around)
        return
    if old.is_deleting:
        return
    by_name = {budget.name: budget for budget in budgets}
    own = by_name.get(budget_name_of(old))
    for key in _find_keys_of_budgets(old, budgets, around):
        if own is not None and is_recorded(own, old):
            yield Later(key, GOING_S)
        else:
            yield key


def _is_counted(pod: PodView, around: Around[BudgetSettings]) -> bool:
    return is_counted_as_available(pod, now=_LATER, settings=around.settings.in_place)


def _find_keys_of_budgets(pod: PodView, budgets: Sequence[BudgetView], around: Mirrors) -> Iterator[Key]:
    """Keys of the budget that the pod names, and of the budgets that cover the pod."""
    named = budget_name_of(pod)
    for budget in budgets:
        if budget.name == named or _covers(budget, pod, around):
            yield budget.key


def _covers(budget: BudgetView, pod: PodView, around: Mirrors) -> bool:
    if budget.target is None:
        return budget.selector.matches(pod.labels)
    return pod.controller is not None and _is_owned_by(budget.target, pod.namespace, pod.controller, around)


def _is_owned_by(
    target: tuple[GroupKind, str], namespace: str, owner: ControllerView, around: Mirrors
) -> bool:
    """Whether the owner of a pod is this workload, or the workload's ReplicaSet."""
    kind, name = target
    if (owner.group, owner.kind, owner.name) == (*kind, name):
        return True
    return (
        kind == DEPLOYMENT
        and GroupKind(owner.group, owner.kind) == REPLICA_SET
        and deployment_of(namespace, owner.name, around) == name
    )


def _find_keys_of_workload(
    kind: GroupKind, change: Change[TargetView], around: Around[BudgetSettings]
) -> Iterator[Key]:
    """Keys of the budgets of a workload that was created or deleted, or that wants another number of pods."""
    old, new = change.old, change.new
    if old is not None and new is not None and _has_same_demand(old, new):
        return
    workload = change.latest
    for budget in around.list_by_index(BUDGET_VIEWS, BY_NAMESPACE, workload.namespace):
        is_target = budget.target == (kind, workload.name)
        is_selected = budget.target is None and budget.selector.matches(workload.template_labels)
        if is_target or is_selected:
            yield budget.key


def _has_same_demand(old: TargetView, new: TargetView) -> bool:
    return (old.uid, old.replicas, old.is_deleting) == (new.uid, new.replicas, new.is_deleting)
