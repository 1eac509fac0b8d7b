"""The agents of simulated nodes that recreate containers: each executes the requests for pods of its node.

ContainerRecreateRequests (watched) ──▶ queue, by pod ──▶ _sync: recreations.advance() ──▶ PATCH …/status
                                                                 └── a container is stopped; its kubelet restarts it

The requests of a pod are executed one at a time. If the API server does not serve ContainerRecreateRequests, nothing
is done.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

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
    stop_grace_s,
)
from pykruise.agent.simulated.part import AgentPart
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.clock import format_time
from pykruise.kube.documents import get_path
from pykruise.kube.ids import Key
from pykruise.sandbox.nodes.agents import NodeAccess
from pykruise.sandbox.nodes.pod_state import RunState

_BY_POD: Final = "pod"


class RecreateAgents(AgentPart):
    """The agents of all simulated nodes."""

    def __init__(self, access: NodeAccess) -> None:
        client, clock, rng = access.client, access.clock, access.rng
        self._runs_of = access.runtime.runs_of
        self._stop_container = access.runtime.stop_container
        indexes: dict[str, Callable[[RecreateRequest], tuple[Hashable, ...]]] = {
            _BY_POD: lambda request: (request.pod,)
        }
        self._requests = Cache(
            client, REQUESTS, project=project_request, indexes=indexes, clock=clock, rng=rng
        )
        self._requests.subscribe(self._on_change)
        self._writer = Writer(client, {REQUESTS: self._requests})
        super().__init__("recreate agents", self._requests, clock=clock, rng=rng)

    def note_containers(self, key: Key, uid: str) -> None:
        """See `AgentPart`."""
        if self._requests.list_by_index(_BY_POD, key):
            self._queue.add(key)

    def _find_containers(self, key: Key, uid: str) -> Mapping[str, OnNode] | None:
        """Return, by name, the containers of the pod with this uid; None if no node that has power runs the pod."""
        runs = self._runs_of(key, uid)
        if runs is None:
            return None
        return {
            name: OnNode(
                id=run.container_id,
                restart_count=run.number - 1,
                is_running=run.state is RunState.RUNNING,
                started_at=run.since,
            )
            for name, run in runs.items()
        }

    def _on_change(self, change: Change[RecreateRequest]) -> None:
        for request in (change.old, change.new):
            if request is not None:
                self._queue.add(request.pod)

    async def _sync(self, pod: Key) -> float | None:
        open_ = [item for item in self._requests.list_by_index(_BY_POD, pod) if not is_over(item.document)]
        if not open_:
            return None
        first, *later = sorted(open_, key=lambda item: order_of(item.document))
        containers = self._find_containers(pod, first.pod_uid)
        if containers is None:
            return None
        for request in later:
            if not get_path(request.document, "status", "phase"):
                await self._report_status(request, {"phase": "Pending"})
        if get_path(first.document, "status", "phase") != "Recreating":
            await self._report_status(first, {"phase": "Recreating"})
            return None
        left_s = compute_grace_left_s(first.document, self._clock())
        if left_s is None or left_s > 0:
            return None if left_s is None else left_s
        return await self._carry_out(first, advance(first.document, containers, self._clock()))

    async def _carry_out(self, request: RecreateRequest, turn: RecreateTurn) -> float | None:
        if turn.is_over:
            now = format_time(self._clock())
            await self._report_status(request, {"phase": "Completed", "completionTime": now})
            return None
        if turn.stop:
            grace_s = float(stop_grace_s(request.document))
            await self._stop_container(request.pod, turn.stop, grace_s)
            if self._find_containers(request.pod, request.pod_uid) is None:
                return None  # the node has lost power since then, and its agent has stopped
        if turn.states != get_path(request.document, "status", "containerRecreateStates", default=[]):
            await self._report_status(request, {"containerRecreateStates": list(turn.states)})
            return None
        return turn.again_s

    async def _report_status(self, request: RecreateRequest, status: Mapping[str, Any]) -> None:
        key = Key(request.namespace, request.name)
        body = {"metadata": {"uid": request.uid}, "status": dict(status)}
        await self._writer.patch_status(REQUESTS, key, body, uid=request.uid)
