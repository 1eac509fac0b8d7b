"""Examines an object in a thread, so that other streams continue: examining a large workload takes most of a second.

thread: asyncio.run(work(client)) ──_LoopTransport──▶ the loop that has the caches ──▶ bytes ──▶ thread

Caches may be used only in their own event loop, so every read runs there. The thread processes the bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.client.transport import Request, Response, Transport

T = TypeVar("T")


class _LoopTransport:
    """Transport that sends its requests in the event loop that has the caches."""

    def __init__(self, inner: Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        sent = asyncio.run_coroutine_threadsafe(self._send(request), self._loop)
        return await asyncio.wrap_future(sent)

    async def _send(self, request: Request) -> Response:
        return await self._inner.request(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[object]:
        """Raise NotImplementedError: the thread needs no watches."""
        raise NotImplementedError(request.path)

    async def close(self) -> None:
        """Do nothing, because the other event loop uses the connection."""


async def run_aside(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` in a thread, with a client that reads through `client`. Return its result, or raise its error."""
    transport = _LoopTransport(client.transport, asyncio.get_running_loop())

    async def working() -> T:
        own = Client(transport, clock=client.clock, retry=RetryPolicy(reads=1, total_s=5.0))  # type: ignore[arg-type]  # no streams
        return await work(own)

    return await asyncio.to_thread(lambda: asyncio.run(working()))
