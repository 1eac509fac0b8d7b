"""The node's agent and the shared dashboard under attack, each with a legitimate user.

attacked_agent() ──▶ lone_agent.py + lone_node.py: the delay of legitimate pods' probes
attacked_dashboard() ──▶ `pykruise dashboard --shared`: the duration of a legitimate user's requests
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from bench.attack_target import NODE
from pykruise.dashboard.guard import OWN_HEADER
from pykruise.kube.client.client import Client
from pykruise.kube.resources import NAMESPACES
from support.dashboard_process import Hand, serving
from support.webhooks import LOOPBACK, free_port

__all__ = ["AttackedAgent", "AttackedDashboard", "Seen", "Watched", "attacked_agent", "attacked_dashboard"]

READY_S: Final = 60.0
ASKS_A_SECOND: Final = 10
"""Requests per second of the legitimate user of the dashboard."""


class Seen(msgspec.Struct, frozen=True):
    """Observations of a legitimate user of a program."""

    seconds: list[float]
    refused: list[str]
    counts: dict[str, int] = {}
    """Effects of the attacks on the program, by name."""

    def add(self, counts: Mapping[str, int]) -> "Seen":
        """Add the later effects of the attacks on the program."""
        words = dict.fromkeys((*self.counts, *counts))
        return msgspec.structs.replace(
            self, counts={word: self.counts.get(word, 0) + counts.get(word, 0) for word in words}
        )


class Watched(Protocol):
    """A program that is attacked while a legitimate user uses it."""

    name: str
    pid: int

    async def use(self, seconds: float) -> Seen:
        """Use it for this time."""

    async def count_late(self) -> Mapping[str, int]:
        """Return the effects of the attacks on the program since the last report."""


# ── the agent ────────────────────────────────────────────────────────────────


class AttackedAgent:
    """An agent, and the node whose legitimate pods it probes."""

    name = "agent"

    def __init__(self, pid: int, node: asyncio.subprocess.Process) -> None:
        self.pid = pid
        self._node = node

    async def use(self, seconds: float) -> Seen:
        """Delay of each probe of a legitimate pod."""
        await self.report()
        await asyncio.sleep(seconds)
        said = await self.report()
        return Seen(said["seconds"], ["a probe was not made"] * said["lost"], said["counts"])

    async def count_late(self) -> Mapping[str, int]:
        counts: Mapping[str, int] = (await self.report())["counts"]
        return counts

    async def report(self) -> dict[str, Any]:
        """See lone_node.Probes.report."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(b"\n")
        said: dict[str, Any] = json.loads(await self._node.stdout.readline())
        return said


@asynccontextmanager
async def attacked_agent(
    kubeconfig: Path, *, url: str, account: Path, log: int | None
) -> AsyncIterator[AttackedAgent]:
    """A running agent that has probed all legitimate pods. `account`: a folder with a service account's files."""
    sockets = account / "run"
    sockets.mkdir()
    quiet = asyncio.subprocess.DEVNULL if log is None else log
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.lone_node", str(sockets / "containerd.sock"), str(kubeconfig)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=quiet,
        limit=16 * 1024 * 1024,
    )
    server = urlsplit(url)
    environment = {
        "NODE_NAME": NODE,
        "KUBERNETES_SERVICE_HOST": server.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    agent = None
    try:
        assert node.stdout is not None
        assert await node.stdout.readline(), "the node ended"
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.lone_agent", str(account)),
            *(f"--runtime-dir={sockets}", f"--addr={LOOPBACK}:{free_port()}", "--enable-pprof=false"),
            env={**os.environ, **environment},
            stderr=quiet,
        )
        attacked = AttackedAgent(agent.pid, node)
        async with asyncio.timeout(READY_S):
            while not (await attacked.report())["probed"]:
                await asyncio.sleep(0.5)
        yield attacked
    finally:
        for process in (process for process in (agent, node) if process is not None):
            if process.returncode is None:
                process.kill()
            await process.wait()


# ── the dashboard ────────────────────────────────────────────────────────────


class AttackedDashboard:
    """A shared dashboard, with a user who has logged in once, and the token of another user."""

    name = "dashboard"

    def __init__(self, url: str, pid: int, *, honest: str, hostile: str, answer_s: float) -> None:
        self.url = url
        self.pid = pid
        self.hostile = hostile
        self._honest = honest
        self._answer_s = answer_s

    @property
    def port(self) -> int:
        """Port of the dashboard."""
        return urlsplit(self.url).port or 0

    async def use(self, seconds: float) -> Seen:
        """Send ten requests per second, with one login, and keep one page open."""
        times: list[float] = []
        refused: list[str] = []
        connector = aiohttp.TCPConnector(limit=0, local_addr=(LOOPBACK, 0))
        jar = aiohttp.CookieJar(unsafe=True)  # the host is an address
        timeout = aiohttp.ClientTimeout(total=self._answer_s)
        async with aiohttp.ClientSession(
            self.url, connector=connector, cookie_jar=jar, timeout=timeout
        ) as session:
            async with session.post(
                "api/login", json={"token": self._honest}, headers={OWN_HEADER: "1"}
            ) as answer:
                answer.raise_for_status()
            looking = asyncio.create_task(_look(session, refused))
            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for number in range(round(seconds * ASKS_A_SECOND)):
                    await asyncio.sleep(max(0.0, began + number / ASKS_A_SECOND - time.perf_counter()))
                    tasks.create_task(_ask(session, times, refused))
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
        return Seen(times, refused)

    async def count_late(self) -> Mapping[str, int]:
        return {}


async def _ask(session: aiohttp.ClientSession, times: list[float], refused: list[str]) -> None:
    began = time.perf_counter()
    try:
        async with session.get("api/session") as answer:
            await answer.read()
            if answer.status != 200:
                refused.append(str(answer.status))
    except (aiohttp.ClientError, TimeoutError) as error:
        refused.append(repr(error))
    times.append(time.perf_counter() - began)


async def _look(session: aiohttp.ClientSession, refused: list[str]) -> None:
    """Keep one page open; its end counts as a rejection."""
    try:
        async with session.get(
            "api/stream", params={"page": "rollouts"}, timeout=aiohttp.ClientTimeout(total=None)
        ) as answer:
            if answer.status == 200:
                async for _ in answer.content.iter_any():
                    pass
            refused.append(f"the page ended: {answer.status}")
    except aiohttp.ClientError as error:
        refused.append(f"the page ended: {error!r}")


@asynccontextmanager
async def attacked_dashboard(
    kubeconfig: Path, client: Client, *, answer_s: float
) -> AsyncIterator[AttackedDashboard]:
    """`pykruise dashboard --shared` with two users who may see the workloads of a namespace.

    A request counts as rejected if no response arrives within `answer_s`.
    """
    await client.create(NAMESPACES, "", {"metadata": {"name": "looked-at"}})
    hand = Hand(kubeconfig)
    honest, hostile = [
        await asyncio.to_thread(hand.token, "looked-at", name, "clonesets", "pods")
        for name in ("honest", "hostile")
    ]
    with serving(kubeconfig, "--shared") as served:
        yield AttackedDashboard(served.url, served.pid, honest=honest, hostile=hostile, answer_s=answer_s)
