"""Plans: ordered stages of writes, the status to report, when to reconcile again, and why.

snapshot ──▶ plan() ──▶ Plan ──▶ runtime/execute.py (writes) or `explain` (words) or a test (values)

A plan is complete: its printed form shows what would happen, and its execution needs nothing else. It also has the
reason for each pod that it leaves unchanged, since users ask about these pods.
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
    "compute_seconds_until",
    "find_soonest",
]

REPORT_STATUS: Final = "status"
"""Purpose of the stage that reports a status."""

CREATED_NAME: Final = "{created name}"
"""Placeholder in the message of a step's note for the name that the API server generates for the created object."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The object of an event, if that is not the owner."""

    resource: Resource
    key: Key
    uid: str


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An event to record for the owner: `Normal` or `Warning`, a reason in CamelCase, and a message."""

    reason: str
    message: str
    warning: bool = False
    about: Subject | None = None
    """Object of the event; None: the owner."""
    again_after_s: float = 0.0
    """Seconds before the same note about the same object is recorded again; 0: it is recorded each time."""
    same_as: str = ""
    """Identity of the note among notes of one reason: notes with the same value are the same note, although their
    messages differ. Empty: the message.
    """
    code: str = ""
    """Code of a failed write, for programs (runtime/reasons.py)."""
    is_single: bool = False
    """Whether each message is a separate event, as Kubernetes' controllers record them. Otherwise the notes of one
    plan, reason and type are one event, with a count and a list of the subjects.
    """


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A write, the reason for it, and the events about its result."""

    action: Action
    because: str
    done: Note | None = None
    failed: Note | None = None
    """Event that is recorded on failure, with the error appended to its message."""
    also: tuple[Note, ...] = ()
    """Further events of the same write: Normal ones are recorded like `done`, Warnings like `failed`."""

    @property
    def notes_when_done(self) -> tuple[Note, ...]:
        """Events to record when the write took effect."""
        return (*((self.done,) if self.done else ()), *(note for note in self.also if not note.warning))

    @property
    def notes_when_failed(self) -> tuple[Note, ...]:
        """Events to record when the write failed, before the error is appended."""
        return (*((self.failed,) if self.failed else ()), *(note for note in self.also if note.warning))


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """Sequential writes for one subject (a pod with its claims); a failure ends the chain."""

    subject: str
    steps: tuple[Step, ...]
    has_random_name: bool = False
    """Whether the names of created objects were generated for this plan alone, with a random suffix. Events about
    failures leave these names out, so that tries that fail in the same way are one event with a count.
    """


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Chains that may run concurrently. A stage starts after the previous one succeeded.

    `ramp=True` begins with one chain and doubles (1, 2, 4, …) while all succeed, so that a template that the API server
    rejects costs one request instead of a thousand. The next plan for the same spec continues with the size that was
    reached (reconcile.py). `regardless=True`: the stage does not depend on earlier stages and
    runs even if they failed.
    """

    purpose: str
    """Purpose of the stage: shown to users and referenced by `only_after` and `instead_of`. Usually a member of an
    operator's StrEnum.
    """
    chains: tuple[Chain, ...]
    ramp: bool = False
    is_optional: bool = False
    """A failure becomes an event, and the plan continues; the stage is tried again later."""
    regardless: bool = False
    is_independent: bool = False
    """Whether the other chains of the stage continue after a chain has failed. The next stages do not start. After a
    conflict the other chains of every stage continue.
    """
    only_after: tuple[str, ...] = ()
    """Purposes of earlier stages: this stage is left out when a write of one of them has failed."""
    instead_of: tuple[str, ...] = ()
    """Purposes of earlier stages: this stage is left out when a write of one of them took effect. It is also
    `regardless`, because otherwise their failures would prevent it. So it runs only if the API server has rejected all
    of their writes, and its limits hold: the objects are still as they are in the snapshot.
    """


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one object from one snapshot."""

    stages: tuple[Stage, ...] = ()
    status: dict[str, Any] | None = None
    """The complete status that the object should show; None: the stored status stays."""
    requeue_after_s: float | None = None
    """Seconds until the next reconcile, even if no event starts one before; None: only an event starts it."""
    waiting: Reason | None = None
    """Reason for which the object waits, as its condition shows it; None: converged, or another condition shows it."""
    skipped: Mapping[str, Reason] = {}
    """Reason by name of each pod that the plan leaves unchanged."""
    skipped_nodes: Mapping[str, Reason] = {}
    """Reason by name of each node that has no pod and gets none now; for kinds with one pod per node."""
    notes: tuple[Note, ...] = ()
    """Events to record whether or not writes succeed, for example that a limit is reached."""
    memory: Any = None
    """A frozen value that saves work in the next plan of the object; the next snapshot gets it with
    `Read.find_memory(type)`. It does not change decisions: plans are the same without it. None: the remembered value
    stays.
    """

    @property
    def steps(self) -> Iterator[Step]:
        """All writes in the order in which they may start."""
        return (step for stage in self.stages for chain in stage.chains for step in chain.steps)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to write: the object is as it should be, or waits."""
        return not self.stages and self.status is None


def plan_of(purpose: str, *steps: Step) -> Plan:
    """Return a plan with only these writes, which run sequentially."""
    return Plan(stages=(Stage(purpose=purpose, chains=(Chain(subject="", steps=steps),)),))


def compute_seconds_until(at: Instant | None, *, now: Instant) -> float | None:
    """Return the seconds from now until this time, for `requeue_after_s`; None: there is no such time."""
    return None if at is None else at - now


def find_soonest(times_s: Iterable[float | None]) -> float | None:
    """Return the earliest of these times, in seconds from now, for `requeue_after_s`; None: all of them are None."""
    return min((seconds for seconds in times_s if seconds is not None), default=None)
