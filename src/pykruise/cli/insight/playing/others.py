"""What happens in a play besides the manager's work: nodes are drained, hooks are released, pods fail by chance.

Record.pods ──▶ Others ──▶ requests, as kubectl and owners of hooks send them
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from pykruise.cli.insight.playing.record import Record
from pykruise.cli.insight.playing.values import Drain, Outage, Play
from pykruise.kube.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.pods.lifecycle import LifecycleState
from pykruise.pods.views import PodView
from pykruise.sandbox.faults import Rule

__all__ = ["Others"]

_HOOKED = (LifecycleState.PREPARING_DELETE, LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATED)


class Others:
    """Everybody but the manager. `set_rules` tells kubelets which pods fail."""

    def __init__(
        self,
        given: Play,
        record: Record,
        resource: Resource,
        *,
        client: Client,
        set_rules: Callable[[list[Rule]], None],
    ) -> None:
        self._given = given
        self._record = record
        self._resource = resource
        self._client = client
        self._set_rules = set_rules
        self._rng = random.Random(given.seed)
        self._rules: list[Rule] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """The change is made: drains are due from here on."""
        for drain in self._given.drains:
            self._run(self._drain(drain))
        for outage in self._given.outages:
            self._run(self._lose(outage))

    def end(self) -> None:
        """Nobody does anything any more."""
        for task in self._tasks:
            task.cancel()

    def see(self, before: PodView | None, after: PodView | None) -> None:
        """A pod has changed."""
        if after is None:
            return
        if self._record.has_begun and self._given.fail_share > 0:
            self._fail_by_chance(before, after)
        if self._given.hooks_released_after_s is not None and after.state in _HOOKED:
            self._run(self._serve_hook(after, self._given.hooks_released_after_s))

    def _fail_by_chance(self, before: PodView | None, after: PodView) -> None:
        if before is not None and self._record.revision_of(before) == self._record.revision_of(after):
            return
        if self._rng.random() < self._given.fail_share:
            self._rules.append(Rule(pod=after.name, never_ready=True))
            self._set_rules(self._rules)
            self._record.tell(f"{after.name} will not become ready (by chance)")

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, drain: Drain) -> None:
        await asyncio.sleep(drain.at_s)
        patch = {"spec": {"unschedulable": True}}
        await self._client.patch(NODES, "", drain.node, patch, patch_type=PatchType.MERGE)
        self._record.tell(f"{drain.node} is drained")
        for pod in list(self._record.pods.values()):
            if pod.node_name == drain.node and not pod.is_deleting:
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
                try:
                    await self._client.create(
                        PODS, pod.namespace, body, name=pod.name, subresource="eviction"
                    )
                except ApiError as error:
                    self._record.tell(f"{pod.name} is not evicted: {error}")

    async def _lose(self, outage: Outage) -> None:
        await asyncio.sleep(outage.at_s)
        self._record.tell(f"the nodes of {outage.name} are gone: {', '.join(outage.nodes)}")
        for node in outage.nodes:
            await self._cordon(node, is_on=True)
        for pod in list(self._record.pods.values()):
            if pod.node_name in outage.nodes and not pod.is_deleting:
                with suppress(ApiError):  # gone meanwhile
                    await self._client.delete(PODS, pod.namespace, pod.name, grace_period_s=0)
        if outage.until_s is None:
            return
        await asyncio.sleep(max(outage.until_s - outage.at_s, 0.0))
        for node in outage.nodes:
            await self._cordon(node, is_on=False)
        self._record.tell(f"the nodes of {outage.name} are back")

    async def _cordon(self, node: str, *, is_on: bool) -> None:
        patch = {"spec": {"unschedulable": is_on or None}}
        await self._client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)

    async def _serve_hook(self, pod: PodView, after_s: float) -> None:
        """What a hook's owner does: take it off a pod that prepares, put it on one that is updated."""
        await asyncio.sleep(after_s)
        latest = self._record.pods.get(pod.uid)
        owner = pod.controller.name if pod.controller else ""
        if latest is None or latest.state != pod.state or not owner:
            return
        try:
            workload = decode(await self._client.get(self._resource, pod.namespace, owner))
            name = "preDelete" if pod.state == LifecycleState.PREPARING_DELETE else "inPlaceUpdate"
            hook = (workload["spec"].get("lifecycle") or {}).get(name) or {}
            is_put_on = pod.state == LifecycleState.UPDATED
            labels = {
                key: value if is_put_on else None for key, value in (hook.get("labelsHandler") or {}).items()
            }
            own = list(hook.get("finalizersHandler") or ())
            kept = [one for one in latest.finalizers if one not in own]
            finalizers = [*kept, *own] if is_put_on else kept
            metadata: dict[str, Any] = {"labels": labels}
            if own:
                metadata["finalizers"] = finalizers
            await self._client.patch(
                PODS, pod.namespace, pod.name, {"metadata": metadata}, patch_type=PatchType.MERGE
            )
        except ApiError:
            return  # gone meanwhile
