"""The HTTP server: requests on one connection, and the limits of a connection. Plain TCP, no API server."""

import asyncio
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from pykruise.kube.client.transport import Response
from pykruise.kube.http.app import HttpLimits, Streamed
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.wire import HeadWriter, WireRequest, split_target

pytestmark = pytest.mark.real_time


class Ticks:
    """A stream of `count` parts of `size` bytes; `closed` is set when the server closes the stream."""

    content_type = "text/plain"

    def __init__(self, count: int, size: int) -> None:
        self._left = count
        self._size = size
        self.closed = asyncio.Event()

    headers: Mapping[str, str] = {}

    async def chunk(self) -> bytes:
        self._left -= 1
        return b"x" * self._size if self._left >= 0 else b""

    async def aclose(self) -> None:
        self.closed.set()


class Echo:
    """Answers with the request. The header `refuse-me` gets 401, `/ticks` a stream, and `/wait` waits for `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.ticks = Ticks(3, 4)

    def admit(self, request: WireRequest) -> Response | None:
        return self.failed(401, request) if "refuse-me" in request.headers else None

    async def answer(self, request: WireRequest) -> Response | Streamed:
        match request.path:
            case "/ticks":
                return self.ticks
            case "/fail":
                raise RuntimeError("a mistake")
            case "/wait":
                self.waiting.set()
                try:
                    await self.go.wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            case "/gone":
                return Response(204, {"content-type": ""}, b"")
            case _:
                pass
        echoed = f"{request.method} {request.path} {dict(request.query)} {request.body.decode()}"
        return Response(200, {"content-type": "text/plain"}, echoed.encode())

    def failed(self, code: int, request: WireRequest) -> Response:
        return Response(code, {"content-type": "text/plain"}, b"refused")


class Talk:
    """A client's connection."""

    def __init__(
        self, server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer

    def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode().replace(b"\n", b"\r\n") if isinstance(text, str) else text)

    async def answer(self, *, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (names in lower case) and body of the next answer."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", 0)) if body else 0
        return int(first.split(" ")[1]), headers, await self.reader.readexactly(length)

    async def ends(self) -> bytes:
        """The remaining bytes until the server closes the connection."""
        return await asyncio.wait_for(self.reader.read(), 10)


@asynccontextmanager
async def talking(app: Echo | None = None, **limits: float) -> AsyncIterator[Talk]:
    server = HttpServer(app or Echo(), limits=HttpLimits(**{"linger_s": 0.05, "stop_s": 0.1, **limits}))  # type: ignore[arg-type]  # whole numbers of bytes
    port = await server.start("127.0.0.1", 0, tls=None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Talk(server, reader, writer)
    finally:
        writer.transport.abort()
        await server.stop()


class PeerNames(Echo):
    """Answers with the client's address."""

    async def answer(self, request: WireRequest) -> Response:
        return Response(200, {}, request.peer.encode())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
async def test_a_server_on_all_interfaces_answers_clients_with_ipv4_and_ipv6(host: str) -> None:
    # given
    server = HttpServer(PeerNames(), limits=HttpLimits(stop_s=0.1))
    port = await server.start(host, 0, tls=None)
    try:
        for address in ("127.0.0.1", "::1"):
            # when
            reader, writer = await asyncio.open_connection(address, port)
            talk = Talk(server, reader, writer)
            talk.send("GET / HTTP/1.1\nHost: x\n\n")
            # then
            assert (await talk.answer())[2].decode() == address
            writer.transport.abort()
    finally:
        await server.stop()


async def test_a_server_on_one_address_answers_at_no_other_address() -> None:
    # given
    server = HttpServer(Echo(), limits=HttpLimits(stop_s=0.1))
    port = await server.start("127.0.0.2", 0, tls=None)
    try:
        # when, then
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    finally:
        await server.stop()


async def test_one_connection_carries_requests_sequentially() -> None:
    async with talking() as talk:
        for number in range(3):
            # when
            talk.send(f"POST /a?n={number} HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello")
            status, headers, body = await talk.answer()
            # then
            assert status == 200
            assert body == b"POST /a {'n': '%d'} hello" % number
            assert "connection" not in headers
            assert "date" in headers


async def test_requests_sent_ahead_are_answered_in_their_order() -> None:
    app = Echo()
    async with talking(app) as talk:
        # given a first one that takes its time
        talk.send("GET /wait HTTP/1.1\nHost: x\n\n")
        talk.send("".join(f"GET /{name} HTTP/1.1\nHost: x\n\n" for name in "bcdefg"))
        await app.waiting.wait()
        # when
        app.go.set()
        # then
        answered = [(await talk.answer())[2].split(b" ")[1] for _ in range(7)]
        assert answered == [b"/wait", b"/b", b"/c", b"/d", b"/e", b"/f", b"/g"]


async def test_requests_and_bodies_in_one_packet_are_all_answered_in_their_order() -> None:
    """Bodies contain the end of a head too, and a packet may end anywhere."""
    bodies = ["", "\r\n\r\n", "a\r\n\r\nb", "\r", "x" * 5000]
    said = b"".join(
        b"POST /%d HTTP/1.1\r\nHost: x\r\n" % number
        + (
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body.encode())
            if number % 2
            else b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n"
            % (b"%x\r\n%b\r\n" % (len(body), body.encode()) if body else b"")
        )
        for number, body in enumerate(bodies * 2)
    )
    for size in (7, 1000, len(said)):
        async with talking() as talk:
            # when
            for index in range(0, len(said), size):
                talk.send(said[index : index + size])
                await asyncio.sleep(0)
            # then
            for number, body in enumerate(bodies * 2):
                assert (await talk.answer())[2] == f"POST /{number} {{}} {body}".encode(), size


async def test_a_request_may_arrive_byte_by_byte_with_a_chunked_body() -> None:
    async with talking() as talk:
        # given
        said = (
            b"POST /%C3%A4?q=a+b%26c&q=2&empty= HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\nAuthorization: late\r\n\r\n"
        )
        # when
        for index in range(len(said)):
            talk.send(said[index : index + 1])
            await asyncio.sleep(0)
        # then
        _, _, body = await talk.answer()
        assert body == b"POST /%C3%A4 {'q': 'a b&c', 'empty': ''} hello!"


async def test_a_client_that_expects_100_continue_gets_it_when_its_request_is_next() -> None:
    app = Echo()
    async with talking(app) as talk:
        # given
        talk.send("GET /wait HTTP/1.1\nHost: x\n\n")
        talk.send("POST /a HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
        await app.waiting.wait()
        # when
        app.go.set()
        # then
        assert (await talk.answer())[0] == 200
        assert (await talk.answer())[0] == 100
        talk.send("ok")
        assert (await talk.answer())[2] == b"POST /a {} ok"


async def test_a_refused_client_is_answered_before_the_body_is_sent() -> None:
    async with talking() as talk:
        # when
        talk.send("POST /a HTTP/1.1\nHost: x\nRefuse-Me: 1\nContent-Length: 9\nExpect: 100-continue\n\n")
        # then
        status, headers, _ = await talk.answer()
        assert (status, headers["connection"]) == (401, "close")
        assert await talk.ends() == b""


async def test_a_client_refused_before_its_body_may_send_another_request() -> None:
    async with talking() as talk:
        talk.send("GET /a HTTP/1.1\nHost: x\nRefuse-Me: 1\n\n")
        assert (await talk.answer())[0] == 401
        talk.send("GET /a HTTP/1.1\nHost: x\n\n")
        assert (await talk.answer())[0] == 200


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("NONSENSE\n\n", 400),
        ("GET /a HTTP/1.1\nHost: x\n broken: header\n\n", 400),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 1\nContent-Length: 2\n\nab", 400),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 1\nTransfer-Encoding: chunked\n\na", 400),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: -1\n\n", 400),
        ("POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\nzz\n", 400),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 101\n\n", 413),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 99999999999999999999999\n\n", 400),
        (f"POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n70\n{'x' * 0x70}\n", 413),
        (f"GET /{'a' * 2000} HTTP/1.1\nHost: x\n", 431),
        (f"GET /a HTTP/1.1\nHost: x\nLong: {'a' * 2000}", 431),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 1\nExpect: a miracle\n\nx", 417),
        ("GET /a HTTP/1.1\n\n", 400),
        ("GET /a HTTP/1.1\nHost: x\nHost: y\n\n", 400),
        ("GET  /a HTTP/1.1\nHost: x\n\n", 400),
        ("GET\t/a HTTP/1.1\nHost: x\n\n", 400),
        ("GET /a  HTTP/1.1\nHost: x\n\n", 400),
        ("GET /a\n\n", 400),
        ("GET /a HTTP/1.2\nHost: x\n\n", 400),
        ("GET /a HTTP/0.9\nHost: x\n\n", 505),
        ("GET /a HTTP/2.0\nHost: x\n\n", 505),
        ("SOURCE /a ICE/1.0\nHost: x\n\n", 400),
        ("SETUP /a RTSP/1.0\nHost: x\n\n", 400),
        ("CONNECT a:80 HTTP/1.1\nHost: x\n\n", 501),
        ("POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: gzip, chunked\n\n0\n\n", 501),
        ("POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n0\n\n", 400),
        ("POST /a HTTP/1.0\nHost: x\nTransfer-Encoding: chunked\n\n0\n\n", 400),
        (f"GET /a?{'&' * 300} HTTP/1.1\nHost: x\n\n", 431),
        ("GET /a HTTP/1.1\nHo", 408),
        ("POST /a HTTP/1.1\nHost: x\nContent-Length: 10\n\nab", 408),
    ],
)
async def test_a_malformed_request_gets_an_answer_and_ends_the_connection(said: str, code: int) -> None:
    # given
    async with talking(head=1000, body=100, read_s=0.2) as talk:
        # when
        talk.send(said)
        # then
        status, headers, _ = await talk.answer()
        assert (status, headers["connection"]) == (code, "close")
        assert await talk.ends() == b""


async def test_a_body_with_too_long_chunk_extensions_is_refused() -> None:
    async with talking(head=100, body=100, linger_s=10.0) as talk:
        # when
        talk.send("POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n")
        for _ in range(40):
            talk.send("1;comment=much-longer-than-it\nx\n")
            await asyncio.sleep(0.001)  # not all in one packet
        # then
        assert (await talk.answer())[0] == 413


async def test_an_idle_connection_is_closed() -> None:
    async with talking(idle_s=0.1) as talk:
        assert await talk.ends() == b""


async def test_a_connection_is_not_idle_while_a_request_waits_to_be_read() -> None:
    async with talking(idle_s=30.0) as talk:
        talk.send("GET /a HTTP/1.1\nHost: x\n\n")
        await talk.answer()
        # when the time limit passes after a request has arrived, and before the loop reads it
        talk.send("GET /b HTTP/1.1\nHost: x\n\n")
        for connection in talk.server.room:
            connection.check(asyncio.get_running_loop().time() + 60.0)
        # then
        assert (await talk.answer())[2] == b"GET /b {} "


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1", "h2c"])
async def test_another_protocol_is_not_spoken(protocol: str) -> None:
    async with talking() as talk:
        # when
        talk.send(f"GET /a HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: {protocol}\n\n\x00\x01\x02")
        # then the request is answered as if it had no header Upgrade
        status, headers, body = await talk.answer()
        assert (status, headers["connection"], body) == (200, "close", b"GET /a {} ")
        assert await talk.ends() == b""


async def test_a_stream_is_sent_in_chunks_and_the_connection_stays_open() -> None:
    app = Echo()
    async with talking(app) as talk:
        # when
        talk.send("GET /ticks HTTP/1.1\nHost: x\n\nGET /a HTTP/1.1\nHost: x\n\n")
        # then
        _, headers, _ = await talk.answer()
        assert headers["transfer-encoding"] == "chunked"
        assert await talk.reader.readuntil(b"0\r\n\r\n") == b"4\r\nxxxx\r\n" * 3 + b"0\r\n\r\n"
        assert (await talk.answer())[2] == b"GET /a {} "
        assert app.ticks.closed.is_set()


async def test_a_stream_to_an_http_1_0_client_ends_with_the_connection() -> None:
    async with talking() as talk:
        # when
        talk.send("GET /ticks HTTP/1.0\n\n")
        # then
        _, headers, _ = await talk.answer()
        assert headers["connection"] == "close"
        assert await talk.ends() == b"xxxx" * 3


async def test_a_stream_that_is_not_read_is_dropped() -> None:
    app = Echo()
    app.ticks = Ticks(1000, 1 << 20)
    async with talking(app, send_s=0.1) as talk:
        # when
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport can
        talk.send("GET /ticks HTTP/1.1\nHost: x\n\n")
        # then
        await asyncio.wait_for(app.ticks.closed.wait(), 10)


async def test_work_for_a_disconnected_client_is_cancelled() -> None:
    app = Echo()
    async with talking(app) as talk:
        # given
        talk.send("GET /wait HTTP/1.1\nHost: x\n\n")
        await app.waiting.wait()
        # when
        talk.writer.transport.abort()
        # then
        await asyncio.wait_for(app.cancelled.wait(), 10)


async def test_a_connection_that_is_lost_is_not_ended_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some versions of Python have no TLS connection to close then, and raise an error."""
    aborted: list[object] = []

    def abort(transport: object) -> None:
        aborted.append(transport)

    async with talking() as talk:
        # given a connection on which nothing is asked
        talk.send("GET /a HTTP/1.1\nHost: x\n\n")
        await talk.answer()
        serving = [task for task in asyncio.all_tasks() if "_serve" in repr(task.get_coro())]
        assert len(serving) == 1
        monkeypatch.setattr("asyncio.selector_events._SelectorTransport.abort", abort)
        # when the client disconnects
        talk.writer.close()
        await asyncio.wait(serving, timeout=10)
        monkeypatch.undo()
    # then
    assert all(task.done() for task in serving)
    assert aborted == []


async def test_a_failing_handler_answers_500_and_the_connection_stays_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with talking() as talk:
        # when
        talk.send("GET /fail HTTP/1.1\nHost: x\n\nGET /a HTTP/1.1\nHost: x\n\n")
        # then
        assert (await talk.answer())[0] == 500
        assert (await talk.answer())[0] == 200
        assert "GET /fail failed" in caplog.text


async def test_answers_without_a_body() -> None:
    async with talking() as talk:
        # when
        talk.send("HEAD /a HTTP/1.1\nHost: x\n\nGET /gone HTTP/1.1\nHost: x\n\nGET /a HTTP/1.1\nHost: x\n\n")
        # then
        status, headers, _ = await talk.answer(body=False)
        assert (status, headers["content-length"]) == (200, str(len("HEAD /a {} ")))
        status, headers, _ = await talk.answer()
        assert (status, "content-length" in headers, "content-type" in headers) == (204, False, False)
        assert (await talk.answer())[0] == 200


def test_an_answer_s_headers_stay_in_their_lines() -> None:
    # given a warning that repeats what a client said
    answer = Response(200, {"warning": '299 - "unknown field \\"a\r\nSet-Cookie: b\\""'}, b"")
    # when
    head = HeadWriter().head_of(answer, stays=True)
    # then
    assert b"\r\nSet-Cookie" not in head
    assert head.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a/b?x=1&y=%2F", "/a/b", {"x": "1", "y": "/"}),
        (b"/a?x=1&x=2&=3&z", "/a", {"x": "1", "": "3", "z": ""}),
        (b"/a#b?c", "/a", {}),
        (b"/a//b/../c", "/a//b/../c", {}),
        ("/ä?x=ö".encode(), "/%C3%A4", {"x": "ö"}),
        (b"/a?x=%ff", "/a", {"x": "�"}),
        (b"https://host:1/a?b=c", "/a", {"b": "c"}),
        (b"https://host", "/", {}),
        (b"http://[", "", {}),
        (b"*", "*", {}),
    ],
)
def test_a_target_is_a_path_and_a_query(target: bytes, path: str, query: dict[str, str]) -> None:
    assert split_target(target) == (path, query)


async def test_the_first_of_a_repeated_header_counts_and_groups_are_joined_by_lines() -> None:
    seen: list[dict[str, str]] = []

    class Listener(Echo):
        async def answer(self, request: WireRequest) -> Response | Streamed:
            seen.append(request.headers)
            return await super().answer(request)

    async with talking(Listener()) as talk:
        # when
        talk.send("GET /a HTTP/1.1\nHost: x\nA: 1\na: 2\nImpersonate-Group: b\nImpersonate-Group: c\n\n")
        await talk.answer()
        # then
        assert seen[0]["a"] == "1"
        assert seen[0]["impersonate-group"] == "b\nc"


async def test_a_body_slower_than_the_least_rate_gets_408() -> None:
    async with talking(least_rate=100_000, grace_s=0.1, read_s=2.0) as talk:
        # given a body that is not there in time
        talk.send("POST /a HTTP/1.1\nHost: x\nContent-Length: 5000\n\nhello")
        # then
        assert (await talk.answer())[0] == 408


async def test_the_wait_for_permission_to_send_does_not_count_as_slow() -> None:
    app = Echo()
    async with talking(app, least_rate=100_000, grace_s=0.1, read_s=0.4) as talk:
        # given a second request that has to wait for the answer to the first
        talk.send("GET /wait HTTP/1.1\nHost: x\n\n")
        talk.send("POST /a HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
        await app.waiting.wait()
        await asyncio.sleep(0.5)
        # when
        app.go.set()
        # then
        assert [(await talk.answer())[0], (await talk.answer())[0]] == [200, 100]
        talk.send("ok")
        assert (await talk.answer())[2] == b"POST /a {} ok"


async def test_a_body_in_the_smallest_parts_takes_no_more_room_than_its_bytes() -> None:
    # given
    count = 60_000
    async with talking() as talk:
        talk.send("POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n")
        tracemalloc.start()
        try:
            # when
            talk.send(b"2\r\nxy\r\n" * count)
            talk.send(b"0\r\n\r\n")
            _, _, body = await talk.answer()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # then: what was sent (7 bytes a part) twice, and the body a few times; a list of parts needs 50 bytes more for each
    assert body.count(b"xy") == count
    assert peak < 60 * count


async def test_a_late_rate_check_closes_no_connection() -> None:
    # given a server whose loop stands still while a body arrives
    async with talking(least_rate=1_000_000, grace_s=0.05, read_s=0.8) as talk:
        talk.send("POST /a HTTP/1.1\nHost: x\nContent-Length: 2\n\n")
        await asyncio.sleep(0.01)
        talk.send("ok")
        # when
        time.sleep(1.0)  # noqa: ASYNC251 - that is the point
        # then
        assert (await talk.answer())[0] == 200


async def test_a_stopping_server_ends_each_connection_with_the_header_connection_close() -> None:
    server = HttpServer(Echo(), limits=HttpLimits(linger_s=0.05, stop_s=0.1))
    port = await server.start("127.0.0.1", 0, tls=None)
    talk = Talk(server, *await asyncio.open_connection("127.0.0.1", port))
    talk.send("GET /a HTTP/1.1\nHost: x\n\n")
    _, headers, _ = await talk.answer()
    assert headers.get("connection") != "close"
    # when
    server.retire()
    talk.send("GET /b HTTP/1.1\nHost: x\n\n")
    # then the request is answered, and the header tells the client that the connection ends
    status, headers, _ = await talk.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert await talk.ends() == b""
    # and the same holds for new connections until the server stops
    other = Talk(server, *await asyncio.open_connection("127.0.0.1", port))
    other.send("GET /c HTTP/1.1\nHost: x\n\n")
    assert (await other.answer())[1]["connection"] == "close"
    for item in (talk, other):
        item.writer.transport.abort()
    await server.stop()
