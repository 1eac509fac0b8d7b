"""Cache of the states of a DaemonSet's nodes. Only the state of a changed node is computed again.

current nodes + pods ──▶ NodeStateCache.refresh() ──▶ NodeOverview ──▶ snapshot.py
                         └── a node that changed since the last refresh ──▶ node_state.examine()

`NodeStateCache` owns state: the nodes and pods of the last refresh. The cache makes plans faster, but changes no
decision. Views are immutable, so a node or pod has changed only if its view is not the same Python object as in the
last refresh. The cache compares these objects, so no change is missed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import msgspec

from pykruise.kinds.daemonset.node_state import MadeFor, NodeState, Terms, examine, sort_by_counting
from pykruise.kinds.daemonset.placement import Place
from pykruise.kube.clock import Instant
from pykruise.plans.views import NodeView
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

T = TypeVar("T", NodeView, PodView)


class NodeOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes of a DaemonSet at one instant."""

    states: dict[str, NodeState]
    """Node states by name, sorted by name. A deleted node is included while pods are assigned to it. The empty name has
    the pods without a node.
    """
    open: Sequence[NodeState]
    """States of nodes that possibly need a write or a message, whatever the update revision is; sorted by name."""
    quiet: Mapping[MadeFor, int]
    """Revision → number of nodes, without the nodes in `open`, that run a pod of this revision."""
    idle: Mapping[str, Reason]
    """Nodes that should not run a pod and have no pod, each with the reason."""
    desired: int
    """Number of nodes that should run a pod."""


def group_by_ownership(overview: NodeOverview) -> NodeOverview:
    """Return the same nodes, but with exactly the pods that the DaemonSet controls, even if its selector does not match
    them.
    """
    states = {name: _with_owned(state) for name, state in overview.states.items()}
    return msgspec.structs.replace(overview, states=states, open=[*states.values()], quiet={})


def _with_owned(state: NodeState) -> NodeState:
    owned = [pod for pod in (*state.pods, *state.mismatched) if pod.controller is not None]
    return msgspec.structs.replace(
        state, pods=tuple(sorted(owned, key=sort_by_counting)), mismatched=(), quiet=None, until=None
    )


class NodeStateCache:
    """The states of one DaemonSet's nodes. A refresh examines only nodes that have changed.

    For unchanged nodes, a refresh only compares identities and copies dicts, which is fast.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._reset()

    def _reset(self) -> None:
        # State of the last refresh. It contains references to the compared objects, so that their ids are not reused.
        self._seen_nodes: dict[int, NodeView] = {}
        self._seen_pods: dict[int, PodView] = {}
        self._sequences: tuple[Sequence[PodView], Sequence[PodView]] = ((), ())
        self._looked_at: Instant = float("-inf")

        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, tuple[PodView, ...]] = {}  # by the node that they are assigned to

        self._states: dict[str, NodeState] = {}
        self._is_sorted = True
        self._open: dict[str, NodeState] = {}
        self._quiet: dict[MadeFor, int] = {}
        self._idle: dict[str, Reason] = {}
        self._due: dict[str, Instant] = {}
        self._desired = 0
        self._board = self._build_overview()

    @property
    def terms(self) -> Terms:
        """Inputs of all node states, besides nodes and pods."""
        return self._terms

    def has_pods_on(self, node: str) -> bool:
        """Whether the DaemonSet had pods for this node at the last refresh."""
        state = self._states.get(node)
        return state is not None and bool(state.pods or state.mismatched)

    def refresh(
        self,
        *,
        nodes: Iterable[NodeView],
        pods: Sequence[PodView],
        orphans: Sequence[PodView] = (),
        now: Instant,
    ) -> NodeOverview:
        """Return the current overview.

        `nodes`: all nodes. `pods`: the pods that the DaemonSet controls. `orphans`: the orphans in its namespace. The
        result does not depend on earlier refreshes.
        """
        try:
            changed = self._find_changed_nodes(nodes)
            changed |= self._find_changed_pods(pods, orphans)
            changed |= self._find_changed_by_time(now)
            for name in changed:
                self._examine(name, now)
        except BaseException:  # after an incomplete refresh, the stored state is wrong
            self._reset()
            raise
        if changed:
            self._board = self._build_overview()
        return self._board

    def _find_changed_nodes(self, nodes: Iterable[NodeView]) -> set[str]:
        """Return the names of nodes that were added or deleted, or whose change affects pods. A heartbeat does not
        affect pods.
        """
        result = {id(node): node for node in nodes}
        gone, come = _compare_by_identity(self._seen_nodes, result)
        self._seen_nodes = result
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

    def _find_changed_pods(self, pods: Sequence[PodView], orphans: Sequence[PodView]) -> set[str]:
        """Return the names of the nodes to which added, deleted and changed pods are or were assigned."""
        if pods is self._sequences[0] and orphans is self._sequences[1]:
            return set()
        self._sequences = (pods, orphans)
        result = {id(pod): pod for pod in chain(pods, orphans)}
        gone, come = _compare_by_identity(self._seen_pods, result)
        self._seen_pods = result
        lost = {id(pod): pod for pod in gone if self._may_count(pod)}
        added: defaultdict[str, list[PodView]] = defaultdict(list)
        for pod in filter(self._may_count, come):
            added[pod.target_node].append(pod)
        changed = {*added, *(pod.target_node for pod in lost.values())}
        for node in changed:
            kept = [pod for pod in self._pods.pop(node, ()) if id(pod) not in lost]
            present = (*kept, *added.get(node, ()))
            if present:
                self._pods[node] = present
        return changed

    def _find_changed_by_time(self, now: Instant) -> set[str]:
        """Return the names of nodes whose state changed because time passed."""
        before, self._looked_at = self._looked_at, now
        if now < before and self._terms.min_ready_seconds > 0:
            return set(self._states)  # the clock was set back: an available pod may be unavailable again
        return {name for name, due in self._due.items() if due <= now}

    def _may_count(self, pod: PodView) -> bool:
        """Whether the DaemonSet controls the pod or could adopt it. Most orphans of the namespace do not match."""
        selector = self._terms.selector
        return pod.controller is not None or (selector is not None and selector.matches(pod.labels))

    def _examine(self, name: str, now: Instant) -> None:
        self._remove_state(name)
        node, pods = self._nodes.get(name), self._pods.get(name, ())
        state = examine(self._terms, name, node, pods, now=now)
        if node is not None or state.pods or state.mismatched:
            self._add_state(name, state)
        else:
            self._states.pop(name, None)

    def _remove_state(self, name: str) -> None:
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

    def _add_state(self, name: str, state: NodeState) -> None:
        self._is_sorted &= name in self._states
        self._states[name] = state
        self._desired += state.place is Place.RUN
        if state.is_open:
            self._open[name] = state
        if state.is_idle:
            self._idle[name] = Reason(Code.NOT_PLACED, state.because)
        if state.until is not None:
            self._due[name] = state.until
        if state.quiet is not None:
            self._quiet[state.quiet] = self._quiet.get(state.quiet, 0) + 1

    def _build_overview(self) -> NodeOverview:
        if not self._is_sorted:
            self._states = dict(sorted(self._states.items()))
            self._is_sorted = True
        return NodeOverview(
            states=self._states.copy(),
            open=[self._open[name] for name in sorted(self._open)],
            quiet=self._quiet.copy(),
            idle=self._idle.copy(),
            desired=self._desired,
        )


def _compare_by_identity(before: Mapping[int, T], now: Mapping[int, T]) -> tuple[list[T], list[T]]:
    """Return the removed and the added items, compared by identity."""
    return (
        [before[key] for key in before.keys() - now.keys()],
        [now[key] for key in now.keys() - before.keys()],
    )
