"""Cost of a node agent: its memory, and its CPU time while nothing happens and while it probes.

PYTHONPATH=tests python -m bench.bench_agent [--pods 100] [--seconds 60]

API server and container runtime are the sandbox and the fake runtime, in this process; the agent has its own
process. Prints; asserts nothing.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from pykruise.agent.rules.container_metadata import ANNOTATION  # noqa: E402
from pykruise.agent.rules.probe_checks import NODE_POD_PROBES  # noqa: E402
from pykruise.kinds import build_crds  # noqa: E402
from pykruise.kube.client.client import Client  # noqa: E402
from pykruise.kube.clock import read_system_clock  # noqa: E402
from pykruise.kube.documents import decode  # noqa: E402
from pykruise.kube.patches.types import PatchType  # noqa: E402
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS  # noqa: E402
from pykruise.sandbox.certificates import issue  # noqa: E402
from pykruise.sandbox.cluster import Cluster, ClusterSettings  # noqa: E402
from pykruise.sandbox.http_front import HttpFront  # noqa: E402
from support.agent_stage import NODE  # noqa: E402
from support.cri_server import serving  # noqa: E402
from support.fake_runtime import FakeRuntime  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
KINDS = ("NodeImage", "NodePodProbe", "ContainerRecreateRequest")
OWNER = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "name": "web",
    "uid": "u",
    "controller": True,
}


def rss_mb(pid: int) -> float:
    line = next(
        splitline
        for splitline in Path(f"/proc/{pid}/status").read_text().splitlines()
        if splitline.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def run_pods(client: Client, runtime: FakeRuntime, count: int) -> list[Any]:
    """Pods of a CloneSet on the node, each with a container that runs."""
    pods = []
    for number in range(count):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"web-{number}", "ownerReferences": [OWNER], "labels": {"app": "web"}},
            "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "nginx:1"}]},
        }
        made = decode(await client.create(PODS, "default", pod))
        fake_container = runtime.run_container("app", pod_uid=made["metadata"]["uid"], pod=f"web-{number}")
        statuses = [
            {
                "name": "app",
                "containerID": f"containerd://{fake_container.id}",
                "ready": True,
                "restartCount": 0,
            }
        ]
        status = {"status": {"phase": "Running", "containerStatuses": statuses}}
        await client.patch(
            PODS, "default", f"web-{number}", status, patch_type=PatchType.MERGE, subresource="status"
        )
        pods.append(made)
    return pods


async def wait_reported(client: Client, count: int) -> None:
    while True:
        listed = [decode(item) for item in (await client.list(PODS, "default")).items]
        if sum(ANNOTATION in (entry["metadata"].get("annotations") or {}) for entry in listed) == count:
            return
        await asyncio.sleep(0.2)


async def probe_all(client: Client, pods: list[Any], period: int) -> None:
    probe = {"exec": {"command": ["/idle"]}, "periodSeconds": period}
    entries = [
        {
            "name": pod["metadata"]["name"],
            "namespace": "default",
            "uid": pod["metadata"]["uid"],
            "IP": "",
            "probes": [{"name": "game#idle", "containerName": "app", "probe": probe}],
        }
        for pod in pods
    ]
    doc = {
        "apiVersion": NODE_POD_PROBES.api_version,
        "kind": "NodePodProbe",
        "metadata": {"name": NODE},
        "spec": {"podProbes": entries},
    }
    await client.create(NODE_POD_PROBES, "", doc)


async def measure(pid: int, what: str, seconds: float) -> None:
    before = cpu_s(pid)
    await asyncio.sleep(seconds)
    used = cpu_s(pid) - before
    print(f"{what:<50} {rss_mb(pid):6.1f} MB   {100 * used / seconds:5.2f} % of a core", flush=True)


async def main(count: int, seconds: float) -> None:
    certificate = issue(now=read_system_clock())
    runtime = FakeRuntime(read_system_clock)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with (
            Cluster(ClusterSettings(nodes=0, controllers=())) as cluster,
            serving(runtime, home / "containerd.sock"),
        ):
            for crd in (crd for crd in build_crds() if crd["spec"]["names"]["kind"] in KINDS):
                await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            front = HttpFront(cluster.server, token="token", port=0, certificate=certificate)
            await front.start()
            for name, text in (
                ("token", "token"),
                ("ca.crt", certificate.authority),
                ("namespace", "default"),
            ):
                (home / name).write_text(text if isinstance(text, str) else text.decode())
            host, _, port = front.url.removeprefix("https://").partition(":")
            environment = {
                "NODE_NAME": NODE,
                "KUBERNETES_SERVICE_HOST": host,
                "KUBERNETES_SERVICE_PORT": port,
            }
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bench.lone_agent",
                folder,
                f"--runtime-dir={folder}",
                "--addr=127.0.0.1:0",
                "--enable-pprof=false",
                env={**os.environ, **environment, "PYTHONPATH": "tests:."},
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                await asyncio.sleep(5.0)
                await measure(process.pid, "no pods", seconds / 4)
                pods = await run_pods(cluster.client, runtime, count)
                await wait_reported(cluster.client, count)
                await asyncio.sleep(5.0)
                await measure(process.pid, f"{count} pods, reported, nothing happens", seconds)
                await probe_all(cluster.client, pods, 10)
                await asyncio.sleep(15.0)
                await measure(process.pid, f"{count} probes by a command, every 10 s", seconds)
            finally:
                process.send_signal(signal.SIGTERM)
                await process.wait()
                await front.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    asyncio.run(main(asked.pods, asked.seconds))
