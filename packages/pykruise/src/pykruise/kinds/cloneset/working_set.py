"""The pods of a CloneSet, looked at once for all decisions of a plan.

Snapshot + revisions + limits ──▶ working_set() ──▶ CloneSetWorkingSet ──▶ numbers, scale.py, update.py, status.py

Pure. Every active pod gets its marks (bits) in one pass; counting and choosing then only read the marks. That
keeps a plan over ten thousand pods within milliseconds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final

import msgspec

from pykruise.kinds.cloneset.limits import CloneSetLimits, CloneSetTally, Numbers, Sort, numbers_of, tally_of
from pykruise.kinds.cloneset.snapshot import CloneSetSettings, CloneSetSnapshot
from pykruise.kinds.cloneset.types import CloneSetSpec
from pykruise.kube.clock import Instant
from pykruise.plans.in_place import Recall
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.names import InstanceId, RevisionHash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView
from pykruise.pods.workload.revisions import RevisionView


class Mark:
    """Facts about a pod, as bits."""

    NEW: Final = 1
    """The pod has the update revision."""
    PRE_DELETING: Final = 2
    """Waits in PreparingDelete."""
    TO_DELETE: Final = 4
    """Specified for deletion by its label or by podsToDelete."""
    AVAILABLE: Final = 8
    READY: Final = 16


_SORTS: Final = tuple(
    Sort(
        is_new=bool(bits & Mark.NEW),
        is_pre_deleting=bool(bits & Mark.PRE_DELETING),
        is_to_delete=bool(bits & Mark.TO_DELETE),
        is_available=bool(bits & Mark.AVAILABLE),
    )
    for bits in range(16)
)


class CloneSetWorkingSet(msgspec.Struct, frozen=True, kw_only=True):
    """The active pods with their marks, and what they are measured against."""

    snapshot: CloneSetSnapshot
    recall: Recall
    """Findings of the last plan, and of this one, about pods in updates."""
    spec: CloneSetSpec
    limits: CloneSetLimits
    update: RevisionView
    current: RevisionView
    pods: Sequence[PodView]
    """Active, and matching the selector."""
    marks: Sequence[int]
    """Bits of `Mark`, one entry for each of `pods`."""
    scale_marks: Sequence[int]
    """The same for the scale phase, in which pods in PreparingUpdate may count as new."""
    present: int = 0
    """Bits that any of `marks` has: most plans need not look for pods that are on their way out."""
    claims: Mapping[InstanceId, Sequence[ClaimView]] = {}
    """Claims by instance ID, sorted by name; claims without an ID belong to no pod and are left out."""

    @property
    def settings(self) -> CloneSetSettings:
        """Gates and flags."""
        return self.snapshot.settings

    @property
    def now(self) -> Instant:
        """The instant of the decision."""
        return self.snapshot.now

    @property
    def may_roll_back(self) -> bool:
        """Whether updated pods may go back to the current revision."""
        return self.settings.partition_rollback and self.update.hash != self.current.hash

    def label_of(self, revision: RevisionView) -> str:
        """The revision as pods name it."""
        return revision.hash if self.settings.short_hash else revision.name

    def marked(self, mark: int) -> Iterator[PodView]:
        """The pods with this mark, or any of these, in their order."""
        if not self.present & mark:
            return iter(())
        return (pod for pod, marks in zip(self.pods, self.marks, strict=True) if marks & mark)

    def marked_names(self, mark: int) -> set[str]:
        """The names of those."""
        return {pod.name for pod in self.marked(mark)}

    def scale_numbers(self) -> Numbers:
        """Numbers of the scale phase."""
        return self._numbers(tally(self.scale_marks))

    def update_numbers(self) -> Numbers:
        """Numbers of the update phase: only the exact revision counts."""
        return self._numbers(tally(self.marks))

    def numbers_if_deleted(self, names: set[str]) -> Numbers:
        """Numbers of the scale phase if these pods were specified for deletion too."""
        marks = [
            marks | Mark.TO_DELETE if pod.name in names else marks
            for pod, marks in zip(self.pods, self.scale_marks, strict=True)
        ]
        return self._numbers(tally(marks))

    def _numbers(self, counted: CloneSetTally) -> Numbers:
        strategy = self.spec.scale_strategy
        return numbers_of(
            counted,
            self.limits,
            may_roll_back=self.may_roll_back,
            exclude_preparing_delete=self.settings.exclude_preparing_delete
            or (strategy is not None and strategy.exclude_preparing_delete),
            surge_for_updates=not self.spec.is_on_delete,
        )


def tally(marks: Iterable[int]) -> CloneSetTally:
    """Count pods by their marks."""
    counts: Counter[Sort] = Counter()
    for bits, count in Counter(marks).items():
        counts[_SORTS[bits & 15]] += count
    return tally_of(counts)


def working_set(
    snapshot: CloneSetSnapshot,
    *,
    spec: CloneSetSpec,
    limits: CloneSetLimits,
    update: RevisionView,
    current: RevisionView,
    pods: Sequence[PodView],
) -> CloneSetWorkingSet:
    """`pods` are the active ones that match the selector."""
    strategy = spec.scale_strategy
    to_delete = frozenset((strategy.pods_to_delete if strategy else None) or ())
    marks = marks_of(
        pods,
        update=update.hash,
        to_delete=to_delete,
        min_ready_seconds=spec.min_ready_seconds,
        now=snapshot.now,
    )
    scale_marks = marks
    if snapshot.settings.preparing_update_as_update:
        scale_marks = [
            bits | Mark.NEW if pod.state == LifecycleState.PREPARING_UPDATE else bits
            for pod, bits in zip(pods, marks, strict=True)
        ]
    return CloneSetWorkingSet(
        snapshot=snapshot,
        recall=Recall(snapshot.seen),
        spec=spec,
        limits=limits,
        update=update,
        current=current,
        pods=pods,
        marks=marks,
        scale_marks=scale_marks,
        present=reduce(or_, {*marks}, 0),
        claims=_by_id(snapshot.claims),
    )


def _by_id(claims: Sequence[ClaimView]) -> dict[InstanceId, list[ClaimView]]:
    result: dict[InstanceId, list[ClaimView]] = {}
    for claim in sorted(claims, key=lambda claim: claim.name):
        if claim.instance_id:
            result.setdefault(claim.instance_id, []).append(claim)
    return result


def marks_of(
    pods: Sequence[PodView],
    *,
    update: RevisionHash,
    to_delete: frozenset[str],
    min_ready_seconds: int,
    now: Instant,
) -> list[int]:
    """The marks of each pod. One comprehension without calls: it runs over every pod in every plan."""
    leaving = LifecycleState.PREPARING_DELETE.value
    marks = [
        (pod.revision == update)
        + 2 * (pod.state == leaving)
        + 4 * pod.is_specified_delete
        + 8 * pod.is_serving
        + 16 * pod.is_ready
        for pod in pods
    ]
    if min_ready_seconds > 0:
        ready_before = now - min_ready_seconds
        marks = [
            bits & ~Mark.AVAILABLE
            if bits & Mark.AVAILABLE and (pod.ready_since is None or pod.ready_since > ready_before)
            else bits
            for pod, bits in zip(pods, marks, strict=True)
        ]
    if to_delete:
        marks = [
            bits | Mark.TO_DELETE if pod.name in to_delete else bits
            for pod, bits in zip(pods, marks, strict=True)
        ]
    return marks
