"""HTTP/1.1, with or without TLS, for servers whose speed matters (webhooks, the sandbox's API server).

    new connections ──▶ ServerRoom (fairness.py): is there a place? ──▶ TLS handshake, addresses in turn ──▶
    ServerConnection
    ServerConnection (server_connection.py) ──▶ Request ──▶ App (app.py) ──▶ Response, or a Streamed

A general HTTP server takes several times as much CPU time (measured: docs/lab/performance.md).

HttpServer owns the listening socket, the connections and their tasks.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from pykruise.kube.http.app import App, HttpLimits
from pykruise.kube.http.connection import cut_of
from pykruise.kube.http.fairness import ServerRoom
from pykruise.kube.http.server_connection import RECEIVE, ServerConnection, ServerState
from pykruise.kube.http.turns import Turns

__all__ = ["HttpServer", "find_local_host"]

_LOG: Final = logging.getLogger(__name__)

_FLUSH_S: Final = 0.01
_BACKLOG: Final = 4096
"""Length of the accept queue. When it is full, the kernel drops new connections, and a client tries again only after a
second.
"""
_ACCEPTS: Final = 128
"""Maximum number of new connections in one iteration of the loop."""
_HANDSHAKES: Final = 2
"""Maximum number of handshakes that begin in one iteration. Each takes almost a millisecond. Addresses take turns."""
_NO_FILES_S: Final = 0.1
"""Seconds until the next accept when no more files can be opened."""
_LATE_S: Final = 0.5
"""A check that runs this much too late closes no connection: data that arrived in time may not have been read yet."""
_ALL_INTERFACES: Final = frozenset(("", "0.0.0.0", "::"))
"""Hosts that mean all interfaces. Each of them means IPv4 and IPv6, as in Go."""
_MAPPED: Final = "::ffff:"
"""Prefix of an IPv4 address that the kernel reports as an IPv6 address."""


def find_local_host(host: str) -> str:
    """Return the host at which programs on the same machine reach a server that listens at `host`."""
    return "127.0.0.1" if host in _ALL_INTERFACES else host


class HttpServer:
    """Serves an App. `start`, then `stop`."""

    def __init__(self, app: App, *, limits: HttpLimits) -> None:
        self._state = ServerState(app, limits)
        self._tls: Callable[[], ssl.SSLContext] | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes = Turns(each=_HANDSHAKES, serve=self._begin_handshake)
        self._listeners: list[socket.socket] = []
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0

    @property
    def is_listening(self) -> bool:
        """Whether the server listens: true between `start` and `stop`."""
        return bool(self._listeners)

    @property
    def room(self) -> ServerRoom[ServerConnection]:
        """Capacity of the server, and its use."""
        return self._state.room

    async def start(self, host: str, port: int, *, tls: Callable[[], ssl.SSLContext] | None) -> int:
        """Listen; returns the port. `tls` is called for each connection. An empty host, `0.0.0.0` and `::` mean all
        interfaces, with IPv4 and IPv6. Raises OSError.
        """
        self._state.is_stopping = self._state.is_retiring = False
        self._tls = tls
        self._listeners = await _open_listeners(host, port)
        for listener in self._listeners:
            self._accept_from(listener)
        self._check_on()
        number: int = self._listeners[0].getsockname()[1]
        return number

    def _accept_from(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept new connections without an asyncio server, so that each can be counted and closed before it sends
        data.
        """
        for _ in range(_ACCEPTS):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                _LOG.warning("no connection can be accepted: %s", error.strerror)
                self._state.room.make_room(evict=ServerConnection.abort)
                asyncio.get_running_loop().remove_reader(listener.fileno())
                asyncio.get_running_loop().call_later(_NO_FILES_S, self._accept_from, listener)
                return
            sock.setblocking(False)
            peer = address[0].removeprefix(_MAPPED)
            connection = ServerConnection(self._state, sock, peer)
            if not self._state.room.enter(connection, peer, evict=ServerConnection.abort):
                sock.close()
            elif self._tls is None:
                self._open_connection(connection, None)
            else:
                connection.wait_for_hello(partial(self._handshakes.add, peer))

    def _begin_handshake(self, connection: ServerConnection) -> bool:
        """Begin a handshake. Returns False when the connection is lost or there is no TLS."""
        if connection.is_lost or self._tls is None:
            return False
        self._open_connection(connection, self._tls())
        return True

    def _open_connection(self, connection: ServerConnection, tls: ssl.SSLContext | None) -> None:
        opening = asyncio.get_running_loop().create_task(connection.open(tls))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    def _check_on(self) -> None:
        """Check all connections regularly: a timer for each request would cost more."""
        loop = asyncio.get_running_loop()
        now, limits = loop.time(), self._state.limits
        if now - self._looks_at < _LATE_S or not self._looks_at:
            for connection in self._state.room:
                connection.check(now)
        often_s = 1.0 if limits.connections else 5.0
        every_s = min(often_s, limits.read_s / 4, limits.idle_s / 4, limits.first_s / 4)
        self._looks_at = now + every_s
        self._timer = loop.call_at(self._looks_at, self._check_on)

    def retire(self) -> None:
        """Announce the end: each connection closes after its next response, whose headers say so. Otherwise a client
        that sends a request while `stop` closes its connection could not know whether the server read the request.
        """
        self._state.is_retiring = True

    async def stop(self, *, grace_s: float | None = None) -> None:
        """Accept no more connections, let requests in flight finish (`grace_s`, or `HttpLimits.stop_s`), and close
        all connections.
        """
        listeners, self._listeners = self._listeners, []
        if not listeners:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._state.is_stopping = True
        for listener in listeners:
            asyncio.get_running_loop().remove_reader(listener.fileno())
            listener.close()
        self._handshakes.clear()
        opening = tuple(self._opening)
        for connection in self._state.room:
            if connection.transport is None:
                connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._state.limits.stop_s if grace_s is None else grace_s):
                while any(connection.is_busy for connection in self._state.connections):  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.005)
        connections = tuple(self._state.connections)
        cut = cut_of(connection.transport for connection in connections)
        for connection in connections:
            connection.close()
        await asyncio.sleep(_FLUSH_S)  # time to send the data that has been written
        tasks = [connection.task for connection in connections if connection.task is not None]
        cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.sleep(0)  # an abort takes effect in the next iteration


async def _open_listeners(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at every address of a host."""
    sockets = (
        [_bind_all_interfaces(port)] if host in _ALL_INTERFACES else await _bind_addresses_of(host, port)
    )
    try:
        for sock in sockets:
            sock.setblocking(False)
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE
            )  # accepted connections inherit this size
            sock.listen(_BACKLOG)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _bind_all_interfaces(port: int) -> socket.socket:
    """Return one socket for all interfaces. Two sockets would get different ports for port 0."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


async def _bind_addresses_of(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of a host."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [socket.socket(fileno=os.dup(item.fileno())) for item in server.sockets]
    finally:
        server.close()
