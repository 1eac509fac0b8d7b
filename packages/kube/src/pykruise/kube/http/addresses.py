"""TCP connections to a name that may have several addresses.

name, port ──getaddrinfo──▶ addresses ──▶ open_socket(): the first address that accepts a connection

An address that does not respond gets only its share of the time, so that the next one is tried too. Same rule as Go's
dialer (`partialDeadline` in net/dial.go).
"""

import asyncio
import socket
from typing import Any, Final

__all__ = ["open_socket"]

_LEAST_S: Final = 2.0
"""Shortest time for one address, in seconds."""


async def open_socket(
    loop: asyncio.AbstractEventLoop, host: str, port: int, *, timeout_s: float
) -> socket.socket:
    """Return a connected TCP socket. `timeout_s`: seconds for all addresses together; the caller also limits the time.

    Raises the OSError of the first address if no address accepts a connection.
    """
    ends_at = loop.time() + timeout_s
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problems: list[OSError] = []
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        share_s = (ends_at - loop.time()) / (len(addresses) - index)
        try:
            async with asyncio.timeout(max(_LEAST_S, share_s)):
                return await _connect(loop, socket.socket(family, kind, protocol), address)
        except OSError as error:  # TimeoutError included
            problems.append(error if str(error) else TimeoutError(f"{address[0]} does not respond"))
    raise problems[0] if problems else OSError(f"{host} has no address")


async def _connect(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, address: tuple[Any, ...]
) -> socket.socket:
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
