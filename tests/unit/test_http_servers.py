"""Each of our HTTP servers: one step of the loop does a bounded amount for one connection, whatever a client sends.

modules that make an HttpServer (found in the sources) ──▶ SERVERS: how each is made ──▶ its largest read of the
smallest things ──▶ calls that one turn of the loop took

Calls are counted, not timed: those of Python's functions and of the interpreter's own.
"""

import ast
import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from pykruise.admission.conversion_path import build_conversion_path
from pykruise.dashboard import server as dashboard_server
from pykruise.dashboard.assets import Assets
from pykruise.dashboard.guard import Guard
from pykruise.kube.admission import AdmissionAnswer, ResourceRule, ReviewRule
from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.app import App
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.server_connection import REFUSAL_CODES
from pykruise.kube.http.wire import WireRequest
from pykruise.kube.program.serving import Address, PathAnswer, PlainServer
from pykruise.kube.webhooks.reviews import ReviewDispatcher
from pykruise.kube.webhooks.server import WebhookServer, review_paths
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.http_front import HttpFront
from support.sources import SOURCES, source_of

pytestmark = pytest.mark.real_time

MOST_CALLS = 16_000
"""Maximum number of calls in one turn of the loop, which takes some milliseconds; 3,600 responses are 400,000 calls."""
READ = 256 * 1024
"""Maximum number of bytes that the loop reads in one turn."""


@asynccontextmanager
async def webhook_server() -> AsyncIterator[App]:
    async def reviewer(asked: object) -> AdmissionAnswer:
        return AdmissionAnswer()

    every = ResourceRule(groups=("*",), resources=("*/*",), operations=("*",))
    rule = ReviewRule(name="test", reviewer=reviewer, mutating=False, rules=(every,), path="/review")
    paths = {**review_paths(ReviewDispatcher([rule])), **build_conversion_path("/convert")}
    server = WebhookServer(paths, host="127.0.0.1", port=0)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def plain_server() -> AsyncIterator[App]:
    server = PlainServer("figures", Address("127.0.0.1", 0), {"/": lambda rest, query: PathAnswer("ok")})
    running = asyncio.create_task(server.run())
    while server.port == 0:
        await asyncio.sleep(0.001)
    try:
        yield server
    finally:
        await server.stop()
        await running


@asynccontextmanager
async def dashboard() -> AsyncIterator[App]:
    pages = cast(Any, SimpleNamespace(plan=None, rights=None, act=None))
    about = dashboard_server.About(version="1", cluster="x", mode="laptop")
    app = dashboard_server.Server(pages, cast(Any, None), Assets(), about)
    app.guard = Guard(("x",))
    server = HttpServer(app, limits=dashboard_server.LIMITS)
    await server.start("127.0.0.1", 0, tls=None)
    try:
        yield app
    finally:
        await server.stop()


@asynccontextmanager
async def sandbox() -> AsyncIterator[App]:
    api = ApiServer(clock=read_system_clock, rng=random.Random(1))
    front = HttpFront(api, token="a-token", certificate=issue(now=read_system_clock()))
    await front.start()
    try:
        yield front
    finally:
        await front.stop()


SERVERS: dict[str, Callable[[], AbstractAsyncContextManager[App]]] = {
    "kube/webhooks/server.py": webhook_server,
    "dashboard/serve.py": dashboard,
    "kube/program/serving.py": plain_server,
    "sandbox/http_front.py": sandbox,
}


def test_every_module_that_makes_a_server_is_in_the_table() -> None:
    made = set()
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "HttpServer":
                made.add(source_of(str(path)))
            is_other = isinstance(node, ast.Attribute) and node.attr in ("start_server", "create_server")
            assert not is_other or path.parts[-2:] == ("http", "server.py"), (
                f"{path} listens without an HttpServer"
            )
    assert made == set(SERVERS)


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ports of servers that start during the test. All start without TLS, which allows the largest reads."""
    ports: list[int] = []
    start = HttpServer.start

    async def start_plain(server: HttpServer, host: str, port: int, *, tls: object) -> int:
        ports.append(await start(server, host, port, tls=None))
        return ports[-1]

    monkeypatch.setattr(HttpServer, "start", start_plain)
    return ports


@contextmanager
def most_calls_of_a_step() -> Iterator[list[int]]:
    """Numbers of calls in the turns of the loop, each for one callback."""
    steps: list[int] = []
    calls = 0
    run = asyncio.Handle._run  # type: ignore[attr-defined]

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def running(handle: asyncio.Handle) -> None:
        nonlocal calls
        calls = 0
        run(handle)
        steps.append(calls)

    asyncio.Handle._run = running  # type: ignore[attr-defined]
    sys.setprofile(count)
    try:
        yield steps
    finally:
        sys.setprofile(None)
        asyncio.Handle._run = run  # type: ignore[attr-defined]


HEAD = b"POST /convert HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-token\r\n"
ATTACKS = {
    "requests": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "requests that name the host": b"GET / HTTP/1.1\r\nHost:x\r\n\r\n",
    "looks at health": b"GET /healthz HTTP/1.1\r\nHost:x\r\n\r\n",
    "requests for lists": b"GET /api/v1/pods HTTP/1.1\r\nHost:x\r\nAuthorization:Bearer a-token\r\n\r\n",
    "empty lines": b"\r\n",
    "headers": HEAD + b"a:\r\n" * READ,
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * READ,
    "bodies": HEAD + b"Content-Length: 1\r\n\r\nx",
    "query": b"GET /?" + b"a&" * 6_000 + b" HTTP/1.1\r\nHost:x\r\n\r\n",
    "nonsense": b"\x00",
}


@pytest.mark.parametrize("module", SERVERS)
async def test_one_step_does_a_bounded_amount_for_one_connection(module: str, ports: list[int]) -> None:
    most: dict[str, int] = {}
    async with SERVERS[module]():
        for attack, part in ATTACKS.items():
            # given the largest possible read, with the smallest requests
            sent = (part * (READ // len(part) + 1))[:READ]
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
            draining = asyncio.create_task(reader.read(1 << 30))
            # when
            with most_calls_of_a_step() as steps:
                writer.write(sent)
                await asyncio.sleep(0.1)
            writer.transport.abort()
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
            most[attack] = max(steps)
    # then
    assert min(most.values()) > 10
    assert {attack: calls for attack, calls in most.items() if calls > MOST_CALLS} == {}


UPGRADE = (
    b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a-token\r\nOrigin: http://x\r\n"
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
)
FRAMES = {
    "pings": b"\x89\x80abcd",
    "empty messages": b"\x81\x80abcd",
    "messages": b"\x81\x81abcdx",
    "a message of many reads": b"\x82\xff\x00\x00\x00\x00\xff\xff\xff\xffabcd" + b"x" * READ,
}


@pytest.mark.parametrize("frame", FRAMES)
async def test_one_step_does_a_bounded_amount_for_a_websocket(frame: str, ports: list[int]) -> None:
    async with sandbox():
        # given a watch that has become a WebSocket
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
        writer.write(UPGRADE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        draining = asyncio.create_task(reader.read(1 << 30))
        # when
        part = FRAMES[frame]
        with most_calls_of_a_step() as steps:
            writer.write((part * (READ // len(part) + 1))[:READ])
            await asyncio.sleep(0.1)
        writer.transport.abort()
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
    # then
    assert 10 < max(steps) <= MOST_CALLS


@pytest.mark.parametrize("module", SERVERS)
@pytest.mark.parametrize("code", REFUSAL_CODES)
async def test_every_server_has_an_answer_to_everything_that_is_refused(
    module: str, code: int, ports: list[int]
) -> None:
    async with SERVERS[module]() as app:
        assert app.failed(code, WireRequest("GET", "/", {}, {})).status == code


def test_a_refusal_that_the_connection_gives_has_its_code_in_the_list() -> None:
    """Codes are in `_refuse(code)`, in `failed(code, …)`, and in the results of `_check_head`."""
    path = next(path for source in SOURCES for path in source.glob("kube/http/server_connection.py"))
    codes = {
        node.value
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and 400 <= node.value < 600
    }
    assert codes == set(REFUSAL_CODES)
