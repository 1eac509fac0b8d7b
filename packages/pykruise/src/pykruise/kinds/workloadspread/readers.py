"""Objects that pod admission reads: WorkloadSpreads, owners, targets, the white list.

LiveSpreads     reads WorkloadSpreads from the API server each time: for reviews that run in the same process as a
                sandbox
CachedSpreads   the same with a cache of WorkloadSpreads, which `run()` keeps up to date: a pod without a
                WorkloadSpread costs no request

Owners and the white list are requested when a pod needs them, and cached for a short time.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from pykruise.kinds.workloadspread.limits import needs_replicas
from pykruise.kinds.workloadspread.targets import BUILT_IN, PathError, replicas_of
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, Subset, SubsetStatus
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS, SpreadView
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.owners import OwnerReference
from pykruise.plans.targets import (
    TARGET_RESOURCES,
    OwnerReader,
    WhiteListReader,
    WorkloadReader,
    read_configuration,
)
from pykruise.pods.workload.allowed_workloads import (
    CONFIGURATION,
    AllowedList,
    WhiteList,
    WhiteListError,
    read_white_list,
)
from pykruise.runtime.object_reader import CachedObjects, LiveObjects

WHITE_LIST_KEY: Final = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

RIGHTS: tuple[Right, ...] = (
    make_right(WORKLOAD_SPREADS, *READ, why="WorkloadSpread: to watch its objects"),
    make_right(
        WORKLOAD_SPREADS, "patch", subresource="status", why="WorkloadSpread: to record the slots of pods"
    ),
    *(
        make_right(resource, *READ, why="WorkloadSpread: to read the workloads whose pods are spread")
        for resource in TARGET_RESOURCES.values()
    ),
    Right(
        group="*",
        resource="*/scale",
        verbs=("get",),
        why="WorkloadSpread: to read the replicas of workloads on the white list",
    ),
    make_right(PODS, "get", why="WorkloadSpread: to read the pod that is evicted"),
    make_right(
        CONFIG_MAPS,
        *READ,
        names=(CONFIGURATION,),
        in_namespace=True,
        why="WorkloadSpread: to read the white list of other kinds",
    ),
)
"""Permissions that both admission and the controller need. For kinds on the white list, an administrator must grant
further permissions.
"""


class TargetReader(WorkloadReader):
    """Reads workloads of any kind, and the white list, from the API server."""

    def __init__(self, client: Callable[[], Client], *, namespace: str) -> None:
        """`namespace`: the manager's own namespace, which contains the white list."""
        super().__init__(client)
        self._namespace = namespace

    async def read_white_list(self) -> WhiteList:
        """Read the white list of further kinds of workloads. Raises WhiteListError, KubeError."""
        return read_white_list(await read_configuration(self._client(), self._namespace, WHITE_LIST_KEY))

    async def read_target(self, view: SpreadView) -> Document | None:
        """Read the workload whose pods are spread; None if there is no such workload. Raises KubeError."""
        result = view.target
        if result is None:
            return None
        return await self.read(result[0], view.namespace, result[1], version=_read_target_version(view))

    async def scale(self, view: SpreadView) -> Document | None:
        """Read the scale subresource of the workload; None if there is no workload, or it has no scale. Raises
        KubeError.
        """
        result = view.target
        if result is None:
            return None
        return await self.read_scale(result[0], view.namespace, result[1], version=_read_target_version(view))

    async def read_replicas(self, view: SpreadView) -> int:
        """Return the replicas of the workload; 0 if there is no workload, or if the path on the white list leads to no
        number. If the workload has neither a number nor a scale, return the number of its pods in the status of the
        spread. Raises PathError (a wrong path of the target filter), KubeError.
        """
        target, document = view.target, await self.read_target(view)
        if target is None or document is None:
            return 0
        listed = await self._find_listed(target[0])
        path = listed.replicas_path if listed is not None else ""
        try:
            number = replicas_of(document, target[0], paths=view.replicas_paths, listed_path=path)
        except PathError:
            if view.replicas_paths:
                raise
            return 0
        if number is None:
            wanted = get_path(await self.scale(view), "spec", "replicas")
            number = wanted if isinstance(wanted, int) else None
        return (
            sum(status.replicas for status in view.status.subset_statuses or ()) if number is None else number
        )

    async def _find_listed(self, kind: GroupKind) -> AllowedList | None:
        """Return the entry of a kind on the white list; None also for kinds that need no entry, and if the list cannot
        be parsed. Raises KubeError.
        """
        if kind in BUILT_IN:
            return None
        try:
            return (await self.read_white_list()).find(kind)
        except WhiteListError:
            return None


def _read_target_version(view: SpreadView) -> str:
    """Version of the target's API; empty: the spec cannot be read."""
    return view.spec.target_ref.api_version.rpartition("/")[2] if view.spec is not None else ""


class SpreadReader(Protocol):
    """Reads of admission. All methods raise KubeError when the API server does not respond."""

    async def list_spreads(self, namespace: str) -> Sequence[SpreadView]:
        """Return the WorkloadSpreads of a namespace, in any order."""
        ...

    async def find_newest(self, key: Key) -> SpreadView | None:
        """Return the newest known object: from a current cache if there is one, otherwise from the API server."""
        ...

    async def read_fresh(self, key: Key) -> SpreadView | None:
        """Read the stored object; None: it no longer exists."""
        ...

    async def write(self, view: SpreadView, lists: Mapping[str, Sequence[SubsetStatus]]) -> SpreadView:
        """Store the statuses of the subsets for each version of pods in `lists`, if the stored object still has the
        resourceVersion of `view`. Raises ConflictError otherwise. Other versions keep their statuses.
        """
        ...

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """Read the controller of an owner; None: it has none. Raises OwnerMissingError."""
        ...

    async def read_target(self, view: SpreadView) -> Document | None:
        """See TargetReader."""
        ...

    async def read(self, kind: GroupKind, namespace: str, name: str, *, version: str = "") -> Document | None:
        """See TargetReader."""
        ...

    async def read_replicas(self, view: SpreadView) -> int:
        """See TargetReader."""
        ...

    async def read_white_list(self) -> WhiteList:
        """See TargetReader."""
        ...

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        """Read a pod; None: it does not exist."""
        ...


class LiveSpreads(TargetReader):
    """A `SpreadReader` that reads from the API server. It remembers owners and the white list for a short time."""

    def __init__(
        self,
        client: Callable[[], Client],
        *,
        namespace: str,
        clock: Clock,
        objects: LiveObjects[SpreadView] | None = None,
    ) -> None:
        super().__init__(client, namespace=namespace)
        self._objects = objects or LiveObjects(client, SPREAD_VIEWS)
        self._owners = OwnerReader(client, clock=clock)
        self._white_list = WhiteListReader(client, namespace=namespace, key=WHITE_LIST_KEY, clock=clock)

    async def list_spreads(self, namespace: str) -> Sequence[SpreadView]:
        return await self._objects.list_in_namespace(namespace)

    async def find_newest(self, key: Key) -> SpreadView | None:
        return await self._objects.find_newest(key)

    async def read_fresh(self, key: Key) -> SpreadView | None:
        return await self._objects.read_fresh(key)

    async def write(self, view: SpreadView, lists: Mapping[str, Sequence[SubsetStatus]]) -> SpreadView:
        return await self._objects.patch_status(view, build_places_patch(lists))

    async def read_controller(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        return await self._owners.read_controller(owner, namespace)

    async def read_white_list(self) -> WhiteList:
        return await self._white_list.read()

    async def read_pod(self, namespace: str, name: str) -> Document | None:
        try:
            return decode(await self._client().get(PODS, namespace, name))
        except NotFoundError:
            return None


class CachedSpreads(LiveSpreads):
    """A `SpreadReader` that reads WorkloadSpreads from a cache (runtime/object_reader.py)."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, rng: random.Random) -> None:
        self.objects = CachedObjects(client, SPREAD_VIEWS, clock=clock, rng=rng)
        super().__init__(lambda: client, namespace=namespace, clock=clock, objects=self.objects)

    def list_problems(self) -> Sequence[str]:
        """Reasons why reviews would have to wait."""
        return self.objects.list_problems()

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        await self.objects.run()


async def read_replicas_for(subsets: Sequence[Subset], view: SpreadView, reader: SpreadReader) -> int:
    """Return the replicas to which the percentages of these subsets refer. If no subset has a percentage, the workload
    is not read, and the result is 0.

    Raises PathError, KubeError.
    """
    return await reader.read_replicas(view) if needs_replicas(subsets) else 0


def build_places_patch(lists: Mapping[str, Sequence[SubsetStatus]]) -> Document:
    """Build the patch that stores the statuses of the subsets for these versions of pods (versions.py)."""
    result: dict[str, Any] = {
        version: msgspec.to_builtins(list(entries)) for version, entries in lists.items()
    }
    return {"status": {"versionedSubsetStatuses": result}}
