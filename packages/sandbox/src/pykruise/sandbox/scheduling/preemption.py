"""Preemption for a pod that finds no place: pods of lower priority are evicted, on the node where it hurts least.

pod, ledger, budgets, hopeful nodes ──▶ make_room() ──▶ Room(node, victims) | NoRoom(why)

No I/O and no clock. The ledger is tried out and left as it was. Rules: Kubernetes' default preemption. On
each node first all pods of lower priority go, then as many as possible come back, those of exhausted disruption
budgets first, the more important before the less. Of the nodes, the one is taken where the fewest budgets are
violated, then where the most important victim is least important, then where the sum of priorities is least,
then the fewest pods go, then where the victims began last.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.selectors import NOTHING, Selector, SelectorError, selector_from
from pykruise.sandbox.nodes.ledger import NodeLedger, NodeLoad
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import SandboxPodView
from pykruise.sandbox.scheduling.filters import Check, checks_for, explain, problems_at

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
HELPLESS: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"

_MOST_NODES: Final = 100  # that are looked at
_SHIFT: Final = 2**31  # makes priorities positive, so that more victims always weigh more


class PreemptionRoom(msgspec.Struct, frozen=True):
    """Pods to evict, and the node that the pod is nominated for. Without victims there is room already."""

    node: str
    victims: tuple[SandboxPodView, ...]


class NoRoom(msgspec.Struct, frozen=True):
    """No node can make room; `message` ends what the pod's condition says."""

    message: str


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget."""

    namespace: str
    selector: Selector
    allowed: int
    """Disruptions that it still allows."""
    disrupted: frozenset[str] = frozenset()
    """Pods that it has counted already."""

    @classmethod
    def of(cls, doc: Document) -> "Budget":
        """The budget as it is stored; one whose selector cannot be read protects no pod."""
        status = doc.get("status") or {}
        try:
            selector = selector_from((doc.get("spec") or {}).get("selector"))
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
    """The most important first."""
    violations: int


def make_room(
    pod: SandboxPodView,
    ledger: NodeLedger,
    *,
    hopeful: Sequence[str],
    budgets: Sequence[Budget] = (),
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None = None,
) -> PreemptionRoom | NoRoom:
    """Where pods of lower priority make room, and which. `hopeful`: nodes that fail by other pods only."""
    nodes = len(ledger.candidates())
    if not pod.preempts:
        return NoRoom(NEVER)
    lower = _lower_by_node(pod, ledger)
    if _waits_for_victims(pod, lower):
        return NoRoom(TERMINATING)
    reasons: Counter[str] = Counter({HELPLESS: nodes - len(hopeful)})
    victimses: list[_Victims] = []
    for name in hopeful:
        answer = _on_node(pod, ledger, name, lower.get(name, ()), budgets, volumes)
        if isinstance(answer, _Victims):
            victimses.append(answer)
            if len(victimses) >= _MOST_NODES:
                break
        else:
            reasons.update(answer)
    if not victimses:
        return NoRoom(explain(nodes, {reason: count for reason, count in reasons.items() if count}))
    best = min(victimses, key=_harm)
    return PreemptionRoom(best.node, best.pods)


def _lower_by_node(pod: SandboxPodView, ledger: NodeLedger) -> dict[str, list[SandboxPodView]]:
    if min(ledger.priorities, default=pod.priority) >= pod.priority:
        return {}
    lower: dict[str, list[SandboxPodView]] = {}
    for node, other in ledger.placed():
        if other.priority < pod.priority:
            lower.setdefault(node, []).append(other)
    return lower


def _waits_for_victims(pod: SandboxPodView, lower: dict[str, list[SandboxPodView]]) -> bool:
    """Whether those who make room for it are still going."""
    return any(
        other.is_deleting and _was_preempted(other) for other in lower.get(pod.status.nominated_node_name, ())
    )


def _was_preempted(pod: SandboxPodView) -> bool:
    condition = pod.status.condition("DisruptionTarget")
    return (
        condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
    )


def _on_node(
    pod: SandboxPodView,
    ledger: NodeLedger,
    name: str,
    lower: Sequence[SandboxPodView],
    budgets: Sequence[Budget],
    volumes: Callable[[SandboxNodeView], Sequence[str]] | None,
) -> _Victims | Sequence[str]:
    """The least that must go from the node; why not even all would do."""
    if not lower:
        return (NO_VICTIMS,)
    away: dict[Key, SandboxPodView] = {}

    def problems() -> Sequence[str]:
        # A node that is empty of pods stays in the ledger, for it exists.
        load: NodeLoad = ledger.nodes[name]
        assert load.view is not None
        checks: list[Check] = checks_for(pod, ledger, volumes=volumes)
        return problems_at(load, load.view, checks)

    try:
        for other in lower:
            away[other.key] = other
            ledger.unplace(other.key)
        if why := problems():
            return why
        by_importance = sorted(lower, key=_importance)
        violating = _violating(by_importance, budgets)
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


def _importance(pod: SandboxPodView) -> tuple[Any, ...]:
    """The more important first: by priority, then who began earlier."""
    return (-pod.priority, pod.status.start_time or pod.created_at or "9", pod.key)


def _violating(pods: Sequence[SandboxPodView], budgets: Sequence[Budget]) -> set[Key]:
    """Pods whose eviction one of their budgets does not allow, counted in this order."""
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


def _harm(victims: _Victims) -> tuple[Any, ...]:
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
    """Orders later times before earlier ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
