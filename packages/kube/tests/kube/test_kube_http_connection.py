"""Connections that wait for the other side's close are ended immediately."""

import asyncio
import socket
from typing import Any

import pytest

from pykruise.kube.http.connection import cut_of


class ForgetsItsTls(asyncio.Transport):
    """A transport like a TLS transport of Python before 3.11.5 after two calls of `close`: it has lost its TLS part."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock: socket.socket | None = sock

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._sock if name == "socket" and self._sock is not None else default

    def close(self) -> None:
        self._sock = None

    def abort(self) -> None:
        raise AttributeError("'NoneType' object has no attribute '_abort'")


@pytest.mark.real_time
async def test_a_connection_is_ended_even_if_its_transport_forgot_its_tls_side() -> None:
    here, there = socket.socketpair()
    with here, there:
        # given
        transport = ForgetsItsTls(here)
        cut = cut_of([transport, None])
        transport.close()
        # when
        cut()
        # then the other side reads the end
        assert there.recv(1) == b""


@pytest.mark.real_time
async def test_a_connection_is_aborted() -> None:
    here, there = socket.socketpair()
    with there:
        there.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
        cut = cut_of([transport])
        cut()
        assert transport.is_closing()
        assert await asyncio.get_running_loop().sock_recv(there, 1) == b""
