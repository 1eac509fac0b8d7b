"""`pykruise manager` as a process: it reports its health, works, and ends cleanly. In real time, on the sandbox."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, PODS
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from support.processes import manager_process
from support.scenario import cloneset

pytestmark = [pytest.mark.real_time, pytest.mark.sandbox_only]

HERE = ("--leader-election-namespace=default", "--enable-webhooks=false")

TOKEN = "a-token-that-must-not-be-logged"


@asynccontextmanager
async def world(folder: Path, *, install: bool = True) -> AsyncIterator[tuple[Cluster, Path]]:
    """A sandbox served over TLS, and a kubeconfig for it."""
    certificate = issue(now=read_system_clock())
    settings = ClusterSettings(nodes=1, start_s=0.05, ready_s=0.0, stop_s=0.05)
    async with Cluster(settings) as cluster:
        if install:
            for crd in build_crds():
                await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        front = HttpFront(cluster.server, token=TOKEN, port=0, certificate=certificate)
        await front.start()
        try:
            path = folder / "kubeconfig"
            write_kubeconfig(path, build_kubeconfig(front.url, certificate.authority, TOKEN, "x"))
            yield cluster, path
        finally:
            await front.stop()


async def pods(cluster: Cluster) -> int:
    return len((await cluster.client.list(PODS, "default")).items)


async def test_a_manager_reports_its_health_works_and_ends_cleanly(tmp_path: Path) -> None:
    """operations cases 13, 17, 43 and 45"""
    async with world(tmp_path) as (cluster, kubeconfig), manager_process(kubeconfig, *HERE) as process:
        # when it has started
        await process.says("cloneset: caches are synced, the controller starts")
        # then probes, metrics and thread dumps are served
        assert await process.get("probes", "/healthz") == (200, "ok")
        assert await process.get("probes", "/readyz") == (200, "ok")
        assert "[+]caches-synced ok" in (await process.get("probes", "/readyz?verbose=1"))[1]
        assert "kruise_manager_is_leader 1.0" in (await process.get("metrics", "/metrics"))[1]
        assert "task election" in (await process.get("thread dumps", "/debug/pprof/threads"))[1]
        assert (await process.get("thread dumps", "/debug/pprof/heap"))[0] == 404
        # and it works
        await cluster.client.create(CLONE_SETS, "default", cloneset(replicas=3))
        async with asyncio.timeout(60):
            while await pods(cluster) < 3:
                await asyncio.sleep(0.05)
        line = json.loads((await process.says('"object": "default/web"')).string)
        assert line["written"] >= 3
        assert line["duration_s"] >= 0
        # when it gets a SIGTERM
        assert await process.end() == 0
        # then the lease is free, every line is one JSON object, and no secret is among them
        lease = decode(await cluster.client.get(LEASES, "default", "kruise-manager"))
        assert "holderIdentity" not in lease["spec"]
        assert all(isinstance(json.loads(line), dict) for line in process.lines)
        assert TOKEN not in "\n".join(process.lines)


async def test_a_manager_waiting_for_its_crds_is_ready_and_starts_when_they_exist(tmp_path: Path) -> None:
    """operations cases 19 and 20"""
    async with (
        world(tmp_path, install=False) as (cluster, kubeconfig),
        manager_process(kubeconfig, *HERE) as process,
    ):
        await process.says("the cluster does not serve CloneSet")
        assert (await process.get("probes", "/readyz"))[0] == 200
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        await process.says("cloneset: caches are synced, the controller starts")


async def test_a_manager_that_loses_its_lease_continues_as_a_standby(tmp_path: Path) -> None:
    async with world(tmp_path) as (cluster, kubeconfig):
        flags = (
            "--leader-election-lease-duration=60s",
            "--leader-election-renew-deadline=40s",
            "--leader-election-retry-period=500ms",
        )
        async with manager_process(kubeconfig, *HERE, *flags) as process:
            await process.says("the controller starts")

            async def give_to(holder: str) -> None:
                lease = {"spec": {"holderIdentity": holder}}
                await cluster.client.patch(
                    LEASES, "default", "kruise-manager", lease, patch_type=PatchType.MERGE
                )

            # when another process takes it
            await give_to("another")
            # then it says so once, and answers
            await process.says("is no longer the leader: lease default/kruise-manager is held by another now")
            assert (await process.get("probes", "/healthz"))[0] == 200
            # and works again when it has the Lease
            count = len(process.lines)
            await give_to("")
            async with asyncio.timeout(60):
                while not any("the controller starts" in line for line in process.lines[count:]):
                    await asyncio.sleep(0.05)


async def test_a_manager_ends_on_sigterm_while_the_api_server_does_not_respond_to_its_first_request(
    tmp_path: Path,
) -> None:
    # given a server that accepts connections and sends nothing
    has_connection = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_connection.set()
        await reader.read()
        writer.close()

    async with (
        world(tmp_path) as (_, kubeconfig),
        await asyncio.start_server(hold, "127.0.0.1", 0) as silent,
    ):
        port = silent.sockets[0].getsockname()[1]
        text = re.sub(r"(https://127.0.0.1):\d+", rf"\1:{port}", kubeconfig.read_text())
        kubeconfig.write_text(text)
        async with manager_process(kubeconfig, *HERE) as process:
            async with asyncio.timeout(30):
                await has_connection.wait()
            # when
            code = await process.end()
            # then
            assert code == 0


async def test_an_address_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    async with world(tmp_path) as (_, kubeconfig):
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, manager_process(kubeconfig, *HERE, f"--metrics-addr=127.0.0.1:{port}") as process:
            async with asyncio.timeout(60):
                assert await process.process.wait() == 1
            await asyncio.sleep(0.1)
        assert f"127.0.0.1:{port}: cannot serve metrics" in json.loads(process.lines[-1])["msg"]


async def test_without_the_address_of_thread_dumps_the_manager_works(tmp_path: Path) -> None:
    async with world(tmp_path) as (_, kubeconfig):
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, manager_process(kubeconfig, *HERE, f"--pprof-addr=127.0.0.1:{port}") as process:
            await process.says(f"127.0.0.1:{port}: cannot serve thread dumps: .*address already in use")
            await process.says("the controller starts")
            assert (await process.get("probes", "/healthz"))[0] == 200
