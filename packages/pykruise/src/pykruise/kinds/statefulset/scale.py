"""Scaling of a StatefulSet: it creates missing pods, replaces finished pods, and deletes surplus pods.

StatefulSetWorkingSet ──▶ plan_scale() ──▶ Scale: the phase, and whether pods may be updated in the same plan

Pure. OrderedReady takes one step at a time: it creates pods from the lowest ordinal up, then deletes surplus pods from
the highest ordinal down. It updates pods only when no such step remains. Before that, it may update or delete only the
pod for which the next step waits: if the update or deletion has begun, if the pod is specified for deletion, or if the
option replace-never-ready-after-seconds replaces the pod. Parallel does everything at the same time, within
scaleStrategy's limit.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.statefulset.building import (
    POD_NAME_LABEL,
    StatefulSetRevisionChoice,
    build_identity_labels,
    build_pod_document,
)
from pykruise.kinds.statefulset.claims import (
    explain_leaving_claim,
    find_stale_claim,
    lacks_claim,
    lacks_volume,
    plan_claims,
    plan_owners,
)
from pykruise.kinds.statefulset.never_ready import NeverReady
from pykruise.kinds.statefulset.older_pods import explain_older_pod
from pykruise.kinds.statefulset.snapshot import StatefulSetView
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.kube.values.counts import format_count, format_first
from pykruise.plans.in_place import find_progress
from pykruise.plans.phases import (
    MOST_AT_ONCE,
    ChangePod,
    CreatePod,
    DecidedStage,
    Decision,
    DeletePod,
    PlanPhase,
    decide_deletion,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.states import LifecycleState, explain_waiting
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import FINISHED, PodView
from pykruise.pods.workload.pod_groups import PodGang
from pykruise.pods.workload.selector_guard import LOOK_AGAIN_S
from pykruise.runtime.plan import Chain, Note
from pykruise.runtime.reasons import Reason

TERMINATES: Final = Reason(Code.DEPARTING, "terminates; its successor is created afterwards")

_TAKEN_OUT = (
    LifecycleState.PREPARING_UPDATE,
    LifecycleState.UPDATING,
    LifecycleState.UPDATED,
    LifecycleState.PREPARING_DELETE,
)
"""Lifecycle states of a pod in an update or a deletion."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Writes of scaling, and the pods that may still be updated."""

    phase: PlanPhase = PlanPhase()
    may_update: bool = True
    """Whether pods may be updated at all in this plan."""
    only: str = ""
    """Name of the only pod that may be updated, because everything else waits for it."""
    exhausted: bool = False
    """Whether pods are missing and scaleStrategy.maxUnavailable is used up."""


class _Found:
    """Collects the writes that the inspected slots need."""

    def __init__(self, gang: PodGang | None = None) -> None:
        self.gang = gang
        self.create: list[CreatePod] = []
        self.replace: list[DeletePod | ChangePod] = []
        self.repair: list[ChangePod] = []
        self.claims: list[Chain] = []
        self.skipped: dict[str, Reason] = {}
        self.notes: list[Note] = []
        self.unmounted: list[str] = []
        """Pods that lack a volume."""

    @property
    def is_full(self) -> bool:
        return len(self.create) + len(self.replace) >= MOST_AT_ONCE

    def build_phase(
        self,
        surplus: DecidedStage | None = None,
        skipped: Mapping[str, Reason] = {},
        *,
        is_partial: bool = False,
    ) -> PlanPhase:
        """Build the phase, including the stage for surplus pods. Finished pods are deleted first, because their
        successors have the same names.
        """
        return PlanPhase(
            decided=(
                DecidedStage(purpose=Purpose.REPLACE_PODS, decisions=self.replace),
                DecidedStage(purpose=Purpose.KEEP_CLAIMS, decisions=self.claims),
                DecidedStage(purpose=Purpose.CREATE_PODS, decisions=self.create, ramp=True),
                DecidedStage(purpose=Purpose.REPAIR_PODS, decisions=self.repair, is_optional=True),
                *([surplus] if surplus else ()),
            ),
            skipped={**self.skipped, **skipped},
            notes=(*self.notes, *_make_unmounted_notes(self.unmounted)),
            is_partial=is_partial,
        )


def plan_scale(ws: StatefulSetWorkingSet, never_ready: NeverReady, gang: PodGang | None = None) -> Scale:
    """Plan the scale phase. `gang`: groups of new pods."""
    return _plan_parallel_scale(ws, gang) if ws.spec.is_parallel else _plan_ordered_scale(ws, never_ready)


def _fill_slot(
    ws: StatefulSetWorkingSet, slot: Slot, choice: StatefulSetRevisionChoice, value: _Found
) -> None:
    """Add the steps that give the slot its pod."""
    if slot.pod is None:
        _create_pod(ws, slot, choice, value)
    elif slot.pod.phase in FINISHED:
        _replace_pod(ws, slot.pod, value)
    else:
        _repair_pod(ws, slot, slot.pod, value)


def _keep_claims(ws: StatefulSetWorkingSet, value: _Found) -> None:
    """Correct the owners of the claims of all desired pods. The order of the pods and scaleStrategy.maxUnavailable do
    not apply here. When a set is scaled in and out again while its pods terminate, `whenScaled: Delete` has made the
    pods owners of their claims. Garbage collection would delete these claims together with the pods.
    """
    for pod in ws.slot_pods:
        if pod.is_deleting or pod.phase not in FINISHED:  # otherwise see _replace_pod()
            value.claims += (
                Chain(subject=step.action.key.name, steps=(step,))
                for step in plan_owners(ws, pod, is_surplus=False)
            )


def _has_available(ws: StatefulSetWorkingSet, slot: Slot) -> bool:
    pod = slot.pod
    return pod is not None and not pod.is_deleting and ws.is_available(pod)


# OrderedReady


def _plan_ordered_scale(ws: StatefulSetWorkingSet, never_ready: NeverReady) -> Scale:
    result = _Found()
    _keep_claims(ws, result)
    choice = StatefulSetRevisionChoice(ws)
    for slot in ws.slots:
        pod = slot.pod
        _fill_slot(ws, slot, choice, result)
        if _has_available(ws, slot):
            continue
        advances = False
        if pod is not None and pod.phase not in FINISHED:
            result.skipped.setdefault(pod.name, _explain_unavailability(ws, slot, pod, never_ready))
            advances = not pod.is_deleting and (
                pod.state in _TAKEN_OUT or pod.is_specified_delete or never_ready.is_due(pod)
            )
        # An update or deletion that took the pod out of service continues, because nothing else brings it back.
        return Scale(phase=result.build_phase(), may_update=advances, only=slot.name)
    if not ws.surplus:
        return Scale(phase=result.build_phase())
    # Updates wait until no surplus pod remains.
    return Scale(phase=result.build_phase(*_delete_surplus_in_order(ws)), may_update=False)


def _delete_surplus_in_order(ws: StatefulSetWorkingSet) -> tuple[DecidedStage, dict[str, Reason]]:
    """Delete the highest surplus pod when nothing blocks it."""
    pod, *others = ws.surplus
    decision: DeletePod | ChangePod | Reason
    if pod.is_deleting:
        decision = Reason(Code.DEPARTING, "terminates; the next surplus pod is deleted afterwards")
    else:
        decision = _explain_waiting_surplus(ws, pod) or _decide_surplus(ws, pod)
    decisions = [
        *_list_surplus_writes(ws, pod, decision),
        *(chain for other in others for chain in _list_surplus_writes(ws, other, None)),
    ]
    skipped = {pod.name: decision} if isinstance(decision, Reason) else {}
    later = Reason(Code.TURN, f"is surplus, and is deleted after pod {pod.name}")
    skipped |= {pod.name: later for pod in others}
    return DecidedStage(purpose=Purpose.DELETE_SURPLUS_PODS, decisions=decisions), skipped


def _explain_waiting_surplus(ws: StatefulSetWorkingSet, pod: PodView) -> Reason | None:
    """Return the reason why the highest surplus pod waits; None: it may be deleted. A pod that has ended, or that is
    taken out of service for its deletion, will not become available, so it waits for nothing.
    """
    if pod.phase in FINISHED or pod.state == LifecycleState.PREPARING_DELETE or ws.is_available(pod):
        return None
    if not ws.first_unhealthy:
        message = f"is surplus, but has not been ready for {ws.limits.min_ready_seconds} s yet"
        return Reason(Code.MIN_READY_SECONDS, message)
    if pod.name == ws.first_unhealthy:
        return None
    message = f"is surplus, but not available, and pod {ws.first_unhealthy} is not healthy either"
    return Reason(Code.TURN, message, "find out why that pod is not healthy")


# Parallel


def _plan_parallel_scale(ws: StatefulSetWorkingSet, gang: PodGang | None) -> Scale:
    result = _Found(gang)
    _keep_claims(ws, result)
    choice = StatefulSetRevisionChoice(ws, creates_current=gang is not None and gang.creates_current)
    budget = ws.limits.scale_max_unavailable
    exhausted = False
    is_partial = False
    for index, slot in enumerate(ws.slots):
        if result.is_full:
            is_partial = True
            break
        _fill_slot(ws, slot, choice, result)
        if budget is not None and not _has_available(ws, slot):
            budget -= 1
            if budget <= 0:
                exhausted = any(
                    slot.pod is None or slot.pod.phase in FINISHED for slot in ws.slots[index + 1 :]
                )
                break
    if exhausted:
        result.notes.append(_make_limit_note(ws))
    surplus, skipped, is_surplus_partial = _delete_surplus_together(ws)
    phase = result.build_phase(surplus, skipped, is_partial=is_partial or is_surplus_partial)
    return Scale(phase=phase, exhausted=exhausted)


def _make_limit_note(ws: StatefulSetWorkingSet) -> Note:
    limit = ws.limits.scale_max_unavailable
    message = (
        f"more pods are missing than scaleStrategy.maxUnavailable ({limit}) allows to create at the same time"
    )
    return Note(reason="ScaleUpLimited", message=message, again_after_s=LOOK_AGAIN_S)


def _delete_surplus_together(ws: StatefulSetWorkingSet) -> tuple[DecidedStage, dict[str, Reason], bool]:
    """Delete all surplus pods that can be deleted now. The last value: whether the next plan deletes further pods.

    Only writes count against the limit of one plan: pods that terminate, or that wait for their hook, do not delay
    the deletion of others.
    """
    decisions: list[Decision] = []
    skipped: dict[str, Reason] = {}
    is_partial = False
    for pod in ws.surplus:
        if len(decisions) >= MOST_AT_ONCE:
            is_partial = True
            break
        decision = Reason(Code.DEPARTING, "terminates") if pod.is_deleting else _decide_surplus(ws, pod)
        if isinstance(decision, Reason):
            skipped[pod.name] = decision
        decisions += _list_surplus_writes(ws, pod, decision)
    # A quota that prevents the creation of pods must not prevent the deletion of surplus pods, which use up the
    # quota.
    stage = DecidedStage(purpose=Purpose.DELETE_SURPLUS_PODS, decisions=decisions, ramp=True, regardless=True)
    return stage, skipped, is_partial


# One surplus pod


def _decide_surplus(ws: StatefulSetWorkingSet, pod: PodView) -> DeletePod | ChangePod | Reason:
    return decide_deletion(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because="surplus")


def _list_surplus_writes(
    ws: StatefulSetWorkingSet, pod: PodView, decision: DeletePod | ChangePod | Reason | None
) -> Sequence[Decision]:
    """Return the writes for a surplus pod: first patches that set the owners of its claims, then the deletion or change
    of the pod, if it may be deleted now.
    """
    steps = plan_owners(ws, pod, is_surplus=True)
    if decision is None or isinstance(decision, Reason):
        return [Chain(subject=pod.name, steps=steps)] if steps else ()
    return [msgspec.structs.replace(decision, before=steps)]


def _make_unmounted_notes(names: list[str]) -> list[Note]:
    """One event about all pods that lack volumes, because the claim templates were added after the pods
    were created.
    """
    if not names:
        return []
    shown = format_first(names, 10)
    message = (
        f"{format_count(len(names), 'pod was', 'pods were')} created before spec.volumeClaimTemplates "
        "changed; they mount "
        f"the volumes of the current templates after they are recreated: {shown}"
    )
    return [Note(reason="ClaimsNotMounted", message=message, warning=True, again_after_s=math.inf)]


# One slot


def _create_pod(
    ws: StatefulSetWorkingSet, slot: Slot, choice: StatefulSetRevisionChoice, value: _Found
) -> None:
    revision = choice.choose_revision(slot)
    if slot.name in ws.snapshot.taken:
        value.skipped[slot.name] = _explain_taken_name(ws.snapshot.taken[slot.name], ws.snapshot.statefulset)
        return
    if stale := find_stale_claim(ws, slot):
        message = f"is not created until PVC {stale.name} of its old pod is deleted"
        value.skipped[slot.name] = explain_leaving_claim(stale, message)
        return
    steps, waits = plan_claims(ws, slot)
    if waits:
        value.skipped[slot.name] = waits
        if steps:
            value.claims.append(Chain(subject=f"claims of {slot.name}", steps=steps))
        return
    group = value.gang.group_of(revision, update=ws.update) if value.gang is not None else ""
    creation = CreatePod(
        subject=slot.name,
        document=build_pod_document(ws, slot, revision, group=group),
        because=f"the pod is missing; the new pod has revision {revision.name}",
        created=f"created pod {slot.name}",
        failed=f"failed to create pod {slot.name}",
        before=steps,
        has_random_name=False,
    )
    value.create.append(creation)


def _explain_taken_name(pod: PodView, statefulset: StatefulSetView) -> Reason:
    """Return the reason of a pod that cannot be created, because this other pod has its name."""
    name, owner = pod.name, pod.controller
    if owner is None:
        return Reason(
            Code.NAME_TAKEN,
            f"pod {name} exists already: it has no owner, and its labels do not match spec.selector",
            f"delete pod {name} if nothing needs it, or create that pod again with another name",
        )
    rename = "create this StatefulSet again with another name"
    if statefulset.may_own(pod):
        command = f"kubectl delete {owner.argument} -n {pod.namespace} {owner.name} --cascade=orphan"
        end = f"delete {owner.full_name}, but keep its pods ({command}): this StatefulSet then adopts and updates them"
    else:
        end = f"delete {owner.full_name}, or scale it down: when you delete only the pod, it creates the pod again"
    return Reason(
        Code.NAME_TAKEN,
        f"pod {name} exists already: it belongs to {owner.full_name}",
        f"{end}; or {rename}",
    )


def _replace_pod(ws: StatefulSetWorkingSet, pod: PodView, value: _Found) -> None:
    """Delete a finished pod so that its successor can be created."""
    if pod.is_deleting:
        value.skipped[pod.name] = TERMINATES
        return
    because = f"has ended ({pod.phase}); its successor is created afterwards"
    decision = decide_deletion(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=because)
    if isinstance(decision, Reason):
        value.skipped[pod.name] = decision
    else:
        # A pod that was surplus owns its claims. They must not be deleted together with the pod.
        steps = plan_owners(ws, pod, is_surplus=False)
        value.replace.append(msgspec.structs.replace(decision, before=steps))


def _repair_pod(ws: StatefulSetWorkingSet, slot: Slot, pod: PodView, value: _Found) -> None:
    """Repair a pod that runs or starts soon: its missing claims, and the labels with its ordinal."""
    if pod.is_deleting:
        return
    if pod.phase == "Pending" and lacks_claim(ws, slot.ordinal):
        steps, waits = plan_claims(ws, slot)
        if steps:
            value.claims.append(Chain(subject=f"claims of {slot.name}", steps=steps))
        if waits:
            value.skipped[pod.name] = waits
    if pod.labels.get(POD_NAME_LABEL) != pod.name:
        value.repair.append(_label_pod(ws, slot, pod))
    if lacks_volume(ws, pod, slot.ordinal):
        value.unmounted.append(pod.name)


def _label_pod(ws: StatefulSetWorkingSet, slot: Slot, pod: PodView) -> ChangePod:
    return ChangePod(
        pod=pod,
        metadata={"labels": build_identity_labels(ws, slot)},
        because="it lacks the label with its name",
        done=Note(reason="SuccessfulUpdate", message=f"repaired the labels of pod {pod.name}"),
        failed=Note(
            reason="FailedUpdate", message=f"failed to repair the labels of pod {pod.name}", warning=True
        ),
    )


def _explain_unavailability(
    ws: StatefulSetWorkingSet, slot: Slot, pod: PodView, never_ready: NeverReady
) -> Reason:
    if pod.is_deleting:
        return TERMINATES
    under_way = find_progress(pod, now=ws.now, settings=ws.settings.in_place).waits
    if reason := under_way or explain_waiting(pod, ws.spec.lifecycle):
        return reason
    if pod.is_ready:
        message = f"must be ready for {ws.limits.min_ready_seconds} s before the next pod is created"
        return Reason(Code.MIN_READY_SECONDS, message)
    if older := explain_older_pod(ws, slot, never_ready):
        return older
    return Reason(
        Code.NOT_READY, "is not ready; the other pods wait for it", "find out why the pod is not ready"
    )
