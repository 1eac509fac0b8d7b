"""Reads of pod admission besides the request: budgets, the evicted pod, owners of owners.

LiveBudgets     asks the API server each time: for reviews in the process of a sandbox
CachedBudgets   the same over a cache of budgets: a pod that no budget protects costs no request
"""

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.values.owners import OwnerReference
from pykruise.plans.targets import OwnerReader
from pykruise.plans.views import BUDGET_VIEWS
from pykruise.pods.workload.budgets import BudgetView
from pykruise.runtime.object_reader import CachedObjects, LiveObjects


class BudgetReader(Protocol):
    """Reads of admission. All raise KubeError when it cannot be known."""

    async def in_namespace(self, namespace: str) -> Sequence[BudgetView]:
        """Budgets of a namespace."""
        ...

    async def newest(self, key: Key) -> BudgetView | None:
        """The newest that is known without asking the API server, where there is such a thing."""
        ...

    async def fresh(self, key: Key) -> BudgetView | None:
        """As it is stored now; None: it is gone."""
        ...

    async def patch_status(self, view: BudgetView, patch: Document) -> BudgetView:
        """Merge this into the status, if the object is unchanged. Raises ConflictError otherwise."""
        ...

    async def above(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """The controller of an owner; None: it has none. Raises OwnerMissingError."""
        ...

    async def pod(self, namespace: str, name: str) -> Document | None:
        """A pod; None: it is not there."""
        ...


class _Cluster:
    """Reads of other kinds."""

    def __init__(self, client: Callable[[], Client], *, clock: Clock) -> None:
        self._of_cluster = client
        self._owners = OwnerReader(client, clock=clock)

    async def above(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        return await self._owners.above(owner, namespace)

    async def pod(self, namespace: str, name: str) -> Document | None:
        try:
            return decode(await self._of_cluster().get(PODS, namespace, name))
        except NotFoundError:
            return None


class LiveBudgets(_Cluster, LiveObjects[BudgetView]):
    """A `BudgetReader` that asks the API server."""

    def __init__(self, client: Callable[[], Client], *, clock: Clock) -> None:
        _Cluster.__init__(self, client, clock=clock)
        LiveObjects.__init__(self, client, BUDGET_VIEWS)


class CachedBudgets(_Cluster, CachedObjects[BudgetView]):
    """A `BudgetReader` over a cache."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        _Cluster.__init__(self, lambda: client, clock=clock)
        CachedObjects.__init__(self, client, BUDGET_VIEWS, clock=clock, rng=rng)
