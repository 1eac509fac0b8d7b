"""Pods on nodes, updated pod by pod.

pods, nodes ──place(), set_node()──▶ NodeLedger ──▶ NodeLoad of each node, counts of pods by selector and anti-affinity
                                                        term

No I/O, no clock, no randomness. scheduling/filters.py reads the ledger to choose a pod's node.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.ids import Key
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_selector
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import HostPort, SandboxPodView


class NodeLoad:
    """One node and its pods."""

    __slots__ = ("owners", "pods", "ports", "used", "view")

    def __init__(self) -> None:
        self.view: SandboxNodeView | None = None
        """None if pods name the node, but no such Node exists."""
        self.pods = 0
        self.used: dict[str, int] = {}
        self.ports: Counter[HostPort] = Counter()
        self.owners: Counter[str] = Counter()
        """Number of pods by the uid of their controller."""


class LedgerGroup(msgspec.Struct, frozen=True):
    """Pods that a term selects. If `namespaces` is None, pods of all namespaces."""

    namespaces: tuple[str, ...] | None
    selector: Selector
    counts_terminating: bool = True

    def has(self, pod: SandboxPodView) -> bool:
        return (
            (self.namespaces is None or pod.namespace in self.namespaces)
            and (self.counts_terminating or not pod.is_deleting)
            and self.selector.matches(pod.labels)
        )


class Aversion(msgspec.Struct, frozen=True):
    """A required anti-affinity term of a placed pod."""

    group: LedgerGroup
    topology_key: str


class NodeLedger:
    """The places of all pods, with every count that a scheduling decision needs."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeLoad] = {}
        self._placed: dict[Key, tuple[str, SandboxPodView]] = {}
        self._zones: dict[tuple[str, str], int] = {}
        self._groups: dict[LedgerGroup, Counter[str]] = {}
        self.aversions: dict[Aversion, Counter[str]] = {}
        """Anti-affinity terms of placed pods, with the number of such pods by node."""
        self.priorities: dict[int, int] = {}
        """Number of placed pods by priority."""

    def list_placed(self) -> Iterable[tuple[str, SandboxPodView]]:
        """All placed pods, each with its node."""
        return self._placed.values()

    def set_node(self, view: SandboxNodeView) -> None:
        """Add or update a Node."""
        load = self._load_of(view.name)
        moved = load.view is None or load.view.zone != view.zone
        if moved:
            self._count_zone(load, -1)
        load.view = view
        if moved:
            self._count_zone(load, 1)

    def remove_node(self, name: str) -> None:
        """Remove a Node; pods may still name it."""
        load = self.nodes.get(name)
        if load is None:
            return
        self._count_zone(load, -1)
        load.view = None
        self._drop_if_unused(name, load)

    def place(self, pod: SandboxPodView, node: str) -> None:
        """Place a pod that is on the node, or is about to be. Replaces the pod's earlier place."""
        known = self._placed.get(pod.key)
        if known is not None:
            if known[0] == node and _weighs_the_same(known[1], pod):
                return
            self.unplace(pod.key)
        self._placed[pod.key] = (node, pod)
        self._count_pod(self._load_of(node), node, pod, 1)

    def unplace(self, key: Key) -> None:
        """Remove a pod that is deleted or has ended. Does nothing for a pod without a place."""
        known = self._placed.pop(key, None)
        if known is None:
            return
        node, pod = known
        load = self.nodes[node]
        self._count_pod(load, node, pod, -1)
        self._drop_if_unused(node, load)

    def list_candidates(self) -> list[tuple[NodeLoad, SandboxNodeView]]:
        """Existing nodes, in the order in which they were added."""
        return [(load, load.view) for load in self.nodes.values() if load.view is not None]

    def count_in_zone(self, owner: str, zone: str) -> int:
        """Number of pods of that owner in the zone."""
        return self._zones.get((owner, zone), 0)

    def count_members(self, group: LedgerGroup) -> Mapping[str, int]:
        """Number of selected pods by node. Counted once at the first call, then updated."""
        counts = self._groups.pop(group, None)
        if counts is None:
            counts = Counter(node for node, pod in self._placed.values() if group.has(pod))
            if len(self._groups) >= _REMEMBERED_GROUPS:
                del self._groups[next(iter(self._groups))]
        # The group is moved to the end, so that the least recently used group is dropped first.
        self._groups[group] = counts
        return counts

    def _load_of(self, node: str) -> NodeLoad:
        load = self.nodes.get(node)
        if load is None:
            load = self.nodes[node] = NodeLoad()
        return load

    def _drop_if_unused(self, node: str, load: NodeLoad) -> None:
        if load.view is None and not load.pods:
            del self.nodes[node]

    def _count_pod(self, load: NodeLoad, node: str, pod: SandboxPodView, sign: int) -> None:
        load.pods += sign
        _add_to_count(self.priorities, pod.priority, sign)
        for name, amount in pod.sum_requests().items():
            load.used[name] = load.used.get(name, 0) + sign * amount
        for port in host_ports(pod):
            _add_to_count(load.ports, port, sign)
        if owner := pod.owner_uid:
            _add_to_count(load.owners, owner, sign)
            if load.view is not None:
                _add_to_count(self._zones, (owner, load.view.zone), sign)
        for group, counts in self._groups.items():
            if group.has(pod):
                _add_to_count(counts, node, sign)
        for term in terms_of(pod, "podAntiAffinity"):
            aversion = Aversion(group_of(term, pod), term.get("topologyKey", ""))
            counts = self.aversions.setdefault(aversion, Counter())
            _add_to_count(counts, node, sign)
            if not counts:
                del self.aversions[aversion]

    def _count_zone(self, load: NodeLoad, sign: int) -> None:
        if load.view is not None:
            for owner, number in load.owners.items():
                _add_to_count(self._zones, (owner, load.view.zone), sign * number)


_REMEMBERED_GROUPS = 256


def _add_to_count(counts: dict[Any, int], key: Hashable, number: int) -> None:
    """Add to a count; a count of zero is removed."""
    total = counts.get(key, 0) + number
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)


def _weighs_the_same(pod: SandboxPodView, other: SandboxPodView) -> bool:
    return (
        pod.uid == other.uid
        and pod.is_deleting == other.is_deleting
        and pod.priority == other.priority
        and pod.labels == other.labels
        and pod.containers is other.containers
        and pod.init_containers is other.init_containers
        and pod.owners == other.owners
    )


def host_ports(pod: SandboxPodView) -> tuple[HostPort, ...]:
    """The pod's host ports."""
    ports = pod.containers.host_ports
    sidecar_ports = pod.init_containers.host_ports
    return (*ports, *sidecar_ports) if sidecar_ports else ports


def affinity_of(pod: SandboxPodView, kind: str) -> Mapping[str, Any]:
    """A part of the pod's affinity, such as `podAntiAffinity`."""
    affinity = pod.placement.affinity if pod.placement else None
    return (affinity or {}).get(kind) or {}


def terms_of(pod: SandboxPodView, kind: str) -> Sequence[Mapping[str, Any]]:
    """Required terms of that part of the pod's affinity."""
    if pod.placement is None or pod.placement.affinity is None:
        return ()
    return affinity_of(pod, kind).get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def group_of(term: Mapping[str, Any], pod: SandboxPodView) -> LedgerGroup:
    """The pods that an affinity term of `pod` selects."""
    selector = selector_of(term, pod)
    if (names := term.get("namespaceSelector")) is not None and not names:
        return LedgerGroup(None, selector)
    # Namespaces that are selected by labels are not looked up; without names, only the pod's own namespace is used.
    return LedgerGroup(tuple(sorted(term.get("namespaces") or (pod.namespace,))), selector)


def selector_of(term: Mapping[str, Any], pod: SandboxPodView) -> Selector:
    """The term's `labelSelector` and the pod's labels that `matchLabelKeys` names. An invalid selector matches none."""
    wanted = term.get("labelSelector")
    if keys := term.get("matchLabelKeys"):
        own = {key: pod.labels[key] for key in keys if key in pod.labels}
        wanted = dict(wanted or {})
        wanted["matchLabels"] = {**(wanted.get("matchLabels") or {}), **own}
    try:
        return parse_selector(wanted)
    except SelectorError:
        return NOTHING
