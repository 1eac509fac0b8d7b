"""Gates on one event loop: every step that can happen next waits for a decision.

a request, an event, a reconcile ──▶ ChoiceGates.wait() ─┐
                                                          ├──▶ ChoosingLoop: all tasks wait ──▶ decide() ──▶ one step
time, an action, a crash ─────────────────────────────────┘

A chosen step runs until all tasks wait again, and takes STEP_S of virtual time. Only when `decide` begins no step, time
advances to the next timer.
"""

import asyncio
from collections.abc import Callable

import msgspec

from pykruise.sandbox.virtual_time import VirtualLoop
from pykruise.testing.simulation.worlds import Violation

__all__ = ["Choice", "ChoiceGates", "Chooser", "ChoosingLoop", "State", "WaitingChoice"]


STEP_S = 1e-5
"""Duration of a step. It lets rules see the order of steps, and is too short to make two states differ."""


class Choice(msgspec.Struct, frozen=True):
    """One possible next step of a world. `label` distinguishes it from other choices, and is the same in equal
    states.
    """

    label: str
    go: Callable[[], None]


class State(msgspec.Struct, frozen=True):
    """A moment in which no task runs."""

    digest: int
    choices: tuple[Choice, ...]
    is_rest: bool
    violation: Violation | None
    text: Callable[[], str]


Chooser = Callable[[State], Choice]
"""Chooses the next step among the choices of a state."""


class WaitingChoice(msgspec.Struct, frozen=True, eq=False):
    """A step that waits, with its possible outcomes."""

    what: str
    """Name of the choice, for people: `write PATCH pods/web-abcde`."""
    outcomes: tuple[str, ...]
    """Possible outcomes. The first is the usual outcome, the others are faults."""
    detail: str
    """Text that distinguishes the choice from others, such as the body of a request."""
    goes_on: "asyncio.Future[str]"


class ChoiceGates:
    """Gates at which steps wait to be chosen. Before `close()` the gates are open, and no step waits."""

    def __init__(self) -> None:
        self.waiting: dict[int, WaitingChoice] = {}
        """Waiting steps, in order of arrival."""
        self.are_closed = False
        self._count = 0

    def close(self) -> None:
        """Close the gates: each step waits until `decide` chooses it."""
        self.are_closed = True

    async def wait(self, what: str, outcomes: tuple[str, ...] = ("",), *, detail: str = "") -> str:
        """Return when this step is chosen, with the chosen outcome."""
        if not self.are_closed:
            return outcomes[0]
        self._count += 1
        number = self._count
        goes_on: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting[number] = WaitingChoice(what, outcomes, detail, goes_on)
        try:
            return await goes_on
        finally:
            self.waiting.pop(number, None)


class ChoosingLoop(VirtualLoop):
    """An event loop that calls `decide` whenever no task can run. If `decide` returns True, a step begins; otherwise
    time advances to the next timer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decide: Callable[[], bool] = lambda: False

    def jump(self, timeout: float | None) -> None:
        """Decide the next step, since no task can run."""
        if self.decide():
            self._now += STEP_S
        else:
            super().jump(timeout)
