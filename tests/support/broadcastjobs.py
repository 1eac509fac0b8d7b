"""BroadcastJobs in scenarios: a job on the test's own nodes, and the states that a test waits for.

broadcast = Broadcast(stage, pool); await broadcast.create(parallelism=2); await broadcast.phase("completed")
"""

from collections import Counter
from typing import Any

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.documents import decode
from pykruise.kube.resources import PODS
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from support.daemonsets import POOL_LABEL, Pool
from support.scenario import Object, Stage

NAME = "once"


class Broadcast:
    """The BroadcastJob `once` of a scenario."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self.stage = stage
        self.pool = pool

    def to_document(self, *, pod: Object | None = None, image: str = "busybox:1", **spec: Any) -> Object:
        """A job on the pool; its pods end by themselves after a second."""
        return {
            "apiVersion": BROADCAST_JOBS.api_version,
            "kind": BROADCAST_JOBS.kind,
            "metadata": {"name": NAME},
            "spec": {
                "template": {
                    "metadata": {"labels": {"app": NAME}},
                    "spec": {
                        "containers": [{"name": "main", "image": image}],
                        "restartPolicy": "Never",
                        "nodeSelector": {POOL_LABEL: self.pool.name},
                        **(pod or {}),
                    },
                },
                **spec,
            },
        }

    async def create(self, **spec: Any) -> Object:
        """Create it, and return it as stored."""
        return await self.stage.create(self.to_document(**spec), resource=BROADCAST_JOBS)

    async def get(self) -> Object:
        """The job as stored."""
        return await self.stage.get(NAME, resource=BROADCAST_JOBS)

    async def status(self) -> Object:
        """Status of the job; empty before the first one."""
        status: Object = (await self.get()).get("status") or {}
        return status

    async def change(self, **spec: Any) -> Object:
        """Merge these fields into the spec."""
        return await self.stage.merge(NAME, {"spec": spec}, resource=BROADCAST_JOBS)

    async def phase(self, wanted: str, *, within_s: float | None = None) -> Object:
        """Wait until it is in this phase; its status then."""

        async def is_there() -> Object | None:
            status = await self.status()
            return status if status.get("phase") == wanted else None

        phase: Object = await self.stage.until(is_there, within_s=within_s, what=f"phase {wanted}")
        return phase

    async def counts(self, **wanted: int) -> Object:
        """Wait until the status has these counts."""

        async def are_there() -> Object | None:
            status = await self.status()
            return status if all(status.get(name) == count for name, count in wanted.items()) else None

        counts: Object = await self.stage.until(are_there, what=f"counts {wanted}")
        return counts

    async def pods(self) -> list[PodView]:
        """The job's pods, by name."""
        return await self.stage.pods(NAME)

    async def pod_of(self, node: str) -> PodView:
        """Wait for the node's pod."""

        async def is_there() -> PodView | None:
            return next((pod for pod in await self.pods() if pod.target_node == node), None)

        result: PodView = await self.stage.until(is_there, what=f"a pod for {node}")
        return result

    async def nodes(self) -> set[str]:
        """Nodes with a pod of the job."""
        return {pod.target_node for pod in await self.pods()}

    async def all_ran_once(self) -> bool:
        """Whether each node of the pool has exactly one pod, and it succeeded."""
        listed = await self.stage.client.list(PODS, self.stage.namespace, label_selector=f"app={NAME}")
        result = [decode(raw) for raw in listed.items]
        by_node = Counter(project_pod(raw).target_node for raw in listed.items)
        return by_node == Counter(self.pool.nodes) and all(
            pod["status"]["phase"] == "Succeeded" for pod in result
        )
