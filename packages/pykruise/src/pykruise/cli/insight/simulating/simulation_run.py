"""One play from its begin to its end.

what is there settles ──▶ the change is written ──▶ time runs until nothing has happened for long ──▶ Played
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from pykruise.cli.insight.admission_check import STRICT, errors_of
from pykruise.cli.insight.cluster_reading import Sight, look
from pykruise.cli.insight.explaining import Explanation, explain
from pykruise.cli.insight.known_kinds import of_document, workload_insight
from pykruise.cli.insight.sidecars.explaining import explain_sidecars
from pykruise.cli.insight.sidecars.look import sight_of
from pykruise.cli.insight.simulating.cluster_copy import (
    STATUS_EVERY_S,
    defined,
    has_quiet_status,
    kinds_beside,
    made,
    manager_of,
    populate,
)
from pykruise.cli.insight.simulating.other_actors import Others
from pykruise.cli.insight.simulating.record import PlayRecord, loop_time
from pykruise.cli.insight.simulating.values import Play, Played
from pykruise.cli.insight.unavailability import explain_budget
from pykruise.cli.insight.unavailability import look_at as look_at_budget
from pykruise.cli.insight.united.explaining import explain_united
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.clock import loop_clock
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.plans.insight import JobInsight, WorkloadInsight
from pykruise.pods.view.names import short_hash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.runtime.plan import Plan
from pykruise.sandbox.cluster import Cluster
from pykruise.sandbox.virtual_time import VirtualLoop

QUIET_S: Final = 30.0
"""So long nothing may happen for a rollout to count as over."""

LOOK_EVERY_S: Final = QUIET_S / 2
"""A rollout is found to be over at a multiple of this."""


def play(given: Play) -> Played:
    """Play it to the end. Blocks: call it in a thread where a loop runs."""
    # That containers of a pod start needs no line, unless a play ends before they run: then it is in the reasons.
    tells_starts = not has_quiet_status(given) or given.fail_share > 0
    with _little_collected():
        played = _played(given, tells_starts=tells_starts)
        return played if played.is_over or tells_starts else _played(given, tells_starts=True)


def _played(given: Play, *, tells_starts: bool) -> Played:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_Stage(given, tells_starts=tells_starts).run())


@contextmanager
def _little_collected() -> Iterator[None]:
    """Garbage collection looks rarely, and not at what was there before: a play makes few cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Stage:
    """One play under way. `tells_starts`: whether kubelets report pods after the change before their containers run."""

    def __init__(self, given: Play, *, tells_starts: bool) -> None:
        self._given = given
        self._tells_starts = tells_starts
        self._kind = of_document(given.workload)
        self._others: Others | None = None
        self._job = self._kind.insight if isinstance(self._kind.insight, JobInsight) else None
        self._record = PlayRecord(sidecars=given.sidecars, on_change=self._see, is_job=self._job is not None)
        self._longest_s: float | None = None
        """How long nothing may happen while it still goes on; None: objects were written since it was worked out."""

    async def run(self) -> Played:
        """From an empty cluster to the end."""
        given, kind = self._given, self._kind
        clock = loop_clock(start=given.start)
        cluster = made(given, kind, self._record, clock=clock)
        client = cluster.client
        self._others = Others(
            given,
            self._record,
            kind.resource,
            client=client,
            kubelets=cluster.kubelets,
            is_job=self._job is not None,
        )
        await defined(cluster, given, kind)
        async with cluster:
            await populate(client, given)
            manager = manager_of(cluster, given, kind, clock=clock)
            running = asyncio.create_task(manager.run())
            try:
                return await self._play(client, self._others, cluster)
            finally:
                self._others.end()
                manager.stop()
                await running

    def _see(self, before: PodView | None, after: PodView | None) -> None:
        if self._others is not None:
            self._others.see(before, after)

    async def _play(self, client: Client, others: Others, cluster: Cluster) -> Played:
        given = self._given
        for entry in given.beside:
            await self._write(client, entry)
        if given.first is not None:
            await self._write(client, given.first)
            await self._until_quiet(client, given.limit_s)
        self._record.begin()
        if not self._tells_starts:
            cluster.kubelets.report_pending_after(given.limit_s)
        try:
            for change in given.beside_changes:
                await self._write(client, change)
            if given.change is not None:
                await self._write(client, given.change)
        except ApiError as error:
            return Played(refused=errors_of(error))
        others.begin()
        is_over = await self._until_quiet(client, given.limit_s)
        return await self._result(client, is_over)

    async def _write(self, client: Client, document: Document) -> None:
        self._longest_s = None
        resource = self._resource_of(document)
        namespace = self._given.namespace if resource.namespaced else ""
        name = document["metadata"]["name"]
        try:
            live = decode(await client.get(resource, namespace, name))
        except ApiError:
            await client.create(resource, namespace, document, field_validation=STRICT)
            return
        metadata = {
            part: document["metadata"][part]
            for part in ("labels", "annotations")
            if document["metadata"].get(part)
        }
        dropped = {field: None for field in live["spec"] if field not in document["spec"]}
        body = {"metadata": metadata, "spec": {**document["spec"], **dropped}}
        await client.patch(
            resource, namespace, name, body, patch_type=PatchType.MERGE, field_validation=STRICT
        )

    def _resource_of(self, document: Document) -> Resource:
        beside = {kind.resource.kind: kind.resource for kind in kinds_beside(self._given)}
        return beside.get(document["kind"], self._kind.resource)

    async def _until_quiet(self, client: Client, limit_s: float) -> bool:
        """True once nothing has happened for long; False at the limit."""
        end = loop_time() + limit_s
        longest = max(self._given.ready_after_s[1], self._given.stop_s, QUIET_S) + QUIET_S
        if self._job is not None:
            longest += self._given.takes_s[1]
        if self._record.has_begun:
            moments = [drain.at_s for drain in self._given.drains]
            moments += [change.at_s for change in self._given.node_changes]
            moments += [outage.until_s or outage.at_s for outage in self._given.outages]
            longest += max(moments, default=0.0)
        looks = 1  # of how many it is clear what they would see
        while loop_time() < end:
            await asyncio.sleep(looks * LOOK_EVERY_S)
            longest = max(longest, await self._longest(client))
            left = self._record.last + longest - loop_time()
            if left < 0:
                return True
            looks = int(min(left, end - loop_time()) // LOOK_EVERY_S) + 1
        return False

    async def _longest(self, client: Client) -> float:
        """How long the workload, or what moves its pods on, may wait without an action."""
        if self._given.united is not None:
            return _moves_after_s(self._given.united)
        if self._longest_s is None:
            listed = await client.list(self._kind.resource, self._given.namespace)
            waits = [self._waits_s(get_path(decode(raw), "spec", default={})) for raw in listed.items]
            waits += [_moves_after_s(entry) for entry in (*self._given.beside, *self._given.beside_changes)]
            self._longest_s = max((wait + QUIET_S for wait in waits), default=0.0)
        return self._longest_s

    def _waits_s(self, spec: Document) -> float:
        """How long an object with this spec may wait for time alone."""
        if self._job is not None:
            return self._job.waits_s(spec)
        strategy, _ = workload_insight(self._kind).strategy(spec)
        return float(strategy.min_ready_s) if strategy is not None else 0.0

    async def _result(self, client: Client, is_over: bool) -> Played:
        given = self._given
        if is_over and has_quiet_status(given):
            await asyncio.sleep(STATUS_EVERY_S)  # the last one has been written by then
        try:
            sight = await self._last_sight(client, given.workload["metadata"]["name"])
        except NotFoundError:  # a job whose time to live is over
            return self._of_what_is_gone(is_over)
        plan = sight.plan()
        ends = [explain(sight, plan)]
        if given.united is not None:
            key = Key(given.namespace, given.workload["metadata"]["name"])
            ends = [await explain_united(client, key, sight.snapshot.now, given.settings)]
        status = plan.status if plan.status is not None else sight.document.get("status") or {}
        target = status.get("updateRevision") or status.get("updatedRevision") or ""
        if given.sidecars:
            sidecars = decode(await client.get(SIDECAR_SETS, "", given.sidecars))
            status = sidecars.get("status") or {}
            target = status.get("latestRevision") or ""
            ends.insert(0, explain_sidecars(await sight_of(client, sidecars, now=sight.snapshot.now)))
        ends += await self._of_budgets(client)
        return replace(
            self._of_what_is_gone(is_over),
            status=status,
            target=short_hash(target),
            wanted=_wanted(sight, plan, status),
            skipped=dict(plan.skipped),
            skipped_nodes=dict(plan.skipped_nodes),
            end=_end(ends),
        )

    def _of_what_is_gone(self, is_over: bool) -> Played:
        """The record so far, without the deleted object."""
        record = self._record
        return Played(
            actions=tuple(record.actions),
            samples=tuple(record.samples),
            events=tuple(record.events),
            lowest_available=min((sample.available for sample in record.samples), default=0),
            duration_s=record.duration_s,
            restarts=record.restarts,
            kept=_by_name(record.kept),
            is_over=is_over,
            is_job=self._job is not None,
        )

    async def _of_budgets(self, client: Client) -> list[Explanation]:
        """State of budgets that pods or drains still wait for."""
        there = {pod.name for pod in self._record.pods.values() if pod.is_active}
        kept: dict[str, dict[str, int]] = {}
        for (kind, budget, pod), count in self._record.kept.items():
            if kind == POD_UNAVAILABLE_BUDGETS.kind and pod in there:
                kept.setdefault(budget, {})[pod] = count
        explanations: list[Explanation] = []
        for budget, pods in sorted(kept.items()):
            key, now = Key(self._given.namespace, budget), self._given.start + loop_time()
            try:
                sight = await look_at_budget(client, key, now=now, settings=self._given.settings)
            except NotFoundError:
                continue
            explanations.append(explain_budget(replace(sight, kept=pods)))
        return explanations

    async def _last_sight(self, client: Client, name: str) -> Sight:
        key = Key(self._given.namespace, name)
        now = self._given.start + loop_time()
        return await look(client, self._kind, key, now=now, settings=self._given.settings)


def _wanted(sight: Sight, plan: Plan, status: Document) -> int:
    insight = sight.kind.insight
    return insight.counts(sight.document, status, plan).wanted if isinstance(insight, WorkloadInsight) else 0


def _by_name(kept: Mapping[tuple[str, str, str], int]) -> dict[str, int]:
    result: Counter[str] = Counter()
    for (_, name, _), count in kept.items():
        result[name] += count
    return dict(result)


def _end(explanations: Sequence[Explanation]) -> Explanation:
    """The first that waits for something, else the first. Without ages: they are of the play, not of the rollout."""
    explanation = next((item for item in explanations if item.verdict != "done"), explanations[0])
    return replace(explanation, waits=tuple(replace(wait, since="") for wait in explanation.waits))


def _moves_after_s(document: Document) -> float:
    """How long a WorkloadSpread or UnitedDeployment waits before it moves on pods that cannot be scheduled, or opens
    a subset again; 0: it never does."""
    for path in (("spec", "scheduleStrategy"), ("spec", "topology", "scheduleStrategy")):
        strategy = get_path(document, *path, default=None) or {}
        if strategy.get("type") == "Adaptive" and path[1] == "topology":
            adaptive = strategy.get("adaptive") or {}
            return float(
                sum(
                    default if (given := adaptive.get(field)) is None else max(given, 0)
                    for field, default in (("rescheduleCriticalSeconds", 30), ("unschedulableDuration", 300))
                )
            )
        if seconds := (strategy.get("adaptive") or {}).get("rescheduleCriticalSeconds"):
            return float(seconds)
    return 0.0
