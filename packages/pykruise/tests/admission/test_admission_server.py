"""The webhook server over real sockets: TLS, limits, hostile clients, a new certificate while it serves."""

import asyncio
import gc
import gzip
import io
import ssl
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pykruise.admission.conversion_path import LONG_CONVERSION, build_conversion_path
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ResourceRule, ReviewRule
from pykruise.kube.control.quota import Quota
from pykruise.kube.documents import decode
from pykruise.kube.http.fairness import ServerRoom
from pykruise.kube.resources import CONFIG_MAPS
from pykruise.kube.webhooks.reviews import ReviewDispatcher
from pykruise.kube.webhooks.server import (
    LongBodies,
    PostPath,
    RequestMeter,
    WebhookLimits,
    WebhookServer,
    review_paths,
)
from support.certificates import Authority
from support.reviews import posted, read, request

pytestmark = pytest.mark.real_time

AUTHORITY = Authority()
BODY = posted(request(CONFIG_MAPS, {"a": 1}))


class Gate:
    """A review that waits until the test opens it; it counts the waiting requests."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0

    async def __call__(self, asked: AdmissionRequest) -> AdmissionAnswer:
        self.waiting += 1
        await self.open.wait()
        return AdmissionAnswer(warnings=("reviewed",))


async def at_once(asked: AdmissionRequest) -> AdmissionAnswer:
    return AdmissionAnswer(warnings=("reviewed",))


def pair(folder: Path, name: str, *, authority: Authority = AUTHORITY) -> tuple[Path, Path]:
    certificate, key = authority.issue(name, hosts=("127.0.0.1",))
    files = folder / f"{name}.crt", folder / f"{name}.key"
    for path, content in zip(files, (certificate, key), strict=True):
        path.write_bytes(content)
    return files


Reviewing = Callable[[AdmissionRequest], object]


@asynccontextmanager
async def running(
    folder: Path,
    reviewer: Reviewing = at_once,
    *,
    limits: WebhookLimits | None = None,
    client_authority: Path | None = None,
    meter: RequestMeter | None = None,
) -> AsyncIterator[WebhookServer]:
    every = ResourceRule(groups=("*",), resources=("*/*",), operations=("*",))
    rule = ReviewRule(name="test", reviewer=reviewer, mutating=False, rules=(every,), path="/review")  # type: ignore[arg-type]
    server = WebhookServer(
        {**review_paths(ReviewDispatcher([rule])), **build_conversion_path("/convert")},
        host="127.0.0.1",
        port=0,
        limits=limits,
        client_authority=client_authority,
        meter=meter,
    )
    server.load_certificate(*pair(folder, "server"))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(
    server: WebhookServer, *, authority: Authority = AUTHORITY, shows: tuple[Path, Path] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if shows is not None:
        context.load_cert_chain(*shows)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    url = f"https://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession(url, connector=connector) as session:
        yield session
    await asyncio.sleep(0.05)  # TLS connections close a moment later


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def reviews(session: aiohttp.ClientSession) -> bool:
    """Return whether the server answers a review."""
    async with session.post("/review", data=BODY) as answer:
        return answer.status == 200 and read(await answer.read()).warnings == ["reviewed"]


async def test_the_server_reviews_and_answers_its_health_check(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client(server) as session:
        assert await reviews(session)
        async with session.get("/healthz") as answer:
            assert (answer.status, await answer.read()) == (200, b"")


class Measured:
    """A meter that keeps what it was told."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.ended: list[tuple[str, int]] = []

    def begin(self, path: str) -> None:
        self.began.append(path)

    def end(self, path: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        self.ended.append((path, status))


async def test_requests_of_every_path_are_measured(tmp_path: Path) -> None:
    meter = Measured()
    async with running(tmp_path, meter=meter) as server, client(server) as session:
        assert await reviews(session)
        async with session.get("/healthz") as answer:
            await answer.read()
        async with session.post("/convert", data=b"{}") as answer:
            await answer.read()
        assert server.paths == {"/review", "/convert", "/healthz"}
    assert meter.began == ["/review", "/healthz", "/convert"]
    assert meter.ended == [("/review", 200), ("/healthz", 200), ("/convert", 200)]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/other", 404),
        ("GET", "/", 404),
        ("GET", "/review", 405),
        ("PUT", "/review", 405),
        ("POST", "/review/../review/", 404),
    ],
)
async def test_other_paths_and_methods_are_refused(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with running(tmp_path) as server, client(server) as session:
        async with session.request(method, path, data=BODY if method != "GET" else None) as answer:
            assert answer.status == status
        assert await reviews(session)


async def test_a_body_that_is_not_a_review_gets_an_answer_that_refuses(tmp_path: Path) -> None:
    """admission case 60"""
    async with running(tmp_path) as server, client(server) as session:
        async with session.post("/review", data=b"not json") as answer:
            assert answer.status == 200
            reply = read(await answer.read())
        assert (reply.allowed, reply.code) == (False, 400)
        assert await reviews(session)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused_before_it_is_all_there(
    tmp_path: Path, chunked: bool
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)

    async with running(tmp_path, limits=WebhookLimits(body=100_000)) as server, client(server) as session:
        data = endless() if chunked else b"x" * 100_001
        try:
            async with session.post("/review", data=data) as answer:
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            assert chunked, "cut off while it was still sending"
        assert await reviews(session)
        await until(lambda: server.requests == 0)


async def test_a_compressed_body_is_not_decompressed(tmp_path: Path) -> None:
    """A small body could become large in memory."""
    packed = gzip.compress(b"[" + b"0," * 5_000_000)
    async with running(tmp_path) as server, client(server) as session:
        headers = {"Content-Encoding": "gzip"}
        async with session.post("/review", data=packed, headers=headers) as answer:
            reply = read(await answer.read())
        assert (reply.allowed, reply.code) == (False, 400)
        assert await reviews(session)


async def test_requests_beyond_the_limit_are_refused_until_slots_are_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given a server with the most requests that it accepts at the same time
    gate = Gate()
    limits = WebhookLimits(requests=3, share=1.0)
    async with running(tmp_path, gate, limits=limits) as server, client(server) as session:
        busy = [asyncio.create_task(reviews(session)) for _ in range(3)]
        await until(lambda: gate.waiting == 3)
        # when
        for _ in range(2):
            async with session.post("/review", data=BODY) as answer:
                # then
                assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert server.shed == 2
        # and one line of the log says so
        assert list_load_lines(caplog) == [
            "there is no room for a further request, because 3 requests are in progress;"
            " 1 request was rejected since the start; add replicas"
        ]
        # and it reports that it is alive, finishes its requests, and accepts new ones
        async with session.get("/healthz") as answer:
            assert answer.status == 200
        gate.open.set()
        assert all(await asyncio.gather(*busy))
        assert await reviews(session)


def list_load_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no room" in record.getMessage()]


async def test_bodies_together_have_a_limit_too(tmp_path: Path) -> None:
    gate = Gate()
    limits = WebhookLimits(bodies=len(BODY) + 10, share=1.0)
    async with running(tmp_path, gate, limits=limits) as server, client(server) as session:
        busy = asyncio.create_task(reviews(session))
        await until(lambda: gate.waiting == 1)
        async with session.post("/review", data=BODY) as answer:
            assert answer.status == 429
        gate.open.set()
        assert await busy
        assert await reviews(session)


async def test_a_body_that_arrives_too_slowly_gets_408(tmp_path: Path) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
        yield b"}"

    async with running(tmp_path, limits=WebhookLimits(body_s=0.1)) as server, client(server) as session:
        try:
            async with session.post("/review", data=slow()) as answer:
                assert answer.status == 408
        except aiohttp.ClientConnectionError:
            pass
        await until(lambda: server.requests == 0)
        assert await reviews(session)


async def test_an_asker_that_names_its_time_is_answered_within_it(tmp_path: Path) -> None:
    gate = Gate()
    async with running(tmp_path, gate) as server, client(server) as session:
        async with session.post("/review?timeout=0.2s", data=BODY) as answer:
            reply = read(await answer.read())
        assert (reply.allowed, reply.code) == (False, 504)
        for odd in ("", "abc", "-3s", "nan", "0s", "1m0s"):
            gate.open.set()
            async with session.post(f"/review?timeout={odd}", data=BODY) as answer:
                assert read(await answer.read()).allowed


async def test_a_disconnected_client_frees_its_slot(tmp_path: Path) -> None:
    gate = Gate()
    async with running(tmp_path, gate) as server:
        async with client(server) as session:
            leaving = asyncio.create_task(reviews(session))
            await until(lambda: server.requests == 1)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        await until(lambda: server.requests == 0)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4096])
async def test_connections_with_an_incomplete_or_invalid_handshake_are_closed(
    tmp_path: Path, sent: bytes
) -> None:
    async with running(tmp_path, limits=WebhookLimits(request_s=0.2)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(5):
            with suppress(ConnectionError):
                while await reader.read(4096):
                    pass
        writer.close()
        async with client(server) as session:
            assert await reviews(session)


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /review HTTP/1.1\r\nHost: x\r\nContent-",
        b"POST /review HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /review HTTP/9.9\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"POST /review HTTP/1.1\r\n" + b"X-A: " + b"a" * 70_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_nonsense_inside_tls_is_refused_or_cut_off(tmp_path: Path, sent: bytes) -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    async with running(tmp_path, limits=WebhookLimits(request_s=0.3)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(sent)
        async with asyncio.timeout(5):
            try:
                received = await reader.read()
            except ConnectionError:
                received = b""
        assert received == b"" or received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
        assert b"Traceback" not in received
        writer.close()
        async with client(server) as session:
            assert await reviews(session)


async def test_a_connection_in_reserve_serves_a_review_later(tmp_path: Path) -> None:
    # given a connection without a request: API servers open more than they need while many reviews begin
    async with running(tmp_path, limits=WebhookLimits(request_s=0.1)) as server:
        reader, writer = await connected(server)
        await asyncio.sleep(0.5)
        # when
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        # then
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        writer.close()


async def test_too_many_silent_connections_make_room(tmp_path: Path) -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    limits = WebhookLimits(connections=5, share=1.0, request_s=30)
    async with running(tmp_path, limits=limits) as server:
        silent = [await asyncio.open_connection("127.0.0.1", server.port, ssl=context) for _ in range(9)]
        async with client(server) as session:
            assert await reviews(session)
            async with asyncio.timeout(5):
                for reader, _ in silent[:4]:
                    assert await reader.read() == b""
        for _, writer in silent:
            writer.close()


Open = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(server: WebhookServer, said: bytes = b"") -> Open:
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    writer.write(said)
    return reader, writer


async def test_incomplete_requests_do_not_block_a_complete_request(tmp_path: Path) -> None:
    # given more clients than the server answers at a time; all send headers and a part of a body
    head = b"POST /review HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
    async with running(tmp_path, limits=WebhookLimits(requests=4, share=1.0)) as server:
        halves = [await connected(server, head) for _ in range(16)]
        await asyncio.sleep(0.05)
        # when
        async with client(server) as session:
            assert await reviews(session)
        # then
        assert (server.requests, server.shed) == (0, 0)
        for _, writer in halves:
            writer.close()


async def test_the_log_requests_no_replicas_for_a_client_that_has_used_up_its_share(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    async with (
        running(tmp_path, gate, limits=WebhookLimits(requests=4, share=0.5)) as server,
        client(server) as session,
    ):
        busy = [asyncio.create_task(reviews(session)) for _ in range(2)]
        await until(lambda: gate.waiting == 2)
        async with session.post("/review", data=BODY) as answer:
            assert answer.status == 429
        assert (server.shed, list_load_lines(caplog)) == (1, [])
        gate.open.set()
        assert all(await asyncio.gather(*busy))


async def test_idle_connections_are_evicted_even_after_earlier_requests(tmp_path: Path) -> None:
    # given
    limits = WebhookLimits(connections=5, share=1.0)
    async with running(tmp_path, limits=limits) as server:
        idle = []
        for _ in range(12):
            reader, writer = await connected(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            idle.append((reader, writer))
        # then the connections that were used least recently are closed immediately
        for reader, _ in idle[:7]:
            await asyncio.wait_for(reader.read(), 5)
        async with client(server) as session:
            assert await reviews(session)
        for _, writer in idle:
            writer.close()


async def test_connections_without_a_tls_handshake_are_evicted_too(tmp_path: Path) -> None:
    async with running(tmp_path, limits=WebhookLimits(connections=5, share=1.0, request_s=30)) as server:
        # given
        mute = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(12)]
        # then
        for reader, _ in mute[:7]:
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        async with client(server) as session:
            assert await reviews(session)
        for _, writer in mute:
            writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"POST /review HTTP/1.1\r\n",
        b"POST /review HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"no HTTP\r\n\r\n",
    ],
)
async def test_memory_of_a_lost_connection_is_freed_without_garbage_collection(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    made: list[weakref.ref[object]] = []
    enter = ServerRoom.enter

    def entering(room: Any, connection: Any, *arguments: Any, **more: Any) -> bool:
        made.append(weakref.ref(connection))
        return enter(room, connection, *arguments, **more)

    monkeypatch.setattr(ServerRoom, "enter", entering)
    async with running(tmp_path) as server:
        gc.collect(1)
        gc.disable()
        try:
            # when
            _, writer = await connected(server, said)
            await asyncio.sleep(0.05)
            writer.close()
            # then
            await until(lambda: made[0]() is None)
        finally:
            gc.enable()


async def test_a_conversion_may_have_four_mebibytes(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client(server) as session:
        try:
            async with session.post("/convert", data=io.BytesIO(b"x" * 15_000_000)) as answer:
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            pass  # cut off while it was still sending
        assert await reviews(session)


async def test_a_client_authority_makes_reviews_require_a_client_certificate(tmp_path: Path) -> None:
    # given
    authority, other = Authority(), Authority()
    file = tmp_path / "clients.pem"
    file.write_bytes(authority.pem)
    async with running(tmp_path, client_authority=file) as server:
        # when a client has a certificate
        async with client(server, shows=pair(tmp_path, "api-server", authority=authority)) as session:
            assert await reviews(session)
        # or no certificate: API servers show none when they request a conversion
        async with client(server) as session:
            async with session.post("/review", data=BODY) as answer:
                assert answer.status == 401
            async with session.post("/convert", data=b"{}") as answer:
                assert answer.status == 200
            async with session.get("/healthz") as answer:
                assert answer.status == 200
        # or a certificate of another authority
        async with client(server, shows=pair(tmp_path, "pod", authority=other)) as session:
            with pytest.raises(aiohttp.ClientError):
                await reviews(session)
        # and when the file changes, it applies to the next connection
        file.with_suffix(".new").write_bytes(other.pem)
        file.with_suffix(".new").replace(file)
        async with client(server, shows=pair(tmp_path, "pod", authority=other)) as session:
            assert await reviews(session)
        # and an unreadable file changes nothing
        file.write_text("no certificate")
        async with client(server, shows=pair(tmp_path, "pod", authority=other)) as session:
            assert await reviews(session)


async def test_a_new_certificate_is_used_without_one_failed_request(tmp_path: Path) -> None:
    # given clients that send requests all the time, each over a new connection
    failures: list[BaseException] = []
    served: list[str] = []
    stop = asyncio.Event()

    async def ask(server: WebhookServer) -> None:
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        while not stop.is_set():
            try:
                served.append(await _asked_once(server, context))
            except (OSError, AssertionError) as error:
                failures.append(error)

    async with running(tmp_path) as server:
        asking = [asyncio.create_task(ask(server)) for _ in range(4)]
        # when the certificate changes again and again
        for number in range(5):
            await until(lambda number=number: len(served) > 20 * (number + 1))  # type: ignore[misc]
            server.load_certificate(*pair(tmp_path, f"server-{number}"))
        await until(lambda: "server-4" in served)
        stop.set()
        await asyncio.gather(*asking)
    # then
    assert failures == []
    assert {"server", "server-0", "server-3", "server-4"} <= set(served)
    await asyncio.sleep(0.1)


async def _asked_once(server: WebhookServer, context: ssl.SSLContext) -> str:
    """Send one review over its own connection. Returns the name on the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    head = f"POST /review HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(BODY)}\r\n\r\n"
    writer.write(head.encode() + BODY)
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    name: str = writer.get_extra_info("peercert")["subject"][0][0][1]
    writer.close()
    assert read(body).allowed
    return name


async def test_a_pair_that_does_not_fit_is_not_taken(tmp_path: Path) -> None:
    async with running(tmp_path) as server, client(server) as session:
        chain, _ = pair(tmp_path, "one")
        _, key = pair(tmp_path, "two")
        with pytest.raises(ssl.SSLError):
            server.load_certificate(chain, key)
        with pytest.raises(OSError, match="No such file"):
            server.load_certificate(tmp_path / "none.crt", tmp_path / "none.key")
        assert await reviews(session)


async def test_stopping_finishes_what_is_being_reviewed_and_frees_the_port(tmp_path: Path) -> None:
    gate = Gate()
    async with running(tmp_path, gate) as server, client(server) as session:
        asking = asyncio.create_task(reviews(session))
        await until(lambda: gate.waiting == 1)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.05)
        gate.open.set()
        assert await asking
        await stopping
        with pytest.raises(aiohttp.ClientConnectorError):
            await reviews(session)


async def test_a_client_that_connects_while_it_stops_leaves_nothing_behind(tmp_path: Path) -> None:
    # given clients at every step of their handshake
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    for turns in range(0, 60, 6):
        async with running(tmp_path) as server:
            coming = [
                asyncio.create_task(asyncio.open_connection("127.0.0.1", server.port, ssl=context))
                for _ in range(3)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            # when
            await server.stop()
        for outcome in await asyncio.gather(*coming, return_exceptions=True):
            if not isinstance(outcome, BaseException):
                outcome[1].transport.abort()
        await asyncio.sleep(0.02)
    # then all sockets of the servers are closed: a warning about an open socket would fail the test
    gc.collect(1)


async def test_a_port_that_is_taken_is_an_error_at_the_start(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        second = WebhookServer({"/x": PostPath(_never)}, host="127.0.0.1", port=server.port)
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()


async def _never(path: str, body: bytes, timeout_s: float) -> bytes:
    raise AssertionError


async def test_long_conversions_of_one_address_that_wait_have_a_quota(tmp_path: Path) -> None:
    # given
    go, begun = asyncio.Event(), 0

    async def post(path: str, body: bytes, timeout_s: float) -> bytes:
        nonlocal begun
        begun += 1
        await go.wait()
        return b"{}"

    long = LongBodies(10, Quota(8, most_of_one=2))
    server = WebhookServer({"/convert": PostPath(post, long=long)}, host="127.0.0.1", port=0)
    server.load_certificate(*pair(tmp_path, "server"))
    await server.start()
    async with client(server) as session:

        async def asked(body: bytes) -> int:
            async with session.post("/convert", data=body) as answer:
                return answer.status

        # when
        waiting = [asyncio.create_task(asked(b"x" * 10)) for _ in range(2)]
        await until(lambda: begun == 2)
        # then
        assert await asked(b"x" * 10) == 429
        # and the server does not even wait for its body
        _, writer = answer = await connected(
            server, b"POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
        )
        assert (await answer[0].readline()).startswith(b"HTTP/1.1 429")
        writer.close()
        short = asyncio.create_task(asked(b"x"))
        await until(lambda: begun == 3)
        go.set()
        assert await asyncio.gather(*waiting, short) == [200, 200, 200]
    await server.stop()


async def test_long_conversions_are_done_aside_and_a_failure_there_is_answered() -> None:
    async def dies(body: bytes) -> bytes:
        raise ConnectionResetError("the process that converts objects has ended")

    (path,) = build_conversion_path("/convert", aside=dies).values()
    for body, text in (
        (b"{}", "not a ConversionReview"),
        (b"x" * LONG_CONVERSION, "the conversion failed; try again"),
    ):
        result = decode(await path.poster("/convert", body, 10.0))["response"]["result"]
        assert result["status"] == "Failure"
        assert text in result["message"]
