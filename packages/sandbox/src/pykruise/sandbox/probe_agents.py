"""The agents of simulated nodes that make the checks of PodProbeMarkers: each those that its NodePodProbe asks for.

NodePodProbes (watched) ──▶ queue, by node ──▶ _sync: probes.advance_check() ──▶ PATCH nodepodprobes/status, events

What a check finds is decided by probes.py and by the kubelets; here are only waiting and writing. Where the API server
serves no NodePodProbes, nothing is done.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from pykruise.kube.cache import Cache, Change
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.ids import Key
from pykruise.kube.node_agent.probe_checks import (
    NODE_POD_PROBES,
    Check,
    CheckKey,
    NodeProbes,
    Seen,
    advance_check,
    checks_in,
    due_at,
    events_of,
    project_node_probes,
    rules_of,
    status_of,
)
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.recorder import EventRecorder
from pykruise.kube.resources import PODS
from pykruise.kube.writer import Writer
from pykruise.sandbox.agents import Agents

__all__ = ["ProbeAgents", "SeenBy"]

SeenBy = Callable[[Key, str, str, str], Seen | None]
"""Pod, its uid, container and probe to what the probe finds now; None: no such container has been started."""


class ProbeAgents(Agents):
    """The agents of all simulated nodes.

    `has_power`: whether there is such a node, and it works. `seen_by`: what a probe finds.
    """

    def __init__(
        self,
        client: Client,
        *,
        has_power: Callable[[str], bool],
        seen_by: SeenBy,
        clock: Clock,
        rng: random.Random,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._has_power = has_power
        self._seen_by = seen_by
        self._recorder = recorder
        self.node_probes = Cache(client, NODE_POD_PROBES, project=project_node_probes, clock=clock, rng=rng)
        self.node_probes.subscribe(self._on_change)
        self._writer = Writer(client, {NODE_POD_PROBES: self.node_probes})
        self._checks: dict[str, dict[CheckKey, Check]] = {}
        self.status_writes = 0
        super().__init__("probe agents", self.node_probes, clock=clock, rng=rng)

    def wake(self, node: str) -> None:
        """Something about the node is not as it was."""
        self._queue.add(Key("", node))

    def _on_change(self, change: Change[NodeProbes]) -> None:
        if change.new is None:
            self._checks.pop(change.key.name, None)
        self._queue.add(change.key)

    async def _sync(self, key: Key) -> float | None:
        """Make the checks that are due. Returns in how many seconds the next one is."""
        view = self.node_probes.get(key)
        if view is None or not self._has_power(key.name):
            return None
        now = self._clock()
        before = self._checks.get(view.name, {})
        checks: dict[CheckKey, Check] = {}
        next_at: list[Instant] = []
        for pod, probe in checks_in(view.spec):
            name = pod["uid"], probe["name"]
            seen = self._seen_by(
                Key(pod["namespace"], pod["name"]), pod["uid"], probe["containerName"], probe["name"]
            )
            rules = rules_of(probe)
            checks[name] = advance_check(rules, before.get(name), seen, now)
            next_at.append(due_at(rules, checks[name]))
        self._checks[view.name] = checks
        await self._report(view, checks, now)
        self._tell(view, before, checks)
        return max(0.0, min(next_at) - self._clock()) if next_at else None

    async def _report(self, view: NodeProbes, checks: Mapping[CheckKey, Check], now: Instant) -> None:
        patch = diff_merge(view.status, status_of(view.spec, view.status, checks, now))
        if not patch:
            return
        body: dict[str, Any] = {"metadata": {"uid": view.uid}, "status": patch}
        key = Key("", view.name)
        self.status_writes += await self._writer.patch_status(NODE_POD_PROBES, key, body, uid=view.uid)

    def _tell(
        self, view: NodeProbes, before: Mapping[CheckKey, Check], after: Mapping[CheckKey, Check]
    ) -> None:
        """An event on the pod for each outcome that is another one."""
        if self._recorder is None:
            return
        for event in events_of(view.spec, before, after):
            self._recorder.record(
                PODS,
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                reason=event.reason,
                message=event.message,
            )
