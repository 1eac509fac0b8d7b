"""Runs the probes of PodProbeMarkers in pods of this node, and reports their results in the NodePodProbe.

NodePodProbe (watched) ──▶ queue, by probe ──▶ check: run_probe() ▸ probe_checks.advance_check() ──▶ a Check
                                               Checks ──▶ report: PATCH nodepodprobes/status, events

agent/rules/probe_checks.py decides when a probe is due and what its outcome means. Each check reads the spec, so a
changed handler, period or address takes effect at the next check. A probe ends when it is no longer requested.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.agent.containers import PodRef, list_containers_of
from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.runtimes import Runtimes
from pykruise.agent.cri.values import CONTAINER_NAME, CriContainer
from pykruise.agent.probe_handlers import run_probe
from pykruise.agent.rules.probe_checks import (
    NODE_POD_PROBES,
    Check,
    CheckKey,
    NodeProbes,
    SeenProbe,
    advance_check,
    compute_due_time,
    events_of,
    iterate_checks,
    needs_probe,
    project_node_probes,
    read_period_s,
    rules_of,
    status_of,
)
from pykruise.agent.tenant_places import TenantPlaces
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.client import Client
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.clock import Clock, Instant
from pykruise.kube.control.controller import Controller
from pykruise.kube.control.queue import WorkQueue
from pykruise.kube.excerpts import fit_status
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.resources import PODS

_log = logging.getLogger(__name__)

LEAST_PAUSE_S: Final = 0.05
EXEC_PAUSE_S: Final = 1.0
"""Seconds between the starts of two commands in a pod."""
PLACES: Final = 256
"""Maximum number of probes that run at the same time (tenant_places.py). An HTTPS connection needs about 60 KB."""
PROBES_OF_POD: Final = 8
"""Maximum number of probes of a pod that run at the same time. Otherwise a pod with many expensive commands could use
all processor time of the node.
"""
PLACE_PAUSE_S: Final = 2.0
"""Seconds after which a probe without a place tries again."""
WORKERS: Final = PLACES + 8
GATHER_S: Final = 0.2
"""Seconds to wait before a report, so that the outcomes of many probes are written together."""
MOST_TOLD: Final = 1024 * 1024
"""Maximum total number of bytes of the messages in the status. All messages of a node fit unless more than a thousand
probes have messages of the maximum length. So a long output in one pod does not shorten the messages of another pod.
"""

Asked = tuple[Mapping[str, Any], Mapping[str, Any]]
"""An entry for a pod in the NodePodProbe's spec, and one of the probes in this entry."""


class Prober:
    """Runs the probes of one node, from `run()` until `stop()`."""

    name = "prober"

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
        self._rng = rng
        self._key = Key("", node)
        self._began_at = clock()
        self.cache = Cache(
            client,
            NODE_POD_PROBES,
            project=project_node_probes,
            field_selector=f"metadata.name={node}",
            clock=clock,
            rng=rng,
        )
        self.cache.subscribe(self._on_change)
        self._writer = Writer(client, {NODE_POD_PROBES: self.cache})
        self._asked: dict[CheckKey, Asked] = {}
        self._checks: dict[CheckKey, Check] = {}
        self._reported: dict[CheckKey, Check] = {}
        self._started_at: dict[str, Instant] = {}
        self._exec_after: dict[str, float] = {}
        """The event loop's time after which the next command may start in the pod, by pod UID."""
        self._places = TenantPlaces(PLACES, most_of_pod=PROBES_OF_POD)
        self._lines: dict[str, dict[CheckKey, None]] = {}
        """The probes that wait for the start of their command, in the order in which they became due, by pod UID."""
        self.status_writes = 0
        checks: WorkQueue[CheckKey] = WorkQueue(cost_factor=0, base_delay_s=0.5, max_delay_s=50.0, rng=rng)
        self.controller = Controller("prober", self._check_probe, queue=checks, workers=WORKERS, clock=clock)
        reports: WorkQueue[Key] = WorkQueue(cost_factor=0, base_delay_s=0.5, max_delay_s=50.0, rng=rng)
        self.reports = Controller("probe-status", self._report_status, queue=reports, workers=1, clock=clock)

    async def run(self) -> None:
        """Run the probes until `stop()`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.controller.run())
            tasks.create_task(self.reports.run())

    async def stop(self, *, grace_s: float) -> None:
        """Cancel the probes, and finish the write in flight within `grace_s`; then `run()` returns."""
        await self.controller.stop(grace_s=0.0)
        await self.reports.stop(grace_s=grace_s)

    def _on_change(self, change: Change[NodeProbes]) -> None:
        view = change.new
        if change.old is not None and view is not None and change.old.spec == view.spec:
            return
        asked = {
            (pod["uid"], probe["name"]): (pod, probe)
            for pod, probe in iterate_checks(view.spec if view else {})
        }
        for name, value in asked.items():
            if self._asked.get(name) != value:
                is_first = name not in self._asked
                self.controller.queue.add_after(name, self._choose_first_pause_s(value) if is_first else 0.0)
        self._asked = asked
        for name in [name for line in self._lines.values() for name in line if name not in asked]:
            self._leave_line(name)
        self._checks = {name: check for name, check in self._checks.items() if name in asked}
        self._reported = {name: check for name, check in self._reported.items() if name in asked}
        if view is not None:
            self.reports.queue.add(change.key)

    def _choose_first_pause_s(self, item: Asked) -> float:
        """Return a random pause, so that an agent which has just started does not run all its probes at the same
        time.
        """
        period = read_period_s(item[1].get("probe") or {})
        return self._rng.uniform(0, period) if 0 <= self._clock() - self._began_at < period else 0.0

    # ── one check ────────────────────────────────────────────────────────────

    async def _check_probe(self, name: CheckKey) -> float | None:
        asked = self._asked.get(name)
        if asked is None:
            return None
        pod, probe = asked
        rules = rules_of(probe)
        now, before = self._clock(), self._checks.get(name)
        left_s = compute_due_time(rules, before, now) - now
        is_due = left_s <= 0 or _is_other(rules, before)
        is_exec = bool(rules.get("exec"))
        if not is_due or not is_exec:
            self._leave_line(name)
        if not is_due:
            return left_s
        if is_exec and (wait_s := self._compute_turn_s(name)) > 0:
            return wait_s
        holder = str(pod.get("namespace", "")), str(pod["uid"])
        if not self._places.try_take(*holder):
            return PLACE_PAUSE_S
        try:
            if is_exec:
                self._note_exec(name)
            seen = await self._observe(pod, probe, rules, before, now)
        finally:
            self._places.release(*holder)
        current = self._asked.get(name)
        if current is None:
            return None
        if not _is_same_probe(current, asked):
            # The probe's spec has changed while the probe ran, so the result may be out of date.
            return 0.0
        check = self._checks[name] = advance_check(rules, before, seen, now)
        if before is None or _list_reported(check) != _list_reported(before):
            self.reports.queue.add_after(self._key, GATHER_S)
        now = self._clock()
        return max(LEAST_PAUSE_S, compute_due_time(rules, check, now) - now)

    def _compute_turn_s(self, name: CheckKey) -> float:
        """Return the seconds until the probe's command may start. Commands of one pod start in the order in which
        they became due.
        """
        uid, now = name[0], asyncio.get_running_loop().time()
        line = self._lines.setdefault(uid, {})
        line.setdefault(name)
        return max(0.0, self._exec_after.get(uid, 0.0) - now) + list(line).index(name) * EXEC_PAUSE_S

    def _note_exec(self, name: CheckKey) -> None:
        """Record that a command starts now, so that the next command of the pod waits."""
        now = asyncio.get_running_loop().time()
        self._leave_line(name)
        self._exec_after = {other: after for other, after in self._exec_after.items() if after > now}
        self._exec_after[name[0]] = now + EXEC_PAUSE_S

    def _leave_line(self, name: CheckKey) -> None:
        line = self._lines.get(name[0], {})
        line.pop(name, None)
        if not line:
            self._lines.pop(name[0], None)

    async def _observe(
        self,
        pod: Mapping[str, Any],
        probe: Mapping[str, Any],
        rules: Mapping[str, Any],
        before: Check | None,
        now: Instant,
    ) -> SeenProbe | None:
        """Return the container and, if the probe is due, the probe's result; None if there is no such container."""
        container, client = await self._find_container(pod, probe["containerName"])
        if container is None:
            return None
        is_running = container.is_running
        seen = SeenProbe(
            id=container.id,
            is_running=is_running,
            started_at=await self._find_start_time(client, container) if is_running else 0.0,
            message="" if is_running else f"Container({probe['containerName']}) is Non-running",
        )
        if not needs_probe(rules, before, seen, now):
            return seen
        result = await run_probe(rules, client, container.id, str(pod.get("IP") or ""))
        return seen if result is None else msgspec.structs.replace(seen, outcome=result[0], message=result[1])

    async def _find_container(
        self, pod: Mapping[str, Any], name: str
    ) -> tuple[CriContainer | None, CriClient]:
        """Return the pod's newest container with this name, and the client of its runtime."""
        client = self._runtimes.first.client
        ref = PodRef(namespace=str(pod.get("namespace", "")), name=str(pod.get("name", "")), uid=pod["uid"])
        for runtime in self._runtimes.all:
            try:
                containers = await list_containers_of(runtime.client, ref, labels={CONTAINER_NAME: name})
            except CriError as error:  # an unreachable runtime says nothing about the container
                _log.debug("the containers of the pod with uid %s cannot be listed: %s", ref.uid, error)
                continue
            if containers:
                return containers[0], runtime.client
        return None, client

    async def _find_start_time(self, client: CriClient, container: CriContainer) -> Instant:
        result = self._started_at.get(container.id)
        if result is None:
            result = (await client.read_container_status(container.id)).started_at
            if len(self._started_at) > 4 * len(self._asked) + 64:
                self._started_at.clear()
            self._started_at[container.id] = result
        return result

    # ── the status ───────────────────────────────────────────────────────────

    async def _report_status(self, key: Key) -> None:
        view = self.cache.get(key)
        if view is None:
            return
        checks = dict(self._checks)
        status = fit_status(status_of(view.spec, view.status, checks, self._clock()), most_told=MOST_TOLD)
        patch = diff_merge(view.status, status)
        if patch:
            body: dict[str, Any] = {"metadata": {"uid": view.uid}, "status": patch}
            if not await self._writer.patch_status(NODE_POD_PROBES, key, body, uid=view.uid):
                return
            self.status_writes += 1
        for event in events_of(view.spec, self._reported, checks):
            self._recorder.record(
                PODS,
                namespace=event.namespace,
                name=event.name,
                uid=event.uid,
                reason=event.reason,
                message=event.message,
            )
        self._reported = checks


def _list_reported(check: Check) -> tuple[object, ...]:
    """Return the values of a check on which the reported state depends."""
    return check.state, check.said_at, check.container_id


def _is_same_probe(a: Asked, b: Asked) -> bool:
    """Whether both ask for the same probe at the same IP. Other probes of the pod may differ."""
    (pod_a, probe_a), (pod_b, probe_b) = a, b
    return probe_a == probe_b and pod_a.get("IP") == pod_b.get("IP")


def _is_other(rules: Mapping[str, Any], check: Check | None) -> bool:
    """Whether the handler has changed since the last check. The last result is then obsolete."""
    return check is not None and check.handler != {
        name: rules[name] for name in check.handler if name in rules
    }
