"""Executes plans: the only place where decisions become API writes.

Plan ──▶ Executor.execute() ──▶ Writer (request, response into the cache) ──▶ Outcome

Stages run sequentially. The chains of a stage run concurrently, at most `max_in_flight` over all plans
(runtime/fair_places.py divides these places between the plans). A chain keeps its place until its last step, so that
one pod is finished before the next one begins. The first failure ends the plan: running chains finish, other chains of
the stage start only if it is marked `is_independent`, later stages only if they are marked `regardless`, and the key is
planned again from the new state. A stage with `instead_of` starts only if the stages that it names have written
nothing. After a conflict the stage continues with its other chains, because they write to other objects: the limits of
the plan count the object of the conflict as if it had been written.

A write whose response was lost is repeated until the server's response shows whether the write took effect. Later tries
may fail in other ways: a server that restarts refuses connections at first, and then knows no RBAC rules for a moment.
Planning without knowing the result could create one pod too many after a POST, or take one pod too many out of service
after a DELETE. Repeating is safe: the plan chooses the names and deletions carry the uid, so the second try finds the
result of the first try.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import msgspec

from pykruise.kube.cache.writer import Writer
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.documents import decode
from pykruise.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InternalError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    TransportError,
)
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import Resource
from pykruise.kube.values.counts import format_first
from pykruise.kube.values.owners import controller_of
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.fair_places import FairPlaces
from pykruise.runtime.plan import CREATED_NAME, Chain, Note, Plan, Stage, Step, Subject
from pykruise.runtime.reasons import Reason, WriteFault
from pykruise.runtime.refusals import SHORTER_NAME, explain_error
from pykruise.runtime.status import PER_SECOND
from pykruise.runtime.tracing import NO_SPANS, Span

__all__ = ["Executor", "Failure", "Outcome", "merge_notes"]

MAX_IN_FLIGHT = 32
"""Maximum number of concurrent chains. More chains would only queue at the API server, and keep each pod out of service
longer.
"""

FIRST_REPEAT_S = 0.1
LAST_REPEAT_S = 5.0
LONGEST_REPEAT_S = 60.0
"""Seconds after which a write is no longer repeated if the live object shows that it has not taken effect: the API
server, or one of its webhooks, would probably never respond in time.
"""

LONGEST_LABEL = 63
LONGEST_NAME = 253
"""Maximum number of characters of a label's value, and of an object's name."""


class Failure(msgspec.Struct, frozen=True):
    """The write that ended a plan, and its error."""

    purpose: str
    subject: str
    step: Step
    error: KubeError

    @property
    def is_stale(self) -> bool:
        """Whether the cluster had changed since the snapshot. Nothing is wrong then: plan again.

        A creation that ends with 404 needs a namespace or a CRD that does not exist: that is an ordinary failure.
        """
        if isinstance(self.error, NotFoundError):
            return not isinstance(self.step.action, Create)
        return isinstance(self.error, ConflictError | AlreadyExistsError) or _is_other_object(self.error)

    @property
    def is_conflict(self) -> bool:
        """Whether only the written object has changed since the snapshot."""
        return isinstance(self.error, ConflictError)

    @property
    def is_refused_resize(self) -> bool:
        """Whether the API server rejected the resize of a running pod."""
        is_resize = getattr(self.step.action, "subresource", "") == "resize"
        return is_resize and isinstance(self.error, ForbiddenError | InvalidError)

    @property
    def reason(self) -> Reason:
        """The reason of the failure, with a message that stays the same when the failure repeats.

        A created object's name differs with each try, so the message leaves it out. Otherwise the status would differ
        after each try, and each status write causes an event, which starts the next try immediately.
        """
        action = self.step.action
        text = (
            _without_name(str(self.error), action.key.name) if isinstance(action, Create) else str(self.error)
        )
        unknown = WriteFault.RESIZE_REFUSED if self.is_refused_resize else WriteFault.POLICY
        code, remedy = explain_error(self.error, unknown=unknown, namespace=action.key.namespace)
        if self.is_refused_resize and code in (WriteFault.WRITE_FAILED, WriteFault.FORBIDDEN):
            code = WriteFault.RESIZE_REFUSED
        if isinstance(self.error, InvalidError) and is_named_too_long(action):
            code, remedy = WriteFault.NAME_TOO_LONG, SHORTER_NAME
        return Reason(code, f"{self.purpose}: {text}", remedy)


def _without_name(text: str, name: str) -> str:
    """Remove the name of the created object from the text, also where the API server has cut the name in a quoted
    value.
    """
    text = text.replace(name, "…")
    for length in range(len(name) - 1, max(len(name) - _RANDOM, 0), -1):
        for gap in _GAPS:
            text = text.replace(f"{name[:length]}{gap}", "…")
    return text


_RANDOM = 5
"""Number of characters at the end of a name that each try chooses at random."""
_GAPS = ("…", "...")
"""Marks that replace the end of a cut value."""


def is_named_too_long(action: Action) -> bool:
    """Whether the written object has a name, label value or host name that is longer than Kubernetes allows.

    Admission checks the labels that users write, so a value that is too long was derived from the owner's name.
    """
    if isinstance(action, Delete) or not isinstance(action.body, dict):
        return False
    body = action.body
    metadata, spec = body.get("metadata") or {}, body.get("spec") or {}
    template = (spec.get("template") or {}).get("metadata") or {}
    labels = [*(metadata.get("labels") or {}).values(), *(template.get("labels") or {}).values()]
    names = [*labels, spec.get("hostname") or ""]
    is_long = len(metadata.get("name") or "") > LONGEST_NAME
    return is_long or any(isinstance(name, str) and len(name) > LONGEST_LABEL for name in names)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a plan's execution."""

    done: tuple[Action, ...] = ()
    """Writes that took effect; dry runs have none."""
    failure: Failure | None = None
    """The first failed write that is not stale (`Failure.is_stale`); if all failed writes are stale, the first one."""
    failures: tuple[Failure, ...] = ()
    """All failed writes, except those of optional stages."""
    interrupted: bool = False
    """Whether `until` ended the plan early: plan again immediately."""
    is_incomplete: bool = False
    """Whether a write of an optional stage failed. It must be tried again, since perhaps no event enqueues the key."""
    ramps: Mapping[str, int] = {}
    """Purpose of each ramp without a failure -> size of its next batch. The next plan for the same spec may continue
    the ramp with it.
    """
    notes: tuple[tuple[Note, int], ...] = ()
    """Events to record, each with its count."""

    @property
    def written(self) -> int:
        """Number of writes that took effect."""
        return len(self.done)


class _Run:
    """Progress of one execution."""

    def __init__(self, until: Callable[[], bool], ramps: Mapping[str, int]) -> None:
        self.until = until
        self.ramps = dict(ramps)
        self.done: list[Action] = []
        self.failures: list[Failure] = []
        self.notes: list[tuple[str, Note]] = []
        self.interrupted = False
        self.incomplete: set[str] = set()
        """Purposes of stages in which a write has failed."""
        self.written: set[str] = set()
        """Purposes of stages in which a write took effect, or in which its result is unknown."""
        self.is_incomplete = False
        self.passed_over = 0
        """Number of failures that do not stop the present stage. For a stage marked `regardless`, those of earlier
        stages; for an independent stage, also its own.
        """

    def goes_on(self) -> bool:
        """Whether further chains may start."""
        if not self.interrupted and self.until():
            self.interrupted = True
        return len(self.failures) <= self.passed_over and not self.interrupted


class _UnknownFateError(Exception):
    """The result of a write is unknown, and reading the object failed too; `error` is the cause."""

    def __init__(self, error: KubeError) -> None:
        super().__init__(str(error))
        self.error = error


class Executor:
    """Executes plans with one `Writer`; all kinds of a manager share it.

    `status_per_s`: maximum status writes per second for one object that keeps changing.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        rng: random.Random,
        max_in_flight: int = MAX_IN_FLIGHT,
        status_per_s: float = PER_SECOND,
        span: Span = NO_SPANS,
    ) -> None:
        self.status_per_s = status_per_s
        self.span = span
        """Trace spans of reconciles and writes."""
        self._writer = writer
        self._rng = rng
        self._max_in_flight = max_in_flight
        self._places = FairPlaces(max_in_flight)
        self._making: set[tuple[Resource, Key]] = set()

    def replace_writer(self, writer: Writer) -> "Executor":
        """Return the same executor, with the same limits, for another writer."""
        other = copy(self)
        other._writer = writer
        return other

    def is_making(self, resource: Resource, key: Key) -> bool:
        """Whether a creation of this object is in progress. A wake that calls this gets another event when the
        creation ends.
        """
        return (resource, key) in self._making

    async def execute(
        self, plan: Plan, *, until: Callable[[], bool] = lambda: False, ramps: Mapping[str, int] = {}
    ) -> Outcome:
        """Execute the plan stage by stage. Never raises for an API or transport error.

        `until` is called before each chain. Once it returns True, no further chain starts (the spec has changed, or
        the time slice has ended). `ramps`: the `Outcome.ramps` of the previous plan, which this plan continues.
        """
        run = _Run(until, ramps)
        for stage in plan.stages:
            run.passed_over = len(run.failures) if stage.regardless else 0
            if not run.goes_on() or run.incomplete.intersection(stage.only_after):
                continue
            if run.written.intersection(stage.instead_of):
                continue
            await self._run_stage(stage, run)
        return Outcome(
            done=tuple(run.done),
            failure=_select_worst(run.failures),
            failures=tuple(run.failures),
            interrupted=run.interrupted,
            is_incomplete=run.is_incomplete,
            ramps=run.ramps,
            notes=merge_notes(run.notes),
        )

    async def is_there(self, resource: Resource, key: Key, *, uid: str) -> bool:
        """Whether exactly this object exists; the cache gets the result too. Raises KubeError when the API server
        cannot answer.
        """
        try:
            live = decode(await self._writer.read(resource, key, uid=uid, priority=1))
        except NotFoundError:
            return False
        return bool(live["metadata"]["uid"] == uid)

    async def _run_stage(self, stage: Stage, run: _Run) -> None:
        """Run the chains of a stage concurrently; a ramp runs batches of 1, 2, 4, … chains up to `max_in_flight`."""
        if not stage.ramp:
            await self._run_concurrently(stage, stage.chains, run)
            return
        first = run.ramps.get(stage.purpose, 1)
        for batch, following in _split_batches(stage.chains, first=first, largest=self._max_in_flight):
            failed = len(run.failures)
            is_whole = await self._run_concurrently(stage, batch, run)
            if len(run.failures) > failed:
                run.ramps[stage.purpose] = 1
            elif is_whole:
                run.ramps[stage.purpose] = following
            if not run.goes_on():
                return

    async def _run_concurrently(self, stage: Stage, chains: Sequence[Chain], run: _Run) -> bool:
        """Run chains in a few shared tasks: one task per chain would cost more than the writes of a large plan. Returns
        whether all chains were started.
        """
        todo = deque(chains)
        if len(chains) == 1:
            await self._run_next_chains(stage, todo, run)
        else:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._max_in_flight, len(chains))):
                    tasks.create_task(self._run_next_chains(stage, todo, run))
        return not todo

    async def _run_next_chains(self, stage: Stage, todo: deque[Chain], run: _Run) -> None:
        while todo and run.goes_on():
            chain = todo.popleft()
            await self._places.acquire(run)
            try:
                if not run.goes_on():  # the plan has ended while the chain waited for its place
                    todo.appendleft(chain)
                    return
                await self._run_chain(stage, chain, run)
            finally:
                self._places.release(run)

    async def _run_chain(self, stage: Stage, chain: Chain, run: _Run) -> None:
        for number, step in enumerate(chain.steps):
            action = step.action
            try:
                with self.span("write", action.resource, action.key):
                    name = await self._write(action, priority=min(number, 1))
            except KubeError as error:
                failure = Failure(stage.purpose, chain.subject, step, error)
                if _may_have_arrived(error):
                    run.written.add(stage.purpose)
                if not stage.is_optional:
                    run.failures.append(failure)
                    run.passed_over += stage.is_independent or failure.is_conflict
                    run.incomplete.add(stage.purpose)
                else:
                    run.is_incomplete = True
                    if not failure.is_stale:
                        run.incomplete.add(stage.purpose)
                for note in () if failure.is_stale else step.notes_when_failed:
                    subject, said = chain.subject, str(error)
                    if chain.has_random_name:
                        subject, said = "", said.replace(f'"{action.key.name}" ', "")
                    message = f"{note.message}: {said}"
                    said_so = msgspec.structs.replace(note, message=message, code=failure.reason.code)
                    run.notes.append((subject, said_so))
                return
            if not (isinstance(action, Patch) and action.is_dry_run):
                run.done.append(action)
                run.written.add(stage.purpose)
            run.notes += [(chain.subject, _with_name(note, name)) for note in step.notes_when_done]

    async def _write(self, action: Action, *, priority: int) -> str:
        """Write until the result is known: it took effect, or the error states that it did not. Returns the object's
        name.

        The client sends writes with `priority=1` before waiting writes with priority 0, since they complete work that
        has begun.
        """
        if not isinstance(action, Create):
            return await self._write_surely(action, priority)
        made = (action.resource, action.key)
        self._making.add(made)
        try:
            if not action.key.name:
                return await self._create_unnamed(action, priority)
            return await self._write_surely(action, priority)
        finally:
            self._making.discard(made)

    async def _write_surely(self, action: Action, priority: int) -> str:
        """Repeat the write while the result of the last try is unknown. After LONGEST_REPEAT_S, read the live object to
        find the result.
        """
        repeat_s = FIRST_REPEAT_S
        uncertain = False
        ends_at = asyncio.get_running_loop().time() + LONGEST_REPEAT_S
        while True:
            try:
                await self._write_once(action, priority, uncertain=uncertain)
                return action.key.name
            except _UnknownFateError as unknown:
                # A restarted server soon knows its RBAC rules again; a permission that was never granted stays absent.
                if isinstance(unknown.error, ForbiddenError) and repeat_s == LAST_REPEAT_S:
                    raise unknown.error from None
            except (TransportError, ServerTimeoutError) as error:
                if not (uncertain or _may_have_arrived(error)):
                    raise
                if asyncio.get_running_loop().time() >= ends_at:
                    match await self._find_effect(action):
                        case True:
                            return action.key.name
                        case False:
                            raise
            uncertain = True
            await asyncio.sleep(self._rng.uniform(0.5, 1.0) * repeat_s)
            repeat_s = min(repeat_s * 2, LAST_REPEAT_S)

    async def _find_effect(self, action: Action) -> bool | None:
        """Return whether the live object shows that the write took effect; None if the API server does not show it.

        A patch counts as not written: the next plan sees the live object.
        """
        try:
            live = await self._look(
                action.resource, action.key, uid="" if isinstance(action, Create) else action.uid
            )
        except _UnknownFateError:
            return None
        match action:
            case Create():
                return live is not None and _is_our_work(live, action.body)
            case Delete():
                meta = (live or {}).get("metadata") or {}
                return meta.get("uid") != action.uid or "deletionTimestamp" in meta
            case Patch():
                return False

    async def _write_once(self, action: Action, priority: int, *, uncertain: bool) -> None:
        """Send the write once. `uncertain`: an earlier try may have taken effect, so a rejection of this try proves
        nothing.
        """
        match action:
            case Create():
                await self._create(action, priority, uncertain=uncertain)
            case Patch():
                await self._patch(action, priority, uncertain=uncertain)
            case Delete():
                await self._delete(action, priority, uncertain=uncertain)

    async def _create_unnamed(self, action: Create, priority: int) -> str:
        """Create an object whose name the API server generates. Only one try: another one could not find the first
        one's result.
        """
        raw = await self._writer.create(action.resource, action.key.namespace, action.body, priority=priority)
        return metadata_of(raw).name

    async def _create(self, action: Create, priority: int, *, uncertain: bool) -> None:
        try:
            await self._writer.create(action.resource, action.key.namespace, action.body, priority=priority)
        except ApiError as error:
            # An earlier try may have succeeded: its response was lost, or the server failed after it had stored the
            # object.
            if not _may_be_own_write(error, AlreadyExistsError, uncertain=uncertain):
                raise
            result = await self._look(action.resource, action.key)
            if result is None or not _is_our_work(result, action.body):
                raise

    async def _patch(self, action: Patch, priority: int, *, uncertain: bool) -> None:
        try:
            await self._writer.patch(
                action.resource,
                action.key,
                _with_preconditions(action),
                patch_type=action.patch_type,
                subresource=action.subresource,
                uid=action.uid,
                priority=priority,
                dry_run=action.is_dry_run,
            )
        except ApiError as error:
            # The cache is stale, or the server failed after it had written: in both cases the next plan needs the
            # live object.
            if _may_be_own_write(error, ConflictError, InvalidError, uncertain=uncertain):
                await self._look(action.resource, action.key, uid=action.uid)
            raise

    async def _delete(self, action: Delete, priority: int, *, uncertain: bool) -> None:
        try:
            await self._writer.delete(
                action.resource,
                action.key,
                uid=action.uid,
                resource_version=action.resource_version,
                grace_period_s=action.grace_period_s,
                propagation=action.propagation,
                priority=priority,
            )
        except NotFoundError:
            return  # already deleted, which is the wanted result
        except ApiError as error:
            if not _may_be_own_write(error, ConflictError, uncertain=uncertain):
                raise
            result = await self._look(action.resource, action.key, uid=action.uid)
            if result is None or result.get("metadata", {}).get("uid") != action.uid:
                return  # already deleted; another object may have the name now
            raise

    async def _look(self, resource: Resource, key: Key, *, uid: str = "") -> dict[str, Any] | None:
        """Read the live object into the cache for the next plan, and return it; None: it does not exist."""
        try:
            return decode(await self._writer.read(resource, key, uid=uid, priority=1))
        except NotFoundError:
            return None
        except KubeError as error:
            raise _UnknownFateError(error) from error


def _may_have_arrived(error: KubeError) -> bool:
    """Whether the API server may have carried out the write that ended with this error: no response arrived in time."""
    return error.sent if isinstance(error, TransportError) else isinstance(error, ServerTimeoutError)


def _may_be_own_write(error: ApiError, *kinds: type[ApiError], uncertain: bool) -> bool:
    """Whether a rejected write may have taken effect nevertheless, or the rejection shows that the cache is stale.

    ServerTimeoutError is not a rejection: such a write is repeated.
    """
    unconfirmed_deletions = (*kinds, InternalError, ServerUnavailableError)
    return not isinstance(error, ServerTimeoutError) and (
        uncertain or isinstance(error, unconfirmed_deletions)
    )


def _is_other_object(error: KubeError) -> bool:
    """Whether a patch met another object of the same name. API servers reject such a patch with 422, not with 409."""
    return isinstance(error, InvalidError) and any(cause.field == "metadata.uid" for cause in error.causes)


def _is_our_work(value: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether an existing object of the wanted name is the result of an earlier try of this write."""
    if value["metadata"].get("deletionTimestamp"):
        return False
    mine, theirs = controller_of(body), controller_of(value)
    return mine is not None and theirs is not None and mine.uid == theirs.uid


def _with_preconditions(action: Patch) -> Any:
    """Return the patch body with uid and resourceVersion, which the API server checks."""
    wanted = {"uid": action.uid, "resourceVersion": action.resource_version}
    wanted = {field: value for field, value in wanted.items() if value}
    if not wanted:
        return action.body
    if action.patch_type is PatchType.JSON:
        tests = [
            {"op": "test", "path": f"/metadata/{field}", "value": value} for field, value in wanted.items()
        ]
        return [*tests, *action.body]
    return {**action.body, "metadata": {**action.body.get("metadata", {}), **wanted}}


def _split_batches(
    chains: Sequence[Chain], *, first: int, largest: int
) -> Iterator[tuple[Sequence[Chain], int]]:
    """Yield batches of `first`, 2 * `first`, 4 * `first`, … chains. When a batch would have `largest` chains or more,
    it has all remaining chains. Each batch is yielded with the size of the next one. The last batch may have
    fewer chains; then the size stays, because such a batch proves nothing.
    """
    start, size = 0, first
    while start < len(chains):
        end = min(start + size, len(chains)) if size < largest else len(chains)
        size = min(size * 2, largest) if end - start >= size else size
        yield chains[start:end], size
        start = end


def _select_worst(failures: Sequence[Failure]) -> Failure | None:
    """Return the failure to report: the first one that is not stale, else the first stale one."""
    return next((failure for failure in failures if not failure.is_stale), failures[0] if failures else None)


_Group = tuple[str, bool, Subject | None, str]
"""Key of notes that become one event: the same reason, type and object, and where `is_single`, the same message."""


def _with_name(note: Note, name: str) -> Note:
    if CREATED_NAME not in note.message:
        return note
    return msgspec.structs.replace(note, message=note.message.replace(CREATED_NAME, name))


def merge_notes(notes: Sequence[tuple[str, Note]]) -> tuple[tuple[Note, int], ...]:
    """Merge the notes of one plan into one note for each reason and type, with a count and a list of the subjects.

    So the API server stores, for example, one event instead of thirty.
    """
    first: dict[_Group, Note] = {}
    subjects: dict[_Group, list[str]] = {}
    counts: Counter[_Group] = Counter()
    for subject, note in notes:
        group = (note.reason, note.warning, note.about, note.message if note.is_single else "")
        first.setdefault(group, note)
        subjects.setdefault(group, []).append(subject)
        counts[group] += 1
    return tuple(
        (note if note.is_single else _with_subjects(note, subjects[group][1:]), counts[group])
        for group, note in first.items()
    )


def _with_subjects(note: Note, others: Sequence[str]) -> Note:
    others = [text for text in others if text]
    if not others:
        return note  # notes without a subject: the event's count shows their number
    message = f"{note.message} (and {len(others)} more: {format_first(others, 20)})"
    return msgspec.structs.replace(note, message=message)
