"""State of one node for a DaemonSet, with its pods.

node + pods that are meant for it ──▶ examine() ──▶ NodeState ──▶ node_cache.py (all of them)

Pure. A state says nothing of revisions. Which pods are old is the plan's business, and a new template has no node
examined.
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
from pykruise.pods.view.pod_view import PodView

TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"

MadeFor = tuple[str, str]
"""Revision that a pod was created for: the hash of a revision, and the generation of an older template."""

_LOST: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints of nodes whose kubelet is not heard."""


# One pod


def made_for(pod: PodView) -> MadeFor:
    """Revision that the pod was created for, or updated to."""
    return pod.revision, pod.labels.get(TEMPLATE_GENERATION_LABEL, "")


def is_leaving(pod: PodView) -> bool:
    """Whether the pod waits in PreparingDelete."""
    return pod.state == LifecycleState.PREPARING_DELETE


def is_available(pod: PodView, *, min_ready_seconds: int, now: Instant) -> bool:
    """Ready for minReadySeconds. The lifecycle state does not count: daemons have none but one."""
    return pod.is_ready and is_ready_long_enough(pod, min_ready_seconds=min_ready_seconds, now=now)


def available_at(pod: PodView, *, min_ready_seconds: int, now: Instant) -> Instant | None:
    """When a ready pod that is not available yet will be, by time alone; None: not by time."""
    if not pod.is_ready or pod.ready_since is None or min_ready_seconds <= 0:
        return None
    due = pod.ready_since + min_ready_seconds
    return due if due > now else None


def by_counting(pod: PodView) -> tuple[Any, ...]:
    """Which pod of a node counts first: one that is scheduled, then the older, then by name."""
    return (not pod.node_name, pod.created_at or float("inf"), pod.name)


# One node


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of a node's state besides the node and its pods."""

    placement: DaemonSetPlacement
    selector: Selector | None = None
    """Which pods count; None: it cannot be read, and all that the DaemonSet controls do."""
    min_ready_seconds: int = 0


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One node as a DaemonSet finds it."""

    name: str
    place: Place
    because: str = ""
    """Why it is that, where it is not to run a pod."""
    labels: Mapping[str, str] = {}
    is_lost: bool = False
    """Its kubelet is not heard."""
    pods: tuple[PodView, ...] = ()
    """Pods that count, terminating ones too: controlled and matching, or orphans to adopt. The first is the one that
    the node is counted by."""
    mismatched: tuple[PodView, ...] = ()
    """Controlled, but not matching the selector any more."""
    quiet: MadeFor | None = None
    """Revision of the one pod of a node that needs no attention: the pod is available and waits for nothing. Unless
    that is another revision, there is nothing to be done or said about the node."""
    until: Instant | None = None
    """When time alone makes it another state; None: never."""

    @property
    def has_part(self) -> bool:
        """Whether there is such a node, and it has or should have a pod."""
        return self.place is Place.RUN or (bool(self.pods) and self.place is not Place.GONE)

    @property
    def is_idle(self) -> bool:
        """Whether it is to have no pod and has none."""
        return not self.pods and self.place in (Place.STAY, Place.LEAVE)

    @property
    def is_open(self) -> bool:
        """Whether there may be something to do or to say, whatever the revision."""
        return self.quiet is None and (bool(self.mismatched) or not self.is_idle)


def examine(
    terms: Terms, name: str, node: NodeView | None, pods: Iterable[PodView], *, now: Instant
) -> NodeState:
    """The state of one node. `node` None: there is none of that name. `pods`: those meant for it, controlled by
    the DaemonSet, or orphans that match."""
    fit = Fit(Place.GONE) if node is None else terms.placement.fit(node)
    own, mismatched = _counting(terms.selector, pods)
    times = [available_at(pod, min_ready_seconds=terms.min_ready_seconds, now=now) for pod in own]
    return NodeState(
        name=name,
        place=fit.place,
        because=fit.because,
        labels={} if node is None else node.labels,
        is_lost=node is not None and any(taint.key in _LOST for taint in node.taints),
        pods=own,
        mismatched=mismatched,
        quiet=_quiet(terms, fit.place, own, mismatched, now=now),
        until=min((time for time in times if time is not None), default=None),
    )


def _counting(
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
    return tuple(sorted(own, key=by_counting)), tuple(sorted(mismatched, key=by_counting))


def _quiet(
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
    return made_for(pod)
