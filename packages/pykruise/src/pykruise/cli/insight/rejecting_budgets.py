"""The budgets that reject a write of a workload now: whether they allow it again, and what a person must change.

Explanation + the budgets of the object's pods ──▶ add_rejecting_budgets() ──▶ Explanation

This module only reads. The budgets are read as `explain pub/NAME` reads them.
"""

from typing import Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explaining import CONTINUES_LATER
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.unavailability import BudgetSight, look_at
from pykruise.kinds.podunavailablebudget.plan import find_stale_total
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import NEEDS_A_PERSON, Code
from pykruise.pods.workload.budgets import budget_name_of

_IS_OPEN: Final = "the budget allows disruptions now"


async def add_rejecting_budgets(
    client: Client, explanation: Explanation, sight: Sight, *, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    """Return the explanation. If all budgets of the object's pods allow disruptions now, the remedy of a rejected write
    is to wait for the next attempt, and no person is needed. If a budget counts more pods than its workload wants, the
    remedy is to correct it.
    """
    if not any(wait.code == Code.DISRUPTION_REFUSED for wait in explanation.waits):
        return explanation
    names = sorted({budget_name_of(pod) for pod in sight.pod_views if pod.is_active} - {""})
    try:
        budgets = [
            await look_at(client, Key(explanation.namespace, name), now=now, settings=settings)
            for name in names
        ]
    except ApiError:
        return explanation  # a budget does not exist, or the user may not read it
    stale = next(
        (reason for each in budgets if (reason := find_stale_total(each.snapshot)) is not None), None
    )
    if stale is not None:
        return _replace_refusals(explanation, words=stale.message, remedy=stale.remedy)
    if not budgets or not all(map(_is_open, budgets)):
        return explanation
    remedy = "no action is needed: the manager tries the write again"
    others = {wait.code for wait in explanation.waits} - {Code.DISRUPTION_REFUSED}
    is_only_late = explanation.phase is Phase.DEGRADED and not others & NEEDS_A_PERSON
    return msgspec.structs.replace(
        _replace_refusals(explanation, words=_IS_OPEN, remedy=remedy),
        phase=Phase.PROGRESSING if is_only_late else explanation.phase,
        next=tuple(line for line in explanation.next if line != CONTINUES_LATER),
    )


def _replace_refusals(explanation: Explanation, *, words: str, remedy: str) -> Explanation:
    """Return the explanation in which each wait for a budget has these additional words and this remedy."""

    def change(wait: Wait) -> Wait:
        if wait.code != Code.DISRUPTION_REFUSED:
            return wait
        return msgspec.structs.replace(wait, words=f"{wait.words}; {words}", remedy=remedy)

    return msgspec.structs.replace(explanation, waits=tuple(map(change, explanation.waits)))


def _is_open(sight: BudgetSight) -> bool:
    """Whether the status of the budget is about its present spec, and allows a disruption."""
    document: Document = sight.document
    is_observed = get_path(document, "status", "observedGeneration") == document["metadata"].get("generation")
    return is_observed and int(get_path(document, "status", "unavailableAllowed", default=0)) > 0
