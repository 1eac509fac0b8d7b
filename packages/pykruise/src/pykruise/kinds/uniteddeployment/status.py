"""The status of a UnitedDeployment: counts, revisions, an entry per subset, conditions.

StatusInputs ──▶ status_of() ──▶ UnitedDeploymentStatus        conditions ──▶ set_condition() ──▶ conditions

Pure. Counts are those of the workloads in the snapshot, before the plan's writes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kinds.uniteddeployment.snapshot import ReadableUnitedView
from pykruise.kinds.uniteddeployment.types import (
    SubsetStatus,
    UnitedDeploymentCondition,
    UnitedDeploymentStatus,
)
from pykruise.kinds.uniteddeployment.workloads import RESERVED_LABEL, REVISION_LABEL, SubsetWorkload
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.schemas.types import PlainCondition
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.selector_guard import SELECTOR_CHANGED, SELECTOR_MISMATCH
from pykruise.pods.workload.views import selector_of
from pykruise.pods.workload.waiting import condition_of, drop_conditions

PROVISIONED: Final = "SubsetProvisioned"
SUBSETS_UPDATED: Final = "SubsetUpdated"
UPDATED: Final = "UnitedDeploymentUpdated"
_FAILURE: Final = "SubsetFailure"
"""Types of the conditions. The last type is only removed from stored statuses, and never written."""

ERROR: Final = "Error"

Conditions = Sequence[UnitedDeploymentCondition]


class StatusInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of a status. Keys of mappings are names of subsets, unless a field says otherwise."""

    united: ReadableUnitedView
    workloads: Mapping[str, SubsetWorkload]
    """Workloads of the template's kind, also of subsets that are not in the spec."""
    pods: Mapping[str, Sequence[PodView]]
    """Pods by the workload's UID."""
    entries: Mapping[str, SubsetStatus]
    """Stored entries, and entries of new subsets."""
    schedulable: Mapping[str, PlainCondition]
    reserved: Mapping[str, int]
    allocated: Mapping[str, int]
    partitions: Mapping[str, int]
    target: str
    """Name of the template's revision."""
    collision_count: int
    is_settled: bool
    """Whether no workload has to be created, changed or deleted."""


def entries_of(united: ReadableUnitedView, *, now: Instant) -> dict[str, SubsetStatus]:
    """Return the stored entries by subset, and a new entry for each subset without one."""
    entries = {status.name: status for status in united.status.subset_statuses or ()}
    born_in_reserve = bool(entries) and united.spec.mode is Mode.RESERVE
    for subset in united.spec.subsets:
        if subset.name not in entries:
            conditions = [_build_created_condition(now)] if born_in_reserve else None
            entries[subset.name] = SubsetStatus(name=subset.name, conditions=conditions)
    return entries


def _build_created_condition(now: Instant) -> PlainCondition:
    return PlainCondition(
        type="Schedulable",
        status="False",
        reason="created",
        message="newly-created subsets in reservation strategy",
        last_transition_time=format_time(now),
    )


def status_of(seen: StatusInputs, conditions: Conditions) -> UnitedDeploymentStatus:
    """Build the whole status, with these conditions."""
    workloads = list(seen.workloads.values())
    updated = [pod for workload in workloads for pod in _select_updated(seen, workload)]
    ready = sum(pod.has_ready_condition for pod in updated)
    reserved = sum(seen.reserved.values())
    united = seen.united
    return UnitedDeploymentStatus(
        observed_generation=united.generation,
        replicas=sum(workload.status_replicas for workload in workloads) - reserved,
        ready_replicas=sum(workload.ready for workload in workloads),
        updated_replicas=len(updated),
        updated_ready_replicas=ready,
        reserved_pods=reserved,
        collision_count=seen.collision_count or united.status.collision_count,
        current_revision=_choose_current_revision(seen, updated_ready=ready),
        updated_revision=seen.target,
        subset_statuses=_build_subset_statuses(seen),
        conditions=list(conditions) or None,
        label_selector=format_selector(united),
    )


def _select_updated(seen: StatusInputs, workload: SubsetWorkload) -> list[PodView]:
    return [
        pod
        for pod in seen.pods.get(workload.uid, ())
        if pod.is_active and pod.labels.get(REVISION_LABEL) == seen.target
    ]


def _choose_current_revision(seen: StatusInputs, *, updated_ready: int) -> str:
    """Return currentRevision: the revision before the update, and the target after the update has ended."""
    stored = seen.united.status.current_revision
    if stored in ("", seen.target):
        return seen.target
    workloads = seen.workloads.values()
    reserved = sum(seen.reserved.values())
    there = sum(workload.status_replicas for workload in workloads) - reserved
    wanted = sum(seen.allocated.values()) - reserved
    is_over = (
        seen.is_settled
        and updated_ready >= max(there, wanted)
        and all(workload.is_observed for workload in workloads)
    )
    return seen.target if is_over else stored


def _build_subset_statuses(seen: StatusInputs) -> list[SubsetStatus] | None:
    """Return entries in the order in which the subsets were added, without subsets that no longer exist."""
    kept = {subset.name for subset in seen.united.spec.subsets} | set(seen.workloads)
    statuses = [_build_entry(seen, name) for name in seen.entries if name in kept]
    statuses += [_build_entry(seen, name) for name in sorted(seen.workloads) if name not in seen.entries]
    return statuses or None


def _build_entry(seen: StatusInputs, name: str) -> SubsetStatus:
    entry = seen.entries.get(name) or SubsetStatus(name=name)
    workload = seen.workloads.get(name)
    condition = seen.schedulable.get(name)
    others = [item for item in entry.conditions or () if condition is None or item.type != condition.type]
    conditions = [*others, *([condition] if condition is not None else [])]
    entry = msgspec.structs.replace(entry, conditions=conditions or None)
    if workload is None:
        return entry
    return msgspec.structs.replace(
        entry,
        replicas=seen.allocated.get(name, 0),
        ready_replicas=workload.ready,
        partition=seen.partitions.get(name, 0),
        reserved_pods=seen.reserved.get(name, 0),
    )


def format_selector(united: ReadableUnitedView) -> str:
    """Return the selector for autoscalers, which excludes reserved pods. If the selector cannot be read, return the
    stored one.
    """
    selector = selector_of(united.spec.selector)
    if selector is None:
        return united.status.label_selector
    return f"{selector},{RESERVED_LABEL}=false" if united.spec.mode is Mode.RESERVE else str(selector)


# ── conditions ───────────────────────────────────────────────────────────


def set_updated(conditions: Conditions, *, current: str, target: str, now: Instant) -> Conditions:
    """Set the condition that reports whether all pods are at the target revision. Its time is the start of the update
    to this target.
    """
    status, reason, verb = "False", "UnitedDeploymentRevisionUpdating", "updating"
    if current == target:
        status, reason, verb = "True", "UnitedDeploymentRevisionUpdated", "updated"
    message = f"{verb} to revision {target}"
    old = condition_of(conditions, UPDATED)
    if old is not None and old.status == status and old.reason == reason and old.message == message:
        return conditions
    kept = old.last_transition_time if old is not None and old.status == status == "True" else None
    return _write_condition(
        conditions, UPDATED, status=status, reason=reason, message=message, since=kept or format_time(now)
    )


def set_mismatch(conditions: Conditions, message: str, *, now: Instant) -> Conditions:
    """Set the condition that reports a selector that was changed without admission."""
    old = condition_of(conditions, SELECTOR_MISMATCH)
    if old is not None and old.status == "True" and old.message == message:
        return conditions
    since = (old.last_transition_time if old is not None and old.status == "True" else None) or format_time(
        now
    )
    return _write_condition(
        conditions,
        SELECTOR_MISMATCH,
        status="True",
        reason=SELECTOR_CHANGED,
        message=message,
        since=since,
    )


def _write_condition(
    conditions: Conditions, kind: str, *, status: str, reason: str, message: str, since: str
) -> Conditions:
    new = UnitedDeploymentCondition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=since
    )
    return [*drop_conditions(conditions, kind), new]


def find_updating_since(conditions: Conditions) -> Instant | None:
    """Instant since which pods are updated to the target revision."""
    united_deployment_condition = condition_of(conditions, UPDATED)
    try:
        return parse_time(
            (
                united_deployment_condition.last_transition_time
                if united_deployment_condition is not None
                else ""
            )
            or ""
        )
    except ValueError:
        return None


def set_condition(
    conditions: Conditions, kind: str, *, error: str = "", code: str = ERROR, now: Instant
) -> Conditions:
    """Set a condition to True, or to False with the error. A condition that does not change keeps its position in the
    list. `code`: reason of the condition; by default the same reason as OpenKruise's.
    """
    status, reason = ("False", code) if error else ("True", "")
    conditions = drop_conditions(conditions, _FAILURE)
    old = condition_of(conditions, kind)
    if old is not None and old.status == status and old.reason == reason and old.message == error:
        return conditions
    kept = old.last_transition_time if old is not None and old.status == status else None
    return _write_condition(
        conditions, kind, status=status, reason=reason, message=error, since=kept or format_time(now)
    )
