"""The agents of simulated nodes that run the probes of PodProbeMarkers, as the NodePodProbe of each node requests.

NodePodProbes (watched) ──▶ queue, by node ──▶ _sync: probe_checks.advance_check() ──▶ PATCH nodepodprobes/status,
events

agent/rules/probe_checks.py and the simulated kubelets decide the result of a probe; this module only waits and
writes. If the API server does not serve NodePodProbes, nothing is done.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.agent.rules.probe_checks import (
    FAILED,
    NODE_POD_PROBES,
    SUCCEEDED,
    Check,
    CheckKey,
    NodeProbes,
    SeenProbe,
    advance_check,
    compute_due_time,
    events_of,
    iterate_checks,
    project_node_probes,
    rules_of,
    status_of,
)
from pykruise.agent.simulated.part import AgentPart
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.resources import PODS
from pykruise.sandbox.nodes.agents import NodeAccess
from pykruise.sandbox.nodes.runtime import ProbeOutcome


class ProbeAgents(AgentPart):
    """The agents of all simulated nodes."""

    def __init__(self, access: NodeAccess, *, recorder: EventRecorder) -> None:
        client, clock, rng = access.client, access.clock, access.rng
        self._runtime = access.runtime
        self._recorder = recorder
        self.node_probes = Cache(client, NODE_POD_PROBES, project=project_node_probes, clock=clock, rng=rng)
        self.node_probes.subscribe(self._on_change)
        self._writer = Writer(client, {NODE_POD_PROBES: self.node_probes})
        self._checks: dict[str, dict[CheckKey, Check]] = {}
        self.status_writes = 0
        super().__init__("probe agents", self.node_probes, clock=clock, rng=rng)

    def wake_node(self, name: str) -> None:
        """See `AgentPart`."""
        self._queue.add(Key("", name))

    def _on_change(self, change: Change[NodeProbes]) -> None:
        if change.new is None:
            self._checks.pop(change.key.name, None)
        self._queue.add(change.key)

    async def _sync(self, key: Key) -> float | None:
        """Run the probes that are due. Returns the seconds until the next one."""
        view = self.node_probes.get(key)
        if view is None or not self._runtime.has_power(key.name):
            return None
        now = self._clock()
        before = self._checks.get(view.name, {})
        checks: dict[CheckKey, Check] = {}
        next_at: list[Instant] = []
        for pod, probe in iterate_checks(view.spec):
            name = pod["uid"], probe["name"]
            key_of_pod = Key(pod["namespace"], pod["name"])
            outcome = self._runtime.probe(key_of_pod, pod["uid"], probe["containerName"], probe["name"])
            seen = None if outcome is None else _to_seen(outcome)
            rules = rules_of(probe)
            checks[name] = advance_check(rules, before.get(name), seen, now)
            next_at.append(compute_due_time(rules, checks[name], now))
        self._checks[view.name] = checks
        await self._report_status(view, checks, now)
        self._record_events(view, before, checks)
        return max(0.0, min(next_at) - self._clock()) if next_at else None

    async def _report_status(self, view: NodeProbes, checks: Mapping[CheckKey, Check], now: Instant) -> None:
        patch = diff_merge(view.status, status_of(view.spec, view.status, checks, now))
        if not patch:
            return
        body: dict[str, Any] = {"metadata": {"uid": view.uid}, "status": patch}
        key = Key("", view.name)
        self.status_writes += await self._writer.patch_status(NODE_POD_PROBES, key, body, uid=view.uid)

    def _record_events(
        self, view: NodeProbes, before: Mapping[CheckKey, Check], after: Mapping[CheckKey, Check]
    ) -> None:
        """Record an event on the pod for each changed outcome."""
        for event in events_of(view.spec, before, after):
            self._recorder.record(
                PODS,
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                reason=event.reason,
                message=event.message,
            )


def _to_seen(outcome: ProbeOutcome) -> SeenProbe:
    return SeenProbe(
        id=outcome.container_id,
        is_running=outcome.is_running,
        started_at=outcome.started_at,
        outcome=FAILED if outcome.problem else SUCCEEDED,
        message=outcome.problem,
    )
