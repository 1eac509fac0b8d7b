"""Budgets that block a drain for ever, and budgets that guard nothing."""

from collections.abc import Iterator, Mapping, Sequence

from pykruise.kube.documents import Document, annotations_of, get_path, labels_of
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from pykruise.kube.selectors import SelectorError, selector_from
from pykruise.manager.doctor.findings import Finding, fine, warning
from pykruise.manager.doctor.live import Live
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS, related_budget

__all__ = ["budget_findings", "check_budgets"]

SHOWN = 3


async def check_budgets(live: Live) -> Sequence[Finding]:
    """Each budget guards some pods, and lets them go at times."""
    try:
        unavailable = await live.list(POD_UNAVAILABLE_BUDGETS)
    except NotFoundError:
        unavailable = []
    disruption, pods = await live.list(POD_DISRUPTION_BUDGETS), await live.list(PODS)
    return budget_findings(unavailable, disruption, pods)


def budget_findings(
    unavailable: Sequence[Document], disruption: Sequence[Document], pods: Sequence[Document]
) -> list[Finding]:
    """What is wrong with PodUnavailableBudgets, and with pods that have several budgets. Pure."""
    found = [
        *_useless(unavailable),
        *_doubled(unavailable, disruption, [pod for pod in pods if _is_active(pod)]),
    ]
    count = len(unavailable)
    return found or [
        fine("budgets", f"nothing is wrong with {count} PodUnavailableBudget{'s' * (count != 1)}")
    ]


def _useless(budgets: Sequence[Document]) -> Iterator[Finding]:
    for one in budgets:
        status: Mapping[str, int] = one.get("status") or {}
        if not status:
            continue  # nobody has looked at it yet: other checks say why
        total, desired = status.get("totalReplicas", 0), status.get("desiredAvailable", 0)
        if total == 0 and status.get("currentAvailable", 0) == 0:
            what = f"PodUnavailableBudget {_name(one)} is about no pod"
            yield warning("budgets", what, "correct its selector or targetRef, or delete it")
        elif desired == 0:
            what = f"PodUnavailableBudget {_name(one)} allows everything: 0 of {total} pods must serve"
            yield warning("budgets", what, "lower maxUnavailable, or set protectTotalReplicas")
        elif desired >= total:
            what = f"PodUnavailableBudget {_name(one)} allows nothing, ever: {desired} of {total} pods must serve"
            yield warning("budgets", what, "let at least one pod be unavailable, or drains wait for ever")


def _doubled(
    unavailable: Sequence[Document], disruption: Sequence[Document], pods: Sequence[Document]
) -> Iterator[Finding]:
    """Pods that no eviction can remove: of two PodDisruptionBudgets, or of two budgets of which one allows nothing."""
    closed = {
        (one["metadata"]["namespace"], one["metadata"]["name"]) for one in unavailable if _allows_nothing(one)
    }
    two: dict[str, list[str]] = {}
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        own = [one for one in disruption if one["metadata"]["namespace"] == namespace and _covers(one, pod)]
        named = related_budget(annotations_of(pod))
        if len(own) > 1:
            names = " and ".join(sorted(str(one["metadata"]["name"]) for one in own))
            what = f"are of PodDisruptionBudgets {names} of {namespace}: API servers evict no pod of two"
            two.setdefault(what, []).append(str(pod["metadata"]["name"]))
        elif own and named and ((namespace, named) in closed or _is_closed(own[0])):
            names = f"PodDisruptionBudget {own[0]['metadata']['name']} and PodUnavailableBudget {named}"
            what = f"are of {names} of {namespace}, both must allow an eviction, and one allows none, ever"
            two.setdefault(what, []).append(str(pod["metadata"]["name"]))
    for what, some in two.items():
        more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        yield warning(
            "budgets", f"pods {', '.join(some[:SHOWN])}{more} {what}", "have one budget for each pod"
        )


def _allows_nothing(budget: Document) -> bool:
    status: Mapping[str, int] = budget.get("status") or {}
    total = status.get("totalReplicas", 0)
    return total > 0 and status.get("desiredAvailable", 0) >= total


def _is_closed(budget: Document) -> bool:
    """Whether a PodDisruptionBudget can never allow anything."""
    status: Mapping[str, int] = budget.get("status") or {}
    expected = status.get("expectedPods", 0)
    return expected > 0 and status.get("desiredHealthy", 0) >= expected


def _covers(budget: Document, pod: Document) -> bool:
    try:
        return selector_from(get_path(budget, "spec", "selector")).matches(labels_of(pod))
    except SelectorError:
        return False


def _is_active(pod: Document) -> bool:
    phase = get_path(pod, "status", "phase")
    return not pod["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed")


def _name(budget: Document) -> str:
    return f"{budget['metadata']['namespace']}/{budget['metadata']['name']}"
