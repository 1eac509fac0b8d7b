"""Carrying a plan out: the only place where a decision becomes API writes.

Plan ──▶ Executor.execute() ──▶ kube.writer (request, answer into the cache) ──▶ Outcome

Stages run one after another; the chains of a stage run side by side, at most `max_in_flight` over all
plans, and a chain keeps its place until its last step, so that a pod is finished before the next is begun.
The first failure ends the plan: chains under way finish, nothing else starts but stages that go on regardless,
and the key is planned anew from what is then true.

A write whose answer was lost is repeated until the server says what became of it, however the later tries fail
(a server that restarts refuses connections first, and then for a moment knows no rights). Planning on without
knowing would, for a POST, create a pod too many, and for a DELETE take one too many out of service. Repeating
is safe: names are chosen by the plan and deletes carry the uid, so the second try finds the first one's work.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from pykruise.kube.values.owners import controller_of
from pykruise.runtime.actions import Action, Create, Delete, Patch
from pykruise.runtime.plan import CREATED_NAME, Chain, Note, Plan, Stage, Step, Subject
from pykruise.runtime.reasons import Reason, WriteFault
from pykruise.runtime.status import PER_SECOND
from pykruise.runtime.tracing import NO_SPANS, Span

__all__ = ["Executor", "Failure", "Outcome", "merged"]

MAX_IN_FLIGHT = 32
"""Chains under way at once. More only queue at the API server and keep each pod out of service longer."""

FIRST_REPEAT_S = 0.1
LAST_REPEAT_S = 5.0

LONGEST_LABEL = 63
LONGEST_NAME = 253
"""Characters of a label's value, and of an object's name."""


class Failure(msgspec.Struct, frozen=True):
    """The write that ended a plan, and how."""

    purpose: str
    subject: str
    step: Step
    error: KubeError

    @property
    def is_stale(self) -> bool:
        """True when the world had moved on since the snapshot: nothing is wrong, plan again."""
        stale = ConflictError | NotFoundError | AlreadyExistsError
        return isinstance(self.error, stale) or _is_other_object(self.error)

    @property
    def is_refused_resize(self) -> bool:
        """Whether a pod may not have the resources that it was to get while it runs."""
        is_resize = getattr(self.step.action, "subresource", "") == "resize"
        return is_resize and isinstance(self.error, ForbiddenError | InvalidError)

    @property
    def reason(self) -> Reason:
        """Reason of the failure, in a message that stays the same when the failure repeats.

        The name of what is created is chosen anew each time, so it is left out. A status that has it would
        differ after every try, and each write of it is an event that starts the next try at once.
        """
        action = self.step.action
        text = (
            _without_name(str(self.error), action.key.name) if isinstance(action, Create) else str(self.error)
        )
        code, remedy = _cause_of(self.error)
        if self.is_refused_resize and code in (WriteFault.WRITE_FAILED, WriteFault.FORBIDDEN):
            code = WriteFault.RESIZE_REFUSED
        if isinstance(self.error, InvalidError) and is_named_too_long(action):
            code, remedy = WriteFault.NAME_TOO_LONG, _SHORTER
        return Reason(code, f"{self.purpose}: {text}", remedy)


def _without_name(text: str, name: str) -> str:
    """The text without the name of what is created. API servers cut long values that they quote, names among them."""
    text = text.replace(name, "…")
    for length in range(len(name) - 1, max(len(name) - _RANDOM, 0), -1):
        for gap in _GAPS:
            text = text.replace(f"{name[:length]}{gap}", "…")
    return text


_RANDOM = 5
"""Characters at the end of a name that are chosen anew with each try."""
_GAPS = ("…", "...")
"""Placeholder for the rest of a cut value."""

_SHORTER = "names that are derived from its name are too long: delete it, and create it with a shorter name"


def is_named_too_long(action: Action) -> bool:
    """Whether a name, a label or a host name that it writes has more characters than any may have.

    Admission sees to the labels that users write, so such a one is made from the name of its owner.
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


def _cause_of(error: KubeError) -> tuple[WriteFault, str]:
    """The code, and what a person has to do; it is tried again by itself, so this is all.

    API servers say with one status code, 403, what has many causes; only the text of their messages tells them apart.
    """
    text = str(error)
    match error:
        case ForbiddenError() if "exceeded quota" in text:
            return WriteFault.QUOTA, "raise the ResourceQuota, or free some of it"
        case ForbiddenError() if "enough allocatable resources" in text:
            return WriteFault.WRITE_FAILED, "ask for less, or make room on the node"
        case ForbiddenError() if "being terminated" in text:
            return WriteFault.WRITE_FAILED, "nothing: the namespace is being deleted"
    code = WriteFault.WRITE_FAILED
    if "webhook" in text:
        code = WriteFault.WEBHOOK
    elif "AdmissionPolicy" in text:
        code = WriteFault.POLICY
    elif "forbidden" in text:
        code = WriteFault.FORBIDDEN
    match error:
        case ForbiddenError():
            return code, "give the manager the right, or satisfy the policy that refuses it"
        case InvalidError():
            return code, "correct what the API server refuses in the object's spec"
        case TransportError() | InternalError() | ServerUnavailableError() | ServerTimeoutError():
            return code, "nothing, if the API server and its webhooks come back"
    return code, "correct what the API server refuses"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a plan."""

    done: tuple[Action, ...] = ()
    """Writes that took effect."""
    failure: Failure | None = None
    """The first failed write that is a fault; a stale one only when there is no other."""
    failures: tuple[Failure, ...] = ()
    """All of them, but for those of optional stages."""
    interrupted: bool = False
    """True when `until` ended the plan early: plan anew at once."""
    is_incomplete: bool = False
    """Something of an optional stage failed: it is to be tried again, as no event may bring the key back."""
    notes: tuple[tuple[Note, int], ...] = ()
    """Events to record, each with how often it happened."""

    @property
    def written(self) -> int:
        """How many writes took effect."""
        return len(self.done)


class _Run:
    """Progress of one execution."""

    def __init__(self, until: Callable[[], bool]) -> None:
        self.until = until
        self.done: list[Action] = []
        self.failures: list[Failure] = []
        self.notes: list[tuple[str, Note]] = []
        self.interrupted = False
        self.incomplete: set[str] = set()
        """Purposes of stages of which something has failed."""
        self.is_incomplete = False
        self.passed_over = 0
        """Failures that the present stage does not mind: of earlier ones, or its own."""

    @property
    def goes_on(self) -> bool:
        if not self.interrupted and self.until():
            self.interrupted = True
        return len(self.failures) <= self.passed_over and not self.interrupted


class _UnknownFateError(Exception):
    """The result of a write is unknown, and reading it failed too; `error` says why."""

    def __init__(self, error: KubeError) -> None:
        super().__init__(str(error))
        self.error = error


class Executor:
    """Carries plans out through one `Writer`; shared by all kinds of a manager.

    `status_per_s`: how often a second the status of one object is written at most while it keeps changing.
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
        """Trace spans of turns and writes."""
        self._writer = writer
        self._rng = rng
        self._max_in_flight = max_in_flight
        self._places = asyncio.Semaphore(max_in_flight)
        self._making: set[tuple[Resource, Key]] = set()

    def over(self, writer: Writer) -> "Executor":
        """The same executor, bounds and all, over another writer."""
        other = copy(self)
        other._writer = writer
        return other

    def is_making(self, resource: Resource, key: Key) -> bool:
        """Whether a creation of this object is under way: the wake that asks hears of its end."""
        return (resource, key) in self._making

    async def execute(self, plan: Plan, *, until: Callable[[], bool] = lambda: False) -> Outcome:
        """Write what the plan says, stage by stage. Never raises for an API or transport error.

        `until` is asked before each chain; once true, nothing more is started (the spec has
        changed, or its time slice is over).
        """
        run = _Run(until)
        for stage in plan.stages:
            run.passed_over = len(run.failures) if stage.regardless else 0
            if not run.goes_on or run.incomplete.intersection(stage.only_after):
                continue
            await self._stage(stage, run)
        return Outcome(
            done=tuple(run.done),
            failure=_worst(run.failures),
            failures=tuple(run.failures),
            interrupted=run.interrupted,
            is_incomplete=run.is_incomplete,
            notes=merged(run.notes),
        )

    async def is_there(self, resource: Resource, key: Key, *, uid: str) -> bool:
        """Whether this very object exists, which the cache learns too. Raises KubeError when that cannot be known."""
        try:
            live = decode(await self._writer.read(resource, key, uid=uid, priority=1))
        except NotFoundError:
            return False
        return bool(live["metadata"]["uid"] == uid)

    async def _stage(self, stage: Stage, run: _Run) -> None:
        """Chains side by side; a ramp runs batch after batch (1, 2, 4, …) up to `max_in_flight`."""
        for batch in _batches(stage.chains, self._max_in_flight) if stage.ramp else (stage.chains,):
            await self._side_by_side(stage, batch, run)
            if not run.goes_on:
                return

    async def _side_by_side(self, stage: Stage, chains: Sequence[Chain], run: _Run) -> None:
        """A few tasks share the chains: a task per chain would cost more than the writes of a large plan."""
        if len(chains) == 1:
            await self._next_chains(stage, iter(chains), run)
            return
        todo = iter(chains)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._max_in_flight, len(chains))):
                tasks.create_task(self._next_chains(stage, todo, run))

    async def _next_chains(self, stage: Stage, todo: Iterator[Chain], run: _Run) -> None:
        while run.goes_on and (chain := next(todo, None)) is not None:
            async with self._places:
                await self._chain(stage, chain, run)

    async def _chain(self, stage: Stage, chain: Chain, run: _Run) -> None:
        for number, step in enumerate(chain.steps):
            action = step.action
            try:
                with self.span("write", action.resource, action.key):
                    name = await self._write(action, priority=min(number, 1))
            except KubeError as error:
                failure = Failure(stage.purpose, chain.subject, step, error)
                if not stage.is_optional:
                    run.failures.append(failure)
                    run.passed_over += stage.is_independent
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
            run.done.append(action)
            run.notes += [(chain.subject, _with_name(note, name)) for note in step.notes_when_done]

    async def _write(self, action: Action, *, priority: int) -> str:
        """One write with a definite end: done, or an error that says it was not. Returns the object's name.

        `priority=1` goes ahead of first writes at the client: it finishes what has been begun.
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
        """Again and again, while it is not known what became of the last try."""
        repeat_s = FIRST_REPEAT_S
        uncertain = False
        while True:
            try:
                await self._write_once(action, priority, uncertain=uncertain)
                return action.key.name
            except _UnknownFateError as unknown:
                # Rights come back with a server that restarts; rights that were never given do not.
                if isinstance(unknown.error, ForbiddenError) and repeat_s == LAST_REPEAT_S:
                    raise unknown.error from None
            except (TransportError, ServerTimeoutError) as error:
                was_sent = error.sent if isinstance(error, TransportError) else True
                if not (was_sent or uncertain):
                    raise
            uncertain = True
            await asyncio.sleep(self._rng.uniform(0.5, 1.0) * repeat_s)
            repeat_s = min(repeat_s * 2, LAST_REPEAT_S)

    async def _write_once(self, action: Action, priority: int, *, uncertain: bool) -> None:
        """One try. `uncertain`: an earlier one may have taken effect, so no refusal of this one says enough."""
        match action:
            case Create():
                await self._create(action, priority, uncertain=uncertain)
            case Patch():
                await self._patch(action, priority, uncertain=uncertain)
            case Delete():
                await self._delete(action, priority, uncertain=uncertain)

    async def _create_unnamed(self, action: Create, priority: int) -> str:
        """A creation whose name the API server chooses, tried once: another try could not find the first one's work."""
        raw = await self._writer.create(action.resource, action.key.namespace, action.body, priority=priority)
        return metadata_of(raw).name

    async def _create(self, action: Create, priority: int, *, uncertain: bool) -> None:
        try:
            await self._writer.create(action.resource, action.key.namespace, action.body, priority=priority)
        except ApiError as error:
            # An earlier try whose answer was lost, or one that the server stored before it failed.
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
            )
        except ApiError as error:
            # Behind, or perhaps done before the server failed: either way the next plan must know.
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
            return  # gone already, which is what was wanted
        except ApiError as error:
            if not _may_be_own_write(error, ConflictError, uncertain=uncertain):
                raise
            result = await self._look(action.resource, action.key, uid=action.uid)
            if result is None or result.get("metadata", {}).get("uid") != action.uid:
                return  # gone already; the name may belong to another object now
            raise

    async def _look(self, resource: Resource, key: Key, *, uid: str = "") -> dict[str, Any] | None:
        """The live object, put into the cache too, so that the next plan knows better; None: not there."""
        try:
            return decode(await self._writer.read(resource, key, uid=uid, priority=1))
        except NotFoundError:
            return None
        except KubeError as error:
            raise _UnknownFateError(error) from error


def _may_be_own_write(error: ApiError, *kinds: type[ApiError], uncertain: bool) -> bool:
    """Whether a refused write may have been done all the same, or its refusal says that the cache is behind.

    A ServerTimeoutError is no refusal: such a write is repeated.
    """
    unconfirmed_deletions = (*kinds, InternalError, ServerUnavailableError)
    return not isinstance(error, ServerTimeoutError) and (
        uncertain or isinstance(error, unconfirmed_deletions)
    )


def _is_other_object(error: KubeError) -> bool:
    """A patch met another object of the same name: API servers answer that with 422, not with 409."""
    return isinstance(error, InvalidError) and any(cause.field == "metadata.uid" for cause in error.causes)


def _is_our_work(value: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether an object of the wanted name is what an earlier try of this very write made of `body`."""
    if value["metadata"].get("deletionTimestamp"):
        return False
    mine, theirs = controller_of(body), controller_of(value)
    return mine is not None and theirs is not None and mine.uid == theirs.uid


def _with_preconditions(action: Patch) -> Any:
    """The patch body with uid and resourceVersion in it, where the API server checks them."""
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


def _batches(chains: Sequence[Chain], largest: int) -> Iterator[Sequence[Chain]]:
    """1, 2, 4, … chains, and once a batch would fill all places, the rest in one."""
    start, size = 0, 1
    while start < len(chains):
        end = start + size if size < largest else len(chains)
        yield chains[start:end]
        start, size = end, size * 2


def _worst(failures: Sequence[Failure]) -> Failure | None:
    """A fault before a stale one: it is what has to be reported."""
    return next((failure for failure in failures if not failure.is_stale), failures[0] if failures else None)


_Group = tuple[str, bool, Subject | None, str]
"""Notes that become one event: of one reason and kind, about one object, and of one message where each is single."""


def _with_name(note: Note, name: str) -> Note:
    if CREATED_NAME not in note.message:
        return note
    return msgspec.structs.replace(note, message=note.message.replace(CREATED_NAME, name))


def merged(notes: Sequence[tuple[str, Note]]) -> tuple[tuple[Note, int], ...]:
    """Notes of one plan, one per reason and kind: with a count, and a list of the subjects.

    One event says what thirty would say; the API server stores one object for it.
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
        (note if note.is_single else _listed(note, subjects[group][1:]), counts[group])
        for group, note in first.items()
    )


def _listed(note: Note, others: Sequence[str]) -> Note:
    others = [text for text in others if text]
    if not others:
        return note  # of those without a name the event's count says how many
    shown = ", ".join(others[:20]) + (", …" if len(others) > 20 else "")
    return msgspec.structs.replace(note, message=f"{note.message} (and {len(others)} more: {shown})")
