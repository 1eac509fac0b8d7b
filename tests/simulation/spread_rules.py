"""Rules of a WorkloadSpread over a CloneSet.

admission allocates a slot (a write of the status) ──▶ no subset has more pods and promised slots than its limit
a pod is created ──▶ it is in the subset of its annotation, and has a slot there
the controller writes ──▶ only annotations and deletion costs of pods
at rest ──▶ the status counts the existing pods, and deletion costs preserve the spread

A slot is used while admission waits for its pod (30 s), and while the manager that wrote the last status had observed
the pod. A pod that is created later may exceed the limit.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import Version
from simulation.rules import PODS, Scene, Violation, number

__all__ = ["SpreadRules"]

SPREADS, TARGETS = "workloadspreads.apps.kruise.io", "clonesets.apps.kruise.io"
NOTE = "apps.kruise.io/matched-workloadspread"
COST = "controller.kubernetes.io/pod-deletion-cost"
ALL_VERSIONS = "versionIgnored"
ANY_NUMBER = -1
SEEN_S = 2.0
"""Seconds in which webhooks know a change, without faults."""
PATIENCE_S = 29.0
"""Seconds for which a promised slot is kept for its pod: 30 s, minus one for times in whole seconds."""


class SpreadRules:
    """Rules of one WorkloadSpread. `pods`: those of its workload `name`."""

    controllers = ("workloadspread",)
    shelves = frozenset({SPREADS, TARGETS, PODS})

    def __init__(self, scene: Scene) -> None:
        self._pods = scene.pods
        self._namespace = scene.namespace
        self._name = scene.name
        self._start = scene.start
        self._is_calm = scene.is_calm
        self._doc: Any = None
        self._made_at = 0.0
        self._born: dict[str, str] = {}
        """When pods were created, by uid."""
        self._target: Any = None
        self._replicas: list[tuple[int, int]] = []
        """The workload's replicas, with the API server's revision of each change."""
        self._basis: tuple[Mapping[str, int], Any] | None = None
        """Knowledge of the manager that wrote the last status, and the spec of that status."""
        self._skew_s = scene.skew_s
        self._ended: set[str] = set()
        """Names of pods that were there."""
        self._taken: set[tuple[str, str, str]] = set()
        """Places that were ever promised: uid of the WorkloadSpread, subset and pod."""
        self._open: dict[tuple[str, str, str], tuple[float, str]] = {}
        """Promised places whose pod no manager has seen yet → time of the promise, and the version."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves` in order, after `pods` has recorded it."""
        if commit.key.namespace != self._namespace:
            return
        if commit.shelf == SPREADS:
            yield from self._on_spread(commit)
        elif commit.shelf == TARGETS and commit.key.name == self._name:
            self._target = commit.new
            replicas = commit.new["spec"].get("replicas", 1) if commit.new is not None else 0
            self._replicas.append((commit.revision, replicas))
        elif commit.shelf == PODS:
            yield from self._on_pod(commit)

    # ── places ───────────────────────────────────────────────────────────────

    def _on_spread(self, commit: Commit) -> Iterator[Violation]:
        before, self._doc = commit.old, commit.new
        if before is None:
            self._made_at = commit.at
        if commit.new is None or before is None:
            self._basis = None
        elif commit.reconcile is not None:
            self._basis = commit.reconcile.known, before["spec"]
            self._settle(commit.reconcile, commit.new)
        elif commit.sender.startswith("webhook"):
            for version, entries in _lists(commit.new).items():
                known = {
                    item["name"]: item.get("creatingPods") or {} for item in _lists(before).get(version, ())
                }
                for entry in entries:
                    if new := (entry.get("creatingPods") or {}).keys() - known.get(entry["name"], {}).keys():
                        yield from self._is_there_room(commit, version, entry, sorted(new))

    def _is_there_room(
        self, commit: Commit, version: str, entry: Mapping[str, Any], new: list[str]
    ) -> Iterator[Violation]:
        """Admission has promised places in a subset for pods of a version: the subset must have room for them."""
        assert commit.new is not None
        name, uid = entry["name"], commit.new["metadata"]["uid"]
        self._taken |= {(uid, name, text) for text in new}
        self._open |= {(uid, name, text): (commit.at, version) for text in new}
        limits = self._limits(commit.new["spec"], name)
        # A pod that is created late for a deleted or terminating workload is deleted as well.
        is_going = self._target is None or "deletionTimestamp" in self._target["metadata"]
        if ANY_NUMBER in limits or is_going:
            return
        promised = set(entry.get("creatingPods") or ())
        if not self._skew_s:
            promised |= self._still_promised(uid, name, version, commit.at)
        going = set(entry.get("deletingPods") or ())
        promised -= going  # these pods were created, and their deletion was admitted
        there = {pod.name for pod in self._known_in(name, version)} - going
        if len(promised | there) > max(limits):
            what = f"subset {name} takes {max(limits)} pods; {sorted(there)} are there, {sorted(promised)} may come"
            yield Violation("subset", f"{what} (by {commit.sender})", commit.at - self._start)

    def _settle(self, reconcile: Reconcile, doc: Any) -> None:
        """A manager removes promises whose pods it has seen. A second leader may not have seen them."""
        promised = {
            (entry["name"], pod)
            for entries in _lists(doc).values()
            for entry in entries
            for pod in entry.get("creatingPods") or ()
        }
        first = {pod.name: self._pods.created_at(pod.uid) for pod in self._pods.latest()}
        has_homeless = any(not self._subset_of(pod) for pod in self._members())
        known = reconcile.known.get(PODS, 0)
        for place in list(self._open):
            pod = first.get(place[2])
            if pod is None or place[1:] in promised:
                continue
            # A manager may know its own pods before the watch reports them; while pods have no annotation, it waits.
            is_own = pod.sender == reconcile.manager and (pod.at <= reconcile.at or has_homeless)
            if pod.revision <= known or is_own:
                del self._open[place]

    def _still_promised(self, uid: str, subset: str, version: str, now: float) -> set[str]:
        """Pods for which neither webhook nor controller may have released the slot yet, for any status."""
        latest = {pod.name: pod for pod in self._pods.latest()}
        own = {pod.name for pod in self._members()}
        return {
            pod
            for (spread, name, pod), (at, of) in self._open.items()
            if (spread, name, of) == (uid, subset, version)
            and now - at < PATIENCE_S
            and (pod in own or (pod not in latest and pod not in self._ended))
        }

    def _limits(self, spec: Any, subset: str) -> list[int]:
        """Limits of the subset, by each spec and size of the workload that the manager may have known."""
        basis = self._basis
        known = basis[0].get(TARGETS, 0) if basis else 0
        older = [replicas for revision, replicas in self._replicas if revision <= known][-1:]
        replicas = [*older, *(replicas for revision, replicas in self._replicas if revision > known)]
        specs = [spec, *([basis[1]] if basis else [])]
        return [
            limit
            for spec in specs
            for of in replicas or [0]
            if (limit := limit_of(spec, subset, of)) is not None
        ]

    def _known_in(self, subset: str, version: str) -> Iterator[Version]:
        """Active pods of a subset that the manager knew when it last wrote the status."""
        known = self._basis[0].get(PODS, 0) if self._basis else -1
        for pod in self._members():
            if self._subset_of(pod) == subset and self._version_of(pod, version) == version:
                seen = self._pods.since(pod.uid, known)[0]
                if seen.revision <= known and self._subset_of(seen) == subset and seen.owner == pod.owner:
                    yield pod

    def _members(self) -> Iterator[Version]:
        if self._target is None:
            return iter(())
        uid = self._target["metadata"]["uid"]
        return (pod for pod in self._pods.latest() if pod.is_active and pod.owner == uid)

    def _subset_of(self, pod: Version) -> str:
        """The subset in the pod's annotation; empty: it has no annotation of this WorkloadSpread."""
        text = pod.annotations.get(NOTE)
        result = json.loads(text) if text else {}
        spread = self._doc["metadata"]["name"] if self._doc is not None else ""
        return str(result.get("subset") or "") if result.get("name") == spread else ""

    @staticmethod
    def _version_of(pod: Version, like: str) -> str:
        return ALL_VERSIONS if like == ALL_VERSIONS else pod.hash

    # ── pods ─────────────────────────────────────────────────────────────────

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        if commit.new is None:
            self._ended.add(commit.key.name)
            return
        if commit.old is None:
            metadata = commit.new["metadata"]
            self._born[metadata["uid"]] = metadata["creationTimestamp"]
            yield from self._on_created(commit)
        elif commit.reconcile is not None:
            yield from self._is_only_marked(commit, commit.old, commit.new)

    def _on_created(self, commit: Commit) -> Iterator[Violation]:
        text = (commit.new or {})["metadata"].get("annotations", {}).get(NOTE)
        if self._doc is None or not commit.sender.startswith("manager"):
            return
        assert commit.new is not None
        note = json.loads(text) if text else {}
        name, subset = commit.new["metadata"]["name"], note.get("subset")
        if not subset:
            is_seen = commit.at - self._made_at > SEEN_S
            if (
                self._is_calm
                and is_seen
                and any(subset.get("maxReplicas") is None for subset in self._doc["spec"]["subsets"])
            ):
                yield self._broken(commit, "note", f"{name} is in no subset, but one takes any number")
            return
        result = next((item for item in self._doc["spec"]["subsets"] if item["name"] == subset), None)
        if result is None or note.get("name") != self._doc["metadata"]["name"]:
            return
        wanted = result["requiredNodeSelector"]["matchExpressions"]
        required = commit.new["spec"].get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {})
        terms = required.get("nodeSelectorTerms") or []
        if not terms or any(
            item not in (term.get("matchExpressions") or ()) for term in terms for item in wanted
        ):
            yield self._broken(commit, "note", f"{name} is in subset {subset}, but not bound to its nodes")
        place = (self._doc["metadata"]["uid"], subset, name)
        takes_any = ANY_NUMBER in self._limits(self._doc["spec"], subset)  # also according to the last status
        if self._is_calm and not takes_any and place not in self._taken:
            yield self._broken(commit, "note", f"{name} is in subset {subset} without a place")

    def _is_only_marked(self, commit: Commit, old: Any, new: Any) -> Iterator[Violation]:
        """The controller writes notes and costs; and it deletes pods that find no node."""
        yield from self._has_room_to_adopt(commit, old, new)
        if new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            if old["spec"].get("nodeName"):
                name = new["metadata"]["name"]
                yield self._broken(commit, "deletion", f"{name} has a node and is deleted to find another")
        elif old["spec"] != new["spec"] or old.get("status") != new.get("status"):
            yield self._broken(commit, "marks", f"more is written to {new['metadata']['name']} than marks")

    def _has_room_to_adopt(self, commit: Commit, old: Any, new: Any) -> Iterator[Violation]:
        """A pod gets the annotation of a subset only if the subset has a place, as far as the manager can know."""
        assert commit.reconcile is not None
        subset = json.loads((new["metadata"].get("annotations") or {}).get(NOTE, "{}")).get("subset", "")
        is_noted = NOTE in (old["metadata"].get("annotations") or {})
        if self._doc is None or not subset or is_noted or self._was_before(new["metadata"]["uid"]):
            return
        limits = self._limits(self._doc["spec"], subset)
        like = next(iter(_lists(self._doc)), ALL_VERSIONS)
        versions = {pod.name: self._version_of(pod, like) for pod in self._members()}
        of = versions.get(new["metadata"]["name"])
        known = commit.reconcile.known.get(PODS, 0)
        there = sorted(
            pod.name
            for pod in self._members()
            if self._subset_of(pod) == subset
            and versions[pod.name] == of
            and self._pods.since(pod.uid, known)[0].revision <= known
        )
        if limits and ANY_NUMBER not in limits and len(there) > max(limits):
            what = f"{new['metadata']['name']} is adopted into {subset}, which takes {max(limits)}: {there}"
            yield self._broken(commit, "subset", what)

    def _was_before(self, uid: str) -> bool:
        """Whether the pod is older than the WorkloadSpread."""
        assert self._doc is not None
        made: str = self._doc["metadata"]["creationTimestamp"]
        return self._born.get(uid, made) < made

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        if self._doc is None or self._target is None or self._doc["metadata"].get("deletionTimestamp"):
            return
        status = self._doc.get("status") or {}
        if status.get("observedGeneration") != self._doc["metadata"].get("generation"):
            yield Violation("status", "the status is about another generation", now)
            return
        members = list(self._members())
        lists = {"": status.get("subsetStatuses") or [], **_lists(self._doc)}
        for version, entries in lists.items():
            own = [pod for pod in members if not version or self._version_of(pod, version) == version]
            yield from self._is_counted_right(version, entries, own, now)
        versions = {self._version_of(pod, next(iter(_lists(self._doc)), ALL_VERSIONS)) for pod in members}
        if missing := versions - set(_lists(self._doc)):
            yield Violation("status", f"nothing is said of pods of {missing}", now)
        yield from self._are_costs_right(members, now)

    def _is_counted_right(
        self, version: str, entries: list[Any], pods: list[Version], now: float
    ) -> Iterator[Violation]:
        there = Counter(self._subset_of(pod) for pod in pods)
        spec = self._doc["spec"]
        if [item["name"] for item in entries] != [subset["name"] for subset in spec["subsets"]]:
            yield Violation("status", f"of {version or 'all'}: not the subsets of the spec", now)
            return
        for entry in entries:
            name = entry["name"]
            limit = limit_of(spec, name, self._target["spec"].get("replicas", 1))
            assert limit is not None
            missing = limit if limit == ANY_NUMBER else max(limit - there[name], 0)
            said = (entry["replicas"], entry["missingReplicas"])
            if said != (there[name], missing):
                what = f"{name} of {version or 'all'}: said {said}, true {(there[name], missing)}"
                yield Violation("status", what, now)
            if entry.get("creatingPods") or entry.get("deletingPods"):
                yield Violation("status", f"{name} of {version or 'all'}: places are still under way", now)
            if any(each["status"] == "False" for each in entry.get("conditions") or ()):
                yield Violation("converges", f"{name} of {version or 'all'} is still passed over", now)

    def _are_costs_right(self, pods: list[Version], now: float) -> Iterator[Violation]:
        """Within a version: pods that exceed a limit go first, then those of later subsets; pods of old versions in
        the opposite order."""
        subsets = [subset["name"] for subset in self._doc["spec"]["subsets"]]
        latest = (self._target.get("status") or {}).get("updateRevision", "").rpartition("-")[2]
        full = {
            version
            for version, entries in _lists(self._doc).items()
            if all(entry["missingReplicas"] == 0 for entry in entries)
        }
        groups: dict[tuple[str, str], list[Version]] = {}
        is_versioned = ALL_VERSIONS not in _lists(self._doc)
        for pod in pods:
            version, subset = pod.hash if is_versioned else latest, self._subset_of(pod)
            is_full = (version if is_versioned else ALL_VERSIONS) in full
            if subset or not is_full or self._was_before(pod.uid):  # pods that exceed the limit get no cost
                groups.setdefault((version, subset), []).append(pod)
        for (version, subset), group in groups.items():
            if subset not in subsets:
                wanted = Counter({-100 * (len(subsets) + 1): len(group)})
            else:
                place = subsets.index(subset)
                place = place if version == latest else len(subsets) - 1 - place
                limit = limit_of(self._doc["spec"], subset, self._target["spec"].get("replicas", 1))
                assert limit is not None
                surplus = 0 if limit == ANY_NUMBER else max(len(group) - limit, 0)
                wanted = Counter({100 * (len(subsets) - place): len(group) - surplus})
                wanted[-100 * (place + 1)] += surplus
            said = Counter(int(pod.annotations.get(COST, "0")) for pod in group)
            if said != +wanted:
                what = f"costs of {subset or 'no subset'} of {version}: {dict(said)}, wanted {dict(+wanted)}"
                yield Violation("costs", what, now)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def limit_of(spec: Any, subset: str, replicas: int) -> int | None:
    """Limit of a subset; ANY_NUMBER without a maximum, None: the subset does not exist."""
    for item in spec["subsets"]:
        if item["name"] == subset:
            most = item.get("maxReplicas")
            return ANY_NUMBER if most is None else number(most, replicas, up=True)
    return None


def _lists(doc: Any) -> Mapping[str, Any]:
    lists: Mapping[str, Any] = (doc.get("status") or {}).get("versionedSubsetStatuses") or {}
    return lists
