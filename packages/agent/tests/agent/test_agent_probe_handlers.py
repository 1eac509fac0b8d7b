"""Probes and hooks over the network, against servers on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpclib.const
import pytest
from grpclib.encoding.base import CodecBase
from grpclib.server import Server

from pykruise.agent.cri.errors import CallTimeoutError
from pykruise.agent.cri.values import ExecResult
from pykruise.agent.health_check import LARGEST_RESPONSE, PATH
from pykruise.agent.hooks import HookError, run_pre_stop
from pykruise.agent.http_get import send_http_get
from pykruise.agent.probe_handlers import run_probe
from pykruise.agent.rules.probe_checks import FAILED, SUCCEEDED
from pykruise.kube.clock import read_system_clock
from support.fake_runtime import FakeRuntime
from support.grpc_health import Health

pytestmark = pytest.mark.real_time

HOST = "127.0.0.1"
Answer = Callable[[str], bytes]
TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS client."""


def reply(status: str, body: str = "", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", body]).encode()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[int, list[str]]]:
    """An HTTP server on loopback: its port, and the heads of the requests that it received. It has no TLS."""
    asked: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == TLS_HANDSHAKE:
            writer.write(reply("400 Bad Request"))
            writer.close()
            return
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head)
        writer.write(answer(head.split()[1]))
        writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def probe(**handler: Any) -> tuple[str, str] | None:
    return await run_probe(handler, FakeRuntime(read_system_clock), "id", HOST)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("200 OK", SUCCEEDED), ("399 Odd", SUCCEEDED), ("404 Not Found", FAILED), ("500 Error", FAILED)],
)
async def test_an_http_probe_is_judged_by_the_status_code(status: str, outcome: str) -> None:
    async with serving(lambda _: reply(status, "body")) as (port, asked):
        goes = await probe(httpGet={"port": port, "path": "/ready?x=1"})
    assert goes is not None
    assert goes[0] == outcome
    assert goes[1] == ("body" if outcome == SUCCEEDED else f"HTTP probe failed with statuscode: {status[:3]}")
    assert asked[0].startswith("GET /ready?x=1 HTTP/1.1\r\n")
    assert "User-Agent: kube-probe/" in asked[0]
    assert "Accept: */*" in asked[0]


@pytest.mark.parametrize(
    ("final", "outcome", "message"),
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", SUCCEEDED, "body"),
        ("", FAILED, "the server closed the connection without a response"),
    ],
)
async def test_a_response_before_the_final_one_is_no_result(final: str, outcome: str, message: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLocation: /other\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(final.encode())
        writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await probe(httpGet={"port": port})
    assert result is not None
    assert (result[0], result[1].rpartition(": ")[2]) == (outcome, message)


OK_HEAD = "HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("response", "outcome", "message"),
    [
        # the connection ends before the response does
        ("HTTP/1.1 200", FAILED, "unexpected EOF"),
        (OK_HEAD, FAILED, "unexpected EOF"),
        (OK_HEAD + "X: y\r\n", FAILED, "unexpected EOF"),
        (OK_HEAD + "Content-Length: 20\r\n\r\nok", FAILED, "unexpected EOF"),
        (OK_HEAD + "Transfer-Encoding: chunked\r\n\r\n5\r\nok", FAILED, "unexpected EOF"),
        # the end of the connection is the end of the body
        (OK_HEAD + "\r\nok", SUCCEEDED, "ok"),
        (OK_HEAD + "Content-Length: 2\r\n\r\nok", SUCCEEDED, "ok"),
        # heads that Go's HTTP client accepts
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", SUCCEEDED, "ok"),
        (OK_HEAD + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", SUCCEEDED, "ok"),
        (OK_HEAD + "X: y\r\n z\r\nContent-Length : 2\r\n\r\nok", SUCCEEDED, "ok"),
        (
            OK_HEAD + "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            SUCCEEDED,
            "ok",
        ),
        (OK_HEAD + "Content-Length: 2\r\n\r\nok and more", SUCCEEDED, "ok"),
        # heads that it rejects
        (
            OK_HEAD + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
            FAILED,
            "the response has different values of Content-Length",
        ),
        (OK_HEAD + "no colon\r\n\r\nok", FAILED, "malformed header line 'no colon'"),
        # statuses that are not redirects
        ("HTTP/1.1 300 Many\r\nLocation: /x\r\n\r\n", SUCCEEDED, ""),
        ("HTTP/1.1 304 Not Modified\r\nLocation: /x\r\n\r\n", SUCCEEDED, ""),
    ],
)
@pytest.mark.parametrize("is_slow", [False, True])
async def test_an_http_response_has_the_outcome_that_a_kubelet_reports(
    response: str, outcome: str, message: str, is_slow: bool
) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = 1 if is_slow else len(response)
        for start in range(0, len(response), size):
            writer.write(response[start : start + size].encode())
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    async with server:
        result = await probe(httpGet={"port": server.sockets[0].getsockname()[1]})
    assert result is not None
    assert result[0] == outcome
    assert result[1].endswith(message) if outcome == FAILED else result[1] == message


async def test_configured_headers_replace_the_default_ones() -> None:
    headers = [
        {"name": "Host", "value": "app.example"},
        {"name": "Accept", "value": ""},
        {"name": "X", "value": "y"},
    ]
    async with serving(lambda _: reply("200 OK")) as (port, asked):
        await probe(httpGet={"port": port, "path": "/", "httpHeaders": headers})
    assert "Host: app.example" in asked[0]
    assert "X: y" in asked[0]
    assert "Accept" not in asked[0]


TWO_REQUESTS = "/a HTTP/1.1\r\nHost: h\r\n\r\nPUT /latest/api/token HTTP/1.1\r\nHost: h"


async def test_a_path_with_line_breaks_stays_one_request_as_with_a_kubelet() -> None:
    async with serving(lambda _: reply("200 OK")) as (port, asked):
        # when
        await probe(httpGet={"port": port, "path": TWO_REQUESTS})
        await run_pre_stop(
            FakeRuntime(read_system_clock),  # type: ignore[arg-type]  # it runs commands
            "id",
            {"httpGet": {"port": port, "path": TWO_REQUESTS}},
            ports=(),
            ip=HOST,
            timeout_s=5.0,
        )
    # then
    assert len(asked) == 2
    assert all(
        head.startswith("GET /a%20HTTP/1.1%0D%0AHost:%20h%0D%0A%0D%0APUT%20/latest/") for head in asked
    )


@pytest.mark.parametrize(
    "get",
    [
        {"httpHeaders": [{"name": "X", "value": "y\r\n\r\nPUT / HTTP/1.1"}]},
        {"httpHeaders": [{"name": "X: y\r\nZ", "value": "y"}]},
        {"host": "127.0.0.1\r\nX: y"},
        {"host": "a b"},
    ],
)
async def test_a_probe_that_would_smuggle_another_request_is_not_sent(get: dict[str, Any]) -> None:
    async with serving(lambda _: reply("200 OK")) as (port, asked):
        handler = {"httpGet": {"port": port, "path": "/", **get}}
        # when
        result = await probe(**handler)
        with pytest.raises(HookError):
            await run_pre_stop(
                FakeRuntime(read_system_clock),  # type: ignore[arg-type]  # it runs commands
                "id",
                handler,
                ports=(),
                ip=HOST,
                timeout_s=5.0,
            )
    # then
    assert result is not None
    assert result[0] == FAILED
    assert asked == []


async def test_redirects_within_the_host_are_followed_and_others_are_the_answer() -> None:
    def answer(path: str) -> bytes:
        match path:
            case "/start":
                return reply("302 Found", Location="/end")
            case "/away":
                return reply("302 Found", Location="http://elsewhere.example/")
            case "/round":
                return reply("302 Found", Location="/round")
        return reply("200 OK", "end")

    async with serving(answer) as (port, asked):
        assert await probe(httpGet={"port": port, "path": "/start"}) == (SUCCEEDED, "end")
        away = await probe(httpGet={"port": port, "path": "/away"})
        assert away is not None
        assert away[0] == SUCCEEDED
        result = await probe(httpGet={"port": port, "path": "/round"})
        assert result == (FAILED, "stopped after 10 redirects")
    assert len(asked) == 2 + 1 + 10


async def test_a_body_is_cut_and_a_server_that_closes_has_not_answered() -> None:
    async with serving(lambda _: reply("200 OK", "x" * 50_000)) as (port, _):
        answer = await send_http_get(HOST, port, path="/", scheme="HTTP", headers=(), timeout_s=5.0)
        assert len(answer.body) == 10 * 1024
    async with serving(lambda _: b"") as (port, _):
        result = await probe(httpGet={"port": port, "path": "/"})
        assert result is not None
        assert result[0] == FAILED


async def test_a_closed_port_is_a_failure() -> None:
    async with serving(lambda _: b"") as (port, _):
        pass
    for handler in (
        {"httpGet": {"port": port, "path": "/"}},
        {"tcpSocket": {"port": port}},
        {"grpc": {"port": port}},
    ):
        result = await probe(**handler)
        assert result is not None
        assert result[0] == FAILED


async def test_a_tcp_probe_succeeds_where_a_process_listens() -> None:
    async with serving(lambda _: b"") as (port, _):
        assert await probe(tcpSocket={"port": str(port)}) == (SUCCEEDED, "")


async def test_a_probe_without_a_handler_or_address_has_no_result() -> None:
    assert await probe() is None
    assert await run_probe({"tcpSocket": {"port": 1}}, FakeRuntime(read_system_clock), "id", "") is None  # type: ignore[arg-type]
    assert await probe(tcpSocket={"port": "web"}) is None  # a name that the manager could not resolve


async def test_a_grpc_probe_checks_the_health_of_the_service() -> None:
    """containers pitfall o"""
    server = Server([Health()])
    await server.start(HOST, 0)
    port = server._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        assert await probe(grpc={"port": port, "service": "ready"}) == (
            SUCCEEDED,
            "the gRPC health service reports SERVING",
        )
        assert await probe(grpc={"port": port, "service": "busy"}) == (
            FAILED,
            "the gRPC health service reports NOT_SERVING",
        )
    finally:
        server.close()
        await server.wait_closed()


class _RawCodec(CodecBase):
    """Messages are bytes that are sent without a change."""

    __content_subtype__ = "proto"

    def encode(self, message: bytes, message_type: Any) -> bytes:
        return message

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


class _RawHealth:
    """A health service that responds with the given bytes."""

    def __init__(self, response: bytes) -> None:
        self._response = response

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        async def check(stream: Any) -> None:
            await stream.recv_message()
            await stream.send_message(self._response)

        kind = grpclib.const.Cardinality.UNARY_UNARY
        return {PATH: grpclib.const.Handler(check, kind, bytes, bytes)}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (bytes(LARGEST_RESPONSE + 1), "the response has 4097 bytes, and at most 4096 are read"),
        (b"\xff\xff", "the response is not a valid HealthCheckResponse"),
    ],
    ids=["large", "invalid"],
)
async def test_a_grpc_probe_fails_if_the_response_is_large_or_invalid(response: bytes, message: str) -> None:
    """The memory of the agent does not depend on the servers of pods."""
    server = Server([_RawHealth(response)], codec=_RawCodec())
    await server.start(HOST, 0)
    port = server._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        assert await probe(grpc={"port": port}) == (FAILED, message)
    finally:
        server.close()
        await server.wait_closed()


async def test_a_command_that_takes_too_long_has_failed() -> None:
    runtime = FakeRuntime(read_system_clock)
    made = runtime.run_container("app", pod_uid="a")

    async def hang(*_: Any, **__: Any) -> ExecResult:
        raise CallTimeoutError("too long")

    runtime.exec_sync = hang  # type: ignore[method-assign]
    result = await run_probe({"exec": {"command": ["x"]}, "timeoutSeconds": 7}, runtime, made.id, "")  # type: ignore[arg-type]
    assert result == (FAILED, "command timed out after 7 s")


async def test_an_http_hook_finds_its_port_by_name_and_the_pod_by_its_address() -> None:
    """containers pitfall l"""
    async with serving(lambda _: reply("200 OK")) as (port, asked):
        await run_pre_stop(
            FakeRuntime(read_system_clock),  # type: ignore[arg-type]
            "id",
            {"httpGet": {"path": "/drain", "port": "admin"}},
            ports=[{"name": "admin", "containerPort": port}],
            ip=HOST,
            timeout_s=5.0,
        )
    assert asked[0].startswith("GET /drain ")


async def run_hook(**get: Any) -> None:
    await run_pre_stop(
        FakeRuntime(read_system_clock),  # type: ignore[arg-type]  # it runs commands
        "id",
        {"httpGet": get},
        ports=(),
        ip=HOST,
        timeout_s=5.0,
    )


async def test_an_https_hook_is_sent_again_over_http_if_the_server_has_no_tls() -> None:
    headers = [{"name": "authorization", "value": "Bearer secret"}, {"name": "X", "value": "y"}]
    async with serving(lambda _: reply("200 OK")) as (port, asked):
        # when
        await run_hook(port=port, path="/drain", scheme="HTTPS", httpHeaders=headers)
        result = await probe(httpGet={"port": port, "path": "/", "scheme": "HTTPS"})
    # then the credentials are not sent without TLS
    assert [head.split(" HTTP")[0] for head in asked] == ["GET /drain"]
    assert "X: y" in asked[0]
    assert "User-Agent: kube-lifecycle/" in asked[0]
    assert "secret" not in asked[0]
    # and a probe is not sent again
    assert result is not None
    assert result[0] == FAILED


async def test_an_https_hook_fails_if_its_server_speaks_neither_tls_nor_http() -> None:
    async with serving(lambda _: b"220 ready\r\n") as (port, _):
        with pytest.raises(HookError):
            await run_hook(port=port, path="/", scheme="HTTPS")


@pytest.mark.parametrize(
    ("get", "ip", "problem"),
    [
        ({"port": 1, "path": "/"}, "", "no address"),
        ({"port": "admin", "path": "/"}, HOST, "no port 'admin'"),
    ],
)
async def test_a_pre_stop_hook_without_an_address_or_port_reports_the_problem(
    get: Any, ip: str, problem: str
) -> None:
    with pytest.raises(HookError, match=problem):
        await run_pre_stop(
            FakeRuntime(read_system_clock),  # type: ignore[arg-type]
            "id",
            {"httpGet": get},
            ports=(),
            ip=ip,
            timeout_s=1.0,
        )


async def test_a_hook_that_is_refused_has_failed() -> None:
    async with serving(lambda _: reply("503 Busy")) as (port, _):
        with pytest.raises(HookError, match="status 503"):
            await run_pre_stop(
                FakeRuntime(read_system_clock),  # type: ignore[arg-type]
                "id",
                {"httpGet": {"port": port, "path": "/"}},
                ports=(),
                ip=HOST,
                timeout_s=5.0,
            )


@pytest.mark.parametrize(("seconds", "waited"), [(1, 0.1), (0, 0.0), (-1, 0.0), ("long", 0.0), (None, 0.0)])
async def test_a_sleep_hook_waits_until_the_grace_period_is_over_and_ignores_bad_values(
    seconds: Any, waited: float
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    # when
    await run_pre_stop(
        FakeRuntime(read_system_clock),  # type: ignore[arg-type]
        "id",
        {"sleep": {"seconds": seconds}},
        ports=(),
        ip="",
        timeout_s=0.1,
    )
    # then
    assert waited <= loop.time() - began < waited + 0.9
