"""Forecast of applying a WorkloadSpread: adopted pods, their deletion costs, and the subset of the next pods.

manifest ──dry run──▶ SpreadSight as it would be ──▶ group_pods(), compute_wanted_costs(), compute_spread() ──▶ Outlook
                                                     allocate_slot() for the next pods

The forecast uses the same functions as the manager and admission.
"""

from collections.abc import Iterator
from itertools import groupby, islice

from pykruise.cli.insight.admission_check import ask_admission
from pykruise.cli.insight.effect_forecast import Outlook, OutlookBatch, PodFate, group_by_reason
from pykruise.cli.insight.spreads.explaining import list_limited
from pykruise.cli.insight.spreads.look import SpreadSight, sight_of
from pykruise.kinds.workloadspread.deletion_costs import compute_wanted_costs
from pykruise.kinds.workloadspread.ordinals import (
    find_subset_by_ordinal,
    iterate_ordinals_beyond,
    numbering_of,
)
from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.slots import allocate_slot, make_fresh_entries
from pykruise.kinds.workloadspread.status import compute_spread
from pykruise.kinds.workloadspread.subset_grouping import Grouped, group_pods
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS, SubsetStatus
from pykruise.kinds.workloadspread.versions import UNVERSIONED
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.values.counts import format_count
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.purposes import Purpose
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION

NEXT = 10
"""Number of new pods whose subsets are shown."""


async def forecast_spread(
    client: Client, document: Document, key: Key, now: Instant, settings: ManagerSettings | None = None
) -> Outlook:
    """Read the objects and ask admission in a dry run. Writes nothing. Raises KubeError for reads that fail."""
    verdict = await ask_admission(client, WORKLOAD_SPREADS, key, document)
    if verdict.wanted is None:
        return Outlook(**verdict.about)
    sight = await sight_of(client, verdict.wanted, now=now, settings=settings)
    groups = group_pods(sight.snapshot)
    fates = () if sight.problem else tuple(_find_fates(sight, groups))
    return Outlook(
        **verdict.about,
        batches=(OutlookBatch(number=1, fates=fates),) if fates else (),
        stays={}
        if sight.problem
        else group_by_reason(
            (f"in no subset: {why.message}", name) for name, why in groups.unassigned.items()
        ),
        new_pods=tuple(_describe_new_pods(sight, groups)),
        notes=tuple(_find_notes(sight, groups)),
    )


# ── existing pods ────────────────────────────────────────────────────────────


def _find_fates(sight: SpreadSight, groups: Grouped) -> Iterator[PodFate]:
    """Yield all writes to pods, and pods that move to another subset."""
    costs = compute_wanted_costs(sight.snapshot, groups)
    for pod in sorted(sight.snapshot.pods, key=lambda pod: pod.name):
        adoption = groups.adoptions.get(pod.name)
        if adoption is not None:
            yield PodFate(pod=pod.name, do=f"adopt into subset {adoption.subset}")
        cost, has = costs.get(pod.name), pod.annotations.get(DELETION_COST_ANNOTATION)
        if cost is not None and has != str(cost):
            yield PodFate(pod=pod.name, do=f"deletion cost {has or 'none'} → {cost}")
    for stage in plan_spread(sight.snapshot).stages:
        if stage.purpose == Purpose.RESCHEDULE_PODS:
            yield from (
                PodFate(pod=chain.subject, do="delete, so that it is created again elsewhere")
                for chain in stage.chains
            )


# ── new pods ─────────────────────────────────────────────────────────────────


def _describe_new_pods(sight: SpreadSight, groups: Grouped) -> Iterator[str]:
    if sight.problem or not sight.view.subsets:
        return
    placed = list(_list_next_subsets(sight)) if sight.view.goes_by_ordinal else list(_by_room(sight, groups))
    at = 0
    for subset, run in groupby(placed):
        count = len(list(run))
        where = (
            f"subset {subset}"
            if subset
            else "no subset, because all are full: the scheduler may place them anywhere"
        )
        which = f"the next {count}" if at == 0 else f"then {count}"
        yield f"{which} to {where}" + (", and so on" if at + count == len(placed) else "")
        at += count


def _by_room(sight: SpreadSight, groups: Grouped) -> Iterator[str]:
    snapshot = sight.snapshot
    entries: list[SubsetStatus] | tuple[SubsetStatus, ...]
    versioned = compute_spread(snapshot, groups).status.versioned_subset_statuses or {}
    entries = versioned.get(snapshot.latest or UNVERSIONED) or make_fresh_entries(
        sight.view.subsets, replicas=snapshot.replicas
    )
    now = format_time(snapshot.now)
    for number in range(NEXT):
        key = f"next-{number}"
        taken = allocate_slot(entries, pod_name="", fresh_id=lambda key=key: key, now=now)  # type: ignore[misc]
        entries = taken.entries or entries
        yield taken.subset


def _list_next_subsets(sight: SpreadSight) -> Iterator[str]:
    """Yield the subsets of the next ordinals of the StatefulSet."""
    view, snapshot = sight.view, sight.snapshot
    numbering = numbering_of(sight.target)
    for ordinal in islice(iterate_ordinals_beyond(snapshot.replicas, numbering), NEXT):
        subset = find_subset_by_ordinal(
            view.subsets,
            view.status.subset_statuses or (),
            pod_name=f"{view.name}-{ordinal}",
            numbering=numbering,
            replicas=snapshot.replicas,
        )
        yield subset.name if subset is not None else ""


# ── further notes ────────────────────────────────────────────────────────────


def _find_notes(sight: SpreadSight, groups: Grouped) -> Iterator[str]:
    if sight.problem:
        yield sight.problem
        return
    target, snapshot = sight.view.target, sight.snapshot
    if target is not None and not snapshot.is_there:
        yield f"{target[0].kind} {target[1]} does not exist yet: its pods are placed when they are created"
    status = compute_spread(snapshot, groups).status
    if status.spread:
        yield f"the status would count the pods as {status.spread}"
    for entry, limit in list_limited(sight, status):
        if 0 <= limit < entry.replicas:
            yield (
                f"subset {entry.name} would have {format_count(entry.replicas - limit, 'pod')} too many: "
                "no pod is moved"
            )
