"""Several managers as processes that share the work, with webhooks behind one address: updated one by one, and ended in
each way, in the middle of a rollout. In real time, on the sandbox over HTTPS or on a real API server."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client, RetryPolicy
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.election.key_slots import SLOTS
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.sandbox.certificates import build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.http_front import HttpFront
from support.control_plane import connection, running_plane
from support.processes import ManagerProcess, manager_process
from support.real_webhooks import until_asked
from support.replicas import Balancer, replica_settings
from support.scenario import PodWatch, cloneset, rolling
from support.up import running
from support.webhooks import (
    LOOPBACK,
    free_port,
    install_configurations,
    install_namespace,
    uninstall_configurations,
)
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(500)]

NAMESPACE = "default"
OWN_NAMESPACE = "kruise-system"
SETS = 6
REPLICAS = 4
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def busy_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane | None]:
    """A real control plane of the module's own, with simulated nodes; None: in the sandbox."""
    if request.config.getoption("--cluster") != "real":
        yield None
        return
    with running_plane(kinds=True) as plane:
        kubelets = ("kubelets", "--kubeconfig", str(plane.kubeconfig), "--nodes", "4", "--start", "0.1")
        with running(*kubelets, says="registered"):
            yield plane


class Fleet:
    """Managers of one cluster, and clients that ask for reviews meanwhile."""

    def __init__(self, stack: AsyncExitStack, folder: Path, kubeconfig: Path, own: Path, port: int) -> None:
        self._stack = stack
        self._folder = folder
        self._own = own
        self._port = port
        self._webhooks: dict[ManagerProcess, int] = {}
        self.balancer = Balancer()
        transport = HttpTransport(connection(kubeconfig))
        stack.push_async_callback(transport.close)
        # The client repeats no request itself, so lost requests are seen.
        self.client = Client(transport, rng=random.Random(1), retry=RetryPolicy(writes=0, reads=0))

    async def start(self, *, shards: int) -> ManagerProcess:
        """Start another manager, and wait until it is ready to answer reviews."""
        number = len(self._webhooks)
        listens = free_port()
        flags = (f"--shards={shards}", f"--webhook-addr={LOOPBACK}:{listens}")
        environment = {
            "POD_NAMESPACE": OWN_NAMESPACE,
            "WEBHOOK_HOST": LOOPBACK,
            "WEBHOOK_PORT": str(self._port),
            "WEBHOOK_CERT_DIR": str(self._folder / f"certificates-{number}"),
            "WEBHOOK_CERT_WRITER": "secret",
        }
        starting = manager_process(self._own, *flags, environment=environment)
        manager = await self._stack.enter_async_context(starting)
        self._webhooks[manager] = listens
        await self.until(lambda: _is_ready(manager))
        return manager

    async def publish_the_ready(self) -> None:
        """Send reviews only to ready managers, as a Service does; until cancelled. A manager that does not answer in
        time keeps its last state."""
        ready: dict[ManagerProcess, bool] = {}

        async def probe(item: ManagerProcess) -> None:
            result = await _is_ready(item)
            ready[item] = ready.get(item, False) if result is None else result

        while True:
            await asyncio.gather(*(probe(webhook) for webhook in self._webhooks))
            self.balancer.targets = [port for webhook, port in self._webhooks.items() if ready.get(webhook)]
            await asyncio.sleep(0.1)

    async def holders(self) -> Counter[str]:
        """Number of slots of each manager, according to the Leases."""
        listed = decode(await self.client.get_path(LEASES.format_path(OWN_NAMESPACE)))["items"]
        slots = [item for item in listed if "-slot-" in item["metadata"]["name"]]
        return Counter(slot["spec"].get("holderIdentity", "") for slot in slots)

    async def leader(self) -> str:
        """The manager that assigns slots."""
        lease = decode(await self.client.get(LEASES, OWN_NAMESPACE, "kruise-manager"))
        return str(lease["spec"].get("holderIdentity", ""))

    async def share(self, managers: Sequence[ManagerProcess]) -> None:
        """Return when these managers hold all slots, and none more than its share."""
        names = {await manager.says_identity() for manager in managers}

        async def is_shared() -> bool:
            held = await self.holders()
            most = -(-SLOTS // len(names))
            return held.keys() == names and held.total() == SLOTS and max(held.values()) <= most

        await self.until(is_shared)

    async def until(self, claim: Callable[[], Awaitable[bool | None]]) -> None:
        """Return when the claim is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not await claim():
                await asyncio.sleep(0.1)

    async def begin_rollouts(self) -> None:
        """CloneSets in several slots, and a new image for each when all pods are there."""
        for number in range(SETS):
            document = cloneset(f"set-{number}", replicas=REPLICAS, updateStrategy=rolling(maxUnavailable=1))
            await self.client.create(CLONE_SETS, NAMESPACE, document)
        await self.settled()
        spec = {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}
        for number in range(SETS):
            await self.client.patch(
                CLONE_SETS, NAMESPACE, f"set-{number}", {"spec": spec}, patch_type=PatchType.MERGE
            )

    async def settled(self) -> None:
        """Return when all rollouts are over."""

        async def is_settled() -> bool:
            listed = decode(await self.client.get_path(CLONE_SETS.format_path(NAMESPACE)))["items"]
            return all(
                (item.get("status") or {}).get("observedGeneration") == item["metadata"]["generation"]
                and item["status"].get("updatedReadyReplicas") == REPLICAS == item["status"].get("replicas")
                for item in listed
            )

        await self.until(is_settled)


async def _is_ready(manager: ManagerProcess) -> bool | None:
    """Whether the manager is ready; None: it does not answer in time."""
    if manager.process.returncode is not None:
        return False
    try:
        async with asyncio.timeout(1.0):
            return (await manager.get("probes", "/readyz"))[0] == 200
    except TimeoutError:
        return None
    except aiohttp.ClientError:
        return False


class Asking:
    """A client that asks for reviews of CloneSets and pods all the time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.count = 0
        self.lost: list[str] = []
        """Requests that no webhook reviewed, or that failed because none could be reached."""

    async def run(self) -> None:
        """Send reviews until cancelled."""
        owner = build_owner_reference(
            api_version=CLONE_SETS.api_version, kind=CLONE_SETS.kind, name="x", uid="x"
        )
        pod = {
            "metadata": {"name": "asked", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }
        while True:
            try:
                await self._client.create(CLONE_SETS, NAMESPACE, cloneset("asked"), dry_run=True)
                tried = decode(await self._client.create(PODS, NAMESPACE, pod, dry_run=True))
                if "readinessGates" not in tried["spec"]:
                    self.lost.append("a pod was not looked at")
            except KubeError as error:
                self.lost.append(str(error))
            self.count += 1
            await asyncio.sleep(0.02)


@asynccontextmanager
async def fleet(plane: ControlPlane | None, folder: Path) -> AsyncIterator[Fleet]:
    """A cluster with webhook configurations that name a balancer, and no manager yet."""
    async with AsyncExitStack() as stack:
        if plane is None:
            kubeconfig = own = await stack.enter_async_context(_sandbox(folder))
        else:
            kubeconfig, own = plane.kubeconfig, plane.manager_kubeconfig
        settings = replica_settings(folder, 0)
        fleet = Fleet(stack, folder, kubeconfig, own, settings.webhook.port)
        await _clear(fleet.client)
        await install_namespace(fleet.client, settings)
        await install_configurations(fleet.client, settings)
        await stack.enter_async_context(fleet.balancer.on(settings.webhook.port))
        publishing = asyncio.create_task(fleet.publish_the_ready())
        try:
            yield fleet
        finally:
            publishing.cancel()
            await _clear(fleet.client)


async def _clear(client: Client) -> None:
    """Delete the objects that the previous test has left."""
    await uninstall_configurations(client)
    for raw in (await client.list(CLONE_SETS, NAMESPACE)).items:
        await client.delete(CLONE_SETS, NAMESPACE, decode(raw)["metadata"]["name"])
    for raw in (await client.list(LEASES, OWN_NAMESPACE)).items:
        await client.delete(LEASES, OWN_NAMESPACE, decode(raw)["metadata"]["name"])


@asynccontextmanager
async def _sandbox(folder: Path) -> AsyncIterator[Path]:
    certificate = issue(now=read_system_clock())
    async with Cluster(ClusterSettings(nodes=4, start_s=0.1, ready_s=0.0, stop_s=0.1)) as cluster:
        for crd in build_crds():
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        front = HttpFront(cluster.server, token="token", port=0, certificate=certificate)
        await front.start()
        try:
            path = folder / "kubeconfig"
            write_kubeconfig(path, build_kubeconfig(front.url, certificate.authority, "token", "x"))
            yield path
        finally:
            await front.stop()


@asynccontextmanager
async def pod_watches(client: Client) -> AsyncIterator[list[PodWatch]]:
    """A watch of the pods of each CloneSet."""
    seen = [
        PodWatch(client, NAMESPACE, app=f"set-{item}", clock=read_system_clock, rng=random.Random(item))
        for item in range(SETS)
    ]
    watching = [asyncio.create_task(item.cache.run()) for item in seen]
    try:
        for pod_watch in seen:
            await pod_watch.cache.wait_synced()
        yield seen
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


def nothing_twice(seen: Sequence[PodWatch]) -> None:
    assert [pod_watch.created for pod_watch in seen] == [2 * REPLICAS] * SETS
    assert max(pod_watch.most for pod_watch in seen) <= REPLICAS


@pytest.mark.exhaustive(in_sandbox=True)
async def test_a_rolling_update_of_four_managers_loses_no_review_and_doubles_nothing(
    busy_plane: ControlPlane | None, tmp_path: Path
) -> None:
    async with fleet(busy_plane, tmp_path) as managed:
        # given four that share the work, and a rollout under way
        managers = [await managed.start(shards=4) for _ in range(4)]
        await managed.share(managers)
        await until_asked(managed.client, namespace=NAMESPACE)
        asking = Asking(managed.client)
        task = asyncio.create_task(asking.run())
        async with pod_watches(managed.client) as seen:
            await managed.begin_rollouts()
            # when each is replaced by a new one
            for number, old in enumerate(managers):
                managers[number] = await managed.start(shards=4)
                assert await old.end() == 0
            await managed.share(managers)
            await managed.settled()
        task.cancel()
        # then
        nothing_twice(seen)
        assert asking.count
        assert not asking.lost


@pytest.mark.parametrize(
    ("number", "is_leader"),
    [
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.exhaustive),
        (signal.SIGKILL, True),
        pytest.param(signal.SIGKILL, False, marks=pytest.mark.exhaustive),
        pytest.param(signal.SIGSTOP, True, marks=pytest.mark.exhaustive(in_sandbox=True)),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.exhaustive),
        pytest.param(signal.SIGSTOP, False, marks=pytest.mark.exhaustive),
    ],
)
async def test_a_killed_or_stopped_process_is_succeeded_and_nothing_happens_twice(
    busy_plane: ControlPlane | None, tmp_path: Path, number: signal.Signals, is_leader: bool
) -> None:
    async with fleet(busy_plane, tmp_path) as managed:
        # given
        managers = [await managed.start(shards=2) for _ in range(2)]
        await managed.share(managers)
        await until_asked(managed.client, namespace=NAMESPACE)
        names = {await manager.says_identity(): manager for manager in managers}
        leader = names[await managed.leader()]
        gone = next(manager for manager in managers if (manager is leader) is is_leader)
        left = next(manager for manager in managers if manager is not gone)
        async with pod_watches(managed.client) as seen:
            await managed.begin_rollouts()
            # when
            gone.process.send_signal(number)
            await managed.share([left])
            # then
            await managed.settled()
            # and when a stopped manager goes on
            if number == signal.SIGSTOP:
                gone.process.send_signal(signal.SIGCONT)
                await managed.share(managers)
        nothing_twice(seen)
