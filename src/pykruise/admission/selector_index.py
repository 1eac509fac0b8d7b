"""Which pods are selected by what is stored: by SidecarSets, WorkloadSpreads and PodUnavailableBudgets.

caches of webhooks ──▶ SelectorIndex.known()   without a request, perhaps a moment old
API server         ──▶ SelectorIndex.read()    as it is now
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from pykruise.kinds.podunavailablebudget.readers import CachedBudgets
from pykruise.kinds.sidecarset.readers import CachedSidecars
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kinds.workloadspread.readers import CachedSpreads
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kinds.workloadspread.view import SpreadView, project_spread
from pykruise.kube.cache import Change
from pykruise.kube.cel import Interests, Meant
from pykruise.kube.client import Client
from pykruise.kube.errors import NotFoundError
from pykruise.kube.resources import Resource
from pykruise.kube.selectors import EVERYTHING
from pykruise.pods.budgets import POD_UNAVAILABLE_BUDGETS, BudgetView, project_budget

__all__ = ["SelectorIndex", "list_selectors"]


class SelectorIndex:
    """Both ways to know. Without `spreads`, or `budgets`, pods of these do not count."""

    def __init__(
        self,
        client: Client,
        sidecars: CachedSidecars,
        spreads: CachedSpreads | None,
        budgets: CachedBudgets | None = None,
    ) -> None:
        self._client = client
        self._sidecars, self._spreads, self._budgets = sidecars, spreads, budgets

    def known(self) -> Interests | None:
        """None: something has not been read yet."""
        sets = self._sidecars.known()
        spreads: Sequence[SpreadView] | None = () if self._spreads is None else self._spreads.objects.known()
        budgets: Sequence[BudgetView] | None = () if self._budgets is None else self._budgets.known()
        return None if sets is None or spreads is None or budgets is None else _index(sets, spreads, budgets)

    async def read(self) -> Interests:
        """Raises KubeError."""
        return await list_selectors(
            self._client,
            with_spreads=self._spreads is not None,
            with_budgets=self._budgets is not None,
        )

    def subscribe(self, handler: Callable[[], None]) -> None:
        """`handler` is called when something selects other pods than before, or none any more."""

        def changed(change: Change[SidecarSetView]) -> None:
            if (change.old and change.old.meant) != (change.new and change.new.meant):
                handler()

        def came_or_went(change: Change[Any]) -> None:
            if change.old is None or change.new is None:
                handler()

        self._sidecars.sets.subscribe(changed)
        if self._spreads is not None:
            self._spreads.cache.subscribe(came_or_went)
        if self._budgets is not None:  # what a budget is about cannot be changed
            self._budgets.cache.subscribe(came_or_went)


async def list_selectors(client: Client, *, with_spreads: bool, with_budgets: bool = False) -> Interests:
    """By a list of each kind. Raises KubeError."""
    sets = [project_sidecarset(raw) for raw in await _listed(client, SIDECAR_SETS)]
    spreads = await _listed(client, WORKLOAD_SPREADS) if with_spreads else ()
    budgets = await _listed(client, POD_UNAVAILABLE_BUDGETS) if with_budgets else ()
    return _index(sets, [project_spread(raw) for raw in spreads], [project_budget(raw) for raw in budgets])


async def _listed(client: Client, resource: Resource) -> Sequence[bytes | msgspec.Raw]:
    try:
        return (await client.list(resource)).items
    except NotFoundError:
        return ()  # the kind is not installed


def _index(
    sets: Iterable[SidecarSetView], spreads: Iterable[SpreadView], budgets: Iterable[BudgetView]
) -> Interests:
    places = sorted({one.namespace for one in spreads})
    return {
        SIDECAR_SETS.kind: [one.meant for one in sets],
        WORKLOAD_SPREADS.kind: [Meant(selector=EVERYTHING, namespaces=(place,)) for place in places],
        POD_UNAVAILABLE_BUDGETS.kind: [
            # Of a workload's pods the labels are not known.
            Meant(selector=one.selector if one.target is None else EVERYTHING, namespaces=(one.namespace,))
            for one in budgets
        ],
    }
