"""The interface to an API server: a request with its response, and a stream of lines.

Client and caches ──Request──▶ Transport ──▶ kube/http/transport.py, or the sandbox's API server in the same process
                               └── WrappedTransport: counts, rejects, delays or changes requests on their way

All code above this interface is the same for both kinds of server; tests wrap a transport to inject faults.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

__all__ = ["Request", "Response", "Transport", "WrappedTransport"]


class _RequestLine(msgspec.Struct, frozen=True):
    method: str
    path: str
    """Begins with `/` and is percent-encoded."""


class Request(_RequestLine, frozen=True, kw_only=True):
    """A request to an API server: `Request("GET", "/version", timeout_s=5)`."""

    query: Mapping[str, str] = {}
    """Query parameters, not percent-encoded."""
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    timeout_s: float | None = None
    """Seconds for the whole response, or of silence in a stream. None: the transport's own limit; for a stream: no
    limit.
    """


class Response(msgspec.Struct, frozen=True):
    """A response of the API server, whatever its status code. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends requests to an API server."""

    async def request(self, request: Request, /) -> Response:
        """Send one request and return its response; an error status is a response, not an exception.

        Raises `TransportError` when no response arrives (its `sent` is true when the request may have taken effect).
        """
        ...

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a streaming GET (a watch or a log) and iterate its lines, without line ends.

        Entering raises the `ApiError` of a non-200 response, or `TransportError`. The iterator ends when
        the server ends the stream, and raises `TransportError` when the connection breaks or nothing
        arrives for the request's `timeout_s`.
        """
        ...

    async def close(self) -> None:
        """Release connections. Requests in flight fail."""
        ...


class WrappedTransport:
    """A Transport that passes everything on to `inner`. Subclasses override methods that behave differently."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request, /) -> Response:
        """See `Transport.request`."""
        return await self._inner.request(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._inner.stream(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()
