"""Parameters of an HTTP server: an App that answers requests, and the limits of clients.

Request ──▶ App.admit(): a refusal, or continue ──▶ App.answer() ──▶ Response | Streamed | Upgraded

The App builds every refusal, also for data that is not HTTP, so that all refusals have a form that its clients
understand.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import msgspec

from pykruise.kube.client.transport import Response
from pykruise.kube.http.wire import WireRequest

__all__ = ["App", "HttpLimits", "StreamCutError", "Streamed", "Upgraded"]


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of clients. Sizes are in bytes, times in seconds."""

    head: int = 256 * 1024
    """Longest request line with headers, in bytes: label selectors and field paths may be long."""
    body: int = 3 * 1024 * 1024
    """Largest body of one request, in bytes; `App.admit` may set another limit."""
    bodies: int = 0
    """Largest total of all request bodies, in bytes; 0: no limit."""
    requests: int = 0
    """Maximum number of requests that are answered at the same time; 0: no limit."""
    connections: int = 0
    """Maximum number of connections at the same time, including those in a TLS handshake; 0: no limit."""
    share: float = 1.0
    """Largest share of `bodies`, `requests` and `connections` for one peer address."""
    least_rate: int = 0
    """Bytes of a body that must arrive each second, after `grace_s`; 0: only `read_s` limits a body."""
    grace_s: float = 2.0
    first_s: float = 60.0
    """Time for the TLS handshake of a new connection, and then from the first byte of its first head to the last."""
    read_s: float = 60.0
    """Time from the first byte of a request to its last."""
    idle_s: float = 300.0
    """Time without a request, also before the first one: clients open connections in reserve. It must be longer than
    the time for which clients keep an unused connection, because a request may be on its way when the server closes.
    """
    answer_s: float = 300.0
    """Time for a client to read a response."""
    send_s: float = 20.0
    """Time for a client to read a part of a stream."""
    linger_s: float = 0.5
    """Time for an early response to reach a client that is still sending."""
    stop_s: float = 2.0
    """Time for requests in flight to finish when the server stops."""


class StreamCutError(Exception):
    """Raised by `Streamed.chunk`: the connection must break in the middle of the response, as by a network fault."""


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
    """A response after which the connection carries another protocol, such as a WebSocket, until it closes. `aclose`
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
        """Whether the client has ended the protocol. The connection closes then."""
        ...

    @abstractmethod
    async def chunk(self) -> bytes:
        """Return the next bytes for the client; empty: the end."""
        ...

    @abstractmethod
    def receive(self, data: bytes) -> bytes:
        """Take bytes of the client, 1 KiB at most. Returns bytes to send immediately, which are dropped if the
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
        """Return the refusal of a request whose body has not arrived, or None. It may set `request.most_body` and
        `request.is_counted`.
        """
        ...

    async def answer(self, request: WireRequest) -> Response | Streamed | Upgraded:
        """Return the response to a request."""
        ...

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the response to invalid data, to a broken limit (see server_connection.py), or to a failure (500).

        `request` has the known parts of a request that did not arrive as a whole.
        """
        ...
