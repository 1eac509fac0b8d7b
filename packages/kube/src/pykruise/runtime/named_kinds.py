"""Kinds that an administrator names at run time. The manager watches them as soon as a ConfigMap lists them.

ConfigMap ──watch──▶ FurtherKinds ──▶ a cache for each listed kind ──events──▶ queue of the kind with `FurtherReads`

A kind declares with `FurtherReads` how it uses such objects. A resource that the API server does not serve is looked
up again later. A list that cannot be parsed changes nothing.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.client.discovery import Discovery
from pykruise.kube.clock import Clock
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.runtime.sources import Sources
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import Wake

__all__ = ["FurtherKinds", "FurtherReads"]

_log = logging.getLogger(__name__)

AGAIN_S: Final = 60.0
"""Seconds until a kind that is not served is looked up again."""


class FurtherReads(msgspec.Struct, frozen=True, kw_only=True):
    """Further resources that a kind reads as soon as a list in a ConfigMap names them."""

    configuration: str
    """The ConfigMap's name."""
    key: str
    """Key of the list in the ConfigMap's data."""
    read: Callable[[str | None], Sequence["ListedKind"]]
    """Parses the list; None: the ConfigMap or the key does not exist. Raises ValueError."""
    namespace: Callable[[Any], str]
    """Returns the namespace of the ConfigMap from the settings: the manager's own."""
    views: Callable[[Resource], Views[Any]]
    """Views of a listed resource. No controller waits until these caches are synced."""
    wake: Callable[[Views[Any]], Wake]
    """The wake for events of a listed resource."""
    known: frozenset[GroupKind] = frozenset()
    """Kinds that are always read, whatever the list contains."""


class ListedKind(Protocol):
    """A kind on the list."""

    @property
    def target(self) -> GroupKind: ...
    @property
    def version(self) -> str:
        """The wanted version; empty: the one that the API server prefers."""
        ...


class _Configuration(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    resource_version: int
    text: str | None


class FurtherKinds:
    """Keeps `mirrors` (shared with snapshots and wakes) and `by_kind` equal to the list while `run()` runs."""

    def __init__(
        self,
        reads: FurtherReads,
        *,
        client: Client,
        sources: Sources,
        clock: Clock,
        rng: random.Random,
        namespace: str,
        mirrors: dict[Views[Any], Any],
        on_events: Callable[[Wake], Callable[[Change[Any]], None]],
    ) -> None:
        self._reads = reads
        self._sources = sources
        self._mirrors = mirrors
        self._on_events = on_events
        self._discovery = Discovery(lambda: client)
        self._is_changed = asyncio.Event()
        self._configuration: Cache[_Configuration] = Cache(
            client,
            CONFIG_MAPS,
            project=self._project,
            namespace=namespace,
            field_selector=f"metadata.name={reads.configuration}",
            clock=clock,
            rng=rng,
        )
        self._configuration.subscribe(lambda _change: self._is_changed.set())
        self.by_kind: dict[GroupKind, Views[Any]] = {}

    def list_wakes(self) -> Sequence[Wake]:
        """Return the wakes for events of the resources that are read now."""
        return [self._reads.wake(views) for views in self.by_kind.values()]

    async def run(self) -> None:
        """Follow the list until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._configuration.run(), name="cache-list")
            await self._configuration.wait_synced()
            while True:
                self._is_changed.clear()
                try:
                    await self._apply_list()
                except (KubeError, ValueError) as error:
                    _log.warning(
                        "the list in key %s of ConfigMap %s could not be applied: %s",
                        self._reads.key,
                        self._reads.configuration,
                        error,
                    )
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._is_changed.wait()

    async def _apply_list(self) -> None:
        configurations = self._configuration.values()
        listed = self._reads.read(configurations[0].text if configurations else None)
        wanted = {item.target: item for item in listed if item.target not in self._reads.known}
        for target in [item for item in self.by_kind if item not in wanted]:
            self._drop(target)
        for target, value in wanted.items():
            resource = await self._discovery.find_resource(target.group, target.kind, version=value.version)
            known = self.by_kind.get(target)
            if known is not None and known.resource != resource:
                self._drop(target)
            if resource is None:
                _log.warning(
                    "the API server does not serve the kind %s, which the list in key %s of the ConfigMap names",
                    target.kind,
                    self._reads.key,
                )
            elif target not in self.by_kind:
                self._add(target, resource)

    def _add(self, target: GroupKind, resource: Resource) -> None:
        views = self._reads.views(resource)
        cache = self._sources.find_cache(views)
        self._mirrors[views] = cache
        self.by_kind[target] = views
        cache.subscribe(self._on_events(self._reads.wake(views)))

    def _drop(self, target: GroupKind) -> None:
        views = self.by_kind.pop(target)
        del self._mirrors[views]
        self._sources.drop(views)

    def _project(self, raw: bytes | msgspec.Raw) -> _Configuration:
        document = decode(raw)
        text = get_path(document, "data", self._reads.key)
        meta = document["metadata"]
        return _Configuration(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            text=text if isinstance(text, str) else None,
        )
