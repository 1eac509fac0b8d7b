"""What each node is to a DaemonSet and which pods it has, worked out again only for nodes that changed.

nodes + pods of now ──▶ NodeStates.look() ──▶ Board ──▶ snapshot.py
                           └── a node that changed since the last look ──▶ examine() ──▶ NodeState

Pure, but for `NodeStates`, which remembers. A view never changes once it is made, so a node or a pod that is the
very object of last time has nothing new to tell: what changed is found by comparing identities, and no event
can be missed. States know nothing of revisions. Which pods are old is the plan's business, and a new template
costs no look at nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec

from pykruise.kinds.daemonset.placement import Fit, Place, Placement
from pykruise.kube.clock import Instant
from pykruise.kube.selectors import Selector
from pykruise.plans.sources import NodeView
from pykruise.pods.availability import is_ready_long_enough
from pykruise.pods.lifecycle import LifecycleState
from pykruise.pods.views import PodView

__all__ = [
    "FINISHED",
    "Board",
    "MadeFor",
    "NodeState",
    "NodeStates",
    "Terms",
    "available_at",
    "by_ownership",
    "examine",
    "is_available",
    "is_leaving",
    "made_for",
]

T = TypeVar("T", NodeView, PodView)

FINISHED: Final = ("Failed", "Succeeded")
"""Phases of a pod whose containers do not run any more and will not be started again."""

TEMPLATE_GENERATION_LABEL: Final = "pod-template-generation"

MadeFor = tuple[str, str]
"""What a pod says that it was made for: the hash of a revision, and the generation of the template of old."""

_LOST: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints of nodes whose kubelet is not heard."""


# One pod


def made_for(pod: PodView) -> MadeFor:
    """What the pod was made for, or was updated to."""
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


def _order(pod: PodView) -> tuple[Any, ...]:
    """Which pod of a node counts first: one that is scheduled, then the older, then by name."""
    return (not pod.node_name, pod.created_at or float("inf"), pod.name)


# One node


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What the state of a node depends on besides the node and its pods."""

    placement: Placement
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
    """Those that count, terminating ones too: controlled and matching, or nobody's and to be adopted. The first
    is the one that the node is counted by."""
    strangers: tuple[PodView, ...] = ()
    """Controlled, but not matching the selector any more."""
    quiet: MadeFor | None = None
    """Of a node that runs its one pod, which is available and has nothing to wait for: what that pod was made
    for. Unless that is another revision, there is nothing to be done or said about the node."""
    until: Instant | None = None
    """When time alone makes it another state; None: never."""

    @property
    def is_idle(self) -> bool:
        """Whether it is to have no pod and has none."""
        return not self.pods and self.place in (Place.STAY, Place.LEAVE)

    @property
    def is_open(self) -> bool:
        """Whether there may be something to do or to say, whatever the revision."""
        return self.quiet is None and (bool(self.strangers) or not self.is_idle)


def examine(
    terms: Terms, name: str, node: NodeView | None, pods: Iterable[PodView], *, now: Instant
) -> NodeState:
    """The state of one node. `node` None: there is none of that name. `pods`: those meant for it, controlled by
    the DaemonSet or by nobody."""
    fit = Fit(Place.GONE) if node is None else terms.placement.fit(node)
    own, strangers = _counting(terms.selector, pods)
    times = [available_at(pod, min_ready_seconds=terms.min_ready_seconds, now=now) for pod in own]
    return NodeState(
        name=name,
        place=fit.place,
        because=fit.because,
        labels={} if node is None else node.labels,
        is_lost=node is not None and any(taint.key in _LOST for taint in node.taints),
        pods=own,
        strangers=strangers,
        quiet=_quiet(terms, fit.place, own, strangers, now=now),
        until=min((time for time in times if time is not None), default=None),
    )


def _counting(
    selector: Selector | None, pods: Iterable[PodView]
) -> tuple[tuple[PodView, ...], tuple[PodView, ...]]:
    own: list[PodView] = []
    strangers: list[PodView] = []
    for pod in pods:
        matches = selector is None or selector.matches(pod.labels)
        if pod.controller is not None:
            (own if matches else strangers).append(pod)
        elif selector is not None and matches and not pod.is_deleting:
            own.append(pod)
    return tuple(sorted(own, key=_order)), tuple(sorted(strangers, key=_order))


def _quiet(
    terms: Terms, place: Place, own: Sequence[PodView], strangers: Sequence[PodView], *, now: Instant
) -> MadeFor | None:
    if place is not Place.RUN or strangers or len(own) != 1:
        return None
    pod = own[0]
    is_moving = pod.is_deleting or is_leaving(pod) or pod.may_be_updating or bool(pod.open_gates)
    if is_moving or pod.controller is None or pod.phase in FINISHED:
        return None
    if not is_available(pod, min_ready_seconds=terms.min_ready_seconds, now=now):
        return None
    return made_for(pod)


# All nodes


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes as a DaemonSet finds them at one instant."""

    states: dict[str, NodeState]
    """By name, in the order of names. Nodes that are gone are there while pods are meant for them; the name of
    the node of pods that are meant for none is empty."""
    open: Sequence[NodeState]
    """Those about which there may be something to do or to say, whatever the revision; in the order of names."""
    quiet: Mapping[MadeFor, int]
    """How many others run a pod, by what that was made for."""
    idle: Mapping[str, str]
    """Nodes that are to have no pod and have none, and why."""
    desired: int
    """Nodes that are to run a pod."""


def by_ownership(board: Board) -> Board:
    """The same nodes with all the pods that the DaemonSet controls, whatever its selector says, and no others."""
    states = {name: _with_owned(state) for name, state in board.states.items()}
    return msgspec.structs.replace(
        board, states=states, open=[one for one in states.values() if not one.is_idle], quiet={}
    )


def _with_owned(state: NodeState) -> NodeState:
    owned = [pod for pod in (*state.pods, *state.strangers) if pod.controller is not None]
    return msgspec.structs.replace(
        state, pods=tuple(sorted(owned, key=_order)), strangers=(), quiet=None, until=None
    )


class NodeStates:
    """The states of one DaemonSet's nodes, kept from look to look: a node that changes costs that node's work.

    All that is done for every node is what the interpreter does in C: comparing identities, copying tables.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        # As of the last look. What is compared by identity is held on to, so that no id is used again.
        self._seen_nodes: dict[int, NodeView] = {}
        self._seen_pods: dict[int, PodView] = {}
        self._sequences: tuple[Sequence[PodView], Sequence[PodView]] = ((), ())
        self._looked_at: Instant = float("-inf")

        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, dict[int, PodView]] = {}  # by the node they are meant for

        self._states: dict[str, NodeState] = {}
        self._is_sorted = True
        self._open: dict[str, NodeState] = {}
        self._quiet: dict[MadeFor, int] = {}
        self._idle: dict[str, str] = {}
        self._due: dict[str, Instant] = {}
        self._desired = 0
        self._board = self._drawn()

    @property
    def terms(self) -> Terms:
        """What the states depend on besides nodes and pods."""
        return self._terms

    def has_pods_on(self, node: str) -> bool:
        """Whether the DaemonSet had pods for this node at the last look."""
        state = self._states.get(node)
        return state is not None and bool(state.pods or state.strangers)

    def look(
        self,
        *,
        nodes: Iterable[NodeView],
        pods: Sequence[PodView],
        orphans: Sequence[PodView] = (),
        now: Instant,
    ) -> Board:
        """The board of now. `nodes`: all there are; `pods`: those that the DaemonSet controls; `orphans`: those of
        its namespace that nobody does. The same, whatever was looked at before."""
        changed = self._changed_nodes(nodes)
        changed |= self._changed_pods(pods, orphans)
        if now < self._looked_at:  # the clock was set back: whoever was available may not be any more
            changed.update(self._states)
        changed.update(name for name, due in self._due.items() if due <= now)
        self._looked_at = now
        for name in changed:
            self._examine(name, now)
        if changed:
            self._board = self._drawn()
        return self._board

    def _changed_nodes(self, nodes: Iterable[NodeView]) -> set[str]:
        """Names of nodes that came, went, or are something else to pods now. A heartbeat is none of that."""
        found = {id(node): node for node in nodes}
        gone, come = _difference(self._seen_nodes, found)
        self._seen_nodes = found
        before = {node.name: node for node in gone}
        changed: set[str] = set()
        for node in come:
            old = before.pop(node.name, None)
            self._nodes[node.name] = node
            if old is None or not old.is_placed_as(node):
                changed.add(node.name)
        for name in before:
            del self._nodes[name]
        return changed | before.keys()

    def _changed_pods(self, pods: Sequence[PodView], orphans: Sequence[PodView]) -> set[str]:
        """Names of the nodes that pods which came, went, or changed are or were meant for."""
        if pods is self._sequences[0] and orphans is self._sequences[1]:
            return set()
        self._sequences = (pods, orphans)
        found = {id(pod): pod for pod in chain(pods, orphans)}
        gone, come = _difference(self._seen_pods, found)
        self._seen_pods = found
        changed: set[str] = set()
        for pod in gone:
            here = self._pods[pod.target_node]
            del here[id(pod)]
            if not here:
                del self._pods[pod.target_node]
            changed.add(pod.target_node)
        for pod in come:
            self._pods.setdefault(pod.target_node, {})[id(pod)] = pod
            changed.add(pod.target_node)
        return changed

    def _examine(self, name: str, now: Instant) -> None:
        self._take_out(name)
        node, pods = self._nodes.get(name), self._pods.get(name, {})
        state = examine(self._terms, name, node, pods.values(), now=now)
        if node is not None or state.pods or state.strangers:
            self._put_in(name, state)
        elif self._states.pop(name, None) is not None:
            self._is_sorted = False

    def _take_out(self, name: str) -> None:
        old = self._states.get(name)
        if old is None:
            return
        self._desired -= old.place is Place.RUN
        self._open.pop(name, None)
        self._idle.pop(name, None)
        self._due.pop(name, None)
        if old.quiet is not None:
            self._quiet[old.quiet] -= 1
            if not self._quiet[old.quiet]:
                del self._quiet[old.quiet]

    def _put_in(self, name: str, state: NodeState) -> None:
        self._is_sorted &= name in self._states
        self._states[name] = state
        self._desired += state.place is Place.RUN
        if state.is_open:
            self._open[name] = state
        if state.is_idle:
            self._idle[name] = state.because
        if state.until is not None:
            self._due[name] = state.until
        if state.quiet is not None:
            self._quiet[state.quiet] = self._quiet.get(state.quiet, 0) + 1

    def _drawn(self) -> Board:
        if not self._is_sorted:
            self._states = dict(sorted(self._states.items()))
            self._is_sorted = True
        return Board(
            states=self._states.copy(),
            open=[self._open[name] for name in sorted(self._open)],
            quiet=self._quiet.copy(),
            idle=self._idle.copy(),
            desired=self._desired,
        )


def _difference(before: Mapping[int, T], now: Mapping[int, T]) -> tuple[list[T], list[T]]:
    """What is gone and what has come, by identity."""
    return (
        [before[one] for one in before.keys() - now.keys()],
        [now[one] for one in now.keys() - before.keys()],
    )
