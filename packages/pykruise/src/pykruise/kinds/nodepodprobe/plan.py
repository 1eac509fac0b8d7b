"""All decisions about a NodePodProbe, as one plan.

NodePodProbeSnapshot ──▶ plan_node_probes() ──▶ Plan: create or delete the object, remove entries of deleted pods,
                                                      write results

Pure. The controller of PodProbeMarkers writes the probes (kinds/podprobemarker), and the node's agent writes the
status. This plan writes the results to pods in two patches: first labels and annotations, and then conditions, because
the API server accepts conditions only in a patch of the status.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.nodepodprobe.snapshot import NodePodProbeSnapshot, needs_node_pod_probe
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.plans.pod_writes import make_pod_key, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.probes.api import PodProbe, PodProbeStatus
from pykruise.pods.probes.marks import (
    MarkConflict,
    MarkOutcome,
    Marks,
    build_metadata_patch,
    compute_conditions_after,
    marks_of,
)
from pykruise.pods.probes.obstacles import Probed, explain_lost_node, find_next_late_time, obstacles_of
from pykruise.pods.probes.views import (
    NODE_POD_PROBES,
    POD_PROBE_MARKERS,
    NodeProbesView,
    name_of_probe,
    split_name,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Action, Create, delete_object, patch_object
from pykruise.runtime.named_objects import BEHIND_S
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, Subject, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason

_WARN_AGAIN_S: Final = 600.0


def plan_node_probes(snapshot: NodePodProbeSnapshot) -> Plan:
    """Plan all writes that this NodePodProbe needs now."""
    view, node = snapshot.node_probes, snapshot.node
    if not view.uid:
        return _create_object(view) if needs_node_pod_probe(node) else Plan()
    if view.is_deleting:
        return Plan()
    if node is None or node.is_deleting:
        return _delete_object(view)
    if view.problem:
        note = Note(
            reason=str(Code.INVALID_SPEC), message=view.problem, warning=True, again_after_s=_WARN_AGAIN_S
        )
        return Plan(waiting=Reason(Code.INVALID_SPEC, view.problem, "correct it"), notes=(note,))
    stages: list[Stage] = []
    if (kept := _keep_entries(snapshot)) != list(view.pods):
        stages.append(_build_entries_stage(view, kept))
    shown = [_evaluate(snapshot, pod, status) for pod, status in _list_results(snapshot)]
    if chains := tuple(chain for item in shown if (chain := _build_pod_chain(snapshot, item)).steps):
        stages.append(Stage(purpose=Purpose.MARK_PODS, chains=chains, is_independent=True, regardless=True))
    probed = _list_probed(snapshot)
    late_in_s = compute_seconds_until(find_next_late_time(probed, now=snapshot.now), now=snapshot.now)
    return Plan(
        stages=tuple(stages),
        requeue_after_s=find_soonest([BEHIND_S if snapshot.is_behind else None, late_in_s]),
        notes=tuple(
            _note_conflict(snapshot, item.pod, conflict) for item in shown for conflict in item.conflicts
        ),
        skipped={
            **(
                obstacles_of(probed, now=snapshot.now, conditions=_map_conditions(snapshot))
                if node.ready_since is not None
                else _explain_pods_of_lost_node(probed, node)
            ),
            **{item.pod.name: _describe_conflict(item.conflicts[0]) for item in shown if item.conflicts},
        },
    )


# ── the object ───────────────────────────────────────────────────────────────


def _create_object(view: NodeProbesView) -> Plan:
    body = {
        "apiVersion": NODE_POD_PROBES.api_version,
        "kind": NODE_POD_PROBES.kind,
        "metadata": {"name": view.name},
        "spec": {},
    }
    action = Create(resource=NODE_POD_PROBES, key=Key("", view.name), body=body)
    return Plan(stages=(_build_stage(view.name, action, "the node is ready and has no NodePodProbe"),))


def _delete_object(view: NodeProbesView) -> Plan:
    action = delete_object(NODE_POD_PROBES, view)
    return Plan(stages=(_build_stage(view.name, action, "its node no longer exists"),))


def _build_stage(name: str, action: Action, because: str) -> Stage:
    chain = Chain(subject=name, steps=(Step(action=action, because=because),))
    return Stage(purpose=Purpose.KEEP_NODE_PROBES, chains=(chain,))


def _keep_entries(snapshot: NodePodProbeSnapshot) -> list[PodProbe]:
    """Return the entries of pods that still exist, and of pods in namespaces that this manager does not cache."""
    return [
        entry
        for entry in snapshot.node_probes.pods
        if not snapshot.is_known(entry.namespace) or entry.uid in snapshot.checked
    ]


def _build_entries_stage(view: NodeProbesView, kept: Sequence[PodProbe]) -> Stage:
    """Return the write that replaces the whole list of entries. Other programs change this list too, so the patch fails
    if the object has changed since it was read.
    """
    action = patch_object(
        NODE_POD_PROBES, view, {"spec": {"podProbes": msgspec.to_builtins(kept) or None}}, unchanged=True
    )
    return _build_stage(view.name, action, "pods were deleted or have ended")


# ── results ──────────────────────────────────────────────────────────────────


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one pod."""

    pod: PodView
    conditions: Sequence[Document]
    conflicts: Sequence[MarkConflict]
    marks: Marks


def _list_probed(snapshot: NodePodProbeSnapshot) -> list[Probed]:
    """Return the existing pods, with their probes and the agent's results."""
    view = snapshot.node_probes
    states = {status.uid: status.probe_states or () for status in view.statuses}
    return [
        (pod, entry.probes or (), states.get(entry.uid, ()))
        for entry in view.pods
        if (pod := snapshot.checked.get(entry.uid)) is not None
    ]


def _map_conditions(snapshot: NodePodProbeSnapshot) -> dict[str, str]:
    """Return the type of the pod condition that each probe sets, by the name of the probe on the node."""
    return {
        name_of_probe(marker.name, probe.name): probe.pod_condition_type
        for marker in snapshot.markers.values()
        if marker.spec is not None
        for probe in marker.spec.probes
    }


def _explain_pods_of_lost_node(probed: Sequence[Probed], node: NodeView) -> dict[str, Reason]:
    """Return the same reason for every pod, because the node does not report."""
    reason = explain_lost_node(node.name)
    return {pod.name: reason for pod, _, _ in probed}


def _list_results(snapshot: NodePodProbeSnapshot) -> Iterator[tuple[PodView, PodProbeStatus]]:
    for status in snapshot.node_probes.statuses:
        pod = snapshot.checked.get(status.uid)
        if pod is not None:
            yield pod, status


def _select_outcomes(snapshot: NodePodProbeSnapshot, status: PodProbeStatus) -> list[MarkOutcome]:
    """Return the results of probes that are still in the spec of their marker, in the order of the status."""
    outcomes: list[MarkOutcome] = []
    for state in status.probe_states or ():
        marker_name, probe_name = split_name(state.name)
        marker = snapshot.markers.get(Key(status.namespace, marker_name))
        if not state.state or marker is None or marker.spec is None:
            continue
        outcomes += [
            MarkOutcome(marker=marker.name, probe=probe, state=state)
            for probe in marker.spec.probes
            if probe.name == probe_name
        ]
    return outcomes


def _evaluate(snapshot: NodePodProbeSnapshot, pod: PodView, status: PodProbeStatus) -> _Shown:
    outcomes = _select_outcomes(snapshot, status)
    conditions, conflicts = compute_conditions_after(pod, outcomes)
    marks = marks_of((outcome.probe.marker_policy or (), outcome.state.state) for outcome in outcomes)
    return _Shown(pod=pod, conditions=conditions, conflicts=conflicts, marks=marks)


def _build_pod_chain(snapshot: NodePodProbeSnapshot, shown: _Shown) -> Chain:
    pod = shown.pod
    steps: list[Step] = []
    stored = snapshot.annotations.get(make_pod_key(pod), {})
    if (body := build_metadata_patch(shown.marks, labels=pod.labels, annotations=stored)) is not None:
        steps.append(_build_pod_step(pod, body, PatchType.MERGE, ""))
    if shown.conditions:
        body = {"status": {"conditions": list(shown.conditions)}}
        steps.append(_build_pod_step(pod, body, PatchType.STRATEGIC, "status"))
    return Chain(subject=pod.name, steps=tuple(steps))


def _build_pod_step(pod: PodView, body: Document, patch_type: PatchType, subresource: str) -> Step:
    action = pod_patch(pod, body, patch_type=patch_type, subresource=subresource)
    return Step(
        action=action, because="its labels, annotations or conditions differ from the results of its probes"
    )


def _describe_conflict(conflict: MarkConflict) -> Reason:
    loser, winner = conflict.loser, conflict.winner
    return Reason(
        Code.CONFLICT,
        f"condition {loser.probe.pod_condition_type} shows the result of a probe of PodProbeMarker"
        f" {winner.marker}, not of PodProbeMarker {loser.marker}",
        f"give the probe of PodProbeMarker {loser.marker} or {winner.marker} another podConditionType",
    )


def _note_conflict(snapshot: NodePodProbeSnapshot, pod: PodView, conflict: MarkConflict) -> Note:
    """Return an event for the PodProbeMarker whose probe cannot set its condition."""
    loser, winner = conflict.loser, conflict.winner
    marker = snapshot.markers[Key(pod.namespace, loser.marker)]
    type_ = loser.probe.pod_condition_type
    return Note(
        reason="PodConditionConflict",
        message=f"condition {type_} of pod {pod.name} shows the result of probe"
        f" {name_of_probe(winner.marker, winner.probe.name)}, not of probe {loser.probe.name}",
        warning=True,
        about=Subject(resource=POD_PROBE_MARKERS, key=marker.key, uid=marker.uid),
        again_after_s=_WARN_AGAIN_S,
        same_as=f"{type_} {winner.marker}",
    )
