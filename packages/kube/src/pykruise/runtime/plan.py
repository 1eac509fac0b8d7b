"""Plans: ordered stages of writes, the status to report, when to reconcile again, and why.

snapshot ──▶ plan() ──▶ Plan ──▶ runtime/execute.py (writes) or `explain` (words) or a test (values)

A plan is complete in itself: printing it says what would happen, and carrying it out needs nothing else.
Pods that are left alone have their reason in it too, since that is what people ask about.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.runtime.actions import Action
from pykruise.runtime.reasons import Reason

__all__ = [
    "CREATED_NAME",
    "REPORT_STATUS",
    "Chain",
    "Note",
    "Plan",
    "Stage",
    "Step",
    "Subject",
    "seconds_until",
    "soonest",
]

REPORT_STATUS: Final = "status"
"""The purpose of the stage that reports a status."""

CREATED_NAME: Final = "{created name}"
"""Placeholder in the message of a step's note for the name that the API server gives to the created object."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that an event is about, where it is not the owner."""

    resource: Resource
    key: Key
    uid: str


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An event to record on the owner: `Normal` or `Warning`, a reason in CamelCase, and a message."""

    reason: str
    message: str
    warning: bool = False
    about: Subject | None = None
    """Object of the event; None: the owner."""
    again_after_s: float = 0.0
    """The same note about the same object is recorded again only after this time; 0: each time."""
    same_as: str = ""
    """Notes of a reason with the same value here are the same note, however they are worded; empty: the message."""
    code: str = ""
    """Code of a failed write, for programs (runtime/reasons.py)."""
    is_single: bool = False
    """Each message is an event of its own, as Kubernetes' own controllers record them. Else those of one plan, reason
    and kind are one event, with a count and a list of the subjects."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One write, why it is made, and what to say of it afterwards."""

    action: Action
    because: str
    done: Note | None = None
    failed: Note | None = None
    """Recorded on failure, with the error appended to its message."""
    also: tuple[Note, ...] = ()
    """Further events of the same write: Normal ones are recorded like `done`, Warnings like `failed`."""

    @property
    def notes_when_done(self) -> tuple[Note, ...]:
        """Events to record when the write took effect."""
        return (*((self.done,) if self.done else ()), *(note for note in self.also if not note.warning))

    @property
    def notes_when_failed(self) -> tuple[Note, ...]:
        """Events to record when the write failed; the error is still to be appended."""
        return (*((self.failed,) if self.failed else ()), *(note for note in self.also if note.warning))


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """Writes for one subject (a pod with its claims), one after another; a failure ends the chain."""

    subject: str
    steps: tuple[Step, ...]
    has_random_name: bool = False
    """Whether names of what it makes were chosen for this plan alone, with a random end: events of failures leave them
    out, so that tries that fail in the same way are one event with a count."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Chains that may run side by side. A stage starts when the one before it succeeded.

    `ramp=True` begins with one chain and doubles (1, 2, 4, …) while all succeed, so that a template that
    the API server refuses costs one request and not a thousand. `regardless=True`: it does not build on what
    comes before and is carried out even when that failed, so that neither of two can hold the other up.
    """

    purpose: str
    """Purpose of the stage: shown to people, and referenced by `only_after`. Mostly a member of an operator's StrEnum.
    """
    chains: tuple[Chain, ...]
    ramp: bool = False
    is_optional: bool = False
    """A failure becomes an event, and the plan continues; the stage is tried again later."""
    regardless: bool = False
    is_independent: bool = False
    """A chain that fails does not stop the others of the stage; the stages after it do not begin."""
    only_after: tuple[str, ...] = ()
    """This stage is left out when something of one for these purposes has failed."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decided about one object from one snapshot."""

    stages: tuple[Stage, ...] = ()
    status: dict[str, Any] | None = None
    """The status the object should show (whole, not a difference); None: the stored one is right."""
    requeue_after_s: float | None = None
    """Seconds until it must be looked at again although nothing changed; None: never."""
    waiting: Reason | None = None
    """Reason for which the object waits, as its condition shows it; None: converged, or another condition shows it."""
    skipped: Mapping[str, Reason] = {}
    """Name of every pod that was left alone → why."""
    skipped_nodes: Mapping[str, Reason] = {}
    """Name of every node that has no pod and gets none now → why; of kinds with a pod per node."""
    notes: tuple[Note, ...] = ()
    """Events to record whatever the writes do (limits reached, guards closed)."""
    memory: Any = None
    """A frozen value that saves the next plan of the object work; its snapshot gets it by `Read.memory(type)`. It
    decides nothing: plans come out the same without it. None: what is remembered stays."""

    @property
    def steps(self) -> Iterator[Step]:
        """All writes in the order in which they may start."""
        return (step for stage in self.stages for chain in stage.chains for step in chain.steps)

    @property
    def is_settled(self) -> bool:
        """True when nothing is to be written: the object is as it should be, or waits."""
        return not self.stages and self.status is None


def plan_of(purpose: str, *steps: Step) -> Plan:
    """A plan of nothing but these writes, one after another."""
    return Plan(stages=(Stage(purpose=purpose, chains=(Chain(subject="", steps=steps),)),))


def seconds_until(at: Instant | None, *, now: Instant) -> float | None:
    """Seconds from now until then, for `requeue_after_s`; None: there is no such time."""
    return None if at is None else at - now


def soonest(times_s: Iterable[float | None]) -> float | None:
    """The first of these times, in seconds from now, for `requeue_after_s`. None among them: no time is set."""
    return min((seconds for seconds in times_s if seconds is not None), default=None)
