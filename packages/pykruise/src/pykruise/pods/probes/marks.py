"""How the outcome of probes shows on a pod: as conditions, labels and annotations.

outcomes of a pod's probes ──▶ conditions_after() ──▶ conditions to write, and which probes cannot show theirs
                           ──▶ marks_of()         ──▶ labels and annotations ──▶ metadata_patch() ──▶ what differs

Pure. Rule: OpenKruise's. Of two probes with one condition type the first shows it. A key that a policy of another
state has is removed, unless the policy of the state that is sets it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykruise.kube.documents import Document
from pykruise.pods.probes.api import ContainerProbe, MarkerPolicy, ProbeState
from pykruise.pods.probes.views import RESERVED_TYPES, SUCCEEDED
from pykruise.pods.view.pod_view import PodView


class MarkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one probe of a marker in a pod."""

    marker: str
    """Name of the marker."""
    probe: ContainerProbe
    state: ProbeState


class MarkConflict(msgspec.Struct, frozen=True):
    """A probe whose condition type another one shows."""

    loser: MarkOutcome
    winner: MarkOutcome


class Marks(msgspec.Struct, frozen=True):
    """Keys with their values; None: the key is to go."""

    labels: Mapping[str, str | None] = {}
    annotations: Mapping[str, str | None] = {}


def conditions_after(
    pod: PodView, outcomes: Iterable[MarkOutcome]
) -> tuple[list[Document], list[MarkConflict]]:
    """The conditions whose status or message is to change, and who cannot show theirs."""
    first: dict[str, MarkOutcome] = {}
    changed: list[Document] = []
    conflicts: list[MarkConflict] = []
    for outcome in outcomes:
        type_ = outcome.probe.pod_condition_type
        if not type_ or type_ in RESERVED_TYPES:
            continue
        if type_ in first:
            conflicts.append(MarkConflict(outcome, first[type_]))
            continue
        first[type_] = outcome
        if (condition := _changed(pod, type_, outcome.state)) is not None:
            changed.append(condition)
    return changed, conflicts


def _changed(pod: PodView, type_: str, state: ProbeState) -> Document | None:
    status = "True" if state.state == SUCCEEDED else "False"
    before = pod.condition(type_)
    if before is not None and (before.status, before.message) == (status, state.message):
        return None
    result: Document = {"type": type_, "status": status, "message": state.message}
    if state.last_probe_time:
        result["lastProbeTime"] = state.last_probe_time
    if state.last_transition_time:
        result["lastTransitionTime"] = state.last_transition_time
    return result


def marks_of(outcomes: Iterable[tuple[Sequence[MarkerPolicy], str]]) -> Marks:
    """Marks that policies set for probe states. A state that no policy names removes the keys of all."""
    labels, annotations = _Keys(), _Keys()
    for policies, state in outcomes:
        for policy in policies:
            labels.add(policy.labels or {}, is_set=policy.state == state)
            annotations.add(policy.annotations or {}, is_set=policy.state == state)
    return Marks(labels.values, annotations.values)


class _Keys:
    """Keys that are to be set or to go; those that are to be set win."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}

    def add(self, keys: Mapping[str, str], *, is_set: bool) -> None:
        for key, value in keys.items():
            if is_set:
                self.values[key] = value
            else:
                self.values.setdefault(key, None)


def metadata_patch(
    marks: Marks, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Document | None:
    """The merge patch that makes a pod with these labels and annotations have the marks; None: it has them."""
    metadata: Document = {}
    for field, wanted, stored in (
        ("labels", marks.labels, labels),
        ("annotations", marks.annotations, annotations),
    ):
        if changes := {key: value for key, value in wanted.items() if stored.get(key) != value}:
            metadata[field] = changes
    return {"metadata": metadata} if metadata else None
