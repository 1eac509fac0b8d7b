"""A small world: a cluster and its manager, brought to rest, and from there on everything that happens is chosen.

Scope ──▶ World.play(chooser) ──at each state──▶ chooser(State) ──▶ which of its choices comes next

It is the stage of the random simulation with its rules, on another loop. A state is a moment in which nothing runs:
writes, events, reconciles and kubelets wait. Where nothing waits, time passes; where it passes for long and nothing
comes of it, the world is at rest, and has to be as it was asked for.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from exploration.choices import ChoosingLoop, Gates
from exploration.state import Names, Versions, digest_of, remembered
from exploration.wires import LOG, Faults, GatedNodes, GatedWire, ReconcileLog
from pykruise.kube.admission import ReviewRule
from pykruise.kube.resources import CONTROLLER_REVISIONS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.runtime.execute import Outcome
from pykruise.runtime.plan import Plan
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.local import LocalTransport
from pykruise.testing.simulation.network import Wire
from simulation.rules import Violation
from simulation.script import Operation, Script
from simulation.stage import START, Life, Stage

__all__ = ["QUIET_S", "Choice", "Scope", "State", "World"]

QUIET_S = 40.0
"""Longer than anything optional is put off."""
MOMENT = "a moment passes"
KUBELET = {"start_s": 0.0, "start_jitter": 0.0, "ready_s": 0.0, "stop_s": 0.0}
"""Kubelets take no time, but each of their steps has to be chosen."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a world is, and what may happen in it."""

    name: str
    script: Script
    """Its kind and its objects; without operations and faults."""
    before: tuple[Operation, ...] = ()
    """What is done before anything is chosen."""
    begin: Operation
    """What a person does first."""
    operations: tuple[Operation, ...] = ()
    """Of which one may happen at any time after that."""
    faults: tuple[str, ...] = ()
    """Of which one may happen at any write."""
    breaks: int = 0
    """How many watches may break: instead of an event the server says that its history is gone."""
    lag: int = 1000
    """How many events of a resource its watch may be behind: with that many, one of them comes next."""
    hand_overs: int = 0
    settle_s: float = QUIET_S
    """How long it is left alone before anything is chosen."""
    quiet_s: float = QUIET_S
    """So long nothing may have come of waiting for the world to be at rest."""
    has_clock: bool = False
    """Whether two moments are never one state: where the time of day decides."""
    lead: tuple[str, ...] = ()
    """How the first choices begin: what can happen is tried from there on."""
    deepest: int = 0
    """No way is followed for more steps than this; 0: all are to their end."""
    moment_s: float = 0.0
    """Waits that are no longer than this may end while other things wait: webhooks gather requests for so long."""
    last: tuple[str, ...] = ()
    """What comes only where nothing else waits, by how it begins (`node `): so a world is smaller."""
    are_answers_apart: bool = False
    """Whether events may come between a write and its answer."""


class Choice(msgspec.Struct, frozen=True):
    """One way in which a world may go on. `label` distinguishes it from others, and is the same in equal states."""

    label: str
    go: Callable[[], None]


class State(msgspec.Struct, frozen=True):
    """A moment in which nothing runs."""

    digest: int
    choices: tuple[Choice, ...]
    is_rest: bool
    violation: Violation | None
    text: Callable[[], str]


Chooser = Callable[[State], Choice]


class _Cluster(Cluster):
    """A cluster whose kubelets wait."""

    gates: Gates

    def transport_for(self, user: str, **options: Any) -> Any:
        """See Cluster."""
        inner: LocalTransport = super().transport_for(user, **options)
        return GatedNodes(inner, self.gates) if user == "system:nodes" else inner


class World(Stage):
    """A scope that is played: see the module."""

    has_steady_watches = True
    is_overseen = False

    def __init__(self, scope: Scope) -> None:
        super().__init__(msgspec.structs.replace(scope.script, latency_s=0.0, kubelet=KUBELET, hook_s=0.0))
        self._scope = scope
        self._gates = Gates()
        self._faults = Faults(scope.faults, 1)
        self._watch_faults = Faults(("gone",), scope.breaks)
        self._operations_left: tuple[Operation, ...] = scope.operations
        self._hand_overs = scope.hand_overs
        self._logs: list[ReconcileLog] = []
        self._has_begun = False
        self._quiet_since = 0.0
        self._is_waiting_chosen = False

    async def play(self, choose: Chooser) -> NoReturn:
        """Bring it to rest, and then let `choose` decide, for ever. Raises RuntimeError where there is no rest."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ChoosingLoop)
        self._choose = choose
        async with self.running():
            for operation in self._scope.before:
                await self._operations.do(operation)
            for _ in range(60):
                await asyncio.sleep(1.0)
                if not self._found and not list(self._rules.at_rest(self._now())):
                    break
            else:
                raise RuntimeError(
                    f"no rest at the start: {self._found or list(self._rules.at_rest(self._now()))}"
                )
            await asyncio.sleep(self._scope.settle_s)
            self._gates.close()
            self._quiet_since = self._now()
            loop.decide = self._decide
            await asyncio.Event().wait()
        raise AssertionError

    # ── what is chosen ───────────────────────────────────────────────────────

    def _decide(self) -> bool:
        """Nothing runs any more: True when something goes on, False when time is to pass."""
        must = self._must()
        may = self._may()
        if not must and self._has_begun and not self._found and not self._is_quiet():
            if not may or self._is_waiting_chosen:
                return False
            must = [Choice("time passes", self._wait)]
            is_rest = False
        else:
            is_rest = not must and self._has_begun and self._is_quiet()
            if must and self._is_moment_near():
                may.append(Choice(MOMENT, lambda: None))
        choices = _numbered([*may, *must])
        if is_rest:
            self._found += list(self._rules.at_rest(self._now()))[:1]
        names = self._names()
        text = names.replace(self._text(is_rest))
        named = tuple(Choice(names.replace(choice.label), choice.go) for choice in choices)
        state = State(digest_of(text), named, is_rest, self._found[0] if self._found else None, lambda: text)
        chosen = self._choose(state)
        self._is_waiting_chosen = False
        if chosen.label != "time passes":
            self._quiet_since = self._now()
        chosen.go()
        return chosen.label not in ("time passes", MOMENT)

    def _is_moment_near(self) -> bool:
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        ends = (timer.when() for timer in timers if not timer.cancelled())
        return bool(min(ends, default=math.inf) <= self._now() + self._scope.moment_s)

    def _is_quiet(self) -> bool:
        return self._now() - self._quiet_since >= self._scope.quiet_s

    def _wait(self) -> None:
        self._is_waiting_chosen = True

    def _must(self) -> list[Choice]:
        """What waits to go on."""
        if not self._has_begun:
            return [Choice(_words(self._scope.begin), self._begin)]
        choices = []
        waiting_now = list(self._gates.waiting.values())
        waiting_now = [
            waiting for waiting in waiting_now if not waiting.what.startswith(self._scope.last)
        ] or waiting_now
        late = [
            waiting
            for waiting in waiting_now
            if waiting.what.startswith("event ") and self._is_late(waiting.what)
        ]
        for waiting in late[:1] or waiting_now:
            for outcome in waiting.outcomes:
                label = f"{waiting.what}, {outcome}" if outcome else waiting.what
                choices.append(Choice(label, _releasing(waiting.goes_on, outcome)))
        return choices

    def _is_late(self, event: str) -> bool:
        """Whether a watch of this event's resource is as far behind as it may be."""
        assert isinstance(self._storage, Versions)
        plural = event.split()[2].partition("/")[0]
        return any(
            len(self._storage.after(str(resource), cache.position)) >= self._scope.lag
            for life in self._lives
            for resource, cache in life.manager._sources.by_resource.items()
            if resource.plural == plural
        )

    def _may(self) -> list[Choice]:
        """What may come besides, and need not."""
        if not self._has_begun:
            return []
        choices = [Choice(_words(operation), self._doing(operation)) for operation in self._operations_left]
        if self._hand_overs > 0:
            choices.append(Choice("the manager is killed, and another starts", self._hand_over))
        return choices

    def _begin(self) -> None:
        self._has_begun = True
        self._help(self._operations.do(self._scope.begin))

    def _doing(self, operation: Operation) -> Callable[[], None]:
        def do() -> None:
            self._operations_left = ()
            self._help(self._operations.do(operation))

        return do

    def _hand_over(self) -> None:
        self._hand_overs -= 1
        self._help(self._follow())

    async def _follow(self) -> None:
        await self._kill()
        self._start_manager()

    # ── where things wait ────────────────────────────────────────────────────

    def _new_storage(self) -> Versions:
        return Versions(clock=self._clock, start=START, shelves=self._rules.shelves)

    def _new_cluster(self, settings: ClusterSettings, rules: Sequence[ReviewRule]) -> Cluster:
        class Gated(_Cluster):
            gates = self._gates

        return Gated(settings, clock=self._clock, rng=self._branch(), reviewers=rules, storage=self._storage)

    @property
    def _watches(self) -> tuple[str, ...]:
        return (PODS.plural, NAMESPACES.plural, *(resource.plural for resource in self._resources))

    def _wire(self, name: str) -> Wire:
        return GatedWire(
            self._cluster.transport_for(name),
            name=name,
            network_faults=self._network_faults,
            rng=self._branch(),
            latency_s=0.0,
            gates=self._gates,
            faults=self._faults,
            watch_faults=self._watch_faults,
            watches=self._watches,
            are_answers_apart=self._scope.are_answers_apart,
        )

    def _watch_reconciles(self, name: str, manager: Any, wire: Wire, controller: Any) -> None:
        super()._watch_reconciles(name, manager, wire, controller)
        reconcile = controller._reconcile

        async def gated(key: Any) -> float | None:
            await self._gates.wait(f"reconcile {controller.name} {key.name}")
            log = ReconcileLog(f"{controller.name} {key}")
            LOG.set(log)
            self._logs.append(log)
            try:
                result: float | None = await reconcile(key)
                return result
            finally:
                self._logs.remove(log)
                LOG.set(None)

        controller._reconcile = gated

    def _start_manager(self) -> Life:
        life = super()._start_manager()
        executor = life.manager._operator._context.executor
        execute = executor.execute

        async def noted(plan: Plan, **given: Any) -> Outcome:
            if (log := LOG.get()) is not None:
                log.plans.append(f"{plan.stages} {plan.status}")
            return await execute(plan, **given)

        executor.execute = noted  # type: ignore[method-assign]
        return life

    async def _put_labels(self, pod: str, labels: Any, state: str) -> None:
        await self._gates.wait(f"hook of pods/{pod}")
        await super()._put_labels(pod, labels, state)

    # ── what a state is ──────────────────────────────────────────────────────

    def _remembered_by(self, manager: Any) -> str:
        assert isinstance(self._storage, Versions)
        return remembered(manager, self._storage, self._watches, now=self._now(), clock=self._clock())

    def _text(self, is_rest: bool) -> str:
        storage = self._storage
        assert isinstance(storage, Versions)
        shelves = [
            str(resource)
            for resource in (
                *self._resources,
                CONTROLLER_REVISIONS,
                PERSISTENT_VOLUME_CLAIMS,
                NAMESPACES,
                NODES,
                PODS,
            )
        ]
        parts = [
            f"{shelf} {key} {storage.text_of(shelf, key, version)}"
            for shelf in shelves
            for key, version in storage.objects(shelf)
        ]
        parts += [self._remembered_by(life.manager) for life in self._lives]
        parts += [f"{log.key} {log.plans} {log.came}" for log in self._logs]
        parts += [
            f"{waiting.what} {waiting.outcomes} {waiting.detail}" for waiting in self._gates.waiting.values()
        ]
        parts.append(
            f"{is_rest} {self._has_begun} {self._operations_left} {self._hand_overs} {self._faults.left}"
            f" {self._watch_faults.left}"
        )
        if self._scope.has_clock:
            parts.append(f"{self._now():.2f}")
        return "\n".join(parts)

    def _names(self) -> Names:
        """Random names of pods end in five letters; their claims have the same."""
        assert isinstance(self._storage, Versions)
        ends = {key.name.rpartition("-")[2] for shelf, key in self._storage.order if shelf == str(PODS)}
        current = {
            item.revision
            for resource in (*self._resources, PODS)
            for item in self._storage.scan(str(resource)).items
        }
        return Names((end for end in ends if len(end) == 5), current)


def _words(operation: Operation) -> str:
    return f"a person: {operation.do} {operation.args}"


def _releasing(goes_on: "asyncio.Future[str]", outcome: str) -> Callable[[], None]:
    return lambda: goes_on.set_result(outcome)


def _numbered(choices: list[Choice]) -> list[Choice]:
    """Labels that would be the same get a number."""
    counts: dict[str, int] = {}
    result = []
    for choice in choices:
        count = counts[choice.label] = counts.get(choice.label, 0) + 1
        result.append(choice if count == 1 else Choice(f"{choice.label} ({count})", choice.go))
    return result
