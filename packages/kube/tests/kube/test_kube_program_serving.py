"""The ports of probes, metrics and thread dumps: their answers and their limits. Plain TCP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pykruise.kube.program.serving import LIMITS, Address, PathAnswer, PlainServer, Query

pytestmark = pytest.mark.real_time


def echo(rest: str, query: Query) -> PathAnswer:
    return PathAnswer(f"{rest} {dict(query)}")


def broken(rest: str, query: Query) -> PathAnswer:
    raise ZeroDivisionError


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[PlainServer]:
    server = PlainServer(
        "figures",
        Address("127.0.0.1", 0),
        {"/echo": echo, "/broken": broken},
        limits=msgspec.structs.replace(LIMITS, **limits),
    )
    running = asyncio.create_task(server.run())
    async with asyncio.timeout(10):
        while server.port == 0:
            await asyncio.sleep(0.01)
    try:
        yield server
    finally:
        await server.stop()
        await running


async def asked(server: PlainServer, said: str) -> str:
    """Everything that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(said.replace("\n", "\r\n").encode())
    data = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return data.decode()


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        ("GET /echo", 200, " {}"),
        ("GET /echo/a/b%2Fc?x=1&x=2&y", 200, "a/b/c {'x': ['1', '2'], 'y': ['']}"),
        ("HEAD /echo", 200, ""),
        ("GET /echoer", 404, "not found\n"),
        ("DELETE /echo", 405, "only GET is supported\n"),
        ("GET /broken", 500, "internal error\n"),
    ],
)
async def test_a_path_is_answered_by_its_function(line: str, status: int, body: str) -> None:
    async with serving() as server:
        head, _, text = (await asked(server, f"{line} HTTP/1.1\nHost: x\nConnection: close\n\n")).partition(
            "\r\n\r\n"
        )
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert text == body


async def test_a_connection_without_a_request_is_closed() -> None:
    async with serving(idle_s=0.1) as server:
        assert await asked(server, "") == ""


@pytest.mark.parametrize("said", ["GET /echo HTTP/1.1\nHost: x", "GET /to"])
async def test_half_a_request_is_not_waited_for(said: str) -> None:
    async with serving(first_s=0.1) as server:
        assert await asked(server, said) == ""


async def test_a_second_request_that_stays_half_is_not_waited_for_either() -> None:
    async with serving(read_s=0.1) as server:
        text = await asked(server, "GET /echo HTTP/1.1\nHost: x\n\nGET /echo HTTP/1.1\nHost: x")
    assert text.count("HTTP/1.1 200") == 1
    assert text.count("HTTP/1.1 408") == 1


async def test_a_body_is_not_taken() -> None:
    async with serving() as server:
        text = await asked(server, "GET /echo HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello")
    assert text.startswith("HTTP/1.1 413")


async def test_a_new_connection_evicts_an_idle_one_when_too_many_are_open() -> None:
    async with serving(connections=4, share=1.0) as server:
        # given as many connections as are allowed, each after one request
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(4)]
        for reader, writer in idle:
            writer.write(b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        # when
        text = await asked(server, "GET /echo HTTP/1.1\nHost: x\nConnection: close\n\n")
        # then the connection with the oldest request is closed
        assert text.startswith("HTTP/1.1 200")
        assert (await asyncio.wait_for(idle[0][0].read(), 10)).endswith(b"{}")
        for _, writer in idle:
            writer.close()
