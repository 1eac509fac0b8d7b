"""Opens watches of custom objects again as soon as their CRD changes.

CRDs ──watch──▶ Renewal.handle_definition() ──▶ Cache.watch_anew() of the caches of their objects

An API server that gets a new spec for a CRD replaces the storage that serves its objects. Older watches stay open and
receive no more events: only their silence would show the replacement, after two minutes (IDLE_TIMEOUT_S in
reflector.py). The watch of the CRDs shows it immediately. An API server may need a moment until it serves objects by
the new definition. A watch that is opened before then would be silent as well. So each watch is opened again twice,
after one second and after five seconds (AGAIN_S).
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS

__all__ = ["Renewal", "definitions_of"]

AGAIN_S: Final = (1.0, 5.0)
"""Watches are opened immediately after the change, and again after each of these numbers of seconds, because an API
server needs some hundred milliseconds to apply a new definition.
"""


def definitions_of(client: Client, *, clock: Clock, rng: random.Random) -> Cache[MetadataView]:
    """Return a cache of all CRDs that keeps only their metadata (MetadataView). The caller must run it."""
    return Cache(client, CUSTOM_RESOURCE_DEFINITIONS, project=project_metadata, clock=clock, rng=rng)


class Renewal:
    """Opens the watches of the current `caches` again when their CRD changes. Caches of built-in resources are not
    affected.
    """

    def __init__(
        self,
        caches: Callable[[], Iterable[Cache[Any]]],
        *,
        before: Callable[[str], object] = lambda group: None,
    ) -> None:
        """`before` is called with the API group of the CRD each time before watches are opened again."""
        self._caches = caches
        self._before = before
        self._known: dict[str, tuple[str, int]] = {}

    def handle_definition(self, change: Change[Any]) -> None:
        """Handle a change in a cache of CRDs (whose values are MetadataViews). The first event of a CRD is not a
        change.
        """
        new: MetadataView | None = change.new
        if new is None:
            return  # a deleted CRD is remembered: another CRD of the same name is a change
        seen = (new.uid, new.generation)
        is_changed = self._known.get(new.name, seen) != seen
        self._known[new.name] = seen
        if not is_changed:
            return
        self._reopen_watches(new.name)
        loop = asyncio.get_running_loop()
        for delay_s in AGAIN_S:
            loop.call_later(delay_s, self._reopen_watches, new.name)

    def _reopen_watches(self, name: str) -> None:
        """Open the watches of one CRD again; `name` is the name of the CRD, such as `clonesets.apps.kruise.io`."""
        self._before(name.partition(".")[2])
        for cache in self._caches():
            if f"{cache.resource.plural}.{cache.resource.group}" == name:
                cache.watch_anew()
