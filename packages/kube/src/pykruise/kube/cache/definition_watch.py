"""Watches of custom objects are opened again as soon as their CRD is stored anew.

CRDs ──watch──▶ Renewal.on_definition() ──▶ Cache.watch_anew() of the caches that mirror their objects

An API server that is given another spec for a CRD replaces what serves its objects. Watches that were open before stay
open and hear nothing more: only their silence would tell, after two minutes (`cache.IDLE_TIMEOUT_S`). The definition's
own watch tells at once. An API server may need a moment until it serves objects by the new definition, and a watch that
was opened before would be silent as well, so each is opened once more after it.
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
"""After the change; at once too. Taking a new definition over takes API servers some hundred milliseconds."""


def definitions_of(client: Client, *, clock: Clock, rng: random.Random) -> Cache[MetadataView]:
    """A mirror of all CRDs that keeps almost nothing of them; to be run by who makes it."""
    return Cache(client, CUSTOM_RESOURCE_DEFINITIONS, project=project_metadata, clock=clock, rng=rng)


class Renewal:
    """Has `caches`, those that there are at the moment, open their watches again; those of built-in resources are never
    concerned."""

    def __init__(
        self,
        caches: Callable[[], Iterable[Cache[Any]]],
        *,
        before: Callable[[str], object] = lambda group: None,
    ) -> None:
        """`before` is called with the API group of the definition each time before watches are opened again."""
        self._caches = caches
        self._before = before
        self._known: dict[str, tuple[str, int]] = {}

    def on_definition(self, change: Change[Any]) -> None:
        """A handler for a cache of CRDs, whose values are MetadataViews. What is seen first is no change."""
        new: MetadataView | None = change.new
        if new is None:
            return  # a CRD that is gone is remembered: another one of its name is a change
        seen = (new.uid, new.generation)
        is_changed = self._known.get(new.name, seen) != seen
        self._known[new.name] = seen
        if not is_changed:
            return
        self._renew(new.name)
        loop = asyncio.get_running_loop()
        for delay_s in AGAIN_S:
            loop.call_later(delay_s, self._renew, new.name)

    def _renew(self, name: str) -> None:
        """`name`: of a definition, `clonesets.apps.kruise.io`."""
        self._before(name.partition(".")[2])
        for cache in self._caches():
            if f"{cache.resource.plural}.{cache.resource.group}" == name:
                cache.watch_anew()
