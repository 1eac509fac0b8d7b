"""The pods of a BroadcastJob as one group of Kubernetes' scheduler: the option gang-min-count.

pods + nodes ──▶ find_gang() ──▶ BroadcastJobGang: minCount, and the group of new pods ──▶ plan.py
annotation + spec ──▶ find_option_conflicts() ──▶ field errors, if the pods could not be started as a group

Pure. Each pod has a node affinity for one node, and the scheduler places all pods of the group at the same time. Pods
that are created later are in no group. In a group they would wait forever, because the scheduler does not count
finished pods.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.broadcastjob.snapshot import ReadableBroadcastJob
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS, BroadcastJobSpec
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, is_percent, resolve
from pykruise.plans.pod_groups import list_taken_names
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import FINISHED
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import (
    choose_group,
    compute_min_count,
    find_template_errors,
    format_workload_name,
    read_min_count,
)
from pykruise.runtime.reasons import Reason

_SUFFIX: Final = "start"
"""Suffix of the group's name."""

NOT_SCHEDULED: Final = (
    "needs pods that the scheduler places: start the manager with --assign-bcj-pods-by-scheduler=true, or remove the "
    "annotation"
)


class BroadcastJobGang(msgspec.Struct, frozen=True, kw_only=True):
    """Values with which the pods of a job are started as one group."""

    min_count: int
    """Number of pods that the scheduler must place at the same time; 1 after the group was started."""
    group: str
    """Name of the group of new pods; empty if new pods are in no group."""
    hold: Reason | None = None
    """Reason why no pod can be created; None if pods can be created."""


def has_started(snapshot: ReadableBroadcastJob) -> bool:
    """Whether a pod of the job has or had a node."""
    return any(pod.node_name or pod.phase in FINISHED for pod in snapshot.pods)


def find_problem(snapshot: ReadableBroadcastJob) -> str:
    """Return the reason why the pods cannot be started as a group; empty if they can, or if they were already
    started.
    """
    if GANG_MIN_COUNT.annotation not in snapshot.job.annotations or has_started(snapshot):
        return ""
    if not snapshot.settings.assign_by_scheduler:
        return f"{GANG_MIN_COUNT.field}: {NOT_SCHEDULED}"
    return snapshot.groups.problem


def find_gang(
    snapshot: ReadableBroadcastJob, *, nodes: int, parallelism: int | None
) -> BroadcastJobGang | None:
    """Return the gang of the job; None if the option is not set or not supported. `nodes`: number of nodes that get a
    pod.
    """
    value = GANG_MIN_COUNT.read(snapshot.job.annotations)
    if value is None or snapshot.groups.problem:
        return None
    if has_started(snapshot):
        return BroadcastJobGang(min_count=1, group="")
    least = compute_min_count(value, nodes)
    hold: Reason | None = None
    if parallelism is not None and parallelism < least:
        running = format_count(parallelism, "pod")
        message = f"spec.parallelism allows {running} at the same time, but the group needs {least} to start"
        hold = Reason(Code.POD_GROUP, message, f"set spec.parallelism to at least {least}")
    group = choose_group(
        [pod for pod in snapshot.pods if pod.is_active],
        workload=format_workload_name(BROADCAST_JOBS, snapshot.job.name),
        revision=_SUFFIX,
        taken=list_taken_names(snapshot.groups, snapshot.pods),
    )
    return BroadcastJobGang(min_count=least, group=group, hold=hold)


# Admission


def find_option_conflicts(metadata: Mapping[str, Any], spec: BroadcastJobSpec) -> Iterator[Cause]:
    """Yield the reasons why the pods of this spec could not be started as a group; none without the option."""
    value = read_min_count(metadata)
    if value is None:
        return
    yield from find_template_errors(spec.template)
    if spec.parallelism is not None and _is_less(spec.parallelism, value):
        problem = f"must be at least {GANG_MIN_COUNT.field} ({value}): a group with fewer pods cannot start"
        yield make_invalid_error("spec.parallelism", spec.parallelism, problem)


def _is_less(parallelism: IntOrPercent, value: IntOrPercent) -> bool:
    """Whether parallelism is less than the value for every number of nodes. A string is a percentage."""
    if parallelism == 0:
        return True
    if isinstance(parallelism, int) or isinstance(value, int):
        return isinstance(parallelism, int) and isinstance(value, int) and parallelism < value
    share = parallelism if is_percent(parallelism) else f"{parallelism}%"
    try:
        parts = [resolve(amount, of=100, rounding=Rounding.UP) for amount in (share, value)]
    except ValueError:
        return False  # another check reports this value
    return parts[0] < parts[1]
