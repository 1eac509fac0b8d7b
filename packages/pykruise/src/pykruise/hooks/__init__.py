"""Lifecycle hooks in Python: functions that are called before a pod is deleted or updated in place.

    hooks = Hooks(label="example.com/drain")

    @hooks.on_pre_delete
    async def drain(pod): ...

    hooks.serve()

watch of pods in a lifecycle state ──▶ the function ──▶ the label (or finalizer) is removed ──▶ the workload continues

The workload must have the same label, with the value "true", in `spec.lifecycle.preDelete.labelsHandler` (or
`inPlaceUpdate`) and in its pod template. For each pod and each state, the function is called at least once. It is
called again if this program ended before the label was removed, and, after a delay, if the function raised an
exception. After an in-place update, this program adds the label again, and the pod returns to service.

A workload can cancel the deletion or the update while the function runs: the pod then leaves the state. In this case
the label stays, and the function is called again before the next deletion or update.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.control.controller import Controller, skip_measuring
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.view.keys import STATE_LABEL, STATE_TIME_ANNOTATION

__all__ = ["Hooks"]

_log = logging.getLogger(__name__)

Hook = Callable[[Document], Awaitable[None]]
"""A function that is called with the complete document of a pod."""

H = TypeVar("H", bound=Hook)

_VALUE: Final = "true"
_LONGEST_WAIT_S: Final = 60.0
"""Maximum delay in seconds between two calls for a pod whose hook raises an exception."""


class _Occasion(msgspec.Struct, frozen=True):
    """One stay of a pod in a lifecycle state: the reason for one call."""

    uid: str
    state: str
    since: str
    """Time at which the pod got the state; empty if the pod does not have the annotation."""


class _Pod:
    """The complete document of a pod."""

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

    @property
    def occasion(self) -> _Occasion:
        """The stay of the pod in its lifecycle state."""
        annotations: Mapping[str, str] = self.document["metadata"].get("annotations") or {}
        return _Occasion(self.uid, self.state, annotations.get(STATE_TIME_ANNOTATION, ""))


class Hooks:
    """Functions that are called in the lifecycle of pods with `label` (with the value "true") or with `finalizer`.

    Raises ValueError unless exactly one of `label` and `finalizer` is given.
    """

    def __init__(self, *, label: str = "", finalizer: str = "") -> None:
        if bool(label) == bool(finalizer):
            raise ValueError("pass either label= or finalizer=: the one in spec.lifecycle of the workload")
        self._label = label
        self._finalizer = finalizer
        self._hooks: dict[str, Hook] = {}

    def on_pre_delete(self, hook: H) -> H:
        """Register a function that is called before a pod is deleted. Use it as a decorator."""
        self._hooks[LifecycleState.PREPARING_DELETE] = hook
        return hook

    def on_in_place_update(self, hook: H) -> H:
        """Register a function that is called before a pod is updated in place. Use it as a decorator."""
        self._hooks[LifecycleState.PREPARING_UPDATE] = hook
        return hook

    def on_updated(self, hook: H) -> H:
        """Register a function that is called after a pod was updated in place, and before the pod returns to service.
        Use it as a decorator.
        """
        self._hooks[LifecycleState.UPDATED] = hook
        return hook

    def serve(self, *, kubeconfig: str | Path | None = None, namespace: str = "") -> None:
        """Run until Ctrl-C. `kubeconfig`: path of the kubeconfig; if None, use $KUBECONFIG, the service account of this
        pod, or ~/.kube/config. `namespace`: watch only pods of this namespace; if empty, of all namespaces.
        """
        asyncio.run(self._serve_cluster(kubeconfig, namespace))

    async def _serve_cluster(self, kubeconfig: str | Path | None, namespace: str) -> None:
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
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
    ) -> None:
        """Run until this is cancelled. `namespace`: watch only pods of this namespace; if empty, of all namespaces.
        `workers`: maximum number of concurrent calls. Tests can set `clock`, and `rng` for the jitter of delays.
        """
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
        returned: dict[Key, _Occasion] = {}

        async def handle(key: Key) -> float | None:
            pod = cache.get(key)
            if pod is None or self._is_done(pod):
                returned.pop(key, None)
                return None
            if returned.get(key) != pod.occasion:
                await self._call(pod)
                returned[key] = pod.occasion
            await self._finish(client, cache, pod)
            del returned[key]
            return None

        def enqueue(change: Change[_Pod]) -> None:
            if change.new is not None:
                queue.add(change.key)

        cache.subscribe(enqueue)
        controller = Controller(
            "hooks", handle, queue=queue, workers=workers, clock=clock, cpu_time=skip_measuring
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cache.run())
            tasks.create_task(controller.run())

    def _is_done(self, pod: _Pod) -> bool:
        """Whether the label or finalizer was already removed, or already added again after an update."""
        return self._is_held(pod) == (pod.state == LifecycleState.UPDATED)

    async def _call(self, pod: _Pod) -> None:
        hook = self._hooks.get(pod.state)
        if hook is not None:
            _log.info("%s/%s: %s", pod.namespace, pod.name, pod.state)
            await hook(pod.document)

    async def _finish(self, client: Client, cache: Cache[_Pod], pod: _Pod) -> None:
        """Remove the label or finalizer, or add it again after an update, unless the pod left the state during the
        call. `pod`: the pod as it was at the call. Raises ConflictError if the pod changes between the read and the
        patch.
        """
        try:
            raw = await client.get(PODS, pod.namespace, pod.name)
            cache.observe_written(raw)
            stored = _Pod(raw)
            if stored.occasion != pod.occasion:
                _log.info(
                    "%s/%s: the pod left the state %s during the call", pod.namespace, pod.name, pod.state
                )
            elif not self._is_done(stored):
                patch = self._build_patch(stored)
                raw = await client.patch(PODS, pod.namespace, pod.name, patch, patch_type=PatchType.MERGE)
                cache.observe_written(raw)
        except NotFoundError:
            _log.info("%s/%s was deleted", pod.namespace, pod.name)
            cache.observe_deleted(Key(pod.namespace, pod.name), pod.uid, b"")

    def _is_held(self, pod: _Pod) -> bool:
        meta = pod.document["metadata"]
        if self._label:
            return (meta.get("labels") or {}).get(self._label) == _VALUE
        return self._finalizer in (meta.get("finalizers") or ())

    def _build_patch(self, pod: _Pod) -> Document:
        """Return the patch that removes the label or finalizer, or adds it again after an update. It contains the
        resourceVersion: it must fail if the state has changed, or if another client changed the list of finalizers,
        because a merge patch replaces the whole list.
        """
        is_added = pod.state == LifecycleState.UPDATED
        meta: Document = {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}
        if self._label:
            return {"metadata": {**meta, "labels": {self._label: _VALUE if is_added else None}}}
        kept = [
            finalizer
            for finalizer in pod.document["metadata"].get("finalizers") or ()
            if finalizer != self._finalizer
        ]
        return {"metadata": {**meta, "finalizers": [*kept, *([self._finalizer] if is_added else [])]}}
