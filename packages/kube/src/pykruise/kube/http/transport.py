"""HTTP to an API server: the `Transport` that leaves this process.

Client ──▶ HttpTransport.request() ──▶ kept connections (client.py)                ──▶ API server
caches ──▶ HttpTransport.stream()  ──▶ one connection for each watch (streams.py)  ──▶ API server
                                            both directly, or through a proxy (proxy.py)

Requests and streams have separate pools, so watches never delay a request. Every request carries the current headers
of the Connection's credentials; after a 401 the credentials are refreshed once. Every failure of a connection is raised
as a TransportError, whose `sent` is true when the request may have taken effect.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from urllib.parse import urlsplit

from pykruise.kube.client.limiter import MOST_OF_REVIEWS, MOST_REQUESTS
from pykruise.kube.client.transport import Request, Response
from pykruise.kube.config.connection import Connection
from pykruise.kube.errors import AnswerTooLargeError, ConnectionLostError, RequestTimeoutError, parse_error
from pykruise.kube.http.client import HttpClient
from pykruise.kube.http.connection import (
    BROKEN,
    MOST_REFUSAL,
    Fields,
    HttpOrigin,
    TooLargeError,
    text_of,
    what_of,
)
from pykruise.kube.http.proxy import read_proxy
from pykruise.kube.http.streams import Stream, Streams, lines_of
from pykruise.kube.http.trust import make_client_context
from pykruise.kube.version import __version__

__all__ = ["HttpTransport"]


class HttpTransport:
    """`Transport` over HTTP. Only one event loop may use it; `close()` it in the same loop.

    `pool` limits the connections for requests: by default one for each request that the limiters of a client and of its
    reviews allow. Streams are not limited. `timeout_s` applies to a whole request without its own limit, and to opening
    a stream; `connect_timeout_s` to TCP and TLS. `keepalive_s` is the time after which an
    idle connection is closed: long enough for the requests of one rollout, and below the 90 s of API servers.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        pool: int = MOST_REQUESTS + MOST_OF_REVIEWS,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        keepalive_s: float = 15.0,
        user_agent: str = f"pykruise/{__version__}",
    ) -> None:
        self.connection = connection
        self._origin = _parse_origin(connection)
        self._timeout_s = timeout_s
        self._default_headers = [("User-Agent", user_agent), *connection.headers]
        self._requests = HttpClient(
            self._origin, limit=pool, keepalive_s=keepalive_s, connect_timeout_s=connect_timeout_s
        )
        self._streams = Streams(self._origin, connect_timeout_s=connect_timeout_s)
        self._default_tls: ssl.SSLContext | None = None

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`. After a 401 the credentials are refreshed and the request is sent once more."""
        credentials = self.connection.credentials
        auth = await credentials.read_headers()
        answer = await self._send_request(request, auth)
        if answer.status != 401 or not await credentials.refresh(rejected=auth):
            return answer
        return await self._send_request(request, await credentials.read_headers())

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`. Lines have at most MOST_LINE bytes."""
        credentials = self.connection.credentials
        auth = await credentials.read_headers()
        answer = await self._open_stream(request, auth)
        try:
            if answer.code == 401 and await credentials.refresh(rejected=auth):
                answer.abort()
                answer = await self._open_stream(request, await credentials.read_headers())
            what = what_of(self._origin, request)
            if answer.code != 200:
                body = await self._read_refusal(what, answer)
                raise parse_error(answer.code, body, answer.headers)
            async with aclosing(lines_of(answer, what=what, idle_timeout_s=request.timeout_s)) as lines:
                yield lines
        finally:
            answer.abort()  # inside a stream this closes the connection, which ends a watch

    async def close(self) -> None:
        """Close all connections. Requests in flight and new requests fail."""
        await self._requests.close()
        await self._streams.close()

    async def _send_request(self, request: Request, auth: Mapping[str, str]) -> Response:
        return await self._requests.send(
            request,
            self._build_headers(request, auth),
            tls=self._choose_tls_context(),
            timeout_s=self._timeout_s if request.timeout_s is None else request.timeout_s,
        )

    async def _open_stream(self, request: Request, auth: Mapping[str, str]) -> Stream:
        headers = self._build_headers(request, auth)
        return await self._streams.open(
            request, headers, tls=self._choose_tls_context(), timeout_s=self._timeout_s
        )

    async def _read_refusal(self, what: str, answer: Stream) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._timeout_s):
                while part := await answer.read():
                    parts.append(part)
                    size += len(part)
                    if size > MOST_REFUSAL:
                        break  # the rest of an error response is not needed
        except TimeoutError as err:
            raise RequestTimeoutError(f"{what}: no response in time") from err
        except BROKEN as err:
            raise ConnectionLostError(f"{what}: the connection broke: {text_of(err)}") from err
        except TooLargeError as err:
            raise AnswerTooLargeError(f"{what}: {err}") from err
        return b"".join(parts)

    def _build_headers(self, request: Request, auth: Mapping[str, str]) -> Fields:
        """Return all headers; those of the request replace the default User-Agent."""
        named = request.headers
        is_named = "user-agent" in named or any(name.lower() == "user-agent" for name in named)
        usual = self._default_headers[1:] if is_named else self._default_headers
        return (*usual, *request.headers.items(), *auth.items())

    def _choose_tls_context(self) -> ssl.SSLContext | None:
        """Return the context to use now; None: plain HTTP."""
        if not self._origin.is_tls:
            return None
        context = self.connection.credentials.tls or self.connection.ssl_context
        if context is None:
            context = self._default_tls = self._default_tls or make_client_context()
        return context


def _parse_origin(connection: Connection) -> HttpOrigin:
    url = urlsplit(connection.server.rstrip("/"))
    host, is_tls = url.hostname or "", url.scheme == "https"
    usual = 443 if is_tls else 80
    port = url.port or usual
    shown = f"[{host}]" if ":" in host else host
    return HttpOrigin(
        is_tls=is_tls,
        host=host,
        port=port,
        prefix=url.path.rstrip("/"),
        authority=shown if port == usual else f"{shown}:{port}",
        name=connection.server_name or host,
        proxy=read_proxy(connection.proxy),
    )
