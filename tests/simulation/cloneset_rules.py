"""What holds for a CloneSet at every commit, whatever happens around it.

A commit by a manager is right if there is a version of the CloneSet that the manager may have known, under
which it is right for pods as the manager may have known them. So nothing is asked that could not be known, and
what is left is exact: no tolerance, no time-outs. Rules are those of the specification's "Numbers", "Scale" and
"Update", written down a second time and in another way.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from simulation.history import Commit, Turn
from simulation.pods import INSTANCE, PodHistory, Version
from simulation.rules import Violation

__all__ = ["SHELVES", "CloneSetRules", "Wish"]

SETS, PODS, CLAIMS, REVISIONS = (
    "clonesets.apps.kruise.io",
    "pods",
    "persistentvolumeclaims",
    "controllerrevisions.apps",
)
SHELVES = frozenset({SETS, PODS, CLAIMS, REVISIONS})


class Wish(msgspec.Struct, frozen=True):
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
    current: str
    status: Mapping[str, Any]
    generation: int


def number(value: Any, of: int, *, up: bool) -> int:
    """An int-or-percent, for pods."""
    if isinstance(value, str):
        exact = float(value.rstrip("%")) * of / 100
        return math.ceil(exact - 1e-9) if up else math.floor(exact + 1e-9)
    return int(value)


def read_wish(doc: Any, revision: int) -> Wish:
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
    return Wish(
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
        claim_templates=tuple(one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ()),
        reuses_claims=bool(scale.get("enablePVCReuse")),
        current=(status.get("currentRevision") or "").rpartition("-")[2],
        status=status,
        generation=doc["metadata"].get("generation", 0),
    )


class CloneSetRules:
    """Follows one CloneSet (by name) through its lives. `skew_s`: how far managers' clocks may be off."""

    def __init__(self, *, namespace: str, name: str, start: float, skew_s: float = 0.0) -> None:
        self._namespace = namespace
        self._name = name
        self._start = start
        self._skew_s = skew_s
        self.pods = PodHistory()
        self.wishes: list[Wish] = []
        self._gone_at = 0
        self._templates: dict[str, Any] = {}
        self._claims: dict[str, Any] = {}
        self._image_writes: dict[tuple[str, str], int] = {}

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """See `Rules`."""
        if commit.key.namespace != self._namespace:
            return
        if commit.shelf == SETS:
            self._on_set(commit)
        elif commit.shelf == REVISIONS:
            yield from self._on_revision(commit)
        elif commit.shelf == CLAIMS:
            yield from self._on_claim(commit)
        elif commit.shelf == PODS:
            yield from self._on_pod(commit)

    def _on_set(self, commit: Commit) -> None:
        if commit.key.name != self._name:
            return
        if commit.new is None:
            self._gone_at = commit.revision
        else:
            self.wishes.append(read_wish(commit.new, commit.revision))

    def _on_revision(self, commit: Commit) -> Iterator[Violation]:
        if commit.new is not None:
            self._templates[commit.key.name.rpartition("-")[2]] = plain(
                commit.new["data"]["spec"]["template"]
            )
            return
        removed = commit.key.name.rpartition("-")[2]
        if commit.turn is not None and self.wishes:
            used = [pod.name for pod in self._members(self.wishes[-1]) if pod.hash == removed]
            known = commit.turn.known.get(PODS, 0)
            sure = [name for name in used if self._is_sure(name, removed, known)]
            if sure:
                yield self._broken(commit, "history", f"revision {removed} is deleted, but {sure} are of it")

    def _is_sure(self, name: str, hash_: str, known: int) -> bool:
        for pod in self.pods.latest():
            if pod.name == name:
                return all(one.hash == hash_ and one.is_active for one in self.pods.since(pod.uid, known))
        return False

    def _on_claim(self, commit: Commit) -> Iterator[Violation]:
        if commit.new is not None:
            self._claims[commit.key.name] = commit.new
        else:
            self._claims.pop(commit.key.name, None)
        began = commit.new is None or "deletionTimestamp" in commit.new["metadata"]
        was = commit.old is not None and "deletionTimestamp" not in commit.old["metadata"]
        if commit.turn is None or not (began and was) or commit.old is None:
            return
        instance = (commit.old["metadata"].get("labels") or {}).get(INSTANCE)
        known = commit.turn.known.get(PODS, 0)
        for pod in self.pods.latest():
            if pod.labels.get(INSTANCE) == instance and self._is_always_member(pod, known, commit.sender):
                yield self._broken(
                    commit, "claims", f"claim {commit.key.name} is deleted, pod {pod.name} has it"
                )

    def _is_always_member(self, pod: Version, known: int, manager: str) -> bool:
        wish = self.wishes[-1]
        # A pod that another manager has just created cannot be known; a second leader may meet its claim first.
        if self.pods.created_at(pod.uid).revision > known and self.pods.created_at(pod.uid).sender != manager:
            return False
        return all(self._is_member(one, wish) for one in self.pods.since(pod.uid, known))

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        before, after = self.pods.take(commit)
        if commit.turn is None or not self.wishes:
            return
        wishes = self._wishes_since(commit.turn.known.get(SETS, 0))
        if not wishes or after.owner not in {wish.uid for wish in wishes}:
            if before is None:
                yield self._broken(commit, "owner", f"pod {after.name} is created for no CloneSet there is")
            return
        if all(wish.is_deleting for wish in wishes):
            yield self._broken(
                commit, "terminating", f"pod {after.name} is written to, the CloneSet terminates"
            )
            return
        if before is None:
            yield from self._on_created(commit, commit.turn, after, wishes)
            return
        if before.owner != after.owner or not self._is_member(before, wishes[-1]):
            return  # released, or none of its pods any more
        yield from self._on_images(commit, commit.turn, before, after, wishes)
        yield from self._on_completed(commit, before, after)
        if not after.is_active:
            yield from self._on_deleted(commit, commit.turn, before, wishes)
        elif after.hash != before.hash:
            yield from self._on_relabelled(commit, commit.turn, before, after, wishes)
        elif after.is_marked and not before.is_marked:
            yield from self._on_marked(commit, commit.turn, before, wishes)
        elif after.state == "PreparingDelete" != before.state:
            yield from self._on_deleted(commit, commit.turn, before, wishes, is_prepared=True)
        yield from self._on_taken_out(commit, commit.turn, before, after, wishes)

    # ── single rules ─────────────────────────────────────────────────────────

    def _on_created(
        self, commit: Commit, turn: Turn, pod: Version, wishes: list[Wish]
    ) -> Iterator[Violation]:
        known = turn.known.get(PODS, 0)
        mine = [
            one
            for one in self._members(wishes[-1])
            if one.uid == pod.uid
            or self.pods.created_at(one.uid).revision <= known
            or self.pods.created_at(one.uid).sender == turn.manager
        ]
        most = max(wish.replicas + wish.max_surge for wish in wishes)
        if len(mine) > most:
            yield self._broken(
                commit, "too many", f"{pod.name} makes {len(mine)} pods, at most {most} are wanted"
            )
        updates = {self._hash_of(wish): wish for wish in wishes}
        currents = {wish.current for wish in wishes} - {""}
        if pod.hash not in updates and pod.hash not in currents:
            yield self._broken(
                commit, "revision", f"{pod.name} is of {pod.hash}, wanted {set(updates) | currents}"
            )
        elif pod.hash in updates and pod.hash not in currents:
            wish = updates[pod.hash]
            new = [one for one in mine if one.hash == pod.hash]
            allowed = max(w.replicas + w.max_surge - w.partition for w in wishes)
            old_exists = wish.current in self._templates
            if len(new) > allowed and old_exists:
                yield self._broken(
                    commit,
                    "partition",
                    f"{pod.name} is the new pod no. {len(new)}, at most {allowed} may be new",
                )
        if pod.hash in self._templates:
            expected = images_of(self._templates[pod.hash])
            if dict(pod.images) != expected:
                yield self._broken(
                    commit, "template", f"{pod.name} has {dict(pod.images)}, revision {expected}"
                )
        twins = [
            one.name
            for one in self.pods.latest()
            if one.uid != pod.uid
            and one.owner == pod.owner
            and one.labels.get(INSTANCE) == pod.labels[INSTANCE]
        ]
        if twins:
            yield self._broken(commit, "claims", f"{pod.name} and {twins} have the same instance id")
        missing = [
            f"{template}-{pod.name}"
            for template in wishes[-1].claim_templates
            if f"{template}-{pod.name}" not in self._claims
        ]
        if missing and len(wishes) == 1:
            yield self._broken(commit, "claims", f"{pod.name} is created before {missing}")
        down = sum(
            1
            for versions in self.pods.all_since(known, turn.manager)
            if all(
                self._is_member(one, wishes[-1])
                and not self._maybe_available(one, wishes, until=commit.at)
                and not self._is_specified(one, wishes)
                for one in versions
            )
            and versions[0].revision <= known
        )
        limit = max(wish.scale_max_unavailable for wish in wishes)
        if down >= limit:
            yield self._broken(
                commit,
                "scale limit",
                f"{pod.name} is created while {down} pods are down, the limit is {limit}",
            )

    def _on_deleted(
        self,
        commit: Commit,
        turn: Turn,
        pod: Version,
        wishes: list[Wish],
        *,
        is_prepared: bool = False,
    ) -> Iterator[Violation]:
        """Someone has to have asked for it, it is surplus, or it has to be recreated."""
        versions = self.pods.since(pod.uid, turn.known.get(PODS, 0))
        if not is_prepared and all(_is_hooked(one, wish.pre_delete) for one in versions for wish in wishes):
            yield self._broken(commit, "hook", f"{pod.name} is deleted although its preDelete hook is on it")
        if any(one.is_marked or one.state == "PreparingDelete" for one in versions):
            return
        if any(pod.name in wish.to_delete for wish in wishes):
            return
        left = self._lenient_members(turn, wishes[-1], without=pod.uid)
        if any(left >= wish.replicas for wish in wishes):
            if not self._wrong_group(turn, pod, wishes, left):
                return
            yield self._broken(
                commit, "partition", f"{pod.name} is surplus and old, but the partition keeps it"
            )
            return
        problems = [self._why_not_recreated(turn, pod, wish) for wish in wishes]
        if all(problems):
            yield self._broken(
                commit, "deletion", f"{pod.name} ({pod.hash}) goes for no reason: {problems[-1]}"
            )

    def _on_marked(self, commit: Commit, turn: Turn, pod: Version, wishes: list[Wish]) -> Iterator[Violation]:
        problems = [self._why_not_recreated(turn, pod, wish) for wish in wishes]
        if all(problems):
            yield self._broken(commit, "deletion", f"{pod.name} is marked for no reason: {problems[-1]}")

    def _on_relabelled(
        self, commit: Commit, turn: Turn, before: Version, after: Version, wishes: list[Wish]
    ) -> Iterator[Violation]:
        problems = [self._why_not_updated(turn, before, after, wish) for wish in wishes]
        if all(problems):
            yield self._broken(
                commit, "update", f"{after.name} is updated {before.hash} → {after.hash}: {problems[-1]}"
            )

    def _why_not_updated(self, turn: Turn, before: Version, after: Version, wish: Wish) -> str:
        if wish.policy == "ReCreate":
            return "the policy is ReCreate"
        if after.hash != self._hash_of(wish):
            return f"{self._hash_of(wish)} is wanted"
        return self._why_update_waits(turn, before, wish)

    def _why_not_recreated(self, turn: Turn, pod: Version, wish: Wish) -> str:
        """Empty when an update by recreation may take this pod."""
        if wish.policy == "InPlaceOnly":
            return "the policy is InPlaceOnly"
        target = self._hash_of(wish)
        if wish.policy == "InPlaceIfPossible" and _is_image_change(
            self._templates.get(pod.hash), self._templates.get(target)
        ):
            return f"it can be updated in place to {target}"
        if pod.hash == target:
            return f"it is of {target}, as wanted"
        return self._why_update_waits(turn, pod, wish)

    def _why_update_waits(self, turn: Turn, pod: Version, wish: Wish) -> str:
        if wish.is_deleting:
            return "the CloneSet terminates"
        if wish.paused:
            return "updates are paused"
        if wish.on_delete:
            return "updates are OnDelete"
        target = self._hash_of(wish)
        old = sum(
            1
            for versions in self.pods.all_since(turn.known.get(PODS, 0), turn.manager)
            if versions[0].uid != pod.uid
            and any(self._is_member(one, wish) and one.hash != target for one in versions)
        )
        if old < wish.partition:
            return f"the partition keeps {wish.partition} old pods, {old} are left"
        return ""

    def _wrong_group(self, turn: Turn, pod: Version, wishes: list[Wish], left: int) -> bool:
        """Whether an old pod goes as surplus although the partition wants it and a new one could go."""

        def is_wrong(wish: Wish) -> bool:
            target = self._hash_of(wish)
            if pod.hash == target or wish.partition == 0 or left < wish.replicas:
                return False
            histories = list(self.pods.all_since(turn.known.get(PODS, 0), turn.manager))
            others = [one for one in histories if one[0].uid != pod.uid]
            old = sum(any(self._is_member(v, wish) and v.hash != target for v in one) for one in others)
            new = sum(all(self._is_member(v, wish) and v.hash == target for v in one) for one in others)
            return old < wish.partition and new > 0

        return all(is_wrong(wish) for wish in wishes)

    def _on_taken_out(
        self, commit: Commit, turn: Turn, before: Version, after: Version, wishes: list[Wish]
    ) -> Iterator[Violation]:
        """A manager takes a pod out of service only when enough others serve, as far as it can know."""

        def serves(version: Version, wish: Wish, at: float) -> bool:
            return version.is_available(min_ready_s=wish.min_ready_s, at=at)

        def breaks(wish: Wish) -> str:
            sure_at = commit.at - self._skew_s
            if not serves(before, wish, sure_at) or serves(after, wish, commit.at + self._skew_s):
                return ""
            left = sum(
                1
                for versions in self.pods.all_since(turn.known.get(PODS, 0), turn.manager)
                if any(
                    self._is_member(one, wish) and self._maybe_available(one, [wish], until=commit.at)
                    for one in versions
                    if one.uid != before.uid
                )
            )
            least = wish.replicas - wish.max_unavailable
            return f"{left} pods serve then, at least {least} must" if left < least else ""

        problems = [breaks(wish) for wish in wishes]
        if all(problems):
            yield self._broken(
                commit, "availability", f"{before.name} is taken out of service: {problems[-1]}"
            )

    def _on_images(
        self, commit: Commit, turn: Turn, before: Version, after: Version, wishes: list[Wish]
    ) -> Iterator[Violation]:
        if after.hash != before.hash:
            self._image_writes = {
                key: count for key, count in self._image_writes.items() if key[0] != after.uid
            }
        changed = [name for name, image in after.images.items() if before.images.get(name) != image]
        for name in changed:
            key = (after.uid, name)
            self._image_writes[key] = self._image_writes.get(key, 0) + 1
            if self._image_writes[key] > 1:
                yield self._broken(
                    commit,
                    "restarts",
                    f"container {name} of {after.name} is restarted twice for {after.hash}",
                )
        versions = self.pods.since(before.uid, turn.known.get(PODS, 0))
        if (
            changed
            and before.state != "Updating"
            and all(_is_hooked(one, wish.in_place_hook) for one in versions[:-1] for wish in wishes)
            and versions[:-1]
        ):
            yield self._broken(
                commit, "hook", f"{after.name} is updated although its inPlaceUpdate hook is on it"
            )
        if changed and after.hash in self._templates:
            expected = images_of(self._templates[after.hash])
            wrong = [name for name in changed if after.images[name] != expected.get(name)]
            if wrong:
                yield self._broken(
                    commit, "template", f"{after.name}: {wrong} are not of revision {after.hash}"
                )

    def _on_completed(self, commit: Commit, before: Version, after: Version) -> Iterator[Violation]:
        """An update in place is over when the node runs what the pod wants, and not before."""
        if before.state != "Updating" or after.state not in ("Normal", "Updated"):
            return
        late = [
            name for name, image in after.images.items() if not after.running.get(name, image).endswith(image)
        ]
        if late:
            yield self._broken(
                commit, "template", f"{after.name} counts as updated, but {late} run something else"
            )

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Everything has gone well for long: nothing is missing, left over or unsaid."""
        if not self.wishes:
            return
        wish = self.wishes[-1]
        if self._gone_at > wish.revision:
            left = [pod.name for pod in self.pods.latest() if pod.owner == wish.uid]
            if left:
                yield Violation("gone", f"the CloneSet is gone, but {left} are there", now)
            return
        members = list(self._members(wish))
        target = self._hash_of(wish)
        if not target:
            yield Violation("converges", "the template has no revision", now)
            return
        if len(members) != wish.replicas:
            yield Violation("converges", f"{len(members)} pods, {wish.replicas} wanted", now)
            return
        down = [
            f"{pod.name} ({pod.state}, ready={pod.is_ready})"
            for pod in members
            if not pod.is_available(min_ready_s=wish.min_ready_s, at=self._start + now)
        ]
        if down:
            yield Violation("converges", f"not available: {down}", now)
        old = [pod for pod in members if pod.hash != target]
        if (
            not wish.paused
            and not wish.on_delete
            and len(old) > wish.partition
            and not self._is_stuck(old, wish)
        ):
            yield Violation("converges", f"{len(old)} old pods, the partition is {wish.partition}", now)
        marked = [pod.name for pod in members if pod.is_marked or pod.name in wish.to_delete]
        if marked:
            yield Violation("converges", f"still there although specified for deletion: {marked}", now)
        yield from self._status_is_true(members, wish, target, now)
        for pod in members:
            expected = images_of(self._templates.get(pod.hash))
            if expected and dict(pod.images) != expected:
                yield Violation(
                    "template", f"{pod.name} runs {dict(pod.images)}, revision has {expected}", now
                )
        yield from self._claims_are_right(members, wish, now)

    def _is_stuck(self, old: Iterable[Version], wish: Wish) -> bool:
        """InPlaceOnly with a change that is none: the condition has to say so."""
        if wish.policy != "InPlaceOnly":
            return False
        said = {one["type"]: one["status"] for one in wish.status.get("conditions") or ()}
        target = self._templates.get(self._hash_of(wish))
        impossible = [pod for pod in old if not _is_image_change(self._templates.get(pod.hash), target)]
        return bool(impossible) and said.get("FailedUpdate") == "True"

    def _status_is_true(
        self, members: list[Version], wish: Wish, target: str, now: float
    ) -> Iterator[Violation]:
        new = sum(pod.hash == target for pod in members)
        wanted = {
            "replicas": len(members),
            "readyReplicas": sum(pod.is_ready for pod in members),
            "availableReplicas": sum(
                pod.is_available(min_ready_s=wish.min_ready_s, at=self._start + now) for pod in members
            ),
            "updatedReplicas": new,
            "observedGeneration": wish.generation,
        }
        wrong = {
            name: (wish.status.get(name), want)
            for name, want in wanted.items()
            if wish.status.get(name) != want
        }
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)
        failed = [
            f"{one['type']}: {one.get('message')}"
            for one in wish.status.get("conditions") or ()
            if one["type"].startswith("Failed") and one["status"] == "True"
        ]
        if failed and wish.policy != "InPlaceOnly":
            yield Violation("status", f"nothing is wrong any more, but it says {failed}", now)

    def _claims_are_right(self, members: list[Version], wish: Wish, now: float) -> Iterator[Violation]:
        ids = {pod.labels.get(INSTANCE) for pod in members}
        own = {
            name: claim
            for name, claim in self._claims.items()
            if any(ref["uid"] == wish.uid for ref in claim["metadata"].get("ownerReferences") or ())
        }
        for pod in members:
            missing = [t for t in wish.claim_templates if f"{t}-{pod.name}" not in self._claims]
            if missing:
                yield Violation("claims", f"{pod.name} lacks claims {missing}", now)
        leftover = [
            name
            for name, claim in own.items()
            if (claim["metadata"].get("labels") or {}).get(INSTANCE) not in ids
        ]
        if leftover and not wish.reuses_claims:
            yield Violation("claims", f"claims without a pod: {leftover}", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _wishes_since(self, known: int) -> list[Wish]:
        """Versions that a manager with this knowledge may take for the present one."""
        first = max(0, bisect_right(self.wishes, known, key=lambda wish: wish.revision) - 1)
        if self._gone_at > self.wishes[-1].revision and self._gone_at <= known:
            return []
        return self.wishes[first:]

    def _is_member(self, pod: Version, wish: Wish) -> bool:
        return pod.is_active and pod.owner == wish.uid and pod.labels.get("app") == self._name

    def _members(self, wish: Wish) -> Iterator[Version]:
        return (pod for pod in self.pods.latest() if self._is_member(pod, wish))

    def _lenient_members(self, turn: Turn, wish: Wish, *, without: str) -> int:
        """Pods that the manager may count, apart from one."""
        return sum(
            1
            for versions in self.pods.all_since(turn.known.get(PODS, 0), turn.manager)
            if versions[0].uid != without and any(self._is_member(one, wish) for one in versions)
        )

    def _maybe_available(self, version: Version, wishes: list[Wish], *, until: float) -> bool:
        at = until + self._skew_s + 1e-6
        return any(version.is_available(min_ready_s=wish.min_ready_s, at=at) for wish in wishes)

    def _is_specified(self, version: Version, wishes: list[Wish]) -> bool:
        """Such pods do not count as unavailable: they are about to be replaced."""
        return version.is_marked or any(version.name in wish.to_delete for wish in wishes)

    def _hash_of(self, wish: Wish) -> str:
        """The revision of its template; empty: it has none yet. Of equal ones the newest counts."""
        return next((name for name, one in reversed(self._templates.items()) if one == wish.template), "")

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def plain(template: Any) -> Any:
    """A template without what revisions carry for their history's sake."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value is not None}
    containers = [
        {name: value for name, value in one.items() if name != "resources" or value}
        for one in template["spec"]["containers"]
    ]
    return {"metadata": metadata, "spec": {**template["spec"], "containers": containers}}


def images_of(template: Any) -> dict[str, str]:
    """Images by container of a pod template."""
    return {one["name"]: one["image"] for one in (template or {}).get("spec", {}).get("containers") or ()}


def _is_hooked(pod: Version, labels: Mapping[str, str]) -> bool:
    return any(pod.labels.get(key) == value for key, value in labels.items())


def _is_image_change(old: Any, new: Any) -> bool:
    """Whether two templates differ in nothing but images and metadata."""
    if old is None or new is None:
        return False

    def bare(template: Any) -> Any:
        spec = {**template["spec"]}
        spec["containers"] = [{k: v for k, v in one.items() if k != "image"} for one in spec["containers"]]
        return spec

    return bool(bare(old) == bare(new))
