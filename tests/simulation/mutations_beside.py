"""Mutations of WorkloadSpread, SidecarSet and PodUnavailableBudget; see mutations.py."""

from typing import Any

import msgspec

from pykruise.kinds.cloneset import plan as cloneset_plan
from pykruise.kinds.cloneset import working_set as cloneset_working_set
from pykruise.kinds.podunavailablebudget import snapshot as budget_snapshot
from pykruise.kinds.podunavailablebudget import status as budget_status
from pykruise.kinds.podunavailablebudget import wakes as budget_wakes
from pykruise.kinds.podunavailablebudget.kind import KIND as POD_UNAVAILABLE_BUDGET
from pykruise.kinds.podunavailablebudget.pod_steps import BudgetGuard
from pykruise.kinds.sidecarset import managed_pod as sidecar_managed
from pykruise.kinds.sidecarset import plan as sidecar_plan
from pykruise.kinds.sidecarset import upgrade_choice as sidecar_choosing
from pykruise.kinds.sidecarset.kind import KIND as SIDECAR_SET
from pykruise.kinds.workloadspread import injection as spread_injection
from pykruise.kinds.workloadspread import plan as spread_plan
from pykruise.kinds.workloadspread import status as spread_status
from pykruise.kinds.workloadspread import subset_allocator
from pykruise.kinds.workloadspread.kind import KIND as WORKLOAD_SPREAD
from pykruise.pods.workload import budgets
from pykruise.runtime import object_reader
from simulation.mutating import Change, always

__all__ = ["PODUNAVAILABLEBUDGET", "SIDECARSET", "WORKLOADSPREAD"]

replace = msgspec.structs.replace


def _without_creating(original: Any) -> Any:
    def entry(subset: Any, pods: Any, old: Any, *rest: Any) -> Any:
        return original(subset, pods, old and replace(old, creating_pods=None), *rest)

    return entry


def _without_version(_original: Any) -> Any:
    return lambda view, patch: {"metadata": {"uid": view.uid}, **patch}


def _evictions(change: Any) -> Change:
    def changed(original: Any) -> Any:
        return lambda *args, **given: change(original(*args, **given))

    return cloneset_working_set, "find_evictions", changed


def _without_waiting(original: Any) -> Any:
    def plan(ws: Any, **given: Any) -> Any:
        evictions = ws.evictions
        released = replace(evictions, released=[*evictions.released, *evictions.waiting], waiting=[])
        return original(replace(ws, evictions=released), **given)

    return plan


def _always_room(original: Any) -> Any:
    def allocate_slot(entries: Any, **given: Any) -> Any:
        return original(
            [replace(entry, missing_replicas=entry.missing_replicas or 1) for entry in entries], **given
        )

    return allocate_slot


WORKLOADSPREAD: dict[str, tuple[Change, ...]] = {
    "WorkloadSpread: full subsets accept pods": ((subset_allocator, "allocate_slot", _always_room),),
    "WorkloadSpread: places are assigned without a precondition": (
        (object_reader, "_build_conditional_patch", _without_version),
    ),
    "WorkloadSpread: the status forgets the pods that are being created": (
        (spread_status, "_build_entry", _without_creating),
    ),
    "WorkloadSpread: the status overwrites what admission wrote": (
        (WORKLOAD_SPREAD.control, "is_status_shared", lambda _original: False),
    ),
    "WorkloadSpread: pods of a subset are not bound to its nodes": (
        (spread_injection, "_add_placement", lambda _original: lambda spec, _subset: dict(spec)),
    ),
    "WorkloadSpread: the pods of the last subset have the highest deletion cost": (
        (
            spread_plan,
            "compute_wanted_costs",
            lambda original: (
                lambda snapshot, groups: {name: -cost for name, cost in original(snapshot, groups).items()}
            ),
        ),
    ),
    "WorkloadSpread: places of pods beyond the maximum are released": (
        (subset_allocator, "needs_limit", always(False)),
    ),
}


def _sidecars_unpaused(original: Any) -> Any:
    def plan_sidecarset(snapshot: Any) -> Any:
        spec = snapshot.sidecarset.spec
        if spec is None or spec.update_strategy is None:
            return original(snapshot)
        spec = replace(spec, update_strategy=replace(spec.update_strategy, paused=False))
        return original(replace(snapshot, sidecarset=replace(snapshot.sidecarset, spec=spec)))

    return plan_sidecarset


def _for_all_pods(original: Any) -> Any:
    return lambda item, pods: original(replace(item, update_selector=None), pods)


def _with_app(original: Any) -> Any:
    def upgrade_patch(managed: Any, *args: Any, **given: Any) -> Any:
        body = original(managed, *args, **given)
        app = next(container for container in managed.pod.containers if container.image.startswith("app"))
        images = [*body.get("spec", {}).get("containers", []), {"name": app.name, "image": "app:9"}]
        return {**body, "spec": {"containers": images}}

    return upgrade_patch


SIDECARSET: dict[str, tuple[Change, ...]] = {
    "SidecarSet: paused is ignored": ((SIDECAR_SET.control, "plan", _sidecars_unpaused),),
    "SidecarSet: the partition is ignored": ((sidecar_choosing, "count_kept_back", always(0)),),
    "SidecarSet: one pod more than the option says is upgraded": (
        (
            sidecar_choosing,
            "UPDATED_PODS",
            lambda original: replace(original, parse=lambda text: original.parse(text) + 1),
        ),
    ),
    "SidecarSet: one additional pod may be out of service": (
        (
            sidecar_choosing,
            "count_most_unavailable",
            lambda original: lambda value, *, of: original(value, of=of) + 1,
        ),
    ),
    "SidecarSet: a pod counts as upgraded immediately": ((sidecar_managed, "is_consistent", always(True)),),
    "SidecarSet: annotations of running pods change without the option": (
        (sidecar_managed, "rolls_on_metadata", always(True)),
    ),
    "SidecarSet: a pod with older annotations counts as upgraded": (
        (sidecar_managed, "find_outdated", always({})),
    ),
    "SidecarSet: the update selector is ignored": ((sidecar_plan, "choose", _for_all_pods),),
    "SidecarSet: the pod's own containers are also changed": ((sidecar_plan, "upgrade_patch", _with_app),),
    "SidecarSet: pods are upgraded although more than images changed": (
        (sidecar_managed, "_decide_upgradable", always("yes")),
    ),
}


def _whenever_recorded(_original: Any) -> Any:
    def lets_go_again(budget: Any, pod: Any, *, now: float) -> bool:
        return budgets.is_recorded(budget, pod)

    return lets_go_again


def _never_refused(_original: Any) -> Any:
    async def judge(*_: Any) -> Any:
        return None

    return judge


PODUNAVAILABLEBUDGET: dict[str, tuple[Change, ...]] = {
    "PodUnavailableBudget: an evicted pod is deleted before its successor serves": (
        (cloneset_plan, "plan_evictions", _without_waiting),
    ),
    "PodUnavailableBudget: all evicted pods get a successor at the same time": (
        _evictions(lambda evictions: replace(evictions, most=99 if evictions.most else 0)),
    ),
    "PodUnavailableBudget: one additional pod may be unavailable": (
        (
            budget_status,
            "compute_desired_available",
            lambda original: lambda budget, *, total: max(original(budget, total=total) - 1, 0),
        ),
    ),
    "PodUnavailableBudget: budgets are spent without a precondition": (
        (object_reader, "_build_conditional_patch", lambda _original: lambda _view, patch: patch),
    ),
    "PodUnavailableBudget: the status overwrites spent budget": (
        (POD_UNAVAILABLE_BUDGET.control, "is_status_shared", lambda _original: False),
    ),
    "PodUnavailableBudget: records expire immediately": (
        (budget_status, "DISRUPTED_S", lambda _original: -1.0),
        (budget_status, "UPDATED_S", lambda _original: -1.0),
    ),
    "PodUnavailableBudget: a record allows the deletion of its pod forever": (
        (budgets, "is_admitted_again", _whenever_recorded),
    ),
    "PodUnavailableBudget: a record expires although the pod was not read": (
        (budget_snapshot, "_is_late", always(False)),
    ),
    "PodUnavailableBudget: released pods enqueue no budget": (
        (budget_wakes, "_list_matching_facts", lambda _original: lambda pod: pod.labels),
    ),
    "PodUnavailableBudget: unavailable pods are protected": (
        (budgets, "is_counted_as_available", always(True)),
    ),
    "PodUnavailableBudget: the guard refuses nothing": ((BudgetGuard, "judge", _never_refused),),
}
