"""`pykruise manager` and `pykruise-agent` as processes: their output, the responses of their servers, and their end."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from support.up import PYKRUISE

FLAGS = (
    "--metrics-addr=127.0.0.1:0",
    "--health-probe-addr=127.0.0.1:0",
    "--pprof-addr=127.0.0.1:0",
    "--logging-format=json",
    "-v=5",
)


class ManagerProcess:
    """A running program and its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip())

    async def says(self, pattern: str) -> re.Match[str]:
        """Wait for the first line that matches, and return the match."""
        async with asyncio.timeout(45):
            while True:
                for line in self.lines:
                    if match := re.search(pattern, line):
                        return match
                assert self.process.returncode is None, "\n".join(self.lines)
                await asyncio.sleep(0.05)

    async def says_identity(self) -> str:
        """Name of the process in the leader election."""
        return (await self.says(r"this manager is ([\w.-]+)")).group(1)

    async def get(self, what: str, path: str) -> tuple[int, str]:
        """Status and body of a response of one of its servers."""
        port = (await self.says(rf"{what} are served at 127.0.0.1:(\d+)")).group(1)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(30):
            code = await self.process.wait()
        await self._reading
        return code


@asynccontextmanager
async def manager_process(
    kubeconfig: Path, *flags: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ManagerProcess]:
    """A manager with JSON logs and servers on free ports; killed at the end if it has not ended."""
    started = await asyncio.create_subprocess_exec(
        *PYKRUISE,
        "manager",
        f"--kubeconfig={kubeconfig}",
        *FLAGS,
        *flags,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    process = ManagerProcess(started)
    try:
        yield process
    finally:
        await process.end(signal.SIGKILL)


@asynccontextmanager
async def agent_process(
    kubeconfig: Path, *flags: str, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ManagerProcess]:
    """A node agent with JSON logs and servers on free ports; killed at the end if it has not ended."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pykruise.agent.main",
        f"--kubeconfig={kubeconfig}",
        "--addr=127.0.0.1:0",
        "--pprof-addr=127.0.0.1:0",
        "--logging-format=json",
        "-v=5",
        *flags,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    process = ManagerProcess(started)
    try:
        yield process
    finally:
        await process.end(signal.SIGKILL)


@asynccontextmanager
async def balancer(backends: Sequence[int]) -> AsyncIterator[int]:
    """One TCP port of the loopback in front of several, like a Service: a port that accepts gets the connection."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in backends:
            try:
                upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            await asyncio.gather(pump(reader, downstream), pump(upstream, writer))
            return
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
