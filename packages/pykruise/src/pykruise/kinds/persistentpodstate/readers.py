"""What is asked of a cluster beside caches: PersistentPodStates for webhooks, the white list, workloads that are on it.

LiveStates     asks the API server each time: for reviews in the process of a sandbox
CachedStates   the same over a cache of PersistentPodStates, which is kept while `run()` runs: a pod that no
               PersistentPodState remembers costs no request

The white list is remembered for a moment.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    BUILT_IN,
    STATE_VIEWS,
    StateView,
    WorkloadView,
    project_state,
    workload_of,
)
from pykruise.kube.cache import Cache
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.errors import NotFoundError
from pykruise.kube.group_kinds import GroupKind, group_kind
from pykruise.kube.rbac import READ, Right, on
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.plans.targets import WhiteListReader, WorkloadReader
from pykruise.pods.white_list import CONFIGURATION, STATEFUL_KINDS, WhiteList
from pykruise.runtime.views import BY_NAMESPACE

__all__ = ["RIGHTS", "CachedStates", "KindReader", "LiveStates", "StateReader"]

RIGHTS: tuple[Right, ...] = (
    on(PERSISTENT_POD_STATES, *READ, why="PersistentPodState: to see them"),
    on(
        CONFIG_MAPS,
        *READ,
        names=(CONFIGURATION,),
        in_namespace=True,
        why="PersistentPodState: whose pods are remembered besides",
    ),
)
"""What both admission and controller need. Kinds on the white list an administrator has to allow apart."""

_NOT_SERVED: Final = 404
_POLL_S: Final = 0.2


class KindReader:
    """Reads the white list, and workloads of kinds that are on it."""

    def __init__(self, client: Callable[[], Client], *, namespace: str, clock: Clock) -> None:
        """`namespace`: the manager's own, where the white list is."""
        self._client = client
        self._workloads = WorkloadReader(client)
        self._listed = WhiteListReader(client, namespace=namespace, key=STATEFUL_KINDS, clock=clock)

    async def white_list(self) -> WhiteList:
        """Further kinds of workloads. Raises WhiteListError, KubeError."""
        return await self._listed.read()

    async def is_supported(self, kind: GroupKind | None) -> bool:
        """Whether pods of this kind are remembered. Raises WhiteListError, KubeError."""
        if kind in (ADVANCED, BUILT_IN):
            return True
        return kind is not None and (await self.white_list()).find(kind) is not None

    async def workload(self, api_version: str, kind: str, namespace: str, name: str) -> WorkloadView | None:
        """A workload of a kind on the white list; None: it is not there. Raises KubeError."""
        found = group_kind(api_version, kind)
        if found is None:
            return None
        version = api_version.rpartition("/")[2]
        document = await self._workloads.read(found, namespace, name, version=version)
        return workload_of(document) if document is not None else None


class StateReader(Protocol):
    """What admission asks. All raise KubeError when it cannot be known."""

    async def states(self, namespace: str) -> Sequence[StateView]:
        """Those of a namespace."""
        ...

    async def is_supported(self, kind: GroupKind | None) -> bool:
        """See KindReader."""
        ...


class LiveStates(KindReader):
    """A `StateReader` that asks the API server."""

    async def states(self, namespace: str) -> Sequence[StateView]:
        try:
            found = await self._client().list(PERSISTENT_POD_STATES, namespace)
        except NotFoundError:
            return ()  # the kind is not installed
        return [project_state(raw) for raw in found.items]


class CachedStates(LiveStates):
    """A `StateReader` over a cache. Where it is not filled yet, a question waits for it; while its watch is broken, the
    API server is asked."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, rng: random.Random) -> None:
        super().__init__(lambda: client, namespace=namespace, clock=clock)
        self.cache: Cache[StateView] = Cache(
            client,
            PERSISTENT_POD_STATES,
            project=project_state,
            indexes=STATE_VIEWS.indexes,
            clock=clock,
            rng=rng,
        )

    @property
    def is_installed(self) -> bool:
        """Whether the API server serves PersistentPodStates, as far as is known."""
        stats = self.cache.stats()
        return stats.synced or stats.last_code != _NOT_SERVED

    def problems(self) -> Sequence[str]:
        """Why pods cannot be brought back yet."""
        if not self.is_installed or self.cache.synced:
            return ()
        return ("PersistentPodStates have not been read yet",)

    def known(self) -> Sequence[StateView] | None:
        """All of them, without waiting; None: they have not been read yet."""
        if self.is_installed and not self.cache.synced:
            return None
        return self.cache.values()

    async def run(self) -> Any:
        """Mirror until cancelled."""
        await self.cache.run()

    async def states(self, namespace: str) -> Sequence[StateView]:
        # Whether it is installed may come out only while this waits.
        while self.is_installed and not self.cache.synced:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self.cache.wait_synced()
        if self.cache.synced and not self.cache.is_connected:
            return await super().states(namespace)
        return self.cache.by_index(BY_NAMESPACE, namespace)
