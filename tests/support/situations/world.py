"""A cluster for situations, and the rows of the tables.

Situation.stage(World) ──▶ World.explained() ──▶ Explanation

It has everything of `pykruise up`: agents on all nodes, and the gates of all kinds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec

from pykruise.agent.simulated import ALL_TASKS, make_simulated_agents
from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.client.transport import Transport
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    Resource,
)
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.state_metrics import StateCollector
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.controllers.autoscaling import WORK
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, Stage

__all__ = ["SETTINGS", "Situation", "World", "pods_in_another_namespace", "with_agents"]

QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
KINDS: Final = {kind.name: kind for kind in list_kinds() if kind.versions}
_BUILT_IN: Final = (
    *(CONFIG_MAPS, DEPLOYMENTS, JOBS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, QUOTAS),
    *(STATEFUL_SETS, HORIZONTAL_POD_AUTOSCALERS, POD_DISRUPTION_BUDGETS),
)
RESOURCES: Final = {
    (resource.group, resource.kind): resource
    for resource in (*_BUILT_IN, *(kind.resource for kind in KINDS.values()))
}

SETTINGS: Final = ManagerSettings(
    gates=Gates.of(ImagePullJobGate=True, ResourceDistributionGate=True, PodUnavailableBudgetUpdateGate=True),
    flags={"nodeimage-creation-delay": 0.0},
)
"""Settings of the manager: every kind is on, and new nodes pull images immediately."""


def with_agents(settings: ClusterSettings) -> ClusterSettings:
    """The same cluster with nodes that do the work of a node agent, and with autoscalers."""
    kubelet = msgspec.structs.replace(settings.kubelet, pull_s=1.0)
    controllers = None if settings.controllers is None else (*settings.controllers, WORK.control.name)
    return msgspec.structs.replace(
        settings, kubelet=kubelet, agents=make_simulated_agents(ALL_TASKS), controllers=controllers
    )


class World:
    """Actions of a situation on the cluster of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @property
    def namespace(self) -> str:
        """The namespace of the objects."""
        return self.stage.namespace

    async def start(self, transport: Transport | None = None) -> None:
        """A manager; the nodes have their NodeImages when it returns."""
        self._manager = await self.stage.start_manager(transport, settings=SETTINGS)
        await self.wait(5)

    def phase_in_metrics(self, kind: Kind, name: str) -> str:
        """The phase of an object in a scrape of the manager."""
        namespace = self.namespace if kind.resource.namespaced else ""
        wanted = {"kind": kind.resource.kind, "namespace": namespace, "name": name}
        metrics = {metric.name: metric for metric in StateCollector(self._manager).collect()}
        samples = (sample.labels for sample in metrics["pykruise_phase"].samples)
        return next(labels["phase"] for labels in samples if labels.items() >= wanted.items())

    async def put(self, *documents: Object) -> None:
        """Create objects, of any kind, in this order."""
        for document in documents:
            resource = self.resource_of(document)
            await self.stage.client.create(resource, self._namespace(resource), document)

    async def change(self, target: str, patch: Object, *, subresource: str = "") -> None:
        """Merge a patch into an object such as `cloneset/web`."""
        kind, _, name = target.partition("/")
        resource = self.resource_named(kind)
        await self.stage.client.patch(
            resource,
            self._namespace(resource),
            name,
            patch,
            patch_type=PatchType.MERGE,
            subresource=subresource,
        )

    async def set(self, target: str, **spec: Any) -> None:
        """Merge fields into the spec of an object such as `cloneset/web`."""
        await self.change(target, {"spec": spec})

    async def set_image(self, target: str, image: str) -> None:
        """Set another image in the template of a workload."""
        await self.set(target, template={"spec": {"containers": [{"name": "main", "image": image}]}})

    async def get(self, target: str) -> Object:
        """An object such as `cloneset/web`, as stored."""
        kind, _, name = target.partition("/")
        resource = self.resource_named(kind)
        return decode(await self.stage.client.get(resource, self._namespace(resource), name))

    async def list(self, kind: str) -> list[Object]:
        """All objects of a kind in the namespace."""
        resource = self.resource_named(kind)
        listed = await self.stage.client.list(resource, self._namespace(resource))
        return [decode(raw) for raw in listed.items]

    async def delete(self, target: str, **options: Any) -> None:
        """Delete an object such as `pod/web-x`."""
        kind, _, name = target.partition("/")
        resource = self.resource_named(kind)
        await self.stage.client.delete(resource, self._namespace(resource), name, **options)

    def fail(self, **rule: Any) -> None:
        """Script a failure; it replaces the earlier ones."""
        self.stage.kubelets.set_rules([Rule(**rule)] if rule else [])

    async def quota(self, **hard: str) -> None:
        """A ResourceQuota of the namespace; `count_broadcastjobs` means `count/broadcastjobs.apps.kruise.io`."""
        names = {
            name: name if "_" not in name else f"count/{name.removeprefix('count_')}.apps.kruise.io"
            for name in hard
        }
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team"},
            "spec": {"hard": {names[name]: value for name, value in hard.items()}},
        }
        await self.put(body)

    async def node(self, name: str, **body: Any) -> None:
        """Merge a body into a node: `spec={"unschedulable": True}`."""
        await self.stage.client.patch(NODES, "", name, body, patch_type=PatchType.MERGE)

    async def wait(self, seconds: float = 60.0) -> None:
        """Let this time pass."""
        await asyncio.sleep(seconds)

    async def explained(self, kind: Kind, name: str) -> Explanation:
        """The explanation that the command computes."""
        key = Key(self._namespace(kind.resource), name)
        return await read_and_explain(
            self.stage.client, key, now=self.stage.clock(), kind=kind, settings=SETTINGS
        )

    async def text(self, explanation: Explanation) -> str:
        """The explanation as text."""
        return format_explanation(explanation, now=self.stage.clock())

    def resource_of(self, document: Object) -> Resource:
        """The resource of a document."""
        return RESOURCES[document["apiVersion"].rpartition("/")[0], document["kind"]]

    def resource_named(self, word: str) -> Resource:
        """Resource of a name such as `cloneset` or `pod`; `statefulset` is the Advanced StatefulSet."""
        if (kind := KINDS.get(word)) is not None:
            return kind.resource
        return next(resource for resource in _BUILT_IN if resource.kind.lower() == word)

    def _namespace(self, resource: Resource) -> str:
        return self.namespace if resource.namespaced else ""


async def pods_in_another_namespace(world: World) -> None:
    """Two pods of namespace shop, with the labels of the pods of the situations."""
    await world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for name in ("web-0", "web-1"):
        pod = {"metadata": {"name": name, "labels": {"app": "web"}}}
        spec = {"containers": [{"name": "main", "image": "nginx:1"}]}
        await world.stage.client.create(PODS, "shop", {**pod, "spec": spec})


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table."""

    stage: Callable[[World], Awaitable[None]]
    """The function that creates the situation; its name names it. A manager already runs, unless `is_early` is set."""
    cause: str
    """Code of the first wait; empty: the object waits for nothing."""
    phase: Phase = Phase.DEGRADED
    says: str = ""
    """Words that the text must use: the object, the node, the exit code that the situation is about."""
    name: str = "web"
    """Name of the explained object."""
    is_early: bool = False
    """Whether `stage` starts the manager itself."""
    ways: int = 0
    """Number of alternatives in the remedies; 0: only a person can decide what to do."""
    useless: tuple[int, ...] = ()
    """Alternatives that do no harm, and do not help here."""
    known_by: Literal["status", "plan", "explain"] = "status"
    """The nearest place that knows the cause: the object's status; the manager's plan and so the metric; or only
    `explain` and the dashboard, which read what managers do not."""
