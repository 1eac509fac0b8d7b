"""Parameters of an HTTP server: an App that answers requests, and the limits for clients.

Request ──▶ App.admit(): an error response, or continue ──▶ App.answer() ──▶ Response | Streamed | Upgraded

The App builds every error response, also for data that is not HTTP, so that its clients understand the form of all
error responses.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import msgspec

from pykruise.kube.client.transport import Response
from pykruise.kube.http.wire import WireRequest

__all__ = ["App", "HttpLimits", "StreamCutError", "Streamed", "Upgraded"]


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for clients. Sizes are in bytes, times in seconds."""

    head: int = 256 * 1024
    """Maximum bytes of request line and headers together: label selectors and field paths may be long."""
    body: int = 3 * 1024 * 1024
    """Maximum bytes of the body of one request; `App.admit` may set another limit."""
    bodies: int = 0
    """Maximum bytes of all request bodies together; 0: no limit."""
    requests: int = 0
    """Maximum number of requests that are answered at the same time; 0: no limit."""
    connections: int = 0
    """Maximum number of connections at the same time, including those in a TLS handshake; 0: no limit."""
    share: float = 1.0
    """Maximum share of `bodies`, `requests` and `connections` that one peer address may use."""
    least_rate: int = 0
    """Bytes of a body that must arrive each second, after `grace_s`; 0: only `read_s` limits the time of a body."""
    grace_s: float = 2.0
    first_s: float = 60.0
    """Maximum time for the TLS handshake of a new connection, and then from the first byte of its first head to the
    last byte.
    """
    read_s: float = 60.0
    """Maximum time from the first byte of a request to its last byte."""
    idle_s: float = 300.0
    """Maximum time between two requests, and before the first one, because clients open connections in reserve. A
    client should close an unused connection earlier: otherwise it may send a request while the server closes the
    connection.
    """
    answer_s: float = 300.0
    """Maximum time in which a client must read a response."""
    send_s: float = 20.0
    """Maximum time in which a client must read a part of a stream."""
    linger_s: float = 0.5
    """Time that the server waits for an early response to reach a client that is still sending."""
    stop_s: float = 2.0
    """Maximum time that requests in flight may take when the server stops."""


class StreamCutError(Exception):
    """`Streamed.chunk` raises this error: the connection must break in the middle of the response, as by a network
    fault.
    """


class Streamed(Protocol):
    """A streamed response. `aclose` is always called at the end."""

    @property
    def content_type(self) -> str:
        """Media type of the response."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Further headers of the response; names are lower case."""
        ...

    async def chunk(self) -> bytes:
        """Return the next part; empty: the end."""
        ...

    async def aclose(self) -> None:
        """End the response; no more parts are read."""
        ...


class Upgraded(ABC):
    """A response after which the connection is used for another protocol, such as WebSocket, until it closes. `aclose`
    is always called at the end.
    """

    @property
    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """Headers of the response 101; names are lower case."""
        ...

    @property
    @abstractmethod
    def is_ended(self) -> bool:
        """Whether the client has ended the protocol. If so, the server closes the connection."""
        ...

    @abstractmethod
    async def chunk(self) -> bytes:
        """Return the next bytes for the client; empty: the end."""
        ...

    @abstractmethod
    def receive(self, data: bytes) -> bytes:
        """Process bytes from the client, 1 KiB at most. Returns bytes to send immediately; they are dropped if the
        client does not read.
        """
        ...

    @abstractmethod
    async def aclose(self) -> None:
        """End the response; no more parts are read."""
        ...


class App(Protocol):
    """Application that answers requests."""

    def admit(self, request: WireRequest) -> Response | None:
        """Return the response that rejects a request before its body arrives, or None: the body is read. The App may
        set `request.most_body` and `request.is_counted`.
        """
        ...

    async def answer(self, request: WireRequest) -> Response | Streamed | Upgraded:
        """Return the response to a request."""
        ...

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the response to invalid data, to data beyond a limit (see server_connection.py), or to a failure
        (500).

        `request` has the known parts of a request that did not arrive as a whole.
        """
        ...
