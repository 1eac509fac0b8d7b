"""Rules of a CloneSet for every commit.

The rules are those of the specification's "Numbers", "Scale" and "Update", implemented independently;
rules.py describes how they consider what a manager could know.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import INSTANCE, Version
from simulation.rules import (
    PODS,
    REVISIONS,
    Violation,
    WorkloadRules,
    is_image_change,
    number,
    plain,
)

__all__ = ["CloneSetRules", "Workload"]

REPLACEMENT = "pykruise.io/pod-replacement-policy"
SURGE = "pykruise.io/eviction-surge"
PLACEMENT, REPLACES = "pykruise.io/successor-placement", "pykruise.io/replaces"
REQUESTED, SUCCESSOR_OF = "pykruise.io/eviction-requested-at", "pykruise.io/successor-of"
SETS, CLAIMS = "clonesets.apps.kruise.io", "persistentvolumeclaims"


class Workload(msgspec.Struct, frozen=True):
    """One version of the CloneSet. `revision` is the API server's."""

    revision: int
    uid: str
    is_deleting: bool
    replicas: int
    partition: int
    max_unavailable: int
    max_surge: int
    scale_max_unavailable: int
    paused: bool
    on_delete: bool
    policy: str
    min_ready_s: int
    to_delete: frozenset[str]
    template: Any
    pre_delete: Mapping[str, str]
    in_place_hook: Mapping[str, str]
    claim_templates: tuple[str, ...]
    reuses_claims: bool
    waits_for_ends: bool
    """Whether no pod is created before those that terminate have ended (pykruise.io/pod-replacement-policy)."""
    places_successors: bool
    """Whether new pods prefer the nodes of the pods that they replace (pykruise.io/successor-placement)."""
    eviction_surge: int
    """Maximum number of successors of evicted pods at the same time; 0: the option is not set."""
    current: str
    status: Mapping[str, Any]
    generation: int


def read_workload(doc: Any, revision: int) -> Workload:
    """A CloneSet as stored. Fields that admission defaults are there."""
    spec, status = doc["spec"], doc.get("status") or {}
    strategy = spec.get("updateStrategy") or {}
    block = strategy.get("rollingUpdate") or {}
    scale = spec.get("scaleStrategy") or {}
    lifecycle = spec.get("lifecycle") or {}
    replicas = spec.get("replicas", 1)
    paused = bool(block.get("paused"))
    surge = 0 if paused else number(block.get("maxSurge", 0), replicas, up=True)
    raw = block.get("partition", 0)
    partition = min(number(raw, replicas, up=True), replicas)
    if isinstance(raw, str) and raw != "100%" and replicas > 1 and partition == replicas:
        partition = replicas - 1
    limit = scale.get("maxUnavailable")
    annotations = doc["metadata"].get("annotations") or {}
    surge_text = annotations.get(SURGE, "0")
    return Workload(
        revision=revision,
        uid=doc["metadata"]["uid"],
        is_deleting="deletionTimestamp" in doc["metadata"],
        replicas=replicas,
        partition=partition,
        max_unavailable=number(block.get("maxUnavailable", "20%"), replicas, up=surge == 0),
        max_surge=surge,
        scale_max_unavailable=10**9 if limit is None else number(limit, replicas, up=True),
        paused=paused,
        on_delete=strategy.get("type") == "OnDelete",
        policy=block.get("podUpdatePolicy") or "ReCreate",
        min_ready_s=spec.get("minReadySeconds", 0),
        to_delete=frozenset(scale.get("podsToDelete") or ()),
        template=plain(spec["template"]),
        pre_delete=(lifecycle.get("preDelete") or {}).get("labelsHandler") or {},
        in_place_hook=(lifecycle.get("inPlaceUpdate") or {}).get("labelsHandler") or {},
        claim_templates=tuple(
            template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()
        ),
        reuses_claims=bool(scale.get("enablePVCReuse")),
        waits_for_ends=annotations.get(REPLACEMENT) == "Failed",
        places_successors=PLACEMENT in annotations,
        eviction_surge=number(surge_text if surge_text.endswith("%") else int(surge_text), replicas, up=True),
        current=(status.get("currentRevision") or "").rpartition("-")[2],
        status=status,
        generation=doc["metadata"].get("generation", 0),
    )


class CloneSetRules(WorkloadRules[Workload]):
    """Rules of one CloneSet."""

    shelf = SETS
    shelves = frozenset({SETS, PODS, CLAIMS, REVISIONS})

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._claims: dict[str, Any] = {}
        self._claims_made: dict[str, str] = {}
        """PVCs, and the managers that created them."""
        self._ids_without_claims: set[str] = set()
        """Instance ids whose PVCs were deleted by another manager than the one that created them."""
        self._deleted_ids: set[str] = set()
        """Instance ids of pods that managers deleted: their claims go with them, also where claims are reused."""

    def read(self, document: Any, revision: int) -> Workload:
        return read_workload(document, revision)

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        if commit.shelf == CLAIMS and commit.key.namespace == self._namespace:
            yield from self._on_claim(commit)

    # ── every commit ─────────────────────────────────────────────────────────

    def _on_claim(self, commit: Commit) -> Iterator[Violation]:
        if commit.new is not None:
            self._claims[commit.key.name] = commit.new
        else:
            self._claims.pop(commit.key.name, None)
        began = commit.new is None or "deletionTimestamp" in commit.new["metadata"]
        was = commit.old is not None and "deletionTimestamp" not in commit.old["metadata"]
        if commit.new is not None and not began:
            self._claims_made.setdefault(commit.key.name, commit.sender)
        if commit.reconcile is None or not (began and was) or commit.old is None:
            return
        maker = self._claims_made.pop(commit.key.name, "")
        instance = (commit.old["metadata"].get("labels") or {}).get(INSTANCE)
        if instance and maker != commit.sender:
            self._ids_without_claims.add(instance)
        for pod in self.pods.latest():
            if pod.labels.get(INSTANCE) == instance and self._is_always_member(pod, commit.reconcile):
                yield self._broken(
                    commit, "claims", f"claim {commit.key.name} is deleted, pod {pod.name} has it"
                )

    def _is_always_member(self, pod: Version, reconcile: Reconcile) -> bool:
        workload = self.workloads[-1]
        # A pod that another manager has just created cannot be known; a second leader may meet its claim first.
        if not self._is_known(reconcile, pod.uid):
            return False
        known = reconcile.known.get(PODS, 0)
        return all(self._is_member(version, workload) for version in self.pods.since(pod.uid, known))

    def on_written(
        self, commit: Commit, reconcile: Reconcile, before: Workload, after: Workload
    ) -> Iterator[Violation]:
        yield from self._is_rollout_over(commit, reconcile, after, was=before.current, current=after.current)

    def on_changed(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        yield from self._on_completed(commit, before, after)
        if not after.is_active:
            yield from self._on_deleted(commit, reconcile, before, workloads)
        elif after.hash != before.hash:
            yield from self._on_relabelled(commit, reconcile, before, after, workloads)
        elif after.is_marked and not before.is_marked:
            yield from self._on_marked(commit, reconcile, before, workloads)
        elif after.state == "PreparingDelete" != before.state:
            yield from self._on_deleted(commit, reconcile, before, workloads, is_prepared=True)
        yield from self._on_taken_out(commit, reconcile, before, after, workloads)

    # ── single rules ─────────────────────────────────────────────────────────

    def on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        known = reconcile.known.get(PODS, 0)
        mine = [
            member
            for member in self._members(workloads[-1])
            if member.uid == pod.uid or self._is_known(reconcile, member.uid)
        ]
        most = max(workload.replicas + workload.max_surge + workload.eviction_surge for workload in workloads)
        if len(mine) > most:
            yield self._broken(
                commit, "too many", f"{pod.name} makes {len(mine)} pods, at most {most} are wanted"
            )
        if all(workload.waits_for_ends for workload in workloads):
            existing = 1 + sum(
                versions[0].uid != pod.uid and self._surely_exists(reconcile, versions, workloads[-1])
                for versions in self.pods.all_since(known, reconcile)
            )
            if existing > most:
                yield self._broken(
                    commit,
                    "replacement",
                    f"{pod.name} is the pod no. {existing} that exists, at most {most} may",
                )
        yield from self._is_placed(commit, reconcile, pod, workloads)
        updates = {self._hash_of(workload): workload for workload in workloads}
        currents = {workload.current for workload in workloads} - {""}
        if pod.hash not in updates and pod.hash not in currents:
            yield self._broken(
                commit, "revision", f"{pod.name} is of {pod.hash}, wanted {set(updates) | currents}"
            )
        elif pod.hash in updates and pod.hash not in currents:
            workload = updates[pod.hash]
            new = [version for version in mine if version.hash == pod.hash]
            allowed = max(w.replicas + w.max_surge + w.eviction_surge - w.partition for w in workloads)
            old_exists = workload.current in self._templates and not self._may_be_missing(
                reconcile, workload.current
            )
            if len(new) > allowed and old_exists:
                yield self._broken(
                    commit,
                    "partition",
                    f"{pod.name} is the new pod no. {len(new)}, at most {allowed} may be new",
                )
        duplicates = [
            version.name
            for version in self.pods.latest()
            if version.uid != pod.uid
            and version.owner == pod.owner
            and version.labels.get(INSTANCE) == pod.labels[INSTANCE]
        ]
        if duplicates:
            yield self._broken(commit, "claims", f"{pod.name} and {duplicates} have the same instance id")
        if self._is_calm and pod.labels.get(INSTANCE) in self._deleted_ids:
            yield self._broken(
                commit, "claims", f"{pod.name} has the id of a pod that was deleted with its claims"
            )
        missing = [
            f"{template}-{pod.name}"
            for template in workloads[-1].claim_templates
            if f"{template}-{pod.name}" not in self._claims_made
        ]
        is_taken = pod.labels.get(INSTANCE) in self._ids_without_claims
        if missing and len(workloads) == 1 and not is_taken:
            yield self._broken(commit, "claims", f"{pod.name} is created before {missing}")
        down = sum(
            1
            for versions in self.pods.all_since(known, reconcile)
            if all(
                self._is_member(version, workloads[-1])
                and not self._maybe_available(version, workloads, until=commit.at)
                and not self._is_specified(version, workloads)
                for version in versions
            )
            and versions[0].revision <= known
        )
        limit = max(workload.scale_max_unavailable for workload in workloads)
        if down >= limit and SUCCESSOR_OF not in pod.annotations:
            yield self._broken(
                commit,
                "scale limit",
                f"{pod.name} is created while {down} pods are down, the limit is {limit}",
            )

    def _is_placed(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A new pod prefers the node of a pod that no other pod replaces, if successor-placement is set."""
        replaced = pod.annotations.get(REPLACES)
        if replaced is None:
            if pod.preferred and not any(workload.places_successors for workload in workloads):
                yield self._broken(
                    commit, "placement", f"{pod.name} prefers {pod.preferred} without a reason"
                )
            return
        if not any(workload.places_successors for workload in workloads):
            yield self._broken(commit, "placement", f"{pod.name} names {replaced}, but the option is not set")
        known = reconcile.known.get(PODS, 0)
        nodes = {version.node for version in self.pods.since(replaced, known)}
        if pod.preferred and pod.preferred not in nodes:
            yield self._broken(commit, "placement", f"{pod.name} prefers {pod.preferred}, not one of {nodes}")
        twins = [
            versions[0].name
            for versions in self.pods.all_since(known, reconcile)
            if versions[0].uid != pod.uid
            and self._surely_exists(reconcile, versions, workloads[-1])
            and versions[0].annotations.get(REPLACES) == replaced
        ]
        if twins:
            yield self._broken(commit, "placement", f"{pod.name} replaces the same pod as {twins}")

    def _surely_exists(self, reconcile: Reconcile, versions: list[Version], workload: Workload) -> bool:
        """Whether the pod, terminating or not, has not ended in any state that the manager may assume to be current."""
        return self._is_known(reconcile, versions[0].uid) and all(
            not version.gone
            and version.phase not in ("Failed", "Succeeded")
            and version.owner == workload.uid
            for version in versions
        )

    def _on_deleted(
        self,
        commit: Commit,
        reconcile: Reconcile,
        pod: Version,
        workloads: list[Workload],
        *,
        is_prepared: bool = False,
    ) -> Iterator[Violation]:
        """A user has requested the deletion, the pod is surplus, or it has to be recreated."""
        if not is_prepared:
            self._deleted_ids.add(pod.labels.get(INSTANCE, ""))
        versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        if not is_prepared:
            yield from self._is_hook_heeded(commit, pod, versions, workloads)
        if any(version.is_marked or version.state == "PreparingDelete" for version in versions):
            return
        if any(pod.name in workload.to_delete for workload in workloads):
            return
        yield from self._has_successor(commit, reconcile, pod, workloads)
        left = self._lenient_members(reconcile, workloads[-1], without=pod.uid)
        if any(left >= workload.replicas for workload in workloads):
            if not self._wrong_group(reconcile, pod, workloads, left):
                return
            yield self._broken(
                commit, "partition", f"{pod.name} is surplus and old, but the partition keeps it"
            )
            return
        problems = [self._why_not_recreated(reconcile, pod, workload) for workload in workloads]
        if all(problems):
            yield self._broken(
                commit, "deletion", f"{pod.name} ({pod.hash}) goes for no reason: {problems[-1]}"
            )

    def _has_successor(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A pod that serves and whose eviction was requested is deleted only when its successor serves, unless enough
        pods remain that are no successors of others.
        """
        known = reconcile.known.get(PODS, 0)
        versions = self.pods.since(pod.uid, known)
        if not all(
            REQUESTED in version.annotations and self._maybe_available(version, workloads, until=commit.at)
            for version in versions
        ) or not all(workload.eviction_surge for workload in workloads):
            return
        histories = [item for item in self.pods.all_since(known, reconcile) if item[0].uid != pod.uid]
        if any(
            version.annotations.get(SUCCESSOR_OF) == pod.uid
            and self._maybe_available(version, workloads, until=commit.at)
            for versions in histories
            for version in versions
        ):
            return
        others = sum(
            any(
                self._is_member(version, workloads[-1])
                and self._maybe_available(version, workloads, until=commit.at)
                for version in versions
            )
            for versions in histories
        )
        if not any(others >= workload.replicas for workload in workloads):
            yield self._broken(
                commit, "eviction", f"{pod.name} is to be evicted, and is deleted before its successor serves"
            )

    def _on_marked(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        problems = [self._why_not_recreated(reconcile, pod, workload) for workload in workloads]
        if all(problems):
            yield self._broken(commit, "deletion", f"{pod.name} is marked for no reason: {problems[-1]}")

    def _on_relabelled(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        problems = [self._why_not_updated(reconcile, before, after, workload) for workload in workloads]
        if all(problems):
            yield self._broken(
                commit, "update", f"{after.name} is updated {before.hash} → {after.hash}: {problems[-1]}"
            )

    def _why_not_updated(
        self, reconcile: Reconcile, before: Version, after: Version, workload: Workload
    ) -> str:
        if workload.policy == "ReCreate":
            return "the policy is ReCreate"
        if after.hash != self._hash_of(workload):
            return f"{self._hash_of(workload)} is wanted"
        return self._why_update_waits(reconcile, before, workload)

    def _why_not_recreated(self, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        """Empty when an update by recreation may take this pod."""
        if workload.policy == "InPlaceOnly":
            return "the policy is InPlaceOnly"
        target = self._hash_of(workload)
        if workload.policy == "InPlaceIfPossible" and is_image_change(
            self._templates.get(pod.hash), self._templates.get(target)
        ):
            return f"it can be updated in place to {target}"
        if pod.hash == target:
            return f"it is of {target}, as wanted"
        return self._why_update_waits(reconcile, pod, workload)

    def _why_update_waits(self, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        if workload.is_deleting:
            return "the CloneSet terminates"
        if workload.paused:
            return "updates are paused"
        if workload.on_delete:
            return "updates are OnDelete"
        target = self._hash_of(workload)
        old = sum(
            1
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if versions[0].uid != pod.uid
            and any(self._is_member(version, workload) and version.hash != target for version in versions)
        )
        if old < workload.partition:
            return f"the partition keeps {workload.partition} old pods, {old} are left"
        return ""

    def _wrong_group(self, reconcile: Reconcile, pod: Version, workloads: list[Workload], left: int) -> bool:
        """Whether an old pod is deleted as surplus although the partition keeps it and a new one could be
        deleted."""

        def is_wrong(workload: Workload) -> bool:
            target = self._hash_of(workload)
            if pod.hash == target or workload.partition == 0 or left < workload.replicas:
                return False
            histories = list(self.pods.all_since(reconcile.known.get(PODS, 0), reconcile))
            others = [history for history in histories if history[0].uid != pod.uid]
            old = sum(any(self._is_member(v, workload) and v.hash != target for v in item) for item in others)
            new = sum(all(self._is_member(v, workload) and v.hash == target for v in item) for item in others)
            return old < workload.partition and new > 0

        return all(is_wrong(workload) for workload in workloads)

    def _on_taken_out(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A manager takes a pod out of service only when enough others serve, as far as it can know."""

        def breaks(workload: Workload) -> str:
            if not self._is_taken_out(commit, reconcile, before, after, workload):
                return ""
            left = sum(
                1
                for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
                if any(
                    self._is_member(version, workload)
                    and self._maybe_available(version, [workload], until=commit.at)
                    for version in versions
                    if version.uid != before.uid
                )
            )
            least = workload.replicas - workload.max_unavailable
            return f"{left} pods serve then, at least {least} must" if left < least else ""

        problems = [breaks(workload) for workload in workloads]
        if all(problems):
            yield self._broken(
                commit, "availability", f"{before.name} is taken out of service: {problems[-1]}"
            )

    def most_prepared(self, reconcile: Reconcile, workload: Workload) -> int:
        surplus = self._lenient_members(reconcile, workload, without="") - workload.replicas
        return workload.max_unavailable + max(surplus, 0)

    # ── at rest ──────────────────────────────────────────────────────────────

    def settled(
        self, members: list[Version], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        # A pod never starts if a second leader deleted its claim while the first one created it (Known and left).
        if any(pod.labels.get(INSTANCE) in self._ids_without_claims for pod in members):
            return
        if len(members) != workload.replicas:
            yield Violation("converges", f"{len(members)} pods, {workload.replicas} wanted", now)
            return
        yield from self._all_available(members, workload, now)
        old = [pod for pod in members if pod.hash != target]
        if (
            not workload.paused
            and not workload.on_delete
            and len(old) > workload.partition
            and not (workload.policy == "InPlaceOnly" and self._is_impossible(old, workload, "FailedUpdate"))
        ):
            yield Violation("converges", f"{len(old)} old pods, the partition is {workload.partition}", now)
        marked = [pod.name for pod in members if pod.is_marked or pod.name in workload.to_delete]
        if marked:
            yield Violation("converges", f"still there although specified for deletion: {marked}", now)
        yield from self._status_is_true(members, workload, target, now)
        yield from self._all_run_their_revisions(members, now)
        yield from self._claims_are_right(members, workload, now)

    def _status_is_true(
        self, members: list[Version], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        new = sum(pod.hash == target for pod in members)
        wanted = {
            "replicas": len(members),
            "readyReplicas": sum(pod.is_ready for pod in members),
            "availableReplicas": sum(
                pod.is_available(min_ready_s=workload.min_ready_s, at=self._start + now) for pod in members
            ),
            "updatedReplicas": new,
            "observedGeneration": workload.generation,
        }
        yield from self._counts_are_true(workload, wanted, now)
        failed = self._says_failed(workload)
        if failed and workload.policy != "InPlaceOnly":
            yield Violation("status", f"nothing is wrong any more, but it says {failed}", now)

    def _claims_are_right(
        self, members: list[Version], workload: Workload, now: float
    ) -> Iterator[Violation]:
        ids = {pod.labels.get(INSTANCE) for pod in members}
        own = {
            name: claim
            for name, claim in self._claims.items()
            if any(ref["uid"] == workload.uid for ref in claim["metadata"].get("ownerReferences") or ())
        }
        for pod in members:
            missing = [t for t in workload.claim_templates if f"{t}-{pod.name}" not in self._claims]
            if missing:
                yield Violation("claims", f"{pod.name} lacks claims {missing}", now)
        leftover = [
            name
            for name, claim in own.items()
            if (claim["metadata"].get("labels") or {}).get(INSTANCE) not in ids
        ]
        if leftover and not workload.reuses_claims:
            yield Violation("claims", f"claims without a pod: {leftover}", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _lenient_members(self, reconcile: Reconcile, workload: Workload, *, without: str) -> int:
        """Pods that the manager may count, except one."""
        return sum(
            1
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if versions[0].uid != without and any(self._is_member(version, workload) for version in versions)
        )

    def _is_specified(self, version: Version, workloads: list[Workload]) -> bool:
        """Such pods do not count as unavailable: they are about to be replaced."""
        return version.is_marked or any(version.name in workload.to_delete for workload in workloads)
