"""Rules of a PersistentPodState over a StatefulSet.

a pod is created ──▶ it is bound to the last recorded node of its name, and to nothing else
the controller writes ──▶ records are true, and no wanted record is removed
a StatefulSet has the annotations ──▶ a PersistentPodState of its name is created, updated and deleted
at rest ──▶ every pod is recorded, and no unwanted record remains

The rules do not know the version of the PersistentPodState that a webhook used: without faults it is one of the last
two seconds, otherwise any version.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.pods import Version
from simulation.pull_documents import NO_NODE, Node, read_node
from simulation.rules import PODS, Scene, Violation
from simulation.statefulset_rules import read_workload

__all__ = ["StateRules"]

STATES, SETS, NODES = "persistentpodstates.apps.kruise.io", "statefulsets.apps.kruise.io", "nodes"
INJECTED = "kruise.io/injected-persistent-pod-state"
SEEN_S = 2.0
"""Seconds in which webhooks know a change, without faults."""


GENERATE = "kruise.io/auto-generate-persistent-pod-state"
ASKED = ("required-persistent-topology", "preferred-persistent-topology", "persistent-pod-annotations")
GENERATED_WEIGHT = 100

Topology = tuple[tuple[str, ...], tuple[tuple[int, tuple[str, ...]], ...], tuple[str, ...]]
"""Required keys, preferred ones by weight, annotations."""


class Record(msgspec.Struct, frozen=True):
    """The recorded node of one pod."""

    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class State(msgspec.Struct, frozen=True):
    """One version of the PersistentPodState. `revision` is the API server's."""

    revision: int
    at: float
    is_there: bool
    is_deleting: bool
    name: str
    owner: str
    """Uid of the StatefulSet that requested it; empty: a person created it."""
    generation: int
    required: tuple[str, ...]
    preferred: tuple[tuple[int, tuple[str, ...]], ...]
    annotations: tuple[str, ...]
    keeps_all: bool
    records: Mapping[str, Record]
    observed: int

    @property
    def topology(self) -> Topology:
        """The recorded node labels."""
        return self.required, self.preferred, self.annotations

    @property
    def keys(self) -> set[str]:
        """Labels of nodes that are recorded."""
        return {*self.required, *(key for _, keys in self.preferred for key in keys)}

    def binding(self, pod: str) -> tuple[Mapping[str, str], Sequence[Any], str]:
        """The binding of a new pod of this name: its node selector, preferred terms, and the PersistentPodState."""
        record = self.records.get(pod)
        labels = record.labels if record is not None and self.is_there and not self.is_deleting else {}
        required = {key: labels[key] for key in self.required if key in labels}
        terms = []
        for weight, keys in self.preferred:
            result = [
                {"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels
            ]
            if result:
                terms.append({"weight": weight, "preference": {"matchExpressions": result}})
        return required, terms, self.name if required or terms else ""


NO_STATE = State(0, 0.0, False, False, "", "", 0, (), (), (), False, {}, 0)


def read_state(commit: Commit) -> State:
    """The PersistentPodState after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    spec, status = doc["spec"], doc.get("status") or {}
    return State(
        revision=commit.revision,
        at=commit.at,
        is_there=commit.new is not None,
        is_deleting="deletionTimestamp" in doc["metadata"],
        name=doc["metadata"]["name"],
        owner=next((reference["uid"] for reference in doc["metadata"].get("ownerReferences") or ()), ""),
        generation=doc["metadata"]["generation"],
        required=tuple((spec.get("requiredPersistentTopology") or {}).get("keys") or ()),
        preferred=tuple(
            (item["weight"], tuple(item["preference"]["keys"]))
            for item in spec.get("preferredPersistentTopology") or ()
        ),
        annotations=tuple(annotation["key"] for annotation in spec.get("persistentPodAnnotations") or ()),
        keeps_all=spec.get("persistentPodStateRetentionPolicy") == "WhenDeleted",
        records={
            name: Record(
                node=state.get("nodeName", ""),
                labels=state.get("nodeTopologyLabels") or {},
                annotations=state.get("annotations") or {},
            )
            for name, state in (status.get("podStates") or {}).items()
        },
        observed=status.get("observedGeneration", 0),
    )


class Set(msgspec.Struct, frozen=True):
    """One version of the StatefulSet."""

    revision: int
    uid: str
    goes_on: bool
    slots: Collection[int]
    is_generating: bool = False
    topology: Topology = ((), (), ())

    def asks(self) -> bool:
        """Whether a PersistentPodState of its name should exist."""
        return self.goes_on and self.is_generating and bool(self.topology[0] or self.topology[1])


class StateRules:
    """Rules of one PersistentPodState, across deletions and new creations. `pods`: those of its workload `name`."""

    controllers = ("persistentpodstate",)
    shelves = frozenset({STATES, SETS, PODS, NODES})

    def __init__(self, scene: Scene) -> None:
        self._pods = scene.pods
        self._namespace, self._name = scene.namespace, scene.name
        self._start, self._is_calm = scene.start, scene.is_calm
        self._states = [NO_STATE]
        self._sets = [Set(0, "", False, ())]
        self._nodes: dict[str, list[Node]] = {}
        self._terms: Sequence[Any] = ()
        """Preferred terms of the template; they do not change."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves` in order, after `pods` has recorded it."""
        if commit.shelf == NODES:
            self._nodes.setdefault(commit.key.name, [NO_NODE]).append(read_node(commit))
        elif commit.key.namespace != self._namespace:
            return
        elif commit.shelf == SETS:
            self._on_set(commit)
        elif commit.shelf == STATES:
            yield from self._on_state(commit)
        elif commit.old is None:
            yield from self._on_created(commit)
        elif commit.reconcile is not None:
            yield self._broken(commit, "touched", f"{commit.key.name} is written to")

    def _on_set(self, commit: Commit) -> None:
        doc: Any = commit.new if commit.new is not None else commit.old
        workload = read_workload(doc, commit.revision)
        goes_on = commit.new is not None and not workload.is_deleting
        annotations = doc["metadata"].get("annotations") or {}
        required, preferred, noted = (
            tuple(
                dict.fromkeys(
                    filter(None, map(str.strip, annotations.get(f"kruise.io/{text}", "").split(",")))
                )
            )
            for text in ASKED
        )
        topology = required, ((GENERATED_WEIGHT, preferred),) if preferred else (), noted
        is_generating = annotations.get(GENERATE) == "true"
        self._sets.append(
            Set(commit.revision, workload.uid, goes_on, workload.slots, is_generating, topology)
        )
        self._terms = _terms_of(doc["spec"]["template"]["spec"])

    def _on_created(self, commit: Commit) -> Iterator[Violation]:
        pod: Any = commit.new
        name, spec = pod["metadata"]["name"], pod["spec"]
        by = (pod["metadata"].get("annotations") or {}).get(INJECTED, "")
        terms = _terms_of(spec)
        own = len(self._terms)
        got = spec.get("nodeSelector") or {}, list(terms[own:]), by
        states = self._states
        if self._is_calm:
            old = [number for number, state in enumerate(states) if state.at <= commit.at - SEEN_S]
            states = states[old[-1] if old else 0 :]
        if list(terms[:own]) != list(self._terms) or not any(got == state.binding(name) for state in states):
            wanted = states[-1].binding(name)
            yield self._broken(commit, "injected", f"{name} is bound to {got}, recorded is {wanted}")

    def _on_state(self, commit: Commit) -> Iterator[Violation]:
        after = read_state(commit)
        before = self._states[-1]
        self._states.append(after)
        reconcile = commit.reconcile
        if reconcile is None:
            return
        if not after.is_there or not before.is_there or before.generation != after.generation:
            yield from self._on_generated(commit, reconcile, before, after)
            return
        states = [
            state
            for state in list_versions_since(self._states[:-1], reconcile.known.get(STATES, 0))
            if state.is_there
        ]
        for name, record in after.records.items():
            if record != before.records.get(name) and not self._is_true(name, record, reconcile, states):
                yield self._broken(commit, "record", f"{name} was never {record}")
        for name in before.records.keys() - after.records.keys():
            if not self._may_be_dropped(name, reconcile, states):
                yield self._broken(commit, "dropped", f"the record of {name} is dropped")
        if after.observed not in {state.generation for state in states}:
            yield self._broken(commit, "generation", f"it is said to be of generation {after.observed}")

    def _on_generated(
        self, commit: Commit, reconcile: Reconcile, before: State, after: State
    ) -> Iterator[Violation]:
        """A PersistentPodState is created, updated and deleted as its StatefulSet requests; one of a person is
        kept."""
        known = list_versions_since(self._sets, reconcile.known.get(SETS, 0))
        sets = [item for item in known if item.goes_on and item.uid == after.owner]
        if after.is_there:
            is_right = any(item.asks() and item.topology == after.topology for item in sets)
            is_right = is_right and (not before.is_there or before.records == after.records)
        else:
            is_right = any(not item.is_generating for item in sets)
        if not is_right:
            what = "is changed" if before.is_there and after.is_there else "comes or goes"
            yield self._broken(commit, "generated", f"{after.name} {what}, and nobody asks for that")

    def _is_true(self, name: str, record: Record, reconcile: Reconcile, states: Sequence[State]) -> bool:
        """Whether a pod of this name was ready on that node, and both had these labels and annotations."""
        owners = {
            item.uid for item in list_versions_since(self._sets, reconcile.known.get(SETS, 0)) if item.goes_on
        }
        nodes = list_versions_since(self._nodes.get(record.node, [NO_NODE]), reconcile.known.get(NODES, 0))
        for versions in self._pods.all_since(reconcile.known.get(PODS, 0), None):
            if versions[0].name == name and any(
                version.is_active
                and version.has_ready_condition
                and version.node == record.node
                and version.owner in owners
                for version in versions
            ):
                for state in states:
                    if any(record.labels == _some(node.labels, state.keys) for node in nodes) and any(
                        record.annotations == _some(version.annotations, state.annotations)
                        for version in versions
                    ):
                        return True
        return False

    def _may_be_dropped(self, name: str, reconcile: Reconcile, states: Sequence[State]) -> bool:
        """Whether the StatefulSet may be deleted, or the pod is neither wanted nor exists."""
        sets = list_versions_since(self._sets, reconcile.known.get(SETS, 0))
        if any(not item.goes_on for item in sets):
            return True
        if all(state.keeps_all for state in states) or all(_ordinal(name) in item.slots for item in sets):
            return False
        if any(not item.slots for item in sets):  # without wanted pods, existing pods do not count
            return True
        known = reconcile.known.get(PODS, 0)
        return not any(
            versions[0].revision <= known
            and all(version.name == name and version.is_active for version in versions)
            for versions in self._pods.all_since(known, None)
        )

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        state, result = self._states[-1], self._sets[-1]
        if result.asks() and (not state.is_there or (state.owner and state.topology != result.topology)):
            yield Violation("generated", f"the StatefulSet asks for {result.topology}, there is {state}", now)
        if not state.is_there:
            return
        if state.owner and not (result.goes_on and result.is_generating and result.uid == state.owner):
            yield Violation("generated", "its StatefulSet does not ask for it any more", now)
        if state.observed != state.generation:
            what = f"it says generation {state.observed}, it is {state.generation}"
            yield Violation("generation", what, now)
        pods = [
            version for version in self._pods.latest() if version.is_active and version.owner == result.uid
        ]
        if not result.goes_on:
            pods = []
        for pod in pods:
            if pod.has_ready_condition and result.slots:
                yield from self._is_recorded(pod, state, now)
        there = {pod.name for pod in pods}
        left = [
            name
            for name in state.records
            if name not in there
            and (not result.goes_on or (not state.keeps_all and _ordinal(name) not in result.slots))
        ]
        if left:
            yield Violation("dropped", f"{left} are recorded, and not wanted any more", now)

    def _is_recorded(self, pod: Version, state: State, now: float) -> Iterator[Violation]:
        record = state.records.get(pod.name)
        if (
            record is None
            or record.node != pod.node
            or record.labels != _some(self._nodes[pod.node][-1].labels, state.keys)
            or record.annotations != _some(pod.annotations, state.annotations)
        ):
            yield Violation("recorded", f"{pod.name} is ready on {pod.node}, recorded is {record}", now)

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def _some(labels: Mapping[str, str], keys: Collection[str]) -> Mapping[str, str]:
    return {key: labels[key] for key in keys if key in labels}


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def _terms_of(spec: Any) -> Sequence[Any]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
