"""One turn of the loop, the same for every kind: snapshot, plan, execute, report.

key ──▶ planner.snapshot(key) ──▶ planner.plan(snapshot) ──▶ Executor ──▶ status, events ──▶ seconds till next

A kind supplies a `Planner`: four plain functions. Everything that waits or writes is here.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Never, Protocol, TypeVar

import msgspec

from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.controller import DEFAULT_WORKERS, Controller
from pykruise.kube.errors import ApiError, ConflictError, Status
from pykruise.kube.ids import Key
from pykruise.kube.queue import BASE_DELAY_S, MAX_DELAY_S, WorkQueue
from pykruise.kube.recorder import EventRecorder
from pykruise.kube.resources import Resource
from pykruise.plans.actions import Create, Patch
from pykruise.plans.execute import Executor, Failure, Outcome, merged
from pykruise.plans.plan import Chain, Note, Plan, Stage, Step
from pykruise.plans.sources import Sources
from pykruise.plans.status import A_MOMENT_S, PER_SECOND, PER_SECOND_BUSY, StatusPace, status_patch

S = TypeVar("S")

_log = logging.getLogger(__name__)

SLICE_S = 1.0
"""How long one plan is carried out before the world is looked at again: a plan of ten thousand creations
must notice that somebody scaled back meanwhile, and that its first pods wait for their next step."""

MADE_LATELY_S = 1.0
"""Who makes objects again so soon, for an owner of which nothing newer is known, first looks whether it is still
there: garbage collection removes what is made for one that is gone, each removal is an event, and a cache that is
behind would have them made for ever."""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause that API servers name when they refuse to create something in a namespace that terminates."""

OPTIONAL_AGAIN_S = 30.0
"""When what failed in an optional stage is tried again, unless something happens before."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The object a plan is about, as far as reporting needs it."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str
    stored_status: dict[str, Any]
    is_guarded: bool = False
    """Others write its status too: it is written only if the object is still as it was looked at."""


class Planner(Protocol[S]):
    """What a kind supplies. All but `snapshot` and `is_current` are pure."""

    def snapshot(self, key: Key) -> S | None:
        """Everything the plan needs, from the caches; None: the object is gone."""
        ...

    def owner(self, snapshot: S) -> Owner:
        """Whose status and events these are."""
        ...

    def plan(self, snapshot: S) -> Plan:
        """Decide."""
        ...

    def status_after(self, snapshot: S, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """The status when the plan ended with a fault (never a stale one)."""
        ...

    def is_current(self, snapshot: S) -> bool:
        """False once the wish itself (the object's spec) is another than the one planned for."""
        ...


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How much every controller may do at once, and how it retries. Times in seconds."""

    workers: Mapping[str, int] = {}
    """By the controller's name; others have DEFAULT_WORKERS."""
    base_delay_s: float = BASE_DELAY_S
    max_delay_s: float = MAX_DELAY_S
    retries_per_s: float = 0.0
    """Of all keys of a queue together; 0: no bound."""
    retry_burst: int = 100
    status_per_s: float = PER_SECOND
    """Writes a second of the status of one object that keeps changing."""


class KindContext:
    """What a manager gives every kind to build its controller with."""

    def __init__(
        self,
        *,
        client: Client,
        sources: Sources,
        executor: Executor,
        clock: Clock,
        rng: random.Random,
        cpu_time: Callable[[], float],
        tuning: Tuning = Tuning(),  # noqa: B008 - frozen
    ) -> None:
        self.client = client
        self.sources = sources
        self.executor = executor
        self.clock = clock
        self.rng = rng
        self.cpu_time = cpu_time
        self.tuning = tuning
        self.recorders: list[EventRecorder] = []

    def queue(self) -> WorkQueue[Key]:
        """A queue that retries as the manager was told to."""
        return WorkQueue(
            base_delay_s=self.tuning.base_delay_s,
            max_delay_s=self.tuning.max_delay_s,
            retries_per_s=self.tuning.retries_per_s,
            retry_burst=self.tuning.retry_burst,
            rng=self.rng,
        )

    def controller(
        self, name: str, turn: Callable[[Key], Awaitable[float | None]], *, queue: WorkQueue[Key]
    ) -> Controller[Key]:
        """A controller with the workers that the manager was told to give `name`."""
        return Controller(
            name,
            turn,
            queue=queue,
            workers=self.tuning.workers.get(name, DEFAULT_WORKERS),
            clock=self.clock,
            cpu_time=self.cpu_time,
        )

    def recorder(self, component: str) -> "RecordEvent":
        """A way to record events in the name of `component`; the manager runs and flushes it."""
        recorder = EventRecorder(self.client, component, clock=self.clock, rng=self.rng)
        self.recorders.append(recorder)

        def record(owner: Owner, note: Note, count: int) -> None:
            about = note.about or owner
            recorder.record(
                about.resource,
                namespace=about.key.namespace,
                name=about.key.name,
                uid=about.uid,
                reason=note.reason,
                message=note.message,
                warning=note.warning,
                count=count,
            )

        return record


class PlanFailedError(Exception):
    """A write of a plan failed; the key comes back with backoff. The cause is attached."""

    def __init__(self, failure: Failure) -> None:
        action = failure.step.action
        verb = type(action).__name__.lower()
        super().__init__(f"{verb} {action.resource} {action.key}: {failure.error}")
        self.failure = failure


RecordEvent = Callable[[Owner, Note, int], None]


class Reconciler(Generic[S]):
    """Runs the turns of one kind. `record` takes events (it must neither block nor raise)."""

    def __init__(
        self, planner: Planner[S], executor: Executor, *, record: RecordEvent, slice_s: float = SLICE_S
    ) -> None:
        self._planner = planner
        self._executor = executor
        self._record = record
        self._slice_s = slice_s
        self._pace = StatusPace(per_second=executor.status_per_s)
        self._busy_pace = StatusPace(per_second=min(executor.status_per_s, PER_SECOND_BUSY))
        self._owed_since: dict[Key, float] = {}
        """Since when a status was to be written that waits for the writes of its plan."""
        self._told: dict[Key, dict[tuple[str, str, str], float]] = {}
        self._made: dict[Key, tuple[float, str]] = {}
        """When objects were made for an owner, and the version of it that they were made for."""
        self._in_terminating: dict[Key, str] = {}
        """uids of owners whose namespace terminates: it takes no new objects, and nothing ends that but its end."""

    async def __call__(self, key: Key) -> float | None:
        """One turn for `key`. Returns in how many seconds to look again; None: only when something changes.

        Raises ConflictError when the world had moved on (plan again soon), PlanFailedError for a failed write
        that is worth a backoff.
        """
        snapshot = self._planner.snapshot(key)
        if snapshot is None:
            self._pace.forget(key)
            self._busy_pace.forget(key)
            self._owed_since.pop(key, None)
            self._told.pop(key, None)
            self._made.pop(key, None)
            self._in_terminating.pop(key, None)
            return None
        owner = self._planner.owner(snapshot)
        plan = self._planner.plan(snapshot)
        if self._in_terminating.get(key) == owner.uid:
            plan = without_creations(plan)
        for note, count in merged([("", note) for note in plan.notes]):
            self._tell(owner, note, count)
        started = asyncio.get_running_loop().time()
        makes = any(isinstance(step.action, Create) for step in plan.steps)
        made_at, made_for = self._made.get(key, (-MADE_LATELY_S, ""))
        if makes and started - made_at < MADE_LATELY_S and made_for == owner.resource_version:
            await self._insist_on(owner)
        # Side by side: neither builds on the other, and a pod should not wait for the telling of it.
        is_done = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._report_beside(owner, plan, is_done))
            outcome = await self._execute(snapshot, plan)
            is_done.set()
        if makes:
            self._made[key] = (asyncio.get_running_loop().time(), owner.resource_version)
        report = reporting.result()
        if report is None:  # the next plan has a newer one, unless nothing has come of this plan
            is_over = outcome.failure is not None or outcome.written > 0
            report = _Report(due_in_s=0.0) if is_over else await self._report(owner, plan.status)
        _tell(owner, plan, outcome, duration_s=asyncio.get_running_loop().time() - started)
        for note, count in outcome.notes:
            self._record(owner, note, count)
        if outcome.failure is not None and _is_in_terminating(owner, outcome.failure):
            # The end of the owner, or of what it owns, wakes the key; trying again before would change nothing.
            self._in_terminating[key] = owner.uid
            await self._report_failure(snapshot, owner, plan, outcome.failure)
            return None
        if outcome.failure is not None:
            await self._failed(snapshot, owner, plan, outcome.failure)
        # A status that cannot be written must not hold the pods up; it is tried again all the same.
        if report.failure is not None:
            raise _error_of(report.failure) from report.failure.error
        if outcome.interrupted:
            return 0.0
        again_s = OPTIONAL_AGAIN_S if outcome.is_incomplete else None
        return _sooner(_sooner(plan.after, report.due_in_s), again_s)

    def _tell(self, owner: Owner, note: Note, count: int) -> None:
        """Record an event, unless it is one that was told a short while ago."""
        if note.again_after_s > 0:
            told = self._told.setdefault(owner.key, {})
            now = asyncio.get_running_loop().time()
            same = ((note.about or owner).uid, note.reason, note.same_as or note.message)
            if same in told and now - told[same] < note.again_after_s:
                return
            # What the object was told before is past: only the latest wording of a reason is kept.
            for other in [one for one in told if one[:2] == same[:2]]:
                del told[other]
            told[same] = now
        self._record(owner, note, count)

    async def _insist_on(self, owner: Owner) -> None:
        """Look at the live owner. Raises ConflictError when it is not there any more, or another one is."""
        if not await self._executor.is_there(owner.resource, owner.key, uid=owner.uid):
            raise _conflict(f"{owner.resource.kind} {owner.key} ({owner.uid}) is not there any more")

    async def _execute(self, snapshot: S, plan: Plan) -> Outcome:
        if not plan.stages:
            return Outcome()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._slice_s
        return await self._executor.execute(
            plan, until=lambda: loop.time() >= end or not self._planner.is_current(snapshot)
        )

    async def _failed(self, snapshot: S, owner: Owner, plan: Plan, failure: Failure) -> Never:
        if not failure.is_stale:
            await self._report_failure(snapshot, owner, plan, failure)
        raise _error_of(failure) from failure.error

    async def _report_failure(self, snapshot: S, owner: Owner, plan: Plan, failure: Failure) -> None:
        status = self._planner.status_after(snapshot, plan, failure) or plan.status
        await self._report(owner, status, at_once=True)

    async def _report_beside(self, owner: Owner, plan: Plan, is_done: asyncio.Event) -> "_Report | None":
        """Write the status beside the plan's other writes; None: they were done before a moment had passed.

        Each of them changes the status again, so telling it before costs a write, and time that they would need.
        """
        if not plan.stages or plan.status is None:
            return await self._report(owner, plan.status)
        since = self._owed_since.setdefault(owner.key, asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(since + A_MOMENT_S):
                await is_done.wait()
        except TimeoutError:
            return await self._report(owner, plan.status, is_busy=True)
        return None

    async def _report(
        self,
        owner: Owner,
        status: dict[str, Any] | None,
        *,
        at_once: bool = False,
        is_busy: bool = False,
    ) -> "_Report":
        """Write the status when it differs and its turn has come."""
        self._owed_since.pop(owner.key, None)
        if status is None:
            return _Report()
        patch = status_patch(
            owner.resource,
            owner.key,
            uid=owner.uid,
            stored=owner.stored_status,
            wanted=status,
            resource_version=owner.resource_version if owner.is_guarded else "",
        )
        if patch is None:
            return _Report()
        pace = self._busy_pace if is_busy else self._pace
        wait_s = pace.wait_s(owner.key, now=asyncio.get_running_loop().time())
        if wait_s > 0 and not at_once:
            return _Report(due_in_s=wait_s)
        outcome = await self._executor.execute(_alone(patch))
        return _Report(failure=outcome.failure)


def _tell(owner: Owner, plan: Plan, outcome: Outcome, *, duration_s: float) -> None:
    """One log line for a plan that wrote something: what about, why, how much and how long it took."""
    if not plan.stages or not _log.isEnabledFor(logging.INFO):
        return
    reasons = Counter(step.because for step in plan.steps)
    shown = [f"{reason} (x{count})" if count > 1 else reason for reason, count in reasons.most_common(3)]
    if len(reasons) > len(shown):
        shown.append(f"and {len(reasons) - len(shown)} more reasons")
    _log.info(
        "%s %s: %d of %d writes: %s",
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
                "left": len(plan.left),
                "duration_s": round(duration_s, 4),
            }
        },
    )


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a status: nothing to do or written, due later, or failed."""

    due_in_s: float | None = None
    failure: Failure | None = None


def without_creations(plan: Plan) -> Plan:
    """The plan up to the first stage that creates something, without those creations, and what goes on regardless."""
    stages: list[Stage] = []
    is_cut = False
    for stage in plan.stages:
        if is_cut and not stage.regardless:
            continue
        chains = tuple(chain for chain in stage.chains if not _creates(chain))
        is_cut = is_cut or len(chains) < len(stage.chains)
        if chains:
            stages.append(msgspec.structs.replace(stage, chains=chains))
    return msgspec.structs.replace(plan, stages=tuple(stages), after=None) if is_cut else plan


def _creates(chain: Chain) -> bool:
    return any(isinstance(step.action, Create) for step in chain.steps)


def _is_in_terminating(owner: Owner, failure: Failure) -> bool:
    """Whether something could not be created since the owner's own namespace terminates."""
    action, error = failure.step.action, failure.error
    return (
        isinstance(action, Create)
        and action.key.namespace == owner.key.namespace != ""
        and isinstance(error, ApiError)
        and any(cause.reason == NAMESPACE_TERMINATING for cause in error.causes)
    )


def _error_of(failure: Failure) -> Exception:
    return _stale(failure) if failure.is_stale else PlanFailedError(failure)


def _stale(failure: Failure) -> ConflictError:
    """Nothing is wrong: what was found is in the cache by now, or comes with the next event."""
    return _conflict(f"{failure.step.action.key} is not as planned with any more: {failure.error}")


def _conflict(message: str) -> ConflictError:
    return ConflictError(Status(code=409, reason="Conflict", message=message))


def _alone(patch: Patch) -> Plan:
    step = Step(action=patch, because="the status shows something else")
    return Plan(stages=(Stage(name="status", chains=(Chain(subject="", steps=(step,)),)),))


def _sooner(first: float | None, second: float | None) -> float | None:
    times = [time for time in (first, second) if time is not None]
    return min(times, default=None)
