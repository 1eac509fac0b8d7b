"""StatefulSets in scenarios: documents, the actions of a test, and the states that it waits for.

sets = Sets(stage); await sets.create("web", replicas=3); await sets.settled(replicas=3)
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.ordinals import split_name
from support.scenario import Object, Stage, rolling

GATE = {"conditionType": keys.IN_PLACE_READY}


def statefulset(
    name: str = "web", *, replicas: int = 3, image: str = "nginx:1", parallel: bool = False, **spec: Any
) -> Object:
    """An Advanced StatefulSet with one container; keywords are further fields of the spec."""
    return {
        "apiVersion": ADVANCED_STATEFUL_SETS.api_version,
        "kind": ADVANCED_STATEFUL_SETS.kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "serviceName": name,
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}], "readinessGates": [GATE]},
            },
            **spec,
        },
    }


def in_place(**fields: Any) -> Object:
    """An updateStrategy that updates pods in place if possible."""
    return rolling(podUpdatePolicy="InPlaceIfPossible", **fields)


def claim_template(name: str = "data", size: str = "1Gi", **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


class Sets:
    """StatefulSets of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def create(self, name: str = "web", **spec: Any) -> Object:
        """Create a StatefulSet, and return it as stored."""
        return await self.stage.create(statefulset(name, **spec), resource=ADVANCED_STATEFUL_SETS)

    async def get(self, name: str = "web") -> Object:
        """The set as stored."""
        return await self.stage.get(name, resource=ADVANCED_STATEFUL_SETS)

    async def status(self, name: str = "web") -> Object:
        """Status of the set; empty before the first one."""
        status: Object = (await self.get(name)).get("status") or {}
        return status

    async def condition(self, kind: str, name: str = "web") -> Object | None:
        """The set's condition of this type."""
        conditions = (await self.status(name)).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == kind), None)

    async def change(self, name: str = "web", **spec: Any) -> Object:
        """Merge these fields into the spec."""
        return await self.stage.merge(name, {"spec": spec}, resource=ADVANCED_STATEFUL_SETS)

    async def set_image(self, image: str, name: str = "web", **spec: Any) -> Object:
        """Change the image of the template (and further fields of the spec)."""
        containers = [{"name": "main", "image": image}]
        return await self.change(name, template={"spec": {"containers": containers}}, **spec)

    async def scale(self, replicas: int, name: str = "web") -> Object:
        """Change the replicas through the scale subresource."""
        patch = {"spec": {"replicas": replicas}}
        return await self.stage.merge(name, patch, resource=ADVANCED_STATEFUL_SETS, subresource="scale")

    async def delete(self, name: str = "web", **options: Any) -> None:
        """Delete the set."""
        await self.stage.delete(name, resource=ADVANCED_STATEFUL_SETS, **options)

    async def pods(self, name: str = "web") -> dict[int, PodView]:
        """The set's pods by ordinal."""
        return {split_name(pod.name)[1]: pod for pod in await self.stage.pods(name)}

    async def uids(self, name: str = "web") -> dict[int, str]:
        return {ordinal: pod.uid for ordinal, pod in (await self.pods(name)).items()}

    async def images(self, name: str = "web") -> dict[int, str]:
        """The image of each pod, by ordinal."""
        return {ordinal: pod.containers[0].image for ordinal, pod in (await self.pods(name)).items()}

    async def label(self, pod: str, labels: dict[str, str | None]) -> None:
        """Set labels of a pod; None removes one."""
        await self.stage.merge(pod, {"metadata": {"labels": labels}}, resource=PODS)

    async def settled(
        self,
        name: str = "web",
        *,
        replicas: int | None = None,
        ordinals: Iterable[int] | None = None,
        updated: int | None = None,
        within_s: float | None = None,
    ) -> Object:
        """Wait for available pods with exactly these ordinals (default: the first `replicas`); `updated` are new."""
        wanted = list(range(replicas or 0) if ordinals is None else ordinals)
        count = len(wanted)

        async def is_settled() -> Object | None:
            outcome = await self.get(name)
            status = outcome.get("status") or {}
            counters = {
                "observedGeneration": outcome["metadata"]["generation"],
                "replicas": count,
                "readyReplicas": count,
                "availableReplicas": count,
                "updatedReplicas": count if updated is None else updated,
            }
            if any(status.get(field) != value for field, value in counters.items()):
                return None
            return outcome if sorted(await self.pods(name)) == wanted else None

        result: Object = await self.stage.until(
            is_settled, within_s=within_s, what=f"{name} settled with pods {wanted}"
        )
        return result

    async def until(self, claim: Any, *, what: str = "") -> Any:
        """Like `Stage.until`; a failure also shows the set's status."""
        try:
            return await self.stage.until(claim, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self.status()}") from None


class Order:
    """Watches pods of one set: their names, and the maximum of existing and of unavailable pods.

    `most_down`: the maximum of wanted pods that did not serve, since `from_now()`. `broken`: pods that were created
    while a pod with a lower ordinal was missing or did not serve (for OrderedReady).
    """

    def __init__(self, stage: Stage, app: str) -> None:
        self.cache: Cache[PodView] = Cache(
            stage.client,
            PODS,
            project=project_pod,
            namespace=stage.namespace,
            label_selector=f"app={app}",
            clock=stage.clock,
            rng=stage.rng,
        )
        self.cache.subscribe(self._on_change)
        self._live: dict[Key, PodView] = {}
        self._wanted: frozenset[int] = frozenset()
        self.uids: set[str] = set()
        self.ordinals: set[int] = set()
        self.broken: list[str] = []
        self.restarted: list[int] = []
        """Ordinals in the order in which pods became ready with another image or as new pods."""
        self.most_down = 0

    def from_now(self, *wanted: int) -> None:
        """Reset the records; `most_down` counts these ordinals."""
        self._wanted = frozenset(wanted)
        self.most_down = 0
        self.restarted = []
        self.uids = {pod.uid for pod in self._live.values()}
        self.broken = []

    def _on_change(self, change: Change[PodView]) -> None:
        old, pod = self._live.get(change.key), change.new
        if pod is None or not pod.is_active:
            self._live.pop(change.key, None)
        else:
            ordinal = split_name(pod.name)[1]
            if pod.uid not in self.uids:
                self.uids.add(pod.uid)
                self._check_order(ordinal)
            self.ordinals.add(ordinal)
            self._live[change.key] = pod
            was = (old.uid, old.containers[0].image) if old is not None and old.is_ready else None
            if pod.is_ready and was is None:
                self.restarted.append(ordinal)
        serving = {split_name(pod.name)[1] for pod in self._live.values() if pod.is_serving}
        self.most_down = max(self.most_down, len(self._wanted - serving))

    def _check_order(self, ordinal: int) -> None:
        lower = [pod for pod in self._live.values() if split_name(pod.name)[1] < ordinal]
        down = [pod.name for pod in lower if not pod.is_serving]
        if down or len(lower) < sum(number < ordinal for number in self._wanted):
            self.broken.append(f"pod {ordinal} was made while {down or 'one'} below it did not serve")


@asynccontextmanager
async def watching(stage: Stage, *, app: str = "web") -> AsyncIterator[Order]:
    """An `Order` that watches while the block runs."""
    seen = Order(stage, app)
    running = asyncio.create_task(seen.cache.run())
    try:
        await seen.cache.wait_synced()
        yield seen
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
