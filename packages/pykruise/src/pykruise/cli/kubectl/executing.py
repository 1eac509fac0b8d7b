"""`exec (POD | TYPE/NAME) [-c C] [-S SIDECAR] [-i] [-t] -- COMMAND…` over a WebSocket.

arguments, pod ──▶ container_of() (pure) ──▶ GET …/exec (v5.channel.k8s.io) ◀──▶ stdin, stdout, stderr ──▶ exit code
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from pykruise.cli.kubectl.errors import ExitCode, KubectlError
from pykruise.cli.kubectl.pods import is_ready, pods_of
from pykruise.cli.kubectl.resources import Error, Info, asked_for, get
from pykruise.cli.kubectl.session import Session
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS

__all__ = ["container_of", "exec_command", "exit_code_of"]

HOT_UPGRADE: Final = "kruise.io/sidecarset-working-hotupgrade-container"
PROTOCOL: Final = "v5.channel.k8s.io"
_CHUNK = 4096
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
NOT_IMPLEMENTED: Final = 501
"""What the sandbox's API server answers."""

DEFAULT: Final = "kubectl.kubernetes.io/default-container"


def container_of(pod: Document, *, container: str, sidecar: str) -> tuple[str, str]:
    """The container that is meant, and what to say about that. Raises KubectlError."""
    name = pod["metadata"]["name"]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"cannot exec into a container in a completed pod; current phase is {phase}")
    spec = pod["spec"]
    names = [one["name"] for one in spec.get("containers") or ()]
    others = [
        one["name"] for field in ("initContainers", "ephemeralContainers") for one in spec.get(field) or ()
    ]
    annotations = pod["metadata"].get("annotations") or {}
    if sidecar:
        try:
            working = orjson.loads(annotations.get(HOT_UPGRADE) or "{}")
        except ValueError:
            working = {}
        if sidecar in working:
            return working[sidecar], f"Working container of sidecar {sidecar}: {working[sidecar]}"
        if sidecar not in names:
            raise KubectlError(f"sidecar {sidecar} is no container of pod {name}, and none works for it")
        return sidecar, ""
    if container:
        if container not in (*names, *others):
            raise KubectlError(f"container {container} not found in pod {name}")
        return container, ""
    default = annotations.get(DEFAULT, "")
    if default in names:
        return default, ""
    said = (
        f'Defaulted container "{names[0]}" out of: {", ".join([*names, *others])}' if len(names) > 1 else ""
    )
    return names[0], said


def exit_code_of(status: Mapping[str, Any]) -> int:
    """The remote command's exit code, from the last message of the API server. Raises KubectlError."""
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    for one in causes:
        if one.get("reason") == "ExitCode":
            return int(one.get("message", 1))
    raise KubectlError(str(status.get("message") or "the command ended without a status"))


async def exec_command(session: Session) -> list[Error]:
    """See above."""
    call = session.call
    given = list(call.arguments)
    command: Sequence[str] = call.after_dashes or ()
    if call.after_dashes is None and len(given) > 1:
        session.note(
            "kubectl kruise exec [POD] [COMMAND] is DEPRECATED and will be removed in a future version."
            " Use kubectl kruise exec [POD] -- [COMMAND] instead."
        )
        given, command = given[:1], given[1:]
    if not given:
        raise KubectlError("pod, type/name or --filename must be specified")
    if not command:
        raise KubectlError("you must specify at least one command for the container")
    pod = await _pod(session, given[0], call.seconds("pod-running-timeout") or 60.0)
    container, said = container_of(pod, container=call.text("container"), sidecar=call.text("sidecar"))
    if said:
        session.note(said)
    is_tty = call.is_on("tty")
    if is_tty and not (call.is_on("stdin") and sys.stdin.isatty()):
        session.note("Unable to use a TTY - input is not a terminal or the right kind of file")
        is_tty = False
    query = [("container", container), *(("command", one) for one in command), ("stdout", "true")]
    query += [("stdin", "true")] if call.is_on("stdin") else []
    query += [("tty", "true")] if is_tty else [("stderr", "true")]
    meta = pod["metadata"]
    path = f"{PODS.path(meta['namespace'], meta['name'], 'exec')}?{urlencode(query)}"
    code = await _run(session, path, with_stdin=call.is_on("stdin"), is_tty=is_tty)
    if code:
        session.note(f"command terminated with exit code {code}")
        raise ExitCode(code)
    return []


async def _pod(session: Session, target: str, timeout_s: float) -> Document:
    """The pod that is meant; of a workload the first by readiness, waited for."""
    mapper = await session.mapper()
    if "/" not in target:
        return (await get(session, mapper.find("pods"), target)).document
    word, name = asked_for([target], allow_all=False).pairs[0]
    info = await get(session, mapper.find(word), name)
    if info.resource == PODS:
        return info.document
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if pods := await _running(session, info):
                    return pods[0]
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise KubectlError(f"timed out waiting for a running pod of {info.short}") from None


async def _running(session: Session, info: Info) -> list[Document]:
    running = [
        one for one in await pods_of(session, info) if (one.get("status") or {}).get("phase") == "Running"
    ]
    return sorted(running, key=lambda one: (not is_ready(one), one["metadata"]["name"]))


# ── the connection ───────────────────────────────────────────────────────────


async def _run(session: Session, path: str, *, with_stdin: bool, is_tty: bool) -> int:
    import aiohttp

    from pykruise.cli.insight.reach import Traced
    from pykruise.cli.kubectl.terminal import raw_terminal, sizes
    from pykruise.kube.http import HttpTransport

    transport = await session.transport()
    if isinstance(transport, Traced):
        transport = transport.inner
    if not isinstance(transport, HttpTransport):
        raise KubectlError("exec needs an API server behind HTTP")
    connection = transport.connection
    headers = {**dict(connection.headers), **await connection.credentials.headers()}
    context = connection.credentials.tls or connection.ssl_context
    async with aiohttp.ClientSession() as http:
        try:
            socket = await http.ws_connect(
                connection.server.rstrip("/") + path,
                protocols=(PROTOCOL,),
                headers=headers,
                ssl=context if context is not None else True,
                proxy=connection.proxy or None,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            hint = (
                "; pods of a sandbox run on paper, so nothing runs in them"
                if error.status == NOT_IMPLEMENTED
                else ""
            )
            raise KubectlError(f"unable to upgrade the connection: HTTP {error.status}{hint}") from error
        except aiohttp.ClientError as error:
            raise KubectlError(f"exec: {error}") from error
        async with socket:
            with raw_terminal() if is_tty else contextlib.nullcontext():
                doing = [asyncio.create_task(_feed(socket))] if with_stdin else []
                doing += [asyncio.create_task(_resize(socket, sizes()))] if is_tty else []
                try:
                    return await _listen(socket)
                finally:
                    for task in doing:
                        task.cancel()
                    await asyncio.gather(*doing, return_exceptions=True)


async def _listen(socket: Any) -> int:
    """Write what comes, until the API server says how it ended."""
    async for message in socket:
        data: bytes = message.data if isinstance(message.data, bytes) else str(message.data).encode()
        if not data:
            continue
        channel, body = data[0], data[1:]
        if channel == STDOUT:
            sys.stdout.buffer.write(body)
            sys.stdout.flush()
        elif channel == STDERR:
            sys.stderr.buffer.write(body)
            sys.stderr.flush()
        elif channel == ERROR:
            return exit_code_of(orjson.loads(body))
    raise KubectlError("the connection broke before the command ended")


async def _resize(socket: Any, changes: AsyncIterator[tuple[int, int]]) -> None:
    async for width, height in changes:
        await socket.send_bytes(bytes([RESIZE]) + orjson.dumps({"Width": width, "Height": height}))


async def _feed(socket: Any) -> None:
    async for data in _input():
        await socket.send_bytes(bytes([STDIN]) + data)
    await socket.send_bytes(bytes([CLOSE, STDIN]))


async def _input() -> AsyncIterator[bytes]:
    """Standard input as it comes, files and pipes and terminals alike. The thread that reads it is none that the
    command waits for: the next key may never come."""
    number, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    heard = asyncio.Queue[bytes]()

    def read() -> None:
        data = b"-"
        while data:
            data = os.read(number, _CHUNK)
            with contextlib.suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(heard.put_nowait, data)

    threading.Thread(target=read, daemon=True).start()
    while data := await heard.get():
        yield data
