"""All decisions about one PersistentPodState, as one plan: its records of pods, and the object itself if the
annotations of a workload request it.

StateSnapshot ──▶ plan_state() ──▶ Plan ──▶ runtime/execute.py
                create, change or delete the object that a workload requests ▶ add, keep or remove records ▶ status

Pure. A workload's annotations neither overwrite nor delete a PersistentPodState that belongs to no workload, and delete
only one that they requested before.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.persistentpodstate.snapshot import (
    ReadablePersistentPodState,
    ReadableStateView,
    StateSnapshot,
    is_readable,
)
from pykruise.kinds.persistentpodstate.status import document_of, fit_records, keep_records, record_pods
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import (
    COMPLETE,
    GENERATED,
    INCOMPLETE,
    RecordedWorkload,
    StateView,
    is_incomplete,
)
from pykruise.kube.documents import Document, is_same
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD, replace_target
from pykruise.pods.lifecycle.blockers import blocker_of, find_next_blocker_time
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.actions import Action, Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, Subject, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason

NODE_AGAIN_S: Final = 5.0
"""Seconds until an unknown node, or a pod that could not be read, is read again."""

WEIGHT: Final = 100
WARN_AGAIN_S: Final = 600.0
WHEN_DELETED: Final = "WhenDeleted"
_MARK: Final[Document] = {GENERATED: "true"}
_NOT_YET: Final = Reason(Code.STARTING, "the pod is recorded when it is ready")
_TOO_MANY: Final = Reason(
    Code.OTHER,
    "the status is full, so this pod is not recorded",
    "remove annotations with long values from spec.persistentPodAnnotations",
)


def plan_state(snapshot: StateSnapshot) -> Plan:
    """Plan all writes. The object that a workload requests is planned first: if it is deleted, no records are
    planned.
    """
    state = snapshot.state
    steps, notes, is_gone = _plan_generation(snapshot)
    chains = tuple(Chain(subject=state.name, steps=(step,)) for step in steps)
    stages = (Stage(purpose=Purpose.GENERATE_STATES, chains=chains),) if chains else ()
    if is_gone:
        return Plan(stages=stages, notes=tuple(notes))
    if not is_readable(snapshot):
        plan = make_refused_plan(snapshot.refused or [state.problem])
        return msgspec.structs.replace(plan, stages=stages, notes=(*notes, *plan.notes))
    workload = snapshot.workload
    if workload is None or workload.is_deleting:
        ref = snapshot.state.spec.target_ref
        what = f"{ref.kind} {ref.name} does not exist, or is being deleted"
        remedy = replace_target(ref.kind, ref.name, of=f"PersistentPodState {state.name}")
        reason = Reason(Code.NO_TARGET, what, remedy)
        return Plan(
            stages=stages,
            notes=tuple(notes),
            status=document_of(state.generation, {}),
            waiting=reason,
            requeue_after_s=snapshot.polls_after,
        )
    return _plan_records(snapshot, workload, stages=stages, notes=tuple(notes))


# ── records ──────────────────────────────────────────────────────────────────


def _plan_records(snapshot: ReadablePersistentPodState, workload: RecordedWorkload, **more: Any) -> Plan:
    state = snapshot.state
    readable = [pod for pod in snapshot.pods if pod.name not in snapshot.unread]
    records, unknown = record_pods(state, readable, snapshot.nodes, snapshot.annotations)
    skipped: dict[str, Reason] = {
        **{name: Reason(Code.NODE_LOST, "its node is unknown") for name in unknown},
        **{name: Reason(Code.NOT_READ, "its annotations could not be read") for name in snapshot.unread},
        **{
            pod.name: blocker_of(pod, None, now=snapshot.now, correction=OF_THE_WORKLOAD) or _NOT_YET
            for pod in snapshot.pods
            if not pod.is_ready
        },
    }
    for pod in snapshot.pods:
        if pod.name not in skipped and (
            missing := _find_missing_labels(state, snapshot.nodes.get(pod.node_name))
        ):
            skipped[pod.name] = Reason(
                Code.NO_TOPOLOGY,
                f"its node {pod.node_name} has no label {', '.join(missing)}, so the pod cannot be bound to this node",
                "label the node, or change the keys of spec.requiredPersistentTopology",
            )
    if state.spec.persistent_pod_state_retention_policy != WHEN_DELETED:
        active = {pod.name for pod in snapshot.pods}
        records, odd = keep_records(records, workload, start=snapshot.start, active=active)
        for name in odd:
            skipped.setdefault(name, Reason(Code.OTHER, "its name has no ordinal, so its record stays"))
    records, left_out = fit_records(records, state.records)
    for name in left_out:
        skipped[name] = _TOO_MANY
    again = [NODE_AGAIN_S] if unknown or snapshot.unread else []
    again += [snapshot.polls_after] if snapshot.polls_after is not None else []
    late_in_s = compute_seconds_until(
        find_next_blocker_time(snapshot.pods, now=snapshot.now), now=snapshot.now
    )
    return Plan(
        status=document_of(state.generation, records),
        skipped=skipped,
        requeue_after_s=find_soonest([*again, late_in_s]),
        **more,
    )


def _find_missing_labels(state: ReadableStateView, node: NodeView | None) -> list[str]:
    """Return the required keys that are not labels of the node, as a message names them."""
    required = state.spec.required_persistent_topology
    if node is None or required is None:
        return []
    return [key or '""' for key in required.keys if key not in node.labels]


# ── the PersistentPodState that a workload requests ──────────────────────────


def _plan_generation(snapshot: StateSnapshot) -> tuple[Sequence[Step], Sequence[Note], bool]:
    """Return the steps that create, change or delete the PersistentPodState, the events, and whether no records are
    planned: the PersistentPodState does not exist yet, or the steps delete it.
    """
    state = snapshot.state
    asking = [namesake for namesake in snapshot.namesakes if namesake.is_requesting]
    incomplete = [
        _make_incomplete_note(workload) for workload in snapshot.namesakes if is_incomplete(workload)
    ]
    if not state.uid:
        return (
            [_make_creation(workload) for workload in asking[:1]],
            [*(_make_conflict_note(workload) for workload in asking[1:]), *incomplete],
            True,
        )
    owner = next((namesake for namesake in snapshot.namesakes if namesake.uid == state.controller_uid), None)
    notes = [_make_conflict_note(workload) for workload in asking if workload is not owner] + incomplete
    if owner is None or state.is_deleting or owner.is_deleting:
        return [], notes, False
    if not owner.is_generating and state.is_generated:
        return [_make_deletion(state, owner)], notes, True
    return _plan_changes(state, owner), notes, False


def _build_subject(workload: RecordedWorkload) -> Subject:
    group, _, version = workload.api_version.rpartition("/")
    resource = Resource(group, version, "statefulsets", workload.kind)
    return Subject(resource=resource, key=Key(workload.namespace, workload.name), uid=workload.uid)


def _make_conflict_note(workload: RecordedWorkload) -> Note:
    return Note(
        reason="PersistentPodStateNotGenerated",
        message=f"PersistentPodState {workload.name} exists, and does not belong to this workload; it stays unchanged",
        warning=True,
        about=_build_subject(workload),
        again_after_s=WARN_AGAIN_S,
    )


def _make_incomplete_note(workload: RecordedWorkload) -> Note:
    return Note(
        reason="PersistentPodStateNotGenerated",
        message=f"{INCOMPLETE}: {COMPLETE}",
        warning=True,
        about=_build_subject(workload),
        again_after_s=WARN_AGAIN_S,
    )


def build_wanted_spec(workload: RecordedWorkload) -> Document:
    """Return the spec that the workload's annotations request."""
    spec: Document = {
        "targetRef": {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name}
    }
    if workload.required:
        spec["requiredPersistentTopology"] = {"keys": list(workload.required)}
    if workload.preferred:
        spec["preferredPersistentTopology"] = [
            {"weight": WEIGHT, "preference": {"keys": list(workload.preferred)}}
        ]
    if workload.pod_annotations:
        spec["persistentPodAnnotations"] = [{"key": key} for key in workload.pod_annotations]
    return spec


def _make_step(action: Action, workload: RecordedWorkload, *, verb: str, because: str) -> Step:
    return Step(
        action=action,
        because=because,
        done=Note(
            reason=f"PersistentPodState{verb}d",
            message=f"{verb.lower()}d PersistentPodState {workload.name}",
            about=_build_subject(workload),
        ),
        failed=Note(
            reason="PersistentPodStateNotGenerated",
            message=f"failed to {verb.lower()} PersistentPodState {workload.name}",
            warning=True,
            about=_build_subject(workload),
        ),
    )


def _make_creation(workload: RecordedWorkload) -> Step:
    owner = build_owner_reference(
        api_version=workload.api_version,
        kind=workload.kind,
        name=workload.name,
        uid=workload.uid,
        block_owner_deletion=False,
    )
    body: Document = {
        "apiVersion": PERSISTENT_POD_STATES.api_version,
        "kind": PERSISTENT_POD_STATES.kind,
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "annotations": _MARK,
            "ownerReferences": [owner],
        },
        "spec": build_wanted_spec(workload),
    }
    action = Create(resource=PERSISTENT_POD_STATES, key=Key(workload.namespace, workload.name), body=body)
    return _make_step(action, workload, verb="Create", because="its workload requests it")


def _plan_changes(state: StateView, workload: RecordedWorkload) -> list[Step]:
    """Return the step that changes the spec as the workload's annotations request, and marks an object that OpenKruise
    generated. Nothing changes if the workload requests no PersistentPodState or no topology. The retention policy
    is never changed, because only users set it.
    """
    if not workload.is_generating or not workload.has_topology:
        return []
    wanted = build_wanted_spec(workload)
    # targetRef is immutable, so it is not changed, even if its apiVersion has another version.
    fields = ("requiredPersistentTopology", "preferredPersistentTopology", "persistentPodAnnotations")
    changed = {
        name: wanted.get(name)
        for name in fields
        if not is_same(wanted.get(name), state.stored_spec.get(name))
    }
    if not changed and state.is_generated:
        return []
    body: Document = {"spec": changed} if changed else {}
    if not state.is_generated:
        body["metadata"] = {"annotations": _MARK}
    because = "its workload requests another spec" if changed else "its workload requests it"
    action = patch_object(PERSISTENT_POD_STATES, state, body, unchanged=True)
    return [_make_step(action, workload, verb="Update", because=because)]


def _make_deletion(state: StateView, workload: RecordedWorkload) -> Step:
    action = delete_object(PERSISTENT_POD_STATES, state)
    return _make_step(action, workload, verb="Delete", because="its workload no longer requests it")
