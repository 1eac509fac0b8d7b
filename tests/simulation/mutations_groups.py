"""Mutations of workloads whose pods are a group; see mutations.py."""

from typing import Any

import msgspec

from pykruise.kinds.broadcastjob import plan as broadcastjob_plan
from pykruise.kinds.broadcastjob import pod_group as broadcastjob_group
from pykruise.kinds.cloneset import plan
from pykruise.kinds.statefulset import plan as statefulset_plan
from pykruise.kinds.statefulset import snapshot
from pykruise.pods.workload import pod_groups
from simulation.mutating import Change, always

__all__ = ["PODGROUPJOBS", "PODGROUPS", "PODGROUPSETS"]


def _reused(original: Any) -> Any:
    """A new group has the name of an earlier one, whose pods may still terminate."""

    def choose(beside: Any, *, workload: str, revision: str, taken: Any) -> Any:
        return original(beside, workload=workload, revision="same", taken=())

    return choose


PODGROUPS: dict[str, tuple[Change, ...]] = {
    "PodGroups: groups are not created": ((plan, "keep_groups", always(())),),
    "PodGroups: unused groups stay": ((plan, "drop_groups", always(())),),
    "PodGroups: minCount does not follow": ((pod_groups, "compute_min_count", always(1)),),
    "PodGroups: a new group has the name of an old one": ((pod_groups, "choose_group", _reused),),
}


def _without_orphans(original: Any) -> Any:
    """PodGroups without an owner are not seen."""

    async def read(*given: Any) -> Any:
        return msgspec.structs.replace(await original(*given), orphans={})

    return read


PODGROUPSETS: dict[str, tuple[Change, ...]] = {
    "PodGroups of sets: groups are not created": ((statefulset_plan, "keep_groups", always(())),),
    "PodGroups of sets: unused groups stay": ((statefulset_plan, "drop_groups", always(())),),
    "PodGroups of sets: groups of adopted pods are not adopted": (
        (snapshot, "read_groups", _without_orphans),
    ),
}


PODGROUPJOBS: dict[str, tuple[Change, ...]] = {
    "PodGroups of jobs: groups are not created": ((broadcastjob_plan, "keep_groups", always(())),),
    "PodGroups of jobs: later pods join a group that has started": (
        (broadcastjob_group, "has_started", always(False)),
    ),
}
