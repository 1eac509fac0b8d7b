"""Rules of an Advanced StatefulSet for every commit.

The rules are those of the specification's "Main pass", "Building", "Update pass" and "Claim retention", implemented
independently; rules.py describes how they consider what a manager could know. A slot is an ordinal that the set
wants; its rank is its position among all slots.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import Version
from simulation.rules import (
    PODS,
    REVISIONS,
    Violation,
    WorkloadRules,
    is_image_change,
    is_out_of_service,
    number,
    plain,
    read_taints,
)
from simulation.versions import versions_since

__all__ = ["StatefulSetRules", "Workload"]

SETS, CLAIMS, NODES = "statefulsets.apps.kruise.io", "persistentvolumeclaims", "nodes"
POD_NAME = "statefulset.kubernetes.io/pod-name"

REPLACEMENT = "pykruise.io/replace-never-ready-after-seconds"
IGNORED_NODES = "pykruise.io/ignore-unavailable-nodes"

_TAKEN_OUT = ("PreparingUpdate", "Updating", "Updated", "PreparingDelete")


class Workload(msgspec.Struct, frozen=True):
    """One version of the StatefulSet. `revision` is the API server's."""

    revision: int
    uid: str
    is_deleting: bool
    slots: tuple[int, ...]
    """Wanted ordinals, ascending."""
    partition: int
    is_unordered: bool
    is_parallel: bool
    max_unavailable: int
    scale_max_unavailable: int
    paused: bool
    on_delete: bool
    policy: str
    min_ready_s: int
    template: Any
    pre_delete: Mapping[str, str]
    in_place_hook: Mapping[str, str]
    pre_normal: Mapping[str, str]
    claim_templates: tuple[str, ...]
    when_scaled: str
    when_deleted: str
    replaces_after_s: float | None
    """Age at which a pod of an older revision that has never been ready is replaced; None: never."""
    ignored: str
    """Limit of nodes out of service that use up no maxUnavailable; empty: every node uses it up."""
    current: str
    status: Mapping[str, Any]
    generation: int

    def rank(self, name: str) -> int:
        """The position of this pod among the wanted pods; -1: it is not wanted."""
        ordinal = _ordinal(name)
        return self.slots.index(ordinal) if ordinal in self.slots else -1

    def lower(self, name: str) -> list[str]:
        """Wanted pods with lower ordinals than this one."""
        ordinal = _ordinal(name)
        return [_named(name, slot) for slot in self.slots if slot < ordinal]

    def higher(self, name: str) -> list[str]:
        """Wanted pods with higher ordinals than this one."""
        ordinal = _ordinal(name)
        return [_named(name, slot) for slot in self.slots if slot > ordinal]

    def others(self, name: str) -> list[str]:
        """All other wanted pods."""
        return [*self.lower(name), *self.higher(name)]


def _ordinal(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -1


def _named(like: str, ordinal: int) -> str:
    return f"{like.rpartition('-')[0]}-{ordinal}"


def read_workload(doc: Any, revision: int) -> Workload:
    """A StatefulSet as stored. Fields that admission defaults are there."""
    spec, status = doc["spec"], doc.get("status") or {}
    strategy = spec.get("updateStrategy") or {}
    on_delete = strategy.get("type") == "OnDelete"
    block = {} if on_delete else strategy.get("rollingUpdate") or {}
    lifecycle = spec.get("lifecycle") or {}
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    replicas = spec.get("replicas", 1)
    limit = (spec.get("scaleStrategy") or {}).get("maxUnavailable")
    annotations = doc["metadata"].get("annotations") or {}
    after_s = annotations.get(REPLACEMENT)

    def hook(name: str) -> Mapping[str, str]:
        return (lifecycle.get(name) or {}).get("labelsHandler") or {}

    return Workload(
        revision=revision,
        uid=doc["metadata"]["uid"],
        is_deleting="deletionTimestamp" in doc["metadata"],
        slots=_slots(replicas, spec.get("reserveOrdinals") or ()),
        partition=block.get("partition", 0),
        is_unordered="unorderedUpdate" in block,
        is_parallel=spec.get("podManagementPolicy") == "Parallel",
        max_unavailable=max(number(block.get("maxUnavailable", 1), replicas, up=False), 1),
        scale_max_unavailable=10**9 if limit is None else max(number(limit, replicas, up=False), 1),
        paused=bool(block.get("paused")),
        on_delete=on_delete,
        policy=block.get("podUpdatePolicy") or "ReCreate",
        min_ready_s=block.get("minReadySeconds", 0),
        template=plain(spec["template"]),
        pre_delete=hook("preDelete"),
        in_place_hook=hook("inPlaceUpdate"),
        pre_normal=hook("preNormal"),
        claim_templates=tuple(
            template["metadata"]["name"] for template in spec.get("volumeClaimTemplates") or ()
        ),
        when_scaled=retention.get("whenScaled", "Retain"),
        when_deleted=retention.get("whenDeleted", "Retain"),
        replaces_after_s=None if after_s is None else float(after_s),
        ignored=annotations.get(IGNORED_NODES, ""),
        current=(status.get("currentRevision") or "").rpartition("-")[2],
        status=status,
        generation=doc["metadata"].get("generation", 0),
    )


def _slots(replicas: int, reserved: Any) -> tuple[int, ...]:
    """The first ordinals that are not reserved, this number of them."""
    taken: set[int] = set()
    for entry in reserved:
        first, _, last = str(entry).partition("-")
        taken.update(range(int(first), int(last or first) + 1))
    slots: list[int] = []
    ordinal = 0
    while len(slots) < replicas:
        if ordinal not in taken:
            slots.append(ordinal)
        ordinal += 1
    return tuple(slots)


class StatefulSetRules(WorkloadRules[Workload]):
    """Rules of one StatefulSet."""

    shelf = SETS
    shelves = frozenset({SETS, PODS, CLAIMS, REVISIONS, NODES})

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._claims: dict[str, list[tuple[int, Any]]] = {}
        """Name → each version with its revision; None: it is deleted."""
        self._scaled_away: dict[str, tuple[str, int]] = {}
        """Claims that must be deleted with a scaled-down pod: name → uid, and the revision of the scaling."""
        self._nodes: dict[str, list[tuple[int, bool]]] = {}
        """Name → each version's revision, and whether the node is out of service."""

    def read(self, document: Any, revision: int) -> Workload:
        return read_workload(document, revision)

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        if state == "PreparingNormal" and self.workloads:
            return dict(self.workloads[-1].pre_normal)
        return super().hook_answer(state)

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        if commit.shelf == NODES:
            is_out = commit.new is not None and is_out_of_service(read_taints(commit.new))
            self._nodes.setdefault(commit.key.name, []).append((commit.revision, is_out))
        if commit.shelf == CLAIMS and commit.key.namespace == self._namespace:
            self._claims.setdefault(commit.key.name, []).append((commit.revision, commit.new))
            if commit.reconcile is not None and commit.new is not None and self.workloads:
                yield from self._are_owners_right(commit, commit.reconcile)

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
            yield from self._on_updated(commit, reconcile, before, after, workloads)
        elif after.state == "PreparingDelete" != before.state:
            yield from self._is_wanted_gone(commit, reconcile, before, workloads)
        yield from self._on_taken_out(commit, reconcile, before, after, workloads)

    # ── pods that come ───────────────────────────────────────────────────────

    def on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        if all(workload.rank(pod.name) < 0 for workload in workloads):
            yield self._broken(
                commit, "ordinals", f"{pod.name} is made, wanted are {list(workloads[-1].slots)}"
            )
            return
        if pod.labels.get(POD_NAME) != pod.name:
            yield self._broken(commit, "ordinals", f"{pod.name} lacks the label with its name")
        workloads = [workload for workload in workloads if workload.rank(pod.name) >= 0]
        problems = [self._why_not_its_turn(commit, reconcile, pod, workload) for workload in workloads]
        if all(problems):
            rule = "scale limit" if workloads[-1].is_parallel else "order"
            yield self._broken(commit, rule, f"{pod.name} is made: {problems[-1]}")
        problems = [
            self._why_not_of_its_revision(reconcile, pod, workload, workloads) for workload in workloads
        ]
        if all(problems):
            yield self._broken(commit, "partition", f"{pod.name} is made of {pod.hash}: {problems[-1]}")
        yield from self._are_claims_there(commit, reconcile, pod, workloads)

    def _why_not_its_turn(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workload: Workload
    ) -> str:
        """Empty if the pods before it allow its creation."""
        down = self._surely_down(reconcile, workload.lower(pod.name), workload, until=commit.at)
        if not workload.is_parallel:
            return f"{down} come first" if down else ""
        limit = workload.scale_max_unavailable
        return f"{down} are down, the limit is {limit}" if len(down) >= limit else ""

    def _why_not_of_its_revision(
        self, reconcile: Reconcile, pod: Version, workload: Workload, workloads: list[Workload]
    ) -> str:
        update = self._hash_of(workload)
        if pod.hash == update and self._may_be_missing(reconcile, workload.current):
            return ""
        currents = {
            workload.current if workload.current in self._templates else update for workload in workloads
        }
        if workload.on_delete:
            return "" if pod.hash == update else f"OnDelete makes pods of {update}"
        if not workload.is_unordered:
            wanted = currents if workload.rank(pod.name) < workload.partition else {update}
            return "" if pod.hash in wanted else f"its place wants {wanted}"
        if currents == {update} == {pod.hash}:
            return ""
        histories = [self._of_name(reconcile, name) for name in workload.others(pod.name)]
        if pod.hash == update:
            new = sum(
                self._all_members(history, workload) and all(v.hash == update for v in history[-1])
                for history in histories
            )
            most = max(len(workload.slots) - workload.partition for workload in workloads)
            return f"{new} pods are new already, {most} may be" if new >= most else ""
        if pod.hash not in currents:
            return f"it is neither {currents} nor {update}"
        old = sum(
            self._all_members(history, workload) and all(v.hash != update for v in history[-1])
            for history in histories
        )
        return (
            f"{old} pods are old already, the partition is {workload.partition}"
            if old >= workload.partition
            else ""
        )

    def _are_claims_there(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """Its PVCs exist, and none will be deleted with an earlier pod of that name."""
        if len(workloads) != 1:
            return
        for template in workloads[0].claim_templates:
            name = f"{template}-{pod.name}"
            versions = self._claim_since(name, reconcile)
            if not any(versions):
                yield self._broken(commit, "claims", f"{pod.name} is made before claim {name}")
            elif all(_pod_owners(version) for version in versions if version) and all(versions):
                owners = _pod_owners(versions[-1])
                yield self._broken(commit, "claims", f"{pod.name} is made, but {name} goes with {owners}")

    # ── pods that go ─────────────────────────────────────────────────────────

    def _on_deleted(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        yield from self._is_hook_heeded(commit, pod, versions, workloads)
        if all(workload.rank(pod.name) < 0 for workload in workloads):
            yield from self._do_claims_go(commit, reconcile, pod, workloads)
        if not any(version.state == "PreparingDelete" for version in versions):
            yield from self._is_wanted_gone(commit, reconcile, pod, workloads)

    def _is_wanted_gone(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A user requested the deletion, the pod is surplus and the next one in the order, or it has to be
        recreated."""
        versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        if any(version.is_marked for version in versions):
            return
        yield from self._is_order_kept(commit, reconcile, pod, workloads)
        problems = [self._why_not_gone(commit, reconcile, pod, workload) for workload in workloads]
        if all(problems):
            surplus = all(workload.rank(pod.name) < 0 for workload in workloads)
            rule = "order" if surplus else "deletion"
            yield self._broken(commit, rule, f"{pod.name} ({pod.hash}) goes: {problems[-1]}")

    def _why_not_gone(self, commit: Commit, reconcile: Reconcile, pod: Version, workload: Workload) -> str:
        if workload.rank(pod.name) < 0:
            return "" if workload.is_parallel else self._why_surplus_waits(commit, reconcile, pod, workload)
        if workload.policy == "InPlaceOnly":
            return "the policy is InPlaceOnly"
        target = self._hash_of(workload)
        if workload.policy == "InPlaceIfPossible" and is_image_change(
            self._templates.get(pod.hash), self._templates.get(target)
        ):
            return f"it can be updated in place to {target}"
        if pod.hash == target:
            return f"it is of {target}, as wanted"
        return self._why_update_waits(commit, reconcile, pod, workload)

    def _why_surplus_waits(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workload: Workload
    ) -> str:
        """Reason why a surplus pod is not deleted yet; empty: it may be deleted. Ordered management deletes the highest
        pod, if no lower pod is missing."""
        if down := self._surely_down(
            reconcile, [_named(pod.name, slot) for slot in workload.slots], workload, until=commit.at
        ):
            return f"it is surplus, but {down} come first"
        higher = [
            versions[-1].name
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if workload.rank(versions[-1].name) < 0
            and _ordinal(versions[-1].name) > _ordinal(pod.name)
            and versions[0].owner == workload.uid
            and not any(version.gone for version in versions)
            and self._is_known(reconcile, versions[0].uid)
        ]
        return f"it is surplus, but {higher} go first" if higher else ""

    def _do_claims_go(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """PVCs that must be deleted with a scaled-down pod are marked before the pod is deleted."""
        if any(workload.when_scaled != "Delete" for workload in workloads):
            return
        for template in workloads[-1].claim_templates:
            name = f"{template}-{pod.name}"
            versions = self._claim_since(name, reconcile)
            if versions and all(version and pod.uid not in _pod_owners(version) for version in versions):
                yield self._broken(commit, "claims", f"{pod.name} is deleted, {name} does not go with it")
            elif versions and versions[-1]:
                self._scaled_away[name] = versions[-1]["metadata"]["uid"], commit.revision

    def _are_owners_right(self, commit: Commit, reconcile: Reconcile) -> Iterator[Violation]:
        """A manager gives a claim only owners that a possibly current retention policy requires."""
        name = commit.key.name
        workloads = self._workloads_since(reconcile.known.get(SETS, 0))
        before = set(_pod_owners(commit.old)) if commit.old else set()
        if set(_pod_owners(commit.new)) - before and not any(
            workload.when_scaled == "Delete" and workload.rank(name) < 0 for workload in workloads
        ):
            yield self._broken(commit, "claims", f"{name} is to go with its pod, against the policy")
        for workload in workloads:
            if workload.when_deleted == "Delete" or not _is_owner(commit.new, workload.uid):
                break
        else:
            if workloads and not (commit.old and _is_owner(commit.old, workloads[-1].uid)):
                yield self._broken(commit, "claims", f"{name} is to go with the set, against the policy")

    # ── updates ──────────────────────────────────────────────────────────────

    def _on_updated(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        def problem(workload: Workload) -> str:
            if workload.policy == "ReCreate":
                return "the policy is ReCreate"
            if after.hash != self._hash_of(workload):
                return f"{self._hash_of(workload)} is wanted"
            return self._why_update_waits(commit, reconcile, before, workload)

        yield from self._is_order_kept(commit, reconcile, before, workloads)
        problems = [problem(workload) for workload in workloads]
        if all(problems):
            what = f"{after.name} is updated {before.hash} → {after.hash}: {problems[-1]}"
            yield self._broken(commit, "update", what)

    def _why_update_waits(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workload: Workload
    ) -> str:
        if workload.is_deleting:
            return "the StatefulSet terminates"
        if workload.paused:
            return "updates are paused"
        if workload.on_delete:
            return "updates are OnDelete"
        target = self._hash_of(workload)
        if not workload.is_unordered:
            if workload.rank(pod.name) < workload.partition:
                return f"the partition keeps {workload.partition} pods"
            versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
            if not workload.is_parallel and any(version.state in _TAKEN_OUT for version in versions):
                return ""  # with ordered management every other pod waits for this one, until it is updated
            if self._may_be_replaced(commit, pod, workload):
                return ""
            first = [
                name for name in workload.higher(pod.name) if self._is_surely_idle(reconcile, name, workload)
            ]
            costs = all(
                version.is_available(min_ready_s=workload.min_ready_s, at=reconcile.at - self._skew_s)
                for version in versions
            )
            most = workload.max_unavailable - costs
            return f"{first} come first" if len(first) > most else ""
        old = sum(
            not histories or any(version.hash != target for versions in histories for version in versions)
            for histories in (self._of_name(reconcile, name) for name in workload.others(pod.name))
        )
        return (
            f"the partition keeps {workload.partition} old pods, {old} are left"
            if old < workload.partition
            else ""
        )

    def _is_order_kept(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """No wanted pod that is out of service is updated under ordered management, unless the manager took it out of
        service, a user marked it, it has ended, or it has never been ready and the set requests its replacement."""
        known = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        versions = [version for version in known if version.revision < commit.revision] or [pod]
        if any(
            version.is_marked or version.state in _TAKEN_OUT or not version.is_active for version in versions
        ):
            return
        if any(
            workload.is_parallel
            or workload.rank(pod.name) < 0
            or self._may_be_replaced(commit, pod, workload)
            or any(self._maybe_available(version, [workload], until=commit.at) for version in versions)
            for workload in workloads
        ):
            return
        yield self._broken(
            commit, "never ready", f"{pod.name} ({pod.hash}) is out of service, and is updated nevertheless"
        )

    def _may_be_replaced(self, commit: Commit, pod: Version, workload: Workload) -> bool:
        """Whether the set requests the replacement of this pod, which has never been ready."""
        if workload.replaces_after_s is None:
            return False
        age_s = commit.at - self.pods.created_at(pod.uid).at + self._skew_s
        # The API server stores whole seconds.
        return age_s + 1.0 >= workload.replaces_after_s and not any(
            version.has_ready_condition for version in self.pods.since(pod.uid, 0)
        )

    def _is_surely_idle(self, reconcile: Reconcile, name: str, workload: Workload) -> bool:
        """Whether this pod certainly has an old revision and serves, so that no manager has begun to update it."""
        histories = self._of_name(reconcile, name)
        target = self._hash_of(workload)
        return self._all_members(histories, workload) and all(
            history.hash != target
            and history.is_available(min_ready_s=workload.min_ready_s, at=reconcile.at - self._skew_s)
            for history in histories[-1]
        )

    def _on_taken_out(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[Workload]
    ) -> Iterator[Violation]:
        """A wanted, serving pod leaves service only while the number of unavailable pods is below the limit."""

        def breaks(workload: Workload) -> str:
            if workload.rank(before.name) < 0 or not self._is_taken_out(
                commit, reconcile, before, after, workload
            ):
                return ""
            down = self._surely_down(reconcile, workload.others(before.name), workload, until=commit.at)
            most = workload.max_unavailable + self._count_ignored(reconcile, down, workload)
            return f"{down} are out already, {most} may be" if len(down) >= most else ""

        problems = [breaks(workload) for workload in workloads]
        if all(problems):
            what = f"{before.name} is taken out of service: {problems[-1]}"
            yield self._broken(commit, "availability", what)

    def _count_ignored(self, reconcile: Reconcile, names: list[str], workload: Workload) -> int:
        """Maximum number of these pods that do not count, because their nodes are out of service."""
        if not workload.ignored:
            return 0
        targets = [
            {version.target for versions in self._of_name(reconcile, name) for version in versions} - {""}
            for name in names
        ]
        out = Counter(
            node for nodes in targets for node in nodes if self._may_be_out_of_service(reconcile, node)
        )
        limit = workload.ignored if "%" in workload.ignored else int(workload.ignored)
        largest = sorted(out.values(), reverse=True)[: number(limit, len(self._nodes), up=True)]
        return sum(largest)

    def _may_be_out_of_service(self, reconcile: Reconcile, node: str) -> bool:
        states = self._nodes.get(node) or []
        since = versions_since(states, reconcile.known.get(NODES, 0), revision_of=itemgetter(0))
        return any(is_out for _, is_out in since)

    def most_prepared(self, reconcile: Reconcile, workload: Workload) -> int:
        names = [
            versions[-1].name for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
        ]
        surplus = sum(workload.rank(name) < 0 for name in names)
        return workload.max_unavailable + surplus + self._count_ignored(reconcile, names, workload)

    # ── at rest ──────────────────────────────────────────────────────────────

    def left_behind(self, workload: Workload, now: float) -> Iterator[Violation]:
        yield from super().left_behind(workload, now)
        claims = [name for name, claim in self._present_claims() if _is_owner(claim, workload.uid)]
        if claims:
            yield Violation("gone", f"the StatefulSet is gone, but its claims {claims} are there", now)

    def settled(
        self, members: list[Version], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        ordinals = sorted(_ordinal(pod.name) for pod in members)
        if ordinals != list(workload.slots):
            yield Violation("converges", f"pods {ordinals}, wanted {list(workload.slots)}", now)
            return
        yield from self._all_available(members, workload, now)
        old = [pod for pod in members if pod.hash != target]
        late = [pod for pod in old if workload.is_unordered or workload.rank(pod.name) >= workload.partition]
        most = workload.partition if workload.is_unordered else 0
        is_stuck = workload.policy == "InPlaceOnly" and self._is_impossible(old, workload, "FailedUpdatePod")
        if not workload.paused and not workload.on_delete and len(late) > most and not is_stuck:
            yield Violation("converges", f"{[pod.name for pod in late]} are old, {most} may be", now)
        if marked := [pod.name for pod in members if pod.is_marked]:
            yield Violation("converges", f"still there although specified for deletion: {marked}", now)
        if unnamed := [pod.name for pod in members if pod.labels.get(POD_NAME) != pod.name]:
            yield Violation("ordinals", f"{unnamed} lack the label with their name", now)
        yield from self._all_run_their_revisions(members, now)
        yield from self._status_is_true(members, workload, target, now)
        yield from self._claims_are_right(members, workload, now)

    def _status_is_true(
        self, members: list[Version], workload: Workload, target: str, now: float
    ) -> Iterator[Violation]:
        def available(pod: Version) -> bool:
            return pod.is_available(min_ready_s=workload.min_ready_s, at=self._start + now)

        new = [pod for pod in members if pod.hash == target]
        current = target if workload.current not in self._templates else workload.current
        wanted = {
            "replicas": len(members),
            "readyReplicas": sum(pod.is_ready for pod in members),
            "availableReplicas": sum(map(available, members)),
            "updatedReplicas": len(new),
            "updatedReadyReplicas": sum(pod.is_ready for pod in new),
            "updatedAvailableReplicas": sum(map(available, new)),
            "currentReplicas": sum(pod.hash == current for pod in members),
            "observedGeneration": workload.generation,
        }
        yield from self._counts_are_true(workload, wanted, now)
        failed = self._says_failed(workload)
        if failed and workload.policy != "InPlaceOnly":
            yield Violation("status", f"nothing is wrong any more, but it says {failed}", now)
        is_complete = (
            len(new) == len(members) and not workload.on_delete and (members or not workload.partition)
        )
        if is_complete and workload.status.get("currentRevision") != workload.status.get("updateRevision"):
            yield Violation("status", "everything is updated, but currentRevision is another", now)

    def _claims_are_right(
        self, members: list[Version], workload: Workload, now: float
    ) -> Iterator[Violation]:
        present = dict(self._present_claims())
        for pod in members:
            for template in workload.claim_templates:
                claim = present.get(f"{template}-{pod.name}")
                if claim is None:
                    yield Violation("claims", f"{pod.name} lacks claim {template}", now)
                    continue
                owned = _is_owner(claim, workload.uid)
                if _pod_owners(claim) or owned != (workload.when_deleted == "Delete"):
                    owners = [
                        reference["name"] for reference in claim["metadata"].get("ownerReferences") or ()
                    ]
                    what = (
                        f"{template} of {pod.name} goes with {owners}, the policy is {workload.when_deleted}"
                    )
                    yield Violation("claims", what, now)
        stays = [
            name
            for name, (uid, since) in self._scaled_away.items()
            if name in present
            and present[name]["metadata"]["uid"] == uid
            and workload.rank(name) < 0
            and all(workload.when_scaled == "Delete" for workload in self._workloads_since(since))
        ]
        if stays:
            yield Violation("claims", f"{stays} were to go with their pods, but are there", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _of_name(self, reconcile: Reconcile, name: str) -> list[list[Version]]:
        """Pods of this name, each with the versions that the manager may assume to be the current one; the last
        pod is the existing one."""
        return [
            versions
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if versions[-1].name == name
        ]

    def _all_members(self, histories: list[list[Version]], workload: Workload) -> bool:
        """Whether there is one pod of this name, and it certainly is an active pod of the set."""
        return len(histories) == 1 and all(self._is_member(history, workload) for history in histories[0])

    def _surely_down(
        self, reconcile: Reconcile, names: list[str], workload: Workload, *, until: float
    ) -> list[str]:
        """Names of the pods that are missing or out of service in every state that the manager may assume."""
        return [
            name
            for name in names
            if not any(
                self._is_member(version, workload) and self._maybe_available(version, [workload], until=until)
                for versions in self._of_name(reconcile, name)
                for version in versions
            )
        ]

    def _claim_since(self, name: str, reconcile: Reconcile) -> list[Any]:
        """States of a PVC that a manager may assume to be the current one."""
        versions = self._claims.get(name) or []
        since = versions_since(versions, reconcile.known.get(CLAIMS, 0), revision_of=itemgetter(0))
        return [version for _, version in since]

    def _present_claims(self) -> Iterator[tuple[str, Any]]:
        return ((name, versions[-1][1]) for name, versions in self._claims.items() if versions[-1][1])


def _pod_owners(claim: Any) -> list[str]:
    """Uids of the pods with which a PVC is deleted."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return [owner["uid"] for owner in owners if owner["kind"] == "Pod"]


def _is_owner(claim: Any, uid: str) -> bool:
    return any(reference["uid"] == uid for reference in claim["metadata"].get("ownerReferences") or ())
