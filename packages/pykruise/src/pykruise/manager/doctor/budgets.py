"""Checks of budgets. They find budgets that block the drain of a node forever (also of a manager's node), budgets that
protect nothing, and pods with several budgets.
"""

from collections.abc import Iterator, Mapping, Sequence

from pykruise.kube.documents import Document, annotations_of, get_path, labels_of
from pykruise.kube.resources import POD_DISRUPTION_BUDGETS, PODS
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.manager.doctor.findings import Finding, FindingLevel, make_fine, make_warning
from pykruise.manager.doctor.live import Live
from pykruise.pods.view.pod_view import is_active
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, read_related_budget

SHOWN = 3


async def check_budgets(live: Live) -> Sequence[Finding]:
    """Check that each budget covers pods and sometimes allows a disruption."""
    unavailable = await live.list(POD_UNAVAILABLE_BUDGETS)
    disruption, pods = await live.list(POD_DISRUPTION_BUDGETS), await live.list(PODS)
    return find_budget_findings(unavailable, disruption, pods)


async def check_drains(live: Live) -> Sequence[Finding]:
    """Check that nodes of managers can be drained: that PodDisruptionBudgets can allow the eviction of a manager."""
    deployment = await live.read_deployment()
    labels = get_path(deployment or {}, "spec", "template", "metadata", "labels", default={})
    closed = sorted(
        str(budget["metadata"]["name"])
        for budget in await live.list(POD_DISRUPTION_BUDGETS, live.namespace)
        if covers_labels(budget, labels) and _is_closed(budget)
    )
    if not closed:
        return [make_fine("drains", "no PodDisruptionBudget blocks the eviction of all managers")]
    what = (
        f"PodDisruptionBudget {', '.join(closed)} never allows an eviction of a manager: "
        "no node of a manager can be drained"
    )
    fix = f"run at least two replicas, or: kubectl -n {live.namespace} delete poddisruptionbudget {closed[0]}"
    return [make_warning("drains", what, fix)]


def find_budget_findings(
    unavailable: Sequence[Document], disruption: Sequence[Document], pods: Sequence[Document]
) -> list[Finding]:
    """Return problems of PodUnavailableBudgets, and pods with several budgets. Pure."""
    doubled = list(_find_doubled(unavailable, disruption, [pod for pod in pods if is_active(pod)]))
    findings = [
        *_find_useless(unavailable),
        *(finding for finding in doubled if finding.level != FindingLevel.OK),
    ]
    count = len(unavailable)
    nothing = f"no problem with {count} PodUnavailableBudget{'s' * (count != 1)}"
    return [
        *(findings or [make_fine("budgets", nothing)]),
        *(finding for finding in doubled if finding.level == FindingLevel.OK),
    ]


def _find_useless(budgets: Sequence[Document]) -> Iterator[Finding]:
    for budget in budgets:
        status: Mapping[str, int] = budget.get("status") or {}
        if not status:
            continue  # the budget has no status; other checks report the cause
        total, desired = status.get("totalReplicas", 0), status.get("desiredAvailable", 0)
        if total == 0 and status.get("currentAvailable", 0) == 0:
            what = f"PodUnavailableBudget {_name(budget)} covers no pod"
            yield make_warning(
                "budgets", what, "correct the selector or targetRef of the budget, or delete the budget"
            )
        elif desired == 0:
            must = f"0 of {format_count(total, 'pod')} must serve"
            what = f"PodUnavailableBudget {_name(budget)} allows every disruption: {must}"
            yield make_warning("budgets", what, "lower maxUnavailable, or set protectTotalReplicas")
        elif desired >= total:
            must = f"{desired} of {format_count(total, 'pod')} must serve"
            what = f"PodUnavailableBudget {_name(budget)} never allows a disruption: {must}"
            yield make_warning(
                "budgets", what, "allow at least one unavailable pod; otherwise drains wait forever"
            )


def _find_doubled(
    unavailable: Sequence[Document], disruption: Sequence[Document], pods: Sequence[Document]
) -> Iterator[Finding]:
    """Yield findings about pods with several budgets. A pod with two PodDisruptionBudgets can never be evicted. The
    same is true for a pod with two budgets if one of them never allows a disruption. For other pods, the finding only
    states that both budgets must allow an eviction.
    """
    closed = {
        (entry["metadata"]["namespace"], entry["metadata"]["name"])
        for entry in unavailable
        if _allows_nothing(entry)
    }
    two: dict[tuple[bool, str], list[str]] = {}
    for pod in pods:
        namespace, name = pod["metadata"]["namespace"], str(pod["metadata"]["name"])
        own = [
            entry
            for entry in disruption
            if entry["metadata"]["namespace"] == namespace and covers_labels(entry, labels_of(pod))
        ]
        named = read_related_budget(annotations_of(pod))
        if len(own) > 1:
            names = " and ".join(sorted(str(entry["metadata"]["name"]) for entry in own))
            what = (
                f"are covered by PodDisruptionBudgets {names} of {namespace}: "
                "API servers evict no pod with two budgets"
            )
            two.setdefault((True, what), []).append(name)
        elif own and named:
            is_closed = (namespace, named) in closed or _is_closed(own[0])
            names = f"PodDisruptionBudget {own[0]['metadata']['name']} and PodUnavailableBudget {named}"
            what = f"are covered by {names} of {namespace}, and both must allow an eviction"
            what += ", and one of the two never allows a disruption" if is_closed else ""
            two.setdefault((is_closed, what), []).append(name)
    for (is_blocked, what), some in two.items():
        more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        text = f"pods {', '.join(some[:SHOWN])}{more} {what}"
        yield (
            make_warning("budgets", text, "cover each pod with one budget")
            if is_blocked
            else make_fine("budgets", text)
        )


def _allows_nothing(budget: Document) -> bool:
    status: Mapping[str, int] = budget.get("status") or {}
    total = status.get("totalReplicas", 0)
    return total > 0 and status.get("desiredAvailable", 0) >= total


def _is_closed(budget: Document) -> bool:
    """Whether a PodDisruptionBudget can never allow a disruption."""
    status: Mapping[str, int] = budget.get("status") or {}
    expected = status.get("expectedPods", 0)
    return expected > 0 and status.get("desiredHealthy", 0) >= expected


def covers_labels(budget: Document, labels: Mapping[str, str]) -> bool:
    """Whether a budget covers the pods of its namespace that have these labels."""
    try:
        return parse_selector(get_path(budget, "spec", "selector")).matches(labels)
    except SelectorError:
        return False


def _name(budget: Document) -> str:
    return f"{budget['metadata']['namespace']}/{budget['metadata']['name']}"
