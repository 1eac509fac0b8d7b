"""Writes to the workloads of a UnitedDeployment.

UnitedDeploymentWorkingSet + replicas by subset ──▶ change_workloads() ──▶ Changes ──▶ plan.py

Pure. The workloads together never have more replicas than are allocated: a new workload starts with the replicas that
the other workloads do not use, and workloads that shrink are written before workloads that grow.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykruise.kinds.uniteddeployment.allocation import Mode
from pykruise.kinds.uniteddeployment.status import PROVISIONED, SUBSETS_UPDATED
from pykruise.kinds.uniteddeployment.types import Subset
from pykruise.kinds.uniteddeployment.working_set import UnitedDeploymentWorkingSet
from pykruise.kinds.uniteddeployment.workload_documents import WantedWorkload, change_of, replicas_change_of
from pykruise.kinds.uniteddeployment.workloads import SubsetWorkload
from pykruise.kinds.uniteddeployment.writes import plan_creation, plan_deletion, update
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.runtime.plan import Chain


class SubsetError(msgspec.Struct, frozen=True):
    """A subset whose patch cannot be applied to the template. The error is known before any write. The workload of the
    subset is not created; if it exists, only its replicas are changed.
    """

    condition: str
    """Type of the condition that reports the error."""
    subset: str
    problem: str

    def __str__(self) -> str:
        return f"subset {self.subset}: {self.problem}"


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The writes to workloads."""

    created: Sequence[Chain] = ()
    deleted: Sequence[Chain] = ()
    shrinking: Sequence[Chain] = ()
    """Updates of workloads that do not grow."""
    growing: Sequence[Chain] = ()
    errors: Sequence[SubsetError] = ()

    @property
    def is_provisioning(self) -> bool:
        """Whether workloads are created or deleted."""
        return bool(self.created or self.deleted)

    @property
    def is_updating(self) -> bool:
        """Whether workloads are updated."""
        return bool(self.shrinking or self.growing)

    def errors_of(self, condition: str) -> list[SubsetError]:
        """Errors that this condition reports."""
        return [error for error in self.errors if error.condition == condition]


def change_workloads(ws: UnitedDeploymentWorkingSet, allocated: Mapping[str, int]) -> Changes:
    """Plan the creations, updates and deletions of workloads. If a subset's patch cannot be applied, the subset's
    workload is not created, or only its replicas are changed.
    """
    subsets = sorted(ws.spec.subsets, key=lambda subset: subset.name)
    errors: list[SubsetError] = []
    shrinking: list[Chain] = []
    growing: list[Chain] = []
    for subset in subsets:
        workload = ws.own.workloads.get(subset.name)
        if workload is None or workload.is_deleting:
            continue
        replicas = allocated[subset.name]
        chain, error = _update_workload(ws, workload, subset, replicas)
        if error is not None:
            errors.append(error)
        if chain is not None:
            (growing if replicas > workload.replicas else shrinking).append(chain)
    created, refused = _create_workloads(ws, subsets, allocated)
    return Changes(
        created=created,
        # plan.py orders the stages: workloads are deleted after the workloads that replace them are created.
        deleted=[
            plan_deletion(workload, why) for workload, why in ws.own.unwanted if not workload.is_deleting
        ],
        shrinking=shrinking,
        # This plan does not change the size of an adopted workload, which may have to shrink before others grow.
        growing=[] if ws.own.adopted else growing,
        errors=[*errors, *refused],
    )


def partition_of(ws: UnitedDeploymentWorkingSet, subset: str, replicas: int) -> int:
    """Number of pods that stay at older revisions, out of the subset's replicas."""
    return min(ws.spec.partition_of(subset), replicas)


def _describe_workload(
    ws: UnitedDeploymentWorkingSet, subset: Subset, replicas: int, *, allocated: int
) -> WantedWorkload:
    return WantedWorkload(
        template=ws.united.template,
        metadata=ws.workload.get("metadata") or {},
        spec=ws.workload["spec"],
        selector=msgspec.to_builtins(ws.spec.selector),
        subset=subset,
        revision=ws.target,
        replicas=replicas,
        partition=partition_of(ws, subset.name, allocated),
    )


def _create_workloads(
    ws: UnitedDeploymentWorkingSet, subsets: Iterable[Subset], allocated: Mapping[str, int]
) -> tuple[list[Chain], list[SubsetError]]:
    """Create workloads for subsets that have none. They start with the allocated replicas that the other workloads do
    not use.
    """
    others = [*ws.own.workloads.values(), *ws.own.adopted]
    free = sum(allocated.values()) - sum(workload.replicas for workload in others)
    adopted = {workload.subset for workload in ws.own.adopted}
    chains: list[Chain] = []
    errors: list[SubsetError] = []
    for subset in subsets:
        name = ws.snapshot.names.get(subset.name)
        if subset.name in ws.own.workloads or subset.name in adopted or name is None:
            continue
        replicas = max(min(allocated[subset.name], free), 0)
        wanted = _describe_workload(ws, subset, replicas, allocated=allocated[subset.name])
        try:
            chains.append(plan_creation(wanted, ws.united, name=name))
        except PlacementError as error:
            errors.append(SubsetError(PROVISIONED, subset.name, str(error)))
        else:
            free -= replicas
    return chains, errors


def _update_workload(
    ws: UnitedDeploymentWorkingSet, workload: SubsetWorkload, subset: Subset, replicas: int
) -> tuple[Chain | None, SubsetError | None]:
    wanted = _describe_workload(ws, subset, replicas, allocated=replicas)
    if ws.spec.mode is Mode.RESERVE:
        late = ws.verdict.update_timeouts[subset.name]
        unavailable = max(workload.replicas - workload.ready + late, 1)
        wanted = msgspec.structs.replace(
            wanted,
            max_unavailable=unavailable if subset.name in ws.verdict.unschedulable else None,
            restores_max_unavailable=True,
        )
    problem = None
    try:
        body = change_of(workload, wanted)
    except PlacementError as error:
        problem = SubsetError(SUBSETS_UPDATED, subset.name, str(error))
        body = replicas_change_of(workload, replicas)
    return None if body is None else update(workload, body, wanted), problem
