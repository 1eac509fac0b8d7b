"""Findings of doctor about budgets."""

from typing import Any

from pykruise.kube.documents import Document
from pykruise.manager.doctor.budgets import find_budget_findings
from support.budgets import NAMESPACE, budget, pod, tied


def findings_of(unavailable: list[Document], disruption: list[Document], pods: list[Document]) -> list[str]:
    return [finding.what for finding in find_budget_findings(unavailable, disruption, pods)]


def guarding(desired: int, total: int) -> Document:
    current = {"currentAvailable": total}
    return budget(maxUnavailable=1, status={"desiredAvailable": desired, "totalReplicas": total, **current})


def disruption(name: str, *, desired: int = 1, expected: int = 2) -> Document:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    status = {"desiredHealthy": desired, "expectedPods": expected}
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": status}


def test_a_budget_that_guards_nothing_or_allows_nothing_is_named() -> None:
    assert findings_of([guarding(0, 0)], [], []) == ["PodUnavailableBudget shop/pub covers no pod"]
    assert findings_of([guarding(0, 4)], [], []) == [
        "PodUnavailableBudget shop/pub allows every disruption: 0 of 4 pods must serve"
    ]
    assert findings_of([guarding(4, 4)], [], []) == [
        "PodUnavailableBudget shop/pub never allows a disruption: 4 of 4 pods must serve"
    ]
    assert findings_of([guarding(3, 4)], [], []) == ["no problem with 1 PodUnavailableBudget"]


def test_pods_of_two_budgets_that_block_a_drain_for_ever_are_named() -> None:
    # given two PodDisruptionBudgets
    (text,) = findings_of([], [disruption("a"), disruption("b")], [pod("p1")])
    assert (
        text
        == "pods p1 are covered by PodDisruptionBudgets a and b of shop: API servers evict no pod with two budgets"
    )
    # and one budget of each kind, one of which never allows a disruption
    (text,) = findings_of([guarding(3, 4)], [disruption("a", desired=2)], [tied("p1"), tied("p2")])
    assert text.startswith(
        "pods p1, p2 are covered by PodDisruptionBudget a and PodUnavailableBudget pub of shop"
    )


def test_pods_of_both_kinds_of_budgets_are_listed_without_a_fault() -> None:
    pods = [tied("p1"), tied("p2"), tied("p3"), tied("p4"), pod("p5"), tied("p6", deleting=True)]
    assert findings_of([guarding(3, 4)], [disruption("a")], pods) == [
        "no problem with 1 PodUnavailableBudget",
        "pods p1, p2, p3 and 1 more are covered by PodDisruptionBudget a and PodUnavailableBudget pub of shop, and "
        "both must "
        "allow an eviction",
    ]
