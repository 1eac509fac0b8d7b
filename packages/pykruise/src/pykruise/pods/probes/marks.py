"""Results of probes as they appear on a pod: conditions, labels and annotations.

results of a pod's probes ──▶ compute_conditions_after() ──▶ conditions to write, and conflicting probes
                          ──▶ marks_of()         ──▶ labels and annotations ──▶ build_metadata_patch()
                              ──▶ the differences

Pure. This is the rule of OpenKruise: if two probes have one condition type, the first one sets it. A key from a policy
of another state is removed, unless the policy of the current state sets it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from pykruise.kube.documents import Document
from pykruise.pods.probes.api import ContainerProbe, MarkerPolicy, ProbeState
from pykruise.pods.probes.views import RESERVED_TYPES, SUCCEEDED
from pykruise.pods.view.pod_view import PodView

T = TypeVar("T")


class MarkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one probe of a marker in a pod."""

    marker: str
    """Name of the marker."""
    probe: ContainerProbe
    state: ProbeState


class MarkConflict(msgspec.Struct, frozen=True):
    """A probe with the same condition type as an earlier probe, which sets the condition."""

    loser: MarkOutcome
    winner: MarkOutcome


class Marks(msgspec.Struct, frozen=True):
    """Keys with their values; None for a key that must be removed."""

    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


def compute_conditions_after(
    pod: PodView, outcomes: Iterable[MarkOutcome]
) -> tuple[list[Document], list[MarkConflict]]:
    """Conditions whose status or message must change, and the probes that conflict with another one."""
    first, losers = choose_by_type((outcome.probe.pod_condition_type, outcome) for outcome in outcomes)
    changed = (_build_changed_condition(pod, type_, outcome.state) for type_, outcome in first.items())
    conflicts = [MarkConflict(loser, first[type_]) for type_, loser in losers]
    return [condition for condition in changed if condition is not None], conflicts


def choose_by_type(probes: Iterable[tuple[str, T]]) -> tuple[dict[str, T], list[tuple[str, T]]]:
    """Choose the probe of a pod that sets each condition type: the first one. Also returns the other probes, each with
    its type. A probe without a type, or with a reserved one, sets no condition.
    """
    first: dict[str, T] = {}
    others: list[tuple[str, T]] = []
    for type_, probe in probes:
        if not type_ or type_ in RESERVED_TYPES:
            continue
        if type_ in first:
            others.append((type_, probe))
        else:
            first[type_] = probe
    return first, others


def _build_changed_condition(pod: PodView, type_: str, state: ProbeState) -> Document | None:
    status = "True" if state.state == SUCCEEDED else "False"
    before = pod.find_condition(type_)
    if before is not None and (before.status, before.message) == (status, state.message):
        return None
    result: Document = {"type": type_, "status": status, "message": state.message}
    if state.last_probe_time:
        result["lastProbeTime"] = state.last_probe_time
    if state.last_transition_time:
        result["lastTransitionTime"] = state.last_transition_time
    return result


def marks_of(outcomes: Iterable[tuple[Sequence[MarkerPolicy], str]]) -> Marks:
    """Marks that policies set for probe states. A state without a policy removes the keys of all policies."""
    labels, annotations = _Keys(), _Keys()
    for policies, state in outcomes:
        for policy in policies:
            labels.add(policy.labels or {}, is_set=policy.state == state)
            annotations.add(policy.annotations or {}, is_set=policy.state == state)
    return Marks(labels.values, annotations.values)


class _Keys:
    """Keys to set or to remove; a key in both groups is set."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}

    def add(self, keys: Mapping[str, str], *, is_set: bool) -> None:
        for key, value in keys.items():
            if is_set:
                self.values[key] = value
            else:
                self.values.setdefault(key, None)


def build_metadata_patch(
    marks: Marks, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Document | None:
    """Merge patch that gives a pod with these labels and annotations the marks; None if the pod already has them."""
    metadata: Document = {}
    for field, wanted, stored in (
        ("labels", marks.labels, labels),
        ("annotations", marks.annotations, annotations),
    ):
        if changes := {key: value for key, value in wanted.items() if stored.get(key) != value}:
            metadata[field] = changes
    return {"metadata": metadata} if metadata else None
