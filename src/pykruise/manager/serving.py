"""Small plain HTTP servers for probes, metrics and diagnosis: GET only, text answers.

kubelet, Prometheus, a person ──▶ PlainServer ──▶ one function for each path ──▶ text
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from aiohttp import web

from pykruise.manager.settings import Address

__all__ = ["Answer", "PlainServer", "Query"]

_log = logging.getLogger(__name__)

_STOP_S = 2.0

Query = Mapping[str, str]


class Answer(msgspec.Struct, frozen=True):
    """What a path answers with."""

    text: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Responder = Callable[[str, Query], Answer]
"""Called with what follows the path (`/readyz/webhook-ready`: `webhook-ready`) and the query."""


class PlainServer:
    """A Component that serves `paths` (each with everything below it) at `address`."""

    def __init__(self, name: str, address: Address, paths: Mapping[str, Responder]) -> None:
        self._name = name
        self._address = address
        self._paths = dict(paths)
        self._stopping = asyncio.Event()
        self.port = address.port
        """Where it listens, once it does."""

    @property
    def name(self) -> str:
        """What it serves."""
        return self._name

    def problems(self) -> Sequence[str]:
        """None: a server that cannot listen ends the manager."""
        return ()

    async def run(self) -> None:
        """Serve until `stop()`. Raises OSError when the address cannot be used."""
        # Dots and spaces in errors are aiohttp's; a log line for each probe would be noise.
        server = web.Server(self._answer, access_log=None)
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(server, self._address.host or None, self._address.port)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot serve {self._name}: {error.strerror}", str(self._address)
            ) from error
        self.port = listener.sockets[0].getsockname()[1]
        _log.info("%s are served at %s:%d", self._name, self._address.host, self.port)
        try:
            await self._stopping.wait()
        finally:
            listener.close()
            await server.shutdown(_STOP_S)

    async def stop(self) -> None:
        """Serve no longer."""
        self._stopping.set()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return web.Response(
                status=405, text="only GET is answered here\n", headers={"Allow": "GET, HEAD"}
            )
        responder, rest = self._responder(request.path)
        if responder is None:
            return web.Response(status=404, text="not found\n")
        try:
            answer = responder(rest, request.query)
        except Exception:  # a figure that cannot be computed must not end a probe's connection
            _log.exception("%s cannot be answered", request.path)
            return web.Response(status=500, text="internal error\n")
        return web.Response(
            status=answer.status, body=answer.text.encode(), headers={"Content-Type": answer.content_type}
        )

    def _responder(self, path: str) -> tuple[Responder | None, str]:
        found = self._paths.get(path)
        if found is not None:
            return found, ""
        for prefix, responder in self._paths.items():
            if path.startswith(prefix.rstrip("/") + "/"):
                return responder, path[len(prefix.rstrip("/")) + 1 :]
        return None, ""
