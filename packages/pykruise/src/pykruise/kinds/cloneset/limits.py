"""Distance between a CloneSet's actual and desired state, in pods.

spec ──▶ limits_of() ──▶ CloneSetLimits   (each int-or-percent field as a number; admission uses the same parser)
marks of pods ──▶ tally_of() ──▶ CloneSetTally    (number of pods with each mark)
CloneSetTally + CloneSetLimits ──▶ numbers_of() ──▶ Numbers ──▶ scale.py, update.py

Pure. A value that cannot be read is reported as an error of its field. It is never replaced with 0: a partition of 0
would update every pod.
"""

from collections.abc import Mapping
from itertools import product
from typing import Final

import msgspec

from pykruise.kinds.cloneset.types import DEFAULT_MAX_UNAVAILABLE, CloneSetSpec
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.pods.workload.spec import LARGEST_SET, describe_excess

SCALE_LIMIT = "spec.scaleStrategy.maxUnavailable"
UPDATE_LIMIT = "spec.updateStrategy.rollingUpdate.maxUnavailable"

UNLIMITED = 2_147_483_647
"""Value of scaleStrategy.maxUnavailable if the field is absent."""


class FieldProblem(msgspec.Struct, frozen=True):
    """A stored value that cannot be used."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class CloneSetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the spec, as numbers of pods."""

    replicas: int
    partition: int = 0
    """Number of pods that keep older revisions; at most `replicas`."""
    max_unavailable: int = 0
    max_surge: int = 0
    """Maximum number of pods beyond replicas during an update; 0 while the CloneSet is paused."""
    scale_max_unavailable: int = UNLIMITED


def limits_of(spec: CloneSetSpec) -> tuple[CloneSetLimits, list[FieldProblem]]:
    """Return the limits, and every field with an unusable value. If there is such a field, the limits must not be used.

    A percentage of maxUnavailable is rounded down if maxSurge is above 0. Without a surge it is rounded up, because
    with 0 no pod could ever be updated.
    """
    problems: list[FieldProblem] = []
    if spec.replicas > LARGEST_SET:
        problems.append(FieldProblem("spec.replicas", describe_excess(spec.replicas)))

    def number(value: IntOrPercent, field: str, rounding: Rounding) -> int:
        try:
            return max(resolve(value, of=spec.replicas, rounding=rounding), 0)
        except ValueError as error:
            problems.append(FieldProblem(field, str(error)))
            return 0

    block, path = spec.rolling_update, "spec.updateStrategy.rollingUpdate"
    partition, max_surge, max_unavailable = 0, 0, None
    if block is not None:
        if block.partition is not None:
            partition = _compute_partition(
                block.partition,
                number(block.partition, f"{path}.partition", Rounding.UP),
                replicas=spec.replicas,
            )
        if block.max_surge is not None:
            max_surge = number(block.max_surge, f"{path}.maxSurge", Rounding.UP)
        max_unavailable = block.max_unavailable
    if spec.is_paused:
        max_surge = 0
    strategy = spec.scale_strategy
    scale_max_unavailable = UNLIMITED
    if strategy is not None and strategy.max_unavailable is not None:
        scale_max_unavailable = number(strategy.max_unavailable, SCALE_LIMIT, Rounding.UP)
    if spec.replicas < 0:
        problems.append(FieldProblem("spec.replicas", "must be greater than or equal to 0"))
    limits = CloneSetLimits(
        replicas=spec.replicas,
        partition=partition,
        max_unavailable=number(
            DEFAULT_MAX_UNAVAILABLE if max_unavailable is None else max_unavailable,
            UPDATE_LIMIT,
            Rounding.DOWN if max_surge > 0 else Rounding.UP,
        ),
        max_surge=max_surge,
        scale_max_unavailable=scale_max_unavailable,
    )
    return limits, problems


def _compute_partition(value: IntOrPercent, resolved: int, *, replicas: int) -> int:
    """Return the effective partition. It is at most `replicas`. If it is a percentage below 100% and `replicas` is
    more than 1, at least one pod is updated.
    """
    if isinstance(value, str) and value != "100%" and replicas > 1 and resolved == replicas:
        return replicas - 1
    return min(resolved, replicas)


def allows_none(limits: CloneSetLimits) -> bool:
    """Whether no serving pod can ever be taken out of service: maxUnavailable is 0 and no surge pod can replace it."""
    return limits.replicas > 0 and limits.max_unavailable == limits.max_surge == 0


NONE_MAY_GO: Final = limit_is_zero(UPDATE_LIMIT, "it serves, and no serving pod can be taken out of service")
"""Reason why a serving pod is left unchanged if `allows_none()` is true for the limits."""


class Mark(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The properties of a pod by which pods are counted. `MARKS` contains one mark for each combination of values, and
    no other marks are created. So counting compares objects and not fields.
    """

    is_new: bool
    """Whether the pod has the update revision."""
    is_pre_deleting: bool = False
    """Whether the pod waits in PreparingDelete."""
    is_to_delete: bool = False
    """Whether the pod is specified for deletion, by its label or by podsToDelete."""
    is_available: bool = True
    is_ready: bool = True

    def as_new(self) -> "Mark":
        """Return this mark, but with the update revision."""
        return MARKS[True, self.is_pre_deleting, self.is_to_delete, self.is_available, self.is_ready]

    def as_specified(self) -> "Mark":
        """Return this mark, but also specified for deletion."""
        return MARKS[self.is_new, self.is_pre_deleting, True, self.is_available, self.is_ready]


MARKS: Final = {fields: Mark(*fields) for fields in product((False, True), repeat=5)}
"""All marks, by the values of their fields in order."""


class CloneSetTally(msgspec.Struct, kw_only=True):
    """Numbers of active pods, by their marks. *New* pods have the update revision, *old* pods any other revision."""

    total_new: int = 0
    total_old: int = 0
    pre_deleting_new: int = 0
    """New pods in PreparingDelete. The following counts do not include pods in PreparingDelete."""
    pre_deleting_old: int = 0
    to_delete_new: int = 0
    """New pods specified for deletion. `unavailable_new` and `unavailable_old` do not include them."""
    to_delete_old: int = 0
    to_delete_unavailable: int = 0
    """Pods specified for deletion that are not available."""
    unavailable_new: int = 0
    unavailable_old: int = 0

    @property
    def total(self) -> int:
        """Number of active pods."""
        return self.total_new + self.total_old

    @property
    def pre_deleting(self) -> int:
        """Number of pods in PreparingDelete."""
        return self.pre_deleting_new + self.pre_deleting_old

    @property
    def to_delete(self) -> int:
        """Number of pods that are specified for deletion and not yet in PreparingDelete."""
        return self.to_delete_new + self.to_delete_old

    @property
    def unavailable(self) -> int:
        """Number of pods in PreparingDelete, and of other unavailable pods that are not specified for deletion."""
        return self.pre_deleting + self.unavailable_new + self.unavailable_old


def tally_of(counts: Mapping[Mark, int]) -> CloneSetTally:
    """Sum up the numbers of pods with each mark."""
    tally = CloneSetTally()
    for mark, count in counts.items():
        age = "new" if mark.is_new else "old"
        _add_count(tally, f"total_{age}", count)
        if mark.is_pre_deleting:
            _add_count(tally, f"pre_deleting_{age}", count)
        elif mark.is_to_delete:
            _add_count(tally, f"to_delete_{age}", count)
            if not mark.is_available:
                _add_count(tally, "to_delete_unavailable", count)
        elif not mark.is_available:
            _add_count(tally, f"unavailable_{age}", count)
    return tally


def _add_count(tally: CloneSetTally, field: str, count: int) -> None:
    setattr(tally, field, getattr(tally, field) + count)


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of pods to create, delete and update."""

    create: int = 0
    """Missing pods."""
    create_old: int = 0
    """Missing pods of the current revision."""
    create_now: int = 0
    """Pods that can be created now, within scaleStrategy.maxUnavailable. With the option pod-replacement-policy,
    terminating pods reduce this number.
    """
    create_held: int = 0
    """Further pods that can be created as soon as terminating pods have ended."""
    remove: int = 0
    """Surplus pods, not counting pods that are specified for deletion and not yet in PreparingDelete."""
    remove_old: int = 0
    """Surplus pods of older revisions."""
    ready_budget: int = 0
    """Serving pods that can be deleted without exceeding maxUnavailable."""
    update: int = 0
    """Pods to update to the update revision; negative: pods to return to the current revision."""
    update_budget: int = 0
    """Pods that can be unavailable during the update; possibly negative."""
    surge: int = 0
    """Number of pods beyond replicas that are needed now."""
    surge_old: int = 0


def numbers_of(
    tally: CloneSetTally,
    limits: CloneSetLimits,
    *,
    may_roll_back: bool = False,
    exclude_preparing_delete: bool = False,
    surge_for_updates: bool = True,
    restarts: bool = True,
    terminating: int | None = None,
    left_out: int = 0,
    is_gang: bool = False,
) -> Numbers:
    """Compute the numbers of a CloneSet (specification: "Numbers").

    `may_roll_back`: updated pods can return to the current revision. `surge_for_updates`: whether maxSurge applies to
    updates; not under OnDelete, and not if the update restarts no container (`restarts` is False). Without restarts, as
    many pods are updated at the same time as if maxSurge applied. `terminating`: number of terminating pods whose
    successors wait until they have ended; None if no successor waits. `left_out`: number of pods that do not count
    against maxUnavailable, because their nodes are out of service. `is_gang`: pods of the old group are deleted only
    after the new group has all its pods.
    """
    old_diff = tally.total_old - tally.pre_deleting_old - limits.partition
    new_diff = tally.total_new - tally.pre_deleting_new - (limits.replicas - limits.partition)
    if not may_roll_back:
        old_diff, new_diff = max(old_diff, 0), min(new_diff, 0)
    surge, surge_old = _compute_surge(
        tally, limits, old_diff, new_diff, for_updates=surge_for_updates, is_gang=is_gang
    )
    total, total_old = tally.total, tally.total_old
    if exclude_preparing_delete:
        total -= tally.pre_deleting
        total_old -= tally.pre_deleting_old
    want, want_old = limits.replicas + surge, limits.partition + surge_old
    over = tally.total - limits.replicas

    create = max(want - total, 0)
    allowed = min(create, max(limits.scale_max_unavailable - tally.unavailable, 0))
    # Pods in PreparingDelete still run. So no successor is created for them either, even if other numbers leave them
    # out.
    room = allowed if terminating is None else max(want - tally.total - terminating, 0)
    create_now = min(allowed, room)
    remove = max(total - tally.to_delete - want, 0)
    # One older group is kept. Further older groups are removed, because they leave no room for the new group.
    if is_gang and surge > 0:
        remove = max(remove, total_old - tally.to_delete_old - limits.replicas)
    leaving = tally.to_delete > 0 or remove > 0
    # Pods that are specified for deletion and do not serve are unavailable too. OpenKruise does not count them here: if
    # two pods are specified and one of them is unavailable, it deletes both despite maxUnavailable 1.
    down = tally.unavailable + tally.to_delete_unavailable - left_out
    update = old_diff if abs(old_diff) <= abs(new_diff) else -new_diff
    return Numbers(
        create=create,
        create_old=max(want_old - total_old, 0) if create else 0,
        create_now=create_now,
        create_held=allowed - create_now,
        remove=remove,
        remove_old=max(total_old - tally.to_delete_old - want_old, 0) if remove else 0,
        ready_budget=max(limits.max_unavailable + over - down, 0) if leaving else 0,
        update=update,
        update_budget=limits.max_unavailable + (over if restarts else max(over, limits.max_surge))
        if update
        else 0,
        surge=surge,
        surge_old=surge_old,
    )


def _compute_surge(
    tally: CloneSetTally,
    limits: CloneSetLimits,
    old_diff: int,
    new_diff: int,
    *,
    for_updates: bool,
    is_gang: bool,
) -> tuple[int, int]:
    """Return the number of pods beyond replicas, and how many of them have the current revision.

    Pods beyond replicas are needed for two purposes: as successors of specified pods before these are deleted, and for
    the update. The larger number is used.
    """
    needed = tally.unavailable + tally.to_delete - limits.max_unavailable
    scale = min(max(needed, 0), tally.to_delete)
    scale_old = max(scale - tally.to_delete_new, 0)
    update = update_old = 0
    if for_updates and old_diff * new_diff < 0:
        update = abs(old_diff) if is_gang else min(abs(old_diff), abs(new_diff))
        update_old = update if old_diff < 0 else 0
    if scale >= update:
        surge = min(limits.max_surge, scale)
        return surge, min(surge, scale_old)
    surge = min(limits.max_surge, update)
    return surge, min(surge, update_old)
