"""Broken rules of groups of pods."""

from typing import Any

from pykruise.kinds.cloneset import plan
from pykruise.kinds.cloneset import pod_group as cloneset_group
from simulation.mutating import Change, always

__all__ = ["PODGROUPS"]


def _reused(original: Any) -> Any:
    """A new group has the name of an earlier one, whose pods may still terminate."""

    def choose(beside: Any, *, workload: str, revision: str, taken: Any) -> Any:
        return original(beside, workload=workload, revision="same", taken=())

    return choose


PODGROUPS: dict[str, tuple[Change, ...]] = {
    "PodGroups: groups are not created": ((plan, "keep_groups", always(())),),
    "PodGroups: unused groups stay": ((plan, "drop_groups", always(())),),
    "PodGroups: minCount does not follow": ((cloneset_group, "compute_min_count", always(1)),),
    "PodGroups: a new group has the name of an old one": ((cloneset_group, "choose_group", _reused),),
}
