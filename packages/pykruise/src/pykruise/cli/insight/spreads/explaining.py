"""The state of a WorkloadSpread in words: where its pods are, which pods cannot be scheduled, and when these pods move
to another subset.

SpreadSight + Plan ──▶ explain_spread() ──▶ Explanation

Pure. Numbers and times come from the functions with which the manager computes the status and the plan. The pod
itself shows why it cannot be scheduled.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.explaining import find_unobserved_changes, next_of, phase_of, verdict_of
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits, wait_of
from pykruise.cli.insight.node_terms import LABEL_NODES, describe_unmatched_term, list_matching
from pykruise.cli.insight.refusing_nodes import judge_nodes
from pykruise.cli.insight.spreads.look import SpreadSight
from pykruise.cli.insight.spreads.refused_patches import explain_refused
from pykruise.cli.insight.webhooks import list_fresh_warnings, make_unreviewed_wait
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.patch_validation import find_errors_by_subset
from pykruise.kinds.workloadspread.patched_pods import correction_of_patch, find_patch_obstacles
from pykruise.kinds.workloadspread.plan import describe_patch_remedy, plan_spread
from pykruise.kinds.workloadspread.slots import is_schedulable
from pykruise.kinds.workloadspread.status import (
    CREATION_S,
    DELETION_S,
    WINDOW_S,
    compute_spread,
    find_closing_time,
    find_move_time,
)
from pykruise.kinds.workloadspread.subset_grouping import Grouped, group_pods
from pykruise.kinds.workloadspread.types import Subset, SubsetStatus, WorkloadSpreadStatus
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.durations import format_short_duration
from pykruise.kube.values.selectors import describe_labels
from pykruise.pods.corrections import KEEPS_OLD_ONE, OF_THE_WORKLOAD, Correction
from pykruise.pods.reasons import ONE_AT_A_TIME, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Plan

_NOT_CREATED: Final = "CreatePodFailed"
_WARNINGS: Final = {
    _NOT_CREATED: "find out why the workload does not create the pod: a quota, or another webhook",
    "DeletePodFailed": "find out what keeps the pod: a budget, or another webhook",
    "PatchPodDeletionCostFailed": "find out what rejects the write; the manager retries",
    "AdoptPodFailed": "find out what rejects the write; the manager retries",
}
"""Reasons of events, with the remedy."""


def explain_spread(sight: SpreadSight) -> Explanation:
    """Explanation of the WorkloadSpread."""
    snapshot = sight.snapshot
    plan = Plan() if sight.problem else plan_spread(snapshot)
    groups = group_pods(snapshot)
    status = compute_spread(snapshot, groups).status
    waits = rank_waits(_find_waits(sight, plan, groups, status))
    due = tuple(_describe_due_changes(sight, groups, status))
    return Explanation(
        kind=str(sight.document["kind"]),
        namespace=sight.view.namespace,
        name=sight.view.name,
        verdict=verdict_of(waits, plan, sight.document),
        phase=phase_of(sight.document, waits),
        headline=_describe_state(sight, status),
        done=tuple(_describe_finished(sight, status)),
        waits=waits,
        next=due if due and not plan.stages else (*due, *next_of(plan, waits)),
    )


def _describe_state(sight: SpreadSight, status: WorkloadSpreadStatus) -> str:
    target = sight.view.target
    if target is None:
        return "spec.targetRef names no workload"
    if sight.problem:
        return f"the number of replicas of {target[0].kind} {target[1]} is unknown"
    if not sight.snapshot.is_there:
        return f"{target[0].kind} {target[1]} does not exist; {status.spread}"
    pods = format_count(sight.snapshot.replicas, "pod")
    return f"{target[0].kind} {target[1]} wants {pods}; {status.spread or 'no subsets'}"


def _describe_finished(sight: SpreadSight, status: WorkloadSpreadStatus) -> Iterator[str]:
    for entry, limit in () if sight.problem else list_limited(sight, status):
        room = "takes any number" if limit == ANY_NUMBER else f"takes {limit}"
        closed = "" if is_schedulable(entry) else ", skipped now"
        yield f"subset {entry.name} has {format_count(entry.replicas, 'pod')}, and {room}{closed}"


def list_limited(sight: SpreadSight, status: WorkloadSpreadStatus) -> Iterator[tuple[SubsetStatus, int]]:
    """Yield each subset with its limit as a number; a subset whose limit is not a valid number is left out."""
    for subset, entry in zip(sight.view.subsets, status.subset_statuses or (), strict=True):
        with suppress(LimitError):
            yield entry, limit_of(subset, replicas=sight.snapshot.replicas)


# ── waits ────────────────────────────────────────────────────────────────────


def _find_waits(
    sight: SpreadSight, plan: Plan, groups: Grouped, status: WorkloadSpreadStatus
) -> Iterator[Wait]:
    meta = sight.document["metadata"]
    if "deletionTimestamp" in meta:
        words = "it is being deleted; pods stay where they are"
        yield Wait(code=Code.TERMINATING_OBJECT, words=words, since=meta["deletionTimestamp"])
        return
    if not sight.problem:
        yield from find_unobserved_changes(sight.document)
    problems = [sight.problem] if sight.problem else []
    problems += [
        note.message for note in plan.notes if note.reason in (Code.INVALID_SPEC, "InvalidMaxReplicas")
    ]
    for problem in problems:
        remedy = "correct what the message names; nothing changes until then"
        yield Wait(code=Code.REFUSED, words=problem, remedy=remedy)
    if sight.problem or sight.view.spec is None:
        return
    yield from _waits_of_target(sight, plan)
    yield from _waits_of_filter(sight)
    yield from _waits_of_patches(sight)
    yield from _waits_of_pods(sight, groups)
    yield from _list_pods_without_subset(sight, plan)
    refused = dict(explain_refused(sight, status))
    yield from refused.values()
    yield from _waits_of_subsets(sight, status, refused)
    has_all = 0 < sight.snapshot.replicas <= sum(pod.is_active for pod in sight.snapshot.pods)
    for warning in list_fresh_warnings(sight.events, _WARNINGS, now=sight.snapshot.now):
        if warning.reason == _NOT_CREATED and has_all:
            continue  # another pod has replaced the rejected pod
        yield Wait(code=Code.WRITE_FAILED, words=warning.message, remedy=_WARNINGS[warning.reason])


def _waits_of_filter(sight: SpreadSight) -> Iterator[Wait]:
    """Yield a wait if the filter selects no new pod of the workload, so that the WorkloadSpread has no effect."""
    selector = sight.view.selector
    labels = get_path(sight.target, "spec", "template", "metadata", "labels", default=None)
    if (
        sight.target is None
        or selector is None
        or not isinstance(labels, Mapping)
        or selector.matches(labels)
    ):
        return
    workload = f"{sight.target['kind']} {sight.target['metadata']['name']}"
    yield Wait(
        code=Code.NOTHING_SELECTED,
        words=f"spec.targetFilter.selector ({selector}) does not match the pods of {workload}, so the WorkloadSpread"
        f" has no effect on them: they have {describe_labels(selector.requirements, [labels])}",
        remedy="correct spec.targetFilter.selector; existing pods stay where they are",
    )


def _waits_of_target(sight: SpreadSight, plan: Plan) -> Iterator[Wait]:
    if plan.waiting is not None and plan.waiting.code == Code.NO_TARGET:
        yield Wait(code=plan.waiting.code, words=plan.waiting.message, remedy=plan.waiting.remedy)
    elif sight.view.target is not None and sight.snapshot.latest is None:
        words = (
            "the newest revision of the workload's pods is unknown now, so deletion costs are not written yet"
        )
        yield Wait(code=Code.OTHER, words=words)


def _waits_of_patches(sight: SpreadSight) -> Iterator[Wait]:
    """Yield patches that make pods of the present workload invalid; admission may have checked an earlier version of
    the workload.
    """
    for subset, error in find_errors_by_subset(sight.view.subsets, sight.target):
        yield Wait(
            code=Code.PATCH, words=f"{error.field}: {error.message}", remedy=describe_patch_remedy(subset)
        )


def _waits_of_pods(sight: SpreadSight, groups: Grouped) -> Iterator[Wait]:
    """Yield pods that a patch prevents from running, and pods without a node, with the cause and the next step."""
    subsets = sight.view.subsets
    broken = {pod.name for pod, _ in find_patch_obstacles(sight.snapshot, groups)}
    for number, subset in enumerate(subsets):
        for pod in groups.list_pods(subset.name):
            document = sight.pods.get(pod.name)
            if document is None:
                continue  # the pod was created or deleted between two reads
            if pod.name in broken:
                yield from _waits_of_patched(sight, pod, correction_of_patch(number, subset))
            if not pod.is_active or pod.node_name:
                continue
            cause = cause_of(document, pod, now=sight.snapshot.now, correction=OF_THE_WORKLOAD)
            if cause is None:
                continue
            wait = wait_of(cause, pod.name)
            if find_move_time(pod, sight.snapshot) is None and cause.code != Code.UNSCHEDULABLE:
                yield wait
                continue
            words, remedy = _forecast_unscheduled_pod(sight, number, subset, document)
            yield Wait(
                code=wait.code,
                words=f"{wait.words}; {words}",
                pods=wait.pods,
                since=wait.since,
                remedy=remedy or wait.remedy,
                origin="" if subset.patch else _name_spread(sight),
            )


def _waits_of_patched(sight: SpreadSight, pod: PodView, correction: Correction) -> Iterator[Wait]:
    cause = cause_of(sight.pods[pod.name], pod, now=sight.snapshot.now, correction=correction)
    if cause is not None:
        yield msgspec.structs.replace(wait_of(cause, pod.name), origin=_name_spread(sight))


def _name_spread(sight: SpreadSight) -> str:
    return f"{sight.document['kind']} {sight.view.name}"


def _forecast_unscheduled_pod(
    sight: SpreadSight, number: int, subset: Subset, pod: Document
) -> tuple[str, str]:
    """Return what happens to a pod that finds no node in this subset, and the remedy."""
    words, room = _explain_nodes(sight, number, subset, pod)
    if number == len(sight.view.subsets) - 1:
        return f"{words}{subset.name} is the last subset, whose pods always wait", room
    patience = sight.view.reschedule_after_s
    if not patience:
        return (
            f"{words}pods of subset {subset.name} are not moved to other subsets, so they wait",
            f"{room}; or set scheduleStrategy.type to Adaptive with adaptive.rescheduleCriticalSeconds",
        )
    later = (
        f"{words}the pod is deleted {patience} s after its creation, so that its workload creates a pod outside subset "
        f"{subset.name}"
    )
    return later, room if words else ""


def _explain_nodes(sight: SpreadSight, number: int, subset: Subset, pod: Document) -> tuple[str, str]:
    """Return why the nodes of the subset do not take the pod, and the remedy; no words if they only lack room."""
    words, room = "", f"make room on the nodes of subset {subset.name}"
    term = (
        None if subset.required_node_selector is None else msgspec.to_builtins(subset.required_node_selector)
    )
    if missing := describe_unmatched_term(term, sight.nodes.values()):
        words = f"no node matches requiredNodeSelector of subset {subset.name} ({missing}); "
        room = LABEL_NODES
    elif term is not None and (nodes := list_matching(term, sight.nodes.values())):
        correction = Correction(where=f"spec.subsets[{number}]", then=KEEPS_OLD_ONE)
        state = judge_nodes(nodes, pod, correction=correction)
        if state.is_mismatch:
            state = judge_nodes(nodes, pod)  # the template of the workload selects other nodes
        if not state.is_full:
            words, room = f"of the nodes of subset {subset.name}, {state.words}; ", state.remedy
    if term is not None:
        room += "; or correct requiredNodeSelector of the subset in spec.subsets"
        room += ", then delete these pods, which keep the old selector"
    return words, room


def _list_pods_without_subset(sight: SpreadSight, plan: Plan) -> Iterator[Wait]:
    """Yield pods of the workload that belong to no subset."""
    for name, reason in plan.skipped.items():
        words = f"in no subset: {reason.message}"
        yield Wait(code=reason.code, words=words, pods=(name,), remedy=reason.remedy)
    if plan.skipped and sight.are_reviewed is False:
        yield make_unreviewed_wait()


def _waits_of_subsets(
    sight: SpreadSight, status: WorkloadSpreadStatus, refused: Collection[str]
) -> Iterator[Wait]:
    """Yield skipped subsets, subsets with too many pods, and pods that arrive or leave. `refused`: subsets whose pods
    are rejected, so that none of their pods arrives.
    """
    for entry in status.subset_statuses or ():
        since = find_closing_time(entry)
        if since is not None:
            words = f"subset {entry.name} is skipped, because its pods found no node"
            remedy = (
                "make room on the nodes of the subset, or correct what keeps the pods from them (nodeSelector,"
                f" tolerations, affinity); the subset is tried again {WINDOW_S:g} s after it was closed"
            )
            yield Wait(code=Code.CLOSED, words=words, since=_find_closing_time(entry), remedy=remedy)
    for entry, limit in list_limited(sight, status):
        if limit != ANY_NUMBER and entry.replicas > limit:
            pods = format_count(entry.replicas, "pod")
            words = f"subset {entry.name} has {pods} for {format_count(limit, 'place')}: no pod is moved"
            remedy = f"delete pods of the subset {ONE_AT_A_TIME}, so that they are created elsewhere"
            if sight.view.has_deletion_costs:
                at_scale_in = "no action is needed: surplus pods are deleted first at the next scale-down"
                remedy = f"{at_scale_in}; or {remedy}"
            yield Wait(code=Code.SURPLUS, words=words, remedy=remedy)
    for entry in _list_versioned_statuses(status):
        for kind, noted in ((Code.CREATING, entry.creating_pods), (Code.LEAVING, entry.deleting_pods)):
            if noted and not (kind == Code.CREATING and entry.name in refused):
                yield _wait_of_noted(kind, entry.name, noted)


def _find_closing_time(entry: SubsetStatus) -> str:
    return next(
        (
            condition.last_transition_time
            for condition in entry.conditions or ()
            if condition.status == "False"
        ),
        "",
    )


def _wait_of_noted(code: Code, subset: str, noted: dict[str, str]) -> Wait:
    names = tuple(sorted(noted))
    if code == Code.CREATING:
        words = (
            f"admitted to subset {subset} but not in the manager's cache yet; "
            f"its slot is reserved for {CREATION_S:g} s"
        )
    else:
        words = f"leaving subset {subset}; it gets its slot back if it still exists after {DELETION_S:g} s"
    return Wait(code=code, words=words, pods=names, since=min(noted.values()))


def _list_versioned_statuses(status: WorkloadSpreadStatus) -> Iterator[SubsetStatus]:
    for entries in (status.versioned_subset_statuses or {}).values():
        yield from entries


# ── scheduled changes ────────────────────────────────────────────────────────


def _describe_due_changes(sight: SpreadSight, groups: Grouped, status: WorkloadSpreadStatus) -> Iterator[str]:
    """Yield changes that happen when time passes, the soonest first."""
    for at, what in sorted(_find_deadlines(sight, groups, status)):
        if at > sight.snapshot.now:
            yield f"in {format_short_duration(at - sight.snapshot.now)}: {what}"


def _find_deadlines(
    sight: SpreadSight, groups: Grouped, status: WorkloadSpreadStatus
) -> Iterator[tuple[Instant, str]]:
    if sight.problem:
        return
    for subset in sight.view.subsets[:-1]:
        for pod in groups.list_pods(subset.name):
            at = find_move_time(pod, sight.snapshot)
            if at is not None:
                yield at, f"{pod.name} is deleted, so that its workload creates it again in another subset"
    for entry in status.subset_statuses or ():
        since = find_closing_time(entry)
        if since is not None:
            yield since + WINDOW_S, f"subset {entry.name} is tried again"
    for entry in _list_versioned_statuses(status):
        for name, since_text in (entry.creating_pods or {}).items():
            at = parse_time(since_text) + CREATION_S
            yield at, f"the slot of {name} in subset {entry.name} is free again, unless the pod appears"
        for name, since_text in (entry.deleting_pods or {}).items():
            at = parse_time(since_text) + DELETION_S
            yield at, f"{name} has its slot in subset {entry.name} again, unless it is deleted"
