"""The webhook server: HTTPS for API servers, with limits that protect it against all other clients.

API server ──TLS──▶ HttpServer ──▶ WebhookServer: path? size? room? ──▶ ReviewDispatcher.answer() ──▶ response

Every limit has a defined outcome:

    401     a client CA is configured, and the client of a review has no certificate
    404     the path is unknown
    405     the method is not POST
    408     a body arrives too slowly
    413     a body is too large
    429     too many concurrent requests, or too many bytes of their bodies in memory; with Retry-After
    closed  a connection that sends no request in time, and an idle one beyond the limit of connections

kube/http/server.py implements HTTP itself: a general server needed half of a review's CPU time. After 429, an API
server tries again within its timeout, perhaps at another replica. Load does not make a replica unready: a Service
spreads requests evenly, so all replicas would become unready together, and then all reviews would fail. The log and
`shed` report the load. The certificate can be replaced while connections are open.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pykruise.kube.client.transport import Response
from pykruise.kube.control.quota import FullError, Quota
from pykruise.kube.http.app import HttpLimits as HttpLimits
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.wire import WireRequest
from pykruise.kube.values.counts import format_count
from pykruise.kube.webhooks.reviews import ReviewDispatcher

__all__ = [
    "MIB",
    "ClientAuthority",
    "LongBodies",
    "PostPath",
    "Poster",
    "RequestMeter",
    "WebhookLimits",
    "WebhookServer",
    "review_paths",
]

_log = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
"""Bytes in a mebibyte."""
_HEALTH: Final = "/healthz"
_JSON_HEADERS: Final[Mapping[str, str]] = {"content-type": "application/json"}
_REFUSALS: Final[Mapping[int, str]] = {
    400: "the request is not valid HTTP/1.1",
    408: "the request did not arrive in time",
    417: "the Expect header must be 100-continue",
    431: "the request's line and headers are too large",
    500: "an internal error occurred",
    501: "this transfer coding or this method is not supported",
    505: "only HTTP 1.0 and 1.1 are supported",
}


class WebhookLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server. Sizes in bytes, times in seconds."""

    requests: int = 256
    """Maximum number of concurrent requests; further requests are rejected."""
    head: int = 16 * 1024
    """Longest request line with headers, in bytes; those of API servers have some hundred bytes."""
    body: int = 7 * MIB
    """Largest body of one review: an object and its previous state, each of at most three MiB."""
    bodies: int = 14 * MIB
    """Maximum total size of all request bodies, in bytes. Those of API servers have about ten kilobytes."""
    connections: int = 288
    share: float = 0.5
    """Maximum share of requests, bodies and connections for one peer address. A single API server needs no more."""
    least_rate: int = 64 * 1024
    """Minimum bytes per second of a body, after two seconds. An API server sends a body immediately."""
    body_s: float = 10.0
    """Maximum time from the first byte of a request to its last byte."""
    answer_s: float = 10.0
    """Maximum time until the client has received the response."""
    request_s: float = 10.0
    """Maximum time for the TLS handshake of a new connection, and then for the head of its first request."""
    timeout_s: float = 10.0
    """Time for a review whose request has no timeout."""
    longest_timeout_s: float = 30.0
    """Maximum time for a review whose request has a longer timeout."""


Poster = Callable[[str, bytes, float], Awaitable[bytes]]
"""Answers a request from its path, its body and the available seconds. Returns JSON and raises nothing."""


class LongBodies(msgspec.Struct, frozen=True):
    """Bodies of at least `size` bytes, with a limit on how many may wait at the same time, since each holds memory."""

    size: int
    quota: Quota
    """Quota by the client's address."""


class PostPath(msgspec.Struct, frozen=True):
    """Responder of one path."""

    poster: Poster
    body: int | None = None
    """Maximum size of a body; None: `WebhookLimits.body`."""
    long: LongBodies | None = None
    """Limit on the number of long bodies that wait at the same time; None: no such limit."""
    is_open: bool = False
    """Whether requests without a client certificate are answered even if a client CA is configured."""


class RequestMeter(Protocol):
    """Measures the requests that a server answers, also those for its health."""

    def begin(self, path: str) -> None:
        """Note the begin of a request."""
        ...

    def end(self, path: str, status: int, seconds: float) -> None:
        """Note the end of a request, and the HTTP status of its response."""
        ...


class WebhookServer:
    """Serves `paths` over TLS. Call `load_certificate` before `start`, and again for each new certificate.

    `client_authority`: a file with certificates (PEM). Then only clients with a certificate of these CAs get responses
    to reviews. A changed file applies from the next connection. `meter`: measures the requests. `host`: by default all
    interfaces, with IPv4 and IPv6.
    """

    def __init__(
        self,
        paths: Mapping[str, PostPath],
        *,
        host: str = "",
        port: int = 9876,
        limits: WebhookLimits | None = None,
        client_authority: Path | None = None,
        meter: RequestMeter | None = None,
    ) -> None:
        self._paths = dict(paths)
        self._meter = meter
        self._host = host
        self._port = port
        self._limits = limits or WebhookLimits()
        self._pair: tuple[Path, Path] | None = None
        self._authority = ClientAuthority(client_authority) if client_authority is not None else None
        self._tls = _make_tls_context()
        self._http = HttpServer(self, limits=_build_http_limits(self._limits))
        self._load_logged_at = float("-inf")
        self._shed = 0

    # ── life ─────────────────────────────────────────────────────────────────

    @property
    def port(self) -> int:
        """Port on which the server listens: a free one if the configured port is 0."""
        return self._port

    @property
    def is_listening(self) -> bool:
        """Whether the server has started and not stopped."""
        return self._http.is_listening

    @property
    def paths(self) -> frozenset[str]:
        """All paths that the server answers."""
        return frozenset((*self._paths, _HEALTH))

    @property
    def requests(self) -> int:
        """Number of requests in progress."""
        return self._http.room.requests

    @property
    def shed(self) -> int:
        """Number of requests that were rejected since the start because there was no room for them."""
        return self._shed

    def load_certificate(self, chain: Path, key: Path) -> None:
        """Use this certificate and key for every new connection; open connections continue.

        Raises OSError or ssl.SSLError (a ValueError for some formats) when they cannot be used. The previous
        certificate and key then stay in use.
        """
        # If key and certificate did not match, loading them into the live context would leave it half changed.
        context = _make_tls_context()
        context.load_cert_chain(chain, key)
        if self._authority is not None:
            self._authority.load_into(context)
        self._tls, self._pair = context, (chain, key)

    def _find_current_tls(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection."""
        if self._pair is not None and self._authority is not None and self._authority.has_changed():
            try:
                self.load_certificate(*self._pair)
                _log.info("the CA certificates for clients were reloaded")
            except (OSError, ValueError) as error:
                _log.error(
                    "the CA certificates for clients could not be reloaded, and the old CA"
                    " certificates stay in use: %s",
                    error,
                )
        return self._tls

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._port = await self._http.start(self._host, self._port, tls=self._find_current_tls)

    def retire(self) -> None:
        """Make clients open their next connections to other servers, because `stop()` follows soon."""
        self._http.retire()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Accept no new connections, complete requests in progress for at most `grace_s`, and close all connections."""
        await self._http.stop(grace_s=grace_s)

    # ── calls by HttpServer ──────────────────────────────────────────────────────

    def admit(self, request: WireRequest) -> Response | None:
        """Return the response that rejects a request for an unknown path, or one for which there is no room; None: the
        request is admitted.
        """
        if request.path == _HEALTH:
            # A health request waits for nothing, so it needs no place among the reviews and no body.
            request.is_counted, request.most_body = False, 0
            return (
                None
                if request.method in ("GET", "HEAD")
                else _build_plain_response(405, "only GET and HEAD are supported", allow="GET, HEAD")
            )
        path = self._paths.get(request.path)
        if path is None:
            return _build_plain_response(404, "unknown path")
        if request.method != "POST":
            return _build_plain_response(405, "only POST is supported", allow="POST")
        if self._authority is not None and not request.is_verified and not path.is_open:
            return _build_plain_response(401, "a client certificate is required")
        if path.body is not None:
            request.most_body = path.body
        if path.long is not None and path.long.quota.is_full(request.peer) and _is_long(request, path.long):
            return self._reject_for_load()  # before the body is read, which also takes time
        return None

    async def answer(self, request: WireRequest) -> Response:
        """Return the response of the request path's responder."""
        meter = self._meter
        if meter is None:
            return await self._answer_path(request)
        clock = asyncio.get_running_loop().time
        # Also the status of a request whose client no longer waits: controller-runtime counts these requests as 200.
        began, status = clock(), 200
        meter.begin(request.path)
        try:
            response = await self._answer_path(request)
            status = response.status
            return response
        except Exception:
            status = 500
            raise
        finally:
            meter.end(request.path, status, clock() - began)

    async def _answer_path(self, request: WireRequest) -> Response:
        if request.path == _HEALTH:
            return Response(200, {}, b"")
        path = self._paths[request.path]
        timeout_s = self._parse_timeout_s(request.query.get("timeout", ""))
        if path.long is None or len(request.body) < path.long.size:
            return Response(200, _JSON_HEADERS, await path.poster(request.path, request.body, timeout_s))
        try:
            with path.long.quota.place(request.peer):
                return Response(200, _JSON_HEADERS, await path.poster(request.path, request.body, timeout_s))
        except FullError:
            return self._reject_for_load()

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the response to an invalid request, or to one that exceeds a limit."""
        if code == 429:
            return self._reject_for_load()
        if code == 413:
            return _build_plain_response(
                413, f"the body must have at most {format_count(request.most_body, 'byte')}"
            )
        return _build_plain_response(code, _REFUSALS[code])

    def _parse_timeout_s(self, text: str) -> float:
        """Parse an API server's timeout: `?timeout=10s`."""
        try:
            seconds = float(text.removesuffix("s"))
        except ValueError:
            return self._limits.timeout_s
        if not seconds > 0:  # also NaN
            return self._limits.timeout_s
        return min(seconds, self._limits.longest_timeout_s)

    def _reject_for_load(self) -> Response:
        self._shed += 1
        # More replicas help against a lack of room, but not against a client that exceeds its share or sends slowly.
        if self._http.room.has_no_place_for_requests:
            self._log_load()
        return _build_plain_response(
            429, "too many concurrent reviews; retry in a second", **{"retry-after": "1"}
        )

    def _log_load(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._load_logged_at >= _LOAD_LOG_S:
            self._load_logged_at = now
            _log.warning(
                "there is no room for a further request, because %s in progress; %s rejected since the start;"
                " add replicas",
                format_count(self.requests, "request is", "requests are"),
                format_count(self._shed, "request was", "requests were"),
            )


_LOAD_LOG_S: Final = 60.0
"""Minimum seconds between two log lines about rejected requests."""

_IDLE_S: Final = 120.0
"""Seconds until an unused connection is closed: longer than the 90 s after which an API server closes it. If this
server closed the connection first, a review that the API server was just sending could fail.
"""


def _build_http_limits(limits: WebhookLimits) -> HttpLimits:
    return HttpLimits(
        head=limits.head,
        body=limits.body,
        bodies=limits.bodies,
        requests=limits.requests,
        connections=limits.connections,
        share=limits.share,
        least_rate=limits.least_rate,
        first_s=limits.request_s,
        read_s=limits.body_s,
        answer_s=limits.answer_s,
        idle_s=_IDLE_S,
    )


def _is_long(request: WireRequest, long: LongBodies) -> bool:
    """Whether the incoming body is long or of unknown length."""
    length = request.headers.get("content-length", "")
    return not length.isdecimal() or len(length) > 19 or int(length) >= long.size


def _build_plain_response(status: int, text: str, **headers: str) -> Response:
    return Response(status, {"content-type": "text/plain; charset=utf-8", **headers}, f"{text}\n".encode())


def _make_tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class ClientAuthority:
    """The CA that must have issued the clients' certificates: a file that other programs update."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = (0, 0)

    def has_changed(self) -> bool:
        """Whether the file differs from the one that was read last."""
        try:
            return self._read_file_stamp() != self._read
        except OSError:
            return False  # another program is replacing the file

    def load_into(self, context: ssl.SSLContext) -> None:
        """Trust these CAs. Raises OSError or ValueError."""
        self._read = self._read_file_stamp()
        context.load_verify_locations(self._file)
        # Optional: API servers send no certificate with conversion requests (kubernetes/kubernetes#131810).
        context.verify_mode = ssl.CERT_OPTIONAL

    def _read_file_stamp(self) -> tuple[int, int]:
        result = self._file.stat()
        return result.st_mtime_ns, result.st_ino


def review_paths(reviews: ReviewDispatcher) -> Mapping[str, PostPath]:
    """Return the paths with which a server serves these reviews."""

    async def post(path: str, body: bytes, timeout_s: float) -> bytes:
        return await reviews.answer(path, body, timeout_s=timeout_s)

    return {path: PostPath(post) for path in reviews.paths}
