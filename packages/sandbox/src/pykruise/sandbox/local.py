"""Transport to an API server in the same process: the same interface as HTTP, without sockets.

kube.client ──▶ LocalTransport ──▶ ApiServer.handle(), ApiServer.stream()

Every request lets other tasks run once before it is executed, as a network would. Otherwise a client in a loop would
starve the watchers of its writes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.errors import (
    ConnectionLostError,
    RequestTimeoutError,
    SilentStreamError,
    UnreachableError,
    parse_error,
)
from pykruise.sandbox.apiserver import ApiServer, LineStream
from pykruise.sandbox.apiserver.access.users import User, make_trusted_user

_STEADY: Final = {"allowWatchBookmarks": "false", "timeoutSeconds": str(100 * 366 * 24 * 3600)}


class LocalTransport:
    """A Transport to `server`. `latency_s` returns the seconds that a request takes to arrive (called once per
    request). Without `managed_fields`, responses have no managedFields and are faster.

    `username` is a user who may do everything; `user` may do what the server allows. With `steady`, a watch never ends
    by timeout and sends no bookmarks while nothing changes: this saves work when virtual years pass in seconds.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        username: str = "",
        user: User | None = None,
        latency_s: Callable[[], float] | None = None,
        managed_fields: bool = True,
        steady: bool = False,
    ) -> None:
        self._server = server
        self._steady = steady
        self._user = user or make_trusted_user(username)
        self._managed_fields = managed_fields
        self._latency_s = latency_s
        self._streams: dict[LineStream, None] = {}  # in the order in which they were opened
        self._closed = False

    async def request(self, request: Request, /) -> Response:
        """Return the server's response. Raises TransportError after `close`, RequestTimeoutError after `timeout_s`."""
        if self._closed:
            raise UnreachableError("the transport is closed")
        if request.timeout_s is None:
            return await self._send(request)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._send(request)
        except TimeoutError as err:
            what = f"{request.method} {request.path}"
            raise RequestTimeoutError(f"no response to {what} within {request.timeout_s:g} s") from err

    async def _send(self, request: Request) -> Response:
        await self._wait_latency()
        return await self._server.handle(
            request.method,
            request.path,
            query=request.query,
            headers=_convert_to_lower_case(request.headers),
            body=request.body,
            user=self._user,
            managed_fields=self._managed_fields,
        )

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the lines of a watch, or of a followed log. Entering raises the ApiError of a rejected request."""
        if self._closed:
            raise UnreachableError("the transport is closed")
        await self._wait_latency()
        query, idle_timeout_s = request.query, request.timeout_s
        if self._steady:
            query, idle_timeout_s = {**query, **_STEADY}, None
        opened = await self._server.stream(
            request.path,
            query=query,
            headers=_convert_to_lower_case(request.headers),
            user=self._user,
            managed_fields=self._managed_fields,
        )
        if isinstance(opened, Response):
            raise parse_error(opened.status, opened.body, opened.headers)
        self._streams[opened] = None
        try:
            yield self._read_lines(opened, idle_timeout_s)
        finally:
            self._streams.pop(opened, None)
            await opened.aclose()

    async def _read_lines(self, opened: LineStream, idle_timeout_s: float | None) -> AsyncIterator[bytes]:
        while True:
            try:
                if idle_timeout_s is None:
                    lines = await opened.read_batch()
                else:
                    async with asyncio.timeout(idle_timeout_s):
                        lines = await opened.read_batch()
            except TimeoutError as err:
                raise SilentStreamError(f"nothing arrived for {idle_timeout_s:g} s") from err
            if not lines:
                if self._closed:
                    raise ConnectionLostError("the transport is closed")
                return
            for line in lines:
                yield line

    async def _wait_latency(self) -> None:
        await asyncio.sleep(self._latency_s() if self._latency_s is not None else 0)

    async def close(self) -> None:
        """Break the streams. Later requests fail."""
        self._closed = True
        for opened in tuple(self._streams):
            await opened.aclose()


def _convert_to_lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
