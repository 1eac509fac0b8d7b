"""Choice of a pod's node: filters rule nodes out, and ranks decide between the remaining nodes.

NodeLedger (ledger.py) ──▶ choose(pod, ledger, rng) ──▶ ChosenNode(node) | NoPlace(message)

No I/O and no clock; the only randomness is the `rng` that decides between equal nodes. The ledger is updated pod by
pod, so a decision only reads each node once (about 2 µs per node), however many pods there are.

A filter takes (pod, ledger) and returns a check of one node, or None if the pod has no such requirement.
FILTERS lists them in the order of the real scheduler. The check of a pod's volumes is passed in
(controllers/volume_choice.py). preemption.py decides which pods are evicted for a pod without a node.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE, Taint, matches_term, tolerates
from pykruise.sandbox.nodes.ledger import (
    LedgerGroup,
    NodeLedger,
    NodeLoad,
    affinity_of,
    group_of,
    host_ports,
    selector_of,
    terms_of,
)
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import HostPort, SandboxPodView

__all__ = [
    "FILTERS",
    "Check",
    "ChosenNode",
    "Filter",
    "NoPlace",
    "choose",
    "explain",
    "find_problems",
    "make_checks",
    "matches_node",
    "tolerates",
]


class ChosenNode(msgspec.Struct, frozen=True):
    """The node of the pod."""

    node: str


class NoPlace(msgspec.Struct, frozen=True):
    """No node can take the pod."""

    message: str
    """Message in the condition, as the real scheduler writes it, without the part about preemption."""
    hopeful: tuple[str, ...] = ()
    """Nodes that could take the pod if other pods were evicted."""


Check = Callable[[NodeLoad, SandboxNodeView], Sequence[str]]
"""Reasons against a node; empty when there are none."""

Filter = Callable[[SandboxPodView, "NodeLedger"], Check | None]


# ── choice ───────────────────────────────────────────────────────────────────


def choose(
    pod: SandboxPodView,
    ledger: NodeLedger,
    *,
    rng: random.Random,
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None = None,
    nominated: str = "",
) -> ChosenNode | NoPlace:
    """Choose the node for a pod: among the nodes that pass the filters, the node with the lowest `Rank`.

    `rng` decides between nodes of equal rank. `volumes`: returns the reasons why the pod's volumes cannot be used on a
    node. `nominated`: the node on which pods were evicted for this pod; it is chosen if it passes the filters.
    """
    candidates = ledger.list_candidates()
    if not candidates:
        return NoPlace("no nodes available to schedule pods")
    checks = make_checks(pod, ledger, volumes=volumes)
    if nominated:
        load = ledger.nodes.get(nominated)
        if load is not None and load.view is not None and not find_problems(load, load.view, checks):
            return ChosenNode(nominated)
    reasons: Counter[str] = Counter()
    fitting, hopeful = [], []
    for load, view in candidates:
        problems = find_problems(load, view, checks)
        if not problems:
            fitting.append((load, view))
            continue
        reasons.update(problems)
        if not any(map(is_for_good, problems)):
            hopeful.append(view.name)
    if not fitting:
        return NoPlace(explain(len(candidates), reasons), tuple(hopeful))
    return ChosenNode(_choose_best(pod, ledger, fitting, rng))


def make_checks(
    pod: SandboxPodView,
    ledger: NodeLedger,
    *,
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None = None,
) -> list[Check]:
    """Return the checks of a node for the pod, with the current ledger."""
    checks = []
    for find in FILTERS:
        if find is _make_topology_spread_filter and volumes is not None:
            checks.append(_make_volume_check(volumes))
        check = find(pod, ledger)
        if check is not None:
            checks.append(check)
    return checks


def _make_volume_check(volumes: Callable[[SandboxNodeView], Sequence[str]]) -> Check:
    return lambda load, view: volumes(view)


def find_problems(load: NodeLoad, view: SandboxNodeView, checks: Sequence[Check]) -> Sequence[str]:
    """Return the reasons of the first check that the node fails; empty when it passes all."""
    for check in checks:
        if problems := check(load, view):
            return problems
    return ()


def is_for_good(problem: str) -> bool:
    """Whether the problem stays even if other pods are evicted. This is the rule of the scheduler's status
    UnschedulableAndUnresolvable.
    """
    return not problem.startswith(_BY_OTHERS) or problem.endswith("(missing required label)")


_BY_OTHERS: Final = (
    "Insufficient ",
    "Too many pods",
    "node(s) didn't have free ports",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)
"""Prefixes of the problems that other pods cause."""


def explain(nodes: int, reasons: Mapping[str, int]) -> str:
    """Describe how many nodes have which problem, in the real scheduler's words."""
    listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(listed)}."


Rank = tuple[float, float, float, float]
"""Rank of a node; the lowest is chosen. Four numbers, compared in this order: the pod's preference for the node, times
-1; pods of the same owner on the node; pods of the same owner in the node's zone; the node's load.
"""


def _choose_best(
    pod: SandboxPodView,
    ledger: NodeLedger,
    fitting: Sequence[tuple[NodeLoad, SandboxNodeView]],
    rng: random.Random,
) -> str:
    preference = _make_preference(pod, fitting)
    owner = pod.owner_uid
    best: list[str] = []
    best_rank: Rank = (math.inf, 0, 0, 0)
    for load, view in fitting:
        rank: Rank = (
            -preference(view) if preference is not None else 0,
            load.owners.get(owner, 0) if owner else 0,
            ledger.count_in_zone(owner, view.zone) if owner else 0,
            load.pods / max(1, view.max_pods),
        )
        if rank < best_rank:
            best, best_rank = [view.name], rank
        elif rank == best_rank:
            best.append(view.name)
    return best[0] if len(best) == 1 else rng.choice(best)


def _make_preference(
    pod: SandboxPodView, fitting: Sequence[tuple[NodeLoad, SandboxNodeView]]
) -> Callable[[SandboxNodeView], float] | None:
    """The pod's preference for a node: the weights of matching node affinity, minus 100 for each PreferNoSchedule taint
    that the pod does not tolerate.
    """
    preferred = affinity_of(pod, "nodeAffinity").get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    has_soft_taints = any(taint.effect == "PreferNoSchedule" for _, view in fitting for taint in view.taints)
    if not preferred and not has_soft_taints:
        return None
    tolerations = _list_tolerations(pod)

    def preference(view: SandboxNodeView) -> float:
        liked = sum(
            term.get("weight", 0)
            for term in preferred
            if matches_term(term.get("preference") or {}, labels=view.labels, name=view.name)
        )
        avoided = sum(
            taint.effect == "PreferNoSchedule" and not tolerates(tolerations, taint) for taint in view.taints
        )
        return float(liked - 100 * avoided)

    return preference


# ── filters ──────────────────────────────────────────────────────────────────


def _make_cordon_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    cordon = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)
    if tolerates(_list_tolerations(pod), cordon):
        return None
    return lambda load, view: ("node(s) were unschedulable",) if view.unschedulable else ()


def _make_taints_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    if not any(view.taints for _, view in ledger.list_candidates()):
        return None
    tolerations = _list_tolerations(pod)

    def check(load: NodeLoad, view: SandboxNodeView) -> Sequence[str]:
        for taint in view.taints:
            if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(tolerations, taint):
                return (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
        return ()

    return check


def _make_node_affinity_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    if pod.placement is None:
        return None
    matches = _make_node_matcher(pod)
    if matches is None:
        return None
    return lambda load, view: () if matches(view) else ("node(s) didn't match Pod's node affinity/selector",)


def _make_ports_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    wanted = host_ports(pod)
    if not wanted:
        return None
    return lambda load, view: (
        ("node(s) didn't have free ports for the requested pod ports",)
        if any(_is_conflict(port, taken) for port in wanted for taken in load.ports)
        else ()
    )


def _make_resources_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    wanted = [(name, amount) for name, amount in pod.sum_requests().items() if amount]

    def check(load: NodeLoad, view: SandboxNodeView) -> Sequence[str]:
        problems = []
        if load.pods >= view.max_pods:
            problems.append("Too many pods")
        for name, amount in wanted:
            if load.used.get(name, 0) + amount > view.allocatable.get(name, 0):
                problems.append(f"Insufficient {name}")
        return problems

    return check


def _make_topology_spread_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    if pod.placement is None or not pod.placement.topology_spread_constraints:
        return None
    hard = [
        _SpreadRule(constraint, pod, ledger)
        for constraint in pod.placement.topology_spread_constraints
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    if not hard:
        return None

    def check(load: NodeLoad, view: SandboxNodeView) -> Sequence[str]:
        for rule in hard:
            if problem := rule.find_problem(view):
                return (problem,)
        return ()

    return check


def _make_pod_affinity_filter(pod: SandboxPodView, ledger: NodeLedger) -> Check | None:
    wanted = [_Domains(term, pod, ledger) for term in terms_of(pod, "podAffinity")]
    unwanted = [_Domains(term, pod, ledger) for term in terms_of(pod, "podAntiAffinity")]
    averse = [
        (aversion.topology_key, _count_by_domain(counts, aversion.topology_key, ledger))
        for aversion, counts in ledger.aversions.items()
        if aversion.group.has(pod)
    ]
    if not (wanted or unwanted or averse):
        return None
    # If pods have affinity to pods like themselves, the first pod finds no other such pod and may use any node.
    is_first = all(not domains.values and domains.group.has(pod) for domains in wanted)

    def check(load: NodeLoad, view: SandboxNodeView) -> Sequence[str]:
        if any(domains.topology_key not in view.labels for domains in wanted) or (
            not is_first and not all(domains.has(view) for domains in wanted)
        ):
            return ("node(s) didn't match pod affinity rules",)
        if any(domains.has(view) for domains in unwanted):
            return ("node(s) didn't match pod anti-affinity rules",)
        if any(view.labels.get(key) in values for key, values in averse if key in view.labels):
            return ("node(s) didn't satisfy existing pods anti-affinity rules",)
        return ()

    return check


FILTERS: Final[tuple[Filter, ...]] = (
    _make_cordon_filter,
    _make_taints_filter,
    _make_node_affinity_filter,
    _make_ports_filter,
    _make_resources_filter,
    _make_topology_spread_filter,
    _make_pod_affinity_filter,
)
"""Filters in order: the first filter that rules out a node gives the reason."""


# ── taints, ports ────────────────────────────────────────────────────────────


def _list_tolerations(pod: SandboxPodView) -> Sequence[Mapping[str, Any]]:
    return pod.tolerations


def _is_conflict(host_port: HostPort, other: HostPort) -> bool:
    everywhere = ("", "0.0.0.0")
    return (
        host_port.host_port == other.host_port
        and host_port.protocol == other.protocol
        and (
            host_port.host_ip == other.host_ip
            or host_port.host_ip in everywhere
            or other.host_ip in everywhere
        )
    )


# ── node affinity ────────────────────────────────────────────────────────────


def _make_node_matcher(pod: SandboxPodView) -> Callable[[SandboxNodeView], bool] | None:
    """Predicate for the nodes that the pod selects; None when it selects all."""
    selector = (pod.placement.node_selector if pod.placement else None) or {}
    required = affinity_of(pod, "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    if not selector and required is None:
        return None
    return lambda view: _selects_node(view, selector, required)


def matches_node(spec: Mapping[str, Any], view: SandboxNodeView) -> bool:
    """Whether a pod with this spec selects the node: by name, selector or required node affinity."""
    if spec.get("nodeName") and spec["nodeName"] != view.name:
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return _selects_node(view, spec.get("nodeSelector") or {}, required)


def _selects_node(
    view: SandboxNodeView, selector: Mapping[str, str], required: Mapping[str, Any] | None
) -> bool:
    if any(view.labels.get(key) != value for key, value in selector.items()):
        return False
    terms = (required or {}).get("nodeSelectorTerms") or ()
    return required is None or any(matches_term(term, labels=view.labels, name=view.name) for term in terms)


# ── terms over other pods ────────────────────────────────────────────────────


def _count_by_domain(counts: Mapping[str, int], topology_key: str, ledger: NodeLedger) -> dict[str, int]:
    """Number of pods by topology value, from the number by node."""
    domains: dict[str, int] = {}
    for node, count in counts.items():
        load = ledger.nodes.get(node)
        value = load.view.labels.get(topology_key) if load is not None and load.view is not None else None
        if value is not None:
            domains[value] = domains.get(value, 0) + count
    return domains


class _Domains:
    """Domains of the pods that one affinity term selects."""

    __slots__ = ("group", "topology_key", "values")

    def __init__(self, term: Mapping[str, Any], pod: SandboxPodView, ledger: NodeLedger) -> None:
        self.group = group_of(term, pod)
        self.topology_key = term.get("topologyKey", "")
        self.values = _count_by_domain(ledger.count_members(self.group), self.topology_key, ledger)

    def has(self, view: SandboxNodeView) -> bool:
        """Whether one of the pods is in this node's domain."""
        return view.labels.get(self.topology_key) in self.values


class _SpreadRule:
    """A topology spread constraint with whenUnsatisfiable DoNotSchedule.

    This is the rule of Kubernetes: skew = pods in the node's domain + this pod - the minimum number in any domain that
    the pod may use.
    """

    __slots__ = ("counts", "fewest", "is_one_of_them", "max_skew", "topology_key")

    def __init__(self, constraint: Mapping[str, Any], pod: SandboxPodView, ledger: NodeLedger) -> None:
        self.topology_key = constraint.get("topologyKey", "")
        self.max_skew = constraint.get("maxSkew", 1)
        group = LedgerGroup((pod.namespace,), selector_of(constraint, pod), counts_terminating=False)
        self.is_one_of_them = group.has(pod)
        eligible = _list_eligible_nodes(constraint, pod, ledger)
        self.counts = dict.fromkeys(
            (view.labels[self.topology_key] for view in eligible if self.topology_key in view.labels), 0
        )
        names = {view.name for view in eligible}
        members = {node: count for node, count in ledger.count_members(group).items() if node in names}
        self.counts |= _count_by_domain(members, self.topology_key, ledger)
        few_domains = len(self.counts) < (constraint.get("minDomains") or 1)
        self.fewest = 0 if few_domains else min(self.counts.values(), default=0)

    def find_problem(self, view: SandboxNodeView) -> str:
        """Reason against the node, or empty."""
        value = view.labels.get(self.topology_key)
        if value is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        skew = self.counts.get(value, 0) + self.is_one_of_them - self.fewest
        return "node(s) didn't match pod topology spread constraints" if skew > self.max_skew else ""


def _list_eligible_nodes(
    constraint: Mapping[str, Any], pod: SandboxPodView, ledger: NodeLedger
) -> list[SandboxNodeView]:
    """Nodes whose domains count: by default the nodes that match the pod's node affinity, regardless of taints."""
    views = [view for _, view in ledger.list_candidates()]
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and (matches := _make_node_matcher(pod)):
        views = [view for view in views if matches(view)]
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and (
        check := _make_taints_filter(pod, ledger)
    ):
        views = [view for view in views if not check(ledger.nodes[view.name], view)]
    return views
