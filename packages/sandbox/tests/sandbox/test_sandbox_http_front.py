"""The HTTPS server: tokens, limits, watches and their end, over real sockets."""

import asyncio
import contextlib
import io
import json
import os
import random
import socket
import ssl
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from pykruise.kube.clock import read_system_clock
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.certificates import issue
from pykruise.sandbox.http_front import MAX_BODY, HttpFront

pytestmark = pytest.mark.real_time

TOKEN = "a-token"
CERTIFICATE = issue(now=time.time())
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def running(*, send_timeout_s: float = 20.0) -> AsyncIterator[HttpFront]:
    server = ApiServer(clock=read_system_clock, rng=random.Random(1))
    front = HttpFront(server, token=TOKEN, certificate=CERTIFICATE, send_timeout_s=send_timeout_s)
    await front.start()
    try:
        yield front
    finally:
        await front.stop()


@asynccontextmanager
async def client(front: HttpFront, **headers: str) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=CERTIFICATE.authority.decode())
    connector = aiohttp.TCPConnector(ssl=context)
    session = aiohttp.ClientSession(front.url, connector=connector, headers={**AUTHORIZED, **headers})
    async with session:
        yield session
    await asyncio.sleep(0.05)  # TLS connections close a moment later


def config_map(name: str, value: str = "x") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"key": value},
    }


async def test_objects_are_written_and_read_with_the_token_over_verified_tls() -> None:
    async with running() as front, client(front) as session:
        # when
        async with session.post(CONFIG_MAPS, json=config_map("a")) as created:
            assert created.status == 201
        async with session.get(f"{CONFIG_MAPS}/a") as answer:
            # then
            assert answer.status == 200
            assert (await answer.json())["data"] == {"key": "x"}
        assert front.url.startswith("https://127.0.0.1:")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xe9"],
)
async def test_every_request_without_the_right_token_is_denied_with_a_status(authorization: str) -> None:
    async with running() as front, client(front) as session:
        for method, path in (("GET", "/api/v1/pods"), ("POST", CONFIG_MAPS), ("GET", "/nowhere")):
            # when
            async with session.request(
                method, path, headers={"Authorization": authorization}, data=b"{}"
            ) as answer:
                # then
                assert answer.status == 401
                status = await answer.json()
                assert (status["kind"], status["reason"]) == ("Status", "Unauthorized")


async def test_health_and_version_are_open_as_on_a_real_server() -> None:
    async with running() as front, client(front) as session:
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            # when
            async with session.get(path, headers={"Authorization": ""}) as answer:
                # then
                assert answer.status == 200, path


async def test_stopping_ends_tls_connections_of_clients_that_send_no_close() -> None:
    async with running() as front:
        # given a client with an idle connection in its pool
        context = ssl.create_default_context(cadata=CERTIFICATE.authority.decode())
        port = int(front.url.rpartition(":")[2])
        idle = await asyncio.to_thread(_connected, context, port)
        raw = socket.socket(fileno=os.dup(idle.fileno()))
        with idle, raw:
            # when
            await front.stop()
            # then its connection has ended below TLS, too
            raw.settimeout(10)
            while await asyncio.to_thread(raw.recv, 4096):
                pass


def _connected(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    idle = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
    idle.sendall(f"GET /version HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert idle.recv(4096).startswith(b"HTTP/1.1 200")
    return idle


async def test_a_client_without_the_authority_is_not_served() -> None:
    async with running() as front:
        # given
        other = issue(now=time.time())
        context = ssl.create_default_context(cadata=other.authority.decode())
        session = aiohttp.ClientSession(front.url, connector=aiohttp.TCPConnector(ssl=context))
        async with session:
            # when, then
            with pytest.raises(aiohttp.ClientSSLError):
                await session.get("/version")
        await asyncio.sleep(0.05)


async def test_tls_older_than_1_2_is_refused() -> None:
    async with running() as front:
        host, port = front.url.removeprefix("https://").split(":")
        for version, accepted in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            # given
            context = ssl.create_default_context(cadata=CERTIFICATE.authority.decode())
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the test needs old versions
                context.minimum_version = context.maximum_version = version
            # when
            try:
                _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            except (ssl.SSLError, ConnectionError):
                # then
                assert not accepted
                continue
            assert accepted
            await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


async def test_a_body_beyond_the_limit_is_a_413_status_and_is_not_read_to_its_end() -> None:
    async with running() as front, client(front) as session:
        # given a body with a length in the header, and one without
        async def endless() -> AsyncIterator[bytes]:
            for _ in range(MAX_BODY // 65536 + 2):
                yield b" " * 65536

        for body in (io.BytesIO(b" " * (MAX_BODY + 1)), endless()):
            # when
            try:
                async with session.post(CONFIG_MAPS, data=body) as answer:
                    # then
                    assert answer.status == 413
                    assert (await answer.json())["reason"] == "RequestEntityTooLarge"
            except aiohttp.ClientOSError:
                pass  # the connection was closed while the client was still sending


async def test_yaml_bodies_are_taken() -> None:
    async with running() as front, client(front) as session:
        # given
        body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: {a: b}\n"
        # when
        headers = {"Content-Type": "application/yaml"}
        async with session.post(CONFIG_MAPS, data=body, headers=headers) as answer:
            # then
            assert answer.status == 201


async def test_an_invalid_protobuf_body_is_answered_with_400() -> None:
    async with running() as front, client(front) as session:
        for body in (b"nonsense", b"k8s\x00\xff\xff\xff", b"k8s\x00"):
            # when
            headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
            async with session.post(CONFIG_MAPS, data=body, headers=headers) as answer:
                # then
                assert answer.status == 400
                assert (await answer.json())["reason"] == "BadRequest"


async def test_a_watch_sends_changes_line_by_line_as_they_happen() -> None:
    async with running() as front, client(front) as session, watching(session) as watch:
        # given
        assert watch.status == 200
        # when
        for name in ("a", "b"):
            async with session.post(CONFIG_MAPS, json=config_map(name)) as created:
                assert created.status == 201
        lines = [json.loads(await watch.content.readline()) for _ in range(2)]
        # then
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        assert front.watches == 1


def watching(session: aiohttp.ClientSession) -> Any:
    return session.get(CONFIG_MAPS, params={"watch": "true"})


async def test_a_watch_that_is_refused_is_answered_with_the_status() -> None:
    async with running() as front, client(front) as session:
        # when
        answer = await session.get("/api/v1/nonsense", params={"watch": "1"})
        # then
        assert answer.status == 404
        assert (await answer.json())["kind"] == "Status"


async def test_stopping_ends_watches_and_frees_the_port() -> None:
    async with running() as front, client(front) as session, watching(session) as watch:
        # given
        port = int(front.url.rpartition(":")[2])
        # when
        await front.stop()
        # then
        assert await asyncio.wait_for(watch.content.readline(), 5) == b""
        again = HttpFront(
            ApiServer(clock=read_system_clock, rng=random.Random(1)),
            token=TOKEN,
            certificate=CERTIFICATE,
            port=port,
        )
        await again.start()
        await again.stop()


async def test_a_disconnected_watcher_is_forgotten_immediately() -> None:
    async with running() as front, client(front) as session:
        # given
        watch = await session.get(CONFIG_MAPS, params={"watch": "true"})
        assert front.watches == 1
        # when
        watch.close()
        # then
        await eventually(lambda: front.watches == 0)


async def test_a_watcher_that_never_reads_is_dropped_and_slows_no_other() -> None:
    async with running(send_timeout_s=0.3) as front, client(front) as session:
        # given a connection that is not read, and one that is read
        host, port = front.url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cadata=CERTIFICATE.authority.decode())
        _, writer = await asyncio.open_connection(host, int(port), ssl=context, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport can
        writer.write(
            f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        await eventually(lambda: front.watches == 1)
        # when more data are sent than all buffers can hold
        seen = 0
        async with session.get(CONFIG_MAPS, params={"watch": "1"}) as reader:
            for number in range(24):
                async with session.post(CONFIG_MAPS, json=config_map(f"c{number}", "v" * 900_000)) as created:
                    assert created.status == 201
                while b"\n" not in (chunk := await reader.content.readany()):
                    assert chunk
                seen += 1
        # then
        assert seen == 24
        await eventually(lambda: front.watches == 0)
        await closed(writer)


async def eventually(holds: Any, *, within_s: float = 10.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.01)


async def test_a_port_in_use_is_an_error_in_words() -> None:
    async with running() as front:
        # given
        port = int(front.url.rpartition(":")[2])
        second = HttpFront(
            ApiServer(clock=read_system_clock, rng=random.Random(1)),
            token=TOKEN,
            certificate=CERTIFICATE,
            port=port,
        )
        # when, then
        with pytest.raises(OSError, match=rf"port {port} on 127\.0\.0\.1 is in use; choose another"):
            await second.start()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.com", ""])
def test_a_front_refuses_to_listen_on_other_interfaces(host: str) -> None:
    with pytest.raises(ValueError, match="listens on this machine only"):
        HttpFront(
            ApiServer(clock=read_system_clock, rng=random.Random(1)),
            token=TOKEN,
            certificate=CERTIFICATE,
            host=host,
        )


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(ValueError, match="token"):
        HttpFront(ApiServer(clock=read_system_clock, rng=random.Random(1)), token="", certificate=CERTIFICATE)


async def test_a_head_request_is_answered_without_a_body() -> None:
    async with running() as front, client(front) as session, session.head("/version") as answer:
        assert answer.status == 200
        assert await answer.read() == b""
