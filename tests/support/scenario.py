"""A cluster for one scenario: the actions of a test, and its observations.

`Stage` wraps a cluster (the sandbox, or a real control plane with simulated kubelets) and starts and kills
managers on it. A test asserts what the API server stores, and reads it with its own client. A `PodWatch` checks
invariants over time, with its own watch.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, ReviewRule
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport
from pykruise.kube.clock import Clock
from pykruise.kube.control.controller import skip_measuring
from pykruise.kube.documents import decode
from pykruise.kube.election.key_slots import Keying
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.election.membership import Membership
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import EVENTS, PODS, Resource
from pykruise.manager.manager import Manager
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.sandbox.nodes.kubelet import Kubelets
from support.control_plane import allow_election
from testbed.node import Nodes

Object = dict[str, Any]


def cloneset(name: str = "web", *, replicas: int = 3, image: str = "nginx:1", **spec: Any) -> Object:
    """A CloneSet with one container; keywords are further fields of the spec (`updateStrategy=…`)."""
    return {
        "apiVersion": CLONE_SETS.api_version,
        "kind": CLONE_SETS.kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            **spec,
        },
    }


def rolling(**fields: Any) -> Object:
    """An updateStrategy of type RollingUpdate."""
    return {"type": "RollingUpdate", "rollingUpdate": fields}


class AdmissionSwitch:
    """Switches the calls of the webhooks on and off, except on a real control plane."""

    def __init__(self) -> None:
        self.is_on = True

    def over(self, rules: Sequence[ReviewRule]) -> list[ReviewRule]:
        """Return rules that review like the given ones, and allow everything while the switch is off."""

        def switched(rule: ReviewRule) -> ReviewRule:
            async def review(request: AdmissionRequest) -> AdmissionAnswer:
                return await rule.reviewer(request) if self.is_on else ALLOWED

            return msgspec.structs.replace(rule, reviewer=review)

        return [switched(rule) for rule in rules]


class Stage:
    """One scenario's cluster: a client with all permissions, a namespace, managers to start and kill.

    `patience_s`: how long `until` waits. `long_s`: how long to wait for something that must not happen. `kubelets`:
    the simulated kubelets of all nodes; `nodes`: the real nodes, if there are any.
    """

    def __init__(
        self,
        *,
        client: Client,
        manager_transport: Callable[[], Transport],
        namespace: str,
        clock: Clock,
        rng: random.Random,
        patience_s: float,
        long_s: float,
        kubelets: Kubelets | None,
        nodes: Nodes | None = None,
        admission: AdmissionSwitch | None = None,
    ) -> None:
        self.client = client
        self.manager_transport = manager_transport
        self.namespace = namespace
        self.clock = clock
        self.rng = rng
        self.patience_s = patience_s
        self.long_s = long_s
        self._kubelets = kubelets
        self._nodes = nodes
        self.is_refused_at_times = False
        """Whether an API server that has just started may deny requests that the roles of managers allow."""
        self._admission = admission or AdmissionSwitch()
        self._managers: list[tuple[Manager, asyncio.Task[None]]] = []

    @property
    def kubelets(self) -> Kubelets:
        """The kubelets of simulated nodes."""
        assert self._kubelets, "this scenario changes what kubelets do, so it is not for real nodes"
        return self._kubelets

    @property
    def has_nodes(self) -> bool:
        """Whether its nodes are real."""
        return self._nodes is not None

    @property
    def nodes(self) -> Nodes:
        """The real nodes; a scenario that uses them is marked `node_only`."""
        assert self._nodes, "this scenario needs real nodes"
        return self._nodes

    # ── managers ─────────────────────────────────────────────────────────────

    async def start_manager(
        self,
        transport: Transport | None = None,
        *,
        settings: ManagerSettings | None = None,
        identity: str = "",
        members: int = 1,
        keying: Keying = "object",
    ) -> Manager:
        """Start a manager with empty caches over `transport` (default: without faults); it runs until it is killed.

        `identity`: its name in the leader election; empty: it runs without one. `members`: number of managers that
        share the work.
        """
        client = Client(transport or self.manager_transport(), clock=self.clock, rng=self.rng)
        if identity:
            await allow_election(self.client, self.namespace)
        manager = Manager(
            client,
            settings=settings,
            elector=self._elector(client, identity) if identity and members == 1 else None,
            membership=self._membership(client, identity, members, keying) if members > 1 else None,
            clock=self.clock,
            rng=self.rng,
            cpu_time=skip_measuring,
        )
        self._managers.append((manager, asyncio.create_task(manager.run())))
        return manager

    def _elector(self, client: Client, identity: str) -> LeaderElector:
        own = Client(client.transport, clock=self.clock, rng=self.rng)
        return LeaderElector(
            own,
            namespace=self.namespace,
            name="kruise-manager",
            identity=identity,
            clock=self.clock,
            rng=self.rng,
        )

    def _membership(self, client: Client, identity: str, members: int, keying: Keying) -> Membership:
        return Membership(
            Client(client.transport, clock=self.clock, rng=self.rng),
            namespace=self.namespace,
            name="kruise-manager",
            identity=identity,
            members=members,
            keying=keying,
            clock=self.clock,
            rng=self.rng,
        )

    async def kill_manager(self, only: Manager | None = None) -> None:
        """End all managers (or one) as kill -9 does: they complete nothing."""
        for task in self._take(only):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop_manager(self, only: Manager | None = None) -> None:
        """End all managers (or one) gracefully."""
        for manager, _ in self._managers:
            if only in (None, manager):
                manager.stop()
        for task in self._take(only):
            await task

    def _take(self, only: Manager | None) -> list[asyncio.Task[None]]:
        taken = [task for manager, task in self._managers if only in (None, manager)]
        self._managers = [pair for pair in self._managers if only not in (None, pair[0])]
        return taken

    async def close(self) -> None:
        """End the stage, for fixtures: a manager that ended with an error fails the test."""
        try:
            self._raise_what_managers_died_of()
        finally:
            await self.kill_manager()

    def _raise_what_managers_died_of(self) -> None:
        for _, task in self._managers:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    # ── writes ────────────────────────────────────────────────────────────────

    @contextmanager
    def past_admission(self) -> Iterator[None]:
        """Writes in the block are not sent to webhooks, as in an outage or a restore."""
        self._admission.is_on = False
        try:
            yield
        finally:
            self._admission.is_on = True

    async def create(self, doc: Object, *, resource: Resource = CLONE_SETS) -> Object:
        """Create an object in the scenario's namespace."""
        return decode(await self.client.create(resource, self.namespace, doc))

    async def merge(
        self, name: str, patch: Object, *, resource: Resource = CLONE_SETS, subresource: str = ""
    ) -> Object:
        """Merge-patch an object."""
        return decode(
            await self.client.patch(
                resource, self.namespace, name, patch, patch_type=PatchType.MERGE, subresource=subresource
            )
        )

    async def set_image(self, name: str, image: str, **spec: Any) -> Object:
        """Change the image of the template (and further fields of the spec)."""
        containers = [{"name": "main", "image": image}]
        return await self.merge(name, {"spec": {"template": {"spec": {"containers": containers}}, **spec}})

    async def scale(self, name: str, replicas: int) -> Object:
        """Change the replicas through the scale subresource, as `kubectl scale` does."""
        return await self.merge(name, {"spec": {"replicas": replicas}}, subresource="scale")

    async def delete(self, name: str, *, resource: Resource = CLONE_SETS, **options: Any) -> None:
        """Delete an object."""
        await self.client.delete(resource, self.namespace, name, **options)

    # ── sight ────────────────────────────────────────────────────────────────

    async def get(self, name: str, *, resource: Resource = CLONE_SETS) -> Object:
        """An object as the API server stores it."""
        return decode(await self.client.get(resource, self.namespace, name))

    async def stored(self, resource: Resource) -> list[Object]:
        """All objects of the namespace, as stored."""
        return [decode(raw) for raw in (await self.client.list(resource, self.namespace)).items]

    async def exists(self, name: str, *, resource: Resource = CLONE_SETS) -> bool:
        """Whether an object of that name exists."""
        try:
            await self.get(name, resource=resource)
        except NotFoundError:
            return False
        return True

    async def pods(self, app: str = "web") -> list[PodView]:
        """Pods with the label `app`, by name, as stored."""
        listed = await self.client.list(PODS, self.namespace, label_selector=f"app={app}")
        return sorted((project_pod(raw) for raw in listed.items), key=lambda pod: pod.name)

    async def status(self, name: str = "web") -> Object:
        """The CloneSet's status; empty before the first one."""
        status: Object = (await self.get(name)).get("status") or {}
        return status

    async def events(self, reason: str = "") -> list[Object]:
        """Events of the namespace (with that reason), oldest first."""
        listed = await self.client.list(EVENTS, self.namespace)
        events = [decode(raw) for raw in listed.items]
        return [event for event in events if not reason or event["reason"] == reason]

    async def until(self, claim: Callable[[], Any], *, within_s: float | None = None, what: str = "") -> Any:
        """Wait until `claim()` (awaitable or not) is true, and return its result.

        Fails with the last value, and with the state of the CloneSets and pods, if it does not become true in time;
        fails immediately if a manager has ended.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + (within_s or self.patience_s)
        pause_s = 0.02
        while True:
            value = claim()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            self._raise_what_managers_died_of()
            if loop.time() >= end:
                raise AssertionError(f"{what or 'it'} did not come true: {value!r}\n{await self._scene()}")
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.25, self.patience_s / 240)

    async def settled(
        self, name: str = "web", *, replicas: int, updated: int | None = None, within_s: float | None = None
    ) -> Object:
        """Wait for `replicas` available pods, of which `updated` are new, and for no terminating pod."""

        async def is_settled() -> Object | None:
            outcome = await self.get(name)
            status = outcome.get("status") or {}
            wanted = {
                "observedGeneration": outcome["metadata"]["generation"],
                "replicas": replicas,
                "readyReplicas": replicas,
                "availableReplicas": replicas,
                "updatedReplicas": replicas if updated is None else updated,
            }
            if any(status.get(k) != v for k, v in wanted.items()):
                return None
            return outcome if len(await self.pods(name)) == replicas else None

        result: Object = await self.until(is_settled, within_s=within_s, what=f"{name} settled at {replicas}")
        return result

    async def _scene(self) -> str:
        try:
            sets = await self.client.list(CLONE_SETS, self.namespace)
            pods = await self.client.list(PODS, self.namespace)
        except KubeError as error:
            return f"(the scene cannot be shown: {error})"
        lines = [f"{doc['metadata']['name']}: {doc.get('status')}" for doc in map(decode, sets.items)]
        lines += [
            f"{pod.name}: {pod.phase} ready={pod.is_ready} state={pod.state!r} revision={pod.revision} "
            f"deleting={pod.is_deleting}"
            for pod in map(project_pod, pods.items)
        ]
        return "\n".join(lines)


class PodWatch:
    """Watches pods of one owner at the API server and records the extremes.

    `most` is the maximum number of active pods, `fewest_available` the minimum number of
    available pods since `watch_from_now()`; `created` counts pods, `names` their names.
    """

    def __init__(self, client: Client, namespace: str, *, app: str, clock: Clock, rng: random.Random) -> None:
        self._cache: Cache[PodView] = Cache(
            client,
            PODS,
            project=project_pod,
            namespace=namespace,
            label_selector=f"app={app}",
            clock=clock,
            rng=rng,
        )
        self._cache.subscribe(self._on_change)
        self._uids: set[str] = set()
        self.most = 0
        self.fewest_available: int | None = None
        self._counting = False

    @property
    def created(self) -> int:
        """Pods that ever existed."""
        return len(self._uids)

    @property
    def cache(self) -> Cache[PodView]:
        """The cache that mirrors the pods."""
        return self._cache

    def watch_from_now(self) -> None:
        """Reset the records, and record the minimum of available pods from now on."""
        self._counting = True
        active = self._active()
        self.most = len(active)
        self.fewest_available = sum(pod.is_serving for pod in active)

    def _active(self) -> list[PodView]:
        return [pod for pod in self._cache.values() if pod.is_active]

    def _on_change(self, change: Change[PodView]) -> None:
        if change.new is not None and change.new.is_active:
            self._uids.add(change.new.uid)
        # Count the cached pods, not the changes: after an outage a list delivers its changes one after the other, and
        # the states between them never existed.
        active = self._active()
        self.most = max(self.most, len(active))
        if self._counting:
            self.fewest_available = min(self.fewest_available or 0, sum(pod.is_serving for pod in active))


@asynccontextmanager
async def pod_watch(stage: Stage, *, app: str = "web") -> AsyncIterator[PodWatch]:
    """A watch of pods while the block runs."""
    seen = PodWatch(stage.client, stage.namespace, app=app, clock=stage.clock, rng=stage.rng)
    running = asyncio.create_task(seen.cache.run())
    try:
        await seen.cache.wait_synced()
        yield seen
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def labels_of(doc: Object) -> Mapping[str, str]:
    """The labels of a document."""
    labels: Mapping[str, str] = doc["metadata"].get("labels") or {}
    return labels
