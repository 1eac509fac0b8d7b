"""Rules of a workload whose pods are a group of the scheduler (pykruise.io/gang-min-count).

commits of PodGroups and pods ──▶ CloneSetGroupRules, StatefulSetGroupRules
                                  ──▶ a new pod has a group that exists; at rest the pods are one group
                              ──▶ JobGroupRules
                                  ──▶ no pod has a node before minCount pods exist; later pods have no group
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.cloneset_rules import CloneSetRules
from simulation.job_rules import JobRules
from simulation.pods import Version
from simulation.rules import PODS, Violation, WorkloadRules
from simulation.statefulset_rules import StatefulSetRules, Workload

__all__ = ["CloneSetGroupRules", "JobGroupRules", "StatefulSetGroupRules"]

GROUPS, WORKLOADS = "podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"


W = TypeVar("W", bound=Any)


class GroupRules(WorkloadRules[W]):
    """Rules of one workload whose pods start together and are updated together, beside the rules of its kind."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._groups: dict[str, Any] = {}
        self._least: dict[str, int] = {}
        """minCount of each Workload."""
        self._group_of: dict[str, str] = {}
        """Group of each pod, by uid."""
        self._owners: dict[str, Any] = {}
        """Workloads by name."""
        self._collected: set[str] = set()
        """PodGroups that the garbage collector deleted after their owner; no manager deleted them."""

    def on_other(self, commit: Commit) -> Iterator[Violation]:
        name = commit.key.name
        if commit.shelf == GROUPS:
            if commit.new is not None:
                self._groups[name] = commit.new
            else:
                self._groups.pop(name, None)
                if commit.reconcile is None:
                    self._collected.add(name)
                yield from self._is_unused(commit, name)
        elif commit.shelf == WORKLOADS:
            if commit.new is not None:
                (template,) = commit.new["spec"]["podGroupTemplates"]
                self._least[name] = template["schedulingPolicy"]["gang"]["minCount"]
                self._owners[name] = commit.new
            else:
                self._least.pop(name, None)
        else:
            yield from super().on_other(commit)

    def _list_least(self, uid: str) -> set[int]:
        """minCount of the Workloads of this owner."""
        return {least for name, least in self._least.items() if _is_owned(self._owners[name], uid)}

    def _is_unused(self, commit: Commit, name: str) -> Iterator[Violation]:
        """A manager does not delete a PodGroup while it knows a pod of the owner in it. A pod that has left the owner
        does not count: Kubernetes deletes a PodGroup only after its last pod.
        """
        if commit.reconcile is None:
            return
        used = [
            pod.name
            for pod in self.pods.latest()
            if self._group_of.get(pod.uid) == name
            and _is_owned(commit.old, pod.owner)
            and self._is_known(commit.reconcile, pod.uid)
        ]
        if used:
            yield self._broken(commit, "group", f"group {name} is deleted, but {used} are in it")

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        if commit.shelf == "pods" and commit.new is not None:
            group = commit.new["spec"].get("schedulingGroup") or {}
            self._group_of[commit.new["metadata"]["uid"]] = group.get("podGroupName", "")
        yield from super().on_commit(commit)

    def on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, workloads: list[W]
    ) -> Iterator[Violation]:
        yield from super().on_created(commit, reconcile, pod, workloads)
        group = self._group_of[pod.uid]
        if group not in self._groups and group not in self._collected:
            yield self._broken(
                commit, "group", f"{pod.name} is created in the group {group!r}, which does not exist"
            )
            return
        terminating = [
            other.name
            for other in self.pods.latest()
            if other.uid != pod.uid
            and self._group_of.get(other.uid) == group
            and self._is_known(reconcile, other.uid)
            and not other.is_active
        ]
        active = [
            other.name
            for other in self.pods.latest()
            if other.uid != pod.uid and self._group_of.get(other.uid) == group and other.is_active
        ]
        if terminating and not active and len(reconcile.known) and self._is_calm:
            yield self._broken(commit, "group", f"{pod.name} joins {terminating}, which terminate")

    def settled(self, members: list[Version], workload: W, target: str, now: float) -> Iterator[Violation]:
        yield from super().settled(members, workload, target, now)
        used = {self._group_of[pod.uid] for pod in members}
        own = {name: doc for name, doc in self._groups.items() if _is_owned(doc, workload.uid)}
        if len(used) > 1:
            yield Violation("together", f"the pods are in several groups: {sorted(used)}", now)
        if set(own) != used:
            yield Violation("group", f"groups {sorted(own)} exist, pods are in {sorted(used)}", now)
        least = {group["spec"]["schedulingPolicy"]["gang"]["minCount"] for group in own.values()}
        if members and (least | self._list_least(workload.uid)) != {len(members)}:
            yield Violation("group", f"minCount is {least}, {len(members)} pods are wanted", now)


class CloneSetGroupRules(GroupRules[Any], CloneSetRules):
    """Rules of a CloneSet whose pods are a group."""

    shelves = CloneSetRules.shelves | {GROUPS, WORKLOADS}


class StatefulSetGroupRules(GroupRules[Any], StatefulSetRules):
    """Rules of a StatefulSet whose pods are a group."""

    shelves = StatefulSetRules.shelves | {GROUPS, WORKLOADS}

    def _why_not_of_its_revision(
        self, reconcile: Reconcile, pod: Version, workload: Workload, workloads: list[Workload]
    ) -> str:
        """While the update of the group waits, its lost pods come back in the current revision."""
        waits = workload.paused or workload.policy == "InPlaceOnly"
        if waits and pod.hash == workload.current:
            return ""
        return super()._why_not_of_its_revision(reconcile, pod, workload, workloads)


class JobGroupRules(JobRules):
    """Rules of a BroadcastJob whose pods start as a group."""

    shelves = JobRules.shelves | {GROUPS}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._least: dict[str, int] = {}
        """minCount of each PodGroup."""
        self._grouped: dict[str, Any] = {}
        """Pods of the job that are in a group, by name."""
        self._bound: dict[str, dict[str, int]] = {}
        """Owner → its pods that exist and have a node → revision at which they got it."""
        self._started: set[str] = set()
        """Owners whose new pods need no group: a pod has had a node, or another manager made a pod without a group."""

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        if commit.shelf == GROUPS:
            if commit.new is not None:
                self._least[commit.key.name] = commit.new["spec"]["schedulingPolicy"]["gang"]["minCount"]
            return
        yield from super().on_commit(commit)
        if commit.shelf == PODS and commit.key.namespace == self._namespace:
            yield from self._on_member(commit)

    def _on_member(self, commit: Commit) -> Iterator[Violation]:
        document, before = commit.new, commit.old
        if document is None:
            self._grouped.pop(commit.key.name, None)
            for bound in self._bound.values():
                bound.pop(commit.key.name, None)
            return
        group = (document["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
        owner = next((item["uid"] for item in document["metadata"].get("ownerReferences") or ()), "")
        if before is None and commit.reconcile is not None:
            yield from self._on_new_member(commit, group, owner)
        if not group and commit.reconcile is None:
            self._started.add(owner)
        if group:
            self._grouped[commit.key.name] = document
        if document["spec"].get("nodeName") and not (before or {"spec": {}})["spec"].get("nodeName"):
            if group:
                yield from self._on_bound(commit, group)
            self._started.add(owner)
            self._bound.setdefault(owner, {})[commit.key.name] = commit.revision

    def _on_new_member(self, commit: Commit, group: str, owner: str) -> Iterator[Violation]:
        assert commit.reconcile is not None
        known = commit.reconcile.known.get(PODS, 0)
        if not group and owner not in self._started:
            yield self._broken(commit, "group", f"{commit.key.name} has no group, and no pod has a node")
        if group and group not in self._least:
            yield self._broken(commit, "group", f"the group {group} of {commit.key.name} does not exist")
        if group and any(revision <= known for revision in self._bound.get(owner, {}).values()):
            yield self._broken(commit, "group", f"{commit.key.name} joins {group}, which has started")

    def _on_bound(self, commit: Commit, group: str) -> Iterator[Violation]:
        members = [
            document
            for document in self._grouped.values()
            if document["spec"]["schedulingGroup"]["podGroupName"] == group
            and document.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        if len(members) < self._least.get(group, 0):
            what = f"{commit.key.name} gets a node, and {len(members)} of {self._least[group]} pods exist"
            yield self._broken(commit, "gang", what)


def _is_owned(document: Any, uid: str) -> bool:
    return any(reference["uid"] == uid for reference in document["metadata"].get("ownerReferences") or ())
