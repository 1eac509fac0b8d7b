"""Facts about a UnitedDeployment before anything is written, computed once for all decisions of a plan.

UnitedSnapshot ──▶ build_working_set() ──▶ UnitedDeploymentWorkingSet ──▶ allocate_replicas() ──▶ changes.py, plan.py

Pure. The order is: revision ▸ ownership of workloads ▸ schedulability ▸ allocation.
"""

from collections.abc import Mapping

import msgspec

from pykruise.kinds.uniteddeployment.allocation import Mode, SubsetShare, allocate
from pykruise.kinds.uniteddeployment.ownership import WorkloadOwnership, ownership_of
from pykruise.kinds.uniteddeployment.revisions import candidate_of
from pykruise.kinds.uniteddeployment.schedulability import (
    SchedulabilityVerdict,
    judge_subsets,
    schedulable_of,
    set_passed_over_again,
)
from pykruise.kinds.uniteddeployment.snapshot import (
    ReadableUnitedDeployment,
    ReadableUnitedView,
    list_given_templates,
)
from pykruise.kinds.uniteddeployment.status import Conditions, entries_of, find_updating_since, set_updated
from pykruise.kinds.uniteddeployment.types import (
    UNITED_DEPLOYMENTS,
    Subset,
    SubsetStatus,
    UnitedDeploymentSpec,
)
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.pods.workload.revisions import UpdateChoice, build_revision_body, choose_update
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.pods.workload.waiting import drop_conditions


class UnitedDeploymentWorkingSet(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot, and the facts that follow from it."""

    snapshot: ReadableUnitedDeployment
    workload: Document
    """Metadata and spec of the workloads, from `spec.template`."""
    own: WorkloadOwnership
    entries: Mapping[str, SubsetStatus]
    """Entries of the status by subset: the stored ones, and those of new subsets."""
    choice: UpdateChoice
    """The revision of the template."""
    conditions: Conditions
    """Conditions of the status, including the progress of the update to the revision."""
    verdict: SchedulabilityVerdict

    @property
    def united(self) -> ReadableUnitedView:
        """The UnitedDeployment."""
        return self.snapshot.united

    @property
    def spec(self) -> UnitedDeploymentSpec:
        """Desired state of the UnitedDeployment."""
        return self.snapshot.united.spec

    @property
    def now(self) -> Instant:
        """Instant of the decision."""
        return self.snapshot.now

    @property
    def target(self) -> str:
        """Name of the revision to which pods are updated."""
        return self.choice.revision.name


def build_working_set(snapshot: ReadableUnitedDeployment) -> UnitedDeploymentWorkingSet:
    """Compute everything that does not depend on the number of pods of each subset."""
    united, status = snapshot.united, snapshot.united.status
    templates = list_given_templates(united.spec)
    own = ownership_of(snapshot)
    entries = entries_of(united, now=snapshot.now)
    choice = _choose_revision(snapshot, templates)
    target = choice.revision.name
    conditions = set_updated(
        drop_conditions(status.conditions or (), SELECTOR_MISMATCH),
        current=status.current_revision or target,
        target=target,
        now=snapshot.now,
    )
    return UnitedDeploymentWorkingSet(
        snapshot=snapshot,
        workload=templates[united.template],
        own=own,
        entries=entries,
        choice=choice,
        conditions=conditions,
        verdict=judge_subsets(
            united.spec,
            own.workloads,
            snapshot.subset_pods,
            entries,
            target=target,
            updating_since=find_updating_since(conditions),
            now=snapshot.now,
        ),
    )


def _choose_revision(snapshot: ReadableUnitedDeployment, templates: Mapping[str, Document]) -> UpdateChoice:
    """Choose the revision of the template. The revision has the labels of the template and of spec.selector."""
    united, version = snapshot.united, snapshot.united.data_version
    metadata = templates[united.template].get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **(united.spec.selector.match_labels or {})}
    is_hub = version == UNITED_DEPLOYMENTS.version
    return choose_update(
        united.candidate if is_hub else candidate_of(templates, version=version),
        snapshot.revisions.own,
        owner=united.name,
        collision_count=united.status.collision_count or 0,
        others=snapshot.revisions.others,
        body=lambda name, name_hash, number: build_revision_body(
            name,
            name_hash,
            number,
            namespace=united.namespace,
            labels=labels,
            annotations={},
            owner=united.build_reference(msgspec.structs.replace(UNITED_DEPLOYMENTS, version=version)),
        ),
        annotations={},
    )


# ── allocation ───────────────────────────────────────────────────────────


def allocate_replicas(ws: UnitedDeploymentWorkingSet) -> dict[str, int]:
    """Return the replicas of each subset. Raises AllocationError when the fields of the subsets do not fit together."""
    shares = [_build_share(subset, ws) for subset in ws.spec.subsets]
    return allocate(shares, replicas=ws.spec.replicas, mode=ws.spec.mode)


def _build_share(subset: Subset, ws: UnitedDeploymentWorkingSet) -> SubsetShare:
    name, verdict = subset.name, ws.verdict
    workload = ws.own.workloads.get(name)
    return SubsetShare(
        name=name,
        replicas=subset.replicas,
        min_replicas=subset.min_replicas,
        max_replicas=subset.max_replicas,
        current=None if workload is None else workload.replicas,
        ready=0 if workload is None else workload.ready,
        reserved=verdict.reserved.get(name, 0) + verdict.unborn.get(name, 0),
        is_unschedulable=name in verdict.unschedulable,
        was_unschedulable=name in verdict.were_unschedulable,
    )


def close_growing_subsets(
    ws: UnitedDeploymentWorkingSet, allocated: Mapping[str, int]
) -> UnitedDeploymentWorkingSet:
    """Set the condition Schedulable to False again, in reserve mode, for subsets that have just recovered and that
    grow: their new pods start as reserved pods.
    """
    if ws.spec.mode is not Mode.RESERVE:
        return ws
    recovered = ws.verdict.were_unschedulable - ws.verdict.unschedulable
    # The condition is built from the stored one, which is still False, so it keeps its time.
    closed = {
        name: set_passed_over_again(schedulable_of(ws.entries[name]), now=ws.now)
        for name, count in allocated.items()
        if name in recovered and count > ws.own.workloads[name].replicas
    }
    verdict = msgspec.structs.replace(ws.verdict, conditions={**ws.verdict.conditions, **closed})
    return msgspec.structs.replace(ws, verdict=verdict)
