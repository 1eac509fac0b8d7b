"""State of one node for one DaemonSet, with the DaemonSet's pods on this node.

node + pods that are assigned to it ──▶ examine() ──▶ NodeState ──▶ node_cache.py (states of all nodes)

Pure. A state does not depend on the update revision: the plan decides which pods are old. So after a change of the
template, nodes do not have to be examined again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.daemonset.placement import DaemonSetPlacement, Fit, Place
from pykruise.kube.clock import Instant
from pykruise.kube.values.selectors import Selector
from pykruise.plans.in_place import is_resize_infeasible
from pykruise.plans.views import NodeView
from pykruise.pods.lifecycle.availability import is_ready_long_enough
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.template.node_placement import NodeObstacle, has_cordon_taint, has_lost_taint
from pykruise.pods.view.pod_view import PodView

TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"

MadeFor = tuple[str, str]
"""Revision of a pod: the hash of the revision, and the deprecated template generation."""


def read_made_for(pod: PodView) -> MadeFor:
    """Return the revision from which the pod was created, or to which it was updated."""
    return pod.revision, pod.labels.get(TEMPLATE_GENERATION_LABEL, "")


def is_leaving(pod: PodView) -> bool:
    """Whether the pod waits in PreparingDelete."""
    return pod.state == LifecycleState.PREPARING_DELETE


def is_available(pod: PodView, *, min_ready_seconds: int, now: Instant) -> bool:
    """Whether the pod has been ready for minReadySeconds. The lifecycle state does not matter: the only state of daemon
    pods is PreparingDelete.
    """
    return pod.is_ready and is_ready_long_enough(pod, min_ready_seconds=min_ready_seconds, now=now)


def find_available_time(pod: PodView, *, min_ready_seconds: int, now: Instant) -> Instant | None:
    """Return when a ready pod becomes available; None if it is available, or not ready."""
    if not pod.is_ready or pod.ready_since is None or min_ready_seconds <= 0:
        return None
    due = pod.ready_since + min_ready_seconds
    return due if due > now else None


def sort_by_counting(pod: PodView) -> tuple[Any, ...]:
    """Return the sort key for the pods of a node: first scheduled pods, then by age (oldest first), then by name."""
    return (not pod.node_name, pod.created_at or float("inf"), pod.name)


# One node


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of a node's state, besides the node and its pods."""

    placement: DaemonSetPlacement
    selector: Selector | None = None
    """Selector of the DaemonSet. None if it is invalid: then all pods that the DaemonSet controls count."""
    min_ready_seconds: int = 0


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one node for one DaemonSet."""

    name: str
    place: Place
    obstacle: NodeObstacle | None = None
    """Reason for `place`, if an existing node should not run a pod."""
    labels: Mapping[str, str] = {}
    is_lost: bool = False
    """Whether a taint of the node shows that its kubelet does not report."""
    is_cordoned: bool = False
    pods: tuple[PodView, ...] = ()
    """Pods that count, including terminating pods: controlled pods that the selector matches, and orphans to adopt. The
    counters of the status read only the first pod.
    """
    mismatched: tuple[PodView, ...] = ()
    """Controlled pods that the selector no longer matches."""
    quiet: MadeFor | None = None
    """Revision of the pod on a quiet node; None if the node is not quiet. A quiet node should run a pod, and has
    exactly one pod, which is available and waits for nothing. It needs a write only if its revision is not the update
    revision.
    """
    until: Instant | None = None
    """Time at which the state changes even without an event; None if it does not."""

    @property
    def because(self) -> str:
        """Reason why the node should not run a pod; empty if it should, or if the node does not exist."""
        return self.obstacle.because if self.obstacle is not None else ""

    @property
    def has_part(self) -> bool:
        """Whether the node exists, and has or should run a pod."""
        return self.place is Place.RUN or (bool(self.pods) and self.place is not Place.GONE)

    @property
    def is_idle(self) -> bool:
        """Whether the node should not run a pod and has no pod."""
        return not self.pods and self.place in (Place.STAY, Place.LEAVE)

    @property
    def is_open(self) -> bool:
        """Whether the node possibly needs a write or a message, whatever the update revision is."""
        return self.quiet is None and (bool(self.mismatched) or not self.is_idle)


def examine(
    terms: Terms, name: str, node: NodeView | None, pods: Iterable[PodView], *, now: Instant
) -> NodeState:
    """Return the state of one node.

    `node` is None if no node has this name. `pods` are assigned to the node: pods that the DaemonSet controls, and
    orphans that its selector matches.
    """
    fit = Fit(Place.GONE) if node is None else terms.placement.fit(node)
    own, mismatched = _split_by_selector(terms.selector, pods)
    times = [find_available_time(pod, min_ready_seconds=terms.min_ready_seconds, now=now) for pod in own]
    return NodeState(
        name=name,
        place=fit.place,
        obstacle=fit.obstacle,
        labels={} if node is None else node.labels,
        is_lost=node is not None and has_lost_taint(node.taints),
        is_cordoned=node is not None and has_cordon_taint(node.taints),
        pods=own,
        mismatched=mismatched,
        quiet=_find_record_of_quiet_node(terms, fit.place, own, mismatched, now=now),
        until=min((time for time in times if time is not None), default=None),
    )


def _split_by_selector(
    selector: Selector | None, pods: Iterable[PodView]
) -> tuple[tuple[PodView, ...], tuple[PodView, ...]]:
    own: list[PodView] = []
    mismatched: list[PodView] = []
    for pod in pods:
        if pod.controller is None:
            if not pod.is_deleting:
                own.append(pod)
        elif selector is None or selector.matches(pod.labels):
            own.append(pod)
        else:
            mismatched.append(pod)
    return tuple(sorted(own, key=sort_by_counting)), tuple(sorted(mismatched, key=sort_by_counting))


def _find_record_of_quiet_node(
    terms: Terms, place: Place, own: Sequence[PodView], mismatched: Sequence[PodView], *, now: Instant
) -> MadeFor | None:
    if place is not Place.RUN or mismatched or len(own) != 1:
        return None
    pod = own[0]
    is_moving = pod.is_deleting or is_leaving(pod) or pod.may_be_updating or bool(pod.open_gates)
    if is_moving or is_resize_infeasible(pod) or pod.controller is None:
        return None
    if not is_available(pod, min_ready_seconds=terms.min_ready_seconds, now=now):
        return None
    return read_made_for(pod)
