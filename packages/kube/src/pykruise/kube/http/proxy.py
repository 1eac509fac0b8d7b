"""Connections through an HTTP proxy, for API servers that the client cannot reach directly.

an https:// server ──▶ open_tunnel() ──CONNECT──▶ proxy ──▶ API server, and TLS through it
an http:// server  ──▶ the proxy itself, which gets whole URLs and ProxyAddress.authorization

The connection to the proxy may use TLS too. A proxy that closes the connection early, does not respond in time or
rejects the tunnel causes an OSError, like any unreachable server.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from pykruise.kube.errors import ConfigurationError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.http.heads import HEAD_END, LINE_END, format_request_head
from pykruise.kube.http.trust import make_client_context

__all__ = ["ProxyAddress", "open_tunnel", "read_proxy"]

_MOST_ANSWER: Final = 64 * 1024
"""Maximum number of bytes of a proxy's response to CONNECT."""
_MOST_WORDS: Final = 200
_PORTS: Final = {"http": 80, "https": 443}


class ProxyAddress(msgspec.Struct, frozen=True):
    """Address of a proxy."""

    tls: ssl.SSLContext | None
    """TLS context of all connections to the proxy itself; None: plain HTTP."""
    host: str
    port: int
    authorization: str
    """Value of the header Proxy-Authorization; empty: not sent."""

    def __str__(self) -> str:
        return f"{'https' if self.tls is not None else 'http'}://{self.host}:{self.port}"


def read_proxy(url: str) -> ProxyAddress | None:
    """Parse a proxy's URL such as `http://user:key@proxy:3128`; None for an empty URL. Raises ConfigurationError."""
    if not url:
        return None
    parts = urlsplit(url)
    try:
        usual = _PORTS[parts.scheme]
        port = parts.port or usual
    except (ValueError, KeyError) as error:  # the URL may contain a password: it is not shown
        raise ConfigurationError(
            f"the proxy {parts.scheme}://{parts.hostname} is not supported; use an http:// or https:// URL with a port"
        ) from error
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    tls = make_client_context() if parts.scheme == "https" else None
    return ProxyAddress(tls, parts.hostname or "", port, authorization)


P = TypeVar("P", bound=asyncio.BaseProtocol)


async def open_tunnel(
    loop: asyncio.AbstractEventLoop,
    proxy: ProxyAddress,
    make: Callable[[], P],
    *,
    sock: socket.socket,
    target: str,
    tls: ssl.SSLContext,
    server_hostname: str,
    goodbye_s: float,
) -> P:
    """Return a protocol that speaks TLS with the server behind the proxy.

    `sock`: connected to the proxy. `target`: host and port of the server.

    Raises OSError. The caller must limit the time.
    """
    transport, greeting = await loop.create_connection(
        lambda: _Greeting(loop),
        sock=sock,
        ssl=proxy.tls,
        server_hostname=proxy.host if proxy.tls is not None else None,
    )
    try:
        fields = [("Host", target)]
        if proxy.authorization:
            fields.append(("Proxy-Authorization", proxy.authorization))
        transport.write(format_request_head("CONNECT", target, fields))
        status = await greeting.status
        version, _, code = status.partition(b" ")
        if not version.startswith(b"HTTP/") or code[:3] != b"200":
            words = excerpt(status.decode("latin-1"), most=_MOST_WORDS)
            raise ConnectionRefusedError(f"the proxy {proxy} opened no tunnel; it responded {words!r}")
        protocol = make()
        inner = await loop.start_tls(
            transport, protocol, tls, server_hostname=server_hostname, ssl_shutdown_timeout=goodbye_s
        )
    except BaseException:
        transport.abort()
        raise
    if inner is None:
        raise ConnectionResetError(f"the proxy {proxy} closed the connection")
    protocol.connection_made(inner)
    return protocol


class _Greeting(asyncio.Protocol):
    """Waits for the head of the proxy's response; `status` is its first line."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.status: asyncio.Future[bytes] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        if self.status.done():
            return
        self._head += data
        head, end, behind = self._head.partition(HEAD_END)
        if end and not behind:
            self.status.set_result(head.split(LINE_END, 1)[0])
        elif end or len(self._head) > _MOST_ANSWER:
            self._set_error(
                ConnectionResetError("the proxy's response to CONNECT has a body, or its head is too large")
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_error(exc or ConnectionResetError("the proxy closed the connection"))

    def _set_error(self, error: Exception) -> None:
        if not self.status.done():
            self.status.set_exception(error)
            self.status.exception()  # otherwise asyncio logs an error that no caller retrieves
