"""A proxy between a client and the sandbox's API server. It sends the bytes that a test chooses.

HttpTransport ──plain HTTP──▶ FaultyProxy ──▶ ApiServer in this process
                                  └── the next requests that match get a Wire: bytes, pauses, resets

Unlike the faults at the transport (tests/support/faults.py), it can break HTTP itself.
"""

import asyncio
import json
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pykruise.kube.client.transport import Response
from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.wire import split_target
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.access.users import ADMIN

__all__ = ["Asked", "FaultyProxy", "Wire", "answered", "proxied"]


@dataclass(frozen=True)
class Asked:
    """A received request, and the server's response if the fault needs it."""

    method: str
    path: str
    target: str
    body: bytes
    forward: Callable[[], Awaitable[Response]]

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.target


@dataclass
class Line:
    """A connection with a fault."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def forever(self, data: bytes, *, most: int) -> None:
        """Repeat the bytes until the client closes the connection or this number of bytes is sent."""
        for _ in range(most // len(data)):
            await self.say(data)

    def reset(self) -> None:
        """Reset the connection without a response."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Wire = Callable[[Line, Asked], Awaitable[bool | None]]
"""The action instead of a response; it returns True if the connection stays open."""


def answered(body: bytes, status: str = "200 OK", *fields: str) -> bytes:
    """A complete response."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *fields, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class FaultyProxy:
    """Listens on loopback. `next_faults`: faults of the next requests; later requests have none."""

    def __init__(self) -> None:
        self.server = ApiServer(clock=read_system_clock, rng=random.Random(1))
        self.next_faults: list[Wire] = []
        self.applies_to: Callable[[Asked], bool] = lambda asked: True
        self.asked: list[Asked] = []
        self.connections = 0
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._serve_one(Line(reader, writer)):
                    pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve_one(self, line: Line) -> bool:
        head = (await line.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *fields = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
        body = await line.reader.readexactly(int(headers.get("content-length", 0)))
        path, query = split_target(target.encode())

        async def forward() -> Response:
            response: Response = await self.server.handle(
                method, path, query=query, headers=headers, body=body or None, user=ADMIN
            )
            return response

        asked = Asked(method, path, target, body, forward)
        self.asked.append(asked)
        if self.next_faults and self.applies_to(asked):
            return bool(await self.next_faults.pop(0)(line, asked))
        if asked.is_watch:
            await self._watch(line, path, query, headers)
            return False
        answer = await forward()
        status = f"{answer.status} Status"
        await line.say(answered(answer.body, status))
        return True

    async def _watch(self, line: Line, path: str, query: Any, headers: dict[str, str]) -> None:
        opened = await self.server.stream(path, query=query, headers=headers, user=ADMIN)
        if isinstance(opened, Response):
            await line.say(answered(opened.body, f"{opened.status} Status"))
            return
        try:
            await line.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while lines := await opened.read_batch(most=100):
                data = b"\n".join(lines) + b"\n"
                await line.say(b"%x\r\n%b\r\n" % (len(data), data))
            await line.say(b"0\r\n\r\n")
        finally:
            await opened.aclose()

    def end(self) -> None:
        """End all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()


@asynccontextmanager
async def proxied() -> AsyncIterator[FaultyProxy]:
    """A listening proxy."""
    proxy = FaultyProxy()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.CancelledError):
            await proxy.serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.end()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tuple(tasks), return_exceptions=True)


def document(name: str, **data: str) -> bytes:
    """A ConfigMap as an API server would send it."""
    metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "5"}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).encode()
