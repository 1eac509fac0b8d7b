"""A cluster whose API server responds late: a test holds responses, checks the clients, and releases the responses.

HttpSandbox ──▶ LateSandbox: hold(path) ──▶ requests wait ──▶ let_go()
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pykruise.kube.client.transport import Response
from pykruise.sandbox.cluster import Cluster
from pykruise.testing.http import HttpSandbox

__all__ = ["LateSandbox"]


class LateSandbox(HttpSandbox):
    """Responses to GET wait while their path contains a held text; `held_count`: the number of waiting ones."""

    held_count = 0
    _held: str | None = None

    def hold(self, words: str = "") -> None:
        """Hold the responses to these paths; without words: all responses."""
        self._held = words

    def let_go(self) -> None:
        """Send all held responses, and hold no more."""
        self._held = None

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Cluster]:
        async with super()._running() as cluster:
            inner = cluster.server.handle

            async def handle(method: str, path: str, **more: Any) -> Response:
                self.held_count += 1
                while method == "GET" and self._held is not None and self._held in path:
                    await asyncio.sleep(0.02)
                self.held_count -= 1
                return await inner(method, path, **more)

            cluster.server.handle = handle  # type: ignore[method-assign,assignment]  # the front knows no other way in
            yield cluster
