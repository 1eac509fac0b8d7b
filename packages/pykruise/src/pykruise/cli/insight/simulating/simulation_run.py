"""One simulation from beginning to end.

existing objects settle ──▶ the change is written ──▶ time runs until nothing has happened for a long time ──▶ Played
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
from pykruise.cli.insight.explaining import explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.followed_config import CONFIG_RESOURCES, is_config
from pykruise.cli.insight.known_kinds import find_kind_of_document, find_workload_insight
from pykruise.cli.insight.sidecars.explaining import explain_sidecars
from pykruise.cli.insight.sidecars.look import sight_of
from pykruise.cli.insight.simulating.cluster_copy import (
    STATUS_EVERY_S,
    define_kind,
    has_quiet_status,
    list_kinds_beside,
    make_cluster,
    manager_of,
    populate,
)
from pykruise.cli.insight.simulating.other_actors import Others
from pykruise.cli.insight.simulating.record import PlayRecord, read_loop_time
from pykruise.cli.insight.simulating.values import Play, Played
from pykruise.cli.insight.unavailability import explain_budget
from pykruise.cli.insight.unavailability import look_at as look_at_budget
from pykruise.cli.insight.united.explaining import explain_united
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.warnings import WarningTransport
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.plans.config_content import GATE
from pykruise.plans.insight import JobInsight, WorkloadInsight
from pykruise.pods.template.config_content import read_recorded
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import read_contents
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from pykruise.runtime.plan import Plan
from pykruise.sandbox.cluster import Cluster
from pykruise.sandbox.virtual_time import VirtualLoop

QUIET_S: Final = 30.0
"""A rollout has ended after this number of seconds without an event, in addition to the longest expected wait."""

LOOK_EVERY_S: Final = QUIET_S / 2
"""Interval of the checks for the end of a rollout."""


def play(given: Play) -> Played:
    """Run the simulation to its end. Blocks, so call it in a thread when a loop runs."""
    # Reports of starting containers have no effect, unless the simulation ends before the containers run: then the
    # reasons show them.
    tells_starts = not has_quiet_status(given) or given.fail_share > 0
    with _rare_collection():
        played = _run_once(given, tells_starts=tells_starts)
        return played if played.is_over or tells_starts else _run_once(given, tells_starts=True)


def _run_once(given: Play, *, tells_starts: bool) -> Played:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_Stage(given, tells_starts=tells_starts).run())


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Run garbage collection rarely and not on existing objects, because a simulation creates few cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Stage:
    """One running simulation. `tells_starts`: whether kubelets also report pods whose containers do not run yet, if the
    pods appear after the change.
    """

    def __init__(self, given: Play, *, tells_starts: bool) -> None:
        self._given = given
        self._tells_starts = tells_starts
        self._kind = find_kind_of_document(given.workload)
        self._others: Others | None = None
        self._job = self._kind.insight if isinstance(self._kind.insight, JobInsight) else None
        self._record = PlayRecord(
            sidecars=given.sidecars, on_change=self._on_change, is_job=self._job is not None
        )
        self._longest_s: float | None = None
        """The simulation ends after this number of seconds without an event. It is None if it must be computed again
        after a write.
        """
        self._warnings: dict[str, None] = {}
        """Warnings about the objects that were written, in order."""

    async def run(self) -> Played:
        """Run from an empty cluster to the end."""
        given, kind = self._given, self._kind
        clock = make_loop_clock(start=given.start)
        cluster = make_cluster(given, kind, self._record, clock=clock)
        client = cluster.client
        self._others = Others(
            given,
            self._record,
            kind.resource,
            client=client,
            kubelets=cluster.kubelets,
            is_job=self._job is not None,
        )
        await define_kind(cluster, given, kind)
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

    def _on_change(self, before: PodView | None, after: PodView | None) -> None:
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
            return Played(refused=errors_of(error), warnings=tuple(self._warnings))
        others.begin()
        is_over = await self._until_quiet(client, given.limit_s)
        return await self._build_result(client, is_over)

    async def _write(self, client: Client, document: Document) -> None:
        self._longest_s = None
        client = client.replace_transport(WarningTransport(client.transport, self._warnings.setdefault))
        resource = self._find_resource(document)
        namespace = self._find_namespace(document, resource)
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
        body = {"metadata": metadata, **_find_changes(live, document)}
        await client.patch(
            resource, namespace, name, body, patch_type=PatchType.MERGE, field_validation=STRICT
        )

    def _find_namespace(self, document: Document, resource: Resource) -> str:
        """Return the namespace of the simulation; for a ConfigMap or Secret, the namespace of the document."""
        if not resource.namespaced:
            return ""
        own = document["metadata"].get("namespace") if is_config(document) else None
        return own or self._given.namespace

    def _find_resource(self, document: Document) -> Resource:
        if is_config(document):
            return CONFIG_RESOURCES[document["kind"]]
        beside = {kind.resource.kind: kind.resource for kind in list_kinds_beside(self._given)}
        return beside.get(document["kind"], self._kind.resource)

    async def _until_quiet(self, client: Client, limit_s: float) -> bool:
        """Wait until nothing has happened for a long time; return False when the limit is reached first."""
        end = read_loop_time() + limit_s
        longest = max(self._given.ready_after_s[1], self._given.stop_s, QUIET_S) + QUIET_S
        if self._job is not None:
            longest += self._given.takes_s[1]
        if self._record.has_begun:
            moments = [drain.at_s for drain in self._given.drains]
            moments += [change.at_s for change in self._given.node_changes]
            moments += [outage.until_s or outage.at_s for outage in self._given.outages]
            longest += max(moments, default=0.0)
        looks = 1  # number of checks whose results are already known
        while read_loop_time() < end:
            await asyncio.sleep(looks * LOOK_EVERY_S)
            longest = max(longest, await self._find_longest_wait(client))
            left = self._record.last + longest - read_loop_time()
            if left < 0:
                return True
            looks = int(min(left, end - read_loop_time()) // LOOK_EVERY_S) + 1
        return False

    async def _find_longest_wait(self, client: Client) -> float:
        """Return how many seconds the workload, or the object that moves its pods, may wait without an action."""
        if self._given.united is not None:
            return _compute_move_delay_s(self._given.united)
        if self._longest_s is None:
            listed = await client.list(self._kind.resource, self._given.namespace)
            waits = [self._waits_s(get_path(decode(raw), "spec", default={})) for raw in listed.items]
            waits += [
                _compute_move_delay_s(entry) for entry in (*self._given.beside, *self._given.beside_changes)
            ]
            self._longest_s = max((wait + QUIET_S for wait in waits), default=0.0)
        return self._longest_s

    def _waits_s(self, spec: Document) -> float:
        """Return for how many seconds an object with this spec may wait without any event."""
        if self._job is not None:
            return self._job.waits_s(spec)
        strategy, _ = find_workload_insight(self._kind).strategy(spec)
        return float(strategy.min_ready_s) if strategy is not None else 0.0

    async def _build_result(self, client: Client, is_over: bool) -> Played:
        given = self._given
        if is_over and has_quiet_status(given):
            await asyncio.sleep(STATUS_EVERY_S)  # the last status is written within this time
        try:
            sight = await self._read_last_sight(client, given.workload["metadata"]["name"])
        except NotFoundError:  # a job that was deleted after its time to live
            return self._build_record(is_over)
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
        ends += await self._explain_budgets(client)
        return replace(
            self._build_record(is_over),
            status=status,
            target=shorten_hash(target),
            record=_read_record(sight),
            wanted=_count_wanted_pods(sight, plan, status),
            skipped=dict(plan.skipped),
            skipped_nodes=dict(plan.skipped_nodes),
            end=_choose_end(ends),
        )

    def _build_record(self, is_over: bool) -> Played:
        """Return the record without the final state of the object."""
        record = self._record
        return Played(
            warnings=tuple(self._warnings),
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

    async def _explain_budgets(self, client: Client) -> list[Explanation]:
        """Return explanations of the budgets for which pods or drains still wait."""
        there = {pod.name for pod in self._record.pods.values() if pod.is_active}
        kept: dict[str, dict[str, int]] = {}
        for (kind, budget, pod), count in self._record.kept.items():
            if kind == POD_UNAVAILABLE_BUDGETS.kind and pod in there:
                kept.setdefault(budget, {})[pod] = count
        explanations: list[Explanation] = []
        for budget, pods in sorted(kept.items()):
            key, now = Key(self._given.namespace, budget), self._given.start + read_loop_time()
            try:
                sight = await look_at_budget(client, key, now=now, settings=self._given.settings)
            except NotFoundError:
                continue
            explanations.append(explain_budget(replace(sight, kept=pods)))
        return explanations

    async def _read_last_sight(self, client: Client, name: str) -> Sight:
        key = Key(self._given.namespace, name)
        now = self._given.start + read_loop_time()
        return await look(client, self._kind, key, now=now, settings=self._given.settings)


def _count_wanted_pods(sight: Sight, plan: Plan, status: Document) -> int:
    insight = sight.kind.insight
    return insight.counts(sight.document, status, plan).wanted if isinstance(insight, WorkloadInsight) else 0


def _find_changes(live: Document, document: Document) -> Document:
    """Return the merge patch of an object's fields besides its metadata."""
    if not is_config(document):
        return {"spec": diff_merge(live["spec"], document["spec"])}
    before, after = (read_contents(document["kind"], entry) for entry in (live, document))
    return {
        field: diff_merge(before.get(field) or {}, after.get(field) or {}) for field in ("data", "binaryData")
    }


def _read_record(sight: Sight) -> Mapping[str, str]:
    """Return the annotations about followed ConfigMaps and Secrets in the template of the last plan."""
    if GATE not in sight.kind.own_gates or sight.kind.control is None:
        return {}
    view = sight.kind.control.object_of(sight.snapshot)
    return read_recorded(view.spec.template) if view.spec is not None else {}


def _by_name(kept: Mapping[tuple[str, str, str], int]) -> dict[str, int]:
    result: Counter[str] = Counter()
    for (_, name, _), count in kept.items():
        result[name] += count
    return dict(result)


def _choose_end(explanations: Sequence[Explanation]) -> Explanation:
    """Return the first explanation of unfinished work, otherwise the first one. Start times are removed, because they
    belong to the simulation and not to the rollout.
    """
    explanation = next((item for item in explanations if item.verdict != "done"), explanations[0])
    return replace(explanation, waits=tuple(replace(wait, since="") for wait in explanation.waits))


def _compute_move_delay_s(document: Document) -> float:
    """Return after how many seconds a WorkloadSpread or UnitedDeployment moves unschedulable pods or opens a subset
    again; 0 if it never does.
    """
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
