"""Stored values that admission would reject. The controller reports them, and changes nothing for such an object.

Control + StoredSpec ──▶ add_judgement() ──▶ Control whose snapshots contain the problems (`refused`)
problems ──▶ make_refused_plan() ──▶ Plan: an event and a reason with the fields

Such objects can be stored while webhooks are off, by an older version, or by `kubectl scale`. An invalid value must not
be replaced by a valid one: with a partition of 0 instead of -1, all pods would be updated. In `StoredSpec`, a kind
declares how errors of a spec are found, and which invalid values are accepted because they have a meaning in
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
    """A stored value that admission would reject."""

    field: str
    """Path of the field, with indices."""
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot with the problems of the stored object."""

    refused: tuple[Flaw, ...] = ()


class StoredSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Rules by which a kind validates stored specs."""

    errors: Callable[[Any], Iterable[Cause]]
    """Returns the errors that admission would report for a new object with this typed spec. If the view has no spec,
    the argument is the view.
    """
    kept: Mapping[str, str] = {}
    """Path of a field whose invalid values are accepted → the meaning of these values. Items of lists are written as
    `[]`. A path includes all fields below it.
    """
    options: tuple[Option[Any], ...] = ()
    """Options of the kind, which are annotations of the object (pods/workload/options.py)."""

    def flaws_of(self, spec: Any) -> tuple[Flaw, ...]:
        """Return the invalid values that are not accepted."""
        errors = (error for error in self.errors(spec) if not self.is_kept(error.field))
        return tuple(dict.fromkeys(Flaw(error.field, error.message) for error in errors))

    def option_flaws_of(self, annotations: Mapping[str, str]) -> tuple[Flaw, ...]:
        """Return the invalid options."""
        errors = find_option_errors(annotations, self.options)
        return tuple(Flaw(error.field, error.message) for error in errors)

    def is_kept(self, field: str) -> bool:
        """Whether `kept` contains the path of the field, or of a field above it."""
        plain = _INDEX.sub("[]", field)
        return any(plain == text or plain.startswith((f"{text}.", f"{text}[")) for text in self.kept)


class _Verdict:
    """Result for the spec that was validated last."""

    def __init__(self) -> None:
        self._spec: Any = None
        self._flaws: tuple[Flaw, ...] = ()

    def find_flaws(self, spec: Any, stored: StoredSpec) -> tuple[Flaw, ...]:
        """Return the flaws of the spec. If only the status of an object changes, the cache keeps the same typed spec,
        so each spec is validated only once.
        """
        if spec is not self._spec:
            self._spec, self._flaws = spec, stored.flaws_of(spec)
        return self._flaws


def add_judgement(control: Control, stored: StoredSpec) -> Control:
    """Return a control whose snapshots (`Judged`) also contain the problems of the stored object. If the spec is
    unreadable, they contain none: `problem` of the view reports this.
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
    """Return a document with this spec, as reviews need it."""
    return {"metadata": {"name": "stored"}, "spec": msgspec.to_builtins(spec)}


def make_refused_plan(problems: Sequence[Flaw | str], *, pods: Iterable[str] = ()) -> Plan:
    """Return a plan that writes nothing and records an event about the invalid fields. `pods`: names of the pods that
    are not changed for this reason.
    """
    message = "; ".join(map(str, problems))
    return Plan(
        waiting=Reason(Code.INVALID_SPEC, message, CODES[Code.INVALID_SPEC].helps),
        skipped=dict.fromkeys(pods, Reason(Code.INVALID_SPEC, message)),
        notes=(Note(reason=Code.INVALID_SPEC, message=message, warning=True, again_after_s=AGAIN_S),),
    )
