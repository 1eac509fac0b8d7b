"""Events: messages of a controller that people read in `kubectl describe`.

controllers ──▶ record() (returns immediately, never fails) ──▶ buffer ──▶ run() or flush() ──▶ POST or PATCH

Events are best effort. They are written in the background, one at a time. An event that repeats within ten minutes
raises the count of the stored event. Too many events of one object are dropped, and a full buffer loses its oldest
event. The caller does not notice any of this; `read_stats()` counts it.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from pykruise.kube.cache.remembering import register_limit
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, Instant, format_time, read_system_clock
from pykruise.kube.errors import (
    AlreadyExistsError,
    ApiError,
    InternalError,
    KubeError,
    NotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from pykruise.kube.excerpts import excerpt
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import EVENTS, Resource

__all__ = ["CODE", "EventMemory", "EventRecorder"]

CODE = "pykruise.io/code"
"""Annotation of an event about a failed write: the reason as a code (runtime/reasons.py)."""

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_NAME = 253
_REMEMBERED = register_limit("events, and objects that have them", entries=4_096, bytes_each=2_048)
"""Maximum number of remembered events, and of remembered objects, for all recorders of a program together."""
_PENDING = register_limit("events that wait to be written", entries=2_000, bytes_each=4_096)
_TRIES = 5
_RETRY_CAP_S = 60.0

_MAY_PASS = (TooManyRequestsError, InternalError, ServerUnavailableError, ServerTimeoutError)


class RecorderStats(msgspec.Struct, frozen=True, kw_only=True):
    """State of a recorder. Where nothing else is stated, recorded events are counted, repetitions included."""

    pending: int
    """Distinct events that wait to be written."""
    recorded: int
    written: int
    """Successful POSTs and PATCHes."""
    overflowed: int
    """Lost because the buffer was full."""
    limited: int
    """Dropped because their object had too many events."""
    refused: int
    """Given up: the server rejected them (a terminating namespace), or never responded."""


class _Event(NamedTuple):
    """Identity of an event: equal events are counted as one."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    warning: bool
    reason: str
    message: str
    code: str


class _Occurrences(msgspec.Struct):
    first: Instant
    last: Instant
    count: int
    tries: int = 0
    event_name: str = ""
    """Name of the Event, the same in each POST, so that a repeated POST cannot create a second Event."""


class _Written(msgspec.Struct, frozen=True):
    name: str
    last: Instant
    count: int


class _Budget(msgspec.Struct):
    tokens: float
    at: Instant


class EventMemory:
    """Common memory of a program's recorders, bounded in number and age."""

    def __init__(self, *, entries: int = _REMEMBERED, window_s: float = 600.0) -> None:
        self.window_s = window_s
        self._entries = entries
        self._written: dict[bytes, _Written] = {}
        self._budgets: dict[bytes, _Budget] = {}
        self.pending = 0
        """Events that wait to be written."""

    def __len__(self) -> int:
        return len(self._written) + len(self._budgets)

    def take_written(self, event: bytes) -> "_Written | None":
        """Remove the written record of an event from the memory and return it."""
        return self._written.pop(event, None)

    def put_written(self, event: bytes, written: "_Written", now: Instant) -> None:
        """Remember a written event. Records older than the window, and records beyond the limit, are forgotten."""
        self._written[event] = written
        _forget_oldest(self._written, self._entries, lambda written: written.last < now - self.window_s)

    def spend(self, subject: bytes, now: Instant, *, burst: float, refill_s: float) -> bool:
        """Take one event from the object's budget; returns whether the budget had one."""
        budget = self._budgets.pop(subject, None) or _Budget(burst, now)
        budget.tokens = min(burst, budget.tokens + max(0.0, now - budget.at) / refill_s)
        budget.at = now
        self._budgets[subject] = budget  # moved to the end: the oldest are forgotten first
        _forget_oldest(self._budgets, self._entries, lambda budget: budget.at < now - burst * refill_s)
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True


class EventRecorder:
    """Writes core/v1 Events on behalf of `component`, which runs on the node `host` (empty: not on a node).

    `run()` writes until it is cancelled; `flush()` writes the remaining events before the program ends. `window_s`:
    seconds after its last occurrence during which an event counts as repeated. `capacity`: distinct events that may
    wait. `memory`: shared by the recorders of a program; None: a separate one. Each object may have `burst` events
    immediately, and one more every `refill_s`.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
        window_s: float = 600.0,
        capacity: int = 1000,
        burst: int = 25,
        refill_s: float = 10.0,
        memory: EventMemory | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._source = {"component": component, **({"host": host} if host else {})}
        self._clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._memory = memory if memory is not None else EventMemory(window_s=window_s)
        self._capacity = capacity
        self._burst = burst
        self._refill_s = refill_s
        self._pending: dict[_Event, _Occurrences] = {}
        self._something = asyncio.Event()
        self._writing = asyncio.Lock()
        self._counts = dict.fromkeys(("recorded", "written", "overflowed", "limited", "refused"), 0)

    def record(
        self,
        resource: Resource,
        *,
        namespace: str,
        name: str,
        uid: str,
        reason: str,
        message: str,
        warning: bool = False,
        code: str = "",
        count: int = 1,
    ) -> None:
        """Record that something happened to an object, `count` times. Returns immediately and never raises.

        `reason` is one CamelCase word; `message` is cut at 1024 bytes. Events of cluster-scoped objects (empty
        namespace) are stored in the namespace `default`. `code`: the machine-readable reason, stored as
        the annotation CODE.
        """
        self._counts["recorded"] += count
        event = _Event(resource, namespace, name, uid, warning, reason, excerpt(message), code)
        now = self._clock()
        if waiting := self._pending.get(event):
            waiting.count += count
            waiting.last = now
            return
        subject = _compute_digest(self._component, resource.kind, resource.group, namespace, name, uid)
        if not self._memory.spend(subject, now, burst=float(self._burst), refill_s=self._refill_s):
            self._counts["limited"] += count
            return
        self._pending[event] = _Occurrences(now, now, count)
        self._drop_surplus()
        self._something.set()

    async def run(self) -> NoReturn:
        """Write events as they are recorded, until cancelled."""
        while True:
            await self._something.wait()
            failures = await self._write_next()
            if failures:
                cap = min(_RETRY_CAP_S, 2.0**failures)
                await asyncio.sleep(self._rng.uniform(cap / 2, cap))

    async def flush(self, *, timeout_s: float = 5.0) -> None:
        """Wait for the write in progress, and try to write each pending event once, within `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._writing:
                    pass
                for _ in range(len(self._pending)):
                    await self._write_next()
        except TimeoutError:
            _log.warning("%d events were not written: the API server is slow", len(self._pending))

    def read_stats(self) -> RecorderStats:
        """Counts since the start."""
        return RecorderStats(pending=len(self._pending), **self._counts)

    # ── the buffer ───────────────────────────────────────────────────────────

    def _drop_surplus(self) -> None:
        self._memory.pending += 1
        while self._pending and (len(self._pending) > self._capacity or self._memory.pending > _PENDING):
            self._memory.pending -= 1
            oldest = next(iter(self._pending))
            self._counts["overflowed"] += self._pending.pop(oldest).count

    def _put_back(self, event: _Event, occurrences: _Occurrences) -> None:
        if newer := self._pending.get(event):
            newer.count += occurrences.count
            newer.first = occurrences.first
            newer.tries = occurrences.tries
            newer.event_name = occurrences.event_name
        else:
            self._pending[event] = occurrences
            self._drop_surplus()
        self._something.set()

    # ── writing ──────────────────────────────────────────────────────────────

    async def _write_next(self) -> int:
        """Write the oldest pending event. If the write fails and will be tried again, return the number of the event's
        failed writes so far. Otherwise return 0: the event is written or given up, or no event is pending.
        """
        async with self._writing:
            if not self._pending:
                self._something.clear()
                return 0
            event = next(iter(self._pending))
            occurrences = self._pending.pop(event)
            self._memory.pending -= 1
            if not self._pending:
                self._something.clear()
            try:
                written = await self._write_event(event, occurrences)
                self._memory.put_written(self._compute_event_digest(event), written, self._clock())
                self._counts["written"] += 1
            except KubeError as err:
                occurrences.tries += 1
                if occurrences.tries < _TRIES and (
                    not isinstance(err, ApiError) or isinstance(err, _MAY_PASS)
                ):
                    self._put_back(event, occurrences)
                    return occurrences.tries
                # A terminating namespace accepts no new events. Without permission no event can be written.
                self._counts["refused"] += occurrences.count
                _log.debug("event %s of %s/%s is dropped: %s", event.reason, event.namespace, event.name, err)
            except BaseException:
                self._put_back(event, occurrences)  # cancelled: flush() may still write it
                raise
            return 0

    async def _write_event(self, event: _Event, occurrences: _Occurrences) -> _Written:
        known = self._memory.take_written(self._compute_event_digest(event))
        if known is not None and occurrences.first - known.last <= self._memory.window_s:
            try:
                return await self._raise_count(event, known, occurrences)
            except NotFoundError:
                pass  # the API server deletes events after an hour, or earlier
        return await self._create_event(event, occurrences)

    async def _raise_count(self, event: _Event, known: _Written, occurrences: _Occurrences) -> _Written:
        count = known.count + occurrences.count
        try:
            await self._client.patch(
                EVENTS,
                event.namespace or "default",
                known.name,
                {"count": count, "lastTimestamp": format_time(occurrences.last)},
                patch_type=PatchType.MERGE,
            )
        except NotFoundError:
            raise
        except BaseException:
            self._memory.put_written(
                self._compute_event_digest(event), known, known.last
            )  # kept for the next try
            raise
        return _Written(known.name, occurrences.last, count)

    async def _create_event(self, event: _Event, occurrences: _Occurrences) -> _Written:
        name = occurrences.event_name = occurrences.event_name or self._name_for(event.name)
        body = self._build_event(name, event, occurrences)
        with suppress(AlreadyExistsError):  # an earlier try succeeded, but its response was lost
            await self._client.create(EVENTS, event.namespace or "default", body)
        return _Written(name, occurrences.last, occurrences.count)

    def _compute_event_digest(self, event: _Event) -> bytes:
        """Return a digest of an event, short for messages of any length."""
        about = event.resource
        texts = (about.kind, about.group, event.namespace, event.name, event.uid)
        said = (event.reason, event.message, event.code)
        return _compute_digest(self._component, str(event.warning), *texts, *said)

    def _name_for(self, subject: str) -> str:
        """Return `<object>.<16 hex digits>`. The digits are the time in nanoseconds, as in the names of Kubernetes'
        recorders, from which programs read the time. The last three decimal digits of the time are random.
        """
        stamp = int(self._clock() * 1_000_000) * 1_000 + self._rng.getrandbits(12) % 1_000
        return f"{subject[: _MAX_NAME - 17].rstrip('-.')}.{stamp:016x}"

    def _build_event(self, name: str, event: _Event, occurrences: _Occurrences) -> dict[str, Any]:
        involved = {
            "apiVersion": event.resource.api_version,
            "kind": event.resource.kind,
            "name": event.name,
            "uid": event.uid,
        }
        if event.namespace:
            involved["namespace"] = event.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": event.namespace or "default",
                **({"annotations": {CODE: event.code}} if event.code else {}),
            },
            "involvedObject": involved,
            "reason": event.reason,
            "message": event.message,
            "type": "Warning" if event.warning else "Normal",
            "source": self._source,
            "firstTimestamp": format_time(occurrences.first),
            "lastTimestamp": format_time(occurrences.last),
            "count": occurrences.count,
            "reportingComponent": self._component,
            "reportingInstance": self._source.get("host", ""),
        }


def _compute_digest(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest()


def _forget_oldest(table: dict[bytes, T], keep: int, is_old: Callable[[T], bool]) -> None:
    """Remove entries from the start of the table, which has the oldest first."""
    while table:
        oldest = next(iter(table))
        if len(table) <= keep and not is_old(table[oldest]):
            return
        del table[oldest]
