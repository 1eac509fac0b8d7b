"""Streams over their own connections, against a server whose answers the test sets byte by byte."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pykruise.kube.client.transport import Request
from pykruise.kube.errors import ConnectionLostError, RequestTimeoutError, UnreachableError
from pykruise.kube.http.connection import BROKEN, HttpOrigin
from pykruise.kube.http.streams import Stream, Streams

pytestmark = pytest.mark.real_time  # real sockets

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    """Reads one request per connection and answers it by `answer`."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.ended = asyncio.Event()
        self.answer: Answer = nothing

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            await self.answer(writer)
            await writer.drain()
            await reader.read()  # until the client disconnects
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended.set()
            writer.close()


async def nothing(_: asyncio.StreamWriter) -> None:
    """Send nothing."""


def send_parts(*parts: bytes, then_hang_up: bool = False) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        if then_hang_up:
            writer.close()

    return answer


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, int]]:
    served = Server()
    listener = await asyncio.start_server(served.talk, "127.0.0.1", 0)
    yield served, listener.sockets[0].getsockname()[1]
    listener.close()


@pytest.fixture
async def streams(server: tuple[Server, int]) -> AsyncIterator[Streams]:
    origin = HttpOrigin(False, "127.0.0.1", server[1], "/below", f"127.0.0.1:{server[1]}", "127.0.0.1")
    made = Streams(origin, connect_timeout_s=2)
    yield made
    await made.close()


async def open_one(streams: Streams, *, timeout_s: float = 5.0) -> Stream:
    request = Request("GET", "/pods", query={"watch": "true"})
    return await streams.open(request, (("accept", "*/*"),), tls=None, timeout_s=timeout_s)


async def all_of(stream: Stream, *, into: list[bytes] | None = None) -> bytes:
    parts = [] if into is None else into
    while part := await asyncio.wait_for(stream.read(), 5):
        parts.append(part)
    return b"".join(parts)


async def test_a_stream_sends_one_request_and_is_read_to_its_end(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(HEAD, b"4\r\none\n\r\n", b"4\r\ntwo\n\r\n0\r\n\r\n")
    stream = await open_one(streams)
    assert stream.status.result() == 200
    assert stream.headers["transfer-encoding"] == "chunked"
    assert await all_of(stream) == b"one\ntwo\n"
    (request,) = server[0].requests
    assert request.startswith(b"GET /below/pods?watch=true HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"accept: */*\r\n" in request


async def test_interim_answers_are_passed_over(server: tuple[Server, int], streams: Streams) -> None:
    server[0].answer = send_parts(
        b"HTTP/1.1 103 Early Hints\r\nX-Hint: 1\r\n\r\n", HEAD, b"4\r\none\n\r\n0\r\n\r\n"
    )
    stream = await open_one(streams)
    assert stream.status.result() == 200
    assert "x-hint" not in stream.headers
    assert await all_of(stream) == b"one\n"


async def test_a_body_without_a_length_ends_with_its_connection(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(b"HTTP/1.1 200 OK\r\n\r\n", b"all of it", then_hang_up=True)
    assert await all_of(await open_one(streams)) == b"all of it"


async def test_a_chunked_body_does_not_end_with_its_connection(
    server: tuple[Server, int], streams: Streams
) -> None:
    """Lines that arrived before are still read"""
    server[0].answer = send_parts(HEAD, b"4\r\none\n\r\n", b"9\r\nhal", then_hang_up=True)
    stream = await open_one(streams)
    seen: list[bytes] = []
    with pytest.raises(BROKEN):
        await all_of(stream, into=seen)
    assert b"".join(seen) == b"one\nhal"


async def test_text_that_is_not_a_chunk_ends_the_stream(server: tuple[Server, int], streams: Streams) -> None:
    server[0].answer = send_parts(HEAD, b"4\r\none\n\r\n", b"no number\r\n")
    stream = await open_one(streams)
    assert await stream.read() == b"one\n"
    with pytest.raises(BROKEN):
        await asyncio.wait_for(stream.read(), 5)
    await asyncio.wait_for(server[0].ended.wait(), 5)


async def test_an_answer_that_is_not_http_is_a_lost_connection(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(b"220 mail.example.com ESMTP\r\n")
    with pytest.raises(ConnectionLostError, match="GET /below/pods: the connection broke"):
        await open_one(streams)


async def test_a_server_that_hangs_up_instead_of_an_answer_is_a_lost_connection(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(then_hang_up=True)
    with pytest.raises(ConnectionLostError, match="the server closed the connection"):
        await open_one(streams)


async def test_a_server_without_an_answer_is_given_up(server: tuple[Server, int], streams: Streams) -> None:
    with pytest.raises(RequestTimeoutError, match="no response in time"):
        await open_one(streams, timeout_s=0.1)
    await asyncio.wait_for(server[0].ended.wait(), 5)


async def test_a_cancelled_wait_for_the_answer_ends_the_connection(
    server: tuple[Server, int], streams: Streams
) -> None:
    opening = asyncio.create_task(open_one(streams))
    async with asyncio.timeout(5):
        while not server[0].requests:
            await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.wait_for(server[0].ended.wait(), 5)


async def test_a_client_that_does_not_read_makes_the_server_wait_and_loses_nothing(
    server: tuple[Server, int], streams: Streams
) -> None:
    """Memory stays bounded whatever a server sends"""
    chunk, count = b"x" * 65536, 400
    written = []

    async def much(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for number in range(count):
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            written.append(number)
        writer.write(b"0\r\n\r\n")

    server[0].answer = much
    stream = await open_one(streams)
    # when the client does not read
    before = -1
    async with asyncio.timeout(10):
        while before != len(written):
            before = len(written)
            await asyncio.sleep(0.3)
    # then the server cannot go on
    assert 16 <= len(written) < count
    # until it does
    assert len(await all_of(stream)) == count * len(chunk)
    assert len(written) == count


async def test_a_failure_set_from_outside_is_raised_after_the_arrived_bytes(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(HEAD, b"4\r\none\n\r\n")
    stream = await open_one(streams)
    assert await stream.read() == b"one\n"
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    stream.fail(ValueError("enough"))
    with pytest.raises(ValueError, match="enough"):
        await reading


async def test_a_closed_transport_ends_all_streams_and_opens_none(
    server: tuple[Server, int], streams: Streams
) -> None:
    server[0].answer = send_parts(HEAD, b"4\r\none\n\r\n")
    stream = await open_one(streams)
    assert await stream.read() == b"one\n"
    await streams.close()
    with pytest.raises(BROKEN):
        await asyncio.wait_for(stream.read(), 5)
    with pytest.raises(UnreachableError, match="the transport is closed"):
        await open_one(streams)


async def test_a_stream_being_opened_while_the_transport_closes_is_refused_without_log_noise(
    server: tuple[Server, int], streams: Streams
) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    opening = [asyncio.create_task(open_one(streams)) for _ in range(20)]
    for _ in range(3):  # some have a connection, and none has an answer
        await asyncio.sleep(0)
    await streams.close()
    result = await asyncio.wait_for(asyncio.gather(*opening, return_exceptions=True), 5)
    assert {type(item) for item in result} <= {UnreachableError, ConnectionLostError}
    del opening, result
    await asyncio.sleep(0.05)
    gc.collect(1)
    assert reported == []
