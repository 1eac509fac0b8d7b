"""Stored values that admission would have rejected: the object is reported, and nothing is changed for it.

Control + StoredSpec ──▶ add_judgement() ──▶ Control whose snapshots contain the problems (`refused`)
a plan ──▶ make_refused_plan() ──▶ Plan: an event and a condition with the fields

Such objects are stored while webhooks are off, by an older version, or by `kubectl scale`. An invalid value must not
be used as another one: a partition of -1 that became 0 would update everything. A kind declares in `StoredSpec` the
errors that the review of a creation finds in its spec, and the invalid values that keep their meaning from
OpenKruise.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.workload.options import Option, find_option_errors
from pykruise.runtime.control import Control
from pykruise.runtime.plan import Note, Plan
from pykruise.runtime.read import Read
from pykruise.runtime.reasons import Reason

AGAIN_S: Final = 600.0
"""Seconds until the event is recorded again."""

TEMPLATE_IS_JUDGED_LATER: Final = "the API server checks pods and PVCs when they are created"

_INDEX: Final = re.compile(r"\[[^\]]*\]")


class Flaw(msgspec.Struct, frozen=True):
    """A stored value that admission would have rejected."""

    field: str
    """Path of the field, with indices."""
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with the problems of the object's spec."""

    refused: tuple[Flaw, ...] = ()


class StoredSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of how a kind validates stored specs."""

    errors: Callable[[Any], Iterable[Cause]]
    """Returns the errors that the review of a creation finds in the typed spec alone, or in a view without a spec."""
    kept: Mapping[str, str] = {}
    """Fields whose invalid values keep a meaning, with the reason. Lists have `[]`; a field includes all fields below
    it.
    """
    options: tuple[Option[Any], ...] = ()
    """Annotations of the object that are options of the kind (pods/workload/options.py)."""

    def flaws_of(self, spec: Any) -> tuple[Flaw, ...]:
        """Return the values that cannot be used."""
        errors = (error for error in self.errors(spec) if not self.is_kept(error.field))
        return tuple(dict.fromkeys(Flaw(error.field, error.message) for error in errors))

    def option_flaws_of(self, annotations: Mapping[str, str]) -> tuple[Flaw, ...]:
        """Return the options that cannot be used."""
        errors = find_option_errors(annotations, self.options)
        return tuple(Flaw(error.field, error.message) for error in errors)

    def is_kept(self, field: str) -> bool:
        """Whether `kept` contains the field or a parent of it."""
        plain = _INDEX.sub("[]", field)
        return any(plain == text or plain.startswith((f"{text}.", f"{text}[")) for text in self.kept)


class _Verdict:
    """Errors of the last judged spec."""

    def __init__(self) -> None:
        self._spec: Any = None
        self._flaws: tuple[Flaw, ...] = ()

    def find_flaws(self, spec: Any, stored: StoredSpec) -> tuple[Flaw, ...]:
        """Return the flaws. A cache keeps the typed spec while only the status changes, so each spec is validated
        once.
        """
        if spec is not self._spec:
            self._spec, self._flaws = spec, stored.flaws_of(spec)
        return self._flaws


def add_judgement(control: Control, stored: StoredSpec) -> Control:
    """Return a control whose snapshots (`Judged`) also contain the problems of the object's spec. If the spec is
    unreadable, the snapshot itself reports that (`problem`).
    """

    async def snapshot(view: Any, read: Read[Any]) -> Any | None:
        snapshot = await control.snapshot(view, read)
        if snapshot is None:
            return None
        seen = control.object_of(snapshot)
        spec = getattr(seen, "spec", seen)
        if spec is None or seen.is_deleting:
            return snapshot
        flaws = read.find_memory(_Verdict).find_flaws(spec, stored)
        flaws += stored.option_flaws_of(seen.annotations) if stored.options else ()
        return msgspec.structs.replace(snapshot, refused=flaws) if flaws else snapshot

    return msgspec.structs.replace(control, snapshot=snapshot)


def to_document(spec: Any) -> Document:
    """Return a typed spec as the document that reviews validate."""
    return {"metadata": {"name": "stored"}, "spec": msgspec.to_builtins(spec)}


def make_refused_plan(problems: Sequence[Flaw | str], *, pods: Iterable[str] = ()) -> Plan:
    """Return a plan that changes nothing and records an event with the invalid fields. `pods`: pods to skip."""
    message = "; ".join(map(str, problems))
    return Plan(
        waiting=Reason(Code.INVALID_SPEC, message, CODES[Code.INVALID_SPEC].helps),
        skipped=dict.fromkeys(pods, Reason(Code.INVALID_SPEC, message)),
        notes=(Note(reason=Code.INVALID_SPEC, message=message, warning=True, again_after_s=AGAIN_S),),
    )
