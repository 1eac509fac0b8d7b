"""HttpClient over kept connections, against a server whose answers the test sets byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.errors import ConnectionLostError, RequestTimeoutError, UnreachableError
from pykruise.kube.http.client import HttpClient
from pykruise.kube.http.connection import HttpOrigin

pytestmark = pytest.mark.real_time  # real sockets

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Records the heads of requests, and answers each request by `answer`."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()
        self.answer: Answer = ok

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                await self.answer(head, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()
            writer.close()


async def ok(head: bytes, writer: asyncio.StreamWriter) -> None:
    path = head.split()[1]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path))


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, int]]:
    served = Server()
    listener = await asyncio.start_server(served.talk, "127.0.0.1", 0)
    yield served, listener.sockets[0].getsockname()[1]
    listener.close()


@pytest.fixture
async def make(server: tuple[Server, int]) -> AsyncIterator[Callable[..., HttpClient]]:
    made: list[HttpClient] = []

    def to_server(*, limit: int = 4, keepalive_s: float = 60.0) -> HttpClient:
        origin = HttpOrigin(False, "127.0.0.1", server[1], "", f"127.0.0.1:{server[1]}", "127.0.0.1")
        made.append(HttpClient(origin, limit=limit, keepalive_s=keepalive_s, connect_timeout_s=2))
        return made[-1]

    yield to_server
    for http_client in made:
        await http_client.close()


async def get(client: HttpClient, path: str, *, timeout_s: float = 5.0) -> Response:
    return await client.send(Request("GET", path), (("accept", "*/*"),), tls=None, timeout_s=timeout_s)


async def test_one_connection_serves_requests_sequentially(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    client = make()
    assert [(await get(client, f"/{number}")).body for number in range(5)] == [b"/%d" % n for n in range(5)]
    assert server[0].connections == 1
    assert server[0].heads[0].startswith(b"GET /0 HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_chunks_interim_answers_and_repeated_headers(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    # given
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        writer.write(
            b"HTTP/1.1 201 Created\r\nWarning: a\r\nwarning: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for part in (b"4\r\nab", b"cd\r\n", b"2\r\nef\r\n0\r\n\r\n"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)

    server[0].answer = answer
    # when
    answer = await get(make(), "/")
    # then
    assert (answer.status, answer.body, answer.headers["warning"]) == (201, b"abcdef", "a, b")


async def test_a_body_without_a_length_ends_with_its_connection(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()
        writer.close()

    server[0].answer = answer
    client = make()
    assert (await get(client, "/")).body == b"all of it"
    server[0].answer = ok
    assert (await get(client, "/again")).body == b"/again"
    assert server[0].connections == 2


@pytest.mark.parametrize("how", ["Connection: close", "idle too long", "closed by the server"])
async def test_a_connection_that_has_had_its_time_is_not_used_again(
    server: tuple[Server, int], make: Callable[..., HttpClient], how: str
) -> None:
    # given
    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        if how == "Connection: close":
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            return
        await ok(head, writer)
        if how == "closed by the server":
            await writer.drain()
            writer.close()

    server[0].answer = answer
    client = make(keepalive_s=0.02 if how == "idle too long" else 60.0)
    await get(client, "/")
    await asyncio.sleep(0.05)
    # when
    server[0].answer = ok
    answer = await get(client, "/again")
    # then
    assert answer.body == b"/again"
    assert server[0].connections == 2


async def test_idle_connections_are_closed_and_the_one_in_use_stays_open(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    # given three connections that have served requests at the same time
    async def slow(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)
        await ok(head, writer)

    server[0].answer = slow
    client = make(keepalive_s=0.3)
    await asyncio.gather(*(get(client, f"/{number}") for number in range(3)))
    # when only one is used
    for _ in range(8):
        await asyncio.sleep(0.1)
        await get(client, "/again")
    # then
    assert server[0].connections == 3
    assert len(client._open) == 1
    # and without requests none stays
    await asyncio.sleep(0.7)
    assert len(client._open) == 0
    assert (await get(client, "/later")).body == b"/later"


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_the_answer_to_a_cancelled_request_reaches_no_other_request(
    server: tuple[Server, int], make: Callable[..., HttpClient], how: str
) -> None:
    """and the request that waits for the slot gets it"""
    # given one slot, and an answer that comes late
    arrived, given_up_now = asyncio.Event(), asyncio.Event()

    async def late(head: bytes, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await given_up_now.wait()
        await ok(head, writer)

    server[0].answer = late
    client = make(limit=1)
    given_up = asyncio.create_task(get(client, "/slow", timeout_s=0.5 if how == "timed out" else 5.0))
    await arrived.wait()
    server[0].answer = ok
    next_one = asyncio.create_task(get(client, "/next"))
    # when
    if how == "cancelled":
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
    else:
        with pytest.raises(RequestTimeoutError, match="GET /slow: no response in time"):
            await given_up
    given_up_now.set()
    # then
    assert (await next_one).body == b"/next"


async def test_waiting_for_a_connection_ends_too_and_nothing_was_sent(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    arrived = asyncio.Event()

    async def never(_: bytes, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.sleep(5)

    server[0].answer = never
    client = make(limit=1)
    first = asyncio.create_task(get(client, "/first"))
    await arrived.wait()
    with pytest.raises(UnreachableError, match="no connection became free in time") as caught:
        await get(client, "/second", timeout_s=0.05)
    assert caught.value.sent is False
    await client.close()
    with pytest.raises(ConnectionLostError):
        await first
    assert len(server[0].heads) == 1


async def test_a_request_that_waits_for_a_connection_fails_when_the_transport_is_closed(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    async def never(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    server[0].answer = never
    client = make(limit=1)
    first = asyncio.create_task(get(client, "/first"))
    second = asyncio.create_task(get(client, "/second"))
    await asyncio.sleep(0.02)
    await client.close()
    with pytest.raises(ConnectionLostError):
        await first
    with pytest.raises(UnreachableError, match="closed"):
        await second


async def test_parallel_requests_share_the_connections_in_their_order(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    client = make(limit=2)
    answers = await asyncio.gather(*(get(client, f"/{number}") for number in range(40)))
    assert [answer.body for answer in answers] == [b"/%d" % number for number in range(40)]
    assert server[0].connections == 2


async def test_bytes_without_a_request_end_the_connection(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    # given a server that sends more than the answer after the answer has arrived
    asked_on = asyncio.Event()

    async def twice(head: bytes, writer: asyncio.StreamWriter) -> None:
        await ok(head, writer)
        await writer.drain()
        await asked_on.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    server[0].answer = twice
    client = make()
    await get(client, "/a")
    asked_on.set()
    await asyncio.wait_for(server[0].ended.wait(), 5)
    server[0].answer = ok
    # when, then
    assert (await get(client, "/b")).status == 200
    assert server[0].connections == 2


async def test_words_behind_the_answer_are_not_taken_for_the_next_one(
    server: tuple[Server, int], make: Callable[..., HttpClient]
) -> None:
    # given a server that begins another answer in the packet of the first
    async def one_and_a_half(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 403 Forb")

    server[0].answer = one_and_a_half
    client = make()
    await get(client, "/a")
    server[0].answer = ok
    # when, then
    assert (await get(client, "/b")).status == 200
    assert server[0].connections == 2


@pytest.mark.parametrize("value", ["t\r\nEvil: 1", "t\n", "t\r"])
async def test_a_header_cannot_break_its_line(make: Callable[..., HttpClient], value: str) -> None:
    with pytest.raises(ValueError, match="header Authorization: it contains a control character"):
        await make().send(Request("GET", "/"), (("Authorization", value),), tls=None, timeout_s=1)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nb", "/ü"])
async def test_a_path_must_be_percent_encoded(make: Callable[..., HttpClient], path: str) -> None:
    with pytest.raises(ValueError, match="percent-encode"):
        await get(make(), path)
