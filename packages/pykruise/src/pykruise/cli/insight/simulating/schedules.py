"""Simulation of a kind that creates objects on a schedule.

ClockPlay (the object, its created objects, their run times) ──▶ play_clock() ──▶ ClockPlayed: the result of each time

Plans are the manager's own, from snapshots that the kind's own function builds. The API server and the created
objects are simulated: the API server carries out each plan, and a created object runs for some time and ends. Time
jumps from one event to the next, so the cost of a month depends on its number of runs.
"""

import heapq
import math
import random
from bisect import bisect_left
from collections.abc import Awaitable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from pykruise.kube.cache.cache import Projected
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import ClockInsight
from pykruise.plans.kind import Kind
from pykruise.plans.purposes import Purpose
from pykruise.runtime.actions import Action, Create, Delete
from pykruise.runtime.assemble import views_of
from pykruise.runtime.control import Control
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories, Read
from pykruise.runtime.views import Views

T = TypeVar("T", bound=Projected)

LAG_S: Final = 0.05
"""Seconds from a scheduled time to the reconcile by the manager."""

MOST_LOOKS: Final = 10
"""Maximum number of plans at one moment. If the last of them still has writes, time advances nevertheless."""


class ClockPlay(msgspec.Struct, frozen=True, kw_only=True):
    """Input of one simulation. Times are in seconds."""

    kind: Kind
    document: Document
    """The object as it is stored."""
    made: Sequence[Document] = ()
    """Objects that exist before the simulation, as stored."""
    start: Instant
    for_s: float
    takes_s: tuple[float, float] = (1.0, 1.0)
    """Minimum and maximum seconds that a created object runs."""
    fail_share: float = 0.0
    """Share of the created objects that fail."""
    seed: int = 1
    settings: ManagerSettings = ManagerSettings()
    warnings: tuple[str, ...] = ()
    """Warnings of admission about the object."""


class TickFate(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one scheduled time. Times are in RFC 3339."""

    tick: str
    do: str
    """start or skip."""
    name: str = ""
    """Name of the created object."""
    late_s: float = 0.0
    """Delay of the creation after the scheduled time, in seconds."""
    ending: str = ""
    """succeeded, failed, replaced, active (at the end of the simulation)."""
    ended: str = ""
    replaces: tuple[str, ...] = ()
    """Objects that were deleted so that this object could run."""
    code: str = ""
    """Reason for skipping the time, in one word."""
    why: str = ""


class ClockPlayed(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a simulation."""

    refused: tuple[str, ...] = ()
    """Errors with which admission rejected the object; then all other fields are empty."""
    warnings: tuple[str, ...] = ()
    """Warnings of admission about the object, as `kubectl apply` prints them."""
    begin: str = ""
    zone: str = ""
    """Time zone of the schedule; UTC if empty."""
    fates: tuple[TickFate, ...] = ()
    most_active: int = 0
    """Maximum number of objects that ran at the same time."""
    tidied: int = 0
    """Number of objects that were deleted because they exceeded the history limits."""
    waiting: str = ""
    """Last reason for waiting."""


def play_clock(given: ClockPlay) -> ClockPlayed:
    """Run the simulation to its end."""
    return _Stage(given).play()


class _Paper(Generic[T]):
    """A `runtime.read.Mirror` of simulated objects."""

    synced = True

    def __init__(self, views: Views[T]) -> None:
        self._indexes = views.indexes
        self._project = views.projector()
        self._found: dict[Key, T] = {}

    def put(self, document: Document) -> None:
        """Store or replace an object."""
        view = self._project(encode(document))
        self._found[Key(view.namespace, view.name)] = view

    def remove(self, key: Key) -> None:
        """Remove an object."""
        self._found.pop(key, None)

    async def wait_served(self) -> bool:
        """Return immediately; a simulated mirror is always in sync."""
        return True

    def get(self, key: Key) -> T | None:
        """Return the object with this key; None if there is no such object."""
        return self._found.get(key)

    def values(self) -> Sequence[T]:
        """Return all objects."""
        return tuple(self._found.values())

    def list_by_index(self, index: str, value: Hashable) -> Sequence[T]:
        """Return objects with this index value."""
        values_of = self._indexes[index]
        return [item for item in self._found.values() if value in values_of(item)]

    def count(self, index: str, value: Hashable) -> int:
        """Return the number of objects with this index value."""
        return len(self.list_by_index(index, value))


class _Run(msgspec.Struct, kw_only=True):
    """A created object that runs or has ended."""

    document: Document
    tick: Instant
    began: Instant
    replaces: tuple[str, ...] = ()
    is_good: bool = True
    ended: Instant | None = None
    ending: str = "active"
    was_there: bool = False
    """Whether the object existed before the simulation."""


class _Look(msgspec.Struct, frozen=True):
    """Reason for which a plan created nothing."""

    at: Instant
    code: str
    why: str


class _Stage:
    """One running simulation."""

    def __init__(self, given: ClockPlay) -> None:
        control, insight = given.kind.control, given.kind.insight
        assert control is not None
        assert isinstance(insight, ClockInsight), "only a kind with a schedule can be simulated here"
        self._given = given
        self._control: Control = control
        self._insight: ClockInsight = insight
        self._settings = given.settings.read_kind_settings(given.kind)
        self._papers: dict[Views[Any], _Paper[Any]] = {
            views: _Paper(views) for views in views_of(control, self._settings)
        }
        self._by_kind = {views.resource.kind: paper for views, paper in self._papers.items()}
        self._rng = random.Random(given.seed)
        self._memories = Memories()
        self._now = given.start
        self._version = 0
        self._document = given.document
        self._runs: dict[str, _Run] = {}
        """Existing runs by name."""
        self._past: list[_Run] = []
        self._ends: list[tuple[Instant, str]] = []
        self._looks: list[_Look] = []
        self._most_active = 0
        self._tidied = 0

    def play(self) -> ClockPlayed:
        """Run from beginning to end and return the result."""
        given = self._given
        self._store(given.document)
        for entry in given.made:
            self._take_over(entry)
        until = given.start + given.for_s
        before = self._take_snapshot()
        ticks = list(self._insight.ticks(before, until))
        waiting = ""
        while self._now <= until + LAG_S:
            plan = self._settle()
            waiting = plan.waiting.message if plan.waiting is not None else ""
            self._pass_time(plan)
        runs = [*self._past, *self._runs.values()]
        fates = [
            *map(self._build_tick_fate, runs),
            *self._list_skipped_ticks(ticks, {run.tick for run in runs}),
        ]
        return ClockPlayed(
            warnings=given.warnings,
            begin=format_time(given.start),
            zone=self._insight.zone(before),
            fates=tuple(sorted((fate for fate in fates if fate is not None), key=lambda fate: fate.tick)),
            most_active=self._most_active,
            tidied=self._tidied,
            waiting=waiting,
        )

    # ── time ─────────────────────────────────────────────────────────────────

    def _settle(self) -> Plan:
        """Carry out plans until nothing is left to do at this moment, and return the last plan."""
        for _ in range(MOST_LOOKS):
            plan = self._control.plan(self._take_snapshot())
            self._note_reason(plan)
            self._carry_out(plan)
            if not plan.stages:
                break
        return plan

    def _pass_time(self, plan: Plan) -> None:
        """Advance to the next moment at which something happens."""
        look = math.inf if plan.requeue_after_s is None else self._now + plan.requeue_after_s + LAG_S
        end = self._ends[0][0] if self._ends else math.inf
        self._now = min(look, end)
        while self._ends and self._ends[0][0] <= self._now:
            self._end_run(heapq.heappop(self._ends)[1])

    def _end_run(self, name: str) -> None:
        run = self._runs.get(name)
        if run is None:
            return  # it was deleted earlier
        run.ended, run.ending = self._now, "succeeded" if run.is_good else "failed"
        run.document = self._insight.ended(run.document, run.began, self._now, run.is_good)
        self._store(run.document)

    # ── plans ────────────────────────────────────────────────────────────────

    def _take_snapshot(self) -> Any:
        key = _key_of(self._document)
        view: Any = self._papers[self._control.objects].get(key)
        read: Read[Any] = Read(
            self._papers,
            key=key,
            uid=view.uid,
            now=lambda: self._now,
            rng=self._rng,
            settings=self._settings,
            live=None,
            memories=self._memories,
        )
        return _run_now(self._control.snapshot(view, read))

    def _note_reason(self, plan: Plan) -> None:
        if plan.notes:
            note = plan.notes[0]
            self._looks.append(_Look(self._now, note.reason, note.message))
        elif plan.waiting is not None:
            self._looks.append(_Look(self._now, plan.waiting.code, plan.waiting.message))

    def _carry_out(self, plan: Plan) -> None:
        replaced: list[str] = []
        for stage in plan.stages:
            for chain in stage.chains:
                for step in chain.steps:
                    if isinstance(step.action, Delete):
                        self._delete(step.action, stage.purpose, replaced)
                    else:
                        self._write(step.action, tuple(replaced))
        if plan.status is not None:
            self._document = {**self._document, "status": plan.status}
            self._store(self._document)

    def _write(self, action: Action, replaced: tuple[str, ...]) -> None:
        if isinstance(action, Create):
            self._create(action, replaced)
        elif not isinstance(action, Delete):
            self._document = apply_merge_patch(self._document, action.body)
            self._store(self._document)

    def _create(self, action: Create, replaced: tuple[str, ...]) -> None:
        name = action.key.name
        meta = {
            **action.body["metadata"],
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(self._now),
        }
        run = _Run(
            document={**action.body, "metadata": meta},
            tick=self._find_tick(action.body),
            began=self._now,
            replaces=replaced,
            is_good=self._rng.random() >= self._given.fail_share,
        )
        self._begin_run(run)

    def _begin_run(self, run: _Run) -> None:
        least, most = self._given.takes_s
        name = run.document["metadata"]["name"]
        self._runs[name] = run
        heapq.heappush(self._ends, (self._now + self._rng.uniform(least, most), name))
        self._store(run.document)
        active = sum(run.ended is None for run in self._runs.values())
        self._most_active = max(self._most_active, active)

    def _delete(self, action: Delete, purpose: str, replaced: list[str]) -> None:
        self._by_kind[action.resource.kind].remove(action.key)
        run = self._runs.pop(action.key.name, None)
        if purpose == Purpose.TIDY_UP:
            self._tidied += 1
        if run is None:
            return
        self._past.append(run)
        if run.ended is None:
            run.ended, run.ending = self._now, "replaced"
            replaced.append(action.key.name)

    # ── simulated objects ────────────────────────────────────────────────────

    def _take_over(self, document: Document) -> None:
        """Take over an existing run; an unfinished run continues for as long as a new one would."""
        self._store(document)
        if self._insight.is_active(self._by_kind[document["kind"]].get(_key_of(document))):
            run = _Run(document=document, tick=self._find_tick(document), began=self._now, was_there=True)
            self._begin_run(run)

    def _store(self, document: Document) -> None:
        self._version += 1
        meta = {**document["metadata"], "resourceVersion": str(self._version)}
        self._by_kind[document["kind"]].put({**document, "metadata": meta})

    def _find_tick(self, document: Mapping[str, Any]) -> Instant:
        tick = self._insight.tick_of(document)
        return self._now if tick is None else tick

    # ── results ──────────────────────────────────────────────────────────────

    def _build_tick_fate(self, run: _Run) -> TickFate | None:
        if run.was_there:
            return None
        late = run.began - run.tick
        return TickFate(
            tick=format_time(run.tick),
            do="start",
            name=run.document["metadata"]["name"],
            late_s=round(late, 3) if late > 2 * LAG_S else 0.0,
            ending=run.ending,
            ended=format_time(run.ended) if run.ended is not None else "",
            replaces=run.replaces,
        )

    def _list_skipped_ticks(self, ticks: Sequence[Instant], served: set[Instant]) -> Iterator[TickFate]:
        moments = [look.at for look in self._looks]
        for tick in ticks:
            if tick in served or not moments:
                continue
            number = bisect_left(moments, tick)
            # Without a plan at this time, the reason of the previous plan is still valid.
            if number == len(moments) or moments[number] > tick + 2 * LAG_S:
                number = max(number - 1, 0)
            look = self._looks[number]
            yield TickFate(tick=format_time(tick), do="skip", code=look.code, why=look.why)


def _key_of(document: Document) -> Key:
    return Key(document["metadata"].get("namespace") or "", document["metadata"]["name"])


def _run_now(snapshot: Awaitable[Any]) -> Any:
    """Run a snapshot function that never suspends, and return the snapshot."""
    try:
        snapshot.__await__().__next__()
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a simulated snapshot sent a request to an API server")
