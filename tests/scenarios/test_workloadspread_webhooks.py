"""Pods are spread over HTTPS by several replicas of the webhooks, which end and begin anew while pods come."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from pykruise.kinds import crds
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client import Client, RetryPolicy
from pykruise.kube.clock import system_clock
from pykruise.kube.crds import webhook_conversion
from pykruise.kube.documents import decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from pykruise.manager.settings import Settings
from pykruise.manager.webhooks import Webhooks, endpoint_of
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.webhooks import Target
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.webhook_caller import WebhookCaller
from support.spreads import NAMESPACE, placed_in, pod, spread, subset
from support.webhooks import install_configurations, install_namespace, running_webhooks, webhook_settings

# Sockets and TLS are real, and so is time.
pytestmark = [pytest.mark.looptime(False), pytest.mark.sandbox_only]


class Service:
    """In front of the replicas: each call goes to another one, as a Service does."""

    def __init__(self) -> None:
        self.replicas: list[Webhooks] = []
        self._caller = WebhookCaller()
        self._calls = 0

    async def call(self, target: Target, body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        self._calls += 1
        if self.replicas:
            port = self.replicas[self._calls % len(self.replicas)].server.port
            url = urlsplit(target.url)._replace(netloc=f"127.0.0.1:{port}").geturl()
            target = msgspec.structs.replace(target, url=url)
        return await self._caller.call(target, body, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._caller.close()


@asynccontextmanager
async def clients(service: Service) -> AsyncIterator[tuple[Client, Client]]:
    """Of a user and of the manager, on an API server with nothing in it."""
    server = ApiServer(clock=system_clock, rng=random.Random(1), webhooks=service)
    transports = [LocalTransport(server, username=name) for name in ("user", "manager")]
    try:
        user, manager = (
            Client(one, rng=random.Random(2), retry=RetryPolicy(writes=0, reads=0)) for one in transports
        )
        yield user, manager
    finally:
        for one in transports:
            await one.close()
        await service.close()


@asynccontextmanager
async def replicas(service: Service, client: Client, settings: Settings, count: int) -> AsyncIterator[None]:
    """So many, behind the service."""
    async with AsyncExitStack() as stack:
        for _ in range(count):
            running = running_webhooks(client, settings, port=0, settle_s=0.1)
            service.replicas.append(await stack.enter_async_context(running))
        yield
    service.replicas.clear()


async def test_replicas_that_begin_anew_hand_out_no_place_twice(tmp_path: Path) -> None:
    service = Service()
    async with clients(service) as (user, manager):
        # given
        settings = webhook_settings(tmp_path)
        await install_namespace(manager, settings)
        for crd in crds(webhook_conversion(url=endpoint_of(settings).base_url)):
            await manager.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        await user.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        await install_configurations(manager, settings)
        placed: Counter[str] = Counter()
        refused = 0

        async def create(name: str) -> None:
            """As a workload's controller does: again and again."""
            nonlocal refused
            while True:
                try:
                    found = decode(await user.create(PODS, NAMESPACE, pod(name)))
                except KubeError:
                    refused += 1
                    await asyncio.sleep(0.1)
                else:
                    placed[placed_in(found)] += 1
                    return

        # when two replicas serve
        async with replicas(service, manager, settings, 2):
            document = spread(subset("a", 8), subset("b", 10), subset("c"))
            document["metadata"] = {"name": "ws"}
            await user.create(WORKLOAD_SPREADS, NAMESPACE, document)
            await asyncio.gather(*(create(f"first-{number}") for number in range(12)))
        # and then nobody for a while, and then two others
        async with asyncio.TaskGroup() as tasks:
            for number in range(12):
                tasks.create_task(create(f"second-{number}"))
            await asyncio.sleep(0.3)
            async with replicas(service, manager, settings, 2):
                while placed.total() < 24:
                    await asyncio.sleep(0.05)
        # then
        assert refused
        assert placed == {"a": 8, "b": 10, "c": 6}
        # and the status knows of all
        stored = decode(await user.get(WORKLOAD_SPREADS, NAMESPACE, "ws"))
        [entries] = stored["status"]["versionedSubsetStatuses"].values()
        assert {one["name"]: one["missingReplicas"] for one in entries} == {"a": 0, "b": 0, "c": -1}
