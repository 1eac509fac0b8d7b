"""Reads of PersistentPodStates for webhooks, of the white list, and of workloads of kinds on the white list.

LiveStates     reads PersistentPodStates from the API server each time: for reviews that run in the same process as a
               sandbox
CachedStates   reads PersistentPodStates from a cache, which is kept up to date while `run()` runs: a pod without a
               PersistentPodState costs no request

The white list is cached for a short time.
"""

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    BUILT_IN,
    STATE_VIEWS,
    RecordedWorkload,
    StateView,
    workload_of,
)
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.kube.values.group_kinds import GroupKind, group_kind
from pykruise.plans.targets import WhiteListReader, WorkloadReader
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, STATEFUL_KINDS, WhiteList
from pykruise.runtime.object_reader import CachedObjects, LiveObjects

RIGHTS: tuple[Right, ...] = (
    make_right(PERSISTENT_POD_STATES, *READ, why="PersistentPodState: to watch its objects"),
    make_right(
        CONFIG_MAPS,
        *READ,
        names=(CONFIGURATION,),
        in_namespace=True,
        why="PersistentPodState: to read the other kinds whose pods are recorded",
    ),
)
"""RBAC rules that both admission and the controller need. For kinds on the white list, an administrator must grant
permissions separately.
"""


class KindReader:
    """Reads the white list, and workloads of kinds on this list."""

    def __init__(self, client: Callable[[], Client], *, namespace: str, clock: Clock) -> None:
        """Create a reader. `namespace` is the manager's namespace, which contains the white list."""
        self._workloads = WorkloadReader(client)
        self._listed = WhiteListReader(client, namespace=namespace, key=STATEFUL_KINDS, clock=clock)

    async def read_white_list(self) -> WhiteList:
        """Return the further kinds of workloads. Raises WhiteListError, KubeError."""
        return await self._listed.read()

    async def is_supported(self, kind: GroupKind | None) -> bool:
        """Whether pods of this kind can be recorded. Raises WhiteListError, KubeError."""
        if kind in (ADVANCED, BUILT_IN):
            return True
        return kind is not None and (await self.read_white_list()).find(kind) is not None

    async def read_workload(
        self, api_version: str, kind: str, namespace: str, name: str
    ) -> RecordedWorkload | None:
        """Return a workload of a kind on the white list; None if it does not exist or its kind is not served. Raises
        KubeError.
        """
        result = group_kind(api_version, kind)
        if result is None:
            return None
        version = api_version.rpartition("/")[2]
        document = await self._workloads.read(result, namespace, name, version=version)
        return workload_of(document) if document is not None else None


class StateReader(Protocol):
    """Reads that admission needs. All methods raise KubeError if the API server does not respond."""

    async def list_states(self, namespace: str) -> Sequence[StateView]:
        """Return the PersistentPodStates of a namespace."""
        ...

    async def is_supported(self, kind: GroupKind | None) -> bool:
        """See KindReader."""
        ...


class LiveStates(KindReader):
    """A `StateReader` that reads PersistentPodStates from the API server each time."""

    def __init__(
        self,
        client: Callable[[], Client],
        *,
        namespace: str,
        clock: Clock,
        objects: LiveObjects[StateView] | None = None,
    ) -> None:
        super().__init__(client, namespace=namespace, clock=clock)
        self._objects = objects or LiveObjects(client, STATE_VIEWS)

    async def list_states(self, namespace: str) -> Sequence[StateView]:
        return await self._objects.list_in_namespace(namespace)


class CachedStates(LiveStates):
    """A `StateReader` that reads from a cache of PersistentPodStates (runtime/object_reader.py)."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, rng: random.Random) -> None:
        self.objects = CachedObjects(client, STATE_VIEWS, clock=clock, rng=rng)
        super().__init__(lambda: client, namespace=namespace, clock=clock, objects=self.objects)

    def list_problems(self) -> Sequence[str]:
        """Return the reasons why reviews would have to wait."""
        return self.objects.list_problems()

    async def run(self) -> None:
        """Keep the cache up to date until this is cancelled."""
        await self.objects.run()
