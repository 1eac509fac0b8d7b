"""The plan for a PodProbeMarker: it joins all decisions.

PodProbeMarkerSnapshot ──▶ plan_marker() ──▶ Plan: the finalizer, probes in NodePodProbes, marks of pods on virtual
                                                   nodes, status

Pure. The nodes' agents run the probes, and kinds/nodepodprobe writes the results to the pods. Virtual nodes write
conditions themselves, so this plan sets only labels and annotations of their pods.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from pykruise.kinds.podprobemarker.conflicts import find_conflicts, find_overwritten_marks
from pykruise.kinds.podprobemarker.entries import WantedProbes, build_entries_after, build_wanted_probes
from pykruise.kinds.podprobemarker.snapshot import (
    ON_VIRTUAL_NODES,
    PodProbeMarkerSnapshot,
    ReadablePodProbeMarker,
    is_readable,
)
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.plans.pod_writes import make_pod_key, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.lifecycle.blockers import blockers_of, find_next_blocker_time
from pykruise.pods.probes.api import MarkerPolicy
from pykruise.pods.probes.marks import build_metadata_patch, marks_of
from pykruise.pods.probes.obstacles import (
    ANSWERS_IN_S,
    Probed,
    explain_lost_node,
    find_next_late_time,
    obstacles_of,
)
from pykruise.pods.probes.views import (
    FAILED,
    NODE_POD_PROBES,
    POD_PROBE_MARKERS,
    SUCCEEDED,
    UNKNOWN,
    MarkerView,
    NodeProbesView,
    name_of_probe,
)
from pykruise.pods.reasons import REPEATED, Code
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION, MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import read_matched
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import find_repeated_wait
from pykruise.runtime.actions import patch_object
from pykruise.runtime.plan import Chain, Plan, Stage, Step, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason

FINALIZER: Final = "kruise.io/node-pod-probe-cleanup"
"""Finalizer that keeps a marker until no NodePodProbe has its probes."""

_NOTHING: Final = Reason(
    Code.NOTHING_SELECTED,
    "spec.selector selects no pod that runs",
    "correct the labels of the pods, or create the marker again with another selector",
)
_STATES: Final = {"True": SUCCEEDED, "False": FAILED}


def plan_marker(snapshot: PodProbeMarkerSnapshot) -> Plan:
    """Plan all writes that this marker needs now."""
    marker = snapshot.marker
    if marker.is_deleting:
        return _release(snapshot)
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.marker.problem])
    wanted = [build_wanted_probes(marker.name, snapshot.marker.spec.probes, pod) for pod in snapshot.checked]
    stages: list[Stage] = []
    if FINALIZER not in marker.finalizers:
        stages.append(_patch_finalizers(marker, [*marker.finalizers, FINALIZER], Purpose.HOLD_MARKER))
    if chains := tuple(_patch_nodes(snapshot, wanted)):
        stages.append(Stage(purpose=Purpose.ASK_TO_PROBE, chains=chains, is_independent=True))
    if chains := tuple(_mark_pods(snapshot)):
        stages.append(Stage(purpose=Purpose.MARK_PODS, chains=chains, is_independent=True, regardless=True))
    unasked = _list_unprobed(snapshot, wanted)
    probed = _list_probed(snapshot, (item for item in wanted if item.pod.name not in unasked))
    obstacles = obstacles_of(probed, now=snapshot.now, conditions=_map_conditions(marker))
    failing = {name: reason for name, reason in obstacles.items() if reason.code == Code.PROBE_FAILS}
    return Plan(
        stages=tuple(stages),
        status={
            **marker.stored_status,
            "observedGeneration": marker.generation,
            "matchedPods": len(snapshot.checked) + len(snapshot.virtual_pods),
        },
        requeue_after_s=find_soonest(
            compute_seconds_until(time, now=snapshot.now)
            for time in (
                find_next_late_time(probed, now=snapshot.now),
                find_next_blocker_time(snapshot.unprobed, now=snapshot.now),
                *_list_silent_times(snapshot),
            )
        ),
        waiting=None if wanted or snapshot.virtual_pods else _explain_no_pods(snapshot),
        skipped={
            **_list_stuck(snapshot),
            **dict(_list_unprobed_virtual(snapshot)),
            **failing,
            **{
                pod.name: explain_lost_node(pod.node_name)
                for pod in snapshot.checked
                if pod.node_name in snapshot.lost_nodes
            },
            **dict(_list_overwritten_costs(snapshot, probed)),
            **_list_overwritten(snapshot, wanted),
            **_list_conflicts(snapshot, wanted),
            **unasked,
            **{name: reason for name, reason in obstacles.items() if name not in failing},
        },
    )


def _map_conditions(marker: MarkerView) -> dict[str, str]:
    """Return the type of the condition that each probe of the marker sets, by the probe's name in a NodePodProbe."""
    probes = marker.spec.probes if marker.spec is not None else ()
    return {name_of_probe(marker.name, probe.name): probe.pod_condition_type for probe in probes}


def _list_stuck(snapshot: PodProbeMarkerSnapshot) -> dict[str, Reason]:
    """Selected pods that cannot be probed, because a problem that only a person can solve keeps them from running."""
    stuck = blockers_of(snapshot.unprobed, None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    return {pod.name: reason for pod, reason in stuck if reason.code in REPEATED}


def _explain_no_pods(snapshot: PodProbeMarkerSnapshot) -> Reason | None:
    """Reason why no pod is probed; None: the selected pods will run without an action by a person."""
    if not snapshot.unprobed:
        return _NOTHING
    stuck = blockers_of(snapshot.unprobed, None, now=snapshot.now, correction=OF_THE_WORKLOAD)
    return find_repeated_wait(stuck)


def _release(snapshot: PodProbeMarkerSnapshot) -> Plan:
    """Plan for a marker that is being deleted: remove its probes from all NodePodProbes, then its finalizer."""
    marker = snapshot.marker
    if FINALIZER not in marker.finalizers:
        return Plan()
    stages: list[Stage] = []
    if chains := tuple(_patch_nodes(snapshot, [])):
        stages.append(Stage(purpose=Purpose.ASK_TO_PROBE, chains=chains, is_independent=True))
    left = [finalizer for finalizer in marker.finalizers if finalizer != FINALIZER]
    stages.append(_patch_finalizers(marker, left, Purpose.RELEASE_MARKER))
    return Plan(stages=tuple(stages))


def _patch_finalizers(marker: MarkerView, wanted: list[str], purpose: Purpose) -> Stage:
    action = patch_object(POD_PROBE_MARKERS, marker, {"metadata": {"finalizers": wanted}}, unchanged=True)
    because = "the probes are removed before the marker is deleted"
    chain = Chain(subject=marker.name, steps=(Step(action=action, because=because),))
    return Stage(purpose=purpose, chains=(chain,))


# ── nodes with an agent ──────────────────────────────────────────────────────


def _patch_nodes(snapshot: PodProbeMarkerSnapshot, wanted: list[WantedProbes]) -> Iterator[Chain]:
    by_node = _group_by_node(wanted)
    for name in sorted(snapshot.node_probes):
        view = snapshot.node_probes[name]
        if view.is_deleting or view.problem:
            continue
        entries = build_entries_after(view, snapshot.marker.key, by_node.get(name, {}))
        if list(entries) != list(view.pods):
            yield _build_entries_chain(view, msgspec.to_builtins(entries), snapshot.marker)


def _build_entries_chain(view: NodeProbesView, entries: list[Document], marker: MarkerView) -> Chain:
    """Replace the whole list of entries. Other writers change the list too, so the patch applies only if the
    NodePodProbe has not changed since it was read.
    """
    action = patch_object(NODE_POD_PROBES, view, {"spec": {"podProbes": entries or None}}, unchanged=True)
    because = f"PodProbeMarker {marker.namespace}/{marker.name}"
    return Chain(subject=view.name, steps=(Step(action=action, because=because),))


def _list_unprobed(snapshot: ReadablePodProbeMarker, wanted: list[WantedProbes]) -> dict[str, Reason]:
    """Pods for which no agent runs all probes, each with the reason."""
    result: dict[str, Reason] = {}
    for item in wanted:
        node = item.pod.node_name
        if node not in snapshot.node_probes:
            result[item.pod.name] = Reason(Code.NO_AGENT, f"node {node} has no NodePodProbe yet")
        elif item.problem:
            remedy = (
                f"correct the container and port of the probe in PodProbeMarker {snapshot.marker.name}, or give the"
                " port a name in the container"
            )
            result[item.pod.name] = Reason(Code.PROBE_PORT, item.problem, remedy)
    return result


def _list_probed(snapshot: ReadablePodProbeMarker, wanted: Iterable[WantedProbes]) -> list[Probed]:
    """Pods with the results that the agents of their nodes report."""
    states = {
        (node, status.uid): status.probe_states or ()
        for node, view in snapshot.node_probes.items()
        for status in view.statuses
    }
    return [(item.pod, item.probes, states.get((item.pod.node_name, item.pod.uid), ())) for item in wanted]


def _list_conflicts(snapshot: ReadablePodProbeMarker, wanted: list[WantedProbes]) -> dict[str, Reason]:
    """Pods with a condition that shows the probe of another marker instead of this marker's probe, each with the
    reason.
    """
    if not snapshot.others:
        return {}
    names = {item.pod.uid: item.pod.name for item in wanted}
    by_node = _group_by_node(wanted)
    return {
        names[uid]: Reason(
            Code.CONFLICT,
            f"condition {conflict.condition_type} shows the result of a probe of PodProbeMarker"
            f" {conflict.winner}, not of probe {conflict.probe}",
            f"set another podConditionType in spec.probes, here or in PodProbeMarker {conflict.winner}",
        )
        for name, view in snapshot.node_probes.items()
        for uid, conflict in find_conflicts(
            snapshot.marker,
            build_entries_after(view, snapshot.marker.key, by_node.get(name, {})),
            snapshot.others,
            results=view.statuses,
        ).items()
        if uid in names
    }


def _list_overwritten(snapshot: ReadablePodProbeMarker, wanted: list[WantedProbes]) -> dict[str, Reason]:
    """Pods with a label or annotation that another marker sets to another value, each with the reason."""
    if not snapshot.others:
        return {}
    names = {item.pod.uid: item.pod.name for item in wanted}
    return {
        names[uid]: Reason(
            Code.CONFLICT,
            f"{mark.what} {mark.key} is set to {mark.shown} by probe {mark.winning_probe} of PodProbeMarker"
            f" {mark.winner}, not to {mark.value}",
            f"use other {mark.what}s in spec.probes[].markerPolicy, here or in PodProbeMarker {mark.winner}",
        )
        for view in snapshot.node_probes.values()
        for uid, mark in find_overwritten_marks(
            snapshot.marker, snapshot.others, results=view.statuses
        ).items()
        if uid in names
    }


def _list_overwritten_costs(
    snapshot: ReadablePodProbeMarker, probed: Iterable[Probed]
) -> Iterator[tuple[str, Reason]]:
    """Yield the pods whose deletion cost a WorkloadSpread has set to another value than the marker, each with the
    reason. The WorkloadSpread restores its value after each write of another writer.
    """
    marker = snapshot.marker
    policies = {
        name_of_probe(marker.name, probe.name): probe.marker_policy or () for probe in marker.spec.probes
    }
    for pod, _, states in probed:
        known = ((policies[item.name], item.state) for item in states if item.state and item.name in policies)
        value = marks_of(known).annotations.get(DELETION_COST_ANNOTATION)
        stored = pod.annotations.get(DELETION_COST_ANNOTATION)
        spread = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
        if value is not None and stored not in (None, value) and spread is not None:
            yield (
                pod.name,
                Reason(
                    Code.CONFLICT,
                    f"WorkloadSpread {spread.name} sets annotation {DELETION_COST_ANNOTATION} too, and restores its"
                    " own value, so the value of this marker has no effect",
                    "remove this annotation from spec.probes[].markerPolicy, because only one object can set the"
                    " deletion cost of a pod",
                ),
            )


def _group_by_node(wanted: list[WantedProbes]) -> dict[str, dict[str, WantedProbes]]:
    by_node: dict[str, dict[str, WantedProbes]] = {}
    for item in wanted:
        by_node.setdefault(item.pod.node_name, {})[item.pod.uid] = item
    return by_node


# ── virtual nodes ────────────────────────────────────────────────────────────


def _mark_pods(snapshot: ReadablePodProbeMarker) -> Iterator[Chain]:
    if not snapshot.settings.on_virtual_nodes:
        return
    for pod in snapshot.virtual_pods:
        marks = marks_of(_list_policies(snapshot, pod))
        body = build_metadata_patch(
            marks, labels=pod.labels, annotations=snapshot.annotations.get(make_pod_key(pod), {})
        )
        if body is not None:
            action = pod_patch(pod, body, patch_type=PatchType.MERGE)
            because = "a condition of the pod reports the result of a probe on a virtual node"
            yield Chain(subject=pod.name, steps=(Step(action=action, because=because),))


def _list_unprobed_virtual(snapshot: ReadablePodProbeMarker) -> Iterator[tuple[str, Reason]]:
    """Yield the pods on virtual nodes that nothing probes, each with the reason."""
    for pod in snapshot.virtual_pods:
        node = f"its node {pod.node_name} is a virtual node (label type=virtual-kubelet)"
        if not snapshot.settings.on_virtual_nodes:
            yield (
                pod.name,
                Reason(
                    Code.NO_AGENT,
                    f"{node}, and no agent probes pods there",
                    f"switch on the feature gate {ON_VIRTUAL_NODES}, then delete the pod, so that its workload"
                    " creates it again with the probes; or run the pod on a node with an agent",
                ),
            )
            continue
        silent_at = _find_silent_time(snapshot, pod)
        if silent_at is not None and silent_at <= snapshot.now:
            types = ", ".join(_list_missing_types(snapshot, pod))
            yield (
                pod.name,
                Reason(
                    Code.NO_AGENT,
                    f"{node}, and the pod has no condition {types}",
                    "if the pod has no annotation kruise.io/podprobe, delete the pod, so that its workload creates it"
                    f" again with the probes; otherwise find out why node {pod.node_name} does not run them",
                ),
            )


def _list_missing_types(snapshot: ReadablePodProbeMarker, pod: PodView) -> list[str]:
    """Types of the marker's conditions that the pod does not have."""
    types = dict.fromkeys(probe.pod_condition_type for probe in snapshot.marker.spec.probes)
    return [type_ for type_ in types if type_ and pod.find_condition(type_) is None]


def _find_silent_time(snapshot: ReadablePodProbeMarker, pod: PodView) -> Instant | None:
    """Time from which missing conditions of a pod on a virtual node are a problem; None if there is no such time."""
    if not pod.is_ready or pod.ready_since is None or not _list_missing_types(snapshot, pod):
        return None
    delays = (probe.probe.initial_delay_seconds for probe in snapshot.marker.spec.probes)
    return pod.ready_since + max(delays, default=0) + ANSWERS_IN_S


def _list_silent_times(snapshot: ReadablePodProbeMarker) -> Iterator[Instant | None]:
    """Yield the times at which a virtual node that sets no conditions becomes a problem."""
    for pod in snapshot.virtual_pods if snapshot.settings.on_virtual_nodes else ():
        time = _find_silent_time(snapshot, pod)
        yield time if time is not None and time > snapshot.now else None


def _list_policies(
    snapshot: ReadablePodProbeMarker, pod: PodView
) -> Iterator[tuple[list[MarkerPolicy], str]]:
    """Yield the marker policies of each probe whose condition the pod has, and the state that this
    condition reports.
    """
    for probe in snapshot.marker.spec.probes:
        condition = pod.find_condition(probe.pod_condition_type)
        if condition is not None and probe.marker_policy:
            yield probe.marker_policy, _STATES.get(condition.status, UNKNOWN)
