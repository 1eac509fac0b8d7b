"""Stored values that admission would have refused: such an object is reported, and nothing is touched for it.

Control + Stored ──▶ judged() ──▶ Control whose snapshots say what is wrong (`refused`)
a plan ──▶ refused_plan() ──▶ Plan: an event and a condition that name the fields

Objects are stored while webhooks are off, by an older version, or by `kubectl scale`. A value that cannot be used must
not be read as another one: a partition of -1 that became 0 would update everything. A kind says in `StoredSpec` what
the
reviews of a creation say of its spec, and which of these values keep the meaning that OpenKruise gives them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.pods.reasons import CODES, Code
from pykruise.runtime.control import Control
from pykruise.runtime.plan import Note, Plan
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason

AGAIN_S: Final = 600.0
"""How often the event is recorded again."""

TEMPLATE_IS_JUDGED_LATER: Final = "an API server judges pods and PVCs when they are created"

_INDEX: Final = re.compile(r"\[[^\]]*\]")


class Flaw(msgspec.Struct, frozen=True):
    """A stored value that admission would have refused."""

    field: str
    """Its path, with indices."""
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that says what is wrong with the object's spec."""

    refused: tuple[Flaw, ...] = ()


class StoredSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind judges what is stored."""

    errors: Callable[[Any], Iterable[Cause]]
    """Errors of the typed spec, or of a view that has none: those of the reviews of a creation about the spec alone."""
    kept: Mapping[str, str] = {}
    """Fields whose values keep a meaning although they would be refused → why. Lists have `[]`; a field stands for
    all below it."""

    def flaws_of(self, spec: Any) -> tuple[Flaw, ...]:
        """Values that cannot be used."""
        errors = (error for error in self.errors(spec) if not self.is_kept(error.field))
        return tuple(dict.fromkeys(Flaw(error.field, error.message) for error in errors))

    def is_kept(self, field: str) -> bool:
        """Whether the field, or one that it is part of, is in `kept`."""
        plain = _INDEX.sub("[]", field)
        return any(plain == text or plain.startswith((f"{text}.", f"{text}[")) for text in self.kept)


class _Verdict:
    """Errors of the last judged spec."""

    def __init__(self) -> None:
        self._spec: Any = None
        self._flaws: tuple[Flaw, ...] = ()

    def of(self, spec: Any, stored: StoredSpec) -> tuple[Flaw, ...]:
        """The flaws. A cache keeps the typed spec while only the status changes, so it is judged once."""
        if spec is not self._spec:
            self._spec, self._flaws = spec, stored.flaws_of(spec)
        return self._flaws


def judged(control: Control, stored: StoredSpec) -> Control:
    """The control whose snapshots, which are `Judged`, say what is wrong with the object. One whose spec cannot be read
    at all says so itself (`problem`)."""

    async def snapshot(view: Any, read: Read[Any]) -> Any | None:
        snapshot = await control.snapshot(view, read)
        if snapshot is None:
            return None
        seen = control.object_of(snapshot)
        spec = getattr(seen, "spec", seen)
        if spec is None or seen.is_deleting:
            return snapshot
        flaws = read.memory(_Verdict).of(spec, stored)
        return msgspec.structs.replace(snapshot, refused=flaws) if flaws else snapshot

    return msgspec.structs.replace(control, snapshot=snapshot)


def as_document(spec: Any) -> Document:
    """A typed spec as the document that reviews judge."""
    return {"metadata": {"name": "stored"}, "spec": msgspec.to_builtins(spec)}


def refused_plan(problems: Sequence[Flaw | str], *, pods: Iterable[str] = ()) -> Plan:
    """Nothing is touched; an event says which fields are in the way. `pods`: those that are left alone."""
    message = "; ".join(map(str, problems))
    return Plan(
        waiting=Reason(Code.INVALID_SPEC, message, CODES[Code.INVALID_SPEC].helps),
        skipped=dict.fromkeys(pods, Reason(Code.INVALID_SPEC, message)),
        notes=(Note(reason=Code.INVALID_SPEC, message=message, warning=True, again_after_s=AGAIN_S),),
    )
