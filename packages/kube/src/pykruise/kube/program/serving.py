"""Small plain HTTP servers for probes, metrics and diagnosis: GET and HEAD only, text responses.

kubelet, Prometheus, a person ──▶ HttpServer ──▶ PlainServer ──▶ one function for each path ──▶ text

HTTP and its limits are in kube/http/server.py: a connection is closed if a request stays incomplete for some
seconds, or after 90 seconds without a request. When there are too many connections, a new one replaces an idle one: one
of the same address if that address has used up its share, otherwise one of the address with the most connections. If
none of them is idle, the new connection is rejected.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qs, unquote

import msgspec

from pykruise.kube.client.transport import Response
from pykruise.kube.http.app import HttpLimits
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.wire import WireRequest

__all__ = ["STOP_S", "Address", "PathAnswer", "PlainServer", "Query", "Responder"]

_log = logging.getLogger(__name__)

STOP_S: Final = 2.0
"""Maximum seconds for requests in progress when a server stops."""

LIMITS: Final = HttpLimits(
    head=16 * 1024,
    body=0,
    connections=64,
    share=0.5,
    first_s=5.0,
    read_s=5.0,
    answer_s=10.0,
    idle_s=90.0,
)
"""Limits for clients that keep one connection or open one per request."""


class Address(msgspec.Struct, frozen=True):
    """Address on which a server listens. An empty host means all interfaces; port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Query = Mapping[str, Sequence[str]]
"""All values of each parameter."""


class PathAnswer(msgspec.Struct, frozen=True):
    """Response for a path."""

    text: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Responder = Callable[[str, Query], PathAnswer]
"""Called with the rest of the path (`/readyz/webhook-ready`: `webhook-ready`) and the query."""


class PlainServer:
    """A Component that serves `paths` (each with all paths below it) at `address`.

    `is_optional`: if the address cannot be used, the server logs this and ends, and the program continues without it.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        paths: Mapping[str, Responder],
        *,
        limits: HttpLimits = LIMITS,
        is_optional: bool = False,
    ) -> None:
        self._name = name
        self._address = address
        self._paths = dict(paths)
        self._limits = limits
        self._is_optional = is_optional
        self._stopping = asyncio.Event()
        self.port = address.port
        """Port on which the server listens, after it has started."""

    @property
    def name(self) -> str:
        """Name of the server."""
        return self._name

    def list_problems(self) -> Sequence[str]:
        """Return no problems: a server that cannot listen ends the program, or only logs this if it is optional."""
        return ()

    async def run(self) -> None:
        """Serve until `stop()`. Raises OSError when the address cannot be used and the server is not optional."""
        server = HttpServer(self, limits=self._limits)
        try:
            self.port = await server.start(self._address.host, self._address.port, tls=None)
        except OSError as error:
            if self._is_optional:
                _log.error("%s: cannot serve %s: %s", self._address, self._name, error.strerror)
                return
            raise OSError(
                error.errno, f"cannot serve {self._name}: {error.strerror}", str(self._address)
            ) from error
        _log.info("%s are served at %s:%d", self._name, self._address.host, self.port)
        try:
            await self._stopping.wait()
        finally:
            await server.stop(grace_s=STOP_S)

    async def stop(self) -> None:
        """Stop serving."""
        self._stopping.set()

    # ── called by HttpServer ─────────────────────────────────────────────────

    def admit(self, request: WireRequest) -> Response | None:
        """Return the response that rejects a request other than GET or HEAD; None: the request is accepted."""
        if request.method not in ("GET", "HEAD"):
            return _build_plain_response("only GET is supported\n", 405, allow="GET, HEAD")
        return None

    async def answer(self, request: WireRequest) -> Response:
        """Return the response of the function that serves the path."""
        responder, rest = self._find_responder(unquote(request.path))
        if responder is None:
            return _build_plain_response("not found\n", 404)
        query = parse_qs(request.target.partition(b"?")[2].decode("latin-1"), keep_blank_values=True)
        answer = responder(rest, query)
        return Response(answer.status, {"content-type": answer.content_type}, answer.text.encode())

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the response to invalid data, to data beyond a limit, or to a failure."""
        return _build_plain_response(
            "internal error\n" if code == 500 else "the server cannot process this request\n", code
        )

    def _find_responder(self, path: str) -> tuple[Responder | None, str]:
        result = self._paths.get(path)
        if result is not None:
            return result, ""
        for prefix, responder in self._paths.items():
            if path.startswith(prefix.rstrip("/") + "/"):
                return responder, path[len(prefix.rstrip("/")) + 1 :]
        return None, ""


def _build_plain_response(text: str, status: int, **headers: str) -> Response:
    return Response(status, {"content-type": "text/plain; charset=utf-8", **headers}, text.encode())
