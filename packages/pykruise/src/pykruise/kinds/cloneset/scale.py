"""Scaling of a CloneSet: it creates missing pods and deletes specified or surplus pods.

CloneSetWorkingSet + Numbers ──▶ plan_scale() ──▶ PlanPhase

Pure. A plan contains only the first of these actions that is needed: keep pods whose deletion is no longer needed;
create missing pods; delete pods (first pods in PreparingDelete, then specified pods, then surplus pods). If the API
server has rejected writes, the plan also contains the following actions. They are carried out only if all writes of the
first action are rejected again. For example, a pod that must be deleted perhaps uses up the quota for missing pods.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.claims import NewPod
from pykruise.kinds.cloneset.deletions import delete_within_budget
from pykruise.kinds.cloneset.differences import label_of
from pykruise.kinds.cloneset.evictions import choose_revision
from pykruise.kinds.cloneset.limits import Numbers
from pykruise.kinds.cloneset.pod_group import REPLACED_LATER, list_superfluous_pods
from pykruise.kinds.cloneset.status import is_write_refused
from pykruise.kinds.cloneset.successor_placement import choose_predecessors, place_near
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.plans.phases import (
    MOST_AT_ONCE,
    ChangePod,
    CreatePod,
    DecidedStage,
    PlanPhase,
    list_alternatives,
    skip,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import add_ready_gates
from pykruise.pods.lifecycle.ordering import sort_for_deletion
from pykruise.pods.lifecycle.readiness import PRE_DELETE_HOOK, remove_hold
from pykruise.pods.lifecycle.states import LifecycleState, build_state_metadata
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import read_pod_metadata
from pykruise.pods.view import keys
from pykruise.pods.view.names import format_pod_name
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import add_claim_volumes
from pykruise.pods.workload.options import POD_REPLACEMENT_POLICY, PodReplacementPolicy
from pykruise.pods.workload.pod_groups import add_group
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.plan import Note
from pykruise.runtime.reasons import Reason

_LEAVES_CLAIMS: Final = Reason(
    Code.DEPARTING, "terminates; after that, a new pod of the same name uses its claims"
)

_OCCUPIES: Final = Reason(
    Code.DEPARTING,
    f"terminates; no pod is created in its place before it has ended ({POD_REPLACEMENT_POLICY.annotation}: "
    f"{PodReplacementPolicy.FAILED})",
)


def plan_scale(ws: CloneSetWorkingSet) -> PlanPhase:
    """Plan the scale phase. If the result has stages, the number of pods changes, and no update begins in this plan,
    unless all of these writes are rejected.
    """
    is_refused = is_write_refused(ws)
    kept = _keep_pods(ws)
    if kept.stages and not is_refused:
        return kept
    numbers = ws.scale_numbers
    notes = _make_limit_notes(ws, numbers)
    created = _create_pods(ws, numbers)
    skipped = {**_skip_occupying(ws, numbers), **created.skipped}
    if kept.stages or (created.stages and not is_refused):
        # Pods to keep are in PreparingDelete, so no deletion is planned beside them.
        stages = list_alternatives(kept, created)
        return msgspec.structs.replace(created, decided=stages, notes=notes, skipped=skipped)
    # This also runs if a limit prevents creations: a pod that must be deleted may use up the limit.
    going = _delete(ws, numbers)
    return PlanPhase(
        decided=list_alternatives(created, going),
        skipped={**skipped, **_skip_kept_group(ws, numbers), **going.skipped},
        notes=notes,
        is_partial=going.is_partial or (created.is_partial and bool(created.stages)),
    )


def _skip_occupying(ws: CloneSetWorkingSet, numbers: Numbers) -> dict[str, Reason]:
    """Return the terminating pods that must end before further pods are created, each with the reason."""
    return skip(ws.occupying or (), _OCCUPIES) if numbers.create_held else {}


def _skip_kept_group(ws: CloneSetWorkingSet, numbers: Numbers) -> dict[str, Reason]:
    """Return the pods of an older group that are kept until the new group is complete, each with the reason."""
    is_kept = ws.is_group_incomplete and numbers.remove > 0
    return skip(ws.old, REPLACED_LATER) if is_kept else {}


def _sort_by_name(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: pod.name)


def _make_limit_notes(ws: CloneSetWorkingSet, numbers: Numbers) -> tuple[Note, ...]:
    allowed = numbers.create_now + numbers.create_held
    if numbers.create <= allowed:
        return ()
    limit = ws.limits.scale_max_unavailable
    message = (
        f"creating {allowed} of {numbers.create} missing pods now: scaleStrategy.maxUnavailable is {limit}"
    )
    return (Note(reason="ScaleUpLimited", message=message, warning=True),)


# Pods whose deletion is no longer needed


def _keep_pods(ws: CloneSetWorkingSet) -> PlanPhase:
    """Plan to return pods from PreparingDelete to PreparingNormal, if they are needed again."""
    if not ws.pre_deleting:
        return PlanPhase()
    # As in OpenKruise, no deletion is cancelled while a hook makes pods not ready.
    if ws.spec.hooks.marks_not_ready:
        return PlanPhase()
    wanted = ws.limits.replicas - len(ws.pods) + len(ws.leaving)
    to_delete = {pod.name for pod in ws.to_delete}
    back = [pod for pod in _sort_by_name(ws.pre_deleting) if pod.name not in to_delete][: max(wanted, 0)]
    if not back:
        return PlanPhase()
    decisions = [_keep_pod(pod, now=ws.now) for pod in back]
    return PlanPhase(decided=(DecidedStage(purpose=Purpose.KEEP_PODS, decisions=decisions),))


def _keep_pod(pod: PodView, *, now: Instant) -> ChangePod:
    """Return the write that cancels the deletion. It also makes the pod ready again, because no later write does: the
    hook may have made the pod not ready before the hook's field `markPodNotReady` was removed.
    """
    conditions = remove_hold(pod, PRE_DELETE_HOOK, now=now)
    return ChangePod(
        pod=pod,
        metadata=build_state_metadata(LifecycleState.PREPARING_NORMAL, now=now),
        conditions=conditions,
        because="its deletion is no longer wanted",
        # Several programs write this condition. The write fails if the condition has changed since it was read.
        unchanged=bool(conditions),
    )


# Creating


def _create_pods(ws: CloneSetWorkingSet, numbers: Numbers) -> PlanPhase:
    """Create first the missing pods of the current revision, then those of the update revision."""
    if numbers.create_now <= 0 and not ws.evicted:
        return PlanPhase()
    awaited, new_pods = ws.claims.awaited, ws.claims.new_pods
    skipped = {pod.name: _LEAVES_CLAIMS for pod in ws.snapshot.pods if pod.instance_id in awaited}
    decisions: list[CreatePod] = []
    missing, successors = new_pods[: numbers.create_now], new_pods[numbers.create_now :]
    is_held = ws.gang is not None and ws.gang.creates_current
    create_old = numbers.create_now if is_held else numbers.create_old
    predecessors = choose_predecessors(ws)
    for revision, chosen in (
        (ws.current, missing[:create_old]),
        (ws.update, missing[create_old:]),
    ):
        missing_pods = format_count(numbers.create, "pod is", "pods are")
        because = f"{missing_pods} missing; the new pod has revision {revision.name}"
        for new_pod, document in zip(chosen, build_pod_documents(ws, revision, chosen), strict=True):
            predecessor = next(predecessors, None)
            decisions.append(_decide_creation(ws, new_pod, document, because, predecessor=predecessor))
    # There may be fewer successors than evicted pods: new pods wait for ids of terminating pods with claims.
    for pod, new_pod in zip(ws.evicted, successors, strict=False):
        decisions.append(_create_successor(ws, pod, new_pod))
    stage = DecidedStage(purpose=Purpose.CREATE_PODS, decisions=decisions, ramp=True)
    is_partial = numbers.create_now + len(ws.evicted) > MOST_AT_ONCE
    return PlanPhase(decided=(stage,), skipped=skipped, is_partial=is_partial)


def _create_successor(ws: CloneSetWorkingSet, pod: PodView, new_pod: NewPod) -> CreatePod:
    """Return the creation of the pod's successor. The pod is evicted only after the successor is available."""
    revision = choose_revision(pod, update=ws.update, current=ws.current)
    (document,) = build_pod_documents(ws, revision, [new_pod])
    metadata = document["metadata"]
    annotations = {**metadata["annotations"], keys.SUCCESSOR_OF_ANNOTATION: pod.uid}
    because = f"pod {pod.name} must be evicted; its successor has revision {revision.name}"
    document = {**document, "metadata": {**metadata, "annotations": annotations}}
    return _decide_creation(ws, new_pod, document, because, predecessor=pod)


def _decide_creation(
    ws: CloneSetWorkingSet, new_pod: NewPod, document: Document, because: str, *, predecessor: PodView | None
) -> CreatePod:
    name = document["metadata"]["name"]
    if predecessor is not None:
        document = place_near(document, predecessor, ws.snapshot)
    return CreatePod(
        subject=name,
        document=document,
        because=because,
        created=f"created pod {name}",
        before=new_pod.missing,
    )


def build_pod_documents(
    ws: CloneSetWorkingSet, revision: RevisionView, new_pods: Sequence[NewPod]
) -> Iterator[Document]:
    """Build new pods of a revision. The documents share their common parts, so callers must not change them."""
    owner = ws.snapshot.cloneset
    metadata = read_pod_metadata(revision.template)
    state = build_state_metadata(LifecycleState.PREPARING_NORMAL, now=ws.now)
    labels = {
        **(metadata.get("labels") or {}),
        keys.REVISION_LABEL: label_of(revision, ws.snapshot),
        keys.TEMPLATE_HASH_LABEL: revision.hash,
        **state["labels"],
    }
    shared: Document = {
        "generateName": f"{owner.name}-",  # only for clients that read this field: metadata.name is set too
        "namespace": owner.namespace,
        "annotations": {**(metadata.get("annotations") or {}), **state["annotations"]},
        "ownerReferences": [owner.owner_reference],
    }
    if metadata.get("finalizers"):
        shared["finalizers"] = metadata["finalizers"]
    spec = add_ready_gates(revision.template.get("spec") or {})
    if ws.gang is not None:
        spec = add_group(spec, ws.gang.group_of(revision, update=ws.update))
    for new_pod in new_pods:
        yield {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "name": format_pod_name(owner.name, new_pod.instance_id),
                **shared,
                "labels": {**labels, keys.INSTANCE_ID_LABEL: new_pod.instance_id},
            },
            "spec": add_claim_volumes(spec, new_pod.claim_names),
        }


# Deleting


def _delete(ws: CloneSetWorkingSet, numbers: Numbers) -> PlanPhase:
    """Plan deletions in the first of these groups in which a pod can be deleted now: pods in PreparingDelete, specified
    pods, surplus pods.
    """
    skipped: dict[str, Reason] = {}
    for pods, budget, why in _list_groups(ws, numbers):
        deletions = delete_within_budget(ws, pods, ready_budget=budget, why=why)
        skipped |= deletions.skipped
        if deletions.decisions:
            stage = DecidedStage(purpose=Purpose.DELETE_PODS, decisions=deletions.decisions)
            return PlanPhase(decided=(stage,), skipped=skipped, is_partial=deletions.is_partial)
    return PlanPhase(skipped=skipped)


def _list_groups(ws: CloneSetWorkingSet, numbers: Numbers) -> Iterator[tuple[Sequence[PodView], int, str]]:
    """Yield groups of pods to delete, each with the number of serving pods that can be deleted now, and the reason."""
    waiting = _sort_by_name(ws.pre_deleting)
    # These pods are already out of service, so their deletion is not limited.
    yield waiting, len(waiting), "is in PreparingDelete"
    # `to_delete` also contains pods in PreparingDelete. They do not serve, so their deletion does not use the budget.
    specified = _sort_by_name(ws.to_delete)
    if specified:
        yield specified, numbers.ready_budget, "specified for deletion"
    elif not waiting:  # surplus pods are deleted by a later plan, in which `waiting` is empty
        yield _select_victims(ws, numbers), numbers.ready_budget, "surplus"


def _select_victims(ws: CloneSetWorkingSet, numbers: Numbers) -> list[PodView]:
    """Select surplus pods: pods of older revisions that exceed the partition, and then pods of the update revision."""
    if numbers.remove <= 0:  # in most plans this is true, and no pod is inspected
        return []
    old_count = min(numbers.remove, numbers.remove_old)
    new_count = numbers.remove - old_count
    old: list[PodView] = []
    new: list[PodView] = []
    for pod, mark in zip(ws.pods, ws.scale_marks, strict=True):
        (new if mark.is_new else old).append(pod)
    if ws.is_group_incomplete:
        old = list_superfluous_pods(old, unavailable={pod.name for pod in ws.unavailable})
    chosen = ((old, old_count), (new, new_count))
    return [pod for pods, count in chosen for pod in _select_first_victims(ws, pods, count)]


def _select_first_victims(ws: CloneSetWorkingSet, pods: list[PodView], count: int) -> list[PodView]:
    if count <= 0:
        return []
    unavailable = {pod.name for pod in ws.unavailable}
    constraints = (ws.update.template.get("spec") or {}).get("topologySpreadConstraints") or ()
    ordered = sort_for_deletion(
        pods,
        available=lambda pod: pod.name not in unavailable,
        topology_keys=[constraint.get("topologyKey", "") for constraint in constraints],
        node_labels={name: node.labels for name, node in ws.snapshot.nodes.items()},
    )
    if ws.evictions.waiting:
        ordered = _put_evicted_first(ws, ordered)
    return ordered[:count]


def _put_evicted_first(ws: CloneSetWorkingSet, pods: Sequence[PodView]) -> list[PodView]:
    """Sort the pods: pods that do not serve, evicted pods without a successor, other evicted pods, and all
    other pods.
    """
    waiting, successors = {pod.name for pod in ws.evictions.waiting}, ws.evictions.successors
    unavailable = {pod.name for pod in ws.unavailable}

    def rank(pod: PodView) -> int:
        if pod.name in unavailable:
            return 0
        return (2 if pod.uid in successors else 1) if pod.name in waiting else 3

    return sorted(pods, key=rank)
