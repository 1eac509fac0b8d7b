"""Other actors of a simulation: nodes are drained, hooks are released, pods fail at random.

PlayRecord.pods ──▶ Others ──▶ requests, as kubectl and owners of hooks send them
"""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from pykruise.cli.insight.simulating.record import PlayRecord
from pykruise.cli.insight.simulating.values import Drain, NodeChange, Outage, Play
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.pod_view import PodView
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.specs import make_node_specs

_HOOKED = (LifecycleState.PREPARING_DELETE, LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATED)

AGAIN_S: Final = 5.0
"""Seconds after which `kubectl drain` retries the eviction of a pod that a budget protects."""


class Others:
    """All actors except the manager. `is_job`: pods run to completion."""

    def __init__(
        self,
        given: Play,
        record: PlayRecord,
        resource: Resource,
        *,
        client: Client,
        kubelets: Kubelets,
        is_job: bool = False,
    ) -> None:
        self._given = given
        self._record = record
        self._resource = resource
        self._client = client
        self._kubelets = kubelets
        self._is_job = is_job
        self._rng = random.Random(given.seed)
        self._rules: list[Rule] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start the drains, node changes and outages; call it after the change is made."""
        for drain in self._given.drains:
            self._start(self._drain(drain))
        for change in self._given.node_changes:
            self._start(self._change_node(change))
        for outage in self._given.outages:
            self._start(self._run_outage(outage))

    def end(self) -> None:
        """End all actions."""
        for task in self._tasks:
            task.cancel()

    def see(self, before: PodView | None, after: PodView | None) -> None:
        """Handle the change of a pod."""
        if after is None:
            return
        if self._is_job:
            if before is None:
                self._end_after_a_while(after)
        elif self._record.has_begun and self._given.fail_share > 0:
            self._fail_by_chance(before, after)
        if self._given.hooks_released_after_s is not None and after.state in _HOOKED:
            self._start(self._serve_hook(after, self._given.hooks_released_after_s))

    def _fail_by_chance(self, before: PodView | None, after: PodView) -> None:
        if before is not None and self._record.revision_of(before) == self._record.revision_of(after):
            return
        if self._rng.random() < self._given.fail_share:
            self._rules.append(Rule(pod=after.name, never_ready=True))
            self._kubelets.set_rules(self._rules)
            self._record.tell(f"{after.name} will not become ready (by chance)")

    def _end_after_a_while(self, pod: PodView) -> None:
        fails = self._rng.random() < self._given.fail_share
        after_s = self._rng.uniform(*self._given.takes_s)
        self._rules.append(Rule(pod=pod.name, exit_code=int(fails), after_s=after_s))
        self._kubelets.set_rules(self._rules)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, drain: Drain) -> None:
        await asyncio.sleep(drain.at_s)
        patch = {"spec": {"unschedulable": True}}
        await self._client.patch(NODES, "", drain.node, patch, patch_type=PatchType.MERGE)
        self._record.tell(f"{drain.node} is drained")
        recorded: set[str] = set()
        while left := [pod for pod in self._record.pods.values() if _is_on(pod, drain.node)]:
            for pod in left:
                if (error := await self._evict(pod)) is not None and pod.uid not in recorded:
                    recorded.add(pod.uid)
                    self._record.tell(f"{pod.name} is not evicted: {error}")
            await asyncio.sleep(AGAIN_S)

    async def _evict(self, pod: PodView) -> ApiError | None:
        """Evict a pod and return the error of a rejected eviction; None if there was no error, or a budget denied the
        eviction, which is counted separately.
        """
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
        kept = self._record.kept.total()
        try:
            await self._client.create(PODS, pod.namespace, body, name=pod.name, subresource="eviction")
        except NotFoundError:
            return None
        except ApiError as error:
            return error if self._record.kept.total() == kept else None
        return None

    async def _change_node(self, change: NodeChange) -> None:
        await asyncio.sleep(change.at_s)
        if change.joins:
            (like,) = make_node_specs(1)
            self._kubelets.add_node(msgspec.structs.replace(like, name=change.node))
            self._record.tell(f"{change.node} joins")
            return
        self._kubelets.stop_node(change.node)
        await self._client.delete(NODES, "", change.node)
        self._record.tell(f"{change.node} leaves")

    async def _run_outage(self, outage: Outage) -> None:
        await asyncio.sleep(outage.at_s)
        self._record.tell(f"the nodes of {outage.name} failed: {', '.join(outage.nodes)}")
        for node in outage.nodes:
            await self._cordon(node, is_on=True)
        for pod in list(self._record.pods.values()):
            if pod.node_name in outage.nodes and not pod.is_deleting:
                with suppress(ApiError):  # the pod was deleted meanwhile
                    await self._client.delete(PODS, pod.namespace, pod.name, grace_period_s=0)
        if outage.until_s is None:
            return
        await asyncio.sleep(max(outage.until_s - outage.at_s, 0.0))
        for node in outage.nodes:
            await self._cordon(node, is_on=False)
        self._record.tell(f"the nodes of {outage.name} have recovered")

    async def _cordon(self, node: str, *, is_on: bool) -> None:
        patch = {"spec": {"unschedulable": is_on or None}}
        await self._client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)

    async def _serve_hook(self, pod: PodView, after_s: float) -> None:
        """Act as a hook's owner: remove the hook from a pod that prepares for its deletion or update, and set it on an
        updated pod.
        """
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
            kept = [finalizer for finalizer in latest.finalizers if finalizer not in own]
            finalizers = [*kept, *own] if is_put_on else kept
            metadata: dict[str, Any] = {"labels": labels}
            if own:
                metadata["finalizers"] = finalizers
            await self._client.patch(
                PODS, pod.namespace, pod.name, {"metadata": metadata}, patch_type=PatchType.MERGE
            )
        except ApiError:
            return  # the pod was deleted meanwhile


def _is_on(pod: PodView, node: str) -> bool:
    """Whether a drain of the node must still evict the pod."""
    return pod.node_name == node and pod.is_active
