"""The plan for one WorkloadSpread: it joins all decisions.

SpreadSnapshot ──▶ plan_spread() ──▶ Plan ──▶ runtime/execute.py
             subset of each pod ▶ annotations and deletion costs ▶ the status ▶ pods that are rescheduled

Pure: the same snapshot always gives the same plan. The status is stored before anything that depends on it. A pod
that finds no node is deleted only once the stored status closes its subset: its successor must not get the same slot
again. A pod without the annotation is adopted only once the stored status counts it: otherwise admission could
allocate the same slot in the meantime.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pykruise.kinds.workloadspread.deletion_costs import compute_wanted_costs
from pykruise.kinds.workloadspread.patched_pods import find_patch_obstacles, list_unready_patched
from pykruise.kinds.workloadspread.slots import is_schedulable
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.status import ComputedSpread, compute_spread, normalize_status
from pykruise.kinds.workloadspread.subset_grouping import Adoption, Grouped, group_pods
from pykruise.kube.resources import PODS
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD, replace_target
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import find_repeated_wait
from pykruise.runtime.actions import delete_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason

LOOK_AGAIN_S: Final = 2.0
"""Seconds until the next reconcile while the latest version is unknown."""


def plan_spread(snapshot: SpreadSnapshot) -> Plan:
    """Plan all writes that are needed now, the status, and the time of the next reconcile."""
    spread = snapshot.spread
    if spread.is_deleting:
        return Plan()
    if spread.target is None or snapshot.refused:
        problem = spread.problem or "spec.targetRef: names no workload"
        return make_refused_plan(snapshot.refused or [problem])
    groups = group_pods(snapshot)
    result = compute_spread(snapshot, groups)
    marks = tuple(_mark_pods(snapshot, groups, result))
    moves = tuple(_reschedule_pods(snapshot, groups, result.timed_out))
    stages = [Stage(purpose=Purpose.MARK_PODS, chains=marks[:MOST_AT_ONCE])] if marks else []
    if moves:
        stages.append(Stage(purpose=Purpose.RESCHEDULE_PODS, chains=moves, regardless=True))
    is_written = result.status == normalize_status(spread.status)
    return Plan(
        stages=tuple(stages),
        status=None if is_written else result.status.to_document(),
        requeue_after_s=_find_requeue_s(snapshot, groups, result, is_partial=len(marks) > MOST_AT_ONCE),
        waiting=_find_waiting(snapshot, groups),
        skipped=groups.unassigned,
        notes=result.notes,
    )


def _find_waiting(snapshot: SpreadSnapshot, groups: Grouped) -> Reason | None:
    """Return the reason to wait: the workload does not exist, pods with a patch are invalid, pods find no node, or pods
    do not run because of a patch.
    """
    target = snapshot.spread.target
    if target is not None and not snapshot.is_there:
        kind, name = target[0].kind, target[1]
        remedy = replace_target(kind, name, of=f"WorkloadSpread {snapshot.spread.name}")
        return Reason(Code.NO_TARGET, f"{kind} {name} does not exist", remedy)
    if snapshot.patch_errors:
        subset, error = snapshot.patch_errors[0]
        return Reason(Code.PATCH, f"{error.field}: {error.message}", describe_patch_remedy(subset))
    obstacles = blockers_of(_list_homeless(snapshot), None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    return find_repeated_wait([*obstacles, *find_patch_obstacles(snapshot, groups)])


def _list_homeless(snapshot: SpreadSnapshot) -> Iterator[PodView]:
    return (pod for pod in snapshot.pods if pod.is_active and not pod.node_name)


def describe_patch_remedy(subset: str) -> str:
    """Return the remedy for a patch with which pods are invalid."""
    return f"correct the patch of subset {subset}: until then its pods are rejected"


def _mark_pods(snapshot: SpreadSnapshot, groups: Grouped, value: ComputedSpread) -> Iterator[Chain]:
    """Build one write for each pod that needs an annotation, another cost, or both."""
    costs = compute_wanted_costs(snapshot, groups)
    waiting = _find_uncounted(snapshot, groups, value)
    for pod in snapshot.pods:
        if pod.name in waiting:
            continue
        adoption = groups.adoptions.get(pod.name)
        cost = costs.get(pod.name)
        has_cost = cost is None or pod.annotations.get(DELETION_COST_ANNOTATION) == str(cost)
        if adoption is None and has_cost:
            continue
        yield make_pod_chain(pod, _build_mark_step(pod, adoption, None if has_cost else cost))


def _find_uncounted(snapshot: SpreadSnapshot, groups: Grouped, value: ComputedSpread) -> frozenset[str]:
    """Names of pods without the annotation that must not be adopted yet, because the stored status of their version is
    not current.
    """
    stored = normalize_status(snapshot.spread.status).versioned_subset_statuses or {}
    wanted = value.status.versioned_subset_statuses or {}
    return frozenset(
        pod.name
        for version, subsets in groups.versions.items()
        if stored.get(version) != wanted.get(version)
        for pods in subsets.values()
        for pod in pods
        if pod.name in groups.unmarked
    )


def _build_mark_step(pod: PodView, adoption: Adoption | None, cost: int | None) -> Step:
    metadata: dict[str, Any] = {}
    annotations: dict[str, Any] = dict(adoption.annotations) if adoption is not None else {}
    because: list[str] = []
    if adoption is not None:
        because.append(f"it has no annotation of the WorkloadSpread and fits subset {adoption.subset}")
        if adoption.labels:
            metadata["labels"] = dict(adoption.labels)
    if cost is not None:
        annotations[DELETION_COST_ANNOTATION] = str(cost)
        because.append(f"its deletion cost is {cost}")
    metadata["annotations"] = annotations
    return Step(
        action=pod_patch(pod, {"metadata": metadata}),
        because=", and ".join(because),
        failed=Note(
            reason="PatchPodDeletionCostFailed" if cost is not None else "AdoptPodFailed",
            message=f"failed to patch pod {pod.name}",
            warning=True,
        ),
    )


def _reschedule_pods(
    snapshot: SpreadSnapshot, groups: Grouped, timed_out: Sequence[PodView]
) -> Iterator[Chain]:
    """Delete pods whose subset is closed in the stored status of their version: admission of their successors reads
    this status.
    """
    stored = snapshot.spread.status.versioned_subset_statuses or {}
    late = {
        pod.name
        for version, subsets in groups.versions.items()
        for status in stored.get(version, ())
        if not is_schedulable(status)
        for pod in subsets.get(status.name, ())
    }
    patience = snapshot.spread.reschedule_after_s
    for pod in timed_out:
        if pod.name not in late:
            continue
        step = Step(
            # The deletion requires the resourceVersion of the snapshot, so a pod that has found a node in the meantime
            # is not deleted.
            action=delete_object(PODS, pod, unchanged=True),
            because=f"it found no node in its subset for {patience} s",
            failed=Note(
                reason="DeletePodFailed",
                message=f"failed to delete pod {pod.name}, which finds no node",
                warning=True,
            ),
        )
        yield make_pod_chain(pod, step)


def _find_requeue_s(
    snapshot: SpreadSnapshot, groups: Grouped, value: ComputedSpread, *, is_partial: bool
) -> float | None:
    if is_partial or snapshot.has_more:
        return 0.0
    times: list[float] = []
    if value.due is not None:
        times.append(value.due - snapshot.now)
    if snapshot.spread.has_deletion_costs and snapshot.latest is None and snapshot.latest_is_coming:
        times.append(LOOK_AGAIN_S)
    waiting = [*_list_homeless(snapshot), *list_unready_patched(snapshot, groups)]
    if (late_at := find_next_blocker_time(waiting, now=snapshot.now)) is not None:
        times.append(late_at - snapshot.now)
    if snapshot.polls_after is not None:
        times.append(snapshot.polls_after)
    return min(times, default=None)
