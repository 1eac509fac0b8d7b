"""The nodes of a DaemonSet with their pods, looked at once for all decisions of a plan.

Snapshot + revisions ──▶ working_set() ──▶ WorkingSet ──▶ manage.py, update.py, refresh.py, status.py

Pure. Counting is in nodes: what a DaemonSet has too few or too many of is decided node by node.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pykruise.kinds.daemonset.numbers import Limits, limits_of
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.revisions import Revisions
from pykruise.kinds.daemonset.snapshot import Settings, Snapshot
from pykruise.kinds.daemonset.types import DaemonSetSpec
from pykruise.kube.clock import Instant
from pykruise.pods import keys
from pykruise.pods.availability import is_ready_long_enough
from pykruise.pods.lifecycle import LifecycleHook, LifecycleState
from pykruise.pods.views import PodView

__all__ = ["OldAndNew", "WorkingSet", "is_leaving", "working_set"]

TEMPLATE_GENERATION_LABEL = "pod-template-generation"

FIRST_STEPS_S = 60.0
"""A pod that has not been ready since so long after its creation is taken for one that has never been ready:
its Ready condition is False from when the kubelet first saw it."""


def is_leaving(pod: PodView) -> bool:
    """Whether the pod waits in PreparingDelete."""
    return pod.state == LifecycleState.PREPARING_DELETE


class OldAndNew:
    """The pods of one node that do not terminate: at most one of the update revision and one of another."""

    __slots__ = ("is_clear", "new", "old")

    def __init__(self, ws: "WorkingSet", pods: Iterable[PodView]) -> None:
        self.new: PodView | None = None
        self.old: PodView | None = None
        self.is_clear = True
        """False: there are more than one of a sort."""
        for pod in pods:
            if pod.is_deleting:
                continue
            if ws.is_updated(pod):
                self.is_clear &= self.new is None
                self.new = pod
            else:
                self.is_clear &= self.old is None
                self.old = pod


class WorkingSet:
    """One look at everything a plan decides about. Never changed once it is made."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        spec: DaemonSetSpec,
        revisions: Revisions,
        pods: Sequence[PodView],
    ) -> None:
        self.snapshot = snapshot
        self.spec = spec
        self.revisions = revisions
        self.pods = pods
        """Claimed: controlled by it or about to be, matching the selector; terminating ones too."""
        self.by_node, self.strays = _by_node(snapshot, pods)
        """`by_node`: the pods of every node there is that has or should have one, the one that counts first.
        `strays`: unscheduled pods whose node is gone."""
        self._hashes = revisions.hashes
        self._generation = snapshot.daemonset.template_generation
        self._min_ready_s = spec.min_ready_seconds

    @property
    def now(self) -> Instant:
        """The instant of the decision."""
        return self.snapshot.now

    @property
    def settings(self) -> Settings:
        """Gates and flags."""
        return self.snapshot.settings

    @property
    def pre_delete(self) -> LifecycleHook | None:
        """What may hold a pod before it is deleted."""
        return self.spec.lifecycle.pre_delete if self.spec.lifecycle else None

    @cached_property
    def limits(self) -> Limits:
        """What the spec allows."""
        block = self.spec.rolling_update
        wants_nodes = block is not None and block.selector is not None
        return limits_of(
            self.spec,
            desired=len(self.running_nodes),
            has_bad_selector=wants_nodes and self.snapshot.daemonset.node_selector is None,
        )

    @cached_property
    def running_nodes(self) -> Sequence[str]:
        """Nodes that run a pod, by name."""
        return [name for name, fit in self.snapshot.fits.items() if fit.place is Place.RUN]

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that say what a pod was made for."""
        found: dict[str, str] = {keys.REVISION_LABEL: self.revisions.label}
        if self._generation:
            found[TEMPLATE_GENERATION_LABEL] = self._generation
        return found

    def place(self, node: str) -> Place:
        """What the node is to the DaemonSet."""
        return self.snapshot.fits[node].place

    def is_updated(self, pod: PodView) -> bool:
        """Whether the pod is of the update revision, by its hash or by the generation of old."""
        if pod.revision in self._hashes:
            return True
        return bool(self._generation) and pod.labels.get(TEMPLATE_GENERATION_LABEL) == self._generation

    def is_available(self, pod: PodView) -> bool:
        """Ready for minReadySeconds. The lifecycle state does not count: daemons have none but one."""
        return pod.is_ready and is_ready_long_enough(pod, min_ready_seconds=self._min_ready_s, now=self.now)

    def is_coming(self, pod: PodView) -> bool:
        """Of a pod that is not available: whether that is the set's own doing, because the pod was only just
        made or changed. False: it served, and then failed by itself."""
        held = pod.condition(keys.IN_PLACE_READY)
        if pod.is_ready or (held is not None and held.status != "True"):
            return True
        if pod.ready_since is None or pod.created_at is None:
            return True
        return not pod.has_ready_condition and pod.ready_since <= pod.created_at + FIRST_STEPS_S

    def available_at(self, pod: PodView) -> Instant | None:
        """When a ready pod that is not available yet will be, by time alone; None: not by time."""
        if not pod.is_ready or pod.ready_since is None or self._min_ready_s <= 0:
            return None
        due = pod.ready_since + self._min_ready_s
        return due if due > self.now else None


def working_set(
    snapshot: Snapshot, *, spec: DaemonSetSpec, revisions: Revisions, pods: Sequence[PodView]
) -> WorkingSet:
    """`pods` are the claimed ones."""
    return WorkingSet(snapshot, spec=spec, revisions=revisions, pods=pods)


def _by_node(
    snapshot: Snapshot, pods: Iterable[PodView]
) -> tuple[Mapping[str, Sequence[PodView]], list[PodView]]:
    found: dict[str, list[PodView]] = {
        name: [] for name, fit in snapshot.fits.items() if fit.place is Place.RUN
    }
    strays: list[PodView] = []
    for pod in pods:
        node = pod.target_node
        if node in found:
            found[node].append(pod)
        elif node in snapshot.nodes:
            found[node] = [pod]
        elif node and not pod.node_name:
            strays.append(pod)
    for here in found.values():
        if len(here) > 1:
            here.sort(key=_order)
    return found, sorted(strays, key=lambda pod: pod.name)


def _order(pod: PodView) -> tuple[Any, ...]:
    """Which pod of a node counts first: one that is scheduled, then the older, then by name."""
    return (not pod.node_name, pod.created_at or float("inf"), pod.name)
