"""Decides the next step: whenever no task can run, the chooser selects one of all possible steps.

gates (requests, events, reconciles that wait) ─┐
the world: its beginning, actions, a crash     ─┼──▶ Moments.decide() ──State──▶ Chooser ──▶ one step
time                                           ─┘

If no step waits, time advances. If no step follows within `quiet_s`, the world is at rest.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NoReturn, Protocol

from pykruise.kube.control.controller import Controller
from pykruise.kube.ids import Key
from pykruise.runtime.execute import Outcome
from pykruise.runtime.operator import Operator
from pykruise.runtime.plan import Plan
from pykruise.sandbox.cluster import Cluster
from pykruise.sandbox.local import LocalTransport
from pykruise.testing.exploration.choices import Choice, ChoiceGates, Chooser, ChoosingLoop, State
from pykruise.testing.exploration.states import Names, digest_of
from pykruise.testing.exploration.wires import LOG, GatedNodes, ReconcileLog
from pykruise.testing.simulation.worlds import Violation

__all__ = [
    "KUBELET_SETTINGS",
    "QUIET_S",
    "DecidedWorld",
    "GatedCluster",
    "Moments",
    "describe_waiting",
    "gate_reconciles",
    "note_plans",
]

QUIET_S: Final = 40.0
"""Seconds without a step after which a world is at rest. This is longer than any delay before a step."""
KUBELET_SETTINGS: Final = {"start_s": 0.0, "start_jitter": 0.0, "ready_s": 0.0, "stop_s": 0.0}
"""Kubelets take no time, but each of their steps must be chosen."""
MOMENT: Final = "a moment passes"
_TIME: Final = "time passes"


class DecidedWorld(Protocol):
    """The part of a world that decisions need."""

    def beginning(self) -> Choice | None:
        """Return the first step; None if it has been done."""

    def additions(self) -> list[Choice]:
        """Return the optional steps that are possible now."""

    def violation(self) -> Violation | None:
        """Return the first broken rule; None if no rule is broken."""

    def judge_rest(self) -> None:
        """Check the rules that must hold at rest."""

    def text(self, is_rest: bool) -> str:
        """Return the text of the state: everything that later steps depend on."""

    def names(self) -> Names:
        """Return the numbers that replace random names."""

    def is_late(self, plural: str) -> bool:
        """Return whether the watch of this resource has its maximum lag."""


class Moments:
    """Collects the possible steps of one world, and lets the chooser select the next one.

    `last`: prefixes of names (such as `node `) of steps that are possible only if no other step waits. This reduces the
    number of states. `moment_s`: a delay that is not longer than this may end while other steps wait.
    """

    def __init__(
        self,
        world: DecidedWorld,
        gates: ChoiceGates,
        choose: Chooser,
        *,
        quiet_s: float = QUIET_S,
        moment_s: float = 0.0,
        last: tuple[str, ...] = (),
    ) -> None:
        self._world = world
        self._gates = gates
        self._choose = choose
        self._quiet_s = quiet_s
        self._moment_s = moment_s
        self._last = last
        self._loop = asyncio.get_running_loop()
        self._quiet_since = self._loop.time()
        self._is_waiting_chosen = False

    async def run(self) -> NoReturn:
        """Let the chooser decide from now on. Never returns."""
        assert isinstance(self._loop, ChoosingLoop)
        self._gates.close()
        self._quiet_since = self._loop.time()
        self._loop.decide = self._decide
        await asyncio.Event().wait()
        raise AssertionError

    def _decide(self) -> bool:
        """Decide the next step, since no task can run. Return True if a step begins, False if time must advance."""
        world = self._world
        beginning = world.beginning()
        must = [beginning] if beginning is not None else self._list_waiting_choices()
        may = [] if beginning is not None else world.additions()
        if not must and world.violation() is None and not self._is_quiet():
            if not may or self._is_waiting_chosen:
                return False
            must = [Choice(_TIME, self._wait)]
            is_rest = False
        else:
            is_rest = not must and self._is_quiet()
            if must and self._is_moment_near():
                may.append(Choice(MOMENT, lambda: None))
        choices = _number_labels([*may, *must])
        if is_rest:
            world.judge_rest()
        names = world.names()
        text = names.replace(world.text(is_rest))
        named = tuple(Choice(names.replace(choice.label), choice.go) for choice in choices)
        chosen = self._choose(State(digest_of(text), named, is_rest, world.violation(), lambda: text))
        self._is_waiting_chosen = False
        if chosen.label != _TIME:
            self._quiet_since = self._loop.time()
        chosen.go()
        return chosen.label not in (_TIME, MOMENT)

    def _is_moment_near(self) -> bool:
        timers = self._loop._scheduled  # type: ignore[attr-defined]
        ends = (timer.when() for timer in timers if not timer.cancelled())
        return bool(min(ends, default=math.inf) <= self._loop.time() + self._moment_s)

    def _is_quiet(self) -> bool:
        return self._loop.time() - self._quiet_since >= self._quiet_s

    def _wait(self) -> None:
        self._is_waiting_chosen = True

    def _list_waiting_choices(self) -> list[Choice]:
        """Return all waiting steps."""
        choices = []
        everything = list(self._gates.waiting.values())
        waiting_now = [item for item in everything if not item.what.startswith(self._last)] or everything
        late = [
            item
            for item in waiting_now
            if item.what.startswith("event ") and self._world.is_late(item.what.split()[2].partition("/")[0])
        ]
        for item in late[:1] or waiting_now:
            for outcome in item.outcomes:
                label = f"{item.what}, {outcome}" if outcome else item.what
                choices.append(Choice(label, _make_release(item.goes_on, outcome)))
        return choices


def _make_release(goes_on: "asyncio.Future[str]", outcome: str) -> Callable[[], None]:
    return lambda: goes_on.set_result(outcome)


def _number_labels(choices: list[Choice]) -> list[Choice]:
    """Add numbers to equal labels."""
    counts: dict[str, int] = {}
    result = []
    for choice in choices:
        count = counts[choice.label] = counts.get(choice.label, 0) + 1
        result.append(choice if count == 1 else Choice(f"{choice.label} ({count})", choice.go))
    return result


# ── gates ─────────────────────────────────────────────────────────────────────


class GatedCluster(Cluster):
    """A cluster whose kubelets wait before each report."""

    gates: ChoiceGates
    reported: Collection[str] = ("pods",)
    """Plurals of the resources about which nodes and their agents report."""

    def make_transport(self, user: str, **options: Any) -> Any:
        """Return the transport of a user; the transport of kubelets has gates."""
        inner: LocalTransport = super().make_transport(user, **options)
        return GatedNodes(inner, self.gates, self.reported) if user == "system:nodes" else inner


def gate_reconciles(controller: Controller[Key], gates: ChoiceGates, logs: list[ReconcileLog]) -> None:
    """Let each reconcile of a controller wait until it is chosen. `logs`: the running reconciles."""
    reconcile = controller._reconcile

    async def gated(key: Key) -> float | None:
        await gates.wait(f"reconcile {controller.name} {key.name}")
        log = ReconcileLog(f"{controller.name} {key}")
        LOG.set(log)
        logs.append(log)
        try:
            return await reconcile(key)
        finally:
            logs.remove(log)
            LOG.set(None)

    controller._reconcile = gated


def note_plans(operator: Operator) -> None:
    """Record the plan of each reconcile in its log, because it is part of a state."""
    executor = operator._context.executor
    execute = executor.execute

    async def noted(plan: Plan, **options: Any) -> Outcome:
        if (log := LOG.get()) is not None:
            log.plans.append(f"{plan.stages} {plan.status}")
        return await execute(plan, **options)

    executor.execute = noted  # type: ignore[method-assign]


def describe_waiting(gates: ChoiceGates, logs: Sequence[ReconcileLog]) -> list[str]:
    """Return the waiting steps and the running reconciles, as parts of a state."""
    return [
        *(f"{log.key} {log.plans} {log.came}" for log in logs),
        *(f"{item.what} {item.outcomes} {item.detail}" for item in gates.waiting.values()),
    ]
