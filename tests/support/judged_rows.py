"""Rows of the dashboard in virtual time, with the verdicts of explain, as a browser gets them.

Stage ──caches, Feeds, Verdicts──▶ JudgedRows.of(resource, key): the row; why(): its cause
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import orjson

from pykruise.dashboard.feeds import Feeds
from pykruise.dashboard.mirror import MirrorTransport
from pykruise.dashboard.objects import views_of_all
from pykruise.dashboard.rollouts import format_row_id
from pykruise.dashboard.verdicts import Verdicts
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.runtime.sources import Sources
from support.scenario import Stage

__all__ = ["JudgedRows", "judged_rows"]

T = TypeVar("T")


class JudgedRows:
    """Rows of all pages."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds

    def of(self, resource: Resource, key: Key) -> dict[str, Any]:
        """The row of an object. Raises LookupError."""
        return self._row(format_row_id(resource, key.namespace, key.name))

    def why(self, resource: Resource, key: Key) -> dict[str, Any]:
        """The cause that explain gives. Raises LookupError."""
        return self._row(f"why/{format_row_id(resource, key.namespace, key.name)}")

    def all(self) -> dict[str, dict[str, Any]]:
        """All rows of all pages by their id, with those of explain."""
        boards = (self._feeds.rollouts, self._feeds.jobs, self._feeds.others)
        return {row.id: orjson.loads(row.body) for board in boards for row in board.list_rows()}

    def _row(self, name: str) -> dict[str, Any]:
        boards = (self._feeds.rollouts, self._feeds.jobs, self._feeds.others)
        for board in boards:
            for row in board.list_rows():
                if row.id == name:
                    result: dict[str, Any] = orjson.loads(row.body)
                    return result
        raise LookupError(name)


async def _here(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do the work in the test's own loop, whose time is virtual."""
    return await work(client)


@asynccontextmanager
async def judged_rows(stage: Stage, settings: ManagerSettings) -> AsyncIterator[JudgedRows]:
    """Rows that follow the cluster within the block. `settings`: those of its manager."""
    sources = Sources(stage.client, clock=stage.clock, rng=random.Random(1))
    caches = {resource: sources.find_cache(views) for resource, views in views_of_all().items()}
    feeds = Feeds(caches, clock=stage.clock)
    clock = asyncio.get_running_loop().time
    client = stage.client.replace_transport(MirrorTransport(stage.client.transport, caches, clock=clock))

    async def given(_client: Client, _clock: Clock) -> ManagerSettings:
        return settings

    verdicts = Verdicts(client, feeds.take, clock=stage.clock, aside=_here, settings=given)
    feeds.judge_with(verdicts)
    tasks = [asyncio.create_task(work) for work in (sources.run(), verdicts.run())]
    try:
        yield JudgedRows(feeds)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
