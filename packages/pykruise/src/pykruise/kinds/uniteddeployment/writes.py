"""The writes of a plan for a UnitedDeployment, each with its reason and its events.

WantedWorkload, workloads, pods ──▶ plan_creation(), update(), plan_deletion(), mark() ──▶ chains ──▶ stage_of()
    ──▶ stages

Pure. If a write of the first stages fails, nothing else is written. After these stages, a failed write of one subset
does not block the others.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.snapshot import UnitedView
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workload_documents import WantedWorkload, document_of
from pykruise.kinds.uniteddeployment.workloads import RESERVED_LABEL, TEMPLATES, SubsetWorkload, type_of
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step

_FIRST: Final = (
    Purpose.REPORT_STATUS,
    Purpose.STORE_REVISION,
    Purpose.CHECK_ADOPTER,
    Purpose.ADOPT,
    Purpose.MARK_PODS,
)
"""Stages that must succeed: if one of these fails, nothing else is written."""


def plan_creation(wanted: WantedWorkload, united: UnitedView, *, name: str) -> Chain:
    """Create a workload. Raises PlacementError when its subset's patch cannot be applied."""
    kind = type_of(wanted.template)
    body = document_of(
        wanted,
        name=name,
        namespace=united.namespace,
        united=united.name,
        owner=united.build_reference(UNITED_DEPLOYMENTS),
    )
    step = Step(
        action=Create(resource=TEMPLATES[wanted.template], key=Key(united.namespace, name), body=body),
        because=f"subset {wanted.subset.name} has no {kind}",
        done=Note(
            reason="SuccessfulUpdateSubset", message=f"created {kind} {name} of subset {wanted.subset.name}"
        ),
        failed=Note(
            reason="FailedUpdateSubset",
            message=f"failed to create the {kind} of subset {wanted.subset.name}",
            warning=True,
        ),
    )
    return Chain(subject=wanted.subset.name, steps=(step,), has_random_name=True)


def update(workload: SubsetWorkload, body: Document, wanted: WantedWorkload) -> Chain:
    """Update a workload with this merge patch. A patch that was computed from the whole spec fails if the workload has
    changed since the snapshot. A patch of only replicas, partition and maxUnavailable does not check this.
    """
    is_whole = "metadata" in body
    subject, kind = workload.subset, type_of(workload.template)
    action = patch_object(workload.resource, workload, body, unchanged=is_whole)
    failed = Note(
        reason="FailedUpdateSubset",
        message=f"failed to update {kind} {workload.name} of subset {subject}",
        warning=True,
    )
    return Chain(
        subject=subject,
        steps=(Step(action=action, because=_describe_change(workload, wanted), failed=failed),),
    )


def _describe_change(workload: SubsetWorkload, wanted: WantedWorkload) -> str:
    result = []
    if workload.replicas != wanted.replicas:
        result.append(f"the replicas of subset {wanted.subset.name} must be {wanted.replicas}")
    if workload.revision != wanted.revision:
        result.append("the template has changed")
    return ", and ".join(result) or f"the fields of subset {wanted.subset.name} have changed"


def plan_deletion(workload: SubsetWorkload, because: str) -> Chain:
    """Delete a workload with its pods."""
    kind = type_of(workload.template)
    step = Step(
        action=delete_object(workload.resource, workload, propagation="Background"),
        because=because,
        done=Note(reason="SuccessfulUpdateSubset", message=f"deleted {kind} {workload.name}: {because}"),
        failed=Note(
            reason="FailedUpdateSubset", message=f"failed to delete {kind} {workload.name}", warning=True
        ),
    )
    return Chain(subject=workload.subset, steps=(step,))


def mark(pod: PodView, value: str) -> Chain:
    """Set the label that records whether a pod is reserved."""
    action = pod_patch(pod, {"metadata": {"labels": {RESERVED_LABEL: value}}})
    return make_pod_chain(
        pod,
        Step(action=action, because="it is in reserve" if value == "true" else "it is no longer in reserve"),
    )


def add_note(stage: Stage, failed: Note) -> Stage:
    """Return the stage with an event that each of its writes records if it fails."""
    chains = [
        msgspec.structs.replace(
            chain, steps=tuple(msgspec.structs.replace(step, failed=failed) for step in chain.steps)
        )
        for chain in stage.chains
    ]
    return msgspec.structs.replace(stage, chains=tuple(chains))


def stage_of(
    purpose: Purpose,
    chains: Sequence[Chain],
    *,
    ramp: bool = False,
    only_after: tuple[Purpose, ...] = (),
) -> list[Stage]:
    """Build a stage in which a failed write blocks neither other subsets nor other stages; empty if there are no
    chains.
    """
    if not chains:
        return []
    stage = Stage(
        purpose=purpose,
        chains=tuple(chains),
        ramp=ramp,
        regardless=True,
        is_independent=True,
        only_after=(*_FIRST, *only_after),
    )
    return [stage]
