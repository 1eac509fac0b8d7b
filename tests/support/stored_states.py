"""Every stored state of the objects of one kind, from a watch.

stored_states(stage, resource) ──▶ StoredStates.of(name): documents, oldest first
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.documents import decode
from pykruise.kube.resources import Resource
from support.scenario import Object, Stage

__all__ = ["StoredStates", "stored_states"]


class StoredStates:
    """Stored states since the watch began."""

    def __init__(self) -> None:
        self._seen: list[Object] = []

    def note(self, change: Change[Any]) -> None:
        """Add a state of an object."""
        if change.new is not None:
            self._seen.append(change.new.document)

    def of(self, name: str) -> list[Object]:
        """All states of one object, oldest first."""
        return [entry for entry in self._seen if entry["metadata"]["name"] == name]

    def since(self, name: str, generation: int) -> list[Object]:
        """Stored states of one object, from this generation on."""
        return [entry for entry in self.of(name) if entry["metadata"]["generation"] >= generation]


class _Whole:
    """A view that is the whole document."""

    def __init__(self, raw: Any) -> None:
        self.document: Object = decode(raw)
        meta = self.document["metadata"]
        self.namespace = meta.get("namespace", "")
        self.name = meta["name"]
        self.uid = meta["uid"]
        self.resource_version = int(meta["resourceVersion"])


@asynccontextmanager
async def stored_states(stage: Stage, resource: Resource) -> AsyncIterator[StoredStates]:
    """Watches the objects of a kind, in all namespaces, from now on."""
    stored_states = StoredStates()
    cache: Cache[_Whole] = Cache(stage.client, resource, project=_Whole, clock=stage.clock, rng=stage.rng)
    cache.subscribe(stored_states.note)
    running = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        yield stored_states
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
