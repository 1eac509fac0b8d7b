"""Reconciler of all kinds: snapshot, plan, execute, report.

key ──▶ Control.snapshot(view, read) ──▶ Control.plan(snapshot) ──▶ Executor ──▶ status, events ──▶ seconds until next

A kind supplies plain functions (control.py). All code that waits or writes is here.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Never

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import (
    ApiError,
    ConflictError,
    ErrorStatus,
    KubeError,
    NoSubresourceError,
    NotFoundError,
)
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_count
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.churn import ChurnBrake, hold_back
from pykruise.runtime.control import Control
from pykruise.runtime.execute import Executor, Failure, Outcome, merge_notes
from pykruise.runtime.kstatus import KSTATUS, Conditions, Standing, add_kstatus, read_unready_since
from pykruise.runtime.plan import REPORT_STATUS, Chain, Note, Plan, Stage, Step
from pykruise.runtime.read import Memories, Mirror, Read
from pykruise.runtime.reasons import Reason
from pykruise.runtime.rollouts import ChildrenOf, RolloutMeter
from pykruise.runtime.status import (
    A_MOMENT_S,
    OWN_CONDITIONS_S,
    PER_SECOND_BUSY,
    WORDS_S,
    StatusPace,
    UnkeptFields,
    build_status_patch,
    can_wait,
    is_different_in_words_alone,
)

__all__ = [
    "MADE_LATELY_S",
    "OPTIONAL_AGAIN_S",
    "SLICE_S",
    "PlanFailedError",
    "ReconciledOwner",
    "Reconciler",
    "owner_of",
]

_log = logging.getLogger(__name__)

SLICE_S = 1.0
"""Maximum number of seconds for which one plan is executed before the object is planned again. A plan of ten thousand
creations must notice that the owner was scaled down meanwhile, and that its first pods are ready for their next step.
"""

MADE_LATELY_S = 1.0
"""If an owner creates objects again within this number of seconds, a live read first checks that it still exists.
Garbage collection deletes the objects of a deleted owner, and each deletion causes an event. A controller with a stale
cache would create them again forever.
"""

RAMP_KEPT_S = 10.0
"""A plan that starts less than this number of seconds after the end of the previous plan for the same spec continues
the ramp of the previous plan. Otherwise a slow API server, which answers only a few batches in SLICE_S, would see
batches of 1, 2, 4, … forever.
"""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in an API server's error when it rejects a creation in a terminating namespace."""

FAILURES_LOGGED_S = 300.0
"""Seconds until the log has another line about writes that fail for the same reason and are retried."""

OPTIONAL_AGAIN_S = 30.0
"""Seconds until a failed write of an optional stage is tried again, unless an event starts a reconcile before."""


class ReconciledOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a plan: the fields that reports need."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str
    stored_status: dict[str, Any]
    kstatus: Conditions = ()
    """Conditions of the stored status that `stored_status` does not have (kstatus.py)."""
    is_deleting: bool = False
    is_guarded: bool = False
    """Whether other clients write the status too. If so, the status is written only if the object's resourceVersion has
    not changed.
    """

    @property
    def whole_status(self) -> Document:
        """The stored status; the order of its conditions may differ."""
        if not self.kstatus:
            return self.stored_status
        conditions = [*self.stored_status.get("conditions", ()), *self.kstatus]
        return {**self.stored_status, "conditions": conditions}


def owner_of(view: Any, resource: Resource, *, is_shared: bool = False) -> ReconciledOwner:
    """Return the object of this view as the owner of its plans. `is_shared`: other clients write its status too."""
    return ReconciledOwner(
        resource=resource,
        key=Key(view.namespace, view.name),
        uid=view.uid,
        resource_version=str(view.resource_version),
        stored_status=getattr(view, "stored_status", {}),  # the kubelet reports a pod's status
        kstatus=getattr(view, "kstatus", ()),
        is_deleting=view.is_deleting,
        is_guarded=is_shared,
    )


class PlanFailedError(Exception):
    """A write of a plan failed; the key is requeued with backoff. The cause is attached."""

    def __init__(self, failure: Failure) -> None:
        action = failure.step.action
        verb = type(action).__name__.lower()
        super().__init__(f"{verb} {action.resource} {action.key}: {failure.error}")
        self.failure = failure


RecordEvent = Callable[[ReconciledOwner, Note, int], None]
"""Records an event: owner, note, and count."""


class _Past(msgspec.Struct):
    """Memory of the reconciler about an object."""

    owed_since: float | None = None
    """Time since which a status waits for the writes of its plan."""
    own_owed_since: float | None = None
    """Time since which a status waits, if it differs only in conditions that no other client knows."""
    notes: dict[tuple[str, str, str], float] = {}
    """Events that must not be repeated yet, with the time when each was recorded."""
    made_at: float = -MADE_LATELY_S
    made_for: str = ""
    """Time of the latest creation of objects for this owner, and the owner's resourceVersion at that time."""
    was_waiting: bool = False
    """Whether the previous plan waited."""
    milestone: tuple[int, bool] = (0, False)
    """Generation of the latest plan, and whether that plan was at rest: nothing to write, nothing to wait for."""
    reported: tuple[int, bool] = (0, False)
    """Newest milestone that the stored status describes."""
    is_status_refused: bool = False
    """Whether its status could not be written. The retry has a backoff like other failures."""
    logged: str = ""
    logged_at: float = 0.0
    """Code of the failed write that the log mentioned last, and the time of this log line."""
    worded_at: float = -WORDS_S
    """Time of the latest report of a failure whose status differed from the stored one only in messages."""
    refused: Reason | None = None
    """Reason why the latest write of its plans failed; None: it succeeded, or there is nothing to write."""
    ramps: Mapping[str, int] = {}
    """`Outcome.ramps` of the latest plan with writes."""
    ramped: tuple[int, float] = (0, -RAMP_KEPT_S)
    """Generation of that plan, and the time of its end."""
    in_terminating: bool = False
    """Whether the object's namespace is terminating. A terminating namespace accepts no new objects."""


class Reconciler:
    """Reconciles the objects of one kind.

    `objects`: the kind's own objects. `read_for`: returns the reads for an object's snapshot. `record`: records events
    and must neither block nor raise. `memories`: values that the kind and this class remember between reconciles.
    `executor_of`: returns the executor for an object, if not all objects use `executor`. `rollouts`: measures rollouts.
    `reports_ready`: the status has the conditions of kstatus.py, if the kind supports them. `brake`: holds back the
    writes of objects whose reconciles undo their own work; all reconcilers of a manager share it. `blank_status`:
    required fields of a status while nothing is known, since the API server would reject a status without them.
    `children`: children whose waits count as their parent's.
    """

    def __init__(
        self,
        resource: Resource,
        control: Control,
        objects: Mirror[Any],
        *,
        read_for: Callable[[Any], Read[Any]],
        memories: Memories,
        executor: Executor,
        executor_of: Callable[[Key], Executor] | None = None,
        record: RecordEvent,
        slice_s: float = SLICE_S,
        reports_ready: bool = False,
        rollouts: RolloutMeter | None = None,
        brake: ChurnBrake | None = None,
        blank_status: Mapping[str, Any] = {},
        children: ChildrenOf | None = None,
    ) -> None:
        self._resource = resource
        self._control = control
        self._objects = objects
        self._read_for = read_for
        self._memories = memories
        self._executor = executor
        self._executor_of = executor_of or (lambda _: executor)
        self._record = record
        self._slice_s = slice_s
        self._standing = control.standing
        self._reports_ready = reports_ready and control.standing is not None
        self._rollouts = rollouts
        self._children = children
        self._blank_status = blank_status
        self._brake = brake or ChurnBrake(now=lambda: asyncio.get_running_loop().time())
        self._pace = StatusPace(per_second=executor.status_per_s)
        self._unkept = UnkeptFields()
        self._busy_pace = StatusPace(per_second=min(executor.status_per_s, PER_SECOND_BUSY))

    async def __call__(self, key: Key) -> float | None:
        """Reconcile `key`. Returns the seconds until the next reconcile; None: only an event starts it.

        Raises ConflictError when the cluster had changed (plan again soon), PlanFailedError for a failed write that
        deserves a backoff.
        """
        view = self._objects.get(key)
        if view is None:
            self.forget(key)
            if self._control.absent is None:
                return None
            view = self._control.absent(key)
        with self._executor.span("reconcile", self._resource, key):
            return await self._reconcile(key, view)

    async def _reconcile(self, key: Key, view: Any) -> float | None:
        read = self._read_for(view)
        with self._executor.span("snapshot", self._resource, key):
            snapshot = await self._control.snapshot(view, read)
        if snapshot is None:
            return None
        with self._executor.span("plan", self._resource, key):
            plan = self._control.plan(snapshot)
        if plan.memory is not None:
            read.keep(plan.memory)
        if self._control.remember is not None:
            self._control.remember(read, snapshot, plan)
        return await self._carry_out(read, snapshot, plan)

    def forget(self, key: Key) -> None:
        """Forget a deleted object."""
        self._pace.forget(key)
        self._busy_pace.forget(key)
        self._memories.forget(key)
        self._brake.forget(self._resource, key)
        if self._rollouts is not None:
            self._rollouts.forget(key)

    def _find_past(self, owner: ReconciledOwner) -> _Past:
        return self._memories.find_memory(owner.key, owner.uid, _Past)

    async def _carry_out(self, read: Read[Any], snapshot: Any, plan: Plan) -> float | None:
        view = self._control.object_of(snapshot)
        owner = owner_of(view, self._resource, is_shared=self._control.is_status_shared)
        generation = getattr(view, "generation", 0)
        hold = self._brake.hold(owner.resource, owner.key, uid=owner.uid, generation=generation)
        if hold is not None and not owner.is_deleting:
            plan = hold_back(plan, hold)
        past = self._find_past(owner)
        if not plan.stages:
            past.refused = None
        # The rejected write will be tried again, and may fail again: its reason stays until a plan has no failed write.
        waiting = past.refused or plan.waiting
        self._note_causes(owner, plan, waiting)
        if self._children is not None and self._rollouts is not None:
            self._rollouts.note_children(owner.key, self._children(snapshot))
        plan = msgspec.structs.replace(plan, status=self._with_kstatus(owner, plan.status, waiting, snapshot))
        if past.in_terminating:
            plan = drop_creations(plan)
        for note, count in merge_notes([("", note) for note in plan.notes]):
            self._tell(owner, note, count)
        started = asyncio.get_running_loop().time()
        makes = any(isinstance(step.action, Create) for step in plan.steps)
        if makes and started - past.made_at < MADE_LATELY_S and past.made_for == owner.resource_version:
            await self._check_exists(owner)
        is_at_rest = plan.waiting is None and not plan.stages
        is_settled = past.was_waiting and is_at_rest
        past.milestone = (generation, is_at_rest)
        past.was_waiting = plan.waiting is not None
        outcome, report = await self._write(owner, view, plan, at_once=is_settled)
        held_s = self._brake.note(
            owner.resource, owner.key, uid=owner.uid, generation=generation, done=outcome.done
        )
        if held_s is not None:
            _log.warning(
                "%s %s: the controller's writes undo each other; the next writes are delayed for %g s",
                owner.resource.kind,
                owner.key,
                held_s,
            )
        if makes:
            past.made_at, past.made_for = asyncio.get_running_loop().time(), owner.resource_version
        if report is None:  # the next plan reports a newer status, unless this plan changed nothing
            is_over = outcome.failure is not None or outcome.written > 0
            report = _Report(due_in_s=0.0) if is_over else await self._report(owner, plan.status)
        _tell(owner, plan, outcome, duration_s=asyncio.get_running_loop().time() - started)
        for note, count in outcome.notes:
            self._record(owner, note, count)
        failure = outcome.failure
        if failure is None:
            past.refused = None
        if failure is not None and self._control.learn is not None and not failure.is_stale:
            self._control.learn(
                read, snapshot, [failure for failure in outcome.failures if not failure.is_stale]
            )
            self._log_failures(owner, outcome)
            return 0.0
        if outcome.failure is not None and _is_in_terminating(owner, outcome.failure):
            # The deletion of the owner or of its objects enqueues the key; an earlier retry would change nothing.
            past.in_terminating = True
            await self._report_failure(snapshot, owner, plan, outcome.failure)
            return None
        if outcome.failure is not None:
            await self._report_and_raise(snapshot, owner, plan, outcome.failure)
        # A status that cannot be written must not stop work on the pods; the error requeues the key.
        if report.failure is not None:
            raise _build_error(report.failure) from report.failure.error
        if outcome.interrupted:
            return 0.0
        again_s = OPTIONAL_AGAIN_S if outcome.is_incomplete else None
        requeue_after_s = plan.requeue_after_s
        if requeue_after_s == 0.0 and report.due_in_s and not outcome.written:
            requeue_after_s = None  # a new plan would be the same now: plan again when the status is due
        return _choose_earlier(_choose_earlier(requeue_after_s, report.due_in_s), again_s)

    def _tell(self, owner: ReconciledOwner, note: Note, count: int) -> None:
        """Record an event, unless the same one was recorded shortly before."""
        if note.again_after_s > 0:
            known = self._find_past(owner).notes
            now = asyncio.get_running_loop().time()
            same = ((note.about or owner).uid, note.reason, note.same_as or note.message)
            if same in known and now - known[same] < note.again_after_s:
                return
            # Remember only the latest message of a reason.
            for other in [item for item in known if item[:2] == same[:2]]:
                del known[other]
            known[same] = now
        self._record(owner, note, count)

    def _log_failures(self, owner: ReconciledOwner, outcome: Outcome) -> None:
        """Log failed writes; at debug level when a failure with the same code was logged shortly before."""
        assert outcome.failure is not None
        past, now = self._find_past(owner), asyncio.get_running_loop().time()
        code = outcome.failure.reason.code
        is_known = code == past.logged and now - past.logged_at < FAILURES_LOGGED_S
        if not is_known:
            past.logged, past.logged_at = code, now
        _log.log(
            logging.DEBUG if is_known else logging.WARNING,
            "%s %s: %d writes failed; the first error: %s",
            owner.resource.kind,
            owner.key,
            len(outcome.failures),
            outcome.failure.error,
        )

    async def _check_exists(self, owner: ReconciledOwner) -> None:
        """Check that the live owner exists. Raises ConflictError when it was deleted or replaced."""
        if not await self._executor_of(owner.key).is_there(owner.resource, owner.key, uid=owner.uid):
            raise _build_conflict_error(f"{owner.resource.kind} {owner.key} ({owner.uid}) no longer exists")

    async def _write(
        self, owner: ReconciledOwner, view: Any, plan: Plan, *, at_once: bool
    ) -> tuple[Outcome, "_Report | None"]:
        """Execute the stages and report the status concurrently: neither depends on the other, and a pod should not
        wait for the status.
        """
        if not plan.stages:
            return Outcome(), await self._report(owner, plan.status, at_once=at_once)
        if plan.status is None:
            # For kinds such as pods, which have thousands of reconciles: no extra task for the status.
            return await self._execute(owner, view, plan), await self._report(owner, None)
        is_done = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report_beside(owner, plan.status, is_done))
            outcome = await self._execute(owner, view, plan)
            is_done.set()
        return outcome, reporting.result()

    async def _execute(self, owner: ReconciledOwner, view: Any, plan: Plan) -> Outcome:
        loop = asyncio.get_running_loop()
        past, started = self._find_past(owner), loop.time()
        generation = getattr(view, "generation", 0)
        ramped_generation, ended = past.ramped
        is_same_spec = generation == ramped_generation and started - ended < RAMP_KEPT_S
        outcome = await self._executor_of(owner.key).execute(
            plan,
            until=lambda: loop.time() >= started + self._slice_s or not self._is_current(view),
            ramps=past.ramps if is_same_spec else {},
        )
        past.ramps, past.ramped = outcome.ramps, (generation, loop.time())
        return outcome

    def _is_current(self, planned: Any) -> bool:
        """Whether the spec's generation is still the planned one."""
        now = self._objects.get(Key(planned.namespace, planned.name))
        if now is None:
            return not planned.uid
        return self._control.is_current(planned, now)

    async def _report_and_raise(
        self, snapshot: Any, owner: ReconciledOwner, plan: Plan, failure: Failure
    ) -> Never:
        if not failure.is_stale:
            await self._report_failure(snapshot, owner, plan, failure)
        raise _build_error(failure) from failure.error

    async def _report_failure(
        self, snapshot: Any, owner: ReconciledOwner, plan: Plan, failure: Failure
    ) -> None:
        reported = self._control.failed(snapshot, plan, failure)
        status = reported if reported is not None else plan.status
        holds_back = reported is not None or failure.purpose not in self._control.unreported
        waiting = failure.reason if holds_back else plan.waiting
        past = self._find_past(owner)
        past.refused = failure.reason if holds_back else None
        if holds_back and not failure.step.notes_when_failed:
            self._tell(owner, _note_of(failure), 1)
        self._note_causes(owner, plan, waiting)
        status = self._with_kstatus(owner, status, waiting, snapshot)
        stored = owner.whole_status if self._reports_ready else owner.stored_status
        if status is not None and is_different_in_words_alone(stored, status):
            now = asyncio.get_running_loop().time()
            if now - past.worded_at < WORDS_S:
                return
            past.worded_at = now
        await self._report(owner, status, at_once=True)

    async def _report_beside(
        self, owner: ReconciledOwner, status: Document, is_done: asyncio.Event
    ) -> "_Report | None":
        """Write the status while the plan's writes are running; None: they finished within A_MOMENT_S.

        Each of these writes changes the status again, so an earlier report would cost a request and delay them.
        """
        past = self._find_past(owner)
        if past.owed_since is None:
            past.owed_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(past.owed_since + A_MOMENT_S):
                await is_done.wait()
        except TimeoutError:
            return await self._report(owner, status, is_busy=True)
        return None

    async def _report(
        self,
        owner: ReconciledOwner,
        status: dict[str, Any] | None,
        *,
        at_once: bool = False,
        is_busy: bool = False,
    ) -> "_Report":
        """Write the status when it differs and its pace allows a write."""
        self._find_past(owner).owed_since = None
        if status is None:
            self._find_past(owner).own_owed_since = None
            return _Report()
        now = asyncio.get_running_loop().time()
        wanted = self._unkept.without(status, now=now)
        patch = build_status_patch(
            owner.resource,
            owner.key,
            uid=owner.uid,
            stored=owner.whole_status if self._reports_ready else owner.stored_status,
            wanted=wanted,
            resource_version=owner.resource_version if owner.is_guarded else "",
        )
        past = self._find_past(owner)
        if patch is None:
            past.own_owed_since = None
            past.reported = max(past.reported, past.milestone)
            return _Report()
        patience_s = 0.0 if at_once else self._compute_patience_s(owner, status)
        if patience_s > 0:
            return _Report(due_in_s=patience_s)
        pace = self._busy_pace if is_busy else self._pace
        wait_s = pace.wait_s(owner.key, now=now)
        # A client that changed the spec waits for the first status of the new generation, and for the status when
        # nothing is left to do.
        is_awaited = past.milestone > past.reported
        if wait_s > 0 and not (at_once or is_awaited or past.is_status_refused):
            return _Report(due_in_s=wait_s)
        past.own_owed_since = None
        outcome = await self._executor_of(owner.key).execute(_plan_of_patch(patch))
        failure = outcome.failure
        if failure is not None and isinstance(failure.error, NotFoundError):
            failure = await self._explain_not_found(owner, failure)
        past.is_status_refused = (
            failure is not None and not failure.is_stale and not isinstance(failure.error, NoSubresourceError)
        )
        again_s = None
        if failure is None:
            past.reported = max(past.reported, past.milestone)
            again_s = self._learn_unkept_fields(owner, patch, now=now)
            if self._reports_ready:
                self._check_kstatus_kept(owner)
        return _Report(due_in_s=again_s, failure=failure)

    async def _explain_not_found(self, owner: ReconciledOwner, failure: Failure) -> Failure:
        """Return the failure of a status write that ended with 404. If the owner exists, its error names the cause, and
        an event reports it.
        """
        try:
            exists = await self._executor_of(owner.key).is_there(owner.resource, owner.key, uid=owner.uid)
        except KubeError:
            return failure
        if not exists:
            return failure
        failure = msgspec.structs.replace(failure, error=_build_no_status_error(owner))
        self._tell(owner, _note_of(failure), 1)
        return failure

    def _compute_patience_s(self, owner: ReconciledOwner, status: Document) -> float:
        """Seconds that the status may wait for another change to be written with it."""
        past, now = self._find_past(owner), asyncio.get_running_loop().time()
        stored = owner.whole_status if self._reports_ready else owner.stored_status
        own, urgent = self._control.own_conditions, self._control.urgent_conditions
        if self._reports_ready:
            own, urgent = own | set(KSTATUS), urgent | set(KSTATUS)
        if not can_wait(stored, status, own=own, urgent=urgent):
            return 0.0
        if past.own_owed_since is None:
            past.own_owed_since = now
        return past.own_owed_since + OWN_CONDITIONS_S - now

    def _with_kstatus(
        self, owner: ReconciledOwner, status: Document | None, waiting: Reason | None, snapshot: Any
    ) -> Document | None:
        """Return the status with the conditions of kstatus.py; None: the stored one is the same."""
        if self._standing is None:
            return status
        plain = owner.stored_status if status is None else status
        standing = self._standing(plain, waiting)
        self._note_rollout(owner, standing, snapshot)
        if not self._reports_ready:
            return status
        plain = {**self._blank_status, **plain}
        if owner.is_deleting:  # the object only waits for its deletion, and its conditions stay
            conditions = [*plain.get("conditions", ()), *owner.kstatus]
            wanted = {**plain, "conditions": conditions} if conditions else plain
        else:
            wanted = add_kstatus(
                plain,
                owner.kstatus,
                standing=standing,
                now=snapshot.now,
                is_generation_said=self._control.is_generation_in_conditions,
            )
        return None if wanted == owner.whole_status else wanted

    def _note_causes(self, owner: ReconciledOwner, plan: Plan, waiting: Reason | None) -> None:
        """Note for metrics why an object, its pods or its nodes wait, unless its conditions contain the reasons."""
        if self._rollouts is None:
            return
        has_conditions = self._standing is not None and not owner.is_deleting
        if has_conditions and not self._control.has_waits_beside_status:
            return
        skipped = (*plan.skipped.values(), *plan.skipped_nodes.values())
        causes = [reason.code for reason in (*((waiting,) if waiting is not None else ()), *skipped)]
        self._rollouts.note_causes(owner.key, tuple(dict.fromkeys(causes)))

    def _note_rollout(self, owner: ReconciledOwner, standing: Standing, snapshot: Any) -> None:
        if self._rollouts is None or owner.is_deleting:
            return
        generation = getattr(self._control.object_of(snapshot), "generation", 0)
        since = read_unready_since(owner.kstatus)
        self._rollouts.note(owner.key, generation, standing, since=since, now=snapshot.now)

    def _learn_unkept_fields(self, owner: ReconciledOwner, patch: Patch, *, now: float) -> float | None:
        """Compare the written status with the stored one, to find fields that the API server dropped. A field that
        another manager removed before the patch is not in the patch. If a field was missing for the first time, returns
        the seconds until the status is written again.
        """
        written = patch.body["status"] if isinstance(patch.body, dict) else {}
        stored = self._objects.get(owner.key)
        if stored is not None and stored.uid == owner.uid:
            kept = owner_of(stored, self._resource, is_shared=owner.is_guarded).whole_status
            return self._unkept.learn(written, kept, now=now)
        return None

    def _check_kstatus_kept(self, owner: ReconciledOwner) -> None:
        """Stop reporting the conditions when the installed CRD has no schema for them: the API server drops them."""
        now = self._objects.get(owner.key)
        if now is not None and now.uid == owner.uid and not owner.is_deleting and not now.kstatus:
            _log.warning(
                "%s: the CRD has no schema for the conditions Ready, Reconciling and Stalled, so they are not reported",
                owner.resource.kind,
            )
            self._reports_ready = False


def _tell(owner: ReconciledOwner, plan: Plan, outcome: Outcome, *, duration_s: float) -> None:
    """Log one line for a plan that wrote something: its object, reasons, counts and duration."""
    if not plan.stages or not _log.isEnabledFor(logging.INFO):
        return
    reasons = Counter(step.because for step in plan.steps)
    shown = [f"{reason} (x{count})" if count > 1 else reason for reason, count in reasons.most_common(3)]
    if len(reasons) > len(shown):
        shown.append(f"and {format_count(len(reasons) - len(shown), 'more reason')}")
    _log.info(
        "%s %s: %d of %d writes succeeded: %s",
        owner.resource.kind,
        owner.key,
        outcome.written,
        sum(reasons.values()),
        "; ".join(shown),
        extra={
            "fields": {
                "kind": owner.resource.kind,
                "object": str(owner.key),
                "written": outcome.written,
                "left": len(plan.skipped),
                "duration_s": round(duration_s, 4),
            }
        },
    )


def _note_of(failure: Failure) -> Note:
    """Return the event of a failed write whose step has no event for failures. All tries are one event with a count."""
    reason = failure.reason
    return Note(reason="FailedWrite", message=reason.message, warning=True, code=reason.code)


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a status report: nothing to do or written, due later, or failed."""

    due_in_s: float | None = None
    failure: Failure | None = None


def drop_creations(plan: Plan) -> Plan:
    """Return the plan without creations: the stages up to the first one that creates something, and later stages
    marked `regardless`, except those that depend on a stage without its creations.
    """
    stages: list[Stage] = []
    cut: set[str] = set()
    for stage in plan.stages:
        if cut and (not stage.regardless or cut.intersection((*stage.only_after, *stage.instead_of))):
            continue
        chains = tuple(chain for chain in stage.chains if not _has_creation(chain))
        if len(chains) < len(stage.chains):
            cut.add(stage.purpose)
        if chains:
            stages.append(msgspec.structs.replace(stage, chains=chains))
    return msgspec.structs.replace(plan, stages=tuple(stages), requeue_after_s=None) if cut else plan


def _has_creation(chain: Chain) -> bool:
    return any(isinstance(step.action, Create) for step in chain.steps)


def _is_in_terminating(owner: ReconciledOwner, failure: Failure) -> bool:
    """Whether a creation failed because the owner's own namespace terminates."""
    action, error = failure.step.action, failure.error
    return (
        isinstance(action, Create)
        and action.key.namespace == owner.key.namespace != ""
        and isinstance(error, ApiError)
        and any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes)
    )


def _build_error(failure: Failure) -> Exception:
    return _build_stale_error(failure) if failure.is_stale else PlanFailedError(failure)


def _build_stale_error(failure: Failure) -> ConflictError:
    """Return the error for a write that failed only because the cluster had changed since the snapshot. Nothing is
    wrong: the cache has the new state already, or receives it with the next event.
    """
    return _build_conflict_error(f"{failure.step.action.key} has changed since the plan: {failure.error}")


def _build_conflict_error(message: str) -> ConflictError:
    return ConflictError(ErrorStatus(code=409, reason="Conflict", message=message))


def _build_no_status_error(owner: ReconciledOwner) -> NoSubresourceError:
    message = (
        f"the API server has no status subresource for {owner.resource.kind}; for a custom resource, add"
        " `subresources: {status: {}}` to the version in spec.versions of its CRD"
    )
    return NoSubresourceError(ErrorStatus(code=404, reason="NotFound", message=message))


def _plan_of_patch(patch: Patch) -> Plan:
    step = Step(action=patch, because="the status is out of date")
    return Plan(stages=(Stage(purpose=REPORT_STATUS, chains=(Chain(subject="", steps=(step,)),)),))


def _choose_earlier(first: float | None, second: float | None) -> float | None:
    times = [time for time in (first, second) if time is not None]
    return min(times, default=None)
