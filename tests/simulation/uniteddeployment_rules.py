"""Rules of a UnitedDeployment with CloneSets.

a workload is created  ──▶ for a subset of the spec that has none
a workload is written  ──▶ all together never have more than the replicas, as far as the manager could know;
                           the partition and the template are those of the spec
a workload is deleted  ──▶ its subset is not in the spec, or another workload of the subset is older
pods                   ──▶ the controller does not write them, except pods in reserve
at rest                ──▶ every subset has its workload, bounds hold, no replica is lost, the status is correct

A write must be correct for one version of the UnitedDeployment and the workloads that the manager may have known.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import PodHistory, Version
from simulation.rules import PODS, REVISIONS, Violation
from simulation.versions import versions_since

__all__ = ["UnitedDeploymentRules"]

UNITED, WORKLOADS = "uniteddeployments.apps.kruise.io", "clonesets.apps.kruise.io"
CONTROLLER = "uniteddeployment"
SUBSET = "apps.kruise.io/subset-name"
REVISION = "apps.kruise.io/controller-revision-hash"
TEMPLATE = "cloneSetTemplate"
UNBOUNDED = 1_000_000
MOST_SCALINGS = 8
"""Maximum number of scalings of a workload within RESTLESS_S without a new reason: a zone may fail and come back.
Subsets without nodes are tried again and again, but not sooner than the spec says."""
RESTLESS_S = 60.0


class _Seen(msgspec.Struct, frozen=True):
    """One workload as it was from `revision` on; no document: it was deleted."""

    revision: int
    document: Any

    @property
    def replicas(self) -> int:
        return int(self.document["spec"]["replicas"]) if self.document is not None else 0


class UnitedDeploymentRules:
    """Rules of one UnitedDeployment by its name, across deletions and new creations."""

    shelves = frozenset({UNITED, WORKLOADS, PODS, REVISIONS})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._namespace = namespace
        self._name = name
        self._start = start
        self.pods = PodHistory()
        self._versions: list[_Seen] = []
        self._workloads: dict[str, list[_Seen]] = {}
        """Uid → versions of the workload."""
        self._scalings: dict[str, list[float]] = {}
        """Uid of a workload → times at which the controller has scaled it since the last change by another client."""

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.key.namespace != self._namespace:
            return
        is_ours = commit.reconcile is not None and commit.reconcile.controller == CONTROLLER
        if commit.shelf == UNITED and commit.key.name == self._name:
            if commit.reconcile is None:
                self._scalings.clear()
            self._versions.append(_Seen(commit.revision, commit.new))
        elif commit.shelf == PODS:
            self.pods.take(commit)
            if is_ours:
                yield self._broken(commit, "pods", f"the controller writes to pod {commit.key.name}")
        elif commit.shelf == WORKLOADS:
            yield from self._on_workload(commit, is_ours=is_ours)

    def _on_workload(self, commit: Commit, *, is_ours: bool) -> Iterator[Violation]:
        document: Any = commit.new if commit.new is not None else commit.old
        uid = document["metadata"]["uid"]
        history = self._workloads.setdefault(uid, [])
        before = history[-1] if history else None
        history.append(_Seen(commit.revision, commit.new))
        if commit.reconcile is None:
            self._scalings.clear()
        if not is_ours or not self._versions:
            return
        if before is not None and commit.new is not None and before.replicas != history[-1].replicas:
            times = [at for at in self._scalings.get(uid, ()) if at > commit.at - RESTLESS_S]
            self._scalings[uid] = [*times, commit.at]
            if len(times) >= MOST_SCALINGS:
                what = (
                    f"{commit.key.name} is scaled for the {len(times) + 1}th time, and nothing asked for it"
                )
                yield self._broken(commit, "restless", what)
        assert commit.reconcile is not None
        united_versions = self._united_since(commit.reconcile)
        if not united_versions:
            yield self._broken(commit, "owner", f"{commit.key.name} is written to for nothing that is there")
        elif before is None:
            yield from self._on_created(commit, uid, commit.new, united_versions)
            yield from self._on_written(commit, None, commit.new, united_versions)
        elif commit.new is None or _is_going(commit.new):
            if not _is_going(before.document):
                yield from self._on_deleted(commit, uid, before.document, united_versions)
        else:
            yield from self._on_written(commit, before.document, commit.new, united_versions)

    def _on_created(
        self, commit: Commit, uid: str, new: Any, united_versions: list[Any]
    ) -> Iterator[Violation]:
        subset = new["metadata"]["labels"].get(SUBSET)
        if all(subset not in _subsets(united) for united in united_versions):
            yield self._broken(commit, "subset", f"{commit.key.name} is of {subset}, which is no subset")
        owners = {united["metadata"]["uid"] for united in united_versions}
        others = [
            value["metadata"]["name"]
            for other, value in self._live(owners)
            if other != uid and value["metadata"]["labels"].get(SUBSET) == subset
        ]
        if orphans := list(self._orphans(commit.reconcile, subset)):
            what = f"subset {subset} gets {commit.key.name}, and {orphans} could have been adopted"
            yield self._broken(commit, "adoption", what)
        if others:
            yield self._broken(commit, "twice", f"subset {subset} has {others}, and gets {commit.key.name}")

    def _orphans(self, reconcile: Reconcile | None, subset: str) -> Iterator[str]:
        """Names of workloads of the subset that certainly exist and have no controller."""
        assert reconcile is not None
        for history in self._workloads.values():
            seen = versions_since(history, reconcile.known.get(WORKLOADS, 0))
            if seen[0].revision <= reconcile.known.get(WORKLOADS, 0) and all(
                item.document is not None
                and not _is_going(item.document)
                and not _owner(item.document)
                and item.document["metadata"]["labels"].get(SUBSET) == subset
                for item in seen
            ):
                yield str(seen[0].document["metadata"]["name"])

    def _on_deleted(
        self, commit: Commit, uid: str, old: Any, united_versions: list[Any]
    ) -> Iterator[Violation]:
        subset = old["metadata"]["labels"].get(SUBSET)
        if any(subset not in _subsets(united) for united in united_versions):
            return
        owners = {united["metadata"]["uid"] for united in united_versions}
        made = old["metadata"]["creationTimestamp"]
        elder = [
            value
            for other, value in self._live(owners)
            if other != uid
            and value["metadata"]["labels"].get(SUBSET) == subset
            and value["metadata"]["creationTimestamp"] <= made
        ]
        if not elder:
            yield self._broken(commit, "subset", f"{commit.key.name} of subset {subset} is deleted")

    def _on_written(
        self, commit: Commit, old: Any | None, new: Any, united_versions: list[Any]
    ) -> Iterator[Violation]:
        if old is not None and old["spec"] == new["spec"]:
            return  # it was adopted or released
        yield from self._is_conserved(commit, old, new, united_versions)
        yield from self._is_stored_first(commit, old, new, united_versions)
        name, subset = commit.key.name, new["metadata"]["labels"].get(SUBSET)
        image = _image(new["spec"]["template"])
        is_written = old is None or image != _image(old["spec"]["template"])
        if is_written and all(image != _image(_template(united)) for united in united_versions):
            yield self._broken(commit, "template", f"{name} gets {image}")
        partition = new["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0)
        before = old["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0) if old else None
        wanted = {_partition(united, subset) for united in united_versions}
        size = new["spec"]["replicas"]
        # A partition that holds back every pod may be lower, because a new workload begins with fewer pods.
        if partition != before and not any(partition == item or size <= partition < item for item in wanted):
            yield self._broken(commit, "partition", f"{name} gets partition {partition}, wanted {wanted}")

    def _is_conserved(
        self, commit: Commit, old: Any | None, new: Any, united_versions: list[Any]
    ) -> Iterator[Violation]:
        """After a scale-up all workloads together do not have more than the replicas."""
        assert commit.reconcile is not None
        size = int(new["spec"]["replicas"])
        if size <= (int(old["spec"]["replicas"]) if old is not None else 0):
            return
        names = {name for united in united_versions for name in _subsets(united)}
        result = self._others_of(commit.reconcile, new, united_versions)
        others = sum(min(sizes) for name, sizes in result if name in names)
        most = max(united["spec"]["replicas"] for united in united_versions)
        if others + size > most:
            what = f"{commit.key.name} gets {size} beside {others} of others, which is more than {most}"
            yield self._broken(commit, "conserved", what)

    def _is_stored_first(
        self, commit: Commit, old: Any | None, new: Any, united_versions: list[Any]
    ) -> Iterator[Violation]:
        """A workload gets less than its bounds and the pods that run elsewhere require only after the stored
        status passes over its subset."""
        size, subset = int(new["spec"]["replicas"]), new["metadata"]["labels"].get(SUBSET)
        if old is None or size >= int(old["spec"]["replicas"]):
            return
        assert commit.reconcile is not None
        result = self._others_of(commit.reconcile, new, united_versions)
        others = {name: max(sizes) for name, sizes in result}
        if not any(
            subset not in _subsets(united)
            or not _is_adaptive(united)
            or subset in _passed_over(united)
            or size >= _filled(_bounds_beside(united, others), united["spec"]["replicas"])[subset]
            for united in united_versions
        ):
            what = f"{commit.key.name} gets {size}, and {subset} is not stored to be passed over"
            yield self._broken(commit, "stored first", what)

    def _others_of(
        self, reconcile: Reconcile, workload: Any, united_versions: list[Any]
    ) -> Iterator[tuple[str, list[int]]]:
        """Each other workload: its subset, and every size that the manager may assume to be the current one."""
        known = reconcile.known.get(WORKLOADS, 0)
        for uid, value in self._live({united["metadata"]["uid"] for united in united_versions}):
            if uid != workload["metadata"]["uid"]:
                sizes = [seen.replicas for seen in versions_since(self._workloads[uid], known)]
                yield value["metadata"]["labels"].get(SUBSET), sizes

    def _live(self, owners: set[str]) -> Iterator[tuple[str, Any]]:
        """Workloads of these owners that are there and not on their way out."""
        for uid, history in self._workloads.items():
            document = history[-1].document
            if document is not None and not _is_going(document) and _owner(document) in owners:
                yield uid, document

    def _united_since(self, reconcile: Reconcile) -> list[Any]:
        """Versions of the UnitedDeployment that the manager may assume to be the current one."""
        seens = versions_since(self._versions, reconcile.known.get(UNITED, 0))
        return [seen.document for seen in seens if seen.document is not None]

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no hooks in these scripts."""
        return {}

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        united = self._versions[-1].document if self._versions else None
        if united is None:
            uids = {
                version.document["metadata"]["uid"]
                for version in self._versions
                if version.document is not None
            }
            left = [value["metadata"]["name"] for _, value in self._live(uids)]
            if left:
                yield Violation("gone", f"the UnitedDeployment is gone, but {left} are there", now)
            return
        workloads = {
            value["metadata"]["labels"][SUBSET]: value for _, value in self._live({united["metadata"]["uid"]})
        }
        count = len(list(self._live({united["metadata"]["uid"]})))
        if set(workloads) != set(_subsets(united)) or count != len(workloads):
            yield Violation("converges", f"{count} workloads of {sorted(workloads)}", now)
            return
        sizes = {name: int(workload["spec"]["replicas"]) for name, workload in workloads.items()}
        yield from self._are_sizes_right(united, sizes, now)
        pods = {name: self._pods_of(workload) for name, workload in workloads.items()}
        yield from self._are_pods_right(united, workloads, pods, now)
        yield from self._is_status_true(united, sizes, pods, now)

    def _pods_of(self, workload: Any) -> list[Version]:
        uid = workload["metadata"]["uid"]
        return [pod for pod in self.pods.latest() if pod.is_active and pod.owner == uid]

    def _are_sizes_right(self, united: Any, sizes: Mapping[str, int], now: float) -> Iterator[Violation]:
        replicas = united["spec"]["replicas"]
        bounds = _all_bounds(united)
        if sum(sizes.values()) != replicas:
            yield Violation("conserved", f"{dict(sizes)} are not {replicas}", now)
        if any(not least <= UNBOUNDED for least, _ in bounds.values()):
            return
        over = {name: size for name, size in sizes.items() if size > bounds[name][1]}
        if over:
            yield Violation("bounds", f"{over} are above the maximum", now)
        is_adaptive = _is_adaptive(united)
        if any(most < UNBOUNDED or least for least, most in bounds.values()):
            if not is_adaptive and dict(sizes) != (wanted := _filled(bounds, replicas)):
                yield Violation("allocation", f"{dict(sizes)}, wanted {wanted}", now)
        elif not is_adaptive and sizes and max(sizes.values()) - min(sizes.values()) > 1:
            yield Violation("allocation", f"{dict(sizes)} are not equal parts", now)

    def _are_pods_right(
        self, united: Any, workloads: Mapping[str, Any], pods: Mapping[str, list[Version]], now: float
    ) -> Iterator[Violation]:
        target = (united.get("status") or {}).get("updatedRevision")
        image = _image(_template(united))
        for name, own in pods.items():
            size = int(workloads[name]["spec"]["replicas"])
            rolling = workloads[name]["spec"]["updateStrategy"]["rollingUpdate"]
            said, wanted = rolling.get("partition", 0), min(_partition(united, name), size)
            if said != wanted:
                yield Violation("partition", f"subset {name} has partition {said}, wanted {wanted}", now)
            if len(own) != size or not all(pod.is_ready for pod in own):
                yield Violation(
                    "converges", f"subset {name} of {size} has {len(own)} pods, not all ready", now
                )
            old = [pod.name for pod in own if pod.labels.get(REVISION) != target]
            if len(old) > min(_partition(united, name), size):
                yield Violation("converges", f"subset {name}: {old} are of an older template", now)
            new = [pod for pod in own if pod.labels.get(REVISION) == target]
            if any(image not in pod.images.values() for pod in new):
                yield Violation("template", f"subset {name}: a pod of {target} has another image", now)

    def _is_status_true(
        self, united: Any, sizes: Mapping[str, int], pods: Mapping[str, list[Version]], now: float
    ) -> Iterator[Violation]:
        status: Mapping[str, Any] = united.get("status") or {}
        target = status.get("updatedRevision")
        every = [pod for own in pods.values() for pod in own]
        updated = [pod for pod in every if pod.labels.get(REVISION) == target]
        wanted = {
            "observedGeneration": united["metadata"]["generation"],
            "replicas": len(every),
            "readyReplicas": len(every),
            "updatedReplicas": len(updated),
            "updatedReadyReplicas": len(updated),
        }
        wrong = {
            name: (status.get(name, 0), want) for name, want in wanted.items() if status.get(name, 0) != want
        }
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)
        said = {item["name"]: item.get("replicas", 0) for item in status.get("subsetStatuses") or ()}
        if said != dict(sizes):
            yield Violation("status", f"of the subsets is said {said}, true {dict(sizes)}", now)
        if passed_over := _passed_over(united):
            yield Violation("converges", f"{passed_over} are still passed over", now)
        if len(updated) == len(every) and status.get("currentRevision") != target:
            yield Violation("status", "the update is over, and not said to be", now)
        false = [
            condition["type"]
            for condition in status.get("conditions") or ()
            if condition["type"] != "UnitedDeploymentUpdated" and condition["status"] != "True"
        ]
        if false:
            yield Violation("status", f"said not to be: {false}", now)


def _is_going(document: Any) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def _owner(document: Any) -> str:
    refs = document["metadata"].get("ownerReferences") or ()
    return next((str(ref["uid"]) for ref in refs if ref.get("controller")), "")


def _subsets(united: Any) -> dict[str, Any]:
    return {subset["name"]: subset for subset in united["spec"]["topology"]["subsets"]}


def _template(united: Any) -> Any:
    return united["spec"]["template"][TEMPLATE]["spec"]["template"]


def _image(template: Any) -> str:
    return str(template["spec"]["containers"][0]["image"])


def _partition(united: Any, subset: str) -> int:
    manual = united["spec"]["updateStrategy"].get("manualUpdate") or {}
    return int((manual.get("partitions") or {}).get(subset, 0))


def _is_adaptive(united: Any) -> bool:
    return bool(united["spec"]["topology"].get("scheduleStrategy"))


def _passed_over(united: Any) -> list[str]:
    """Subsets without nodes according to its status."""
    return [
        status["name"]
        for status in (united.get("status") or {}).get("subsetStatuses") or ()
        if any(each["status"] == "False" for each in status.get("conditions") or ())
    ]


def _all_bounds(united: Any) -> dict[str, tuple[int, int]]:
    return {name: _bounds(subset, united["spec"]["replicas"]) for name, subset in _subsets(united).items()}


def _bounds_beside(united: Any, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Bounds of each subset; minimums are at least these sizes, because running pods are not moved."""
    return {
        name: (max(least, min(sizes.get(name, 0), most)), most)
        for name, (least, most) in _all_bounds(united).items()
    }


def _bounds(subset: Any, replicas: int) -> tuple[int, int]:
    def meant(value: Any, default: int) -> int:
        if value is None:
            return default
        if isinstance(value, str):
            return (int(value[:-1]) * replicas * 2 + 100) // 200
        return int(value)

    return meant(subset.get("minReplicas"), 0), meant(subset.get("maxReplicas"), UNBOUNDED)


def _filled(bounds: Mapping[str, tuple[int, int]], replicas: int) -> dict[str, int]:
    """Replicas of each subset: first the minimums in order, then up to the maximums."""
    result = dict.fromkeys(bounds, 0)
    for place in (0, 1):
        for name, limits in bounds.items():
            more = max(min(limits[place] - result[name], replicas - sum(result.values())), 0)
            result[name] += more
    return result
