"""A name with several addresses: one that does not respond does not prevent the connection."""

import asyncio
import socket
from typing import Any

import pytest

from pykruise.kube.http.addresses import open_socket

SILENT = "192.0.2.1"
HERE = "127.0.0.1"


class Loop:
    """A loop whose resolver returns these addresses. Connections to SILENT never get a response."""

    def __init__(self, *hosts: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._hosts = hosts
        self.tried: list[str] = []

    def time(self) -> float:
        return self._loop.time()

    async def getaddrinfo(self, _: str, port: int, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port)) for host in self._hosts]

    async def sock_connect(self, _: socket.socket, address: tuple[str, int]) -> None:
        self.tried.append(address[0])
        if address[0] == SILENT:
            await asyncio.Event().wait()
        if address[1] == 1:
            raise ConnectionRefusedError("refused")


async def connect(*hosts: str, port: int = 443) -> tuple[Loop, float]:
    loop: Any = Loop(*hosts)
    begun = loop.time()
    (await open_socket(loop, "api.example.com", port, timeout_s=10)).close()
    return loop, loop.time() - begun


async def test_the_next_address_is_tried_when_one_does_not_respond() -> None:
    loop, seconds = await connect(SILENT, HERE)
    assert (loop.tried, seconds) == ([SILENT, HERE], 5)
    loop, seconds = await connect(SILENT, SILENT, HERE)
    assert loop.tried == [SILENT, SILENT, HERE]
    assert seconds < 10


async def test_the_first_error_is_reported_when_no_address_accepts() -> None:
    with pytest.raises(ConnectionRefusedError):
        await connect(HERE, SILENT, port=1)
    with pytest.raises(TimeoutError, match=f"{SILENT} does not respond"):
        await connect(SILENT)
