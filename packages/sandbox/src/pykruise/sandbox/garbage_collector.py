"""Deletes objects whose owners are all deleted, and executes foreground and orphan deletion.

discovery ──▶ a cache for every resource ──changes──▶ OwnerGraph (owners and dependents, by uid) ──▶ queue
queue ──▶ _collect(object):  all owners deleted   ──▶ DELETE (uid, resourceVersion)
                             some owners deleted  ──▶ their references are removed
                             "foregroundDeletion" ──▶ dependents are deleted first, then the finalizer is removed
                             "orphan"             ──▶ dependents lose the reference, then the finalizer is removed

Same rules as Kubernetes' garbage collector. An owner is treated as deleted only after a live GET, because caches may be
out of date. A uid is never reused, so the response is remembered. The dependents of an object are enqueued once.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError, NotFoundError, UnsupportedMediaTypeError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.program.process import run_beside
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.sandbox.inventory import Inventory, discover
from pykruise.sandbox.owner_graph import FOREGROUND, ORPHAN, GraphObject, ObjectId, OwnerGraph, project_meta
from pykruise.sandbox.pod_view import OwnerRef
from pykruise.sandbox.running import wait_for_condition

_log = logging.getLogger(__name__)

_REFRESH_S = 300.0  # interval in seconds at which discovery is read again
_SETTLE_S = 0.2  # discovery is also read this number of seconds after a change of a CRD
_SYNC_TIMEOUT_S = 30.0  # maximum delay of the other resources by a resource that cannot be listed
_AT_ONCE = 20
_REMEMBERED = 10_000


# Events expire automatically and own nothing, and there are many of them.
_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})


class _Owner(Enum):
    """State of one owner of an object."""

    SOLID = "there"
    DELETING = "waits until its dependents are deleted"
    GONE = "gone"
    UNKNOWN = "its kind is not served, or it cannot own the object"


class CollectorStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the collector."""

    resources: int
    objects: int
    with_owners: int
    """Number of uids that objects name as their owners."""
    deletions: int
    live_reads: int
    """Number of GETs that checked whether an owner exists."""
    synced: bool


class _Watched(msgspec.Struct):
    cache: Cache[Any]
    unsubscribe: Callable[[], None]
    task: asyncio.Task[Any] | None
    """None for a shared cache, which another component runs."""


class GarbageCollector:
    """Deletes garbage objects of all resources in discovery, including those of later CRDs.

    `shared`: caches that other components run; the collector reads them and needs no cache of its own for these
    resources (for their values see `GraphObject`). `only`: use these resources, without discovery. The collector runs
    from `run()` until `stop()`.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        shared: Mapping[Resource, Cache[Any]] | None = None,
        only: Sequence[Resource] | None = None,
        workers: int = _AT_ONCE,
    ) -> None:
        self._client = client
        self._only = None if only is None else Inventory(resources=tuple(only))
        self._clock = clock
        self._rng = rng
        self._shared = dict(shared or {})
        self._inventory = Inventory(resources=())
        self._watched: dict[Resource, _Watched] = {}
        self._caches: dict[Resource, Cache[Any]] = {}
        self._writer = Writer(client, self._caches)
        self._graph = OwnerGraph()
        self._absent: dict[tuple[str, str], None] = {}
        self._unresolved: dict[ObjectId, None] = {}
        self._swept: set[str] = set()
        self._no_strategic: set[Resource] = set()
        self._refresh_now = asyncio.Event()
        self._is_synced = asyncio.Event()
        self._stopped = asyncio.Event()
        self._deletions = 0
        self._live_reads = 0
        self._queue: WorkQueue[ObjectId] = WorkQueue(cost_factor=0, rng=rng)
        self._controller = Controller(
            "garbage collector",
            self._collect,
            queue=self._queue,
            workers=workers,
            clock=clock,
            cpu_time=skip_measuring,
        )

    # ── running ──────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Collect garbage until `stop()` or cancellation."""
        try:
            async with asyncio.TaskGroup() as group:
                await run_beside(self._run_controller(), self._keep_inventory(group))
                for watched in self._watched.values():
                    if watched.task is not None:
                        watched.task.cancel()
        finally:
            for watched in self._watched.values():
                watched.unsubscribe()
            self._watched.clear()

    async def _run_controller(self) -> None:
        if await wait_for_condition(self._stopped, self._is_synced.wait()):
            await self._controller.run()

    async def stop(self) -> None:
        """Finish the writes in progress; then `run()` returns."""
        self._queue.close()
        self._stopped.set()
        await self._controller.stop()

    async def wait_synced(self) -> None:
        """Return when the caches of all served resources are synced. A resource that cannot be listed delays this by at
        most 30 seconds.
        """
        await self._is_synced.wait()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that are watched now."""
        return tuple(self._watched)

    def read_stats(self) -> CollectorStats:
        """The current counts."""
        return CollectorStats(
            resources=len(self._watched),
            objects=len(self._graph.ids),
            with_owners=len(self._graph.dependents),
            deletions=self._deletions,
            live_reads=self._live_reads,
            synced=self._is_synced.is_set(),
        )

    # ── served resources ─────────────────────────────────────────────────────

    async def _keep_inventory(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                await self._refresh_watches(group)
            except (KubeError, msgspec.DecodeError) as err:
                _log.warning("garbage collector: discovery: %s; retry in %g s", err, _SETTLE_S)
                await asyncio.sleep(_SETTLE_S)
                continue
            try:
                await asyncio.wait_for(self._refresh_now.wait(), _REFRESH_S)
                await asyncio.sleep(_SETTLE_S)  # a CRD is served a moment after it was written
            except TimeoutError:
                pass
            self._refresh_now.clear()

    async def _refresh_watches(self, group: asyncio.TaskGroup) -> None:
        """Watch new resources, and stop watching resources that are no longer served."""
        inventory = self._only or await discover(self._client)
        served = dict.fromkeys(
            resource for resource in inventory.resources if (resource.group, resource.plural) not in _IGNORED
        )
        # Resources whose discovery failed may still be served.
        for resource in self._watched:
            if resource.api_version in inventory.failed:
                served[resource] = None
        inventory = msgspec.structs.replace(inventory, resources=tuple(served))
        for resource in [known for known in self._watched if known not in served]:
            self._unwatch_resource(resource)
        started = [
            self._watch_resource(resource, group) for resource in served if resource not in self._watched
        ]
        has_news = inventory.resources != self._inventory.resources
        self._inventory = inventory
        if not self._is_synced.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_SYNC_TIMEOUT_S):
                    await asyncio.gather(*(cache.wait_synced() for cache in started))
            self._is_synced.set()
            self._enqueue_everything()
        elif has_news:
            for target in [*self._unresolved]:
                self._queue.add(target)
            self._unresolved.clear()

    def _watch_resource(self, resource: Resource, group: asyncio.TaskGroup) -> Cache[Any]:
        cache = self._shared.get(resource)
        task = None
        if cache is None:
            cache = Cache(self._client, resource, project=project_meta, clock=self._clock, rng=self._rng)
            task = group.create_task(cache.run(), name=f"garbage collector: {resource}")

        def on_change(change: Change[Any]) -> None:
            self._on_change(resource, change)

        self._watched[resource] = _Watched(cache, cache.subscribe(on_change), task)
        self._caches[resource] = cache
        for value in cache.values():
            on_change(Change(Key(value.namespace, value.name), None, value))
        return cache

    def _unwatch_resource(self, resource: Resource) -> None:
        watched = self._watched.pop(resource)
        del self._caches[resource]
        watched.unsubscribe()
        if watched.task is not None:
            watched.task.cancel()
        for value in watched.cache.values():
            self._on_change(resource, Change(Key(value.namespace, value.name), value, None))

    def _enqueue_everything(self) -> None:
        for resource, watched in self._watched.items():
            for value in watched.cache.values():
                self._enqueue_affected(ObjectId(resource, Key(value.namespace, value.name)), None, value)

    # ── changes ──────────────────────────────────────────────────────────────

    def _on_change(self, resource: Resource, change: Change[Any]) -> None:
        target = ObjectId(resource, change.key)
        self._graph.update(target, change.old, change.new)
        if resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._refresh_now.set()
        if self._is_synced.is_set():
            self._enqueue_affected(target, change.old, change.new)

    def _enqueue_affected(self, target: ObjectId, old: GraphObject | None, new: GraphObject | None) -> None:
        """Enqueue objects that a change may have made garbage, or that may have waited for it."""
        if old is not None:
            if new is None or new.uid != old.uid:
                self._swept.discard(old.uid)
                self._unresolved.pop(target, None)
                for dependent in self._graph.dependents.get(old.uid, ()):
                    self._queue.add(dependent)
            if new is None or new.owners != old.owners:
                for ref in old.owners:
                    if waiting := self._graph.foreground.get(ref.uid):
                        self._queue.add(waiting)
        if new is None:
            return
        if new.is_deleting:
            if FOREGROUND in new.finalizers or ORPHAN in new.finalizers:
                self._queue.add(target)
        elif new.owners and not all(self._has_owner(ref, new) for ref in new.owners):
            self._queue.add(target)

    def _has_owner(self, ref: OwnerRef, dependent: GraphObject) -> bool:
        """Whether the owner exists and is not in foreground deletion, according to the caches."""
        if ref.uid in self._graph.foreground:
            return False
        owner = self._graph.ids.get(ref.uid)
        return (
            owner is not None
            and owner.key.name == ref.name
            and owner.resource.kind == ref.kind
            and owner.key.namespace in ("", dependent.namespace)
        )

    # ── one object ───────────────────────────────────────────────────────────

    async def _collect(self, target: ObjectId) -> float | None:
        owned = self._find_cached(target)
        if owned is None:
            return None
        if owned.is_deleting:
            if ORPHAN in owned.finalizers:
                await self._orphan_dependents(target, owned)
            elif FOREGROUND in owned.finalizers:
                await self._delete_dependents_first(target, owned)
            return None
        if owned.owners:
            await self._check_owners(target, owned)
        return None

    def _find_cached(self, target: ObjectId) -> GraphObject | None:
        cache = self._caches.get(target.resource)
        owned: GraphObject | None = cache.get(target.key) if cache is not None else None
        return owned

    async def _check_owners(self, target: ObjectId, owned: GraphObject) -> None:
        owners = [(ref, await self._find_owner_state(ref, owned)) for ref in owned.owners]
        states = {state for _, state in owners}
        if _Owner.UNKNOWN in states:
            self._unresolved[target] = None
        if states & {_Owner.SOLID, _Owner.UNKNOWN}:
            if gone := [ref for ref, state in owners if state in (_Owner.GONE, _Owner.DELETING)]:
                await self._remove_references(target, owned, gone)
            return
        # If an owner waits for its dependents, this object must also be deleted after its own dependents.
        in_turn = _Owner.DELETING in states and owned.uid in self._graph.dependents
        if (
            in_turn
            and self._may_be_in_a_circle(owned)
            and any(ref.block_owner_deletion for ref in owned.owners)
        ):
            await self._unblock_owners(target, owned)
            owned = self._find_cached(target) or owned
        await self._delete(target, owned, propagation=_choose_propagation(owned, in_turn=in_turn))

    async def _find_owner_state(self, ref: OwnerRef, dependent: GraphObject) -> _Owner:
        resource = self._inventory.find(api_version=ref.api_version, kind=ref.kind)
        if resource is None or (resource.namespaced and not dependent.namespace):
            return _Owner.UNKNOWN
        key = Key(dependent.namespace if resource.namespaced else "", ref.name)
        owner = self._find_cached(ObjectId(resource, key))
        if owner is None or owner.uid != ref.uid:
            if not await self._is_absent(resource, key, ref.uid):
                return _Owner.SOLID
            return _Owner.GONE
        if owner.is_deleting and FOREGROUND in owner.finalizers:
            return _Owner.DELETING
        return _Owner.SOLID

    async def _is_absent(self, resource: Resource, key: Key, uid: str) -> bool:
        if (uid, key.namespace) in self._absent:
            return True
        self._live_reads += 1
        try:
            raw = await self._client.get(resource, key.namespace, key.name)
        except NotFoundError as err:
            if err.status.details is None or err.status.details.name != key.name:
                raise  # the resource is not served, so nothing is known about the owner
        else:
            if project_meta(raw).uid == uid:
                return False
        if len(self._absent) >= _REMEMBERED:
            del self._absent[next(iter(self._absent))]
        self._absent[uid, key.namespace] = None
        return True

    async def _delete(self, target: ObjectId, owned: GraphObject, *, propagation: str) -> None:
        try:
            await self._writer.delete(
                target.resource,
                target.key,
                uid=owned.uid,
                resource_version=str(owned.resource_version),
                propagation=propagation,
            )
        except NotFoundError:
            return
        self._deletions += 1

    def _may_be_in_a_circle(self, owned: GraphObject) -> bool:
        """Whether a dependent of the object waits for its own dependents: then the two could wait for each other."""
        dependents = self._graph.dependents.get(owned.uid, {})
        views = filter(None, map(self._find_cached, dependents))
        return any(view.uid in self._graph.foreground for view in views)

    # ── foreground and orphan deletion ───────────────────────────────────────

    async def _delete_dependents_first(self, target: ObjectId, owned: GraphObject) -> None:
        """Enqueue the dependents (once), and remove the finalizer when no dependent blocks the deletion."""
        if owned.uid not in self._swept:
            self._swept.add(owned.uid)
            for dependent in self._graph.dependents.get(owned.uid, ()):
                self._queue.add(dependent)
        if not self._graph.blocking.get(owned.uid):
            await self._take_finalizer(target, owned, FOREGROUND)

    async def _orphan_dependents(self, target: ObjectId, owned: GraphObject) -> None:
        """Remove the references from the dependents, then the finalizer from the object."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def release(dependent: ObjectId) -> None:
            async with gate:
                view = self._find_cached(dependent)
                refs = [ref for ref in view.owners if ref.uid == owned.uid] if view is not None else []
                if view is not None and refs:
                    await self._remove_references(dependent, view, refs)

        await _await_all(release(dependent) for dependent in [*self._graph.dependents.get(owned.uid, ())])
        await self._take_finalizer(target, owned, ORPHAN)

    async def _remove_references(
        self, target: ObjectId, owned: GraphObject, refs: Sequence[OwnerRef]
    ) -> None:
        """Remove these owner references from the object."""
        gone = {ref.uid for ref in refs}
        try:
            if target.resource not in self._no_strategic:
                try:
                    await self._patch(target, owned, _without_owners(owned, gone), PatchType.STRATEGIC)
                    return
                except UnsupportedMediaTypeError:
                    self._no_strategic.add(target.resource)
            left = [msgspec.to_builtins(ref) for ref in owned.owners if ref.uid not in gone]
            patch = {
                "metadata": {
                    "uid": owned.uid,
                    "resourceVersion": str(owned.resource_version),
                    "ownerReferences": [_without_nulls(ref) for ref in left],
                }
            }
            await self._patch(target, owned, patch, PatchType.MERGE)
        except NotFoundError:
            return

    async def _unblock_owners(self, target: ObjectId, owned: GraphObject) -> None:
        """Make the object stop blocking the deletion of its owners."""
        refs = [
            _without_nulls(msgspec.to_builtins(ref)) | {"blockOwnerDeletion": False} for ref in owned.owners
        ]
        patch = {
            "metadata": {
                "uid": owned.uid,
                "resourceVersion": str(owned.resource_version),
                "ownerReferences": refs,
            }
        }
        with suppress(NotFoundError):
            await self._patch(target, owned, patch, PatchType.MERGE)

    async def _take_finalizer(self, target: ObjectId, owned: GraphObject, finalizer: str) -> None:
        patch = {
            "metadata": {
                "uid": owned.uid,
                "resourceVersion": str(owned.resource_version),
                "finalizers": [text for text in owned.finalizers if text != finalizer],
            }
        }
        try:
            await self._patch(target, owned, patch, PatchType.MERGE)
        except NotFoundError:
            return

    async def _patch(
        self, target: ObjectId, owned: GraphObject, patch: Document, patch_type: PatchType
    ) -> None:
        await self._writer.patch(target.resource, target.key, patch, patch_type=patch_type, uid=owned.uid)


def _choose_propagation(owned: GraphObject, *, in_turn: bool) -> str:
    if in_turn or FOREGROUND in owned.finalizers:
        return "Foreground"
    return "Orphan" if ORPHAN in owned.finalizers else "Background"


def _without_owners(owned: GraphObject, uids: Iterable[str]) -> Document:
    refs = [{"$patch": "delete", "uid": uid} for uid in sorted(uids)]
    return {"metadata": {"uid": owned.uid, "ownerReferences": refs}}


def _without_nulls(doc: Document) -> Document:
    return {name: value for name, value in doc.items() if value is not None}


async def _await_all(work: Iterable[Awaitable[None]]) -> None:
    """Wait until all have ended, then raise the first error."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
