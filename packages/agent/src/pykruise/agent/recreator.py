"""Executes ContainerRecreateRequests for pods of this node: stops containers, which the kubelet starts again.

ContainerRecreateRequests (watched) ──▶ queue, by pod ──▶ _sync: recreations.advance() ──▶ PATCH …/status
runtime's events ───────────────────────┘                        └── preStop hook, StopContainer

The requests of a pod are executed one at a time. All state is in the status: if the agent is killed, the next agent
continues. A preStop hook that was running at that time runs again (rules/recreations.py). While a runtime is
unreachable, the agent waits for it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from pykruise.agent.containers import PodRef, Stop, build_scheme_id, list_newest_containers, stop
from pykruise.agent.cri.changes import RuntimeChanges
from pykruise.agent.cri.errors import CriError, RuntimeGoneError
from pykruise.agent.cri.runtimes import Runtime, Runtimes
from pykruise.agent.cri.values import CriContainer
from pykruise.agent.rules.recreations import (
    REQUESTS,
    OnNode,
    RecreateRequest,
    RecreateTurn,
    advance,
    compute_grace_left_s,
    is_over,
    order_of,
    project_request,
    record_failed_stop,
    stop_grace_s,
)
from pykruise.agent.tenant_places import TenantPlaces
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.documents import get_path
from pykruise.kube.excerpts import fit_status
from pykruise.kube.ids import Key

_log = logging.getLogger(__name__)

_BY_POD: Final = "pod"
_BY_UID: Final = "uid"
PLACES: Final = 128
"""Maximum number of pods in which a container is stopped at the same time (tenant_places.py). Stopping a container
takes at most its grace period.
"""
PLACE_PAUSE_S: Final = 1.0
"""Seconds after which a pod without a place tries again."""
WORKERS: Final = PLACES + 8
GRACE_MARGIN_S: Final = 0.1
PAGE_SIZE: Final = 10
"""Requests per page of a list. A request can have 256 KiB of annotations."""


class Recreator:
    """Executes the requests of one node. It works from `run()` until `stop()`."""

    name = "recreator"

    def __init__(
        self,
        client: Client,
        runtimes: Runtimes,
        *,
        node: str,
        recorder: EventRecorder,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._runtimes = runtimes
        self._recorder = recorder
        self._clock = clock
        indexes: dict[str, Callable[[RecreateRequest], tuple[Hashable, ...]]] = {
            _BY_POD: lambda request: (request.pod,),
            _BY_UID: lambda request: (request.pod_uid,),
        }
        self.cache = Cache(
            client,
            REQUESTS,
            project=project_request,
            indexes=indexes,
            label_selector=f"crr.apps.kruise.io/node-name={node},crr.apps.kruise.io/active=true",
            clock=clock,
            rng=rng,
            page_size=PAGE_SIZE,
        )
        self.cache.subscribe(self._on_change)
        self._writer = Writer(client, {REQUESTS: self.cache})
        self._places = TenantPlaces(PLACES, most_of_pod=1)
        self._changes = {
            runtime.name: RuntimeChanges(runtime, self._on_container_change) for runtime in runtimes.all
        }
        queue: WorkQueue[Key] = WorkQueue(cost_factor=0, base_delay_s=0.5, max_delay_s=50.0, rng=rng)
        self.controller = Controller("recreator", self._sync, queue=queue, workers=WORKERS, clock=clock)

    async def run(self) -> None:
        """Execute requests until `stop()`."""
        following = [
            asyncio.get_running_loop().create_task(change.run(), name=f"events of {name}")
            for name, change in self._changes.items()
        ]
        try:
            await self.controller.run()
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    async def stop(self, *, grace_s: float) -> None:
        """Finish stopping containers within `grace_s`; then `run()` returns."""
        await self.controller.stop(grace_s=grace_s)

    def _on_change(self, change: Change[RecreateRequest]) -> None:
        for request in (change.old, change.new):
            if request is not None:
                self.controller.queue.add(request.pod)

    def _on_container_change(self, pod_uid: str) -> None:
        """Enqueue the pod whose containers changed if it has requests; if no uid is given, all pods with requests."""
        for request in self.cache.list_by_index(_BY_UID, pod_uid) if pod_uid else self.cache.values():
            self.controller.queue.add(request.pod)

    # ── one turn ─────────────────────────────────────────────────────────────

    async def _sync(self, pod: Key) -> float | None:
        open_ = [item for item in self.cache.list_by_index(_BY_POD, pod) if not is_over(item.document)]
        if not open_:
            return None
        first, *later = sorted(open_, key=lambda item: order_of(item.document))
        for request in later:
            if not get_path(request.document, "status", "phase"):
                await self._report_status(request, {"phase": "Pending"})
        if get_path(first.document, "status", "phase") != "Recreating":
            await self._report_status(first, {"phase": "Recreating"})
            return 0.0
        left_s = compute_grace_left_s(first.document, self._clock())
        if left_s is None or left_s > 0:
            return None if left_s is None else left_s + GRACE_MARGIN_S
        runtime, problem = self._find_runtime(first)
        if runtime is None:
            await self._complete_request(first, f"failed to find runtime service: {problem}")
            return None
        return await self._carry_out(first, runtime)

    def _find_runtime(self, request: RecreateRequest) -> tuple[Runtime | None, str]:
        """Return the runtime in which all requested containers run, or the reason why there is no such runtime."""
        ids = [
            str(get_path(container, "statusContext", "containerID", default=""))
            for container in get_path(request.document, "spec", "containers", default=())
        ]
        names = sorted({text.partition("://")[0] for text in ids})
        if len(names) != 1:
            return None, f"the containers belong to different container runtimes: {', '.join(names)}"
        runtime = self._runtimes.find_runtime(ids[0])
        known = ", ".join(runtime.name for runtime in self._runtimes.all)
        return runtime, "" if runtime else f"this node has no container runtime {names[0]!r}; it has {known}"

    async def _carry_out(self, request: RecreateRequest, runtime: Runtime) -> float | None:
        containers = await list_newest_containers(runtime.client, _ref_of(request))
        on_node = {
            name: await self._on_node(runtime, container)
            for name, container in containers.items()
            if name in _list_container_names(request)
        }
        turn = advance(request.document, on_node, self._clock())
        if turn.is_over:
            await self._complete_request(request, "")
            return None
        if turn.stop:
            if not self._places.try_take(request.namespace, request.pod.name):
                return PLACE_PAUSE_S
            try:
                turn = await self._stop_container(request, runtime, containers[turn.stop], turn)
            finally:
                self._places.release(request.namespace, request.pod.name)
        if list(turn.states) != get_path(request.document, "status", "containerRecreateStates", default=[]):
            await self._report_status(request, {"containerRecreateStates": list(turn.states)})
            return 0.0
        poll_s = self._changes[runtime.name].poll_s
        return poll_s if turn.again_s is None else min(poll_s, turn.again_s)

    async def _on_node(self, runtime: Runtime, container: CriContainer) -> OnNode:
        started_at = 0.0
        if container.is_running:
            started_at = (await runtime.client.read_container_status(container.id)).started_at
        return OnNode(
            id=build_scheme_id(runtime, container),
            restart_count=container.restart_count,
            is_running=container.state != "exited",
            started_at=started_at,
        )

    async def _stop_container(
        self, request: RecreateRequest, runtime: Runtime, container: CriContainer, turn: RecreateTurn
    ) -> RecreateTurn:
        """Stop the turn's container. If the runtime is unreachable, the turn is repeated and does not fail."""
        target = next(
            item for item in request.document["spec"]["containers"] if item["name"] == container.name
        )
        how = Stop(
            grace_s=stop_grace_s(request.document),
            pre_stop=target.get("preStop"),
            ports=target.get("ports") or (),
            because=f"ContainerRecreateRequest {request.name}",
        )
        _log.info(
            "stopping container %s of pod %s for ContainerRecreateRequest %s",
            container.name,
            request.pod,
            request.name,
        )
        try:
            await stop(runtime.client, container, _ref_of(request), how, recorder=self._recorder)
        except RuntimeGoneError:
            raise
        except CriError as error:
            return record_failed_stop(turn, str(error) or type(error).__name__)
        return turn

    # ── the status ───────────────────────────────────────────────────────────

    async def _complete_request(self, request: RecreateRequest, message: str) -> None:
        status: dict[str, Any] = {"phase": "Completed", "completionTime": format_time(self._clock())}
        await self._report_status(request, {**status, **({"message": message} if message else {})})

    async def _report_status(self, request: RecreateRequest, status: Mapping[str, Any]) -> None:
        key = Key(request.namespace, request.name)
        body = {"metadata": {"uid": request.uid}, "status": fit_status(dict(status))}
        await self._writer.patch_status(REQUESTS, key, body, uid=request.uid)


def _ref_of(request: RecreateRequest) -> PodRef:
    return PodRef(namespace=request.namespace, name=request.pod.name, uid=request.pod_uid)


def _list_container_names(request: RecreateRequest) -> set[str]:
    return {container["name"] for container in get_path(request.document, "spec", "containers", default=())}
