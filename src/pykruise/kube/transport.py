"""The seam to an API server: a request with its answer, and a stream of lines.

Client and caches ──▶ Transport ──▶ HTTP (kube/http.py) or the sandbox's API server core in the same process.

Everything above this seam is the same code for both; tests put fault injection between them.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec


class Response(msgspec.Struct, frozen=True):
    """An answer of the API server, whatever its status code. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """How requests reach an API server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Send one request and return its answer; an error status is an answer, not an exception.

        `path` begins with `/` and is already percent-encoded; `query` is not.
        Raises `TransportError` when there is no answer (its `sent` tells whether the request may
        have taken effect).
        """
        ...

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a streaming GET (a watch or a log) and iterate its lines, without line ends.

        Entering raises the `ApiError` of a non-200 answer, or `TransportError`. The iterator ends when
        the server ends the stream, and raises `TransportError` when the connection breaks or nothing
        arrives for `idle_timeout_s`.
        """
        ...

    async def close(self) -> None:
        """Release connections. Requests under way fail."""
        ...
