"""Mutations of UnitedDeployments; see mutations.py."""

from typing import Any

import msgspec

from pykruise.kinds.uniteddeployment import changes, plan, status, working_set
from pykruise.plans.purposes import Purpose
from simulation.mutating import Change, always

__all__ = ["UNITEDDEPLOYMENT"]

replace = msgspec.structs.replace


def _grows_first(original: Any) -> Any:
    """Workloads that grow are written before those that shrink."""

    def stages(*args: Any) -> Any:
        result = original(*args)
        last = {Purpose.UPDATE_WORKLOADS: 1}
        return sorted(
            (replace(item, only_after=()) for item in result), key=lambda stage: last.get(stage.purpose, 0)
        )

    return stages


def _one_more(original: Any) -> Any:
    def allocate(shares: Any, **given: Any) -> Any:
        result = original(shares, **given)
        return {name: size + 1 for name, size in result.items()}

    return allocate


def _keeps_all(original: Any) -> Any:
    def ownership_of(snapshot: Any) -> Any:
        return replace(original(snapshot), unwanted=())

    return ownership_of


def _deletes_all(original: Any) -> Any:
    def ownership_of(snapshot: Any) -> Any:
        result = original(snapshot)
        return replace(result, unwanted=[(workload, "on purpose") for workload in result.workloads.values()])

    return ownership_of


UNITEDDEPLOYMENT: dict[str, tuple[Change, ...]] = {
    "UnitedDeployment: growing workloads are written first": ((plan, "_plan_stages", _grows_first),),
    "UnitedDeployment: each subset gets one additional pod": ((working_set, "allocate", _one_more),),
    "UnitedDeployment: workloads of removed subsets are not deleted": (
        (working_set, "ownership_of", _keeps_all),
    ),
    "UnitedDeployment: every workload is unwanted": ((working_set, "ownership_of", _deletes_all),),
    "UnitedDeployment: partitions are ignored": (
        (changes, "partition_of", always(0)),
        (plan, "partition_of", always(0)),
    ),
    "UnitedDeployment: the status does not record a skipped subset first": (
        (plan, "_store_closed_first", lambda _original: lambda *_args: iter(())),
    ),
    "UnitedDeployment: a rollout never ends": (
        (status, "_choose_current_revision", lambda _original: lambda seen, **_: seen.current),
    ),
    "UnitedDeployment: templates are not applied to existing workloads": (
        (
            changes,
            "change_of",
            lambda original: (
                lambda workload, wanted: original(workload, replace(wanted, revision=workload.revision))
            ),
        ),
    ),
    "UnitedDeployment: no workload is adopted": (
        (plan, "plan_adoption", lambda _original: lambda *_args: []),
    ),
}
"""Changes by name. Scripts of the kind `uniteddeployment` detect them."""
