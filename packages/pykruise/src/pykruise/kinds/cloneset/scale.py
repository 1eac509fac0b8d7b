"""Scaling of a CloneSet: it creates missing pods and deletes specified or surplus pods.

CloneSetWorkingSet + Numbers ──▶ plan_scale() ──▶ PlanPhase

Pure. One plan does the first of these that applies: keep pods whose deletion is no longer needed; create missing
pods; delete pods (first those that wait in PreparingDelete, then specified ones, then surplus ones).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.claims import NewPod
from pykruise.kinds.cloneset.limits import NONE_MAY_GO, Numbers, allows_none
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.phases import MOST_AT_ONCE, PlanPhase, delete_steps, pod_chain, stage_of, state_step
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import with_ready_gates
from pykruise.pods.lifecycle.ordering import deletion_order
from pykruise.pods.lifecycle.states import LifecycleState, state_metadata
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import pod_metadata
from pykruise.pods.view import keys
from pykruise.pods.view.names import pod_name
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import with_claim_volumes
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.plan import Chain, Note, Step
from pykruise.runtime.reasons import Reason

_LEAVES_CLAIMS: Final = Reason(
    Code.DEPARTING, "terminates; a pod of the same name then takes over its claims"
)


def plan_scale(ws: CloneSetWorkingSet) -> PlanPhase:
    """Plan the scale phase. When it has stages, the number of pods changes and updates wait."""
    kept = _keep(ws)
    if kept:
        return kept
    numbers = ws.scale_numbers
    notes = _limit_note(ws, numbers)
    created = _create_pods(ws, numbers)
    if created.stages:
        return msgspec.structs.replace(created, notes=notes)
    # This also runs when creations are limited: a pod that is being deleted may be the cause.
    going = _delete(ws, numbers)
    return msgspec.structs.replace(going, notes=notes, skipped={**created.skipped, **going.skipped})


def _sort_by_name(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: pod.name)


def _limit_note(ws: CloneSetWorkingSet, numbers: Numbers) -> tuple[Note, ...]:
    if numbers.create <= numbers.create_now:
        return ()
    limit = ws.limits.scale_max_unavailable
    message = (
        f"creating {numbers.create_now} of {numbers.create} missing pods now: "
        f"scaleStrategy.maxUnavailable is {limit}"
    )
    return (Note(reason="ScaleUpLimited", message=message, warning=True),)


# Pods whose deletion is no longer needed


def _keep(ws: CloneSetWorkingSet) -> PlanPhase | None:
    """Return pods in PreparingDelete to PreparingNormal when they are needed again."""
    if not ws.pre_deleting:
        return None
    if ws.spec.hooks.marks_not_ready:
        return None  # no later step would remove the not-ready mark
    wanted = ws.limits.replicas - len(ws.pods) + len(ws.leaving)
    to_delete = {pod.name for pod in ws.to_delete}
    back = [pod for pod in _sort_by_name(ws.pre_deleting) if pod.name not in to_delete][: max(wanted, 0)]
    if not back:
        return None
    because = "its deletion is no longer wanted"
    state = LifecycleState.PREPARING_NORMAL
    chains = (pod_chain(pod, state_step(pod, state, now=ws.now, because=because)) for pod in back)
    return PlanPhase(stages=stage_of(Purpose.KEEP_PODS, chains))


# Creating


def _create_pods(ws: CloneSetWorkingSet, numbers: Numbers) -> PlanPhase:
    """Create first the missing pods of the current revision, then those of the update revision."""
    if numbers.create_now <= 0:
        return PlanPhase()
    awaited, new_pods = ws.claims.awaited, ws.claims.new_pods
    skipped = {pod.name: _LEAVES_CLAIMS for pod in ws.snapshot.pods if pod.instance_id in awaited}
    chains: list[Chain] = []
    for revision, chosen in (
        (ws.current, new_pods[: numbers.create_old]),
        (ws.update, new_pods[numbers.create_old :]),
    ):
        because = f"{numbers.create} missing; built from revision {revision.name}"
        documents = pod_documents(ws, revision, chosen)
        for new_pod, document in zip(chosen, documents, strict=True):
            chains.append(_create_chain(document, because, claims=new_pod.missing))
    stages = stage_of(Purpose.CREATE_PODS, chains, ramp=True)
    return PlanPhase(stages=stages, skipped=skipped, is_partial=numbers.create_now > MOST_AT_ONCE)


def _create_chain(document: Document, because: str, *, claims: tuple[Step, ...]) -> Chain:
    name = document["metadata"]["name"]
    step = Step(
        action=Create(resource=PODS, key=Key(document["metadata"]["namespace"], name), body=document),
        because=because,
        done=Note(reason="SuccessfulCreate", message=f"created pod {name}"),
        failed=Note(reason="FailedCreate", message="failed to create a pod", warning=True),
    )
    return Chain(subject=name, steps=(*claims, step), has_random_name=True)


def pod_documents(
    ws: CloneSetWorkingSet, revision: RevisionView, new_pods: Sequence[NewPod]
) -> Iterator[Document]:
    """Build new pods of a revision. The documents share their common parts, so callers must not change them."""
    owner = ws.snapshot.cloneset
    metadata = pod_metadata(revision.template)
    state = state_metadata(LifecycleState.PREPARING_NORMAL, now=ws.now)
    labels = {
        **(metadata.get("labels") or {}),
        keys.REVISION_LABEL: ws.label_of(revision),
        keys.TEMPLATE_HASH_LABEL: revision.hash,
        **state["labels"],
    }
    shared: Document = {
        "generateName": f"{owner.name}-",  # for clients that read it; the name itself is already chosen
        "namespace": owner.namespace,
        "annotations": {**(metadata.get("annotations") or {}), **state["annotations"]},
        "ownerReferences": [owner.owner_reference],
    }
    if metadata.get("finalizers"):
        shared["finalizers"] = metadata["finalizers"]
    spec = with_ready_gates(revision.template.get("spec") or {})
    for new_pod in new_pods:
        yield {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "name": pod_name(owner.name, new_pod.instance_id),
                **shared,
                "labels": {**labels, keys.INSTANCE_ID_LABEL: new_pod.instance_id},
            },
            "spec": with_claim_volumes(spec, new_pod.claim_names),
        }


# Deleting


class Parting(msgspec.Struct):
    """Deletions in order, limited by a budget of serving pods. A pod that does not serve costs no budget."""

    ready_budget: int
    chains: list[Chain]
    skipped: dict[str, Reason]
    is_partial: bool = False


def part(ws: CloneSetWorkingSet, pods: Iterable[PodView], *, ready_budget: int, why: str) -> Parting:
    """Delete pods in order within the budget. Specified deletion, scale-in and recreation use this same rule."""
    parting = Parting(ready_budget=ready_budget, chains=[], skipped={})
    for pod in pods:
        if len(parting.chains) == MOST_AT_ONCE:
            parting.is_partial = True
            parting.skipped[pod.name] = Reason(Code.TURN, f"{why}; other pods are deleted first")
            continue
        if pod.is_serving and parting.ready_budget <= 0:
            used_up = Reason(Code.BUDGET, f"{why}, but maxUnavailable is used up")
            parting.skipped[pod.name] = NONE_MAY_GO if allows_none(ws.limits) else used_up
            continue
        parting.ready_budget -= pod.is_serving
        because = f"{why}, within maxUnavailable" if pod.is_serving else f"{why}, and not serving"
        steps, waits = _delete_steps(ws, pod, because=because)
        if steps:
            parting.chains.append(pod_chain(pod, *steps))
        elif waits is not None:
            parting.skipped[pod.name] = waits
    return parting


def _delete_steps(
    ws: CloneSetWorkingSet, pod: PodView, *, because: str
) -> tuple[tuple[Step, ...], Reason | None]:
    """Return the steps that delete the pod with its claims, or no steps and the reason for waiting."""
    steps, waits = delete_steps(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=because)
    is_deleted = any(isinstance(step.action, Delete) for step in steps)
    return ws.claims.follow(pod, steps) if is_deleted else steps, waits


def _delete(ws: CloneSetWorkingSet, numbers: Numbers) -> PlanPhase:
    """Delete pods in PreparingDelete, then specified pods, then surplus pods. The first group that can act ends the
    phase.
    """
    skipped: dict[str, Reason] = {}
    for parting in _list_partings(ws, numbers):
        skipped |= parting.skipped
        if parting.chains:
            stages = stage_of(Purpose.DELETE_PODS, parting.chains)
            return PlanPhase(stages=stages, skipped=skipped, is_partial=parting.is_partial)
    return PlanPhase(skipped=skipped)


def _list_partings(ws: CloneSetWorkingSet, numbers: Numbers) -> Iterator[Parting]:
    waiting = _sort_by_name(ws.pre_deleting)
    # These pods are already out of service, so no budget applies.
    yield part(ws, waiting, ready_budget=len(waiting), why="was waiting in PreparingDelete")
    # Pods in PreparingDelete do not serve, so they cost no budget again.
    specified = _sort_by_name(ws.to_delete)
    if specified:
        yield part(ws, specified, ready_budget=numbers.ready_budget, why="specified for deletion")
    elif not waiting:  # otherwise a later plan handles the surplus, when these pods no longer exist
        yield part(ws, _victims(ws, numbers), ready_budget=numbers.ready_budget, why="surplus")


def _victims(ws: CloneSetWorkingSet, numbers: Numbers) -> list[PodView]:
    """Select surplus pods: as many of older revisions as exceed the partition, the rest of the update revision."""
    if numbers.remove <= 0:  # true in most plans, which then inspect no pod
        return []
    old_count = min(numbers.remove, numbers.remove_old)
    old: list[PodView] = []
    new: list[PodView] = []
    for pod, mark in zip(ws.pods, ws.scale_marks, strict=True):
        (new if mark.is_new else old).append(pod)
    return [
        *_select_first_victims(ws, old, old_count),
        *_select_first_victims(ws, new, numbers.remove - old_count),
    ]


def _select_first_victims(ws: CloneSetWorkingSet, pods: list[PodView], count: int) -> list[PodView]:
    if count <= 0:
        return []
    unavailable = {pod.name for pod in ws.unavailable}
    constraints = (ws.update.template.get("spec") or {}).get("topologySpreadConstraints") or ()
    return deletion_order(
        pods,
        available=lambda pod: pod.name not in unavailable,
        topology_keys=[constraint.get("topologyKey", "") for constraint in constraints],
        node_labels=ws.snapshot.node_labels,
    )[:count]
