"""Insights of kinds that own no pods: they change other kinds' pods or create workloads, so each has its own
functions.

a kind's folder (sidecars/, spreads/) or module (unavailability.py) ──▶ Attached ──▶ explain, plan
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from pykruise.cli.insight.effect_forecast import Outlook
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.sidecars.explaining import explain_sidecars
from pykruise.cli.insight.sidecars.forecasting import forecast_sidecars
from pykruise.cli.insight.sidecars.look import look_at as look_at_sidecars
from pykruise.cli.insight.spreads.explaining import explain_spread
from pykruise.cli.insight.spreads.forecasting import forecast_spread
from pykruise.cli.insight.spreads.look import look_at as look_at_spread
from pykruise.cli.insight.spreads.refused_patches import see_refused
from pykruise.cli.insight.unavailability import explain_budget, forecast_budget
from pykruise.cli.insight.unavailability import look_at as look_at_budget
from pykruise.cli.insight.united.explaining import explain_united
from pykruise.cli.insight.united.forecasting import forecast_united
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.manager.settings import ManagerSettings


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """Insight of one kind."""

    explain: Callable[[Client, Key, Instant, ManagerSettings | None], Awaitable[Explanation]]
    """Read and explain the object. Raises NotFoundError, and KubeError for reads that fail."""
    plan: Callable[[Client, Document, Key, Instant, ManagerSettings | None], Awaitable[Outlook]]
    """Read the objects and forecast the result of applying the manifest. Raises KubeError for reads that fail."""
    has_own_pods: bool = False
    """Whether the kind's objects, or the workloads that they create, own pods. False: the pods have other owners."""
    records_tries: bool = True
    """Whether the events about a rejected write record each attempt. False: an event records only the first attempt in
    several minutes.
    """


async def _explain_sidecars(
    client: Client, key: Key, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    return explain_sidecars(await look_at_sidecars(client, key.name, now=now, settings=settings))


async def _explain_spread(
    client: Client, key: Key, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    sight = await look_at_spread(client, key, now=now, settings=settings)
    return explain_spread(await see_refused(client, sight))


async def _explain_budget(
    client: Client, key: Key, now: Instant, settings: ManagerSettings | None
) -> Explanation:
    return explain_budget(await look_at_budget(client, key, now=now, settings=settings))


ATTACHED: Final[Mapping[str, Attached]] = {
    "podunavailablebudget": Attached(explain=_explain_budget, plan=forecast_budget),
    "uniteddeployment": Attached(explain=explain_united, plan=forecast_united, has_own_pods=True),
    "sidecarset": Attached(explain=_explain_sidecars, plan=forecast_sidecars, records_tries=False),
    "workloadspread": Attached(explain=_explain_spread, plan=forecast_spread),
}
"""Insights by name of the kind."""
