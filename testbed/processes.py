"""Processes on the loopback: free ports, health checks, and a leash that ends them with their starter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.namespaces import child_of

HOST = "127.0.0.1"
POLL_SECONDS = 0.05
REQUEST_SECONDS = 5.0
LAST_LINES = 15

Health = Callable[[], Awaitable[bool]]


class ProcessError(Exception):
    """A process failed; the message names its log."""


class Leash:
    """A process group that is killed when this process ends, even when it is killed itself.

    A shell leads the group and reads from a pipe whose other end only this process holds. When the pipe
    closes, the shell kills its group.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", "read nothing; kill -9 0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The id of the group, for ``process_group`` of a new process."""
        return self._shell.pid

    def release(self) -> None:
        """Kill the remaining processes of the group."""
        if self._shell.stdin:
            self._shell.stdin.close()
        self._shell.wait()


@dataclass
class Component:
    """One program of the control plane. It can be started, killed and started again."""

    name: str
    command: Sequence[str]
    log: Path
    healthy: Health
    wait_seconds: float
    environment: Mapping[str, str]
    """Variables that are added to this process's environment."""
    nested: bool = False
    """Whether the command only starts the program as its child and waits for it, as nsenter and unshare do."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its process, which must run."""
        if self.process is None or not self.alive:
            raise ProcessError(f"{self.name} is not running (log: {self.log})")
        if self.nested and (child := child_of(self.process.pid)):
            return child
        return self.process.pid

    async def start(self, leash: Leash) -> None:
        """Start the program, and wait until it is healthy."""
        process = self.process = self._spawn_process(leash)
        deadline = time.monotonic() + self.wait_seconds
        while not await self.healthy():
            if not self.alive:
                raise self._build_error(f"ended with code {process.returncode}")
            if time.monotonic() > deadline:
                raise self._build_error(f"was not healthy after {self.wait_seconds:g} s")
            await asyncio.sleep(POLL_SECONDS)

    async def end(self, signum: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, and wait until the process has ended."""
        if self.process is None or not self.alive:
            return
        with contextlib.suppress(ProcessLookupError, ProcessError):
            os.kill(self.pid, signum)
        deadline = time.monotonic() + self.wait_seconds
        while self.alive:
            if time.monotonic() > deadline:
                raise self._build_error(f"still ran {self.wait_seconds:g} s after {signum.name}")
            await asyncio.sleep(0.01)

    def _spawn_process(self, leash: Leash) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=leash.group,
                env={**os.environ, **self.environment},
            )

    def _build_error(self, what: str) -> ProcessError:
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return ProcessError("\n".join([f"{self.name} {what}; the end of {self.log}:", *lines]))


async def is_answering_ok(
    port: int, path: str, *, tls: ssl.SSLContext | None = None, token: str = ""
) -> bool:
    """Whether a GET of this path on the loopback returns 200."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await _get_status(port, path, tls, token) == 200
    except (OSError, ValueError, IndexError, TimeoutError):
        return False


async def _get_status(port: int, path: str, tls: ssl.SSLContext | None, token: str) -> int:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {HOST}\r\n{bearer}\r\n".encode())
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens, below the range that the system gives to outgoing connections.

    Inside that range, a client that keeps trying to reach a killed server could take the server's port.
    """
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports: list[int] = []
    for port in random.sample(range(below // 2, below), below - below // 2):
        if _is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise ProcessError(f"no {count} free ports below {below}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
