"""Ends connections at once that have been closed and wait for the other side's goodbye.

transports ──▶ cut_of(), before they are closed ──▶ a function, for after

A client with a pool of connections says no goodbye, so a polite close of TLS would last for its time-out.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

__all__ = ["cut_of"]


def cut_of(transports: Iterable[asyncio.WriteTransport | None]) -> Callable[[], None]:
    """What ends these connections, to be called once they have been closed. Ended ones (None) are left out.

    Python before 3.11.5 forgets the TLS side of a transport that is closed twice, as servers do, and cannot abort
    it any more; then its socket is shut down, which is why they have to be given before.
    """
    found = [
        (transport, transport.get_extra_info("socket")) for transport in transports if transport is not None
    ]

    def cut() -> None:
        for transport, sock in found:
            try:
                transport.abort()
            except AttributeError:
                if sock is not None:  # else it had been closed twice before, and ends by itself
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)

    return cut
