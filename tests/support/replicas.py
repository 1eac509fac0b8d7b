"""Several replicas of the webhooks behind one address, like those of a Service.

API server ──▶ Balancer (one port) ──connection by connection──▶ Webhooks, Webhooks, …
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from pykruise.kube.client.client import Client
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.webhooks import Webhooks
from support.webhooks import GATES, LOOPBACK, running_webhooks, wait_ready, webhook_settings


class Balancer:
    """One port for several replicas: the next replica that accepts a connection gets it."""

    def __init__(self) -> None:
        self.targets: list[int] = []
        self._next = 0
        self._pipes: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def on(self, port: int) -> AsyncIterator["Balancer"]:
        """Listen on the port while the block runs."""
        server = await asyncio.start_server(self._connected, LOOPBACK, port)
        try:
            yield self
        finally:
            server.close()
            await self.cut()

    async def cut(self) -> None:
        """End all connections immediately, including their requests."""
        pipes = tuple(self._pipes)
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)

    async def follow(self, webhookses: Sequence[Webhooks]) -> None:
        """Send connections to replicas as soon as they listen; runs until cancelled."""
        while True:
            self.targets = [webhooks.server.port for webhooks in webhookses if webhooks.server.is_listening]
            await asyncio.sleep(0.05)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self.targets:
            self._next += 1
            try:
                there = await asyncio.open_connection(LOOPBACK, self.targets[self._next % len(self.targets)])
            except OSError:
                continue
            for source, sink in ((reader, there[1]), (there[0], writer)):
                pipe = asyncio.create_task(_pipe(source, sink))
                self._pipes.add(pipe)
                pipe.add_done_callback(self._pipes.discard)
            return
        writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def replicas(
    client: Client,
    folder: Path,
    balancer: Balancer,
    *,
    port: int,
    count: int = 2,
    wait: bool = True,
    **options: Any,
) -> AsyncIterator[list[Webhooks]]:
    """The webhooks of this number of managers behind the balancer, which listens on `port`."""
    webhookses: list[Webhooks] = []
    async with AsyncExitStack() as stack:
        for number in range(count):
            settings = replica_settings(folder, number, port=port)
            running = running_webhooks(client, settings, port=0, wait=False, **options)
            webhookses.append(await stack.enter_async_context(running))
        following = asyncio.create_task(balancer.follow(webhookses))
        try:
            if wait:
                await wait_ready(webhookses)
            yield webhookses
        finally:
            following.cancel()
            balancer.targets = []


def replica_settings(folder: Path, number: int, *, port: int = 0) -> ManagerSettings:
    """Settings of one replica; each has its own folder."""
    return webhook_settings(folder / str(number), gates=GATES, port=port)
