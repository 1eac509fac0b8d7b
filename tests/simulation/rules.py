"""Rules of a kind for every commit and for the state at rest: the interface, and the part that all kinds share.

Commit ──▶ Rules.on_commit() ──▶ Violation(rule, what)          at the end ──▶ Rules.at_rest() ──▶ Violations

A new kind needs its own `WorkloadRules`, a decoder of its object (`Workload`), a generator of scripts, and an entry in
kinds.py. Network, history, operations on pods and nodes, shrinking and replaying are the same for all kinds.

A commit by a manager is correct if it is correct for at least one combination of versions of the workload, the pods
and the nodes that the manager may have known. So rules require nothing that a manager could not know, and are exact:
they have no tolerances and no time-outs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pykruise.testing.simulation.history import Commit, Reconcile
from pykruise.testing.simulation.worlds import Violation
from simulation.pods import PodHistory, Version
from simulation.versions import versions_since

__all__ = [
    "PODS",
    "REVISIONS",
    "Scene",
    "Violation",
    "Workload",
    "WorkloadRules",
    "images_of",
    "is_hooked",
    "is_image_change",
    "is_out_of_service",
    "number",
    "plain",
    "read_taints",
]

READ_AT_START = "pykruise.io/config-at-start"
"""Annotation of the content that containers read when they start."""

PODS, REVISIONS = "pods", "controllerrevisions.apps"


class Workload(Protocol):
    """One version of a workload, with the fields of all kinds. `revision` is the API server's."""

    @property
    def revision(self) -> int: ...
    @property
    def uid(self) -> str: ...
    @property
    def is_deleting(self) -> bool: ...
    @property
    def template(self) -> Any: ...
    @property
    def pre_delete(self) -> Mapping[str, str]: ...
    @property
    def in_place_hook(self) -> Mapping[str, str]: ...
    @property
    def min_ready_s(self) -> float: ...
    @property
    def status(self) -> Mapping[str, Any]: ...


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the rules of an object that acts on a workload's pods: the pods of the workload of this name. `start`,
    `skew_s` and `is_calm`: see WorkloadRules."""

    pods: PodHistory
    namespace: str
    name: str
    start: float
    skew_s: float = 0.0
    is_calm: bool = False


W = TypeVar("W", bound=Workload)


class WorkloadRules(Generic[W]):
    """Follows one workload (by name) across deletions and new creations. `skew_s`: the maximum error of managers'
    clocks. `is_calm`: there are no faults between managers and API server, so started work is completed.

    A kind defines its resources (`shelf`, `shelves`), decodes the objects, and implements `on_created`, `on_changed`
    and `settled`.
    """

    shelf: str
    shelves: frozenset[str]
    """Shelves whose commits the rules get; a workload is at rest when nothing changes on `own_shelves`."""

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._is_calm = is_calm
        self._namespace = namespace
        self._name = name
        self._start = start
        self._skew_s = skew_s
        self.pods = PodHistory()
        self.workloads: list[W] = []
        self._gone_at = 0
        self._templates: dict[str, Any] = {}
        """Templates by hash of their revision, including deleted revisions."""
        self._missing_until: dict[str, float] = {}
        """Hash of a revision that another client deleted → number of the commit that created the revision again."""
        self._image_writes: dict[tuple[str, str], int] = {}

    # ── every commit ─────────────────────────────────────────────────────────

    def read(self, document: Any, revision: int) -> W:
        """The object as stored. Fields that admission defaults are there."""
        raise NotImplementedError

    def on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[W]
    ) -> Iterator[Violation]:
        """A manager created a pod; it must be correct for one of these versions of the workload."""
        raise NotImplementedError

    def on_changed(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[W]
    ) -> Iterator[Violation]:
        """A manager wrote to a pod of the workload, or deleted it."""
        raise NotImplementedError

    def on_written(self, commit: Commit, reconcile: Reconcile, before: W, after: W) -> Iterator[Violation]:
        """A manager wrote to the workload, its status most of all."""
        yield from ()

    def settled(self, members: list[Version], workload: W, target: str, now: float) -> Iterator[Violation]:
        """Errors after a long time without faults: missing or surplus objects, missing reports. `target`: its
        revision."""
        raise NotImplementedError

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        """Handle a commit to another of the shelves, in any namespace."""
        yield from ()

    def left_behind(self, workload: W, now: float) -> Iterator[Violation]:
        """Objects of the workload that exist long after its deletion."""
        left = [pod.name for pod in self.pods.latest() if pod.owner == workload.uid]
        if left:
            yield Violation("gone", f"the workload is gone, but {left} are there", now)

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.shelf in (self.shelf, REVISIONS, PODS):
            if commit.key.namespace != self._namespace:
                return
            if commit.shelf == self.shelf:
                yield from self._on_set(commit)
            elif commit.shelf == REVISIONS:
                yield from self._on_revision(commit)
            else:
                yield from self._on_pod(commit)
        else:
            yield from self.on_other(commit)

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        if not self.workloads:
            return
        workload = self.workloads[-1]
        if self._gone_at > workload.revision:
            yield from self.left_behind(workload, now)
            return
        target = self._hash_of(workload)
        if not target:
            yield Violation("converges", "the template has no revision", now)
            return
        yield from self.settled(list(self._members(workload)), workload, target, now)

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        before, after = self.pods.take(commit)
        reconcile = commit.reconcile
        if reconcile is None or not self.workloads:
            return
        for ws in self._concerned(commit, after, before):
            if isinstance(ws, Violation):
                yield ws
            elif before is None:
                yield from self._is_built_right(commit, after)
                yield from self.on_created(commit, reconcile, after, ws)
            elif before.owner == after.owner and self._is_member(before, ws[-1]):
                yield from self._on_images(commit, before, after, ws)
                yield from self._on_prepared(commit, reconcile, before, after, ws)
                yield from self.on_changed(commit, reconcile, before, after, ws)

    def _on_set(self, commit: Commit) -> Iterator[Violation]:
        if commit.key.name != self._name:
            return
        if commit.new is None:
            self._gone_at = commit.revision
            return
        after = self.read(commit.new, commit.revision)
        if commit.reconcile is not None and self.workloads and self.workloads[-1].uid == after.uid:
            yield from self.on_written(commit, commit.reconcile, self.workloads[-1], after)
        self.workloads.append(after)

    def _on_revision(self, commit: Commit) -> Iterator[Violation]:
        hash_ = commit.key.name.rpartition("-")[2]
        if commit.new is not None:
            self._templates[hash_] = plain(commit.new["data"]["spec"]["template"])
            if commit.old is None and hash_ in self._missing_until:
                self._missing_until[hash_] = commit.revision
        elif commit.reconcile is None:
            self._missing_until[hash_] = math.inf
        elif self.workloads:
            used = [pod.name for pod in self._members(self.workloads[-1]) if pod.hash == hash_]
            known = commit.reconcile.known.get(PODS, 0)
            sure = [name for name in used if self._is_sure(name, hash_, known)]
            if sure:
                yield self._broken(commit, "history", f"revision {hash_} is deleted, but {sure} are of it")

    def _is_sure(self, name: str, hash_: str, known: int) -> bool:
        for pod in self.pods.latest():
            if pod.name == name:
                return all(
                    version.hash == hash_ and version.is_active for version in self.pods.since(pod.uid, known)
                )
        return False

    def _concerned(
        self, commit: Commit, after: Version, before: Version | None
    ) -> Iterator[Violation | list[W]]:
        """The versions of the workload for which a manager's write to a pod must be correct, if there are any."""
        assert commit.reconcile is not None
        workloads = self._workloads_since(commit.reconcile.known.get(self.shelf, 0))
        if not workloads or after.owner not in {workload.uid for workload in workloads}:
            if before is None:
                yield self._broken(commit, "owner", f"pod {after.name} is created for no workload there is")
        elif all(workload.is_deleting for workload in workloads):
            yield self._broken(commit, "terminating", f"pod {after.name} is written to, its owner terminates")
        else:
            yield workloads

    # ── rules of containers ──────────────────────────────────────────────────

    def _is_built_right(self, commit: Commit, pod: Version) -> Iterator[Violation]:
        """A new pod matches its revision."""
        if pod.hash in self._templates:
            expected = images_of(self._templates[pod.hash])
            if dict(pod.images) != expected:
                yield self._broken(
                    commit, "template", f"{pod.name} has {dict(pod.images)}, revision {expected}"
                )

    def _on_completed(self, commit: Commit, before: Version, after: Version) -> Iterator[Violation]:
        """An in-place update ends when the node runs the containers of the pod's spec, and not before."""
        if before.state != "Updating" or after.state not in ("Normal", "Updated"):
            return
        late = [
            name for name, image in after.images.items() if not after.running.get(name, image).endswith(image)
        ]
        if late:
            yield self._broken(
                commit, "template", f"{after.name} counts as updated, but {late} run something else"
            )

    def _on_images(
        self, commit: Commit, before: Version, after: Version, workloads: list[W]
    ) -> Iterator[Violation]:
        """No container is restarted twice for one revision, while its hook holds the pod, or to another image."""
        assert commit.reconcile is not None
        if after.hash != before.hash:
            self._image_writes = {
                key: count for key, count in self._image_writes.items() if key[0] != after.uid
            }
        changed = [name for name, image in after.images.items() if before.images.get(name) != image]
        for name in changed:
            key = (after.uid, name)
            self._image_writes[key] = self._image_writes.get(key, 0) + 1
            if self._image_writes[key] > 1:
                what = f"container {name} of {after.name} is restarted twice for {after.hash}"
                yield self._broken(commit, "restarts", what)
        versions = self.pods.since(before.uid, commit.reconcile.known.get(PODS, 0))
        if (
            changed
            and before.state != "Updating"
            and all(
                is_hooked(version, workload.in_place_hook)
                for version in versions[:-1]
                for workload in workloads
            )
            and versions[:-1]
        ):
            what = f"{after.name} is updated although its inPlaceUpdate hook is on it"
            yield self._broken(commit, "hook", what)
        if changed and after.hash in self._templates:
            expected = images_of(self._templates[after.hash])
            wrong = [name for name in changed if after.images[name] != expected.get(name)]
            if wrong:
                what = f"{after.name}: {wrong} are not of revision {after.hash}"
                yield self._broken(commit, "template", what)

    def _is_rollout_over(
        self, commit: Commit, reconcile: Reconcile, workload: W, *, was: str, current: str
    ) -> Iterator[Violation]:
        """The update revision becomes the current one only when no pod certainly has another."""
        if was in ("", current) or self._may_be_missing(reconcile, was):
            return
        old = [
            versions[0].name
            for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
            if self._is_known(reconcile, versions[0].uid)
            and all(self._is_member(version, workload) and version.hash != current for version in versions)
        ]
        if old:
            yield self._broken(commit, "current", f"{current} becomes current, and {old} are not of it")

    # ── rules of hooks ───────────────────────────────────────────────────────

    def most_prepared(self, reconcile: Reconcile, workload: W) -> int:
        """The number of pods that may wait for the inPlaceUpdate hook at the same time. Kinds without it: none."""
        return 0

    def _on_prepared(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workloads: list[W]
    ) -> Iterator[Violation]:
        """A pod that serves is not prepared for its update while as many others prepare as may be out of service."""
        if not after.is_active or not before.state != "PreparingUpdate" == after.state:
            return

        def problem(workload: W) -> str:
            least_s = workload.min_ready_s
            if not before.is_available(min_ready_s=least_s, at=reconcile.at - self._skew_s):
                return ""
            others = [
                versions[-1].name
                for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile)
                if versions[0].uid != before.uid
                and all(
                    self._is_member(version, workload) and version.state == "PreparingUpdate"
                    for version in versions
                )
            ]
            most = self.most_prepared(reconcile, workload)
            return f"{others} prepare already, {most} may" if len(others) >= most else ""

        problems = [problem(workload) for workload in workloads]
        if all(problems):
            yield self._broken(commit, "prepared", f"{before.name} prepares for its update: {problems[-1]}")

    # ── rules of deletion ────────────────────────────────────────────────────

    def _is_hook_heeded(
        self, commit: Commit, pod: Version, versions: list[Version], workloads: list[W]
    ) -> Iterator[Violation]:
        """No pod is deleted while its preDelete hook surely is on it."""
        if all(is_hooked(version, workload.pre_delete) for version in versions for workload in workloads):
            yield self._broken(commit, "hook", f"{pod.name} is deleted although its preDelete hook is on it")

    def _is_taken_out(
        self, commit: Commit, reconcile: Reconcile, before: Version, after: Version, workload: W
    ) -> bool:
        """Whether a commit takes a pod out of service that served when it was decided, independent of clocks."""
        surely = before.is_available(min_ready_s=workload.min_ready_s, at=reconcile.at - self._skew_s)
        return surely and not after.is_available(
            min_ready_s=workload.min_ready_s, at=commit.at + self._skew_s
        )

    def _maybe_available(self, version: Version, workloads: list[W], *, until: float) -> bool:
        """Whether a manager may consider this version of a pod available at this time."""
        at = until + self._skew_s + 1e-6
        return any(version.is_available(min_ready_s=workload.min_ready_s, at=at) for workload in workloads)

    # ── rules at rest ────────────────────────────────────────────────────────

    def _all_available(self, members: list[Version], workload: W, now: float) -> Iterator[Violation]:
        down = [
            f"{pod.name} ({pod.state}, ready={pod.is_ready})"
            for pod in members
            if not pod.is_available(min_ready_s=workload.min_ready_s, at=self._start + now)
        ]
        if down:
            yield Violation("converges", f"not available: {down}", now)

    def _all_run_their_revisions(self, members: list[Version], now: float) -> Iterator[Violation]:
        for pod in members:
            expected = images_of(self._templates.get(pod.hash))
            if expected and dict(pod.images) != expected:
                what = f"{pod.name} runs {dict(pod.images)}, revision has {expected}"
                yield Violation("template", what, now)

    def _counts_are_true(self, workload: W, wanted: Mapping[str, int], now: float) -> Iterator[Violation]:
        """The status has these numbers; a missing number is 0."""
        said = {name: workload.status.get(name, 0) for name in wanted}
        wrong = {name: (said[name], want) for name, want in wanted.items() if said[name] != want}
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)

    def _is_impossible(self, old: Iterable[Version], workload: W, condition: str) -> bool:
        """Some of these pods cannot be updated in place, and the status reports it in this condition."""
        said = {
            condition["type"]: condition["status"] for condition in workload.status.get("conditions") or ()
        }
        target = self._templates.get(self._hash_of(workload))
        impossible = [pod for pod in old if not is_image_change(self._templates.get(pod.hash), target)]
        return bool(impossible) and said.get(condition) == "True"

    def _says_failed(self, workload: W) -> list[str]:
        """Conditions of the status that report a failure."""
        return [
            f"{condition['type']}: {condition.get('message')}"
            for condition in workload.status.get("conditions") or ()
            if condition["type"].startswith("Failed") and condition["status"] == "True"
        ]

    # ── what is known ────────────────────────────────────────────────────────

    def _is_known(self, reconcile: Reconcile, uid: str) -> bool:
        """Whether the manager must know that such a pod exists."""
        first = self.pods.created_at(uid)
        return first.revision <= reconcile.known.get(PODS, 0) or first.is_own(reconcile)

    def _may_be_missing(self, reconcile: Reconcile, hash_: str) -> bool:
        """Whether a revision did not exist in a state that the manager may assume to be the current one.

        Garbage collection removes revisions of a deleted workload, and a manager may be notified of that first. If
        the current revision is missing, the specification requires pods of the update revision.
        """
        return self._missing_until.get(hash_, 0) > reconcile.known.get(REVISIONS, 0)

    def _workloads_since(self, known: int) -> list[W]:
        """Versions that a manager with this knowledge may assume to be the current one."""
        if self._gone_at > self.workloads[-1].revision and self._gone_at <= known:
            return []
        return versions_since(self.workloads, known)

    def _is_member(self, pod: Version, workload: W) -> bool:
        return pod.is_active and pod.owner == workload.uid and pod.labels.get("app") == self._name

    def _members(self, workload: W) -> Iterator[Version]:
        return (pod for pod in self.pods.latest() if self._is_member(pod, workload))

    def _hash_of(self, workload: W) -> str:
        """Hash of the newest revision with the workload's template; empty: there is none yet."""
        return next(
            (name for name, template in reversed(self._templates.items()) if template == workload.template),
            "",
        )

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)

    # ── hooks ────────────────────────────────────────────────────────────────

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """Labels that the owner of the lifecycle hooks sets on a pod in this state; None removes one."""
        if not self.workloads:
            return {}
        workload = self.workloads[-1]
        match state:
            case "PreparingDelete":
                return dict.fromkeys(workload.pre_delete)
            case "PreparingUpdate":
                return dict.fromkeys(workload.in_place_hook)
            case "Updated":
                return dict(workload.in_place_hook)
            case _:
                return {}


def number(value: Any, of: int, *, up: bool) -> int:
    """An int-or-percent, for pods or nodes."""
    if isinstance(value, str):
        hundredths = round(float(value.rstrip("%")) * of * 1000)  # exact enough: percentages have few digits
        whole, rest = divmod(hundredths, 100_000)
        return whole + (1 if up and rest else 0)
    return int(value)


_OUT_OF_SERVICE = frozenset(
    f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable")
)


def read_taints(node: Any) -> list[Any]:
    """The taints of a Node."""
    return (node.get("spec") or {}).get("taints") or []


def is_out_of_service(taints: list[Any]) -> bool:
    """Whether taints say that the node is cordoned, or does not answer."""
    return any(taint["key"] in _OUT_OF_SERVICE for taint in taints)


def plain(template: Any) -> Any:
    """A template without the fields that revisions add for their history."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value is not None}
    spec = {name: value for name, value in template["spec"].items() if value not in ({}, [], None)}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [
                {name: value for name, value in item.items() if name != "resources" or value}
                for item in spec[field]
            ]
    return {"metadata": metadata, "spec": spec}


def images_of(template: Any) -> dict[str, str]:
    """Images by container of a pod template."""
    return {
        container["name"]: container["image"]
        for container in (template or {}).get("spec", {}).get("containers") or ()
    }


def is_hooked(pod: Version, labels: Mapping[str, str]) -> bool:
    """Whether a hook's label is on the pod."""
    return any(pod.labels.get(key) == value for key, value in labels.items())


def is_image_change(old: Any, new: Any) -> bool:
    """Whether two templates differ in nothing but images and metadata, and no container must start again."""
    if old is None or new is None:
        return False
    before, after = ((item["metadata"].get("annotations") or {}).get(READ_AT_START) for item in (old, new))
    if after is not None and after != before:
        return False

    def bare(template: Any) -> Any:
        spec = {**template["spec"]}
        spec["containers"] = [
            {k: v for k, v in container.items() if k != "image"} for container in spec["containers"]
        ]
        return spec

    return bool(bare(old) == bare(new))
