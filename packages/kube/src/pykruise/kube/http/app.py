"""Inputs of an HTTP server: an App that answers, and the Limits of clients.

Request ──▶ App.admit(): a refusal, or go on ──▶ App.answer() ──▶ Response | Streamed

Every refusal is the App's, also of what is no HTTP: so each of them is what clients of that App know how to read.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pykruise.kube.client.transport import Response
from pykruise.kube.http.wire import WireRequest

__all__ = ["App", "HttpLimits", "StreamCutError", "Streamed"]


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of clients. Sizes in bytes, times in seconds."""

    head: int = 256 * 1024
    """Longest request line with headers, in bytes: label selectors and field paths may be long."""
    body: int = 3 * 1024 * 1024
    """Largest body of one request, in bytes; `App.admit` may set another limit."""
    bodies: int = 0
    """Largest total of all request bodies, in bytes; 0: no limit."""
    requests: int = 0
    """Being answered at once; 0: as many as there are."""
    connections: int = 0
    """At once, also those that are shaking hands; 0: as many as there are."""
    share: float = 1.0
    """Largest share of `bodies`, `requests` and `connections` for one peer address."""
    least_rate: int = 0
    """Bytes of a body that must come each second, once `grace_s` is over; 0: `read_s` alone counts."""
    grace_s: float = 2.0
    first_s: float = 60.0
    """From a connection's beginning to the end of its first head."""
    read_s: float = 60.0
    """From a request's first byte to its last."""
    idle_s: float = 300.0
    """Between two requests."""
    answer_s: float = 300.0
    """For an answer to be taken."""
    send_s: float = 20.0
    """For a part of a stream to be taken."""
    linger_s: float = 0.5
    """For an answer to arrive at a client that is still sending."""
    stop_s: float = 2.0
    """For requests under way when the server stops."""


class StreamCutError(Exception):
    """Raised by `Streamed.chunk`: the connection must break in the middle of the answer, as a network breaks it."""


class Streamed(Protocol):
    """An answer that goes on. `aclose` is called whatever happens."""

    @property
    def content_type(self) -> str:
        """Its media type."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Further headers of the answer, names in lower case."""
        ...

    async def chunk(self) -> bytes:
        """The next part; empty: there are no more."""
        ...

    async def aclose(self) -> None:
        """No more of it is wanted."""
        ...


class App(Protocol):
    """Application that answers requests."""

    def admit(self, request: WireRequest) -> Response | None:
        """The refusal of a request whose body is not there yet. It may set `request.most_body` and
        `request.is_counted`."""
        ...

    async def answer(self, request: WireRequest) -> Response | Streamed:
        """The answer to a request."""
        ...

    def failed(self, code: int, request: WireRequest) -> Response:
        """The answer to what is no request, or broke a limit (see http_server_connection.py), or failed (500).

        Of a request that did not arrive as a whole, what is known.
        """
        ...
