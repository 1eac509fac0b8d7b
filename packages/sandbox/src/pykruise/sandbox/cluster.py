"""A whole cluster in one process: API server, scheduler, kubelets, garbage collector, namespaces.

    async with Cluster(ClusterSettings(nodes=3)) as cluster:
        await cluster.client.create(PODS, "default", pod)

ClusterSettings, clock, rng ──▶ Cluster: ApiServer ◀── LocalTransport ◀── Client ◀── components

The cluster owns every task. When its context is left, it stops all components in reverse order of their start: first
those that were added to it, then its own. When a component dies, the cluster logs this immediately, `wait_failed()`
returns, and leaving the context raises ComponentError. In a virtual event loop, two runs with equal seeds are equal.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.client.limiter import Limiter
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, make_loop_clock, read_system_clock
from pykruise.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.runtime.objects import DocumentView, make_object_views
from pykruise.sandbox.apiserver import ApiServer, ReviewRule
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.apiserver.catalog import Conversions
from pykruise.sandbox.apiserver.objects.storage import Storage
from pykruise.sandbox.controllers import NODE_VIEWS, POD_VIEWS, Controllers
from pykruise.sandbox.garbage_collector import GarbageCollector
from pykruise.sandbox.local import LocalTransport
from pykruise.sandbox.namespaces import Namespaces
from pykruise.sandbox.nodes.agents import MakeAgents
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.images import ImageTable
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.nodes.specs import make_node_specs
from pykruise.sandbox.running import SandboxComponent
from pykruise.sandbox.scheduling.scheduler import Scheduler, SchedulerSurroundings

if TYPE_CHECKING:
    from pykruise.sandbox.apiserver.webhooks import CallTarget
    from pykruise.sandbox.webhook_caller import WebhookCaller


_log = logging.getLogger(__name__)

ADMIN = "kubernetes-admin"

_STOP_S = 10.0  # a component that has not ended this number of seconds after stop() is cancelled


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a sandbox cluster. Times are in seconds."""

    kubernetes: str = NEWEST_MINOR
    """Minor version of Kubernetes. Fields, defaults, rules and the reported version are those of this version."""
    feature_gates: frozenset[str] = frozenset()
    """Feature gates that are on although they are off by default in this minor."""
    nodes: int = 3
    """Number of nodes, named `node-1` and so on."""
    pods_per_node: int = 110
    node_cpu: str = "32"
    node_memory: str = "128Gi"
    zones: tuple[str, ...] = ("z1", "z2", "z3")
    """Zones of the nodes, assigned round-robin."""
    kubelet: KubeletSettings = KubeletSettings()
    """Durations on the nodes."""
    agents: MakeAgents | None = None
    """Agents that run on the nodes besides the kubelets."""
    start_s: float | None = None
    """Replaces `kubelet.start_s`, without jitter: containers start after exactly this time."""
    ready_s: float | None = None
    """Replaces `kubelet.ready_s`."""
    stop_s: float | None = None
    """Replaces `kubelet.stop_s`."""
    scheduled_events: bool = False
    """Whether the scheduler writes an Event for each binding, as in a real cluster."""
    tracks_fields: bool = True
    """Whether the API server maintains managedFields. Without them, writes are faster."""
    rbac: bool = False
    """Whether users may only do what their roles allow."""
    service_accounts: bool = False
    """Whether pods get the service account of their namespace, and a volume with its token."""
    checks_accounts: bool = True
    """Whether a pod is rejected while the service account that it names (other than `default`) does not exist."""
    steady_watches: bool = False
    """Whether the watches of all clients in this process never end, and send nothing while nothing changes. The watches
    of the cluster's own components are always of this kind.
    """
    waits_for_volumes: bool = True
    """Whether pods wait until their claims are bound, when the controller `claims` runs."""
    controllers: tuple[str, ...] | None = None
    """Names of the built-in controllers that run; None means all, empty means none. Fewer controllers start faster."""
    collected: tuple[Resource, ...] | None = None
    """Resources that the garbage collector watches; None means all served resources."""

    def build_kubelet_settings(self) -> KubeletSettings:
        """Return `kubelet`, changed by `start_s`, `ready_s` and `stop_s` where they are set."""
        changes: dict[str, Any] = {}
        if self.start_s is not None:
            changes |= {"start_s": self.start_s, "start_jitter": 0.0}
        if self.ready_s is not None:
            changes["ready_s"] = self.ready_s
        if self.stop_s is not None:
            changes["stop_s"] = self.stop_s
        return msgspec.structs.replace(self.kubelet, **changes)


class ComponentError(RuntimeError):
    """A component of the cluster ended although it was not stopped. The cause is the exception that it raised."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


class _Running(msgspec.Struct):
    name: str
    component: SandboxComponent
    task: asyncio.Task[None]


class _Webhooks:
    """A WebhookCaller that is created for the first call of a webhook: most clusters have no webhooks, and loading
    its HTTP client takes longer than starting a small cluster.
    """

    def __init__(self) -> None:
        self._caller: WebhookCaller | None = None

    async def call(self, target: "CallTarget", body: bytes, *, timeout_s: float) -> tuple[int, bytes]:
        """Call a webhook, as WebhookCaller does."""
        if self._caller is None:
            from pykruise.sandbox.webhook_caller import WebhookCaller

            self._caller = WebhookCaller()
        return await self._caller.call(target, body, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if self._caller is not None:
            await self._caller.close()


class Cluster:
    """A cluster that runs while its context is entered. Create it inside a running event loop.

    `clock`: by default it starts at the current time and advances with the event loop. `rng`: source of all uids, names
    and delays; by default unpredictable. `storage`, `reviewers`, `conversions`: arguments of the ApiServer.
    `startables` are called with the cluster after its own components have started. The components that they return are
    run and stopped with the cluster.
    """

    def __init__(
        self,
        settings: ClusterSettings | None = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        storage: Storage | None = None,
        reviewers: Sequence[ReviewRule] = (),
        conversions: Conversions | None = None,
        images: ImageTable | None = None,
        rules: Iterable[Rule] = (),
        startables: Sequence[Callable[["Cluster"], SandboxComponent]] = (),
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.clock = clock or make_loop_clock(start=read_system_clock())
        self._rng = rng or random.Random()
        self._startables = startables
        self._running: list[_Running] = []
        self._background: list[asyncio.Task[Any]] = []
        self._transports: list[LocalTransport] = []
        self._failures: list[ComponentError] = []
        self._has_failed = asyncio.Event()
        self._is_stopping = False

        self._webhooks = _Webhooks()
        self.server = ApiServer(
            clock=self.clock,
            rng=self._branch_rng(),
            storage=storage,
            reviewers=reviewers,
            conversions=conversions,
            webhooks=self._webhooks,
            tracks_fields=self.settings.tracks_fields,
            rbac=self.settings.rbac,
            service_accounts=self.settings.service_accounts,
            checks_accounts=self.settings.checks_accounts,
            kubernetes=self.settings.kubernetes,
            gates=self.settings.feature_gates,
        )
        self.server.count_quotas()
        self.transport = self.make_transport(ADMIN, managed_fields=True)
        self.client = self.make_client(ADMIN, user_agent="pykruise", managed_fields=True)
        self.review_client = self.client.separate_limit()
        """Client for admission reviews. It has its own limit of concurrent requests, because writes of `client` count
        against the limit of `client` until their reviews have ended.
        """

        # Nothing can break the watches of the cluster's own components while this process runs.
        node_client, scheduler_client, manager_client = (
            self.make_client(user, user_agent=agent, steady=True)
            for user, agent in (
                ("system:nodes", "kubelet"),
                ("system:kube-scheduler", "kube-scheduler"),
                ("system:kube-controller-manager", "kube-controller-manager"),
            )
        )
        # Kubelets, scheduler and garbage collector share one cache of all pods, because decoding is most of their
        # cost.
        self._pods = Cache(
            node_client,
            PODS,
            project=POD_VIEWS.projector(),
            indexes=POD_VIEWS.indexes,
            clock=self.clock,
            rng=self._branch_rng(),
        )
        self._nodes = Cache(
            scheduler_client, NODES, project=NODE_VIEWS.projector(), clock=self.clock, rng=self._branch_rng()
        )
        self._recorders = [
            EventRecorder(client, name, clock=self.clock, rng=self._branch_rng())
            for client, name in ((node_client, "kubelet"), (scheduler_client, "default-scheduler"))
        ]
        self.kubelets = Kubelets(
            node_client,
            nodes=make_node_specs(
                self.settings.nodes,
                zones=self.settings.zones,
                pods=self.settings.pods_per_node,
                cpu=self.settings.node_cpu,
                memory=self.settings.node_memory,
                version=f"v{self.settings.kubernetes}.0",
            ),
            settings=self.settings.build_kubelet_settings(),
            clock=self.clock,
            rng=self._branch_rng(),
            images=images,
            rules=rules,
            pods=self._pods,
            recorder=self._recorders[0],
            agents=self.settings.agents,
        )
        self._nodes.subscribe(self.kubelets.follow_node)
        self.scheduler = Scheduler(
            scheduler_client,
            clock=self.clock,
            rng=self._branch_rng(),
            pods=self._pods,
            nodes=self._nodes,
            recorder=self._recorders[1],
            tells_success=self.settings.scheduled_events,
        )
        self.collector = GarbageCollector(
            manager_client,
            clock=self.clock,
            rng=self._branch_rng(),
            shared={PODS: self._pods},
            only=self.settings.collected,
        )
        self.namespaces = Namespaces(manager_client, clock=self.clock, rng=self._branch_rng())
        self._groups: Cache[DocumentView] | None = None
        self.controllers = Controllers(
            manager_client,
            clock=self.clock,
            rng=self._branch_rng(),
            pods=self._pods,
            nodes=self._nodes,
            names=self.settings.controllers,
        )
        self._connect_scheduler_to_volumes()
        if "GenericWorkload" in self.settings.feature_gates:
            views = make_object_views(POD_GROUPS)
            self._groups = Cache(
                scheduler_client,
                POD_GROUPS,
                project=views.projector(),
                clock=self.clock,
                rng=self._branch_rng(),
            )
            self.scheduler.respect_groups(self._groups)

    def _connect_scheduler_to_volumes(self) -> None:
        """Let pods wait for their claims, if the controller that binds claims runs."""
        if not self.settings.waits_for_volumes:
            return
        claims, volumes, classes, budgets = (
            self.controllers.mirror(resource)
            for resource in (
                PERSISTENT_VOLUME_CLAIMS,
                PERSISTENT_VOLUMES,
                STORAGE_CLASSES,
                POD_DISRUPTION_BUDGETS,
            )
        )
        if claims is not None and volumes is not None and classes is not None:
            self.scheduler.respect(SchedulerSurroundings(claims, volumes, classes, budgets))

    # ── clients ──────────────────────────────────────────────────────────────

    def make_transport(
        self, user: str, *, managed_fields: bool = False, steady: bool = False
    ) -> LocalTransport:
        """Return a transport whose requests are sent by that user. It is closed with the cluster.

        By default the returned objects have no managedFields, which is faster. `steady`: see LocalTransport.
        """
        transport = LocalTransport(
            self.server,
            username=user,
            managed_fields=managed_fields,
            steady=steady or self.settings.steady_watches,
        )
        self._transports.append(transport)
        return transport

    def make_client(
        self, user: str, *, user_agent: str = "", managed_fields: bool = False, steady: bool = False
    ) -> Client:
        """Return a client of that user. `user_agent` names the field manager of its writes."""
        # There is no network to protect. The limiter only prevents one component from delaying others.
        limiter = Limiter(start=64, minimum=32, maximum=256)
        return Client(
            self.make_transport(user, managed_fields=managed_fields, steady=steady),
            clock=self.clock,
            user_agent=f"{user_agent or user}/v{self.settings.kubernetes}.0",
            limiter=limiter,
            rng=self._branch_rng(),
        )

    def make_granted_client(self, user: User) -> Client:
        """Return a client with the permissions that the API server grants to the user."""
        transport = LocalTransport(self.server, user=user)
        self._transports.append(transport)
        return Client(transport, clock=self.clock, user_agent="pykruise", rng=self._branch_rng())

    # ── start and stop ───────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None:
            self.raise_failure()

    async def start(self) -> None:
        """Start all components. Return when the nodes are registered and the controllers' caches are synced.

        Raises ComponentError when a component dies meanwhile.
        """
        caches: list[Cache[Any]] = [self._pods, self._nodes]
        if self._groups is not None:
            caches.append(self._groups)
        for cache in caches:
            self._run_in_background(cache.run, f"cache of {cache.resource}")
        for recorder in self._recorders:
            self._run_in_background(recorder.run, "event recorder")
        self.add("kubelets", self.kubelets)
        self.add("scheduler", self.scheduler)
        self.add("garbage collector", self.collector)
        self.add("namespaces", self.namespaces)
        if self.settings.controllers != ():
            self.add("controllers", self.controllers)
        await self._wait_unless_failed(self._wait_ready())
        for make in self._startables:
            component = make(self)
            self.add(type(component).__name__, component)

    async def stop(self) -> None:
        """End all components gracefully, in reverse order of their start. Does nothing the second time."""
        self._is_stopping = True
        while self._running:
            part = self._running.pop()
            try:
                await part.component.stop()
            except Exception as err:
                self._record_failure(part.name, f"could not be stopped: {type(err).__name__}: {err}", err)
                part.task.cancel()
            _, late = await asyncio.wait((part.task,), timeout=_STOP_S)
            if late:
                _log.warning("%s did not stop within %g s and is cancelled", part.name, _STOP_S)
                part.task.cancel()
                await asyncio.wait(late)
        for recorder in self._recorders:
            await recorder.flush(timeout_s=1.0)
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        self._background.clear()
        for transport in self._transports:
            await transport.close()
        self.server.close()
        await self._webhooks.close()

    def add(self, name: str, component: SandboxComponent) -> None:
        """Run another component until the cluster stops. It is stopped before components that were added earlier."""
        task = asyncio.create_task(self._supervise(name, component.run), name=name)
        self._running.append(_Running(name, component, task))

    @property
    def failures(self) -> Sequence[ComponentError]:
        """Errors of the components that died, in the order in which they died."""
        return tuple(self._failures)

    async def wait_failed(self) -> ComponentError:
        """Wait until a component has died, and return the error of the first."""
        await self._has_failed.wait()
        return self._failures[0]

    def raise_failure(self) -> None:
        """Raise the ComponentError of the first component that died, if there is one."""
        if self._failures:
            raise self._failures[0]

    # ── inside ───────────────────────────────────────────────────────────────

    def _branch_rng(self) -> random.Random:
        """Create a separate random source for a component, so that the components' random numbers are independent."""
        return random.Random(self._rng.getrandbits(64))

    async def _wait_ready(self) -> None:
        await self._pods.wait_synced()
        await self.kubelets.wait_registered()
        await self._nodes.wait_synced()
        await self.collector.wait_synced()
        await self.controllers.wait_synced()

    async def _wait_unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        waiting = asyncio.ensure_future(work)
        failing = asyncio.ensure_future(self._has_failed.wait())
        try:
            await asyncio.wait((waiting, failing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            failing.cancel()
            await asyncio.wait((waiting, failing))
        self.raise_failure()

    def _run_in_background(self, work: Callable[[], Awaitable[Any]], name: str) -> None:
        self._background.append(asyncio.create_task(self._supervise(name, work), name=name))

    async def _supervise(self, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            if not self._is_stopping:
                self._record_failure(name, "was cancelled", None)
            raise
        except Exception as err:
            self._record_failure(name, f"{type(err).__name__}: {err}", err)
        else:
            if not self._is_stopping:
                self._record_failure(name, "ended although it was not stopped", None)

    def _record_failure(self, name: str, problem: str, cause: Exception | None) -> None:
        error = ComponentError(name, problem)
        error.__cause__ = cause
        _log.error("%s: %s", name, problem, exc_info=cause)
        self._failures.append(error)
        self._has_failed.set()
