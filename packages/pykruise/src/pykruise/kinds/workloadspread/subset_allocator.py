"""Allocates and releases slots of subsets: many at the same time, but never one slot twice.

admission of a pod ──▶ SubsetAllocator.allocate() ──┐
deletion of a pod  ──▶ SubsetAllocator.release()  ──┴▶ cache/batched_updates.py: one status write for all ──▶ answers

A slot that is free only because the deletion of its pod was admitted is allocated only after the API server shows
that the pod is terminating.
"""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from pykruise.kinds.workloadspread.limits import LimitError, limit_of, needs_replicas
from pykruise.kinds.workloadspread.readers import SpreadReader, read_replicas_for
from pykruise.kinds.workloadspread.slots import (
    Allocated,
    allocate_slot,
    find_unconfirmed_deletions,
    make_fresh_entries,
    needs_limit,
    release_slot,
)
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, SubsetStatus
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.cache.batched_updates import BatchedUpdates, BatchStats, UnsettledError, UpdateRequest
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.pods.view.pod_view import is_active

Lists = dict[str, Sequence[SubsetStatus]]
"""Lists to store, by version."""


class _SlotRequest(UpdateRequest, kw_only=True):
    """A request for a slot that waits for a write of the status, and its result."""

    version: str
    pod_name: str
    subset: str = ""
    """Subset of a slot that is released; empty: a slot must be allocated."""
    taken: Allocated = Allocated()


class SubsetAllocator:
    """Allocates and releases slots, for all pods that this process admits."""

    def __init__(self, reader: SpreadReader, *, clock: Clock, rng: random.Random) -> None:
        def fresh_id() -> str:
            return str(uuid.UUID(bytes=rng.randbytes(16), version=4))

        self.updates = BatchedUpdates(_SlotUpdates(reader, clock=clock, fresh_id=fresh_id), rng=rng)

    def read_stats(self) -> BatchStats:
        """Counters so far."""
        return self.updates.read_stats()

    async def allocate(self, view: SpreadView, *, version: str, pod_name: str) -> Allocated:
        """Allocate a slot for a new pod. The result has no subset when no slot is free or the WorkloadSpread was
        deleted.

        Raises UnsettledError, and the errors of reading the workload's replicas.
        """
        request = _SlotRequest(version=version, pod_name=pod_name)
        await self.updates.settle(view, request)
        return request.taken

    async def release(self, view: SpreadView, *, version: str, pod_name: str, subset: str) -> None:
        """Release the slot of a deleted pod of `subset`.

        Raises UnsettledError, and the errors of reading the workload's replicas.
        """
        await self.updates.settle(view, _SlotRequest(version=version, pod_name=pod_name, subset=subset))


class _SlotUpdates:
    """Applies requests for slots to the status of WorkloadSpreads.

    `fresh_id` draws the key of a slot for a pod without a name.
    """

    kind = WORKLOAD_SPREADS.kind

    def __init__(self, reader: SpreadReader, *, clock: Clock, fresh_id: Callable[[], str]) -> None:
        self._reader = reader
        self._clock = clock
        self._fresh_id = fresh_id
        self._seen_going: dict[str, frozenset[tuple[str, str]]] = {}
        """Pods in `deletingPods` that a read has shown to terminate, by uid of the WorkloadSpread; each pod has its
        time in `deletingPods`.
        """

    async def find_newest(self, key: Key) -> SpreadView | None:
        return await self._reader.find_newest(key)

    async def read_fresh(self, key: Key) -> SpreadView | None:
        return await self._reader.read_fresh(key)

    async def write(self, view: SpreadView, change: Lists) -> SpreadView:
        return await self._reader.write(view, change)

    def settle_without(self, batch: Sequence[_SlotRequest]) -> None:
        for request in batch:
            request.taken = Allocated()

    def is_free(self, view: SpreadView, request: _SlotRequest) -> bool:
        entries = view.list_entries(request.version)
        if not entries and not needs_replicas(view.subsets):
            entries = make_fresh_entries(view.subsets)
        return bool(entries) and self._apply_request(entries, request) is None

    async def decide(self, view: SpreadView, batch: Sequence[_SlotRequest]) -> Lists | None:
        going = await self._find_terminating(view, batch)
        return await self._apply_batch(view, batch, going) or None

    async def _find_terminating(self, view: SpreadView, batch: Sequence[_SlotRequest]) -> Collection[str]:
        """Return the pods in `deletingPods` that are known to terminate. A pod is read only if its slot is needed."""
        takes = Counter(request.version for request in batch if not request.subset)
        noted = {
            pod
            for version in takes
            for entry in view.list_entries(version)
            for pod in (entry.deleting_pods or {}).items()
        }
        seen = self._seen_going.pop(view.uid, frozenset()) & noted
        for version, wanted in takes.items():
            known = {name for name, _ in seen}
            for names, lacking in find_unconfirmed_deletions(
                view.list_entries(version), wanted=wanted, going=known
            ):
                gone = await self._find_gone(view, names, lacking)
                seen |= {(name, since) for name, since in noted if name in gone}
        if seen:
            self._seen_going[view.uid] = seen
        return {name for name, _ in seen}

    async def _find_gone(self, view: SpreadView, names: Sequence[str], wanted: int) -> Collection[str]:
        """Return up to `wanted` of these pods that terminate or no longer exist, and read as few pods as possible."""
        gone: set[str] = set()
        while names and (lacking := wanted - len(gone)) > 0:
            asked, names = names[:lacking], names[lacking:]
            stay = await asyncio.gather(*(self._is_pod_active(view, name) for name in asked))
            gone |= {name for name, stays in zip(asked, stay, strict=True) if not stays}
        return gone

    async def _is_pod_active(self, view: SpreadView, pod_name: str) -> bool:
        try:
            pod = await self._reader.read_pod(view.namespace, pod_name)
        except KubeError as error:
            raise UnsettledError(f"pod {view.namespace}/{pod_name} cannot be read: {error}") from error
        return pod is not None and is_active(pod)

    async def _apply_batch(
        self, view: SpreadView, batch: Sequence[_SlotRequest], going: Collection[str]
    ) -> dict[str, Sequence[SubsetStatus]]:
        """Return the changed lists by version, and set the results of the requests. The results are valid only if these
        lists can be stored.
        """
        lists: dict[str, Sequence[SubsetStatus]] = {}
        changed: dict[str, Sequence[SubsetStatus]] = {}
        for request in batch:
            entries = (
                lists.get(request.version)
                or view.list_entries(request.version)
                or await self._build_fresh_entries(view)
            )
            limit = await self._find_limit(view, entries, request)
            new = self._apply_request(entries, request, limit, going)
            lists[request.version] = new or entries
            if new is not None:
                changed[request.version] = new
        return changed

    async def _build_fresh_entries(self, view: SpreadView) -> list[SubsetStatus]:
        replicas = await read_replicas_for(view.subsets, view, self._reader)
        return make_fresh_entries(view.subsets, replicas=replicas)

    async def _find_limit(
        self, view: SpreadView, entries: Sequence[SubsetStatus], request: _SlotRequest
    ) -> int | None:
        """Return the limit of the subset whose slot is released; None: the limit does not matter or cannot be read."""
        subset = view.find_subset(request.subset)
        if subset is None or not needs_limit(entries, subset=subset.name):
            return None
        try:
            return limit_of(subset, replicas=await read_replicas_for([subset], view, self._reader))
        except LimitError:
            return None

    def _apply_request(
        self,
        entries: Sequence[SubsetStatus],
        request: _SlotRequest,
        limit: int | None = None,
        going: Collection[str] | None = None,
    ) -> Sequence[SubsetStatus] | None:
        now = format_time(self._clock())
        if request.subset:
            return release_slot(
                entries, pod_name=request.pod_name, subset=request.subset, now=now, limit=limit
            )
        request.taken = allocate_slot(
            entries, pod_name=request.pod_name, fresh_id=self._fresh_id, now=now, going=going
        )
        return request.taken.entries
