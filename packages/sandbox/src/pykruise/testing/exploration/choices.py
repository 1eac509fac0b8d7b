"""Everything that can happen next waits for a decision, on one loop.

a request, an event, a reconcile ──▶ ChoiceGates.wait() ─┐
                                                          ├──▶ ChoosingLoop: all tasks wait ──▶ decide() ──▶ one step
time, operations, a hand-over ────────────────────────────┘

A chosen step runs until all tasks wait again. Time does not pass during a step. It advances only when `decide` chooses
that.
"""

import asyncio
from collections.abc import Callable

import msgspec

from pykruise.sandbox.virtual_time import VirtualLoop
from pykruise.testing.simulation.worlds import Violation

__all__ = ["Choice", "ChoiceGates", "Chooser", "ChoosingLoop", "State", "WaitingChoice"]


STEP_S = 1e-5
"""Duration of a step, so that rules can tell what came first. No two states differ by so little."""


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
"""Decides which choice of a state comes next."""


class WaitingChoice(msgspec.Struct, frozen=True, eq=False):
    """Something that can go on, in one of several ways."""

    what: str
    """Name of the choice, for people: `write PATCH pods/web-abcde`."""
    outcomes: tuple[str, ...]
    """Ways in which it may go on; the first is the usual one, the others are faults."""
    detail: str
    """Text that distinguishes it from another, such as the body of a request."""
    goes_on: "asyncio.Future[str]"


class ChoiceGates:
    """Places where things wait. Until `close()` nothing does: all goes on as usual."""

    def __init__(self) -> None:
        self.waiting: dict[int, WaitingChoice] = {}
        """Things that wait, in the order in which they came."""
        self.are_closed = False
        self._count = 0

    def close(self) -> None:
        """Make everything wait from now on, until `decide` chooses it."""
        self.are_closed = True

    async def wait(self, what: str, outcomes: tuple[str, ...] = ("",), *, detail: str = "") -> str:
        """Return when this is chosen: how it is to go on."""
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
    """Asks `decide` whenever nothing runs any more. True: something goes on; False: time passes to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.decide: Callable[[], bool] = lambda: False

    def jump(self, timeout: float | None) -> None:
        """Nothing runs any more."""
        if self.decide():
            self._now += STEP_S
        else:
            super().jump(timeout)
