"""The sandbox's API server over HTTPS, so that kubectl and other people's clients can talk to it.

    client ──TLS──▶ HttpFront: token? size? ──▶ ApiServer.handle() ──▶ answer
                                            └─▶ ApiServer.stream() ──▶ chunks, a line for each watch event

It listens on this machine's loopback only: it is a development tool, and the holder of the admin's token may
do anything. Health and version are open, as on a real server; everything else wants a bearer token: the admin's,
or one of a service account.

Owns: the listening socket and the connections. Everything about Kubernetes is behind `ApiServer`.
"""

import asyncio
import errno
import hmac
import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

from pykruise.kube.cutting import cut_of
from pykruise.kube.errors import Status
from pykruise.kube.transport import Response
from pykruise.sandbox.apiserver import ApiServer, LineStream, openapi, protobuf
from pykruise.sandbox.apiserver.access.impersonation import IMPERSONATED_GROUP
from pykruise.sandbox.apiserver.access.users import ADMIN, NOBODY, User
from pykruise.sandbox.apiserver.statuses import (
    bad_request,
    request_entity_too_large,
    status_document,
)
from pykruise.sandbox.certificates import Certificate

__all__ = ["MAX_BODY", "HttpFront"]

_LOG: Final = logging.getLogger(__name__)

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes a request may carry, as on a real server."""

_OPEN_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
_SEND_TIMEOUT_S: Final = 20.0
_STOP_TIMEOUT_S: Final = 2.0
_CHUNK_LINES: Final = 256
_MAX_LINE: Final = 64 * 1024
"""Bytes of a request's first line or of one header: label selectors and field paths may be long."""


class HttpFront:
    """Serves `server` to whoever presents `token`. `start`, use `url`, `stop`.

    `port` 0 takes a free one. `send_timeout_s` is how long a watcher may leave its connection unread before
    it is dropped.
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
            raise ValueError("the token must not be empty: without one anybody could write to the cluster")
        _check_loopback(host)
        self._server = server
        self._token = token.encode()
        self._host = host
        self._port = port
        self._certificate = certificate
        self._send_timeout_s = send_timeout_s
        self._runner: web.ServerRunner | None = None
        self._watches: set[LineStream] = set()
        self._url = ""

    @property
    def url(self) -> str:
        """Where it listens: `https://127.0.0.1:43211`. Empty before `start`."""
        return self._url

    @property
    def watches(self) -> int:
        """Watches being served right now."""
        return len(self._watches)

    async def start(self) -> None:
        """Listen. Raises OSError, with a message that says what to do, when the port is taken."""
        context = _tls(self._certificate)
        # A handler ends with its connection: a watch whose client has gone would stay until it has news.
        server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=300.0,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_STOP_TIMEOUT_S)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port, ssl_context=context)
        try:
            await site.start()
        except OSError as err:
            await runner.cleanup()
            raise _explained(err, self._host, self._port) from err
        self._runner = runner
        port = runner.addresses[0][1]
        self._url = f"https://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    async def stop(self) -> None:
        """End the watches, let requests under way finish for a moment, and stop listening."""
        runner, self._runner = self._runner, None
        for watch in tuple(self._watches):
            await watch.aclose()
        if runner is None:
            return
        assert runner.server is not None
        cut = cut_of(handler.transport for handler in runner.server.connections)
        await runner.cleanup()
        cut()
        await asyncio.sleep(0)  # an abort takes place a moment later

    # --- requests ---

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        user = self._user(request.headers.get("Authorization", ""))
        if user is None and path in _OPEN_PATHS:
            user = NOBODY
        if user is None:
            return _answer(_unauthorized(), request.method)
        headers = _lowered(request.headers)
        query = dict(request.rel_url.query)
        if self._server.is_stream(request.method, path, query):
            return await self._watch(request, path, query, headers, user)
        if path == "/openapi/v2" and "proto-openapi" in headers.get("accept", ""):
            document = Response(200, {"content-type": openapi.V2_MEDIA_TYPE}, openapi.openapi_v2_answer())
            return _answer(document, request.method)
        try:
            body = await _read(request)
        except _TooLargeError:
            return _answer(_too_large(), request.method, close=True)
        if headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):
            try:
                body = orjson.dumps(protobuf.to_document(body)) if body else b""
            except protobuf.ProtobufError as err:
                return _answer(_refusal(bad_request(str(err)).status), request.method)
            headers["content-type"] = "application/json"
        answer = await self._server.handle(
            request.method, path, query=query, headers=headers, body=body or None, user=user
        )
        return _answer(answer, request.method)

    def _user(self, authorization: str) -> User | None:
        """Whose token that is; None: nobody's."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token.strip()
        # Compared in constant time: how long it takes must not tell how much of a guess was right.
        if hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token):
            return ADMIN
        return self._server.user_of(token)

    async def _watch(
        self,
        request: web.BaseRequest,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        user: User,
    ) -> web.StreamResponse:
        opened = await self._server.stream(path, query=query, headers=headers, user=user)
        if isinstance(opened, Response):
            return _answer(opened, request.method)
        self._watches.add(opened)
        response = web.StreamResponse(
            headers={"Content-Type": opened.content_type, "Cache-Control": "no-cache"}
        )
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            while lines := await opened.batch():
                for start in range(0, len(lines), _CHUNK_LINES):
                    await self._send(response, lines[start : start + _CHUNK_LINES])
            async with asyncio.timeout(self._send_timeout_s):
                await response.write_eof()
        except TimeoutError:
            _LOG.info("a watch of %s was dropped: nobody read it for %g s", path, self._send_timeout_s)
            _abort(request)
        except (ConnectionError, RuntimeError):
            # The client went away, or the connection is being closed.
            _abort(request)
        finally:
            self._watches.discard(opened)
            await opened.aclose()
        return response

    async def _send(self, response: web.StreamResponse, lines: list[bytes]) -> None:
        async with asyncio.timeout(self._send_timeout_s):
            await response.write(b"\n".join(lines) + b"\n")


def _lowered(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    """Headers by their names in lower case. Of the groups to act as there may be several, one a line."""
    found = {name.lower(): value for name, value in headers.items()}
    if IMPERSONATED_GROUP in found:
        found[IMPERSONATED_GROUP] = "\n".join(headers.getall(IMPERSONATED_GROUP))
    return found


class _TooLargeError(Exception):
    pass


async def _read(request: web.BaseRequest) -> bytes:
    """The body, if it is not too large. What is too large is not read to its end."""
    if (request.content_length or 0) > MAX_BODY:
        raise _TooLargeError
    if not request.can_read_body:
        return b""
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise _TooLargeError
        chunks.append(chunk)
    return b"".join(chunks)


def _answer(answer: Response, method: str, *, close: bool = False) -> web.Response:
    headers = dict(answer.headers)
    response = web.Response(
        status=answer.status, body=b"" if method == "HEAD" else answer.body, headers=headers
    )
    if close:
        response.force_close()
    return response


def _refusal(status: Status) -> Response:
    return Response(status.code, {"content-type": "application/json"}, orjson.dumps(status_document(status)))


def _unauthorized() -> Response:
    return _refusal(Status(status="Failure", message="Unauthorized", reason="Unauthorized", code=401))


def _too_large() -> Response:
    return _refusal(request_entity_too_large(MAX_BODY).status)


def _abort(request: web.BaseRequest) -> None:
    """Cut the connection: what is still buffered for it is thrown away."""
    transport = request.transport
    if transport is not None:
        transport.abort()


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


def _explained(err: OSError, host: str, port: int) -> OSError:
    if err.errno == errno.EADDRINUSE:
        return OSError(
            err.errno, f"port {port} on {host} is in use; choose another, or 0 for any that is free"
        )
    if err.errno == errno.EACCES:
        return OSError(err.errno, f"port {port} on {host} may not be used; choose one above 1023")
    return err


def _tls(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # ssl reads certificates from files only; the key is on disk for this moment, for its owner alone.
    with tempfile.TemporaryDirectory(prefix="pykruise-") as folder:
        chain, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        chain.write_bytes(certificate.chain)
        key.touch(mode=0o600)
        key.write_bytes(certificate.key)
        context.load_cert_chain(chain, key)
    return context
