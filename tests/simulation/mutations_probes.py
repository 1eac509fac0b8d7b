"""Mutations of PodProbeMarkers and NodePodProbes; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.agent.rules import probe_checks
from pykruise.agent.simulated import probe_agents
from pykruise.kinds.nodepodprobe import plan as node_plan
from pykruise.kinds.nodepodprobe import snapshot as node_snapshot
from pykruise.kinds.nodepodprobe.kind import KIND as NODE_POD_PROBE
from pykruise.kinds.podprobemarker import entries, plan, snapshot, wakes
from pykruise.kinds.podprobemarker.kind import KIND
from pykruise.plans.purposes import Purpose
from pykruise.pods.probes import marks as probe_marks
from pykruise.runtime.plan import Plan
from simulation.mutating import Change, always

__all__ = ["PODPROBEMARKER"]

replace = msgspec.structs.replace


def _without(purpose: Purpose) -> Change:
    """The marker's plans without this stage."""

    def changed(original: Any) -> Any:
        def planned(value: Any) -> Any:
            whole = original(value)
            return replace(whole, stages=tuple(stage for stage in whole.stages if stage.purpose != purpose))

        return planned

    return KIND.control, "plan", changed


def _all_stay(original: Any) -> Any:
    def merged(stored: Any, marker: str, wanted: Any) -> Any:
        names = {item.name for item in wanted}
        yield from (item for item in stored if item.name not in names and item.name.startswith(f"{marker}#"))
        yield from original(stored, marker, wanted)

    return merged


def _by_ending(original: Any) -> Any:
    """Markers with the same end of the name count as one."""
    return lambda name: (original(name)[0].removeprefix("x"), original(name)[1])


def _first_address(original: Any) -> Any:
    def after(view: Any, marker: Any, wanted: Any) -> Any:
        known = {pod.uid: pod.ip for pod in view.pods}
        return [replace(item, ip=known.get(item.uid, item.ip)) for item in original(view, marker, wanted)]

    return after


def _one_more(original: Any) -> Any:
    def planned(value: Any) -> Any:
        whole = original(value)
        status = whole.status and {**whole.status, "matchedPods": whole.status["matchedPods"] + 1}
        return replace(whole, status=status)

    return planned


def _set_only(original: Any) -> Any:
    return lambda self, keys, *, is_set: original(self, keys, is_set=True) if is_set else None


def _unset_wins(_original: Any) -> Any:
    def add(self: Any, keys: Any, *, is_set: bool) -> None:
        for key, value in keys.items():
            self.values[key] = value if is_set else None

    return add


def _last_first(original: Any) -> Any:
    return lambda pod, outcomes: original(pod, list(outcomes)[::-1])


def _unknown_is_success(original: Any) -> Any:
    def changed(pod: Any, type_: str, state: Any) -> Any:
        return original(pod, type_, replace(state, state="Succeeded") if state.state == "Unknown" else state)

    return changed


async def _no_annotations(_read: Any, _pods: Any) -> dict[Any, Any]:
    return {}


def _without_fields(*fields: str) -> Change:
    """Agents that do not know these fields of a check."""

    def changed(original: Any) -> Any:
        def advance(rules: Any, *rest: Any) -> Any:
            return original({name: rule for name, rule in rules.items() if name not in fields}, *rest)

        return advance

    return probe_agents, "advance_check", changed


def _stored_too(original: Any) -> Any:
    def status(spec: Any, stored: Any, checks: Any, now: float) -> Any:
        result = original(spec, stored, checks, now)
        uids = {status["uid"] for status in result.get("podProbeStatuses", ())}
        left = [status for status in stored.get("podProbeStatuses", ()) if status["uid"] not in uids]
        return {"podProbeStatuses": [*left, *result.get("podProbeStatuses", ())]}

    return status


def _deaf_to(kind: Any, *kinds: str) -> Change:
    def changed(original: Any) -> Any:
        return lambda settings: [item for item in original(settings) if item.on.resource.kind not in kinds]

    return kind.control, "wakes", changed


def _any_labels(original: Any) -> Any:
    """Only a change of a pod's node or address wakes the controller."""

    def of_pod(change: Any, around: Any) -> Any:
        old, new = change.old, change.new
        if old is None or new is None or wakes._list_pod_facts(old) != wakes._list_pod_facts(new):
            yield from original(change, around)

    return of_pod


_as_plan: Callable[[Any], Any] = always(Plan())

PODPROBEMARKER: dict[str, tuple[Change, ...]] = {
    "PodProbeMarker: pods are probed before they are initialized": (
        (snapshot, "is_probed", lambda _original: lambda pod: pod.is_active and bool(pod.node_name)),
    ),
    "PodProbeMarker: probes that were removed from a marker are kept": (
        (entries, "_merge_probes", _all_stay),
    ),
    "PodProbeMarker: two markers whose names have the same end count as one": (
        (entries, "split_name", _by_ending),
    ),
    "PodProbeMarker: a changed address of a pod is ignored": ((plan, "build_entries_after", _first_address),),
    "PodProbeMarker: names of ports are not resolved": ((entries, "_find_port", always(None)),),
    "PodProbeMarker: a marker gets no finalizer": (_without(Purpose.HOLD_MARKER),),
    "PodProbeMarker: the finalizer is removed before the probes": (
        (
            plan,
            "_release",
            lambda original: lambda value: replace(original(value), stages=original(value).stages[-1:]),
        ),
    ),
    "PodProbeMarker: the status counts one additional pod": ((KIND.control, "plan", _one_more),),
    "PodProbeMarker: a pod enqueues no marker": (_deaf_to(KIND, "Pod"),),
    "PodProbeMarker: changed labels of a pod enqueue no marker": ((wakes, "_enqueue_by_pod", _any_labels),),
    "PodProbeMarker: a NodePodProbe enqueues no marker": (_deaf_to(KIND, "NodePodProbe"),),
    "NodePodProbe: every entry counts as an entry of a deleted pod": (
        (node_plan, "_keep_entries", always([])),
    ),
    "NodePodProbe: a NodePodProbe without a node is not deleted": ((node_plan, "_delete_object", _as_plan),),
    "NodePodProbe: a node enqueues no NodePodProbe": (_deaf_to(NODE_POD_PROBE, "Node"),),
    "NodePodProbe: a marker enqueues no NodePodProbe": (_deaf_to(NODE_POD_PROBE, "PodProbeMarker"),),
    "NodePodProbe: an unknown result counts as success": (
        (probe_marks, "_build_changed_condition", _unknown_is_success),
    ),
    "NodePodProbe: labels of the opposite result are not removed": ((probe_marks._Keys, "add", _set_only),),
    "NodePodProbe: a removal overrides a label that another result sets": (
        (probe_marks._Keys, "add", _unset_wins),
    ),
    "NodePodProbe: the last of two probes sets their common condition": (
        (node_plan, "compute_conditions_after", _last_first),
    ),
    "NodePodProbe: existing annotations are not read": (
        (node_snapshot, "annotations_of", lambda _original: _no_annotations),
    ),
    "NodePodProbe: agents report after the first result": (
        _without_fields("failureThreshold", "successThreshold"),
    ),
    "NodePodProbe: agents do not wait for a container's start": ((probe_checks, "_is_early", always(False)),),
    "NodePodProbe: agents keep results of removed probes": ((probe_agents, "status_of", _stored_too),),
}
