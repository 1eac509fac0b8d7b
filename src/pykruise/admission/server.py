"""The webhook server: HTTPS for API servers, and nothing a stranger sends can hurt it.

API server ──TLS──▶ WebhookServer: path? size? room? ──▶ Reviews.answer() (or another poster) ──▶ answer

Every limit has a defined outcome:

    unknown path 404 · not POST 405 · body too large 413 · body too slow 408
    too many requests at once, or too many bytes of them in memory: 429 with Retry-After
    a connection that sends no whole request in time, or one too many: closed

429 tells an API server to come back within the time it has anyway, perhaps at another replica; `is_overloaded`
tells readiness, so that a Service stops sending. The certificate can be exchanged while connections live.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from pykruise.admission import conversion
from pykruise.admission.reviews import Reviews
from pykruise.kube.cutting import cut_of
from pykruise.kube.documents import decode, encode

__all__ = ["Limits", "PostPath", "Poster", "WebhookServer", "conversion_path", "review_paths"]

_log = logging.getLogger(__name__)

JSON_CONTENT: Final = "application/json"
MIB: Final = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one server takes on. Sizes in bytes, times in seconds."""

    requests: int = 256
    """At once; one more is shed."""
    body: int = 7 * MIB
    """Of one review: an object and what it was before, three at most by an API server."""
    bodies: int = 256 * MIB
    """Of all requests at once."""
    connections: int = 1024
    body_s: float = 10.0
    """Until a body is complete."""
    request_s: float = 10.0
    """Until a new connection has sent its first request, its handshake included."""
    timeout_s: float = 10.0
    """For a review whose asker names no time."""
    longest_timeout_s: float = 30.0
    """For a review whose asker names a longer one."""
    overloaded_s: float = 5.0
    """How long after a request was shed readiness stays false."""


Poster = Callable[[str, bytes, float], Awaitable[bytes]]
"""Called with path, body and the seconds there are; answers with JSON. It raises nothing."""


class PostPath(msgspec.Struct, frozen=True):
    """What is answered under one path."""

    poster: Poster
    body: int | None = None
    """Instead of `Limits.body`."""


class WebhookServer:
    """Serves `paths` over TLS. `start`, `stop`; `load_certificate` before the start and whenever it is new."""

    def __init__(
        self,
        paths: Mapping[str, PostPath],
        *,
        host: str = "0.0.0.0",
        port: int = 9876,
        limits: Limits | None = None,
    ) -> None:
        self._paths = dict(paths)
        self._host = host
        self._port = port
        self._limits = limits or Limits()
        self._tls = _context()
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._silent: dict[web.RequestHandler, float] = {}
        self._requests = 0
        self._bytes = 0
        self._shed_at = float("-inf")
        self._shed = 0

    # ── life ─────────────────────────────────────────────────────────────────

    @property
    def port(self) -> int:
        """Where it listens: a free port when it was made with 0."""
        return self._port

    @property
    def is_listening(self) -> bool:
        """Between start and stop."""
        return self._listener is not None

    @property
    def requests(self) -> int:
        """Being answered right now."""
        return self._requests

    @property
    def shed(self) -> int:
        """Requests turned away since the start because there were too many."""
        return self._shed

    @property
    def is_overloaded(self) -> bool:
        """Whether requests were turned away a moment ago."""
        return asyncio.get_running_loop().time() - self._shed_at < self._limits.overloaded_s

    def load_certificate(self, chain: Path, key: Path) -> None:
        """Use this pair for every new connection; those that are open go on.

        Raises OSError or ssl.SSLError (a ValueError for some formats) when the pair cannot be used; the one
        before stays then.
        """
        # A pair that does not fit would leave the live context with half of it.
        _context().load_cert_chain(chain, key)
        self._tls.load_cert_chain(chain, key)

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=90.0,
            # API servers do not compress, and a small body must not become a large one in memory.
            auto_decompress=False,
        )
        self._listener = await loop.create_server(
            self._connection,
            self._host,
            self._port,
            ssl=self._tls,
            ssl_handshake_timeout=self._limits.request_s,
            backlog=256,
        )
        self._port = self._listener.sockets[0].getsockname()[1]
        self._sweeper = asyncio.create_task(self._sweep(), name="webhook-connections")

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Take no new connections, finish what is being answered (for so long), and close."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        listener.close()
        assert self._sweeper is not None
        assert self._server is not None
        self._sweeper.cancel()
        cut = cut_of(handler.transport for handler in self._server.connections)
        await self._server.shutdown(grace_s)
        cut()
        self._silent.clear()
        await asyncio.gather(self._sweeper, return_exceptions=True)

    # ── connections ──────────────────────────────────────────────────────────

    def _connection(self) -> web.RequestHandler:
        assert self._server is not None
        handler = self._server()
        self._silent[handler] = asyncio.get_running_loop().time()
        return handler

    async def _sweep(self) -> None:
        """Close connections that say nothing; nothing else ends those that never send a whole request."""
        while True:
            await asyncio.sleep(min(1.0, self._limits.request_s / 2))
            assert self._server is not None
            too_old = asyncio.get_running_loop().time() - self._limits.request_s
            late = [handler for handler, since in self._silent.items() if since < too_old]
            surplus = len(self._server.connections) - self._limits.connections
            if surplus > 0:
                late += [handler for handler in self._silent if handler not in late][:surplus]
            for handler in late:
                del self._silent[handler]
                if handler.transport is not None:
                    handler.transport.abort()

    # ── requests ─────────────────────────────────────────────────────────────

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self._silent.pop(request.protocol, None)
        if request.rel_url.raw_path == "/healthz":
            return web.Response()
        path = self._paths.get(request.rel_url.raw_path)
        if path is None:
            return _plain(404, "nothing is served under this path", close=True)
        if request.method != "POST":
            return _plain(405, "reviews are posted", close=True, allow="POST")
        if self._requests >= self._limits.requests:
            return self._turned_away()
        self._requests += 1
        try:
            return await self._reviewed(request, path)
        finally:
            self._requests -= 1

    async def _reviewed(self, request: web.BaseRequest, path: PostPath) -> web.StreamResponse:
        most = path.body or self._limits.body
        size = request.content_length or 0
        if size > most:
            return _plain(413, f"a body may have {most} bytes", close=True)
        reading = _Body()
        try:
            async with asyncio.timeout(self._limits.body_s):
                async for chunk in request.content.iter_any():
                    self._bytes += reading.add(chunk)
                    if reading.size > most:
                        return _plain(413, f"a body may have {most} bytes", close=True)
                    if self._bytes > self._limits.bodies:
                        return self._turned_away()
        except TimeoutError:
            return _plain(408, "the body did not come in time", close=True)
        else:
            timeout_s = self._timeout_s(request)
            answer = await path.poster(request.rel_url.raw_path, reading.bytes, timeout_s)
            return web.Response(body=answer, content_type=JSON_CONTENT)
        finally:
            self._bytes -= reading.size

    def _timeout_s(self, request: web.BaseRequest) -> float:
        """API servers tell how long they wait: `?timeout=10s`."""
        try:
            told = float(request.rel_url.query.get("timeout", "").removesuffix("s"))
        except ValueError:
            return self._limits.timeout_s
        if not told > 0:  # also NaN
            return self._limits.timeout_s
        return min(told, self._limits.longest_timeout_s)

    def _turned_away(self) -> web.Response:
        self._shed += 1
        self._shed_at = asyncio.get_running_loop().time()
        return _plain(429, "too many reviews at once; come back in a second", close=True, retry_after="1")


class _Body:
    """A body as it arrives."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> int:
        """Returns its size."""
        self._chunks.append(chunk)
        self.size += len(chunk)
        return len(chunk)

    @property
    def bytes(self) -> bytes:
        """All of it."""
        return b"".join(self._chunks)


def _plain(status: int, text: str, *, close: bool = False, **headers: str) -> web.Response:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    response = web.Response(status=status, text=f"{text}\n", headers=named)
    if close:
        # What is left of the body would be taken for the next request.
        response.force_close()
    return response


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def review_paths(reviews: Reviews) -> Mapping[str, PostPath]:
    """What a server needs to serve these reviews."""

    async def post(path: str, body: bytes, timeout_s: float) -> bytes:
        return await reviews.answer(path, body, timeout_s=timeout_s)

    return {path: PostPath(post) for path in reviews.paths}


CONVERSION_BODY: Final = 128 * MIB
"""A list is converted in one request, however long it is."""

LONG_CONVERSION: Final = 256 * 1024
"""Bytes from which a conversion gets a thread of its own, so that reviews need not wait for it."""


def conversion_path(path: str) -> Mapping[str, PostPath]:
    """What a server needs to serve conversions under this path."""

    async def post(_: str, body: bytes, timeout_s: float) -> bytes:
        if len(body) < LONG_CONVERSION:
            return _converted(body)
        return await asyncio.to_thread(_converted, body)

    return {path: PostPath(post, body=CONVERSION_BODY)}


def _converted(body: bytes) -> bytes:
    """The answer to a ConversionReview, whatever was sent."""
    try:
        return encode(conversion.review(decode(body)))
    except (ValueError, RecursionError) as error:
        return _not_converted(f"the body cannot be converted: {error}")
    except Exception:
        _log.exception("a conversion failed")
        return _not_converted("the conversion failed; the manager's log says why")


def _not_converted(message: str) -> bytes:
    response = {"uid": "", "result": {"status": "Failure", "message": message}, "convertedObjects": []}
    return encode({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
