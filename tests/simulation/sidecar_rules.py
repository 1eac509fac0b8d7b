"""Rules of a SidecarSet over the pods of a CloneSet.

the controller writes to a pod ──▶ only images of sidecars and their annotations change, to the wanted values; not
                                   while paused, not against partition or selector; and no serving pod while the
                                   allowed number of upgraded pods is out of service
a pod is created ──▶ it has the sidecars of some version of the SidecarSet
at rest ──▶ every pod has the wanted sidecars, or a reason not to have them, and the status is correct

Hot upgrades are not simulated. As always, a write is correct if it is correct for one state that the manager may have
known.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import Version, is_injected
from simulation.rules import PODS, REVISIONS, Scene, Violation, number

__all__ = ["SidecarRules"]

SETS = "sidecarsets.apps.kruise.io"
HASH, IMAGELESS = "kruise.io/sidecarset-hash", "kruise.io/sidecarset-hash-without-image"
LISTED = "kruise.io/sidecarset-injected-list"
ROLLS, LEVEL = "pykruise.io/roll-on-pod-metadata", "sim/level"
SEEN_S = 2.0
"""Seconds in which webhooks know a change, without faults."""


class SidecarSet(msgspec.Struct, frozen=True):
    """One version of the SidecarSet. `revision` is the API server's."""

    revision: int
    name: str
    uid: str
    is_deleting: bool
    images: Mapping[str, str]
    hash: str
    imageless: str
    labels: Mapping[str, str]
    """Labels of the selected pods."""
    only: Mapping[str, str]
    """Pods whose sidecars are upgraded; empty: all."""
    partition: int | str
    most_updated: float
    """Number of pods that may be upgraded, by the annotation updated-pods."""
    max_unavailable: int | str
    metadata: Mapping[str, str]
    """Annotations that running pods get, by the annotation roll-on-pod-metadata."""
    is_paused: bool
    is_only_injected: bool
    generation: int
    status: Mapping[str, Any]

    def hash_on(self, pod: Version) -> str:
        """The hash of this SidecarSet in the pod's annotation."""
        return _recorded(pod, HASH, self.name)

    def is_on(self, pod: Version) -> bool:
        """Whether the pod has this version: its sidecars, and the annotations that running pods get."""
        return self.hash_on(pod) == self.hash and self.metadata.items() <= pod.annotations.items()

    def has(self, pod: Version) -> bool:
        """Whether it selects the pod."""
        return (
            pod.is_active
            and self.labels.items() <= pod.labels.items()
            and self.name in pod.annotations.get(LISTED, "").split(",")
            and set(self.images) <= set(pod.sidecars)
        )

    def upgrades(self, pod: Version) -> bool:
        """Whether the pod waits for this version, and may be upgraded in place."""
        return (
            self.has(pod)
            and not self.is_on(pod)
            and self.only.items() <= pod.labels.items()
            and _recorded(pod, IMAGELESS, self.name) == self.imageless
        )

    def kept(self, of: int) -> int:
        """Number of waiting pods that the partition keeps as they are."""
        keep = number(self.partition, of, up=True)
        if isinstance(self.partition, str) and self.partition != "100%" and of > 1 and keep == of:
            keep -= 1
        return min(keep, of)


def read_sidecarset(doc: Any, revision: int) -> SidecarSet:
    """A SidecarSet as stored."""
    meta, spec = doc["metadata"], doc["spec"]
    strategy = spec.get("updateStrategy") or {}
    annotations = meta.get("annotations") or {}
    return SidecarSet(
        revision=revision,
        name=meta["name"],
        uid=meta["uid"],
        is_deleting="deletionTimestamp" in meta,
        images={container["name"]: container["image"] for container in spec["containers"]},
        hash=annotations[HASH],
        imageless=annotations[IMAGELESS],
        labels=spec["selector"]["matchLabels"],
        only=(strategy.get("selector") or {}).get("matchLabels") or {},
        partition=strategy.get("partition") or 0,
        most_updated=float(annotations.get("pykruise.io/updated-pods", "inf")),
        max_unavailable=strategy.get("maxUnavailable", 1),
        metadata=_list_overwritten(spec) if annotations.get(ROLLS) == "true" else {},
        is_paused=bool(strategy.get("paused")),
        is_only_injected=strategy.get("type") == "NotUpdate",
        generation=meta.get("generation", 0),
        status=doc.get("status") or {},
    )


class SidecarRules:
    """Rules of one SidecarSet. `pods`: those of the selected workload."""

    controllers = ("sidecarset",)
    shelves = frozenset({SETS, PODS, REVISIONS})

    def __init__(self, scene: Scene) -> None:
        self._pods = scene.pods
        self._namespace = scene.namespace
        self._start = scene.start
        self._is_calm = scene.is_calm
        self._sidecarsets: list[SidecarSet] = []
        self._is_gone = True
        self._made_at = 0.0
        self._stored: set[str] = set()
        self._free: dict[str, tuple[str, int]] = {}
        """Pods that were upgraded when they did not serve, with the reconcile: they cost that reconcile nothing."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves` in order, after `pods` has recorded it."""
        if commit.shelf == SETS:
            self._is_gone = commit.new is None
            if commit.old is None:
                self._made_at = commit.at
            if commit.new is not None:
                self._sidecarsets.append(read_sidecarset(commit.new, commit.revision))
        elif commit.shelf == REVISIONS:
            (self._stored.discard if commit.new is None else self._stored.add)(commit.key.name)
        elif commit.shelf == PODS and commit.key.namespace == self._namespace and commit.new is not None:
            if commit.old is None:
                yield from self._is_injected(commit)
            elif commit.reconcile is not None:
                yield from self._on_written(commit, commit.reconcile)

    # ── injection ────────────────────────────────────────────────────────────

    def _is_injected(self, commit: Commit) -> Iterator[Violation]:
        pod = self._now(commit)
        if not self._sidecarsets or not commit.sender.startswith("manager"):
            return
        if pod.sidecars:
            if all(dict(pod.sidecars) != dict(sidecarset.images) for sidecarset in self._sidecarsets):
                yield self._broken(
                    commit, "injection", f"{pod.name} has {dict(pod.sidecars)}, which no SidecarSet asks for"
                )
        elif self._is_calm and not self._is_gone and commit.at - self._made_at > SEEN_S:
            yield self._broken(commit, "injection", f"{pod.name} has no sidecars")

    # ── upgrades ─────────────────────────────────────────────────────────────

    def _on_written(self, commit: Commit, reconcile: Reconcile) -> Iterator[Violation]:
        yield from self._is_nothing_else_touched(commit)
        before, after = self._pods.since(self._now(commit).uid, 0)[-2:]
        known = reconcile.known.get(SETS, 0)
        first = max(0, sum(sidecarset.revision <= known for sidecarset in self._sidecarsets) - 1)
        sidecarsets = self._sidecarsets[first:]
        if not sidecarsets:
            return
        name = sidecarsets[-1].name
        is_metadata = before.annotations.get(LEVEL) != after.annotations.get(LEVEL)
        is_upgrade = (
            is_metadata
            or before.sidecars != after.sidecars
            or _recorded(before, HASH, name) != _recorded(after, HASH, name)
        )
        if not is_upgrade:
            return
        problems = [self._why_not(commit, reconcile, before, after, sidecarset) for sidecarset in sidecarsets]
        rule, what = problems[-1]
        if all(problem for problem, _ in problems):
            yield self._broken(commit, rule, f"sidecars of {after.name} are changed: {what}")

    def _why_not(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, sidecarset: SidecarSet
    ) -> tuple[str, str]:
        """The rule that it breaks, and the details; empty: it is correct."""
        if sidecarset.is_deleting:
            return "terminating", "the SidecarSet terminates"
        if sidecarset.is_paused or sidecarset.is_only_injected:
            return "paused", "upgrades are paused, or there are none"
        if not sidecarset.is_on(after) or dict(after.sidecars) != dict(sidecarset.images):
            return "template", f"to {dict(after.sidecars)}, wanted {dict(sidecarset.images)}"
        versions = self._pods.since(before.uid, reconcile.known.get(PODS, 0))[:-1]
        if not any(sidecarset.upgrades(version) for version in versions):
            return "selector", "it is not to be upgraded, or cannot be in place"
        known = reconcile.known.get(PODS, 0)
        others = [
            histories
            for histories in self._pods.all_since(known, reconcile)
            if histories[0].uid != before.uid
        ]
        sure = [
            histories for histories in others if self._pods.created_at(histories[0].uid).revision <= known
        ]
        fewest = 1 + sum(all(sidecarset.has(history) for history in histories) for histories in sure)
        most = 1 + sum(any(sidecarset.has(history) for history in histories) for histories in others)
        left = sum(any(sidecarset.upgrades(history) for history in histories) for histories in others)
        if left < (keep := min(sidecarset.kept(of) for of in range(fewest, most + 1))):
            return "partition", f"the partition keeps {keep}, {left} are left"
        updated = [
            histories[-1].name
            for histories in sure
            if all(sidecarset.has(history) and sidecarset.is_on(history) for history in histories)
        ]
        if len(updated) >= sidecarset.most_updated:
            return "number", f"{updated} have them already, {sidecarset.most_updated:g} may"
        own = (reconcile.manager, reconcile.number)
        busy = [
            histories[-1].name
            for histories in sure
            if all(_is_busy(sidecarset, history) for history in histories)
            and self._free.get(histories[0].uid) != own
        ]
        may = number(sidecarset.max_unavailable, most, up=True)
        if not all(version.is_ready for version in versions):
            self._free[before.uid] = own
        elif len(busy) >= may:
            return "availability", f"it serves, {busy} are out already and {may} may be"
        return "", ""

    def _is_nothing_else_touched(self, commit: Commit) -> Iterator[Violation]:
        assert commit.old is not None
        assert commit.new is not None
        if _without_sidecars(commit.old) != _without_sidecars(commit.new):
            yield self._broken(commit, "touched", f"more than sidecars of {commit.key.name} is changed")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        if self._is_gone or not self._sidecarsets:
            return
        sidecarset = self._sidecarsets[-1]
        pods = [pod for pod in self._pods.latest() if sidecarset.has(pod)]
        is_enough = sum(sidecarset.is_on(pod) for pod in pods) >= sidecarset.most_updated
        if not sidecarset.is_paused and not sidecarset.is_only_injected and not is_enough:
            waiting = [pod.name for pod in pods if sidecarset.upgrades(pod)]
            # Nobody opens the readiness gate of an orphan again.
            stuck = sum(not pod.owner and _is_busy(sidecarset, pod) for pod in pods)
            is_held_up = stuck >= number(sidecarset.max_unavailable, len(pods), up=True)
            if len(waiting) > (keep := sidecarset.kept(len(pods))) and not is_held_up:
                yield Violation("converges", f"{waiting} have old sidecars, {keep} may", now)
        updated = [pod for pod in pods if sidecarset.is_on(pod)]
        for pod in updated:
            if dict(pod.sidecars) != dict(sidecarset.images):
                yield Violation(
                    "template", f"{pod.name} has {dict(pod.sidecars)}, wanted {dict(sidecarset.images)}", now
                )
        ready = [pod for pod in pods if pod.is_ready and _is_consistent(pod)]
        wanted = {
            "observedGeneration": sidecarset.generation,
            "matchedPods": len(pods),
            "updatedPods": len(updated),
            "readyPods": len(ready),
            "updatedReadyPods": sum(sidecarset.is_on(pod) for pod in ready),
        }
        said = {name: sidecarset.status.get(name, 0) for name in wanted}
        wrong = {name: (said[name], want) for name, want in wanted.items() if said[name] != want}
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)
        if sidecarset.status.get("latestRevision") not in self._stored:
            yield Violation(
                "history", f"revision {sidecarset.status.get('latestRevision')!r} is not stored", now
            )

    def _now(self, commit: Commit) -> Version:
        return next(version for version in self._pods.latest() if version.name == commit.key.name)

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def _list_overwritten(spec: Any) -> Mapping[str, str]:
    return {
        key: value
        for entry in spec.get("patchPodMetadata") or ()
        if entry.get("patchPolicy") == "Overwrite"
        for key, value in entry["annotations"].items()
    }


def _recorded(pod: Version, key: str, name: str) -> str:
    result = json.loads(pod.annotations.get(key) or "{}").get(name) or {}
    return str(result.get("hash") or "")


def _is_busy(sidecarset: SidecarSet, pod: Version) -> bool:
    """Whether the pod is upgraded, and still out of service because of that."""
    return sidecarset.has(pod) and sidecarset.is_on(pod) and not (pod.is_ready and _is_consistent(pod))


def _is_consistent(pod: Version) -> bool:
    return all(pod.running.get(name, "").endswith(image) for name, image in pod.sidecars.items())


def _without_sidecars(doc: Any) -> Any:
    """A pod without the fields that an upgrade of sidecars may change."""
    meta = {
        name: value
        for name, value in doc["metadata"].items()
        if name not in ("annotations", "resourceVersion", "generation", "managedFields")
    }
    containers = [
        {**container, "image": ""} if is_injected(container) else container
        for container in doc["spec"].get("containers") or ()
    ]
    status = doc.get("status") or {}
    conditions = [
        condition
        for condition in status.get("conditions") or ()
        if condition["type"] != "SidecarSetUpgradable"
    ]
    return {
        "metadata": meta,
        "spec": {**doc["spec"], "containers": containers},
        "status": {**status, "conditions": conditions},
    }
