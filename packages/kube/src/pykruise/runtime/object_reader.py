"""Objects of one kind as admission reads them: with a client each time, or from a cache of its own.

LiveObjects     asks the API server each time: for reviews in the process of a sandbox
CachedObjects   over a cache, which is kept while `run()` runs: what concerns no object costs no request

Every replica's webhooks keep their own cache, leader or not.
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
    """Asks the API server. All raise KubeError when it cannot be known."""

    def __init__(self, client: Callable[[], Client], views: Views[T]) -> None:
        self._client = client
        self._resource: Resource = views.resource
        self._project = views.projector()

    async def in_namespace(self, namespace: str) -> Sequence[T]:
        """Objects of a namespace (empty: of no namespace); none when the kind is not installed."""
        try:
            result = await self._client().list(self._resource, namespace)
        except NotFoundError:
            return ()
        return [self._project(raw) for raw in result.items]

    async def newest(self, key: Key) -> T | None:
        """The newest that is known without asking the API server, where there is such a thing."""
        return await self.fresh(key)

    async def fresh(self, key: Key) -> T | None:
        """As it is stored now; None: it is gone."""
        try:
            return self._project(await self._client().get(self._resource, key.namespace, key.name))
        except NotFoundError:
            return None

    async def patch_status(self, view: T, patch: Document) -> T:
        """Merge this into the status, if the object is still as `view` shows it. Raises ConflictError otherwise."""
        raw = await self._client().patch(
            self._resource,
            view.namespace,
            view.name,
            _conditional(view, patch),
            patch_type=PatchType.MERGE,
            subresource="status",
        )
        return self._project(raw)


class CachedObjects(LiveObjects[T]):
    """Over a cache. Where it is not filled yet, a question waits for it; while its watch is broken, the API server is
    asked."""

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
        """Itself: readers of more than the objects of one kind have these under this name."""
        return self

    @property
    def is_installed(self) -> bool:
        """Whether the API server serves the kind, as far as is known."""
        stats = self.cache.stats()
        return stats.synced or stats.last_code != _NOT_SERVED

    def problems(self) -> Sequence[str]:
        """Why reviews would have to wait."""
        if not self.is_installed or self.cache.synced:
            return ()
        return (f"{self._resource.kind}s have not been read yet",)

    def known(self) -> Sequence[T] | None:
        """All of them, without waiting; None: they have not been read yet."""
        if self.is_installed and not self.cache.synced:
            return None
        return self.cache.values()

    async def run(self) -> None:
        """Mirror until cancelled."""
        await self.cache.run()

    async def in_namespace(self, namespace: str) -> Sequence[T]:
        if not await self._is_current():
            return await super().in_namespace(namespace)
        return self.cache.by_index(BY_NAMESPACE, namespace)

    async def newest(self, key: Key) -> T | None:
        if not await self._is_current():
            return await self.fresh(key)
        return self.cache.get(key)

    async def fresh(self, key: Key) -> T | None:
        try:
            return self._project(await self._writer.read(self._resource, key))
        except NotFoundError:
            return None

    async def patch_status(self, view: T, patch: Document) -> T:
        raw = await self._writer.patch(
            self._resource,
            Key(view.namespace, view.name),
            _conditional(view, patch),
            patch_type=PatchType.MERGE,
            subresource="status",
            uid=view.uid,
        )
        return self._project(raw)

    async def _is_current(self) -> bool:
        """False while the watch is broken. Waits for the first list."""
        # Whether it is installed may come out only while this waits.
        while self.is_installed and not self.cache.synced:
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self.cache.wait_synced()
        return not self.cache.synced or self.cache.is_connected


def _conditional(view: Projected, patch: Document) -> Document:
    return {"metadata": {"uid": view.uid, "resourceVersion": str(view.resource_version)}, **patch}
