"""Objects that pod admission reads: budgets, the evicted pod, its CloneSet, owners of owners. Pod admission also writes
one thing: the record of an eviction that waits.

LiveBudgets     reads budgets from the API server each time: for reviews that run in the same process as a sandbox
CachedBudgets   reads budgets from a cache: a pod without a budget costs no request

Both remember the owners of owners for a short time.
"""

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.values.owners import OwnerReference
from pykruise.plans.targets import CLONE_SET, CLONE_SETS, OwnerReader
from pykruise.plans.views import BUDGET_VIEWS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import BudgetView
from pykruise.pods.workload.evictions import is_surging_first
from pykruise.runtime.object_reader import CachedObjects, LiveObjects


class BudgetReader(Protocol):
    """Reads of admission. All methods raise KubeError when the API server does not respond."""

    async def list_in_namespace(self, namespace: str) -> Sequence[BudgetView]:
        """Budgets of a namespace."""
        ...

    async def find_newest(self, key: Key) -> BudgetView | None:
        """The newest known budget: from a current cache if there is one, otherwise from the API server. None: it does
        not exist.
        """
        ...

    async def read_fresh(self, key: Key) -> BudgetView | None:
        """The budget as currently stored; None: it does not exist."""
        ...

    async def patch_status(self, view: BudgetView, patch: Document) -> BudgetView:
        """Merge the patch into the status if the object is unchanged. Raises ConflictError otherwise."""
        ...

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """The controller of an owner; None: it has none. Raises OwnerMissingError."""
        ...

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        """A pod; None: it does not exist."""
        ...

    async def read_cloneset(self, namespace: str, name: str) -> Document | None:
        """A CloneSet; None: it does not exist."""
        ...

    async def record_eviction(self, pod: Document, record: Document) -> None:
        """Merge the record of a requested eviction into the pod."""
        ...


async def find_surging_owner(pod: PodView, reader: BudgetReader) -> str:
    """Name of the CloneSet that creates a successor of this pod before the pod is evicted; empty: no CloneSet does
    this.
    """
    owner = pod.controller
    if owner is None or (owner.group, owner.kind) != CLONE_SET:
        return ""
    cloneset = await reader.read_cloneset(pod.namespace, owner.name)
    return owner.name if is_surging_first(cloneset, owner_uid=owner.uid) else ""


class _Cluster:
    """Reads objects of kinds other than the budget."""

    def __init__(self, client: Callable[[], Client], *, clock: Clock) -> None:
        self._of_cluster = client
        self._owners = OwnerReader(client, clock=clock)

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        return await self._owners.read_controller(owner, namespace)

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        return await self._read(PODS, namespace, name)

    async def read_cloneset(self, namespace: str, name: str) -> Document | None:
        return await self._read(CLONE_SETS, namespace, name)

    async def record_eviction(self, pod: Document, record: Document) -> None:
        metadata = pod["metadata"]
        # The patch contains the uid, so that a new pod of the same name does not get the record.
        patch = {"metadata": {"uid": metadata["uid"], **record["metadata"]}}
        await self._of_cluster().patch(
            PODS, metadata["namespace"], metadata["name"], patch, patch_type=PatchType.MERGE
        )

    async def _read(self, resource: Resource, namespace: str, name: str) -> Document | None:
        try:
            return decode(await self._of_cluster().get(resource, namespace, name))
        except NotFoundError:
            return None


class LiveBudgets(_Cluster, LiveObjects[BudgetView]):
    """A `BudgetReader` that reads budgets from the API server each time."""

    def __init__(self, client: Callable[[], Client], *, clock: Clock) -> None:
        _Cluster.__init__(self, client, clock=clock)
        LiveObjects.__init__(self, client, BUDGET_VIEWS)


class CachedBudgets(_Cluster, CachedObjects[BudgetView]):
    """A `BudgetReader` that reads budgets from a cache."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        _Cluster.__init__(self, lambda: client, clock=clock)
        CachedObjects.__init__(self, client, BUDGET_VIEWS, clock=clock, rng=rng)
