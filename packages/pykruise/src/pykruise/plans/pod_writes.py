"""Writes of a plan. Only this module turns decisions about pods into API writes.

PlanPhase ──▶ write_phases() ──▶ stages of the Plan
chains    ──▶ stage_of()     ──▶ a stage of other writes

Pure; used by every kind. If a decision depends on the state of a pod, its write fails if the pod has changed.
"""

from collections.abc import Iterable
from functools import partial
from typing import assert_never

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.plans.phases import (
    ChangePod,
    CreatePod,
    Decision,
    DeletePod,
    PlanPhase,
    SpecifyPod,
    SpendBudget,
    UpdatePod,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import spend_for_updates
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step


def write_phases(*phases: PlanPhase) -> tuple[Stage, ...]:
    """Return the stages with the writes of all decisions of these phases, in the order of the phases. Stages with
    `is_last` are at the end.
    """
    stages = [stage for phase in phases for stage in phase.stages]
    return tuple(
        Stage(
            purpose=stage.purpose,
            chains=tuple(chain_of(decision) for decision in stage.decisions),
            ramp=stage.ramp,
            is_optional=stage.is_optional,
            regardless=stage.regardless,
            is_independent=stage.is_independent,
            only_after=stage.only_after,
            instead_of=stage.instead_of,
        )
        for stage in sorted(stages, key=lambda stage: stage.is_last)
    )


def write_pod_phases(*phases: PlanPhase, prepared: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return the stages like `write_phases`, but a failure in one stage does not prevent the others: the snapshot
    determines the limits of each stage, and not the results of other stages. `prepared`: earlier stages that must
    succeed first, such as the one that stores the revision.
    """
    required = tuple(dict.fromkeys(stage.purpose for stage in prepared))
    return tuple(
        stage
        if stage.regardless
        else msgspec.structs.replace(stage, regardless=True, only_after=(*required, *stage.only_after))
        for stage in write_phases(*phases)
    )


def chain_of(decision: Decision) -> Chain:
    """Return the writes of one decision."""
    match decision:
        case CreatePod():
            steps = (*decision.before, _create_step(decision))
            return Chain(subject=decision.subject, steps=steps, has_random_name=decision.has_random_name)
        case DeletePod():
            steps = (*decision.before, _delete_step(decision), *decision.after)
        case ChangePod():
            steps = (*decision.before, _build_change_step(decision))
        case UpdatePod():
            steps = _build_update_steps(decision)
        case SpecifyPod():
            steps = (_specify_step(decision),)
        case SpendBudget():
            steps = (_build_spend_step(decision),)
        case Chain():
            return decision
        case _:
            assert_never(decision)
    return Chain(subject=decision.subject, steps=steps)


def stage_of(
    purpose: Purpose,
    chains: Iterable[Chain],
    *,
    is_optional: bool = False,
    regardless: bool = False,
    only_after: tuple[Purpose, ...] = (),
) -> tuple[Stage, ...]:
    """Return a stage with these chains; empty if there are no chains."""
    result = tuple(chains)
    if not result:
        return ()
    stage = Stage(
        purpose=purpose,
        chains=result,
        is_optional=is_optional,
        regardless=regardless,
        only_after=only_after,
    )
    return (stage,)


def make_pod_key(pod: PodView) -> Key:
    """Return the key for writes to the pod."""
    return Key(pod.namespace, pod.name)


pod_patch = partial(patch_object, PODS, patch_type=PatchType.STRATEGIC)
"""`pod_patch(pod, body)` returns a patch of this pod, and of no other pod with its name. Options as of
`patch_object`.
"""


def make_pod_chain(pod: PodView, *steps: Step) -> Chain:
    """Return the writes to one pod as a chain."""
    return Chain(subject=pod.name, steps=steps)


# One decision


def _create_step(decision: CreatePod) -> Step:
    key = Key(decision.document["metadata"]["namespace"], decision.subject)
    return Step(
        action=Create(resource=PODS, key=key, body=decision.document),
        because=decision.because,
        done=Note(reason="SuccessfulCreate", message=decision.created),
        failed=Note(reason="FailedCreate", message=decision.failed, warning=True),
    )


def _delete_step(decision: DeletePod) -> Step:
    pod = decision.pod
    return Step(
        action=delete_object(PODS, pod, unchanged=decision.unchanged),
        because=decision.because,
        done=Note(reason="SuccessfulDelete", message=f"deleted pod {pod.name}: {decision.because}"),
        failed=Note(reason="FailedDelete", message=f"failed to delete pod {pod.name}", warning=True),
        also=decision.also,
    )


def _build_change_step(decision: ChangePod) -> Step:
    """Return one write for metadata and conditions. A patch of the status can also contain metadata."""
    body: Document = {}
    if decision.metadata:
        body["metadata"] = decision.metadata
    if decision.conditions:
        body["status"] = {"conditions": list(decision.conditions)}
    subresource = "status" if decision.conditions else ""
    return Step(
        action=pod_patch(decision.pod, body, subresource=subresource, unchanged=decision.unchanged),
        because=decision.because,
        done=decision.done,
        failed=decision.failed,
    )


def _build_spend_step(decision: SpendBudget) -> Step:
    pods = [pod.name for pod in decision.pods]
    action = spend_for_updates(decision.budget, pods, now=decision.now)
    count = format_count(len(pods), "of its pods is", "of its pods are")
    return Step(action=action, because=f"{count} updated")


def _build_update_steps(decision: UpdatePod) -> tuple[Step, ...]:
    """Return the writes of an in-place update. The messages of its events at the beginning are those of OpenKruise,
    because alerts search for them.
    """
    pod, writes, revision = decision.pod, decision.writes, decision.revision
    failed = (
        f"failed to update pod {pod.name} in-place(revision {revision})"
        if revision
        else f"failed to continue the in-place update of pod {pod.name}"
    )
    last = len(writes) - 1 if revision else None
    # The first write that is not a dry run changes the resourceVersion, so later writes must not contain it.
    first = next((number for number, write in enumerate(writes) if not write.is_dry_run), 0)
    # The update of a pod that does not serve uses no budget. The write fails if the pod has become ready meanwhile.
    unchanged = bool(revision) and not pod.is_serving
    return tuple(
        Step(
            action=pod_patch(
                pod,
                write.body,
                subresource=write.subresource,
                unchanged=(write.checked or unchanged) and number <= first,
                is_dry_run=write.is_dry_run,
            ),
            because=write.because,
            done=_note_begun(pod, revision) if number == last else None,
            failed=Note(reason="FailedUpdatePodInPlace", message=failed, warning=True),
        )
        for number, write in enumerate(writes)
    )


def _note_begun(pod: PodView, revision: str) -> Note:
    message = f"successfully update pod {pod.name} in-place(revision {revision})"
    return Note(reason="SuccessfulUpdatePodInPlace", message=message)


def _specify_step(decision: SpecifyPod) -> Step:
    body = {"metadata": {"labels": {keys.SPECIFIED_DELETE_LABEL: "true"}}}
    return Step(
        action=pod_patch(decision.pod, body, unchanged=decision.unchanged),
        because=decision.because,
        done=decision.done,
        failed=decision.failed,
    )
