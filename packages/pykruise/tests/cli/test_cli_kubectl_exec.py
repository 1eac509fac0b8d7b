"""`kubectl kruise exec` over a real WebSocket, against an API server that has one pod and runs one command."""

import asyncio
import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
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
    sizes: list[dict[str, int]]


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, Asked]]:
    asked = Asked()

    async def execute(request: web.Request) -> web.StreamResponse:
        asked.query, asked.sizes = list(request.query.items()), []
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        heard = b""
        if ("stdin", "true") in asked.query:
            async for message in socket:
                if message.type is WSMsgType.BINARY and message.data[0] == 255:
                    break
                if message.data[0] == 4:
                    asked.sizes.append(json.loads(message.data[1:]))
                    continue
                heard += message.data[1:]
                if heard.endswith(b"\x04"):  # what Ctrl-D is in a raw terminal
                    break
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


async def test_a_terminal_is_raw_while_the_program_has_it_and_as_before_afterwards(
    server: tuple[str, Asked],
) -> None:
    # given a process whose input and output is a terminal of 100 columns
    url, asked = server
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 100))
    before = termios.tcgetattr(theirs)
    program = "from pykruise.cli.kubectl.entry import main; main()"
    words = ["exec", "-s", url, "-n", "shop", "-v=6", "p", "-it", "--", "sh"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *words, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    # when keys are pressed once it is raw
    async with asyncio.timeout(30.0):
        while termios.tcgetattr(theirs)[3] & termios.ECHO and process.returncode is None:
            await asyncio.sleep(0.05)
        os.write(ours, b"ls \x03\x04")
        os.set_blocking(ours, False)
        said = b""
        while b"\x04" not in said and process.returncode is None:  # or its terminal would not be drained
            with contextlib.suppress(BlockingIOError):
                said += os.read(ours, 100)
            await asyncio.sleep(0.05)
        _, err = await process.communicate()
        with contextlib.suppress(BlockingIOError):  # what came between the last look and the end
            said += os.read(ours, 100)
    # then all of them got there, Ctrl-C too, and none was shown by the terminal itself
    assert process.returncode == 3, err
    assert said == b"hello ls \x03\x04"
    assert ("tty", "true") in asked.query
    assert "stderr" not in dict(asked.query)
    assert asked.sizes == [{"Width": 100, "Height": 30}]
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


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
