"""HTTP: requests and streams over TLS against a server on the loopback interface."""

import asyncio
import contextlib
import json
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import MOST_REQUESTS, Limiter
from pykruise.kube.client.transport import Request
from pykruise.kube.config.connection import Connection, Credentials, StaticCredentials, make_bearer
from pykruise.kube.errors import (
    ConfigurationError,
    ConnectionLostError,
    GoneError,
    NotFoundError,
    RequestTimeoutError,
    TransportError,
    UnauthorizedError,
    UnreachableError,
)
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import PODS
from support.certificates import Authority

pytestmark = pytest.mark.real_time  # real sockets

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Server:
    """An HTTPS server whose handler the test sets. It records requests, bodies and the addresses of clients."""

    def __init__(self) -> None:
        self.url = ""
        self.handler: Handler = echo
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.peers: set[Any] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        self.bodies.append(await request.read())
        return await self.handler(request)


async def echo(request: web.Request) -> web.Response:
    """Answer with everything that arrived."""
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "query": dict(request.query),
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": (await request.read()).decode(),
        },
        headers={"X-Served-By": "test"},
    )


async def serve(server: Server, context: ssl.SSLContext | None) -> web.AppRunner:
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    return runner


@pytest.fixture
async def server(authority: Authority, tmp_path: Path) -> AsyncIterator[Server]:
    served = Server()
    runner = await serve(served, authority.server_context(tmp_path))
    yield served
    await runner.cleanup()


@pytest.fixture
async def transports() -> AsyncIterator[Callable[..., HttpTransport]]:
    """Makes transports, and closes them."""
    made: list[HttpTransport] = []

    def make(connection: Connection, **options: Any) -> HttpTransport:
        made.append(HttpTransport(connection, **options))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem.decode())


@pytest.fixture
def transport(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> HttpTransport:
    return transports(Connection(server.url, trusting(authority), make_bearer("t0ken")), timeout_s=5)


class Proxy:
    """An HTTP proxy for CONNECT and for requests with an absolute URL; `heads` holds the heads that it received."""

    def __init__(self) -> None:
        self.url = ""
        self.heads: list[bytes] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if context else 'http'}://me:k%3Ay@127.0.0.1:{port}"
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
            first = head
            if method == "CONNECT":
                writer.write(self.answer)
                first = b""
            else:
                target = target.split("/")[2]
            host, port = target.rsplit(":", 1)
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            far_writer.write(first)
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy().running() as running:
        yield running


@pytest.fixture(params=[False, True], ids=["direct", "through a proxy"])
def streaming(
    request: pytest.FixtureRequest,
    server: Server,
    authority: Authority,
    proxy: Proxy,
    transports: Callable[..., HttpTransport],
) -> HttpTransport:
    """A transport without a proxy, and one with a proxy."""
    through = proxy.url if request.param else ""
    connection = Connection(server.url, trusting(authority), make_bearer("t0ken"), proxy=through)
    return transports(connection, timeout_s=5)


# ── requests ─────────────────────────────────────────────────────────────────


async def test_a_review_reads_while_every_write_of_the_client_waits_for_a_review(
    server: Server, transport: HttpTransport
) -> None:
    # given a server that responds to writes only after a review has read something
    reviewed = asyncio.Event()
    all_slots_are_used = asyncio.Event()
    in_flight = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal in_flight
        if request.method == "POST":
            in_flight += 1
            if in_flight == MOST_REQUESTS:
                all_slots_are_used.set()
            await reviewed.wait()
        return web.json_response({"metadata": {"name": "web-1"}})

    server.handler = handle
    client = Client(transport, limiter=Limiter(start=MOST_REQUESTS))
    pod = {"metadata": {"name": "web-1"}}
    # when more pods are created than the client has slots
    async with asyncio.timeout(4), asyncio.TaskGroup() as writes:
        for _ in range(MOST_REQUESTS + 4):
            writes.create_task(client.create(PODS, "default", pod))
        await all_slots_are_used.wait()
        await client.separate_limit().get(PODS, "default", "web-1")
        reviewed.set()
    # then all were created
    assert in_flight == MOST_REQUESTS + 4


async def test_a_request_arrives_with_its_method_path_query_headers_and_body(
    transport: HttpTransport,
) -> None:
    # when
    response = await transport.request(
        Request(
            "PATCH",
            "/api/v1/namespaces/n%2Fs/pods",
            query={"labelSelector": "app in (x,y),!z", "limit": "5"},
            headers={"content-type": "application/json-patch+json"},
            body=b"[]",
        )
    )
    # then
    assert response.status == 200
    assert response.headers["x-served-by"] == "test"
    seen = json.loads(response.body)
    assert (seen["method"], seen["body"]) == ("PATCH", "[]")
    assert seen["path"].startswith("/api/v1/namespaces/n%2Fs/pods?")
    assert seen["query"] == {"labelSelector": "app in (x,y),!z", "limit": "5"}
    assert seen["headers"]["authorization"] == "Bearer t0ken"
    assert seen["headers"]["content-type"] == "application/json-patch+json"
    assert seen["headers"]["user-agent"].startswith("pykruise/")
    assert "accept-encoding" not in seen["headers"]


async def test_a_server_below_a_path_and_headers_of_the_connection(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    groups = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    connection = Connection(f"{server.url}/k8s/clusters/c-1/", trusting(authority), headers=groups)
    # when
    response = await transports(connection, user_agent="me/1").request(Request("GET", "/version"))
    # then
    assert json.loads(response.body)["path"] == "/k8s/clusters/c-1/version"
    assert server.asked[0].headers.getall("Impersonate-Group") == ["a", "b"]
    assert server.asked[0].headers["User-Agent"] == "me/1"


# ── proxies ──────────────────────────────────────────────────────────────────

CREDENTIALS = b"Proxy-Authorization: Basic bWU6azp5\r\n"


async def test_a_proxy_gets_one_connect_per_connection_and_sees_no_requests(
    server: Server, authority: Authority, proxy: Proxy, transports: Callable[..., HttpTransport]
) -> None:
    # given
    connection = Connection(server.url, trusting(authority), make_bearer("t0ken"), proxy=proxy.url)
    transport = transports(connection)
    # when
    answers = [await transport.request(Request("POST", "/x", body=b"{}")) for _ in range(3)]
    # then
    assert [answer.status for answer in answers] == [200, 200, 200]
    host = server.url.removeprefix("https://").encode()
    assert proxy.heads == [b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (host, host, CREDENTIALS)]


async def test_a_proxy_may_be_spoken_to_in_tls(
    server: Server,
    authority: Authority,
    tmp_path: Path,
    transports: Callable[..., HttpTransport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a proxy whose certificate the system trusts
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with Proxy().running(authority.server_context(tmp_path)) as proxy:
        transport = transports(Connection(server.url, trusting(authority), proxy=proxy.url))
        # when
        answer = await transport.request(Request("GET", "/version"))
        # then
        assert (answer.status, len(proxy.heads)) == (200, 1)
        await transport.close()


async def test_a_proxy_gets_the_whole_url_for_a_server_without_tls(
    proxy: Proxy, transports: Callable[..., HttpTransport]
) -> None:
    # given
    served = Server()
    runner = await serve(served, None)
    transport = transports(Connection(served.url, proxy=proxy.url))
    # when
    answer = await transport.request(Request("GET", "/version", query={"a": "b"}))
    # then
    assert answer.status == 200
    assert proxy.heads[0].startswith(b"GET %b/version?a=b HTTP/1.1\r\n" % served.url.encode())
    assert CREDENTIALS in proxy.heads[0]
    await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        (b"SSH-2.0-x\r\n\r\n", "responded 'SSH-2.0-x'"),
        (b"HTTP/1.1 200 OK\r\n\r\nmore", "has a body, or its head is too large"),
        (b"x" * 70_000, "has a body, or its head is too large"),
        (b"", "cannot connect"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_a_server_that_cannot_be_reached(
    server: Server,
    authority: Authority,
    proxy: Proxy,
    transports: Callable[..., HttpTransport],
    answer: bytes,
    expected: str,
) -> None:
    # given
    proxy.answer = answer
    transport = transports(
        Connection(server.url, trusting(authority), proxy=proxy.url), connect_timeout_s=0.5
    )
    # when, then
    with pytest.raises(UnreachableError, match=expected):
        await transport.request(Request("GET", "/version"))


@pytest.mark.parametrize("url", ["socks5://me:key@proxy:1", "http://me:key@proxy:99999", "proxy:3128"])
def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match="is not supported; use an http:// or https:// URL"
    ) as caught:
        HttpTransport(Connection("https://10.0.0.1", proxy=url))
    assert "key" not in str(caught.value)


async def test_an_unreachable_proxy_counts_as_an_unreachable_server(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    connection = Connection(server.url, trusting(authority), proxy="http://127.0.0.1:1")
    with pytest.raises(UnreachableError, match=r"cannot connect to https://127\.0\.0\.1"):
        await transports(connection).request(Request("GET", "/version"))


# ── answers ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [201, 301, 404, 409, 500])
async def test_every_status_is_an_answer(server: Server, transport: HttpTransport, status: int) -> None:
    # given
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(
            status=status, body=b"why", headers={"Retry-After": "3", "Location": "/elsewhere"}
        )

    server.handler = refuse
    # when
    response = await transport.request(Request("GET", "/x"))
    # then no redirect is followed either
    assert (response.status, response.body, response.headers["retry-after"]) == (status, b"why", "3")
    assert len(server.asked) == 1


async def test_requests_reuse_connections_and_never_exceed_the_pool(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    transport = transports(Connection(server.url, trusting(authority)), pool=3)
    # when
    for _ in range(3):
        await asyncio.gather(*(transport.request(Request("GET", "/x")) for _ in range(20)))
    # then
    assert len(server.asked) == 60
    assert len(server.peers) <= 3


async def test_open_streams_do_not_keep_requests_waiting(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given two streams that stay open, and a pool of one connection for requests
    transport = transports(Connection(server.url, trusting(authority)), pool=1)
    server.handler = lines_then_wait(b"one\n")
    async with (
        transport.stream(Request("GET", "/a")) as first,
        transport.stream(Request("GET", "/b")) as second,
    ):
        assert [await anext(first), await anext(second)] == [b"one", b"one"]
        # when, then
        server.handler = echo
        assert (await asyncio.wait_for(transport.request(Request("GET", "/x")), 3)).status == 200


# ── failed requests ──────────────────────────────────────────────────────────


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_refused_connection_was_surely_not_sent(transports: Callable[..., HttpTransport]) -> None:
    # given
    transport = transports(Connection(f"http://127.0.0.1:{free_port()}"))
    # when
    with pytest.raises(
        UnreachableError, match=r"POST /api: cannot connect to http://127\.0\.0\.1:"
    ) as caught:
        await transport.request(Request("POST", "/api", body=b"{}"))
    # then
    assert caught.value.sent is False
    with pytest.raises(UnreachableError):
        await open_and_close(transport)


async def test_a_name_that_does_not_exist_is_unreachable(transports: Callable[..., HttpTransport]) -> None:
    transport = transports(Connection("http://no-such-host.invalid"))
    with pytest.raises(UnreachableError):
        await transport.request(Request("GET", "/api"))


async def test_a_certificate_of_an_unknown_authority_is_refused(
    server: Server, transports: Callable[..., HttpTransport]
) -> None:
    # given
    transport = transports(Connection(server.url, trusting(Authority("another one"))))
    # when, then
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        await transport.request(Request("GET", "/x"))
    assert server.asked == []


async def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(
    authority: Authority, tmp_path: Path, transports: Callable[..., HttpTransport]
) -> None:
    # given
    server = Server()
    runner = await serve(server, authority.server_context(tmp_path, hosts=("kubernetes",)))
    # when, then
    with pytest.raises(UnreachableError, match="certificate"):
        await transports(Connection(server.url, trusting(authority))).request(Request("GET", "/x"))
    named = transports(Connection(server.url, trusting(authority), server_name="kubernetes"))
    assert (await named.request(Request("GET", "/x"))).status == 200
    async with named.stream(Request("GET", "/x")):
        pass
    await runner.cleanup()


async def test_a_missing_answer_is_a_timeout(server: Server, transport: HttpTransport) -> None:
    # given
    async def sleep(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    server.handler = sleep
    # when, then
    with pytest.raises(RequestTimeoutError) as caught:
        await transport.request(Request("POST", "/x", body=b"{}", timeout_s=0.2))
    assert caught.value.sent is True


async def test_a_handshake_that_hangs_is_unreachable(
    authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given a server that accepts and says nothing
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    transport = transports(
        Connection(f"https://127.0.0.1:{port}", trusting(authority)), connect_timeout_s=0.2, timeout_s=5
    )
    # when, then
    with pytest.raises(UnreachableError):
        await transport.request(Request("GET", "/x"))
    listener.close()
    await listener.wait_closed()


async def hang_up(request: web.Request) -> web.Response:
    """Read the request, and close the connection without an answer."""
    await request.read()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
async def test_a_connection_that_breaks_after_sending_is_not_hidden_by_repeating(
    server: Server, transport: HttpTransport, method: str, reused: bool
) -> None:
    # given
    if reused:
        await transport.request(Request("GET", "/x"))
        server.asked.clear()
    server.handler = hang_up
    # when, then
    with pytest.raises(ConnectionLostError) as caught:
        await transport.request(Request(method, "/x", body=b"{}"))
    assert caught.value.sent is True
    assert len(server.asked) == 1


async def test_the_client_repeats_a_read_on_a_new_connection(
    server: Server, transport: HttpTransport
) -> None:
    # given a kept connection that the server closes as the next request arrives
    client = Client(transport, rng=random.Random(1))
    await client.get_path("/version")

    async def hang_up_once(request: web.Request) -> web.Response:
        server.handler = echo
        return await hang_up(request)

    server.handler = hang_up_once
    # when, then
    assert json.loads(await client.get_path("/version"))["method"] == "GET"
    assert len(server.asked) == 3


async def test_an_answer_that_is_cut_short_is_a_lost_connection(
    server: Server, transport: HttpTransport
) -> None:
    # given
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    server.handler = half
    # when, then
    with pytest.raises(ConnectionLostError):
        await transport.request(Request("GET", "/x"))


async def test_an_answer_that_is_not_http_is_a_lost_connection(
    transports: Callable[..., HttpTransport],
) -> None:
    # given
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(rude, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    # when, then
    with pytest.raises(TransportError):
        await transports(Connection(f"http://127.0.0.1:{port}")).request(Request("GET", "/x"))
    listener.close()
    await listener.wait_closed()


async def test_a_closed_transport_refuses_requests_and_ends_those_in_flight(
    server: Server, transport: HttpTransport
) -> None:
    # given a request under way
    arrived = asyncio.Event()

    async def sleep(_: web.Request) -> web.Response:
        arrived.set()
        await asyncio.sleep(30)
        return web.Response()

    server.handler = sleep
    pending = asyncio.create_task(transport.request(Request("GET", "/x")))
    await arrived.wait()
    # when
    await transport.close()
    # then
    with pytest.raises(TransportError):
        await asyncio.wait_for(pending, 3)
    with pytest.raises(UnreachableError, match="closed"):
        await transport.request(Request("GET", "/x"))
    with pytest.raises(UnreachableError, match="closed"):
        await open_and_close(transport)


# ── credentials ──────────────────────────────────────────────────────────────


class Rotating(StaticCredentials):
    """Credentials with a list of tokens, the next one after each refresh."""

    def __init__(self, *tokens: str) -> None:
        super().__init__()
        self.tokens = list(tokens)
        self.refreshed = 0

    async def read_headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def refresh(self, *, rejected: Mapping[str, str]) -> bool:
        self.refreshed += 1
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


def guarded(valid: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != f"Bearer {valid}":
            return web.json_response({"code": 401, "reason": "Unauthorized"}, status=401)
        return web.Response(body=b"line\n")

    return handle


def with_credentials(server: Server, authority: Authority, credentials: Credentials) -> Connection:
    return Connection(server.url, trusting(authority), credentials)


async def test_after_a_401_credentials_are_refreshed_and_the_request_is_repeated_once(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    server.handler = guarded("new")
    credentials = Rotating("old", "new")
    transport = transports(with_credentials(server, authority, credentials))
    # when
    response = await transport.request(Request("POST", "/x", body=b"{}"))
    # then
    assert response.status == 200
    assert server.bodies == [b"{}", b"{}"]
    assert credentials.refreshed == 1


async def test_a_401_is_returned_when_there_are_no_other_credentials(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    server.handler = guarded("new")
    transport = transports(with_credentials(server, authority, Rotating("old", "older", "oldest")))
    # when, then
    assert (await transport.request(Request("GET", "/x"))).status == 401
    assert len(server.asked) == 2  # asked once more with other ones, not for ever
    static = transports(with_credentials(server, authority, make_bearer("old")))
    with pytest.raises(UnauthorizedError):
        await Client(static).get(PODS, "ns", "a")


async def test_a_stream_refreshes_credentials_too(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    server.handler = guarded("new")
    transport = transports(with_credentials(server, authority, Rotating("old", "new")))
    # when
    async with transport.stream(Request("GET", "/x")) as lines:
        seen = [line async for line in lines]
    # then
    assert seen == [b"line"]
    stale = transports(with_credentials(server, authority, make_bearer("old")))
    with pytest.raises(UnauthorizedError):
        await open_and_close(stale)


class ChangingCertificate(StaticCredentials):
    """Credentials that are a client certificate."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self.context = context

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.context


def client_context(authority: Authority, folder: Path, name: str) -> ssl.SSLContext:
    certificate, key = authority.issue(name)
    chain = folder / f"{name}.pem"
    chain.write_bytes(certificate + key)
    context = trusting(authority)
    context.load_cert_chain(chain)
    return context


async def test_a_changed_client_certificate_is_used_immediately_despite_kept_connections(
    authority: Authority, tmp_path: Path, transports: Callable[..., HttpTransport]
) -> None:
    # given a server that answers with the name in the client certificate
    server = Server()
    runner = await serve(server, authority.server_context(tmp_path, asks_clients=True))

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        return web.Response(text=dict(part[0] for part in subject)["commonName"])

    server.handler = who
    credentials = ChangingCertificate(client_context(authority, tmp_path, "first"))
    transport = transports(Connection(server.url, trusting(authority), credentials))
    assert (await transport.request(Request("GET", "/x"))).body == b"first"
    # when
    credentials.context = client_context(authority, tmp_path, "second")
    # then
    assert (await transport.request(Request("GET", "/x"))).body == b"second"
    await runner.cleanup()


# ── streams ──────────────────────────────────────────────────────────────────


def lines_of(*chunks: bytes) -> Handler:
    """A stream of these chunks, each flushed, that then ends."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.005)
        return response

    return handle


def lines_then_wait(*chunks: bytes) -> Handler:
    """A stream of these chunks that then stays open and silent."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        await asyncio.sleep(30)
        return response

    return handle


async def open_and_close(transport: HttpTransport, **options: Any) -> None:
    async with transport.stream(Request("GET", "/x", **options)):
        pass


async def collect(transport: HttpTransport, into: list[bytes], **options: Any) -> None:
    async with transport.stream(Request("GET", "/x", **options)) as lines:
        async for line in lines:
            into.append(line)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n", b"c\n"], [b"a", b"b", b"c"]),
        ([b"a", b"a", b"a\nb", b"\n"], [b"aaa", b"b"]),
        ([b"a\n", b"\n", b"\n\nb\n"], [b"a", b"b"]),
        ([b"a\nno end"], [b"a", b"no end"]),
        ([], []),
    ],
)
async def test_lines_stay_whole_across_any_split_into_chunks(
    server: Server, streaming: HttpTransport, chunks: list[bytes], expected: list[bytes]
) -> None:
    # given
    server.handler = lines_of(*chunks)
    # when
    seen: list[bytes] = []
    await collect(streaming, seen)
    # then
    assert seen == expected


async def test_a_line_may_be_several_megabytes_long(server: Server, streaming: HttpTransport) -> None:
    # given
    big = b"x" * 3_000_000
    server.handler = lines_of(b"small\n" + big[:1_500_000], big[1_500_000:] + b"\nsmall\n")
    # when
    seen: list[bytes] = []
    await collect(streaming, seen)
    # then
    assert seen == [b"small", big, b"small"]


async def test_many_lines_of_a_stream_arrive_in_order(server: Server, streaming: HttpTransport) -> None:
    # given 20,000 lines in chunks that do not end at line ends
    text = b"".join(b'{"number":%d}\n' % number for number in range(20_000))
    server.handler = lines_of(*(text[start : start + 7001] for start in range(0, len(text), 7001)))
    # when
    seen: list[bytes] = []
    await collect(streaming, seen)
    # then
    assert [json.loads(line)["number"] for line in seen] == list(range(20_000))


async def test_a_stream_that_is_refused_raises_the_error_of_its_status(
    server: Server, streaming: HttpTransport
) -> None:
    # given
    async def gone(_: web.Request) -> web.Response:
        return web.json_response({"code": 410, "reason": "Expired", "message": "too old"}, status=410)

    server.handler = gone
    # when, then
    with pytest.raises(GoneError, match="too old"):
        await open_and_close(streaming)

    async def plain(_: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    server.handler = plain
    with pytest.raises(NotFoundError, match="page not found"):
        await open_and_close(streaming)


async def test_a_stream_that_breaks_is_a_lost_connection_after_the_whole_lines(
    server: Server, streaming: HttpTransport
) -> None:
    # given
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"whole\nha")
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    server.handler = breaks
    seen: list[bytes] = []
    # when, then
    with pytest.raises(ConnectionLostError):
        await collect(streaming, seen)
    assert seen == [b"whole"]


async def test_a_stream_that_falls_silent_is_a_lost_connection(
    server: Server, streaming: HttpTransport
) -> None:
    # given a half-open connection: nothing arrives, and nothing breaks
    server.handler = lines_then_wait(b"one\n")
    seen: list[bytes] = []
    # when, then
    with pytest.raises(ConnectionLostError, match=r"nothing arrived for 0\.3 s"):
        await asyncio.wait_for(collect(streaming, seen, timeout_s=0.3), 5)
    assert seen == [b"one"]


async def test_a_stream_that_is_never_answered_is_a_timeout(
    server: Server, authority: Authority, transports: Callable[..., HttpTransport]
) -> None:
    # given
    async def sleep(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    server.handler = sleep
    transport = transports(Connection(server.url, trusting(authority)), timeout_s=0.2)
    # when, then
    with pytest.raises(RequestTimeoutError):
        await open_and_close(transport)


async def test_leaving_a_stream_ends_it_at_the_server(server: Server, streaming: HttpTransport) -> None:
    # given
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"tick\n")
                await asyncio.sleep(0.01)
        except (ConnectionResetError, asyncio.CancelledError):
            ended.set()
            raise

    server.handler = endless
    # when
    async with streaming.stream(Request("GET", "/x")) as lines:
        assert await anext(lines) == b"tick"
    # then
    await asyncio.wait_for(ended.wait(), 3)


async def test_a_watch_of_the_client_works_over_http(server: Server, streaming: HttpTransport) -> None:
    # given an event above every usual buffer size
    event = {"type": "ADDED", "object": {"metadata": {"name": "a"}, "data": "x" * 1_500_000}}
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    server.handler = lines_of(json.dumps(event).encode() + b"\n" + json.dumps(gone).encode() + b"\n")
    client = Client(streaming)
    # when, then
    async with client.watch(PODS, "ns", resource_version="7") as events:
        first = await anext(events)
        assert (first.type, len(bytes(first.object)) > 1_500_000) == ("ADDED", True)
        with pytest.raises(GoneError):
            await anext(events)
    assert server.asked[0].query["watch"] == "true"


async def test_closing_ends_abandoned_tls_connections_whose_server_sends_no_close(
    authority: Authority, tmp_path: Path
) -> None:
    """TLS waits for the other side's close, by default 30 s. The connection of an abandoned stream waits so."""
    # given a server that sends one line of a stream, and then only looks whether the connection still stands
    listener = socket.create_server(("127.0.0.1", 0))
    ended = asyncio.get_running_loop().run_in_executor(
        None, _one_line_and_no_goodbye, listener, authority.server_context(tmp_path)
    )
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    transport = HttpTransport(Connection(url, trusting(authority), make_bearer("t0ken")))
    async with transport.stream(Request("GET", "/pods")) as lines:
        assert await anext(lines) == b"{}"
    # when
    await transport.close()
    # then
    assert await asyncio.wait_for(ended, timeout=10) == b""


def _one_line_and_no_goodbye(listener: socket.socket, context: ssl.SSLContext) -> bytes:
    """The last bytes on the connection after one line of a stream; nothing once the client has closed it."""
    connection, _ = listener.accept()
    listener.close()
    with context.wrap_socket(connection, server_side=True) as tls:
        tls.recv(65536)
        tls.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
        with socket.socket(fileno=os.dup(tls.fileno())) as raw:
            raw.settimeout(5)
            while raw.recv(65536):  # the client's close, which this server does not answer
                pass
            return b""
