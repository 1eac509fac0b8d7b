"""Memory of a manager: the modules that it loads before its first pod, and its memory at work.

PYTHONPATH=tests:. python -m bench.memory                     each line: the memory that this part adds, in the
                                                              order in which a manager loads it
PYTHONPATH=tests:. python -m bench.memory --at 0,500,10000    managers with these numbers of pods, without
                                                              and with webhooks

Prints; asserts nothing. RSS is the kernel's count, USS the memory that would be free without this process (without
shared libraries), "Python" the memory that Python allocated (tracemalloc in a second process, as it costs memory).
Modules are loaded from existing bytecode, as in an image, so the memory of compiling is not counted.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.large import PATIENCE_S, LoneManager, settled
from bench.memory_parts import resident
from bench.sandbox import cloneset
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from support.webhooks import install_configurations, install_namespace, webhook_settings

WEBHOOKS = (
    "--enable-leader-election=false",
    "--health-probe-addr=127.0.0.1:0",
    "--metrics-addr=127.0.0.1:0",
    "--pprof-addr=0",
)
"""Flags of a manager with all servers of a manager in a cluster."""

CALM_S = 15.0
"""Seconds from the observation of the pods until the manager's memory is measured."""


async def at_work(pods: int, environment: Mapping[str, str]) -> None:
    """Managers on a cluster with this number of pods, without and with webhooks."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = (sys.executable, "-m", "bench.large", "--serve", name, "--pods", str(pods))
        server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert server.stdout is not None
            url = (await server.stdout.readline()).decode().strip()
            transport = HttpTransport(load_kubeconfig(folder / "kubeconfig"))
            client = Client(transport)
            plain = await LoneManager.start(folder, url, env=environment)
            await show(client, plain, pods, "without webhooks", "nginx:2")
            settings = webhook_settings(folder)
            await install_namespace(client, settings)
            await install_configurations(client, settings)
            webhook = settings.webhook
            here = {
                "POD_NAMESPACE": settings.own_namespace,
                "WEBHOOK_HOST": webhook.host,
                "WEBHOOK_PORT": str(webhook.port),
                "WEBHOOK_CERT_DIR": webhook.certificate_folder,
                "WEBHOOK_CERT_WRITER": webhook.certificate_writer,
            }
            asked = await LoneManager.start(folder, url, flags=WEBHOOKS, env={**environment, **here})
            await show(client, asked, pods, "with webhooks", "nginx:3")
            await transport.close()
        finally:
            server.kill()
            await server.wait()


async def show(client: Client, manager: LoneManager, pods: int, what: str, image: str) -> None:
    """Print the manager's memory after it has seen all pods, and after it has updated all of them in place."""
    try:
        # A change is necessary to see that the manager has looked. Webhooks may have to review it.
        await retried(lambda: update(client, minReadySeconds=len(what)))
        await settled(client, pods)
        await asyncio.sleep(CALM_S)
        _print(f"{pods} pods, {what}", manager)
        (container,) = cloneset(1)["spec"]["template"]["spec"]["containers"]
        await update(
            client,
            updateStrategy={
                "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}
            },
            template={"spec": {"containers": [{**container, "image": image}]}},
        )
        await settled(client, pods, updated=pods)
        await asyncio.sleep(CALM_S)
        _print("... after an update in place", manager)
    finally:
        await manager.end()


async def update(client: Client, **spec: Any) -> None:
    """Change the spec of the CloneSet."""
    await client.patch(CLONE_SETS, "default", "web", {"spec": spec}, patch_type=PatchType.MERGE)


async def retried(work: Callable[[], Awaitable[None]]) -> None:
    """Retry until the webhooks respond."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await work()
            except KubeError:
                await asyncio.sleep(1.0)


def _print(what: str, manager: LoneManager) -> None:
    rss, uss = resident(str(manager.pid))
    print(f"{what:<36}{rss:>8.1f}{uss:>8.1f}", flush=True)


def main() -> None:
    """Print tables, or run as the measured process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--at", type=lambda text: [int(part) for part in text.split(",")])
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _parts(environment)  # writes the bytecode
        if asked.at:
            print(f"{'':<36}{'RSS MB':>8}{'USS MB':>8}")
            for pods in asked.at:
                asyncio.run(at_work(pods, environment))
            return
        plain, traced = _parts(environment), _parts(environment, "--traced")
    print(f"{'part':<30}{'RSS MB':>8}{'USS MB':>8}{'Python MB':>11}")
    for (name, rss, uss, _), (*_, python) in zip(plain, traced, strict=True):
        print(f"{name:<30}{rss:>8}{uss:>8}{python:>11}")


def _parts(environment: Mapping[str, str], *how: str) -> list[list[str]]:
    """The rows of memory_parts.py."""
    command = (sys.executable, "-m", "bench.memory_parts", *how)
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [line.split("\t") for line in text.splitlines()]


if __name__ == "__main__":
    main()
