"""A UnitedDeployment over two zones, with any of its templates, for scenarios.

united = United(stage, pool, template="cloneSetTemplate"); await united.label_nodes(); await united.create(replicas=4)
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    REVISION_LABEL,
    STATEFUL_SET,
    SUBSET_LABEL,
    TEMPLATES,
)
from pykruise.pods.view.pod_view import PodView
from support.daemonsets import Pool
from support.scenario import Object, Stage

ALL_TEMPLATES = (CLONE_SET, DEPLOYMENT, ADVANCED_STATEFUL_SET, STATEFUL_SET)
NAME = "web"


def template_of(kind: str, *, image: str = "nginx:1", pod: Object | None = None, **spec: Any) -> Object:
    """`spec.template` of that kind, with one container."""
    labels = {"app": NAME}
    containers = [{"name": "main", "image": image}]
    given: Object = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers, **(pod or {})}},
        **spec,
    }
    if kind in (STATEFUL_SET, ADVANCED_STATEFUL_SET):
        given = {"serviceName": NAME, "podManagementPolicy": "Parallel", **given}
    return {kind: {"metadata": {"labels": labels}, "spec": given}}


def united_document(kind: str, subsets: list[Object], *, name: str = NAME, **spec: Any) -> Object:
    """A UnitedDeployment; further fields of the spec as keywords."""
    return {
        "apiVersion": UNITED_DEPLOYMENTS.api_version,
        "kind": UNITED_DEPLOYMENTS.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "template": template_of(kind),
            "topology": {"subsets": subsets},
            **spec,
        },
    }


class United:
    """The UnitedDeployment `web`. The first two nodes of the pool are zone a, the others zone b."""

    def __init__(self, stage: Stage, pool: Pool, template: str = CLONE_SET) -> None:
        self.stage = stage
        self.pool = pool
        self.template = template
        self.label = f"zone-{pool.name}"
        self.zones: Mapping[str, str] = {
            node: "a" if number < 2 else "b" for number, node in enumerate(pool.nodes)
        }

    async def label_nodes(self) -> None:
        """Set the zones of nodes."""
        for node, zone in self.zones.items():
            await self.pool.label(node, {self.label: zone})

    async def take_zone(self, zone: str, *, back: bool = False) -> None:
        """Cordon the nodes of the zone; with `back`, uncordon them."""
        for node, value in self.zones.items():
            if value == zone:
                await self.pool.cordon(node, unschedulable=not back)

    def subset(self, name: str, *, zone: str = "", **fields: Any) -> Object:
        """A subset that requires the zone `zone`, or the zone of its name."""
        term = {"matchExpressions": [{"key": self.label, "operator": "In", "values": [zone or name]}]}
        return {"name": name, "nodeSelectorTerm": term, **fields}

    def to_document(self, *subsets: Object, **spec: Any) -> Object:
        """The document of a new UnitedDeployment, by default over both zones."""
        given = list(subsets) or [self.subset("a"), self.subset("b")]
        return united_document(self.template, given, **spec)

    async def create(self, *subsets: Object, **spec: Any) -> Object:
        """Create it, and return it as stored."""
        return await self.stage.create(self.to_document(*subsets, **spec), resource=UNITED_DEPLOYMENTS)

    async def get(self) -> Object:
        """The UnitedDeployment as stored."""
        return await self.stage.get(NAME, resource=UNITED_DEPLOYMENTS)

    async def status(self) -> Object:
        """Status of the UnitedDeployment; empty before the first one."""
        status: Object = (await self.get()).get("status") or {}
        return status

    async def change(self, **spec: Any) -> Object:
        """Merge these fields into the spec."""
        return await self.stage.merge(NAME, {"spec": spec}, resource=UNITED_DEPLOYMENTS)

    async def set_subsets(self, *subsets: Object, **spec: Any) -> Object:
        """Give it other subsets."""
        return await self.change(topology={"subsets": list(subsets)}, **spec)

    async def set_image(self, image: str, **spec: Any) -> Object:
        """Change the template (and further fields of the spec)."""
        containers = [{"name": "main", "image": image}]
        inner = {self.template: {"spec": {"template": {"spec": {"containers": containers}}}}}
        return await self.change(template=inner, **spec)

    async def scale(self, replicas: int) -> Object:
        """Change the replicas through the scale subresource, as `kubectl scale` and autoscalers do."""
        return await self.stage.merge(
            NAME, {"spec": {"replicas": replicas}}, resource=UNITED_DEPLOYMENTS, subresource="scale"
        )

    # ── sight ────────────────────────────────────────────────────────────────

    async def workloads(self, template: str = "") -> dict[str, Object]:
        """Workloads of a template's kind, by subset."""
        listed = await self.stage.stored(TEMPLATES[template or self.template])
        workloads = [entry for entry in listed if SUBSET_LABEL in (entry["metadata"].get("labels") or {})]
        by_subset = {entry["metadata"]["labels"][SUBSET_LABEL]: entry for entry in workloads}
        assert len(by_subset) == len(workloads), "each subset has one workload"
        return by_subset

    async def sizes(self, template: str = "") -> dict[str, int]:
        """spec.replicas of its workloads, by subset."""
        return {
            name: workload["spec"]["replicas"] for name, workload in (await self.workloads(template)).items()
        }

    async def pods(self) -> list[PodView]:
        """Active pods."""
        return [pod for pod in await self.stage.pods(NAME) if pod.is_active]

    async def where(self) -> Counter[str]:
        """Active pods on nodes, by zone."""
        return Counter(self.zones.get(pod.node_name, "?") for pod in await self.pods() if pod.node_name)

    async def images(self) -> Counter[tuple[str, str]]:
        """Active pods by subset and image."""
        return Counter(
            (pod.labels.get(SUBSET_LABEL, ""), pod.containers[0].image) for pod in await self.pods()
        )

    def condition(self, value: Object, kind: str, subset: str = "") -> Object:
        """A condition of a status, or of a subset in it; empty if there is none."""
        holder: Object = value
        if subset:
            entries = value.get("subsetStatuses") or []
            holder = next((entry for entry in entries if entry["name"] == subset), {})
        return next(
            (condition for condition in holder.get("conditions") or [] if condition["type"] == kind), {}
        )

    async def settled(self, *, within_s: float | None = None, **sizes: int) -> Object:
        """Wait until the subsets have these sizes, all pods are ready and have the newest template, and the status is
        correct."""
        total = sum(sizes.values())

        async def is_settled() -> Object | None:
            outcome = await self.get()
            status = outcome.get("status") or {}
            if await self.sizes() != sizes or len(pods := await self.pods()) != total:
                return None
            wanted = {
                "observedGeneration": outcome["metadata"]["generation"],
                "replicas": total,
                "readyReplicas": total,
                "updatedReplicas": total,
            }
            if any((status.get(name) or 0) != value for name, value in wanted.items()):
                return None
            if status["currentRevision"] != status["updatedRevision"]:
                return None
            target = status["updatedRevision"]
            return status if all(pod.labels.get(REVISION_LABEL) == target for pod in pods) else None

        result: Object = await self.stage.until(is_settled, within_s=within_s, what=f"settled at {sizes}")
        return result
