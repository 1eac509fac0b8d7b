"""The sandbox's API server over HTTPS, for kubectl and other clients.

    client ──TLS──▶ HttpServer ──▶ HttpFront.admit(): token? ──▶ HttpFront.answer()
        ──▶ ApiServer.handle() ──▶ response
        └─▶ ApiServer.stream() ──▶ chunks, a line for each watch event; or frames of a WebSocket (websockets.py)

The server only listens on the loopback of this machine: it is a development tool, and the holder of the admin's token
may do everything. As on a real server, health and version need no token. All other requests need a bearer token: that
of the admin, or of a service account.

http_server.py implements HTTP, and `ApiServer` implements Kubernetes. This module owns the watches in progress.
"""

import errno
import hmac
import ipaddress
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from pykruise.kube.client.transport import Response
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.http.app import HttpLimits, Streamed, Upgraded
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.wire import WireRequest
from pykruise.sandbox.apiserver import ApiServer, LineStream
from pykruise.sandbox.apiserver.access.users import ADMIN, ANONYMOUS_USER, User
from pykruise.sandbox.apiserver.requests import openapi, protobuf
from pykruise.sandbox.apiserver.requests.statuses import (
    build_status_document,
    make_bad_request,
    make_request_entity_too_large,
)
from pykruise.sandbox.certificates import Certificate
from pykruise.sandbox.websockets import (
    FrameReader,
    Opcode,
    TokenProtocolError,
    answer_handshake,
    close_frame,
    is_websocket_request,
    pong_frame,
    split_token,
    text_frame,
)

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest request body in bytes, as on a real server."""

_OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
_SEND_TIMEOUT_S: Final = 20.0
_CHUNK_LINES: Final = 256
_EVENTS: Final = "application/json"
"""Media type of events. The lines of a log have another media type, and are not sent over WebSockets."""


class HttpFront:
    """Serves `server` to clients with `token`. Call `start`, use `url`, then call `stop`.

    `port` 0 means any free port. `send_timeout_s`: if a watcher reads nothing for this number of seconds, its
    connection is closed.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        certificate: Certificate,
        send_timeout_s: float = _SEND_TIMEOUT_S,
    ) -> None:
        if not token:
            raise ValueError("the token must not be empty: without one any client could write to the cluster")
        _check_loopback(host)
        self._server = server
        self._token = token.encode()
        self._host = host
        self._port = port
        self._certificate = certificate
        self._send_timeout_s = send_timeout_s
        self._http: HttpServer | None = None
        self._watches: set[LineStream] = set()
        self._url = ""

    @property
    def url(self) -> str:
        """Address of the server, such as `https://127.0.0.1:43211`. Empty before `start`."""
        return self._url

    @property
    def watches(self) -> int:
        """Number of watches in progress."""
        return len(self._watches)

    async def start(self) -> None:
        """Start to listen. Raises OSError with advice in its message when the port is taken."""
        server = HttpServer(self, limits=HttpLimits(body=MAX_BODY, send_s=self._send_timeout_s))
        tls = _make_tls_context(self._certificate)
        try:
            port = await server.start(self._host, self._port, tls=lambda: tls)
        except OSError as err:
            raise _explain(err, self._host, self._port) from err
        self._http = server
        self._url = f"https://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    async def stop(self) -> None:
        """End the watches, let requests in progress finish for a short time, and stop listening."""
        http, self._http = self._http, None
        for watch in tuple(self._watches):
            await watch.aclose()
        if http is not None:
            await http.stop()

    # --- called by HttpServer ----------------------------------------

    def admit(self, request: WireRequest) -> Response | None:
        """Store the user of a request in `request.noted`. If no user is found, return the response 401."""
        user = self._find_user(request.headers.get("authorization", ""))
        if user is None and is_websocket_request(request.headers):
            user = self._find_user_of_protocols(request.headers)
        if user is None and request.path in _OPEN_PATHS:
            user = ANONYMOUS_USER
        request.noted = user
        return None if user is not None else _build_refusal(401)

    async def answer(self, request: WireRequest) -> Response | Streamed | Upgraded:
        """Return the API server's response."""
        user = request.noted
        assert isinstance(user, User)
        headers, body = request.headers, request.body
        if self._server.is_stream(request.method, request.path, request.query):
            return await self._open_watch(request, user)
        if request.path == "/openapi/v2" and "proto-openapi" in headers.get("accept", ""):
            answer = openapi.answer_openapi_v2(self._server.catalog.minor)
            return Response(200, {"content-type": openapi.V2_MEDIA_TYPE}, answer)
        if headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):
            try:
                body = orjson.dumps(protobuf.to_document(body)) if body else b""
            except protobuf.ProtobufError as err:
                return _build_response(make_bad_request(str(err)).status)
            headers["content-type"] = "application/json"
        return await self._server.handle(
            request.method, request.path, query=request.query, headers=headers, body=body or None, user=user
        )

    def failed(self, code: int, request: WireRequest) -> Response:
        """Return the Status for a request that is invalid or exceeds a limit."""
        return _build_refusal(code)

    def _find_user(self, authorization: str) -> User | None:
        """The user of the token; None when the token is unknown."""
        scheme, _, token = authorization.partition(" ")
        return self._find_user_of_token(token.strip()) if scheme.lower() == "bearer" else None

    def _find_user_of_protocols(self, headers: dict[str, str]) -> User | None:
        """The user of the token among a WebSocket's subprotocols; None without a valid token. Removes the token."""
        try:
            token, others = split_token(headers)
        except TokenProtocolError:
            return None
        user = self._find_user_of_token(token) if token else None
        if user is not None:
            headers["sec-websocket-protocol"] = others
        return user

    def _find_user_of_token(self, token: str) -> User | None:
        # Compare in constant time, so that the duration does not reveal how much of a guess was right.
        if hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token):
            return ADMIN
        return self._server.user_of(token)

    async def _open_watch(self, request: WireRequest, user: User) -> Response | Streamed | Upgraded:
        opened = await self._open_lines(request, user)
        if isinstance(opened, Response):
            return opened
        if not is_websocket_request(request.headers) or opened.content_type != _EVENTS:
            return _Watch(opened, self._watches)
        handshake = answer_handshake(request.headers)
        if handshake.status != 101:
            await opened.aclose()
            return handshake
        return _WatchSocket(opened, self._watches, handshake.headers)

    async def _open_lines(self, request: WireRequest, user: User) -> LineStream | Response:
        """Open the watch, or the followed log, that a request asks for."""
        return await self._server.stream(
            request.path, query=request.query, headers=request.headers, user=user
        )


class _Watch:
    """A watch as a response. It is in `open_watches` until it is closed."""

    def __init__(self, opened: LineStream, open_watches: set[LineStream]) -> None:
        self._opened = opened
        self._open_watches = open_watches
        open_watches.add(opened)

    @property
    def content_type(self) -> str:
        return self._opened.content_type

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    async def chunk(self) -> bytes:
        lines = await self.lines()
        return b"\n".join(lines) + b"\n" if lines else b""

    async def lines(self) -> list[bytes]:
        """The next lines; empty at the end."""
        return await self._opened.read_batch(most=_CHUNK_LINES)

    async def aclose(self) -> None:
        self._open_watches.discard(self._opened)
        await self._opened.aclose()


class _WatchSocket(Upgraded):
    """A watch over a WebSocket: each event is one text frame. It is in `open_watches` until it is closed."""

    def __init__(self, opened: LineStream, open_watches: set[LineStream], headers: Mapping[str, str]) -> None:
        self._watch = _Watch(opened, open_watches)
        self._headers = headers
        self._frames = FrameReader()
        self._is_ended = False
        self._has_said_goodbye = False

    @property
    def headers(self) -> Mapping[str, str]:
        return self._headers

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    async def chunk(self) -> bytes:
        lines = await self._watch.lines()
        if lines:
            return b"".join(text_frame(line + b"\n") for line in lines)
        is_last, self._has_said_goodbye = not self._has_said_goodbye, True
        return close_frame() if is_last else b""

    def receive(self, data: bytes) -> bytes:
        answers = []
        for frame in self._frames.read(data):
            self._is_ended = frame.opcode == Opcode.CLOSE
            answers.append(close_frame(frame.status) if self._is_ended else pong_frame(frame.payload))
        return b"".join(answers)

    async def aclose(self) -> None:
        await self._watch.aclose()


_REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("BadRequest", "the request is not HTTP/1.1"),
    401: ("Unauthorized", "Unauthorized"),
    408: ("Timeout", "the request did not arrive in time"),
    417: ("BadRequest", "the Expect header must be 100-continue"),
    429: ("TooManyRequests", "too many concurrent requests"),
    431: ("BadRequest", "the request's line and headers are too large"),
    500: ("InternalError", "the server could not respond to the request"),
    501: ("BadRequest", "this transfer coding or method is not supported"),
    505: ("BadRequest", "only HTTP 1.0 and 1.1 are supported"),
}


def _build_refusal(code: int) -> Response:
    if code == 413:
        return _build_response(make_request_entity_too_large(MAX_BODY).status)
    reason, message = _REFUSALS[code]
    return _build_response(ErrorStatus(status="Failure", message=message, reason=reason, code=code))


def _build_response(status: ErrorStatus) -> Response:
    return Response(
        status.code, {"content-type": "application/json"}, orjson.dumps(build_status_document(status))
    )


def _check_loopback(host: str) -> None:
    if host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise ValueError(
        f"the sandbox listens on this machine only (127.0.0.1, ::1 or localhost), not on {host!r}"
    )


def _explain(err: OSError, host: str, port: int) -> OSError:
    if err.errno == errno.EADDRINUSE:
        return OSError(
            err.errno, f"port {port} on {host} is in use; choose another port, or 0 for a free port"
        )
    if err.errno == errno.EACCES:
        return OSError(err.errno, f"no permission to use port {port} on {host}; choose a port above 1023")
    return err


def _make_tls_context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # ssl reads certificates from files only. The key is on disk for a moment, readable by its owner only.
    with tempfile.TemporaryDirectory(prefix="pykruise-") as folder:
        chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        chain.write_bytes(certificate.chain)
        key.touch(mode=0o600)
        key.write_bytes(certificate.key)
        context.load_cert_chain(chain, key)
    return context
