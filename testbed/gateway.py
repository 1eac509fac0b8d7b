"""Connection between the network of real nodes and the control plane outside it: a process of node.py.

    API server ──CONNECT over a unix socket──▶ gateway ──▶ kubelets, pods     (logs, exec, webhooks)
    kubelets, pods ──▶ 10.200.0.1:<its port> ──▶ gateway ──▶ API server on the machine's loopback
    containerd ──▶ 10.200.0.1:80 ──▶ gateway: the registry's responses (registry.py)

The process creates its own network namespace, with a bridge to which nodes are connected. It is ready when it accepts
connections on the unix socket. The network ends with the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path

from testbed.namespaces import OWN, enter_new_network, open_tcp_socket
from testbed.processes import HOST
from testbed.registry import LOG, Answer, answer
from testbed.settings import GATEWAY_ADDRESS

REGISTRY_PORT = 80
BRIDGE = "nodes"
CHUNK = 64 * 1024
CONNECT_SECONDS = 10.0

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Handler = Callable[[Reader, Writer], Coroutine[None, None, None]]


async def serve(outside: int, inside: int, options: argparse.Namespace) -> None:
    """Serve until the process is killed. `outside` and `inside`: open files of the two network namespaces."""

    async def to_api_server(reader: Reader, writer: Writer) -> None:
        await _relay(reader, writer, outside, HOST, options.api_port)

    async def to_nodes(reader: Reader, writer: Writer) -> None:
        method, target, _ = await _read_request(reader)
        host, _, port = target.rpartition(":")
        if method == "CONNECT":
            greeting = b"HTTP/1.1 200 Connection established\r\n\r\n"
            await _relay(reader, writer, inside, host, int(port), greeting)

    async def registry(reader: Reader, writer: Writer) -> None:
        method, target, headers = await _read_request(reader)
        given = await asyncio.to_thread(
            answer, options.registry, method, target, headers.get("authorization", "")
        )
        entry = {"method": method, "path": target.partition("?")[0], "status": str(given.status)}
        with (options.registry / LOG).open("a") as log:
            log.write(json.dumps(entry) + "\n")
        await _send(writer, given, with_body=method != "HEAD")

    await asyncio.start_server(_close_after(to_api_server), GATEWAY_ADDRESS, options.api_port)
    await asyncio.start_server(_close_after(registry), GATEWAY_ADDRESS, REGISTRY_PORT)
    await asyncio.start_unix_server(_close_after(to_nodes), options.egress)
    await asyncio.Event().wait()


def make_network() -> tuple[int, int]:
    """Move this process to a new network with a bridge, and return the old and the new namespace."""
    outside = os.open(OWN, os.O_RDONLY)
    enter_new_network()
    inside = os.open(OWN, os.O_RDONLY)
    for words in (
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"address add {GATEWAY_ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    return outside, inside


async def _relay(
    reader: Reader, writer: Writer, namespace: int, host: str, port: int, greeting: bytes = b""
) -> None:
    """Connect to a server in that network, send the greeting, and then copy bytes in both directions."""
    with contextlib.closing(open_tcp_socket(namespace)) as raw:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(raw, (host, port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there_reader, there_writer = await asyncio.open_connection(sock=raw)
        writer.write(greeting)
        try:
            await asyncio.gather(_copy_bytes(reader, there_writer), _copy_bytes(there_reader, writer))
        finally:
            there_writer.transport.abort()


async def _copy_bytes(source: Reader, target: Writer) -> None:
    while chunk := await source.read(CHUNK):
        target.write(chunk)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


def _close_after(handler: Handler) -> Handler:
    """Wrap the handler so that its connection is closed afterwards. A broken connection is not a failure of the
    gateway.
    """

    async def handle(reader: Reader, writer: Writer) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
                await handler(reader, writer)
        finally:
            writer.close()

    return handle


async def _read_request(reader: Reader) -> tuple[str, str, dict[str, str]]:
    """Read the method, target and headers of an HTTP request without a body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    pairs = (line.partition(":") for line in head[1:] if line)
    return method, target, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _send(writer: Writer, given: Answer, *, with_body: bool) -> None:
    headers = {"Content-Length": str(len(given.body)), "Connection": "close", **given.headers}
    lines = [f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    body = given.body if with_body else b""
    rate = given.bytes_per_second
    step = max(1, rate // 10) if rate else CHUNK
    for start in range(0, len(body), step):
        writer.write(body[start : start + step])
        await writer.drain()
        if rate:
            await asyncio.sleep(0.1)
    await writer.drain()


def main() -> None:
    """Run the gateway; node.py starts it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--api-port", type=int, required=True)
    parser.add_argument("--egress", type=Path, required=True)
    parser.add_argument("--registry", type=Path, required=True)
    options = parser.parse_args()
    outside, inside = make_network()
    asyncio.run(serve(outside, inside, options))


if __name__ == "__main__":
    main()
