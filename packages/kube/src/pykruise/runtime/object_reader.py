"""Readers of one kind's objects for admission: with a request each time, or from a cache of their own.

LiveObjects     asks the API server each time: for reviews that run in the same process as a sandbox
CachedObjects   reads a cache that `run()` maintains: a review that concerns none of the objects costs no request

The webhooks of every replica have their own cache, whether the replica leads or not.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from pykruise.kube.cache.cache import Cache, Projected
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.runtime.views import BY_NAMESPACE, Views

__all__ = ["CachedObjects", "LiveObjects"]

T = TypeVar("T", bound=Projected)

_NOT_SERVED: Final = 404
_POLL_S: Final = 0.2


class LiveObjects(Generic[T]):
    """Reads from the API server. All methods raise KubeError when it cannot answer."""

    def __init__(self, client: Callable[[], Client], views: Views[T]) -> None:
        self._client = client
        self._resource: Resource = views.resource
        self._project = views.projector()

    async def list_in_namespace(self, namespace: str) -> Sequence[T]:
        """Return the objects of a namespace (empty: cluster-scoped ones); none when the kind is not installed."""
        try:
            result = await self._client().list(self._resource, namespace)
        except NotFoundError:
            return ()
        return [self._project(raw) for raw in result.items]

    async def find_newest(self, key: Key) -> T | None:
        """Return the newest known state. A reader with a cache sends no request for it while the watch is open."""
        return await self.read_fresh(key)

    async def read_fresh(self, key: Key) -> T | None:
        """Return the stored state; None: the object does not exist."""
        try:
            return self._project(await self._client().get(self._resource, key.namespace, key.name))
        except NotFoundError:
            return None

    async def patch_status(self, view: T, patch: Document) -> T:
        """Merge this patch into the status if the object's resourceVersion is still that of `view`. Raises
        ConflictError otherwise.
        """
        raw = await self._client().patch(
            self._resource,
            view.namespace,
            view.name,
            _build_conditional_patch(view, patch),
            patch_type=PatchType.MERGE,
            subresource="status",
        )
        return self._project(raw)


class CachedObjects(LiveObjects[T]):
    """Reads from a cache. A lookup waits for the first list. While the watch is broken, lookups ask the API server."""

    def __init__(self, client: Client, views: Views[T], *, clock: Clock, rng: random.Random) -> None:
        super().__init__(lambda: client, views)
        self.cache: Cache[T] = Cache(
            client,
            views.resource,
            project=self._project,
            indexes={BY_NAMESPACE: lambda item: (item.namespace,)},
            clock=clock,
            rng=rng,
        )
        self._writer = Writer(client, {views.resource: self.cache})

    @property
    def objects(self) -> "CachedObjects[T]":
        """This reader. In readers with several caches, the same attribute is the reader of the kind's objects."""
        return self

    @property
    def is_installed(self) -> bool:
        """Whether the API server serves the kind, as far as the cache knows."""
        stats = self.cache.read_stats()
        return stats.synced or stats.last_code != _NOT_SERVED

    def list_problems(self) -> Sequence[str]:
        """Reasons why reviews would have to wait.

        An API server that may lack a conversion is no reason: this program may serve the conversion webhook, which the
        API server reaches only when the program is ready.
        """
        if not self.is_installed or self.cache.synced or self.cache.read_stats().may_lack_conversion:
            return ()
        return (f"{self._resource.kind}s are not cached yet",)

    def find_known(self) -> Sequence[T] | None:
        """Return all objects without waiting; None: the first list is not complete yet."""
        if self.is_installed and not self.cache.synced:
            return None
        return self.cache.values()

    async def run(self) -> None:
        """Maintain the cache until cancelled."""
        await self.cache.run()

    async def list_in_namespace(self, namespace: str) -> Sequence[T]:
        if not await self._is_current():
            return await super().list_in_namespace(namespace)
        return self.cache.list_by_index(BY_NAMESPACE, namespace)

    async def find_newest(self, key: Key) -> T | None:
        if not await self._is_current():
            return await self.read_fresh(key)
        return self.cache.get(key)

    async def read_fresh(self, key: Key) -> T | None:
        try:
            return self._project(await self._writer.read(self._resource, key))
        except NotFoundError:
            return None

    async def patch_status(self, view: T, patch: Document) -> T:
        raw = await self._writer.patch(
            self._resource,
            Key(view.namespace, view.name),
            _build_conditional_patch(view, patch),
            patch_type=PatchType.MERGE,
            subresource="status",
            uid=view.uid,
        )
        return self._project(raw)

    async def _is_current(self) -> bool:
        """Whether the cache can answer: False while the watch is broken. Waits for the first list."""
        # The cache may learn only during this wait that the kind is not installed.
        while self.is_installed and not self.cache.synced:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self.cache.wait_synced()
        return not self.cache.synced or self.cache.is_connected


def _build_conditional_patch(view: Projected, patch: Document) -> Document:
    return {"metadata": {"uid": view.uid, "resourceVersion": str(view.resource_version)}, **patch}
