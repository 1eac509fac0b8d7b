"""Hours of churn in real time: a manager process with webhooks on a real control plane.

Churn ──▶ API server ◀── pykruise manager (the process that is sampled) ◀── faults, in turn:
                         its Lease is deleted, its webhooks' certificate is deleted, the API server restarts
/proc/PID and /metrics ──▶ Sample

Run it for two hours or more. The machine may do other work meanwhile: no figure is a duration.
"""

import asyncio
import logging
import os
import random
import re
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import uvloop

from bench.soak.churn import Churn
from bench.soak.samples import Sample
from bench.stage import install_pykruise, on_stage, rss_mb
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.resources import LEASES, SECRETS
from support.up import running
from support.webhooks import free_port
from testbed.control_plane import API_SERVER, ControlPlane

__all__ = ["run_real"]

OWN_NAMESPACE: Final = "kruise-system"
GATES: Final = "ImagePullJobGate=true,ResourceDistributionGate=true"
TURN_S: Final = 60.0
"""Seconds between two turns of churn."""
FAULT_S: Final = 420.0
"""Seconds between two faults."""
PODS: Final = 400
"""Room for pods on the nodes."""

_log = logging.getLogger(__name__)


def run_real(
    documents: Sequence[Document],
    *,
    hours: float,
    every_s: float,
    seed: int,
    on_sample: Callable[[Sample], None],
) -> tuple[list[Sample], dict[str, int]]:
    """Churn for this number of hours, with a sample after each `every_s` seconds.

    Returns the samples, and the numbers of refused changes by kind and class of the error.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_soak(documents, hours=hours, every_s=every_s, seed=seed, on_sample=on_sample))


async def _soak(
    documents: Sequence[Document],
    *,
    hours: float,
    every_s: float,
    seed: int,
    on_sample: Callable[[Sample], None],
) -> tuple[list[Sample], dict[str, int]]:
    samples: list[Sample] = []
    async with (
        await ControlPlane.start() as plane,
        on_stage(plane, pods=PODS, nodes=6, agent=True) as stage,
        _managed(plane) as (pid, metrics_port),
    ):
        churn = Churn(stage.client, random.Random(seed), documents)
        await churn.begin()
        faults = Faults(plane, stage.client)
        began = turned = time.monotonic()
        while (now := time.monotonic()) - began < hours * 3600:
            if now >= turned:
                turned = now + TURN_S
                await _despite_faults(churn.change_all())
            await faults.strike_when_due(now - began)
            if now - began >= (len(samples) + 1) * every_s:
                sample = await _sample(pid, metrics_port, stage.client, at_s=now - began)
                samples.append(sample)
                on_sample(sample)
            await asyncio.sleep(1.0)
    return samples, churn.refused


class Faults:
    """Faults that follow each other every `FAULT_S` seconds, for as long as the run lasts."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self._plane = plane
        self._client = client
        self._done = 0

    async def strike_when_due(self, at_s: float) -> None:
        """Strike when the next fault is due at that time since the start."""
        if at_s < (self._done + 1) * FAULT_S:
            return
        faults = (self._delete_lease, self._delete_certificate, self._restart_api_server)
        fault = faults[self._done % len(faults)]
        self._done += 1
        await _despite_faults(fault())

    async def _delete_lease(self) -> None:
        await self._client.delete(LEASES, OWN_NAMESPACE, "kruise-manager")

    async def _delete_certificate(self) -> None:
        await self._client.delete(SECRETS, OWN_NAMESPACE, "kruise-webhook-certs")

    async def _restart_api_server(self) -> None:
        await self._plane.restart(API_SERVER)


async def _despite_faults(work: Awaitable[None]) -> None:
    try:
        await work
    except NotFoundError:
        pass
    except KubeError as error:
        _log.warning("%s", error)


@asynccontextmanager
async def _managed(plane: ControlPlane) -> AsyncIterator[tuple[int, int]]:
    """A manager with webhooks. Yields its process id and the port of its metrics."""
    port, metrics_port = str(free_port()), free_port()
    await install_pykruise(plane, f"--webhook-port={port}", f"--feature-gates={GATES}")
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "POD_NAMESPACE": OWN_NAMESPACE,
            "WEBHOOK_HOST": "127.0.0.1",
            "WEBHOOK_PORT": port,
            "WEBHOOK_CERT_DIR": folder,
            "WEBHOOK_CERT_WRITER": "secret",
        }
        manager = (
            *("manager", "--kubeconfig", str(plane.kubeconfig), f"--feature-gates={GATES}"),
            *(
                "--health-probe-addr=127.0.0.1:0",
                "--pprof-addr=0",
                f"--metrics-addr=127.0.0.1:{metrics_port}",
            ),
        )
        with running(*manager, says="controller starts", env=environment) as process:
            yield process.pid, metrics_port


async def _sample(pid: int, metrics_port: int, client: Client, *, at_s: float) -> Sample:
    text = await asyncio.to_thread(_scrape, metrics_port)
    stored = ""
    with suppress(KubeError):
        stored = (await client.transport.request(Request("GET", "/metrics"))).body.decode()
    return Sample(
        at_s=at_s,
        rss_mb=rss_mb(pid),
        file_descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        tasks=len(os.listdir(f"/proc/{pid}/task")),
        cached=_sum_of(text, "pykruise_cache_objects"),
        queued=_sum_of(text, "workqueue_depth"),
        python_objects=0,
        stored=_sum_of(stored, "apiserver_storage_objects"),
    )


def _scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def _sum_of(metrics: str, name: str) -> int:
    """The sum of all series of a metric."""
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE)
    return round(sum(float(value) for value in values))
