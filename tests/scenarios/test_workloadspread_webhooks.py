"""Pods are spread over HTTPS by several replicas of the webhooks, which end and begin anew while pods come.

On both clusters: API server ──HTTPS──▶ balancer ──▶ two replicas. No controller of workloads is there: the test
creates the pods, and tries again as such a controller does.
"""

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.kinds import crds
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client import Client, RetryPolicy
from pykruise.kube.clock import system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.http import HttpTransport
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from pykruise.kube.transport import Transport
from pykruise.manager.webhooks import Webhooks
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.webhook_caller import WebhookCaller
from support.control_plane import connection, running_plane
from support.real_webhooks import until_asked
from support.replicas import Balancer, replica_settings, replicas
from support.spreads import placed_in, pod, spread, subset
from support.webhooks import install_configurations, install_namespace, uninstall_configurations
from testbed.control_plane import ControlPlane

# Sockets and TLS are real, and so is time.
pytestmark = pytest.mark.real_time

AT_ONCE = 64


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster whose webhooks are behind the balancer."""

    user: Client
    manager: Callable[[], Client]
    balancer: Balancer
    namespace: str
    folder: Path
    port: int

    @asynccontextmanager
    async def replicas(self) -> AsyncIterator[list[Webhooks]]:
        """Two, ready and asked."""
        options: dict[str, Any] = {"port": self.port, "settle_s": 0.1}
        async with replicas(self.manager(), self.folder, self.balancer, **options) as found:
            await until_asked(self.user, namespace=self.namespace)
            yield found

    async def spread(self, found: Sequence[Webhooks], *subsets: Document) -> None:
        """Create a WorkloadSpread that all replicas know."""
        document = spread(*subsets)
        document["metadata"] = {"name": "ws"}
        await self.user.create(WORKLOAD_SPREADS, self.namespace, document)
        async with asyncio.timeout(30):
            for one in found:
                while not await one.spreading.reader.spreads(self.namespace):
                    await asyncio.sleep(0.02)

    async def entries(self) -> dict[str, Document]:
        """What the status says of each subset."""
        stored = decode(await self.user.get(WORKLOAD_SPREADS, self.namespace, "ws"))
        [entries] = stored["status"]["versionedSubsetStatuses"].values()
        return {one["name"]: one for one in entries}


class Creator:
    """Creates pods as a workload's controller does: again and again until they are there."""

    def __init__(self, place: Place, *, at_once: int) -> None:
        self.placed: dict[str, str] = {}
        """Names and subsets of those that are there."""
        self.refused = 0
        self.go_on = asyncio.Event()
        """For those that are held back."""
        self._place = place
        self._turns = asyncio.Semaphore(at_once)

    @property
    def counts(self) -> Counter[str]:
        """Pods by subset."""
        return Counter(self.placed.values())

    async def create(self, count: int, *, prefix: str = "web", held_back: int = 0) -> None:
        """So many, with names; the last `held_back` when they may go on."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(count - held_back):
                tasks.create_task(self._create(f"{prefix}-{number}"))
            if held_back:
                await self.go_on.wait()
            for number in range(count - held_back, count):
                tasks.create_task(self._create(f"{prefix}-{number}"))

    async def until(self, count: int) -> None:
        """Wait until so many are there."""
        async with asyncio.timeout(60):
            while len(self.placed) < count:
                await asyncio.sleep(0.01)

    async def _create(self, name: str) -> None:
        body = pod(name)
        del body["metadata"]["namespace"]
        async with self._turns:
            while name not in self.placed:
                try:
                    found = decode(await self._place.user.create(PODS, self._place.namespace, body))
                except KubeError:
                    self.refused += 1
                    await asyncio.sleep(0.1)
                else:
                    self.placed[name] = placed_in(found)


@pytest.fixture(scope="module")
def quiet_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane | None]:
    """A real API server of this module's own, with the kinds and nobody at work; None: in the sandbox."""
    if request.config.getoption("--cluster") != "real":
        yield None
        return
    with running_plane(kinds=True, controller_manager=False, scheduler=False) as plane:
        yield plane


@pytest.fixture
async def place(quiet_plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        user_transport, manager_transport = await _transports(quiet_plane, stack)
        # Nothing is repeated by the client itself: what is refused is counted.
        user = Client(user_transport, rng=random.Random(2), retry=RetryPolicy(writes=0, reads=0))
        if quiet_plane is None:
            for crd in crds():
                await user.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        namespace = f"spread-{secrets.token_hex(4)}"
        await user.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        settings = replica_settings(tmp_path, 0)
        await install_namespace(user, settings)
        await install_configurations(user, settings)
        stack.push_async_callback(uninstall_configurations, user)
        port = settings.webhook.port
        yield Place(
            user=user,
            manager=lambda: Client(manager_transport, rng=random.Random(3)),
            balancer=await stack.enter_async_context(Balancer().on(port)),
            namespace=namespace,
            folder=tmp_path,
            port=port,
        )


async def _transports(plane: ControlPlane | None, stack: AsyncExitStack) -> tuple[Transport, Transport]:
    """Of the user, and of the manager, which has no more rights than it needs on the real one."""
    user: Transport
    manager: Transport
    if plane is None:
        caller = WebhookCaller()
        stack.push_async_callback(caller.close)
        server = ApiServer(clock=system_clock, rng=random.Random(1), webhooks=caller)
        user, manager = (LocalTransport(server, username=name) for name in ("user", "manager"))
    else:
        user = HttpTransport(connection(plane.kubeconfig), pool=AT_ONCE)
        manager = HttpTransport(connection(plane.manager_kubeconfig))
    for one in (user, manager):
        stack.push_async_callback(one.close)
    return user, manager


async def test_replicas_that_begin_anew_hand_out_no_place_twice(place: Place) -> None:
    """workloadspread case 4, across processes and restarts"""
    creator = Creator(place, at_once=8)
    # given two replicas, and pods that come all the time
    async with place.replicas() as found:
        await place.spread(found, subset("a", 12), subset("b", 16), subset("c"))
        creating = asyncio.create_task(creator.create(40, held_back=16))
        # when connections break while pods are reviewed
        await creator.until(8)
        await place.balancer.cut()
        await creator.until(16)
    # and then nobody serves for a while, and then two others
    creator.go_on.set()
    await asyncio.sleep(0.5)
    assert not creating.done(), (creating, creator.counts, creator.refused)
    async with place.replicas():
        await creating
    # then
    assert creator.refused
    assert creator.counts == {"a": 12, "b": 16, "c": 12}
    # and the status knows of each
    entries = await place.entries()
    assert {name: one["missingReplicas"] for name, one in entries.items()} == {"a": 0, "b": 0, "c": -1}
    noted = {pod: name for name, one in entries.items() for pod in one.get("creatingPods") or ()}
    assert noted == {pod: name for pod, name in creator.placed.items() if name != "c"}


async def test_500_pods_through_two_replicas_fill_each_subset_exactly(place: Place) -> None:
    """workloadspread case 20, 64 at once"""
    creator = Creator(place, at_once=AT_ONCE)
    async with place.replicas() as found:
        await place.spread(found, subset("a", 120), subset("b", 200), subset("c"))
        # when
        await creator.create(500)
        stats = [one.spreading.desk.stats() for one in found]
    # then
    assert creator.counts == {"a": 120, "b": 200, "c": 180}
    entries = await place.entries()
    assert {name: one["missingReplicas"] for name, one in entries.items()} == {"a": 0, "b": 0, "c": -1}
    # and both replicas noted places, many at once
    assert all(one.writes for one in stats)
    assert sum(one.writes for one in stats) <= 0.2 * 500
