"""The decision for a UnitedDeployment: its table of contents.

Snapshot ──▶ revision ▸ whose workloads ▸ schedulability ▸ allocation ──▶ Plan:
             which subsets are passed over ▸ adopt, release ▸ mark pods ▸ create ▸ delete ▸ shrink and update ▸ grow
             ▸ stuck pods ▸ old revisions

Pure. At every moment the workloads together are to have no more than what is allocated: a new workload begins with
what the others leave free, what shrinks is written before what grows, and nothing grows while something that is to
shrink could not be written. A subset that cannot be written does not hold up the others.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pykruise.kinds.uniteddeployment.allocation import AllocationError, Mode, SubsetShare, allocate
from pykruise.kinds.uniteddeployment.ownership import WorkloadOwnership, adoption, ownership_of, release
from pykruise.kinds.uniteddeployment.schedulability import (
    SchedulabilityVerdict,
    judge,
    passed_over_again,
    schedulable_of,
)
from pykruise.kinds.uniteddeployment.snapshot import ReadableUnitedDeployment, UnitedSnapshot, is_readable
from pykruise.kinds.uniteddeployment.status import (
    ERROR,
    PROVISIONED,
    SUBSETS_UPDATED,
    Conditions,
    StatusInputs,
    entries_of,
    status_of,
    updating_since,
    with_condition,
    with_updated,
)
from pykruise.kinds.uniteddeployment.stuck_pods import stuck_pods
from pykruise.kinds.uniteddeployment.types import (
    UNITED_DEPLOYMENTS,
    Subset,
    UnitedDeploymentStatus,
)
from pykruise.kinds.uniteddeployment.workload_documents import WantedWorkload, change_of, replicas_change_of
from pykruise.kinds.uniteddeployment.workloads import (
    SubsetWorkload,
    type_of,
)
from pykruise.kinds.uniteddeployment.writes import creation, deletion, mark, stage_of, update, with_note
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.plans.ownership import adopt_used, delete_revision, revision_stages
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import refused_plan
from pykruise.pods.reasons import Code
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.workload.revisions import UpdateChoice, choose_update, revision_body
from pykruise.pods.workload.waiting import condition_of
from pykruise.runtime.execute import Failure
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import status_patch

_AGAIN_S: Final = 600.0

_DEFINED_AGAIN_S: Final = 10.0
"""How soon it is looked again whether the kind of the workloads is there: no event tells."""


def plan_united(snapshot: UnitedSnapshot) -> Plan:
    """Everything to be written for this object now, its status, and when to look again."""
    united = snapshot.united
    if united.is_deleting:
        return Plan()
    if not is_readable(snapshot):
        return refused_plan(snapshot.refused or [snapshot.united.problem])
    if not united.template:
        return refused_plan(["spec.template: exactly one of the templates must be set"])
    if not snapshot.is_served:
        kind = type_of(united.template)
        message = f"the API server does not serve {kind}: its definition is not installed"
        reason = Reason(Code.NO_TARGET, message, f"install the definition of {kind}")
        return Plan(waiting=reason, requeue_after_s=_DEFINED_AGAIN_S)
    return _Planning(snapshot).plan()


def status_after(snapshot: UnitedSnapshot, plan: Plan, failure: Failure) -> Document | None:
    """The status with the error. The generation counts as seen only once everything of it was written.

    None when there is nothing to report: an old revision that could not be deleted holds nothing back.
    """
    united = snapshot.united
    if plan.status is None and failure.purpose == Purpose.TRUNCATE_REVISIONS:
        return None
    status = united.status if plan.status is None else msgspec.convert(plan.status, UnitedDeploymentStatus)
    conditions: Conditions = status.conditions or ()
    kind = _CONDITIONS.get(failure.purpose)
    if kind is not None:
        reason = failure.reason
        is_said = reason.code == Code.NAME_TOO_LONG  # what the others say, is what the API server says
        error = f"subset {failure.subject}: {reason.full_message if is_said else reason.message}"
        code = reason.code if is_said else ERROR
        conditions = with_condition(conditions, kind, error=error, code=code, now=snapshot.now)
    seen = united.status.observed_generation
    return _document(msgspec.structs.replace(status, conditions=list(conditions), observed_generation=seen))


_CONDITIONS: Final[Mapping[str, str]] = {
    Purpose.CREATE_WORKLOADS: PROVISIONED,
    Purpose.DELETE_WORKLOADS: PROVISIONED,
    Purpose.UPDATE_WORKLOADS: SUBSETS_UPDATED,
    Purpose.GROW_WORKLOADS: SUBSETS_UPDATED,
}
"""Which condition says that a stage has failed."""


class _Planning:
    """One decision, step by step; what a later step reads an earlier one has set."""

    def __init__(self, snapshot: ReadableUnitedDeployment) -> None:
        self._snapshot = snapshot
        self._united = snapshot.united
        self._now = snapshot.now
        self._entries = entries_of(self._united, now=self._now)
        self._own: WorkloadOwnership = ownership_of(snapshot)
        self._choice = _choose(snapshot)
        self._errors: dict[str, dict[str, str]] = {PROVISIONED: {}, SUBSETS_UPDATED: {}}
        """Impossible changes by condition and subset, in their order, known before anything is written."""
        self._notes: list[Note] = list(self._own.notes)
        self._dues: list[Instant] = []

    def plan(self) -> Plan:
        conditions = with_updated(
            self._united.status.conditions or (),
            current=self._united.status.current_revision or self._target,
            target=self._target,
            now=self._now,
        )
        verdict = judge(
            self._united,
            self._own.workloads,
            self._snapshot.subset_pods,
            self._entries,
            target=self._target,
            updating_since=updating_since(conditions),
            now=self._now,
        )
        if verdict.due is not None:
            self._dues.append(verdict.due)
        try:
            allocated = self._allocate(verdict)
        except AllocationError as error:
            return self._ineffective(conditions, verdict, str(error))
        verdict = self._with_relapses(verdict, allocated)
        stages = self._stages(verdict, allocated)
        return self._planned(stages, conditions, verdict, allocated)

    @property
    def _target(self) -> str:
        return self._choice.revision.name

    # ── how many ─────────────────────────────────────────────────────────

    def _allocate(self, verdict: SchedulabilityVerdict) -> dict[str, int]:
        shares = [self._share(subset, verdict) for subset in self._united.subsets]
        return allocate(shares, replicas=self._united.spec.replicas, mode=self._united.mode)

    def _share(self, subset: Subset, verdict: SchedulabilityVerdict) -> SubsetShare:
        workload = self._own.workloads.get(subset.name)
        name = subset.name
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

    def _with_relapses(
        self, verdict: SchedulabilityVerdict, allocated: Mapping[str, int]
    ) -> SchedulabilityVerdict:
        """Closes subsets again that have just recovered and grow, in reserve mode, so that their new pods begin in
        reserve.
        """
        if self._united.mode is not Mode.RESERVE:
            return verdict
        recovered = verdict.were_unschedulable - verdict.unschedulable
        growing = [
            name
            for name, count in allocated.items()
            if name in recovered and count > self._own.workloads[name].replicas
        ]
        # Written anew in one go: the stored condition says False all the time.
        closed = {
            name: passed_over_again(schedulable_of(self._entries[name]), now=self._now) for name in growing
        }
        return msgspec.structs.replace(verdict, conditions={**verdict.conditions, **closed})

    # ── what is written ──────────────────────────────────────────────────

    def _stages(self, verdict: SchedulabilityVerdict, allocated: Mapping[str, int]) -> list[Stage]:
        stages = [
            *self._revision(),
            *adoption(self._united, self._own.adopted),
            *release(self._own.released),
        ]
        if verdict.labels:
            stages.append(
                Stage(
                    purpose=Purpose.MARK_PODS, chains=tuple(mark(*label) for label in verdict.labels.values())
                )
            )
        shrinking, growing = self._changes(verdict, allocated)
        stages += stage_of(Purpose.CREATE_WORKLOADS, self._creations(allocated), ramp=True)
        stages += stage_of(Purpose.DELETE_WORKLOADS, self._deletions())
        stages += stage_of(Purpose.UPDATE_WORKLOADS, shrinking)
        stages += stage_of(Purpose.GROW_WORKLOADS, growing, only_after=(Purpose.UPDATE_WORKLOADS,))
        stages += stage_of(Purpose.DELETE_PODS, stuck_pods(self._snapshot, self._own.workloads, self._target))
        stages += stage_of(Purpose.TRUNCATE_REVISIONS, self._old_revisions())
        return stages

    def _revision(self) -> list[Stage]:
        """The writes by which the template has its revision, if any is needed."""
        name = self._target
        failed = Note(
            reason="FailedRevisionProvision", message=f"failed to store revision {name}", warning=True
        )
        stages = [
            *adopt_used(self._choice, self._united, UNITED_DEPLOYMENTS),
            *revision_stages(self._choice, self._united),
        ]
        return [with_note(stage, failed) for stage in stages]

    def _wanted(self, subset: Subset, replicas: int, *, allocated: int) -> WantedWorkload:
        template = self._united.workload
        return WantedWorkload(
            template=self._united.template,
            metadata=template.get("metadata") or {},
            spec=template["spec"],
            selector=msgspec.to_builtins(self._united.spec.selector),
            subset=subset,
            revision=self._target,
            replicas=replicas,
            partition=self._partition(subset.name, allocated),
        )

    def _partition(self, subset: str, allocated: int) -> int:
        return min(self._united.partition(subset), allocated)

    def _creations(self, allocated: Mapping[str, int]) -> list[Chain]:
        """Workloads of subsets without one. They begin with what the others leave free."""
        others = [*self._own.workloads.values(), *self._own.adopted]
        free = sum(allocated.values()) - sum(workload.replicas for workload in others)
        adopted = {workload.subset for workload in self._own.adopted}
        chains = []
        for subset in sorted(self._united.subsets, key=lambda subset: subset.name):
            name = self._snapshot.names.get(subset.name)
            if subset.name in self._own.workloads or subset.name in adopted or name is None:
                continue
            replicas = max(min(allocated[subset.name], free), 0)
            wanted = self._wanted(subset, replicas, allocated=allocated[subset.name])
            try:
                chains.append(creation(wanted, self._united, name=name))
            except PlacementError as error:
                self._fails(PROVISIONED, subset.name, str(error))
                continue
            free -= replicas
        return chains

    def _deletions(self) -> list[Chain]:
        """Workloads that are not wanted, but not before everything that stands in for them is there."""
        return [
            deletion(workload, because)
            for workload, because in self._own.unwanted
            if not workload.is_deleting
        ]

    def _changes(
        self, verdict: SchedulabilityVerdict, allocated: Mapping[str, int]
    ) -> tuple[list[Chain], list[Chain]]:
        """Changes of existing workloads: those that do not grow, and those that do."""
        shrinking: list[Chain] = []
        growing: list[Chain] = []
        for subset in sorted(self._united.subsets, key=lambda subset: subset.name):
            workload = self._own.workloads.get(subset.name)
            if workload is None or workload.is_deleting:
                continue
            replicas = allocated[subset.name]
            chain = self._change(workload, subset, replicas, verdict)
            if chain is not None:
                (growing if replicas > workload.replicas else shrinking).append(chain)
        # What is adopted keeps its size in this plan, and may have to shrink before others grow.
        return shrinking, [] if self._own.adopted else growing

    def _change(
        self, workload: SubsetWorkload, subset: Subset, replicas: int, verdict: SchedulabilityVerdict
    ) -> Chain | None:
        wanted = self._wanted(subset, replicas, allocated=replicas)
        if self._united.mode is Mode.RESERVE:
            late = verdict.update_timeouts[subset.name]
            unavailable = max(workload.replicas - workload.ready + late, 1)
            wanted = msgspec.structs.replace(
                wanted,
                max_unavailable=unavailable if subset.name in verdict.unschedulable else None,
                restores_max_unavailable=True,
            )
        try:
            body = change_of(workload, wanted)
        except PlacementError as error:
            self._fails(SUBSETS_UPDATED, subset.name, str(error))
            body = replicas_change_of(workload, replicas)
        return None if body is None else update(workload, body, wanted)

    def _fails(self, condition: str, subset: str, error: str) -> None:
        """Only this subset is left as it is."""
        self._errors[condition][subset] = error
        message = f"subset {subset}: {error}"
        self._notes.append(
            Note(reason="FailedUpdateSubset", message=message, warning=True, again_after_s=_AGAIN_S)
        )

    def _old_revisions(self) -> list[Chain]:
        limit = self._united.spec.revision_history_limit
        own = self._snapshot.revisions.own
        status = self._united.status
        live = {status.current_revision, status.updated_revision, self._target}
        live |= {workload.revision for workload in self._own.workloads.values()}
        oldest = own[: max(len(own) - (10 if limit is None else limit), 0)]
        return [
            delete_revision(revision, "beyond revisionHistoryLimit")
            for revision in oldest
            if revision.name not in live and not revision.is_deleting
        ]

    # ── what is said ─────────────────────────────────────────────────────

    def _planned(
        self,
        stages: list[Stage],
        conditions: Conditions,
        verdict: SchedulabilityVerdict,
        allocated: Mapping[str, int],
        *,
        is_effective: bool = True,
    ) -> Plan:
        purposes = {stage.purpose for stage in stages}
        is_provisioning = bool(purposes & {Purpose.CREATE_WORKLOADS, Purpose.DELETE_WORKLOADS})
        is_updating = bool(purposes & {Purpose.UPDATE_WORKLOADS, Purpose.GROW_WORKLOADS})
        has_any = bool(self._own.workloads)
        conditions = self._judged(conditions, PROVISIONED, is_pending=is_provisioning or not has_any)
        conditions = self._judged(conditions, SUBSETS_UPDATED, is_pending=is_updating)
        if condition_of(conditions, SUBSETS_UPDATED) is None:
            conditions = with_condition(conditions, SUBSETS_UPDATED, now=self._now)
        is_growing = bool(purposes & {Purpose.CREATE_WORKLOADS, Purpose.GROW_WORKLOADS})
        if is_growing and self._united.mode is not Mode.FIXED:
            self._dues.append(self._now + self._united.critical_s)
        status = status_of(
            StatusInputs(
                united=self._united,
                workloads=self._own.workloads,
                pods=self._snapshot.subset_pods,
                entries=self._entries,
                schedulable=verdict.conditions,
                reserved=verdict.reserved,
                allocated=allocated,
                partitions={name: self._partition(name, count) for name, count in allocated.items()},
                target=self._target,
                collision_count=self._choice.collision_count,
                is_settled=not (is_provisioning or is_updating),
            ),
            conditions,
        )
        # An update that has just come to its end is over in the same status.
        conditions = with_updated(
            conditions, current=status.current_revision, target=self._target, now=self._now
        )
        status = msgspec.structs.replace(status, conditions=list(conditions))
        if any(self._errors.values()) or not is_effective:
            seen = self._united.status.observed_generation
            status = msgspec.structs.replace(status, observed_generation=seen)
        document = _document(status)
        stages = [*self._closed_first(verdict, status), *stages] if stages else stages
        return Plan(
            stages=tuple(stages),
            status=None if document == self._united.stored_status else document,
            requeue_after_s=self._requeue_after_s(),
            waiting=self._waiting(status, allocated, is_pending=is_provisioning or is_updating),
            notes=tuple(self._notes),
        )

    def _closed_first(
        self, verdict: SchedulabilityVerdict, status: UnitedDeploymentStatus
    ) -> Iterator[Stage]:
        """Which subsets are passed over is stored before anything is done about it: once their pods are gone, nothing
        else would tell."""
        stored = {name: schedulable_of(entry) for name, entry in self._entries.items()}
        if all(stored.get(name) == condition for name, condition in verdict.conditions.items()):
            return
        seen = self._united.status.observed_generation
        wanted = _document(msgspec.structs.replace(status, observed_generation=seen))
        # Conditions are written with the rest of the status.
        patch = status_patch(
            UNITED_DEPLOYMENTS,
            self._united.key,
            uid=self._united.uid,
            stored={**self._united.stored_status, "conditions": None},
            wanted={**wanted, "conditions": None},
        )
        if patch is not None:
            step = Step(action=patch, because="which subsets find nodes has changed")
            chain = Chain(subject=self._united.name, steps=(step,))
            yield Stage(purpose=Purpose.REPORT_STATUS, chains=(chain,))

    def _judged(self, conditions: Conditions, kind: str, *, is_pending: bool) -> Conditions:
        """False for what cannot be done; as it was while something is being written; else True."""
        errors = self._errors[kind]
        if errors:
            error = "; ".join(f"subset {name}: {text}" for name, text in errors.items())
            return with_condition(conditions, kind, error=error, now=self._now)
        return conditions if is_pending else with_condition(conditions, kind, now=self._now)

    def _requeue_after_s(self) -> float | None:
        due = min(self._dues, default=None)
        return None if due is None else max(due - self._now, 0.0)

    def _waiting(
        self, status: UnitedDeploymentStatus, allocated: Mapping[str, int], *, is_pending: bool
    ) -> Reason | None:
        for errors in self._errors.values():
            for name, text in errors.items():
                message = f"subset {name}: {text}"
                return Reason(Code.PATCH, message, "correct the patch of the subset")
        reserved = status.reserved_pods
        wanted = sum(allocated.values()) - reserved
        if is_pending or status.ready_replicas < wanted or status.replicas != wanted:
            return Reason(Code.SUBSETS, "its subsets do not match the spec yet")
        if reserved:
            message = f"{reserved} pods find no node and are kept in reserve; others stand in for them"
            return Reason(Code.IN_RESERVE, message)
        if status.current_revision != status.updated_revision:
            held = sum(self._partition(name, count) for name, count in allocated.items())
            if held and status.updated_ready_replicas >= wanted - held:
                return Reason(
                    Code.PARTITION, f"partitions of its subsets keep {held} pods at older revisions"
                )
            return Reason(Code.SUBSETS, f"its subsets are not all at revision {status.updated_revision}")
        return None

    def _ineffective(self, conditions: Conditions, verdict: SchedulabilityVerdict, error: str) -> Plan:
        """Nothing is scaled or updated; pods stay as they are, and an event says why."""
        text = f"Specified subset replicas is ineffective: {error}"
        note = Note(reason="Failed SpecifySubsetReplicas", message=text, warning=True, again_after_s=_AGAIN_S)
        as_they_are = {name: workload.replicas for name, workload in self._own.workloads.items()}
        plan = self._planned(self._revision(), conditions, verdict, as_they_are, is_effective=False)
        waiting = Reason(Code.INVALID_SPEC, text, "correct replicas of the subsets, or spec.replicas")
        return msgspec.structs.replace(plan, waiting=waiting, notes=(*plan.notes, note))


def _choose(snapshot: ReadableUnitedDeployment) -> UpdateChoice:
    """The revision of the template. Labels are those of the template and of the selector, by which it is found."""
    united = snapshot.united
    metadata = united.workload.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **(united.spec.selector.match_labels or {})}
    return choose_update(
        united.wanted_revision,
        snapshot.revisions.own,
        owner=united.name,
        collision_count=united.status.collision_count or 0,
        others=snapshot.revisions.others,
        body=lambda name, name_hash, number: revision_body(
            name,
            name_hash,
            number,
            namespace=united.namespace,
            labels=labels,
            annotations={},
            owner=united.reference_as(
                msgspec.structs.replace(UNITED_DEPLOYMENTS, version=united.data_version)
            ),
        ),
        annotations={},
    )


def _document(status: UnitedDeploymentStatus) -> Document:
    """As it is stored: the current revision always, be it empty."""
    return {"currentRevision": status.current_revision, **status.document()}
