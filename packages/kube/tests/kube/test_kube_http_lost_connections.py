"""TLS connections that have ended leave nothing in memory, without a garbage collection.

The event loop has a buffer of 256 KiB for each of them. A manager collects old objects every ten minutes only, and
never objects that existed when it froze its heap.
"""

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.config.connection import Connection
from pykruise.kube.errors import TransportError
from pykruise.kube.http.app import HttpLimits, Streamed
from pykruise.kube.http.server import HttpServer
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.http.wire import WireRequest
from support.certificates import Authority

pytestmark = pytest.mark.real_time  # real sockets

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
OF_TLS = ("SSLProtocol", "SSLObject", "_SSLSocket")
"""Names of the types that hold the state of a TLS connection, in both event loops."""


class Watched:
    """Answers `/watch` with a stream of `lines` lines, and everything else with an empty object."""

    def __init__(self) -> None:
        self.lines = 3

    def admit(self, request: WireRequest) -> Response | None:
        return None

    async def answer(self, request: WireRequest) -> Response | Streamed:
        return Lines(self.lines) if request.path == "/watch" else self.failed(200, request)

    def failed(self, code: int, request: WireRequest) -> Response:
        return Response(code, {"content-type": "application/json"}, b"{}")


class Lines:
    """A stream that ends after `count` lines, or stays open when `count` is 0."""

    content_type = "application/json"
    headers: Mapping[str, str] = {}

    def __init__(self, count: int) -> None:
        self._count = count
        self._is_endless = not count

    async def chunk(self) -> bytes:
        if self._is_endless:
            await asyncio.sleep(60)
        self._count -= 1
        return b"{}\n" if self._count >= 0 else b""

    async def aclose(self) -> None:
        pass


class World:
    """A server and a client of it."""

    def __init__(
        self, app: Watched, server: HttpServer, client: HttpTransport, stranger: HttpTransport
    ) -> None:
        self.app = app
        self.server = server
        self.client = client
        self.stranger = stranger
        """A client that does not trust the server's certificate."""


@asynccontextmanager
async def served(authority: Authority, folder: Path) -> AsyncIterator[World]:
    app, certificate = Watched(), authority.server_context(folder)
    server = HttpServer(app, limits=HttpLimits(linger_s=0.05, stop_s=0.1))
    port = await server.start("127.0.0.1", 0, tls=lambda: certificate)
    url = f"https://127.0.0.1:{port}"
    context = ssl.create_default_context(cadata=authority.pem.decode())
    client = HttpTransport(Connection(server=url, ssl_context=context))
    stranger = HttpTransport(Connection(server=url, ssl_context=ssl.create_default_context()))
    try:
        yield World(app, server, client, stranger)
    finally:
        await client.close()
        await stranger.close()
        await server.stop()


@asynccontextmanager
async def fails() -> AsyncIterator[None]:
    """The block raises a TransportError. Unlike `pytest.raises`, this does not keep the traceback."""
    is_failed = False
    try:
        yield
    except TransportError:
        is_failed = True
    assert is_failed


Ending = Callable[[World], Awaitable[None]]


async def close_after_requests(world: World) -> None:
    """The client closes connections of its pool."""
    await asyncio.gather(*(world.client.request(Request("GET", "/x")) for _ in range(4)))


async def stop_server_after_requests(world: World) -> None:
    """The server stops while the client keeps connections, as an API server that restarts."""
    await asyncio.gather(*(world.client.request(Request("GET", "/x")) for _ in range(4)))
    await world.server.stop()


async def read_watch_to_its_end(world: World) -> None:
    """The server ends the stream."""
    async with world.client.stream(Request("GET", "/watch")) as lines:
        assert [line async for line in lines] == [b"{}"] * 3


async def abandon_watch(world: World) -> None:
    """The client leaves the stream after its first line."""
    async with world.client.stream(Request("GET", "/watch")) as lines:
        assert await anext(lines) == b"{}"


async def lose_silent_watch(world: World) -> None:
    """Nothing arrives on the stream, and the client gives it up."""
    world.app.lines = 0
    async with fails(), world.client.stream(Request("GET", "/watch", timeout_s=0.1)) as lines:
        await anext(lines)


async def stop_server_during_watch(world: World) -> None:
    """The server stops in the middle of the stream."""
    world.app.lines = 0
    async with fails(), world.client.stream(Request("GET", "/watch")) as lines:
        stop = asyncio.ensure_future(world.server.stop())
        try:
            await anext(lines)
        finally:
            await stop


async def refuse_certificate(world: World) -> None:
    """The handshake fails."""
    async with fails():
        await world.stranger.request(Request("GET", "/x"))


ENDINGS: tuple[Ending, ...] = (
    close_after_requests,
    stop_server_after_requests,
    read_watch_to_its_end,
    abandon_watch,
    lose_silent_watch,
    stop_server_during_watch,
    refuse_certificate,
)


CASES = [
    (ending, loop)
    for ending in ENDINGS
    for loop in LOOPS
    # asyncio refers to the error of a failed handshake from its traceback; programs run on uvloop.
    if (ending, loop) != (refuse_certificate, "asyncio")
]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collection within the test, and no object of earlier tests among those that `gc` lists."""
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def count_tls_objects() -> Counter[str]:
    """Number of objects of this test with the state of a TLS connection, by type, alive or not."""
    return Counter(name for each in gc.get_objects() if (name := type(each).__name__) in OF_TLS)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("ending", "loop"), CASES, ids=[f"{ending.__name__} {loop}" for ending, loop in CASES]
)
def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(
    ending: Ending, loop: str, tmp_path: Path
) -> None:
    # given
    authority = Authority()

    async def run() -> None:
        async with served(authority, tmp_path) as world:
            await ending(world)
        for _ in range(500):  # callbacks of the loop refer to the connections until they have run
            await asyncio.sleep(0.01)
            if not count_tls_objects():
                break

    # when
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())
        # then, while the loop is still there
        assert count_tls_objects() == Counter()
