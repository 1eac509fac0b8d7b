"""Rules of PodProbeMarkers of a workload's pods, and of the NodePodProbes of all nodes.

a marker is written  ──▶ each node gets the marker's probes for the selected pods, and nothing else
an agent has reported ──▶ pods get the conditions, labels and annotations that markers define for it, and no others
a marker, a pod or a node is deleted ──▶ its probes are removed

The names in a NodePodProbe show the marker that caused a change; rules.py describes how rules consider what a manager
could know. There are no virtual nodes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.probe_documents import (
    Entry,
    Marker,
    NodeProbes,
    Pod,
    marker_of,
    read_marker,
    read_node_probes,
    read_pod,
)
from simulation.pull_documents import NO_NODE, Node, read_node
from simulation.rules import PODS, Scene, Violation

__all__ = ["ProbeRules"]

MARKERS, PROBES, NODES = "podprobemarkers.apps.kruise.io", "nodepodprobes.apps.kruise.io", "nodes"
FINALIZER = "kruise.io/node-pod-probe-cleanup"
LATE_S = 10.0
"""Seconds in which due work is done, without faults."""
CLOCK_S = 1.0
"""Times are stored in whole seconds."""

Found = tuple[Document, Document, Collection[str]]
"""A state that an agent has reported, its probe in a marker, and the conditions of earlier states."""


class ProbeRules:
    """Rules of all markers of the namespace. See `BesideRules`."""

    controllers = ("podprobemarker", "nodepodprobe")
    shelves = frozenset({MARKERS, PROBES, NODES, PODS})

    def __init__(self, scene: Scene) -> None:
        self._namespace, self._start, self._is_calm = scene.namespace, scene.start, scene.is_calm
        self._last_at = scene.start
        """When something was written last."""
        self._pods: dict[str, list[Pod]] = {}
        """Uid → versions of the pod."""
        self._touched: dict[str, int] = {}
        """Uid of a pod → revision of the last write by a person."""
        self._markers: dict[str, list[Marker]] = {}
        """Versions by name, also before a deletion and new creation; `_probes` and `_nodes` likewise."""
        self._probes: dict[str, list[NodeProbes]] = {}
        self._nodes: dict[str, list[Node]] = {}

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        match commit.shelf:
            case "nodes":
                self._nodes.setdefault(commit.key.name, [NO_NODE]).append(read_node(commit))
            case "pods" if commit.key.namespace == self._namespace:
                yield from self._on_pod(commit)
            case "podprobemarkers.apps.kruise.io":
                yield from self._on_marker(commit)
            case "nodepodprobes.apps.kruise.io":
                yield from self._on_node_probes(commit)
        self._last_at = commit.at

    # ── probes of nodes ──────────────────────────────────────────────────────

    def _on_node_probes(self, commit: Commit) -> Iterator[Violation]:
        after = read_node_probes(commit)
        versions = self._probes.setdefault(after.name, [])
        before = versions[-1] if versions and versions[-1].is_stored else None
        versions.append(after)
        if commit.reconcile is None:
            if not commit.sender and before is not None:
                yield from self._on_found(commit, before, after)
            return
        nodes = list_versions_since(
            self._nodes.get(after.name, [NO_NODE]), commit.reconcile.known.get(NODES, 0)
        )
        if before is None:
            if not any(node.is_there and node.ready_since is not None for node in nodes):
                yield self._broken(commit, "node", f"NodePodProbe {after.name} is made, and no node is ready")
        elif before.is_there and not after.is_there:
            if all(node.is_there for node in nodes):
                yield self._broken(commit, "node", f"NodePodProbe {after.name} is deleted, its node is there")
        elif before.states != after.states:
            yield self._broken(commit, "touched", f"{after.name}: results are for its agent to write")
        else:
            is_surely_there = all(node.is_there for node in nodes)
            yield from self._on_asked(commit, commit.reconcile, before, after, is_surely_there)

    def _on_asked(
        self,
        commit: Commit,
        reconcile: Reconcile,
        before: NodeProbes,
        after: NodeProbes,
        is_node_there: bool,
    ) -> Iterator[Violation]:
        was = {(uid, name): probe for uid, name, probe in before.probes()}
        is_ = {(uid, name): probe for uid, name, probe in after.probes()}
        changed = sorted(key for key in {**was, **is_} if was.get(key) != is_.get(key))
        if reconcile.controller == "nodepodprobe":
            gone = sorted(before.entries.keys() - after.entries.keys())
            kept = [text for text in gone if not self._may_be_gone(text, reconcile)]
            if kept or {uid for uid, _ in changed} - set(gone):
                yield self._broken(commit, "kept", f"{after.name}: {changed} of pods that are there")
            return
        if len({marker_of(name) for _, name in changed}) > 1:
            yield self._broken(commit, "exact", f"{after.name}: {changed} are of several markers")
        for uid, name in changed:
            pairs = list(self._known(uid, name, reconcile))
            if (uid, name) in is_:
                if not any(
                    pod.node == after.name and marker.asked(pod).get(name) == is_[uid, name]
                    for marker, pod in pairs
                ):
                    yield self._broken(commit, "asked", f"{after.name}: {name} of {uid}: {is_[uid, name]}")
                if not any(FINALIZER in marker.finalizers for marker, _ in pairs):
                    yield self._broken(commit, "finalizer", f"{after.name}: {name}, which may be forgotten")
            elif pairs and is_node_there and all(name in marker.asked(pod) for marker, pod in pairs):
                yield self._broken(commit, "kept", f"{after.name}: {name} of {uid} is taken back")
        for uid, entry in after.entries.items():
            known = list_versions_since(self._pods.get(uid, ()), reconcile.known.get(PODS, 0))
            old = before.entries.get(uid)
            if (old is None or old.ip != entry.ip) and not any(
                (pod.name, pod.namespace, pod.ip) == (entry.name, entry.namespace, entry.ip) for pod in known
            ):
                yield self._broken(
                    commit, "asked", f"{after.name}: {entry.name} at {entry.ip or 'no address'}"
                )

    def _may_be_gone(self, uid: str, reconcile: Reconcile) -> bool:
        known = reconcile.known.get(PODS, 0)
        versions = self._pods.get(uid, ())
        return (
            not versions
            or versions[0].revision > known
            or any(not pod.is_active for pod in list_versions_since(versions, known))
        )

    def _known(self, uid: str, name: str, reconcile: Reconcile) -> Iterator[tuple[Marker, Pod]]:
        """Versions of a probe's marker and pod that a manager may know."""
        markers = list_versions_since(self._markers.get(marker_of(name), ()), reconcile.known.get(MARKERS, 0))
        yield from product(
            markers, list_versions_since(self._pods.get(uid, ()), reconcile.known.get(PODS, 0))
        )

    # ── what agents find ─────────────────────────────────────────────────────

    def _on_found(self, commit: Commit, before: NodeProbes, after: NodeProbes) -> Iterator[Violation]:
        """A state is reported after enough consecutive results, and its time is the time of its change. Earlier
        results are then visible on the pod."""
        if self._is_calm and commit.at - self._last_at > LATE_S:
            for uid, pods in self._pods.items():
                # A label or annotation that a person removed is restored after the next result.
                is_as_shown = self._touched.get(uid, 0) < before.revision
                if is_as_shown and pods[-1].is_active and pods[-1].node == before.name:
                    yield from self._shows_all(pods[-1], before, commit.at - self._start)
        for uid, states in after.states.items():
            known = {entry["name"]: entry for entry in before.states.get(uid, ())}
            for state in states:
                old = known.get(state["name"])
                if old is not None and old["state"] == state["state"]:
                    if old["lastTransitionTime"] != state["lastTransitionTime"]:
                        yield self._broken(commit, "found", f"{state['name']} has not changed: {state}")
                elif state["state"] != "Unknown":
                    yield from self._is_found_often(commit, uid, state, old)

    def _is_found_often(
        self, commit: Commit, uid: str, state: Document, old: Document | None
    ) -> Iterator[Violation]:
        versions = self._probes[commit.key.name]
        entry = versions[-1].entries.get(uid)
        pods = self._pods.get(uid)
        if entry is None or state["name"] not in entry.probes or not pods:
            return
        container, check = entry.probes[state["name"]]
        if container not in pods[-1].started:
            return
        delay, period = (max(check.get(f"{literal}Seconds", 0), 1) for literal in ("initialDelay", "period"))
        often = max(
            check.get("successThreshold" if state["state"] == "Succeeded" else "failureThreshold", 0), 1
        )
        begun = pods[-1].started[container] + delay
        if old is not None:
            begun = max(begun, parse_time(old["lastProbeTime"]))
        changed_at = max(
            (version.at for version in versions if not _has(version, uid, state["name"], entry)), default=0.0
        )
        if changed_at < begun and parse_time(state["lastProbeTime"]) < begun + (often - 1) * period - CLOCK_S:
            yield self._broken(commit, "found", f"{state} is found too soon")

    # ── what pods show ───────────────────────────────────────────────────────

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        after = read_pod(commit)
        versions = self._pods.setdefault(after.uid, [])
        before = versions[-1] if versions else None
        versions.append(after)
        if commit.sender == "user":
            self._touched[after.uid] = commit.revision
        if commit.reconcile is None or before is None:
            return
        if before.rest != after.rest or not before.conditions.keys() <= after.conditions.keys():
            yield self._broken(commit, "touched", f"{after.name} is changed")
        result = list(self._found(after, commit.reconcile))
        for type_, (status, message) in after.conditions.items():
            if before.conditions.get(type_) != (status, message) and not any(
                probe.get("podConditionType") == type_
                and type_ not in taken
                and _condition(state) == (status, message)
                for state, probe, taken in result
            ):
                yield self._broken(commit, "shown", f"{after.name}: {type_} is {status}: {message}")
        for field in ("labels", "annotations"):
            was, is_ = getattr(before, field), getattr(after, field)
            for key in {**was, **is_}:
                if was.get(key) != is_.get(key) and not any(
                    _makes(probe, state["state"], field, key, is_.get(key)) for state, probe, _ in result
                ):
                    yield self._broken(commit, "marked", f"{after.name}: {field} {key}={is_.get(key)}")

    def _found(self, pod: Pod, reconcile: Reconcile) -> Iterator[Found]:
        """Every state of the pod that a manager may know, with its probe as it may know that."""
        for version in list_versions_since(self._probes.get(pod.node, ()), reconcile.known.get(PROBES, 0)):
            taken: set[str] = set()
            for state in version.states.get(pod.uid, ()):
                markers = self._markers.get(marker_of(state["name"]), ())
                known = list_versions_since(markers, reconcile.known.get(MARKERS, 0))
                probes = [marker.probe(state["name"]) or {} for marker in known]
                yield from ((state, probe, frozenset(taken)) for probe in probes)
                types = {probe.get("podConditionType", "") for probe in probes}
                taken.update(types if len(types) == 1 else ())

    # ── markers ──────────────────────────────────────────────────────────────

    def _on_marker(self, commit: Commit) -> Iterator[Violation]:
        after = read_marker(commit)
        versions = self._markers.setdefault(after.name, [])
        before = versions[-1] if versions and versions[-1].is_stored else None
        versions.append(after)
        if commit.reconcile is None or before is None:
            return
        if before.spec != after.spec or (before.is_there and not after.is_there):
            yield self._broken(commit, "touched", f"{after.name} is changed")
        if FINALIZER in before.finalizers and (FINALIZER not in after.finalizers or not after.is_stored):
            left = [
                name
                for name, probes in self._probes.items()
                if all(
                    node_probes.is_there and after.name in node_probes.markers(self._namespace)
                    for node_probes in list_versions_since(probes, commit.reconcile.known.get(PROBES, 0))
                )
            ]
            if before.is_there or left:
                yield self._broken(
                    commit, "finalizer", f"{after.name} is let go, nodes {left} have its probes"
                )
        elif not before.is_there and FINALIZER in after.finalizers and FINALIZER not in before.finalizers:
            yield self._broken(commit, "finalizer", f"{after.name} goes, and is held")
        if before.status != after.status:
            yield from self._on_counted(commit, commit.reconcile, after)

    def _on_counted(self, commit: Commit, reconcile: Reconcile, marker: Marker) -> Iterator[Violation]:
        known = list_versions_since(self._markers[marker.name][:-1], reconcile.known.get(MARKERS, 0))
        if marker.status.get("observedGeneration") not in {marker.generation for marker in known}:
            yield self._broken(commit, "counts", f"{marker.name}: {dict(marker.status)} is of no generation")
        surely = maybe = 0
        for versions in self._pods.values():
            pods = list_versions_since(versions, reconcile.known.get(PODS, 0))
            nodes = list_versions_since(
                self._nodes.get(pods[-1].node, [NO_NODE]), reconcile.known.get(NODES, 0)
            )
            selected = [
                marker.selects(pod) and node.is_there for marker, pod, node in product(known, pods, nodes)
            ]
            maybe += any(selected)
            surely += all(selected) and pods[0].revision <= reconcile.known.get(PODS, 0)
        if not surely <= marker.status.get("matchedPods", 0) <= maybe:
            what = f"{marker.name} is about {surely} to {maybe} pods, and says {dict(marker.status)}"
            yield self._broken(commit, "counts", what)

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        markers = [versions[-1] for versions in self._markers.values()]
        probes = {name: versions[-1] for name, versions in self._probes.items() if versions[-1].is_stored}
        nodes = {name for name, versions in self._nodes.items() if versions[-1].is_there}
        if nodes != probes.keys():
            yield Violation("node", f"nodes {sorted(nodes)}, NodePodProbes of {sorted(probes)}", now)
        pods = [versions[-1] for versions in self._pods.values() if versions[-1].node in nodes]
        for name, probe in probes.items():
            yield from self._asks_for_all(probe, [pod for pod in pods if pod.node == name], markers, now)
        for pod in pods:
            if pod.is_active and pod.node in probes:
                yield from self._shows_all(pod, probes[pod.node], now)
        for marker in markers:
            if marker.is_stored and (not marker.is_there or FINALIZER not in marker.finalizers):
                yield Violation("finalizer", f"{marker.name}: {marker.finalizers}", now)
            matched = sum(marker.selects(pod) for pod in pods)
            true = {"observedGeneration": marker.generation, "matchedPods": matched}
            said = {name: marker.status.get(name, 0) for name in true}
            if marker.is_there and said != true:
                yield Violation("status", f"{marker.name} says {said}, true is {true}", now)

    def _asks_for_all(
        self, node: NodeProbes, pods: Sequence[Pod], markers: Sequence[Marker], now: float
    ) -> Iterator[Violation]:
        wanted = {
            pod.uid: (
                pod.ip,
                {name: value for marker in markers for name, value in marker.asked(pod).items()},
            )
            for pod in pods
            if any(marker.asked(pod) for marker in markers)
        }
        asked = {uid: (entry.ip, dict(entry.probes)) for uid, entry in node.entries.items()}
        if wanted != asked:
            yield Violation("converges", f"{node.name} is asked for {asked}, wanted is {wanted}", now)
            return
        for pod in pods:
            names = {container["name"] for container in pod.document["spec"]["containers"]}
            due = {
                name
                for name, (container, _) in wanted.get(pod.uid, ("", {}))[1].items()
                if container in names
            }
            states = {entry["name"]: entry["state"] for entry in node.states.get(pod.uid, ())}
            unknown = {name for name, state in states.items() if state == "Unknown"} - due
            if states != {**dict.fromkeys(due, "Succeeded"), **dict.fromkeys(unknown, "Unknown")}:
                yield Violation("found", f"{pod.name}: {states}, made are {due}", now)

    def _shows_all(self, pod: Pod, node: NodeProbes, now: float) -> Iterator[Violation]:
        conditions: dict[str, tuple[str, str]] = {}
        marks: dict[tuple[str, str], str | None] = {}
        for state in node.states.get(pod.uid, ()):
            marker = self._markers[marker_of(state["name"])][-1]
            probe = marker.probe(state["name"]) or {}
            if type_ := probe.get("podConditionType"):
                conditions.setdefault(type_, _condition(state))
            for policy, field in product(probe.get("markerPolicy") or (), ("labels", "annotations")):
                for key, value in (policy.get(field) or {}).items():
                    if policy["state"] == state["state"]:
                        marks[field, key] = value
                    else:
                        marks.setdefault((field, key), None)
        wrong = {
            type_: condition
            for type_, condition in conditions.items()
            if pod.conditions.get(type_) != condition
        }
        if wrong:
            yield Violation("shown", f"{pod.name} shows {dict(pod.conditions)}, wanted is {wrong}", now)
        missed = {key: value for key, value in marks.items() if getattr(pod, key[0]).get(key[1]) != value}
        if missed:
            yield Violation("marked", f"{pod.name} is not marked: {missed}", now)

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender or 'an agent'})", commit.at - self._start)


def _has(version: NodeProbes, uid: str, name: str, entry: Entry) -> bool:
    """Whether this version had the same probe."""
    known = version.entries.get(uid)
    return known is not None and known.probes.get(name) == entry.probes[name]


def _condition(state: Document) -> tuple[str, str]:
    """Status and message of a condition that shows a state."""
    return "True" if state["state"] == "Succeeded" else "False", state.get("message") or ""


def _makes(probe: Document, state: str, field: str, key: str, value: str | None) -> bool:
    """Whether a policy sets such a value for a pod in this state; None: it removes the key."""
    policies: Sequence[Mapping[str, Document]] = probe.get("markerPolicy") or ()
    held = [policy for policy in policies if key in (policy.get(field) or {})]
    if value is None:
        return any(item["state"] != state for item in held)
    return any(item["state"] == state and item[field][key] == value for item in held)
