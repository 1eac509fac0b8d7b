"""Ownership of workloads: the workload of each subset, and those that are adopted, released or unwanted.

UnitedSnapshot ──▶ ownership_of() ──▶ WorkloadOwnership        plan_adoption(), release() ──▶ stages of a plan
               └─▶ find_mismatch() ──▶ a selector that was changed without admission: nothing may be changed

Pure. Only workloads in the UnitedDeployment's namespace are considered, and only those with a subset label are adopted.
When a subset has two workloads, the older workload is kept.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.snapshot import ReadableUnitedDeployment, ReadableUnitedView
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import SUBSET_LABEL, SubsetWorkload, type_of
from pykruise.kube.documents import Document
from pykruise.plans.ownership import adopter_of, check_still_there
from pykruise.plans.purposes import Purpose
from pykruise.pods.workload.selector_guard import Mismatch, encode_selector
from pykruise.pods.workload.views import selector_of
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step

_AGAIN_S: Final = 600.0


class WorkloadOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """The workloads of one UnitedDeployment."""

    workloads: dict[str, SubsetWorkload]
    """Workload of each subset, if it is of the template's kind; also for subsets that are no longer in the spec."""
    unwanted: Sequence[tuple[SubsetWorkload, str]] = ()
    """Workloads to delete, with the reason."""
    adopted: Sequence[SubsetWorkload] = ()
    released: Sequence[tuple[SubsetWorkload, str]] = ()
    """Workloads that the selector no longer matches, with the uid of the owner to remove."""
    notes: Sequence[Note] = ()


def ownership_of(snapshot: ReadableUnitedDeployment) -> WorkloadOwnership:
    """Decide for each workload whether it is kept, adopted, released or deleted."""
    united = snapshot.united
    selector = selector_of(united.spec.selector)
    workloads: dict[str, SubsetWorkload] = {}
    unwanted: list[tuple[SubsetWorkload, str]] = []
    released: list[tuple[SubsetWorkload, str]] = []
    notes: list[Note] = []
    wanted = {subset.name for subset in united.spec.subsets}
    for workload in snapshot.workloads:
        if selector is not None and not selector.matches(workload.labels):
            released.append((workload, united.uid))
        elif not workload.subset:
            notes.append(_note_missing_subset(workload))
        elif workload.template != united.template:
            unwanted.append((workload, "spec.template creates workloads of another kind"))
        elif workload.subset in workloads:
            unwanted.append(
                (
                    workload,
                    f"subset {workload.subset} already has {workloads[workload.subset].name}, which is older",
                )
            )
        else:
            workloads[workload.subset] = workload
            if workload.subset not in wanted:
                unwanted.append((workload, f"subset {workload.subset} no longer exists"))
    adopted: dict[str, SubsetWorkload] = {}
    for orphan in snapshot.orphans:
        is_free = orphan.subset in wanted and orphan.subset not in workloads and orphan.subset not in adopted
        if is_free and not orphan.is_deleting and selector is not None and selector.matches(orphan.labels):
            adopted[orphan.subset] = orphan
    return WorkloadOwnership(
        workloads=workloads,
        unwanted=unwanted,
        adopted=tuple(adopted.values()),
        released=released,
        notes=notes,
    )


def find_mismatch(snapshot: ReadableUnitedDeployment) -> Mismatch | None:
    """Return the mismatch if spec.selector was changed without admission: it matches none of the workloads, and a
    workload was created with another selector, which workloads never change.

    If only labels of workloads were changed, the workloads still have the selector, and they are released.
    """
    selector = selector_of(snapshot.united.spec.selector)
    workloads = [workload for workload in snapshot.workloads if not workload.is_deleting]
    if selector is None or any(selector.matches(workload.labels) for workload in workloads):
        return None
    stored = encode_selector(msgspec.to_builtins(snapshot.united.spec.selector))
    for workload in workloads:
        managed = _read_selector(workload)
        if managed is not None and managed != stored:
            return Mismatch(managed=managed, stored=stored)
    return None


def _read_selector(workload: SubsetWorkload) -> str | None:
    """Read the selector of the UnitedDeployment from that of the workload, which also contains the subset label."""
    own = workload.spec.get("selector")
    if not isinstance(own, Mapping):
        return None
    labels = {name: value for name, value in (own.get("matchLabels") or {}).items() if name != SUBSET_LABEL}
    return encode_selector({**own, "matchLabels": labels})


def _note_missing_subset(workload: SubsetWorkload) -> Note:
    message = f"{type_of(workload.template)} {workload.name} has no subset label: it stays unchanged"
    return Note(reason="InvalidSubset", message=message, warning=True, again_after_s=_AGAIN_S)


def plan_adoption(united: ReadableUnitedView, workloads: Sequence[SubsetWorkload]) -> list[Stage]:
    """Stages that adopt these workloads, after a check that the UnitedDeployment still exists."""
    if not workloads:
        return []
    reference = united.build_reference(UNITED_DEPLOYMENTS)
    chains = [
        _set_owners(workload, [*workload.owners, reference], "it matches the selector and has no controller")
        for workload in workloads
    ]
    adopter = adopter_of(united, UNITED_DEPLOYMENTS)
    return [check_still_there(adopter), Stage(purpose=Purpose.ADOPT, chains=tuple(chains))]


def release(workloads: Sequence[tuple[SubsetWorkload, str]]) -> list[Stage]:
    """Stages that make these workloads orphans. The workloads and their pods are kept."""
    chains = [
        _set_owners(
            workload,
            [ref for ref in workload.owners if ref.get("uid") != uid],
            "the selector no longer matches the object",
        )
        for workload, uid in workloads
    ]
    return [Stage(purpose=Purpose.RELEASE, chains=tuple(chains))] if chains else []


def _set_owners(workload: SubsetWorkload, owners: Sequence[Document], because: str) -> Chain:
    """Set the owners. The patch replaces the whole list of owners, so it applies only to the resourceVersion of the
    snapshot.
    """
    action = patch_object(
        workload.resource, workload, {"metadata": {"ownerReferences": list(owners)}}, unchanged=True
    )
    return Chain(subject=workload.subset, steps=(Step(action=action, because=because),))
