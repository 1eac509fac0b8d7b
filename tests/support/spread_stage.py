"""Two zones of two nodes, a workload of any kind, and a WorkloadSpread over it, for scenarios."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import format_time
from pykruise.kube.documents import decode
from pykruise.kube.errors import ConflictError
from pykruise.kube.resources import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS, Resource
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.matched_spread import read_matched
from pykruise.pods.view.pod_view import PodView
from support.daemonsets import Pool
from support.scenario import Object, Stage


class Spread:
    """The first two nodes of the pool are zone a, the others zone b."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self.stage = stage
        self.pool = pool
        self.label = f"zone-{pool.name}"
        self.zones: Mapping[str, str] = {
            node: "a" if number < 2 else "b" for number, node in enumerate(pool.nodes)
        }

    async def label_nodes(self) -> None:
        """Set the zones of nodes."""
        for node, zone in self.zones.items():
            await self.pool.label(node, {self.label: zone})

    def subset(self, name: str, most: int | str | None = None, **fields: Any) -> Object:
        """A subset that requires the zone of its name."""
        term = {"matchExpressions": [{"key": self.label, "operator": "In", "values": [name]}]}
        return {
            "name": name,
            "requiredNodeSelector": term,
            **({"maxReplicas": most} if most is not None else {}),
            **fields,
        }

    def spread(self, resource: Resource, *subsets: Object, name: str = "ws", **spec: Any) -> Object:
        """A WorkloadSpread over the workload `web`."""
        reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "web"}
        return {
            "apiVersion": WORKLOAD_SPREADS.api_version,
            "kind": "WorkloadSpread",
            "metadata": {"name": name},
            "spec": {"targetRef": reference, "subsets": list(subsets), **spec},
        }

    async def create(self, resource: Resource, *subsets: Object, **spec: Any) -> Object:
        """Create a WorkloadSpread."""
        return await self.stage.create(self.spread(resource, *subsets, **spec), resource=WORKLOAD_SPREADS)

    async def change(self, *subsets: Object) -> None:
        """Give it other subsets."""
        await self.stage.merge("ws", {"spec": {"subsets": list(subsets)}}, resource=WORKLOAD_SPREADS)

    def workload(self, resource: Resource, replicas: int, **spec: Any) -> Object:
        """The workload `web` of a kind."""
        labels = {"app": "web"}
        pod: Object = {"containers": [{"name": "main", "image": "nginx:1"}]}
        template: Object = {"metadata": {"labels": labels}, "spec": pod}
        fields: Object = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        if resource == JOBS:
            pod["restartPolicy"] = "Never"
            fields = {"parallelism": replicas, "completions": replicas, "template": template}
        if resource in (STATEFUL_SETS, ADVANCED_STATEFUL_SETS):
            fields |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "web"},
            "spec": {**fields, **spec},
        }

    async def run(self, resource: Resource, replicas: int, **spec: Any) -> None:
        """Create the workload."""
        await self.stage.create(self.workload(resource, replicas, **spec), resource=resource)

    async def scale(self, resource: Resource, replicas: int) -> None:
        """Change its replicas."""
        await self.stage.merge("web", {"spec": {"replicas": replicas}}, resource=resource)

    async def set_image(self, resource: Resource, image: str) -> None:
        """Change its template."""
        containers = [{"name": "main", "image": image}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        await self.stage.merge("web", patch, resource=resource)

    # ── sight ────────────────────────────────────────────────────────────────

    async def running(self) -> list[PodView]:
        """Active pods on nodes."""
        return [pod for pod in await self.stage.pods() if pod.is_active and pod.node_name]

    async def where(self) -> Counter[str]:
        """Pods by zone."""
        return Counter(self.zones.get(pod.node_name, "?") for pod in await self.running())

    async def status(self) -> dict[str, tuple[int, int]]:
        """replicas and missingReplicas by subset."""
        result = await self.stage.get("ws", resource=WORKLOAD_SPREADS)
        entries = (result.get("status") or {}).get("subsetStatuses") or []
        return {entry["name"]: (entry["replicas"], entry["missingReplicas"]) for entry in entries}

    async def closed_since(self, *, seconds: float) -> None:
        """Set the time since which subsets take no pods, instead of waiting until that much time has passed."""
        since = format_time(self.stage.clock() - seconds)

        async def is_written() -> bool:
            result = await self.stage.get("ws", resource=WORKLOAD_SPREADS)
            status = result["status"]
            for entry in (*status["subsetStatuses"], *chain(*status["versionedSubsetStatuses"].values())):
                for condition in entry.get("conditions") or ():
                    if condition["status"] == "False":
                        condition["lastTransitionTime"] = since
            version = {"resourceVersion": result["metadata"]["resourceVersion"]}
            patch = {"metadata": version, "status": status}
            try:
                await self.stage.merge("ws", patch, resource=WORKLOAD_SPREADS, subresource="status")
            except ConflictError:
                return False
            return True

        await self.stage.until(is_written)

    async def column(self, name: str) -> Any:
        """The value of a column of `kubectl get ws`."""
        path = WORKLOAD_SPREADS.format_path(self.stage.namespace, "ws")
        headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        table = decode(
            (await self.stage.client.transport.request(Request("GET", path, headers=headers))).body
        )
        columns = [definition["name"] for definition in table["columnDefinitions"]]
        return table["rows"][0]["cells"][columns.index(name)]

    async def is_spread(self, wanted: Mapping[str, int]) -> bool:
        """Whether pods are in their zones, with the right annotations, and the status is correct."""
        pods = await self.stage.pods()
        if any(not pod.is_active or not pod.node_name for pod in pods):
            return False
        noted = Counter(noted_in(pod) for pod in pods)
        status = {name: count for name, (count, _) in (await self.status()).items() if count}
        return await self.where() == wanted and noted == wanted and status == wanted

    async def settled(self, **wanted: int) -> None:
        """Wait until the subsets have these numbers of pods."""

        async def is_so() -> bool:
            return await self.is_spread(wanted)

        await self.stage.until(is_so, what=f"spread as {wanted}")


def noted_in(pod: PodView) -> str:
    """The subset in the pod's annotation."""
    matched = read_matched(pod.annotations.get(MATCHED_SPREAD_ANNOTATION))
    return matched.subset if matched is not None else ""


ALL_KINDS = (CLONE_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, ADVANCED_STATEFUL_SETS, JOBS)
