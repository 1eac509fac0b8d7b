"""Lifecycle hooks in Python: a function that is called before a pod goes, or before it is updated in place.

    hooks = Hooks(label="example.com/drain")

    @hooks.on_pre_delete
    async def drain(pod): ...

    hooks.serve()

watch of pods in a state of the lifecycle ──▶ the function ──▶ the label (or finalizer) is taken off ──▶ it goes on

The workload names the same label in `spec.lifecycle.preDelete.labelsHandler` (`inPlaceUpdate`), with the value "true",
and in its template. A function is called at least once for each pod and each time: again when this program was ended
before the label was off, and, after a while, when it raised. After an update in place the label is put back, which
brings the pod into service.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, system_clock
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.control.controller import Controller, unmeasured
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.keys import STATE_LABEL

__all__ = ["Hooks"]

_log = logging.getLogger(__name__)

Hook = Callable[[Document], Awaitable[None]]
"""Called with the pod as it is stored."""

H = TypeVar("H", bound=Hook)

_VALUE: Final = "true"
_LONGEST_WAIT_S: Final = 60.0
"""Between two calls for a pod whose hook raises."""


class _Pod:
    """A pod, whole."""

    def __init__(self, raw: Any) -> None:
        self.document: Document = decode(raw)
        meta = self.document["metadata"]
        self.namespace: str = meta.get("namespace", "")
        self.name: str = meta["name"]
        self.uid: str = meta["uid"]
        self.resource_version = int(meta["resourceVersion"])

    @property
    def state(self) -> str:
        """Lifecycle state of the pod."""
        labels: Mapping[str, str] = self.document["metadata"].get("labels") or {}
        return labels.get(STATE_LABEL, "")


class Hooks:
    """Functions for the lifecycle of pods that carry `label` (with the value "true") or `finalizer`.

    Raises ValueError when neither or both are given.
    """

    def __init__(self, *, label: str = "", finalizer: str = "") -> None:
        if bool(label) == bool(finalizer):
            raise ValueError("say either label= or finalizer=: what the workload's lifecycle names")
        self._label = label
        self._finalizer = finalizer
        self._hooks: dict[str, Hook] = {}

    def on_pre_delete(self, hook: H) -> H:
        """Decorator: called before a pod is deleted."""
        self._hooks[LifecycleState.PREPARING_DELETE] = hook
        return hook

    def on_in_place_update(self, hook: H) -> H:
        """Decorator: called before a pod is updated in place."""
        self._hooks[LifecycleState.PREPARING_UPDATE] = hook
        return hook

    def on_updated(self, hook: H) -> H:
        """Decorator: called when a pod was updated in place, before it comes back into service."""
        self._hooks[LifecycleState.UPDATED] = hook
        return hook

    def serve(self, *, kubeconfig: str | Path | None = None, namespace: str = "") -> None:
        """Work until Ctrl-C against the cluster of a kubeconfig (None: as kube/config/kubeconfig.py finds it)."""
        asyncio.run(self._serve(kubeconfig, namespace))

    async def _serve(self, kubeconfig: str | Path | None, namespace: str) -> None:
        transport = HttpTransport(await load(kubeconfig))
        try:
            await self.run(Client(transport), namespace=namespace)
        finally:
            await transport.close()

    async def run(
        self,
        client: Client,
        *,
        namespace: str = "",
        workers: int = 10,
        clock: Clock = system_clock,
        rng: random.Random | None = None,
    ) -> None:
        """Work until cancelled. `namespace`: only pods of this one; `workers`: functions at once."""
        rng = rng or random.Random()
        states = {*self._hooks}
        if LifecycleState.PREPARING_UPDATE in states:
            states.add(LifecycleState.UPDATED)
        cache: Cache[_Pod] = Cache(
            client,
            PODS,
            project=_Pod,
            namespace=namespace,
            label_selector=f"{STATE_LABEL} in ({', '.join(sorted(states))})",
            clock=clock,
            rng=rng,
        )
        queue: WorkQueue[Key] = WorkQueue(max_delay_s=_LONGEST_WAIT_S, rng=rng)

        async def handle(key: Key) -> float | None:
            pod = cache.get(key)
            if pod is not None:
                await self._handle(client, pod)
            return None

        def enqueue(change: Change[_Pod]) -> None:
            if change.new is not None:
                queue.add(change.key)

        cache.subscribe(enqueue)
        controller = Controller(
            "hooks", handle, queue=queue, workers=workers, clock=clock, cpu_time=unmeasured
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cache.run())
            tasks.create_task(controller.run())

    async def _handle(self, client: Client, pod: _Pod) -> None:
        is_back = pod.state == LifecycleState.UPDATED
        if self._holds(pod) == is_back:
            return  # let go of already, or held again
        hook = self._hooks.get(pod.state)
        if hook is not None:
            _log.info("%s/%s: %s", pod.namespace, pod.name, pod.state)
            await hook(pod.document)
        try:
            await client.patch(
                PODS, pod.namespace, pod.name, self._patch(pod, on=is_back), patch_type=PatchType.MERGE
            )
        except NotFoundError:
            _log.info("%s/%s is gone", pod.namespace, pod.name)

    def _holds(self, pod: _Pod) -> bool:
        meta = pod.document["metadata"]
        if self._label:
            return (meta.get("labels") or {}).get(self._label) == _VALUE
        return self._finalizer in (meta.get("finalizers") or ())

    def _patch(self, pod: _Pod, *, on: bool) -> Document:
        """Finalizers are a list, which is replaced whole: it must not have changed meanwhile."""
        if self._label:
            return {"metadata": {"uid": pod.uid, "labels": {self._label: _VALUE if on else None}}}
        kept = [
            finalizer
            for finalizer in pod.document["metadata"].get("finalizers") or ()
            if finalizer != self._finalizer
        ]
        return {
            "metadata": {
                "uid": pod.uid,
                "resourceVersion": str(pod.resource_version),
                "finalizers": [*kept, *([self._finalizer] if on else [])],
            }
        }
