"""`pykruise-agent` as a process: it reports its health, works, and ends cleanly. In real time, on the sandbox."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.kinds import build_crds
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode, get_path
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from support.agent_stage import NODE, tag
from support.cri_server import serving
from support.fake_runtime import FakeRuntime, Remote
from support.processes import agent_process

pytestmark = [pytest.mark.real_time, pytest.mark.sandbox_only]

ENVIRONMENT = {"NODE_NAME": NODE}
CHECKS = ("nodeImageInformerSynced", "crrInformerSynced", "nodePodProbeInformerSynced")


@asynccontextmanager
async def world(folder: Path, *, install: bool = True) -> AsyncIterator[tuple[Cluster, FakeRuntime, Path]]:
    """A sandbox served over TLS, a runtime behind its socket, and a kubeconfig."""
    certificate = issue(now=read_system_clock())
    runtime = FakeRuntime(read_system_clock)
    settings = ClusterSettings(nodes=0, controllers=())
    async with Cluster(settings) as cluster, serving(runtime, folder / "containerd.sock"):
        if install:
            await install_definitions(cluster)
        front = HttpFront(cluster.server, token="token", port=0, certificate=certificate)
        await front.start()
        try:
            path = folder / "kubeconfig"
            write_kubeconfig(path, build_kubeconfig(front.url, certificate.authority, "token", "x"))
            yield cluster, runtime, path
        finally:
            await front.stop()


async def install_definitions(cluster: Cluster) -> None:
    for crd in build_crds():
        await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)


async def test_an_agent_reports_its_health_works_and_ends_cleanly(tmp_path: Path) -> None:
    async with (
        world(tmp_path) as (cluster, runtime, kubeconfig),
        agent_process(kubeconfig, f"--runtime-dir={tmp_path}", environment=ENVIRONMENT) as process,
    ):
        # when it has started
        await process.says("this is the agent of node node-a")
        async with asyncio.timeout(30):
            while (await process.get("probes and metrics", "/healthz"))[0] != 200:
                await asyncio.sleep(0.05)
        # then it says how it is
        body = (await process.get("probes and metrics", "/healthz?verbose=1"))[1]
        assert all(f"[+]{check} ok" in body for check in CHECKS)
        assert await process.get("probes and metrics", f"/healthz/{CHECKS[0]}") == (200, "ok")
        metrics = (await process.get("probes and metrics", "/metrics"))[1]
        assert 'pykruise_cache_synced{resource="image-puller"} 1.0' in metrics
        assert 'workqueue_depth{controller="recreator",name="recreator"} 0.0' in metrics
        assert "rest_client_requests_total" in metrics
        assert "task cache of" in (await process.get("thread dumps", "/debug/pprof/threads"))[1]
        # and works
        runtime.registry["nginx:1.9"] = Remote()
        node_image = {
            "apiVersion": NODE_IMAGES.api_version,
            "kind": "NodeImage",
            "metadata": {"name": NODE},
            "spec": {"images": {"nginx": {"tags": [tag("1.9")]}}},
        }
        await cluster.client.create(NODE_IMAGES, "", node_image)
        async with asyncio.timeout(30):
            while not get_path(
                decode(await cluster.client.get(NODE_IMAGES, "", NODE)), "status", "succeeded"
            ):
                await asyncio.sleep(0.05)
        # when it gets a SIGTERM
        assert await process.end() == 0
        assert all(isinstance(json.loads(line), dict) for line in process.lines)


async def test_an_agent_is_unhealthy_before_it_has_read_its_objects(tmp_path: Path) -> None:
    """operations case 33"""
    async with (
        world(tmp_path, install=False) as (cluster, _, kubeconfig),
        agent_process(kubeconfig, f"--runtime-dir={tmp_path}", environment=ENVIRONMENT) as process,
    ):
        status, body = await process.get("probes and metrics", "/healthz")
        assert status == 500
        assert "[-]nodeImageInformerSynced failed" in body
        # when the definitions come
        await install_definitions(cluster)
        async with asyncio.timeout(60):
            while (await process.get("probes and metrics", "/healthz"))[0] != 200:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("environment", "flags", "said"),
    [
        pytest.param({"NODE_NAME": ""}, (), "NODE_NAME", id="no name of the node"),
        pytest.param(ENVIRONMENT, ("--socket-file=none.sock",), "no container runtime", id="no runtime"),
        pytest.param(ENVIRONMENT, ("--feature-gates=X=1x",), "gate X", id="a gate that is no boolean"),
    ],
)
async def test_an_agent_that_cannot_work_ends_with_one_clear_line(
    environment: dict[str, str], flags: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """operations cases 30, 31"""
    async with (
        world(tmp_path) as (_, _, kubeconfig),
        agent_process(kubeconfig, f"--runtime-dir={tmp_path}", *flags, environment=environment) as process,
    ):
        async with asyncio.timeout(30):
            assert await process.process.wait() == 1
        await asyncio.sleep(0.1)
        assert said in process.lines[-1]
        assert not any("Traceback" in line for line in process.lines)
