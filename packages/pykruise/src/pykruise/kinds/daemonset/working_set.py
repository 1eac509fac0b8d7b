"""The nodes of a DaemonSet with their pods. They are classified once, for all decisions of a plan.

DaemonSetSnapshot + revisions ──▶ DaemonSetWorkingSet ──▶ manage.py, update.py, refresh.py, status.py

Pure. The counts are numbers of nodes, because the plan decides node by node. Quiet nodes (`NodeState.quiet`) with the
update revision are only counted. Quiet nodes with another revision only wait for their update. All other nodes are
called open, and the phases examine each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from pykruise.kinds.daemonset.limits import DaemonSetLimits, limits_of
from pykruise.kinds.daemonset.node_cache import NodeOverview
from pykruise.kinds.daemonset.node_state import (
    TEMPLATE_GENERATION_LABEL,
    MadeFor,
    NodeState,
    find_available_time,
    is_available,
    is_leaving,
    read_made_for,
)
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.revisions import Revisions
from pykruise.kinds.daemonset.snapshot import DaemonSetSettings, DaemonSetSnapshot
from pykruise.kinds.daemonset.types import DaemonSetSpec
from pykruise.kube.clock import Instant
from pykruise.plans.failed_resizes import find_given_up
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import STRICT_MAX_UNAVAILABLE

FIRST_STEPS_S = 60.0
"""If a pod's Ready condition is False, and last changed within this number of seconds after the pod's creation, the pod
was never ready: the kubelet sets the condition to False when it first sees the pod.
"""


class OldAndNew:
    """The new and the old pod of one node: a pod with the update revision, and a pod with another revision. Terminating
    pods are ignored.
    """

    __slots__ = ("is_clear", "new", "old", "state")

    def __init__(self, ws: "DaemonSetWorkingSet", state: NodeState) -> None:
        self.state = state
        self.new: PodView | None = None
        self.old: PodView | None = None
        self.is_clear = True
        """False if the node has several new pods or several old pods."""
        for pod in state.pods:
            if pod.is_deleting:
                continue
            if ws.is_updated(pod):
                self.is_clear &= self.new is None
                self.new = pod
            else:
                self.is_clear &= self.old is None
                self.old = pod

    @property
    def staying(self) -> PodView | None:
        """The old pod, unless it waits in PreparingDelete."""
        return None if self.old is None or is_leaving(self.old) else self.old


class DaemonSetWorkingSet:
    """The values that all phases of one plan use. They never change."""

    def __init__(
        self,
        snapshot: DaemonSetSnapshot,
        *,
        spec: DaemonSetSpec,
        revisions: Revisions,
        overview: NodeOverview,
    ) -> None:
        self.snapshot = snapshot
        self.spec = spec
        self.revisions = revisions
        self.overview = overview
        self._hashes = revisions.hashes
        self._generation = snapshot.daemonset.template_generation
        self._min_ready_s = spec.min_ready_seconds
        self._old = frozenset(made for made in overview.quiet if not self._is_current(made))
        self.settled = sum(count for made, count in overview.quiet.items() if made not in self._old)
        """Number of quiet nodes with the update revision."""
        self.outdated: Sequence[NodeState] = (
            [state for state in overview.states.values() if state.quiet in self._old] if self._old else ()
        )
        """Quiet nodes with other revisions."""
        self.open = overview.open
        """All other nodes that should run a pod, or to which pods are assigned; also deleted nodes."""

    @property
    def now(self) -> Instant:
        """The instant of the snapshot."""
        return self.snapshot.now

    @property
    def settings(self) -> DaemonSetSettings:
        """Feature gates and flags."""
        return self.snapshot.settings

    @cached_property
    def limits(self) -> DaemonSetLimits:
        """Limits of the spec."""
        return limits_of(self.spec, desired=self.overview.desired)

    @cached_property
    def is_strict(self) -> bool:
        """Whether updates of unavailable pods are limited too (the option strict-max-unavailable)."""
        return STRICT_MAX_UNAVAILABLE.read(self.snapshot.daemonset.annotations) is True

    def is_settled(self, state: NodeState) -> bool:
        """Whether the node is quiet and has the update revision."""
        return state.quiet is not None and state.quiet not in self._old

    @cached_property
    def nodes(self) -> Sequence[NodeState]:
        """The open nodes that exist, and have or should run a pod."""
        return [state for state in self.open if state.has_part]

    @cached_property
    def strays(self) -> Sequence[PodView]:
        """Unscheduled pods whose node no longer exists."""
        gone = (state for state in self.open if state.place is Place.GONE and state.name)
        return [pod for state in gone for pod in state.pods if not pod.node_name]

    @property
    def open_pods(self) -> Iterator[PodView]:
        """Pods of open nodes that the DaemonSet controls or will adopt, and that its selector matches. Terminating pods
        are included.
        """
        return (pod for state in self.open for pod in state.pods)

    @property
    def pods(self) -> Iterator[PodView]:
        """The same pods, but of all nodes."""
        return (pod for state in self.overview.states.values() for pod in state.pods)

    @cached_property
    def pod_count(self) -> int:
        """Number of `pods`."""
        return self.settled + len(self.outdated) + sum(len(state.pods) for state in self.open)

    @cached_property
    def old_pods(self) -> Sequence[PodView]:
        """Pods without the update revision that are not terminating."""
        pods = [pod for pod in self.open_pods if not pod.is_deleting and not self.is_updated(pod)]
        return [*pods, *(state.pods[0] for state in self.outdated)]

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels of new and updated pods that identify their revision."""
        labels: dict[str, str] = {keys.REVISION_LABEL: self.revisions.label}
        if self._generation:
            labels[TEMPLATE_GENERATION_LABEL] = self._generation
        return labels

    def is_updated(self, pod: PodView) -> bool:
        """Whether the pod has the update revision (by its hash or template generation), and its resize was not given
        up.
        """
        return self._is_current(read_made_for(pod)) and not self.has_given_up(pod)

    @cached_property
    def infeasible(self) -> Mapping[str, Instant]:
        """Uid of each pod of the update revision whose node can never provide its new resources → the time at which its
        resize is given up. After this time, the pod is replaced like a pod of an older revision.
        """
        if not self.spec.is_in_place:
            return {}
        pods = (pod for pod in self.open_pods if self._is_current(read_made_for(pod)))
        return find_given_up(pods, settings=self.settings.in_place, now=self.now)

    def has_given_up(self, pod: PodView) -> bool:
        """Whether the pod must be recreated, because it has waited for its new resources too long."""
        until = self.infeasible.get(pod.uid)
        return until is not None and until <= self.now

    def _is_current(self, made: MadeFor) -> bool:
        revision, generation = made
        return revision in self._hashes or (bool(generation) and generation == self._generation)

    def is_available(self, pod: PodView) -> bool:
        """Whether the pod has been ready for minReadySeconds."""
        return is_available(pod, min_ready_seconds=self._min_ready_s, now=self.now)

    def is_coming(self, pod: PodView) -> bool:
        """Whether the pod is unavailable because the DaemonSet created or changed it a short time ago. False if the pod
        was available and failed later.
        """
        held = pod.find_condition(keys.IN_PLACE_READY)
        if pod.is_ready or (held is not None and held.status != "True"):
            return True
        if pod.ready_since is None or pod.created_at is None:
            return True
        return not pod.has_ready_condition and pod.ready_since <= pod.created_at + FIRST_STEPS_S

    def find_available_time(self, pod: PodView) -> Instant | None:
        """Return when a ready pod becomes available; None if it is available, or not ready."""
        return find_available_time(pod, min_ready_seconds=self._min_ready_s, now=self.now)
