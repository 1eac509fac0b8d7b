"""`kubectl kruise exec` over a real WebSocket, against an API server that has one pod and runs one command."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import WSMsgType, web

from pykruise.cli.kubectl.entry import run_async
from pykruise.cli.kubectl.flags import Call
from pykruise.cli.kubectl.session import Reached, Surroundings
from pykruise.kube.connection import Connection, StaticCredentials
from pykruise.kube.http import HttpTransport
from pykruise.kube.transport import Transport

pytestmark = pytest.mark.real_time

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "shop"},
    "spec": {"containers": [{"name": "main"}, {"name": "agent"}]},
    "status": {"phase": "Running"},
}


class Asked:
    """What the server was asked to run."""

    query: list[tuple[str, str]]


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, Asked]]:
    asked = Asked()

    async def execute(request: web.Request) -> web.StreamResponse:
        asked.query = list(request.query.items())
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        heard = b""
        if ("stdin", "true") in asked.query:
            async for message in socket:
                if message.type is WSMsgType.BINARY and message.data[0] == 255:
                    break
                heard += message.data[1:]
        await socket.send_bytes(b"\x01hello " + heard)
        await socket.send_bytes(b"\x02careful\n")
        failed = {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}
        await socket.send_bytes(b"\x03" + json.dumps(failed).encode())
        await socket.close()
        return socket

    def answers(document: Any) -> Any:
        async def handler(_: web.Request) -> web.Response:
            return web.json_response(document)

        return handler

    app = web.Application()
    resources = [{"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]
    app.router.add_get("/api", answers({"kind": "APIVersions", "versions": ["v1"]}))
    app.router.add_get("/apis", answers({"kind": "APIGroupList", "groups": []}))
    app.router.add_get("/api/v1", answers({"kind": "APIResourceList", "resources": resources}))
    app.router.add_get("/api/v1/namespaces/shop/pods/p", answers(POD))
    app.router.add_get("/api/v1/namespaces/shop/pods/p/exec", execute)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}", asked
    await runner.cleanup()


class _Reached(msgspec.Struct, frozen=True):
    transport: Transport
    namespace: str


async def typed(url: str, *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    err: list[str] = []

    async def connect(_: Call) -> Reached:
        connection = Connection(server=url, ssl_context=None, credentials=StaticCredentials())
        return _Reached(HttpTransport(connection), "shop")

    code = await run_async(words, Surroundings(out=lambda _: None, err=err.append, connect=connect))
    return code, "".join(err)


async def test_output_and_exit_code_are_the_commands(
    server: tuple[str, Asked], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    url, asked = server
    code, err = await typed(url, "exec", "p", "-c", "agent", "--", "sh", "-c", "exit 3")
    captured = capfdbinary.readouterr()
    assert code == 3
    assert "command terminated with exit code 3" in err
    assert (captured.out, captured.err) == (b"hello ", b"careful\n")
    assert [value for name, value in asked.query if name == "command"] == ["sh", "-c", "exit 3"]
    assert ("container", "agent") in asked.query
    assert ("stderr", "true") in asked.query


async def test_the_form_without_dashes_works_and_is_noted(server: tuple[str, Asked]) -> None:
    code, err = await typed(server[0], "exec", "p", "ls")
    assert code == 3
    assert "is DEPRECATED" in err
    assert 'Defaulted container "main" out of: main, agent' in err


async def test_a_terminal_is_left_out_where_there_is_none(server: tuple[str, Asked]) -> None:
    _, err = await typed(server[0], "exec", "p", "-t", "--", "ls")
    assert "Unable to use a TTY" in err
    assert "tty" not in dict(server[1].query)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("exec", "p"), "you must specify at least one command for the container"),
        (("exec", "--", "ls"), "pod, type/name or --filename must be specified"),
        (("exec", "p", "-c", "nope", "--", "ls"), "container nope not found in pod p"),
    ],
)
async def test_what_cannot_be_run_is_one_line(
    server: tuple[str, Asked], words: tuple[str, ...], said: str
) -> None:
    assert await typed(server[0], *words) == (1, f"error: {said}\n")
