"""Rules of a DaemonSet for every commit.

The rules are those of the specification's "Placement", "Manage" and "Update", implemented independently;
rules.py describes how they consider what a manager could know.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import Version
from simulation.rules import (
    PODS,
    REVISIONS,
    Violation,
    WorkloadRules,
    is_out_of_service,
    number,
    plain,
    read_taints,
)
from simulation.versions import versions_since

__all__ = ["DaemonSetRules", "Workload"]

SETS, NODES = "daemonsets.apps.kruise.io", "nodes"


class Workload(msgspec.Struct, frozen=True):
    """One version of the DaemonSet. `revision` is the API server's."""

    revision: int
    uid: str
    is_deleting: bool
    partition: Any
    max_unavailable: Any
    max_surge: Any
    paused: bool
    on_delete: bool
    in_place: bool
    min_ready_s: int
    template: Any
    pool: str
    """Label of the nodes of the pool; empty: all nodes."""
    ignored: str
    """Maximum of nodes out of service that do not use up the budget; empty: none."""
    is_strict: bool
    pre_delete: Mapping[str, str]
    in_place_hook: Mapping[str, str]
    status: Mapping[str, Any]
    generation: int


def read_workload(doc: Any, revision: int) -> Workload:
    """A DaemonSet as stored. Fields that admission defaults are there."""
    spec = doc["spec"]
    strategy = spec.get("updateStrategy") or {}
    block = strategy.get("rollingUpdate") or {}
    lifecycle = spec.get("lifecycle") or {}
    surge = block.get("maxSurge", 0)
    annotations = doc["metadata"].get("annotations") or {}
    return Workload(
        revision=revision,
        uid=doc["metadata"]["uid"],
        is_deleting="deletionTimestamp" in doc["metadata"],
        partition=block.get("partition", 0),
        max_unavailable=block.get("maxUnavailable", 0 if surge else 1),
        max_surge=surge,
        paused=bool(block.get("paused")),
        on_delete=strategy.get("type") == "OnDelete",
        in_place=block.get("rollingUpdateType") == "InPlaceIfPossible",
        min_ready_s=spec.get("minReadySeconds", 0),
        template=plain(spec["template"]),
        ignored=annotations.get("pykruise.io/ignore-unavailable-nodes", ""),
        is_strict=annotations.get("pykruise.io/strict-max-unavailable") == "true",
        pool=(spec["template"]["spec"].get("nodeSelector") or {}).get("sim/pool", ""),
        pre_delete=(lifecycle.get("preDelete") or {}).get("labelsHandler") or {},
        in_place_hook={},
        status=doc.get("status") or {},
        generation=doc["metadata"].get("generation", 0),
    )


class Node(msgspec.Struct, frozen=True):
    """One node as it was from `revision` on."""

    revision: int
    is_there: bool
    pool: str
    effects: frozenset[str]
    """Effects of the node's taint, which no pod in these scripts tolerates."""
    is_out_of_service: bool
    """Whether it is cordoned, or does not respond."""

    def runs(self, workload: Workload) -> bool:
        """Whether the node should run a pod."""
        return self.is_there and not self.effects and workload.pool in ("", self.pool)

    def expels(self, workload: Workload) -> bool:
        """Whether an existing pod must be deleted."""
        return not self.is_there or "NoExecute" in self.effects or workload.pool not in ("", self.pool)


class DaemonSetRules(WorkloadRules[Workload]):
    """Rules of one DaemonSet."""

    shelf = SETS
    shelves = frozenset({SETS, PODS, REVISIONS, NODES})

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._nodes: dict[str, list[Node]] = {}

    def read(self, document: Any, revision: int) -> Workload:
        return read_workload(document, revision)

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        doc: Any = commit.new if commit.new is not None else commit.old
        taints = read_taints(doc)
        node = Node(
            revision=commit.revision,
            is_there=commit.new is not None,
            pool=(doc["metadata"].get("labels") or {}).get("sim/pool", ""),
            effects=frozenset(taint["effect"] for taint in taints if taint["key"] == "sim/taint"),
            is_out_of_service=is_out_of_service(taints),
        )
        self._nodes.setdefault(commit.key.name, []).append(node)
        yield from ()

    def on_changed(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        if not after.is_active:
            yield from self._on_deleted(commit, reconcile, before, workloads)
            yield from self._on_strict_update(commit, reconcile, before, workloads)
        elif after.hash != before.hash:
            yield from self._on_updated(commit, reconcile, before, after, workloads)
            yield from self._on_strict_update(commit, reconcile, before, workloads)
        yield from self._on_taken_out(commit, reconcile, before, after, workloads)

    # ── single rules ─────────────────────────────────────────────────────────

    def on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        nodes = self._nodes_since(pod.target, reconcile)
        if not any(node.runs(workload) for node in nodes for workload in workloads):
            yield self._broken(commit, "placement", f"{pod.name} is made for {pod.target}, which runs no pod")
        duplicates = [
            versions
            for versions in self._on_node(reconcile, pod.target)
            if versions[0].uid != pod.uid
            and self._is_known(reconcile, versions[0].uid)
            and all(self._is_member(version, workloads[-1]) for version in versions)
        ]
        most = 2 if any(workload.max_surge for workload in workloads) else 1
        if len(duplicates) >= most:
            names = [versions[-1].name for versions in duplicates]
            yield self._broken(commit, "too many", f"{pod.name} is made for {pod.target} beside {names}")
        if pod.hash not in {self._hash_of(workload) for workload in workloads}:
            yield self._broken(commit, "revision", f"{pod.name} is of {pod.hash}, which is not wanted")
        # With surge, a node whose only pod is in PreparingDelete gets a new pod at once.
        is_surge = any(
            all(version.state != "PreparingDelete" for version in versions) for versions in duplicates
        )
        if most == 2 and is_surge and all(workload.paused or workload.on_delete for workload in workloads):
            yield self._broken(commit, "update", f"{pod.name} is a surge while updates are off")

    def _on_deleted(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        yield from self._is_hook_heeded(commit, pod, versions, workloads)
        if any(version.state == "PreparingDelete" or not version.is_active for version in versions):
            return
        problems = [self._why_not_gone(reconcile, pod, workload) for workload in workloads]
        if all(problems):
            yield self._broken(
                commit, "deletion", f"{pod.name} on {pod.target} goes for no reason: {problems[-1]}"
            )

    def _on_updated(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A pod was updated in place: its new revision and its node must be the wanted ones."""

        def problem(workload: Workload) -> str:
            if self._hash_of(workload) != after.hash:
                return f"{self._hash_of(workload)} is wanted"
            if not workload.in_place and before.images != after.images:
                return "the type is not InPlaceIfPossible"
            return self._why_update_waits(reconcile, before, workload)

        problems = [problem(workload) for workload in workloads]
        if all(problems):
            yield self._broken(commit, "update", f"{after.name} is updated to {after.hash}: {problems[-1]}")

    def _why_not_gone(self, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        """Empty when the pod may be deleted."""
        if any(node.expels(workload) for node in self._nodes_since(pod.target, reconcile)):
            return ""
        others = [
            versions
            for versions in self._on_node(reconcile, pod.target)
            if versions[0].uid != pod.uid and any(self._is_member(version, workload) for version in versions)
        ]
        if others and not workload.max_surge:
            return ""
        target = self._hash_of(workload)
        if any(version.hash == pod.hash or pod.hash != target for versions in others for version in versions):
            return ""
        if pod.hash == target:
            return f"it is of {target}, as wanted"
        return self._why_update_waits(reconcile, pod, workload)

    def _why_update_waits(self, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        if workload.paused:
            return "updates are paused"
        if workload.on_delete:
            return "updates are OnDelete"
        target = self._hash_of(workload)
        if workload.max_surge and not isinstance(workload.max_surge, str):
            versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
            if all(version.is_ready for version in versions):
                return "with surge the new pod comes first"
        partition = number(workload.partition, len(self._running(workload)), up=False)
        old = {
            versions[0].target
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if versions[0].target != pod.target
            and any(self._is_member(version, workload) and version.hash != target for version in versions)
        }
        if len(old) < partition and self._nodes_are_known(reconcile):
            return f"the partition keeps {partition} nodes on older revisions, {len(old)} are left"
        return ""

    def _on_taken_out(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A serving pod leaves service for an update only while the number of nodes in transition is below the
        limit."""

        def breaks(workload: Workload) -> str:
            if not self._is_taken_out(commit, reconcile, before, after, workload):
                return ""
            versions = self.pods.since(before.uid, reconcile.known.get(PODS, 0))
            if not versions[0].is_available(min_ready_s=workload.min_ready_s, at=reconcile.at):
                return ""
            if any(node.expels(workload) for node in self._nodes_since(before.target, reconcile)):
                return ""
            if self._others_on(reconcile, before, workload) or workload.max_surge:
                return ""
            return self._why_no_room(commit, reconcile, before, workload)

        problems = [breaks(workload) for workload in workloads]
        if all(problems):
            yield self._broken(
                commit, "availability", f"{before.name} is taken out of service: {problems[-1]}"
            )

    def _on_strict_update(
        self, commit: Commit, reconcile: Reconcile, before: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A pod that is not available is replaced only while the number of nodes in transition is below
        maxUnavailable, if strict-max-unavailable is set."""

        def breaks(workload: Workload) -> str:
            versions = self.pods.since(before.uid, reconcile.known.get(PODS, 0))
            nodes = self._nodes_since(before.target, reconcile)
            is_free = workload.max_surge or not workload.is_strict or before.hash == self._hash_of(workload)
            if is_free or any(version.phase in ("Failed", "Succeeded") for version in versions):
                return ""
            if any(version.state == "PreparingDelete" or not version.is_active for version in versions):
                return ""
            if any(node.expels(workload) or (workload.ignored and node.is_out_of_service) for node in nodes):
                return ""
            if self._others_on(reconcile, before, workload):
                return ""
            return self._why_no_room(commit, reconcile, before, workload)

        problems = [breaks(workload) for workload in workloads]
        if all(problems):
            yield self._broken(commit, "strict", f"{before.name} is updated: {problems[-1]}")

    def _why_no_room(self, commit: Commit, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        """Empty when maxUnavailable still allows to replace this pod."""
        count = max(len(self._nodes), 1)
        busy = self._busy(reconcile, pod.target, workload, until=commit.at)
        most = number(workload.max_unavailable, count, up=True)
        out = {
            name
            for name in busy
            if any(node.is_out_of_service for node in self._nodes_since(name, reconcile))
        }
        limit = workload.ignored if "%" in workload.ignored else int(workload.ignored or 0)
        taken = len(busy) - min(len(out), number(limit, count, up=True))
        return f"{sorted(busy)} are on their way already, {most} may be" if taken >= most else ""

    def _others_on(self, reconcile: Reconcile, pod: Version, workload: Workload) -> bool:
        return any(
            versions[0].uid != pod.uid and any(self._is_member(version, workload) for version in versions)
            for versions in self._on_node(reconcile, pod.target)
        )

    def _busy(self, reconcile: Reconcile, node: str, workload: Workload, *, until: float) -> set[str]:
        """Other nodes that surely are between two pods, or whose new pod surely is not available."""
        target = self._hash_of(workload)
        busy: set[str] = set()
        for name in self._nodes:
            states = self._nodes_since(name, reconcile)
            if states and states[0].revision > reconcile.known.get(NODES, 0):
                continue  # a node that has just joined cannot be known
            if name == node or not states or not all(state.runs(workload) for state in states):
                continue
            may_serve = any(
                self._is_member(version, workload)
                and (version.hash != target or self._maybe_available(version, [workload], until=until))
                for versions in self._on_node(reconcile, name)
                for version in versions
            )
            is_free = not workload.is_strict and self._has_replaced(reconcile, name, workload)
            if not may_serve and not is_free:
                busy.add(name)
        return busy

    def _has_replaced(self, reconcile: Reconcile, node: str, workload: Workload) -> bool:
        """Whether this very reconcile has deleted a pod there that did not serve: it does not count against
        maxUnavailable."""
        known = reconcile.known.get(PODS, 0)
        return any(
            before.target == node
            and before.revision <= known
            and self._is_member(before, workload)
            and not before.is_available(min_ready_s=workload.min_ready_s, at=reconcile.at)
            and any(version.sender == reconcile.manager and version.at >= reconcile.at for version in later)
            for before, *later in self.pods.all_since(known, None)
        )

    # ── at rest ──────────────────────────────────────────────────────────────

    def settled(
        self, members: list[Version], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        by_node: dict[str, list[Version]] = {}
        for pod in members:
            by_node.setdefault(pod.target, []).append(pod)
        running = self._running(workload)
        if lonely := sorted(name for name in running if name not in by_node):
            yield Violation("converges", f"nodes without a pod: {lonely}", now)
            return
        if wrong := sorted(name for name in by_node if self._nodes[name][-1].expels(workload)):
            yield Violation("converges", f"nodes with a pod that are to run none: {wrong}", now)
        if crowded := sorted(name for name, pods in by_node.items() if len(pods) > 1):
            yield Violation("converges", f"nodes with more than one pod: {crowded}", now)
        yield from self._all_available(members, workload, now)
        old = [pod.name for pod in members if pod.hash != target]
        keeps = number(workload.partition, len(running), up=False)
        if not workload.paused and not workload.on_delete and len(old) > keeps:
            yield Violation("converges", f"{old} are old, the partition is {keeps}", now)
        yield from self._all_run_their_revisions(members, now)
        yield from self._status_is_true(members, running, workload, target, now)

    def _status_is_true(
        self, members: list[Version], running: set[str], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        here = [pod for pod in members if pod.target in running]
        available = sum(
            pod.is_available(min_ready_s=workload.min_ready_s, at=self._start + now) for pod in here
        )
        wanted = {
            "desiredNumberScheduled": len(running),
            "currentNumberScheduled": len(here),
            "numberReady": sum(pod.is_ready for pod in here),
            "numberAvailable": available,
            "updatedNumberScheduled": sum(pod.hash == target for pod in here),
            "observedGeneration": workload.generation,
        }
        yield from self._counts_are_true(workload, wanted, now)

    # ── what is known ────────────────────────────────────────────────────────

    def _running(self, workload: Workload) -> set[str]:
        return {name for name, states in self._nodes.items() if states[-1].runs(workload)}

    def _nodes_since(self, name: str, reconcile: Reconcile) -> list[Node]:
        """States of a node that a manager may assume to be the current one."""
        return versions_since(self._nodes.get(name) or [], reconcile.known.get(NODES, 0))

    def _nodes_are_known(self, reconcile: Reconcile) -> bool:
        """Whether no node has changed since the reconcile began: only then nodes can be counted."""
        return all(len(self._nodes_since(name, reconcile)) == 1 for name in self._nodes)

    def _on_node(self, reconcile: Reconcile, node: str) -> Iterator[list[Version]]:
        """Pods of one node, each with the versions that the manager may assume to be the current one."""
        for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile):
            if versions[0].target == node:
                yield versions
