"""Preemption: evicts pods of lower priority for a pod that has no node, on the node where it does the least harm.

pod, ledger, budgets, hopeful nodes ──▶ make_room() ──▶ PreemptionRoom(node, victims) | NoRoom(why)

No I/O and no clock. The ledger is changed for the calculation, and restored. Same rules as Kubernetes' default
preemption. On each node, first all pods of lower priority are removed. Then as many as possible are restored: pods
of exhausted disruption budgets first, and more important pods before less important ones. The chosen node has the
fewest violated budgets, then the least important of the most important victims, then the lowest sum of priorities, then
the fewest victims, then the victims that started last.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, parse_selector
from pykruise.sandbox.nodes.ledger import NodeLedger, NodeLoad
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import SandboxPodView
from pykruise.sandbox.scheduling.filters import Check, explain, find_problems, make_checks

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
HELPLESS: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"

_MOST_NODES: Final = 100  # number of possible nodes after which the search stops
_SHIFT: Final = 2**31  # makes priorities positive, so that more victims always weigh more


class PreemptionRoom(msgspec.Struct, frozen=True):
    """Pods to evict, and the pod's nominated node. Without victims, the node already has room."""

    node: str
    victims: tuple[SandboxPodView, ...]


class NoRoom(msgspec.Struct, frozen=True):
    """Evictions cannot make room on any node. `message` is the end of the pod's condition message."""

    message: str


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget."""

    namespace: str
    selector: Selector
    allowed: int
    """Disruptions that the budget still allows."""
    disrupted: frozenset[str] = frozenset()
    """Pods whose disruption the budget has already counted."""

    @classmethod
    def parse(cls, doc: Document) -> "Budget":
        """Parse a stored budget. A budget with an invalid selector protects no pod."""
        status = doc.get("status") or {}
        try:
            selector = parse_selector((doc.get("spec") or {}).get("selector"))
        except SelectorError:
            selector = NOTHING
        return cls(
            doc["metadata"]["namespace"],
            selector,
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )


class _Victims(msgspec.Struct, frozen=True):
    node: str
    pods: tuple[SandboxPodView, ...]
    """Victims, the most important first."""
    violations: int


def make_room(
    pod: SandboxPodView,
    ledger: NodeLedger,
    *,
    hopeful: Sequence[str],
    budgets: Sequence[Budget] = (),
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None = None,
) -> PreemptionRoom | NoRoom:
    """Choose the node and the pods of lower priority to evict. `hopeful`: nodes that only other pods rule out."""
    nodes = len(ledger.list_candidates())
    if not pod.preempts:
        return NoRoom(NEVER)
    lower = _lower_by_node(pod, ledger)
    if _waits_for_victims(pod, lower):
        return NoRoom(TERMINATING)
    reasons: Counter[str] = Counter({HELPLESS: nodes - len(hopeful)})
    victimses: list[_Victims] = []
    for name in hopeful:
        answer = _find_victims(pod, ledger, name, lower.get(name, ()), budgets, volumes)
        if isinstance(answer, _Victims):
            victimses.append(answer)
            if len(victimses) >= _MOST_NODES:
                break
        else:
            reasons.update(answer)
    if not victimses:
        return NoRoom(explain(nodes, {reason: count for reason, count in reasons.items() if count}))
    best = min(victimses, key=_compute_harm_key)
    return PreemptionRoom(best.node, best.pods)


def _lower_by_node(pod: SandboxPodView, ledger: NodeLedger) -> dict[str, list[SandboxPodView]]:
    if min(ledger.priorities, default=pod.priority) >= pod.priority:
        return {}
    lower: dict[str, list[SandboxPodView]] = {}
    for node, other in ledger.list_placed():
        if other.priority < pod.priority:
            lower.setdefault(node, []).append(other)
    return lower


def _waits_for_victims(pod: SandboxPodView, lower: dict[str, list[SandboxPodView]]) -> bool:
    """Whether pods that were preempted for this pod are still terminating."""
    return any(
        other.is_deleting and _was_preempted(other) for other in lower.get(pod.status.nominated_node_name, ())
    )


def _was_preempted(pod: SandboxPodView) -> bool:
    condition = pod.status.find_condition("DisruptionTarget")
    return (
        condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
    )


def _find_victims(
    pod: SandboxPodView,
    ledger: NodeLedger,
    name: str,
    lower: Sequence[SandboxPodView],
    budgets: Sequence[Budget],
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None,
) -> _Victims | Sequence[str]:
    """Return the fewest pods to evict from the node, or the reasons why even evicting all would not help."""
    if not lower:
        return (NO_VICTIMS,)
    away: dict[Key, SandboxPodView] = {}

    def problems() -> Sequence[str]:
        # A node without pods stays in the ledger, because its Node exists.
        load: NodeLoad = ledger.nodes[name]
        assert load.view is not None
        checks: list[Check] = make_checks(pod, ledger, volumes=volumes)
        return find_problems(load, load.view, checks)

    try:
        for other in lower:
            away[other.key] = other
            ledger.unplace(other.key)
        if why := problems():
            return why
        by_importance = sorted(lower, key=_compute_importance_key)
        violating = _find_violating_pods(by_importance, budgets)
        kept_first = [other for other in by_importance if other.key in violating]
        kept_next = [other for other in by_importance if other.key not in violating]
        for other in (*kept_first, *kept_next):
            ledger.place(away.pop(other.key), name)
            if problems():
                ledger.unplace(other.key)
                away[other.key] = other
        gone = tuple(other for other in by_importance if other.key in away)
        return _Victims(name, gone, sum(other.key in violating for other in gone))
    finally:
        for other in away.values():
            ledger.place(other, name)


def _compute_importance_key(pod: SandboxPodView) -> tuple[Any, ...]:
    """Sort key with the most important pod first: by priority, then by earlier start."""
    return (-pod.priority, pod.status.start_time or pod.created_at or "9", pod.key)


def _find_violating_pods(pods: Sequence[SandboxPodView], budgets: Sequence[Budget]) -> set[Key]:
    """Pods whose eviction violates one of their budgets, if the pods are evicted in this order."""
    left = [budget.allowed for budget in budgets]
    result = set()
    for pod in pods:
        for number, budget in enumerate(budgets):
            if (
                budget.namespace == pod.namespace
                and pod.labels
                and budget.selector.matches(pod.labels)
                and pod.name not in budget.disrupted
            ):
                left[number] -= 1
                if left[number] < 0:
                    result.add(pod.key)
    return result


def _compute_harm_key(victims: _Victims) -> tuple[Any, ...]:
    highest = victims.pods[0].priority if victims.pods else -_SHIFT
    began = min((pod.status.start_time or "" for pod in victims.pods if pod.priority == highest), default="")
    return (
        victims.violations,
        highest,
        sum(pod.priority + _SHIFT for pod in victims.pods),
        len(victims.pods),
        _Latest(began),
    )


class _Latest(str):
    """Sorts later times before earlier ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
