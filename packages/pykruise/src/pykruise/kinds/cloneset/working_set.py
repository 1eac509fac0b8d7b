"""The pods of a CloneSet. They are inspected once, for all decisions of a plan.

CloneSetSnapshot + revisions + limits ──▶ build_working_set() ──▶ CloneSetWorkingSet ──▶ phases, waiting.py, status.py

Pure. One pass computes the mark of every active pod. All later counts and choices read only the marks, so a plan for
ten thousand pods takes milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from pykruise.kinds.cloneset.claims import ClaimPlan, plan_claims
from pykruise.kinds.cloneset.differences import differences_to
from pykruise.kinds.cloneset.evictions import CloneSetEvictions, find_evictions
from pykruise.kinds.cloneset.limits import MARKS, CloneSetLimits, Mark, Numbers, numbers_of, tally_of
from pykruise.kinds.cloneset.pod_group import find_gang, is_new_group_incomplete
from pykruise.kinds.cloneset.snapshot import CloneSetSettings, CloneSetSnapshot, ReadableCloneSet
from pykruise.kinds.cloneset.surge import is_surging
from pykruise.kinds.cloneset.types import CloneSetSpec
from pykruise.kube.clock import Instant
from pykruise.plans.in_place import Differences, Recall
from pykruise.plans.nodes_out_of_service import find_pods_left_out
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.names import RevisionHash
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT, POD_REPLACEMENT_POLICY, PodReplacementPolicy
from pykruise.pods.workload.pod_groups import PodGang
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason


class CloneSetWorkingSet(msgspec.Struct, frozen=True, kw_only=True):
    """The active pods with their marks, and the limits and numbers that apply to them."""

    snapshot: ReadableCloneSet
    recall: Recall
    """Results of the last plan and of this plan about pods with updates in progress."""
    differences: Differences
    """Changes that update pods to the update revision in place."""
    spec: CloneSetSpec
    limits: CloneSetLimits
    update: RevisionView
    current: RevisionView
    all_pods: Sequence[PodView]
    """Active pods that match the selector."""
    pods: Sequence[PodView]
    """Pods of `all_pods` that count as pods of the CloneSet: all except `evictions.aside`."""
    marks: Sequence[Mark]
    """Marks of `pods`, in the same order."""
    scale_marks: Sequence[Mark]
    """Marks for the scale phase. With the gate PreparingUpdateAsUpdate, pods in PreparingUpdate count as new."""
    surges: bool
    """Whether maxSurge applies to the update."""
    counts: Mapping[Mark, int]
    """Number of pods of `all_pods` with each mark."""
    evictions: CloneSetEvictions
    evicted: Sequence[PodView]
    """Evicted pods that get a successor now."""
    scale_numbers: Numbers
    """Numbers of the scale phase."""
    update_numbers: Numbers
    """Numbers of the update phase. Only pods with the update revision count as new."""
    claims: ClaimPlan
    gang: PodGang | None
    """Groups in which new pods are started; None if the option gang-min-count is not set."""
    is_group_incomplete: bool
    """Whether old pods are kept, because not all pods of the new group are available."""
    occupying: Sequence[PodView] | None
    """Terminating pods that must end before their successors are created; None if no successor waits."""
    old: Sequence[PodView]
    """Pods without the update revision."""
    unavailable: Sequence[PodView]
    left_out: Mapping[str, Reason]
    """Names of pods on nodes out of service, each with the reason. They do not count against maxUnavailable of the
    update.
    """
    pre_deleting: Sequence[PodView]
    """Pods that wait in PreparingDelete."""
    to_delete: Sequence[PodView]
    """Pods that are specified for deletion, including those in PreparingDelete."""
    leaving: Sequence[PodView]
    """Pods that wait in PreparingDelete or are specified for deletion."""

    @property
    def settings(self) -> CloneSetSettings:
        """Feature gates and flags."""
        return self.snapshot.settings

    @property
    def now(self) -> Instant:
        """The instant of the snapshot."""
        return self.snapshot.now


def build_working_set(
    snapshot: ReadableCloneSet,
    *,
    limits: CloneSetLimits,
    update: RevisionView,
    current: RevisionView,
    pods: Sequence[PodView],
    mismatched: Sequence[PodView],
) -> CloneSetWorkingSet:
    """Build the working set. `pods`: active pods that match the selector; `mismatched`: active pods that do not
    match.
    """
    spec, settings = snapshot.cloneset.spec, snapshot.settings
    strategy = spec.scale_strategy
    marks = marks_of(
        pods,
        update=update.hash,
        to_delete=frozenset((strategy.pods_to_delete if strategy else None) or ()),
        min_ready_seconds=spec.min_ready_seconds,
        now=snapshot.now,
    )
    counts = Counter(marks)
    evictions = find_evictions(snapshot, pods=pods, marks=marks, update=update, current=current)
    all_pods, counted = pods, counts
    if aside := evictions.aside:
        kept = [(pod, mark) for pod, mark in zip(pods, marks, strict=True) if pod.name not in aside]
        pods, marks = [pod for pod, _ in kept], [mark for _, mark in kept]
        counted = Counter(marks)
    scale_marks = marks
    if settings.preparing_update_as_update:
        scale_marks = [
            mark.as_new() if pod.state == LifecycleState.PREPARING_UPDATE else mark
            for pod, mark in zip(pods, marks, strict=True)
        ]
    differences = differences_to(update, snapshot, recall := Recall(snapshot.seen))
    surges = is_surging(snapshot, limits, pods=pods, marks=marks, differences=differences)

    occupying = find_occupying(snapshot)

    def having(matches_mark: Callable[[Mark], bool]) -> Sequence[PodView]:
        chosen = {mark for mark in counted if matches_mark(mark)}
        return [pod for pod, mark in zip(pods, marks, strict=True) if mark in chosen] if chosen else ()

    unavailable = having(lambda mark: not mark.is_available)
    down = {pod.name for pod in unavailable}
    left_out = find_pods_left_out(
        snapshot.cloneset.annotations,
        pods,
        snapshot.nodes,
        is_available=lambda pod: pod.name not in down,
        is_updated=lambda pod: pod.revision == update.hash,
    )

    def numbers(counts: Mapping[Mark, int]) -> Numbers:
        return _compute_numbers(
            counts,
            snapshot,
            limits,
            update,
            current,
            surges=surges,
            occupying=occupying,
            left_out=len(left_out),
        )

    update_numbers = scale_numbers = numbers(counted)
    if scale_marks is not marks:
        scale_numbers = numbers(Counter(scale_marks))

    gang = find_gang(
        snapshot,
        limits,
        update=update,
        current=current,
        pods=pods,
        marks=marks,
        differences=differences,
        surges=surges,
    )
    evicted = evictions.choose_for_successors(surplus=scale_numbers.remove, terminating=len(occupying or ()))

    return CloneSetWorkingSet(
        snapshot=snapshot,
        recall=recall,
        differences=differences,
        surges=surges,
        spec=spec,
        limits=limits,
        update=update,
        current=current,
        all_pods=all_pods,
        pods=pods,
        marks=marks,
        scale_marks=scale_marks,
        counts=counts,
        evictions=evictions,
        evicted=evicted,
        scale_numbers=scale_numbers,
        update_numbers=update_numbers,
        claims=plan_claims(
            snapshot,
            update,
            count=min(scale_numbers.create_now + len(evicted), MOST_AT_ONCE),
            matching=all_pods,
            mismatched=mismatched,
        ),
        gang=gang,
        is_group_incomplete=gang is not None and is_new_group_incomplete(limits, marks, surges=surges),
        occupying=occupying,
        old=having(lambda mark: not mark.is_new),
        unavailable=unavailable,
        left_out=left_out,
        pre_deleting=having(lambda mark: mark.is_pre_deleting),
        to_delete=having(lambda mark: mark.is_to_delete),
        leaving=having(lambda mark: mark.is_pre_deleting or mark.is_to_delete),
    )


def compute_numbers_if_deleted(ws: CloneSetWorkingSet, names: Collection[str]) -> Numbers:
    """Compute the numbers of the scale phase as if these pods were also specified for deletion."""
    marks = (
        mark.as_specified() if pod.name in names else mark
        for pod, mark in zip(ws.pods, ws.scale_marks, strict=True)
    )
    return _compute_numbers(
        Counter(marks),
        ws.snapshot,
        ws.limits,
        ws.update,
        ws.current,
        surges=ws.surges,
        occupying=ws.occupying,
        left_out=len(ws.left_out),
    )


def find_occupying(snapshot: CloneSetSnapshot) -> Sequence[PodView] | None:
    """Find terminating pods that must end before their successors are created; None if no successor waits, because the
    option pod-replacement-policy is not Failed. As for Jobs of Kubernetes, a pod has ended if its phase is Failed or
    Succeeded.
    """
    policy = POD_REPLACEMENT_POLICY.read(snapshot.cloneset.annotations)
    if policy != PodReplacementPolicy.FAILED:
        return None
    return [pod for pod in snapshot.pods if pod.is_deleting and pod.phase not in FINISHED]


def _compute_numbers(
    counts: Mapping[Mark, int],
    snapshot: ReadableCloneSet,
    limits: CloneSetLimits,
    update: RevisionView,
    current: RevisionView,
    *,
    surges: bool,
    occupying: Sequence[PodView] | None,
    left_out: int,
) -> Numbers:
    spec, settings = snapshot.cloneset.spec, snapshot.settings
    strategy = spec.scale_strategy
    return numbers_of(
        tally_of(counts),
        limits,
        may_roll_back=settings.partition_rollback and update.hash != current.hash,
        exclude_preparing_delete=settings.exclude_preparing_delete
        or (strategy is not None and strategy.exclude_preparing_delete),
        surge_for_updates=surges,
        restarts=surges or spec.is_on_delete,
        terminating=None if occupying is None else len(occupying),
        left_out=left_out,
        is_gang=GANG_MIN_COUNT.annotation in snapshot.cloneset.annotations,
    )


def marks_of(
    pods: Sequence[PodView],
    *,
    update: RevisionHash,
    to_delete: frozenset[str],
    min_ready_seconds: int,
    now: Instant,
) -> list[Mark]:
    """Return the mark of each pod. For speed this is one comprehension without calls: every plan inspects every pod."""
    leaving = LifecycleState.PREPARING_DELETE.value
    is_at_once, ready_before = min_ready_seconds <= 0, now - min_ready_seconds
    marks = [
        MARKS[
            pod.revision == update,
            pod.state == leaving,
            pod.is_specified_delete,
            pod.is_serving
            and (is_at_once or (pod.ready_since is not None and pod.ready_since <= ready_before)),
            pod.is_ready,
        ]
        for pod in pods
    ]
    if to_delete:
        marks = [
            mark.as_specified() if pod.name in to_delete else mark
            for pod, mark in zip(pods, marks, strict=True)
        ]
    return marks
