"""The nodes of a DaemonSet with their pods, classified once for all decisions of a plan.

Snapshot + revisions ──▶ DaemonSetWorkingSet ──▶ manage.py, update.py, refresh.py, status.py

Pure. The counts are numbers of nodes, because the plan decides node by node. Quiet nodes (node_state.py) of the update
revision are only counted. Those of another revision only wait for an update. The phases examine all other nodes, which
are called open.
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
"""A pod that became unready within this number of seconds after its creation counts as never ready: its Ready condition
is False since the kubelet first saw the pod.
"""


class OldAndNew:
    """The non-terminating pods of one node: at most one of the update revision and one of another revision."""

    __slots__ = ("is_clear", "new", "old", "state")

    def __init__(self, ws: "DaemonSetWorkingSet", state: NodeState) -> None:
        self.state = state
        self.new: PodView | None = None
        self.old: PodView | None = None
        self.is_clear = True
        """False: the node has several pods of the update revision, or several others."""
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
    """The state that all phases of one plan share. It never changes."""

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
        """All other nodes that have or should have a pod, or have a pod that no longer matches; also deleted nodes."""

    @property
    def now(self) -> Instant:
        """Instant of the decision."""
        return self.snapshot.now

    @property
    def settings(self) -> DaemonSetSettings:
        """Gates and flags."""
        return self.snapshot.settings

    @cached_property
    def limits(self) -> DaemonSetLimits:
        """Limits of the spec."""
        return limits_of(self.spec, desired=self.overview.desired)

    @cached_property
    def is_strict(self) -> bool:
        """Whether updates of unavailable pods wait for their turn (the option strict-max-unavailable)."""
        return STRICT_MAX_UNAVAILABLE.read(self.snapshot.daemonset.annotations) is True

    def is_settled(self, state: NodeState) -> bool:
        """Whether the node is quiet and has the update revision."""
        return state.quiet is not None and state.quiet not in self._old

    @cached_property
    def nodes(self) -> Sequence[NodeState]:
        """The open nodes that have or should have a pod."""
        return [state for state in self.open if state.has_part]

    @cached_property
    def strays(self) -> Sequence[PodView]:
        """Unscheduled pods whose node no longer exists."""
        gone = (state for state in self.open if state.place is Place.GONE and state.name)
        return [pod for state in gone for pod in state.pods if not pod.node_name]

    @property
    def open_pods(self) -> Iterator[PodView]:
        """Claimed pods of open nodes, including terminating pods. The DaemonSet controls or will adopt them, and its
        selector matches.
        """
        return (pod for state in self.open for pod in state.pods)

    @property
    def pods(self) -> Iterator[PodView]:
        """Claimed pods of all nodes."""
        return (pod for state in self.overview.states.values() for pod in state.pods)

    @cached_property
    def pod_count(self) -> int:
        """Number of claimed pods."""
        return self.settled + len(self.outdated) + sum(len(state.pods) for state in self.open)

    @cached_property
    def old_pods(self) -> Sequence[PodView]:
        """Pods that stay and do not have the update revision."""
        pods = [pod for pod in self.open_pods if not pod.is_deleting and not self.is_updated(pod)]
        return [*pods, *(state.pods[0] for state in self.outdated)]

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that identify the revision that a pod was created for."""
        labels: dict[str, str] = {keys.REVISION_LABEL: self.revisions.label}
        if self._generation:
            labels[TEMPLATE_GENERATION_LABEL] = self._generation
        return labels

    def is_updated(self, pod: PodView) -> bool:
        """Whether the pod has the update revision, by its hash or by the template generation, and was not given up."""
        return self._is_current(read_made_for(pod)) and not self.has_given_up(pod)

    @cached_property
    def infeasible(self) -> Mapping[str, Instant]:
        """Pods of the update revision whose node can never provide their new resources: the time when each is given
        up, by uid. After that time the pods are replaced like pods of an older revision.
        """
        if not self.spec.is_in_place:
            return {}
        pods = (pod for pod in self.open_pods if self._is_current(read_made_for(pod)))
        return find_given_up(pods, settings=self.settings.in_place, now=self.now)

    def has_given_up(self, pod: PodView) -> bool:
        """Whether the pod must be recreated because it has waited for its resources for long enough."""
        until = self.infeasible.get(pod.uid)
        return until is not None and until <= self.now

    def _is_current(self, made: MadeFor) -> bool:
        revision, generation = made
        return revision in self._hashes or (bool(generation) and generation == self._generation)

    def is_available(self, pod: PodView) -> bool:
        """Whether the pod has been ready for minReadySeconds."""
        return is_available(pod, min_ready_seconds=self._min_ready_s, now=self.now)

    def is_coming(self, pod: PodView) -> bool:
        """Whether the DaemonSet itself made the pod unavailable, because it just created or changed the pod. False:
        the pod was available and failed later.
        """
        held = pod.find_condition(keys.IN_PLACE_READY)
        if pod.is_ready or (held is not None and held.status != "True"):
            return True
        if pod.ready_since is None or pod.created_at is None:
            return True
        return not pod.has_ready_condition and pod.ready_since <= pod.created_at + FIRST_STEPS_S

    def find_available_time(self, pod: PodView) -> Instant | None:
        """Return the time when a ready pod becomes available because time passes; None if it does not."""
        return find_available_time(pod, min_ready_seconds=self._min_ready_s, now=self.now)
