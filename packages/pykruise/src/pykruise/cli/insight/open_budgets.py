"""Adds to the waits for a budget that it allows disruptions again: the next attempt of the write succeeds.

Explanation + the budgets of the object's pods ──▶ add_open_budgets() ──▶ Explanation

This module only reads, and only when a budget has rejected a write.
"""

from typing import Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.pods.reasons import Code
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS, budget_name_of

_IS_OPEN: Final = "the budget allows disruptions now"


async def add_open_budgets(client: Client, explanation: Explanation, sight: Sight) -> Explanation:
    """Return the explanation. If all budgets of the object's pods allow disruptions now, the remedy of a rejected write
    is to wait for the next attempt.
    """
    if not any(wait.code == Code.DISRUPTION_REFUSED for wait in explanation.waits):
        return explanation
    names = sorted({budget_name_of(pod) for pod in sight.pod_views if pod.is_active} - {""})
    keys = [Key(explanation.namespace, name) for name in names]
    budgets = [await read_optional(client, POD_UNAVAILABLE_BUDGETS, key) for key in keys]
    if not budgets or not all(budget is not None and _is_open(budget) for budget in budgets):
        return explanation
    waits = tuple(
        msgspec.structs.replace(
            wait,
            words=f"{wait.words}; {_IS_OPEN}",
            remedy="no action is needed: the manager tries the write again",
        )
        if wait.code == Code.DISRUPTION_REFUSED
        else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _is_open(budget: Document) -> bool:
    """Whether the budget allows a disruption, from its status for its present spec."""
    is_observed = get_path(budget, "status", "observedGeneration") == budget["metadata"].get("generation")
    return is_observed and int(get_path(budget, "status", "unavailableAllowed", default=0)) > 0
