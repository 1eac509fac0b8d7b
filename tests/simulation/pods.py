"""Pods as rules see them: every version of every pod, read from what the API server stored.

Commit ──▶ PodHistory.take() ──▶ Version ──▶ rules read the state at a revision, and all states since

It does not use the product's view of a pod, so a bug of that view cannot hide here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.versions import find_first_since, versions_since

__all__ = ["PodHistory", "Version", "is_injected", "read_pod"]

REVISION = "controller-revision-hash"
STATE = "lifecycle.apps.kruise.io/state"
MARKED = "apps.kruise.io/specified-delete"
INSTANCE = "apps.kruise.io/cloneset-instance-id"


class Version(msgspec.Struct, frozen=True):
    """One pod as it was from `revision` on, written by `sender`. `gone`: it is deleted."""

    revision: int
    at: float
    sender: str
    uid: str
    name: str
    owner: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_active: bool
    has_ready_condition: bool
    """Whether the node has reported the condition, in its last report."""
    is_ready: bool
    """Whether the node reports it as ready, and its readiness gate for in-place updates is open."""
    ready_since: float
    images: Mapping[str, str]
    """Container of the template → image."""
    sidecars: Mapping[str, str]
    """Injected container → image."""
    running: Mapping[str, str]
    """Images that the node reports, by container."""
    node: str
    target: str
    """The node on which it runs or for which it was created; empty: any."""
    preferred: str = ""
    """The node that its affinity prefers; empty: none."""
    phase: str = ""
    restarts: int = 0
    """Restarts of all its containers."""
    is_deleting: bool = False
    gone: bool = False
    reconcile: int = 0
    """Number of the reconcile that wrote it and got the response; 0: none, or it had ended."""

    @property
    def hash(self) -> str:
        """Short hash of its revision."""
        return self.labels.get(REVISION, "").rpartition("-")[2]

    @property
    def state(self) -> str:
        """Lifecycle state."""
        return self.labels.get(STATE, "")

    @property
    def is_marked(self) -> bool:
        """Specified for deletion by its label."""
        return MARKED in self.labels

    def is_own(self, reconcile: Reconcile) -> bool:
        """Whether the manager wrote this version itself: in this reconcile, or earlier and with a known result."""
        if self.sender != reconcile.manager or not 0 < self.reconcile <= reconcile.number:
            return False
        # This reconcile does not know the result of a request that another reconcile has just sent.
        return self.reconcile == reconcile.number or self.at <= reconcile.at

    def is_available(self, *, min_ready_s: float, at: float) -> bool:
        """Active, ready for long enough, and in service."""
        return (
            self.is_active
            and self.is_ready
            and self.state in ("", "Normal")
            and (min_ready_s <= 0 or self.ready_since + min_ready_s <= at)
        )


def read_pod(commit: Commit) -> Version:
    """The pod after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, spec, status = doc["metadata"], doc["spec"], doc.get("status") or {}
    owner = next(
        (reference["uid"] for reference in meta.get("ownerReferences") or () if reference.get("controller")),
        "",
    )
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    gates = {gate["conditionType"] for gate in spec.get("readinessGates") or ()}
    gate = "InPlaceUpdateReady"
    held = gate in gates and conditions.get(gate, {}).get("status", "True") != "True"
    phase = status.get("phase") or "Pending"
    has_ready_condition = phase == "Running" and ready.get("status") == "True"
    gone = commit.new is None
    writer = commit.reconcile
    containers = spec.get("containers") or ()
    return Version(
        revision=commit.revision,
        at=commit.at,
        sender=commit.sender,
        uid=meta["uid"],
        name=meta["name"],
        owner=owner,
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        is_active=not gone and not meta.get("deletionTimestamp") and phase not in ("Succeeded", "Failed"),
        has_ready_condition=has_ready_condition,
        is_ready=has_ready_condition and not held,
        ready_since=parse_time(ready["lastTransitionTime"]) if ready.get("lastTransitionTime") else 0.0,
        images={
            container["name"]: container["image"] for container in containers if not is_injected(container)
        },
        sidecars={
            container["name"]: container["image"] for container in containers if is_injected(container)
        },
        running={item["name"]: item.get("image", "") for item in status.get("containerStatuses") or ()},
        node=spec.get("nodeName") or "",
        target=spec.get("nodeName") or _made_for(spec),
        preferred=_prefers(spec),
        phase=phase,
        restarts=sum(
            item.get("restartCount", 0)
            for name in ("containerStatuses", "initContainerStatuses")
            for item in status.get(name) or ()
        ),
        is_deleting=bool(meta.get("deletionTimestamp")),
        gone=gone,
        reconcile=writer.number if writer is not None and not writer.is_over else 0,
    )


def is_injected(container: Any) -> bool:
    """Whether a SidecarSet has injected the container."""
    return any(
        variable["name"] == "IS_INJECTED" and variable.get("value") == "true"
        for variable in container.get("env") or ()
    )


def _made_for(spec: Any) -> str:
    """The node that a required affinity names, as pods of daemons have it."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return _node_of(required.get("nodeSelectorTerms") or ())


def _prefers(spec: Any) -> str:
    """The node that a preferred affinity names."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return _node_of([term["preference"] for term in preferred])


def _node_of(terms: Sequence[Any]) -> str:
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    return next((str(field["values"][0]) for field in fields if field["key"] == "metadata.name"), "")


class PodHistory:
    """All versions of all pods of one namespace."""

    def __init__(self) -> None:
        self._versions: dict[str, list[Version]] = {}

    def take(self, commit: Commit) -> tuple[Version | None, Version]:
        """The previous version, and the new one."""
        version = read_pod(commit)
        versions = self._versions.setdefault(version.uid, [])
        before = versions[-1] if versions else None
        versions.append(version)
        return before, version

    def latest(self) -> Iterator[Version]:
        """Every pod that is still there, as it is now."""
        return (versions[-1] for versions in self._versions.values() if not versions[-1].gone)

    def all_since(self, known: int, reconcile: Reconcile | None) -> Iterator[list[Version]]:
        """Versions that a manager may assume to be current, of each pod that it may assume to exist.

        These are the version at revision `known` and all later ones. After its own write a manager knows that older
        versions are gone; but its later writes are not part of the knowledge of this reconcile, whose write may take
        effect late. None: every version that any manager may have assumed before it wrote.
        """
        for versions in self._versions.values():
            if versions[-1].gone and versions[-1].revision <= known:
                continue
            first = find_first_since(versions, known)
            for number in range(len(versions) - 1, first, -1):
                if reconcile is not None and versions[number].is_own(reconcile):
                    first = number
                    break
            yield versions[first:]

    def since(self, uid: str, known: int) -> list[Version]:
        """The versions of one pod since revision `known`, including the one at `known`."""
        return versions_since(self._versions[uid], known)

    def created_at(self, uid: str) -> Version:
        """Its first version."""
        return self._versions[uid][0]
