"""Progress of an object: a phase and counts. A kind declares how they are computed from fields of the document.

Rollout, PhaseRules (values of a kind) + document ▶ progress_of() ▶ Progress: Progressing, Healthy, Degraded, Paused,
…

Pure. The declaration consists of values instead of functions, so that manager/lua_health.py can translate it to Lua. So
every program computes the same phase from a document. This module has few imports, so that commands start fast.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.documents import get_path
from pykruise.kube.values.int_or_percent import Rounding, is_percent, resolve
from pykruise.pods.reasons import DEADLINE_EXCEEDED, HELD, NEEDS_A_PERSON, NEVER_OBSERVED, Code

Document = Mapping[str, Any]


class Phase(StrEnum):
    """State of an object in one word. `explain` prints this word after the object's name, and all other displays show
    the same word.
    """

    PROGRESSING = "Progressing"
    """The object continues without help."""
    HEALTHY = "Healthy"
    """The object is in the state that its spec requests."""
    DEGRADED = "Degraded"
    """A person must correct a problem. Other parts of the object, such as other pods of a job, perhaps continue."""
    PAUSED = "Paused"
    """The rollout waits because a person paused it, or because it has reached the partition."""
    FAILED = "Failed"
    """The object ended with a failure."""
    COMPLETED = "Completed"
    """The object ended with success."""

    @property
    def needs_a_person(self) -> bool:
        """Whether a person must correct a problem."""
        return self in (Phase.DEGRADED, Phase.FAILED)

    @property
    def exit_code(self) -> int:
        """Exit code of `explain`: 3 if a person must act, 2 if the object continues without help, and otherwise 0."""
        if self.needs_a_person:
            return 3
        return 2 if self is Phase.PROGRESSING else 0


OPEN: Final = (Phase.PROGRESSING, Phase.HEALTHY)
"""Phases of objects that have not ended and are not paused. If such an object waits, the reason can change its
phase.
"""

# ── numbers ──────────────────────────────────────────────────────────────────


class Count(msgspec.Struct, frozen=True, tag=True):
    """The number at a dotted path; `default` if it is absent."""

    path: str
    default: "int | Count" = 0

    def of(self, document: Document) -> int:
        """Return the number in this document."""
        value = read_at(document, self.path)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self.default if isinstance(self.default, int) else self.default.of(document)


class Items(msgspec.Struct, frozen=True, tag=True):
    """The number of items in a list or map. If `field` is set, an item counts only if this field has the value
    `value`.
    """

    path: str
    field: str = ""
    value: str = ""

    def of(self, document: Document) -> int:
        """Return the number of items in this document."""
        listed = read_at(document, self.path)
        members = listed.values() if isinstance(listed, Mapping) else listed
        items = tuple(members) if isinstance(members, Collection) and not isinstance(members, str) else ()
        if not self.field:
            return len(items)
        return sum(isinstance(item, Mapping) and item.get(self.field) == self.value for item in items)


class Sum(msgspec.Struct, frozen=True, tag=True):
    """The sum of the numbers in a map."""

    path: str

    def of(self, document: Document) -> int:
        """Return the sum in this document."""
        result = read_at(document, self.path)
        values = result.values() if isinstance(result, Mapping) else ()
        return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool))


class Difference(msgspec.Struct, frozen=True, tag=True):
    """One number minus another; at least 0."""

    number: Count
    less: Count

    def of(self, document: Document) -> int:
        """Return the difference in this document."""
        return max(self.number.of(document) - self.less.of(document), 0)


Number = Count | Items | Sum | Difference


def read_at(document: Document, path: str) -> Any:
    """Return the value at a dotted path; None if it is absent."""
    return get_path(document, *path.split("."))


# ── conditions of a rule ─────────────────────────────────────────────────────


class Is(msgspec.Struct, frozen=True, tag=True):
    """The field is one of these strings."""

    path: str
    values: tuple[str, ...]

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        text = read_at(document, self.path)
        return isinstance(text, str) and text in self.values


class IsTrue(msgspec.Struct, frozen=True, tag=True):
    """The field is true."""

    path: str

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        return read_at(document, self.path) is True


class Has(msgspec.Struct, frozen=True, tag=True):
    """The field exists; or, with `is_there=False`, it does not exist."""

    path: str
    is_there: bool = True

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        is_there = read_at(document, self.path) not in (None, "")
        return is_there is self.is_there


class Positive(msgspec.Struct, frozen=True, tag=True):
    """The number is above 0."""

    number: Number

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        return self.number.of(document) > 0


class Zero(msgspec.Struct, frozen=True, tag=True):
    """The number is 0."""

    number: Number

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        return self.number.of(document) == 0


class Less(msgspec.Struct, frozen=True, tag=True):
    """A number is less than another number."""

    number: Number
    than: Number

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        return self.number.of(document) < self.than.of(document)


class Differs(msgspec.Struct, frozen=True, tag=True):
    """Two fields have different values."""

    path: str
    other: str

    def holds(self, document: Document) -> bool:
        """Whether the condition is true for this document."""
        return bool(read_at(document, self.path) != read_at(document, self.other))


Condition = Is | IsTrue | Has | Positive | Zero | Less | Differs


# ── progress of an object ────────────────────────────────────────────────────


class ProgressCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that describe the progress of an object. Numbers that a kind does not have are None."""

    wanted: Number | None = None
    updated: Number | None = None
    updated_ready: Number | None = None
    ready: Number | None = None
    available: Number | None = None
    active: Number | None = None
    succeeded: Number | None = None
    failed: Number | None = None

    def of(self, document: Document) -> dict[str, int]:
        """Return all numbers in this document, by name."""
        return {
            name: 0 if number is None else number.of(document)
            for name in self.__struct_fields__
            for number in (getattr(self, name),)
        }


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one object. Depending on the kind, it counts pods, nodes or images."""

    phase: Phase
    details: str = ""
    """The counts, or the reason, in a few words."""
    reason: str = ""
    """Code of the reason for the phase (pods/reasons.py); empty if the counts explain the phase."""
    is_over: bool = False
    """Whether the object has ended (Completed, Failed), is stalled, or has exceeded its progress deadline. Then
    `kubectl kruise rollout status` stops waiting.
    """
    is_observed: bool = True
    """Whether the status is for the latest generation."""
    is_at_partition: bool = False
    """Whether all pods are updated except those that the partition keeps."""
    kept: int = 0
    """Number of pods that the partition keeps."""
    wanted: int = 0
    updated: int = 0
    updated_ready: int = 0
    ready: int = 0
    available: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def is_done(self) -> bool:
        """Whether the rollout is complete, or has reached the partition."""
        if self.phase in (Phase.HEALTHY, Phase.COMPLETED):
            return True
        return self.phase is Phase.PAUSED and self.reason in PARTITION_HOLDS


BY_HAND: Final = ("OnDelete", "NotUpdate")
"""Values of spec.updateStrategy.type with which pods are updated only if a person acts, for example deletes them."""
PARTITION_HOLDS: Final = HELD - {Code.PAUSED}
"""Codes of reasons why the spec keeps a rollout from continuing, except a pause."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Rules for a kind whose pods are updated to a new revision. The phase is computed from the conditions Ready,
    Stalled and Waiting if the status has them, and otherwise from the counts and the fields `paused` and `partition`.
    """

    counts: ProgressCounts
    details: str = "{updated} of {wanted} updated, {available} available"
    """Text with `{…}` placeholders: names of counts, or dotted paths of fields."""
    partitions: Sum | None = None
    """Sum of the partitions of all parts, for a kind with several partitions."""
    pending: tuple[Condition, ...] = ()
    """If this is not empty, the rollout is not complete while all these conditions are true."""


class When(msgspec.Struct, frozen=True, kw_only=True):
    """A phase, and the conditions that must all be true for it."""

    phase: Phase
    all: tuple[Condition, ...]
    details: str | None = None
    """Text that replaces `PhaseRules.details`."""


class PhaseRules(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first rule whose conditions are all true determines the phase. If this phase is in OPEN, and the condition
    Ready reports a problem that a person must correct, the phase is Degraded instead.
    """

    rules: tuple[When, ...] = ()
    otherwise: Phase = Phase.HEALTHY
    counts: ProgressCounts = ProgressCounts()
    details: str = ""
    """Text with placeholders, as in Rollout."""


# ── evaluation of a declaration for a document ───────────────────────────────


def add_waits(phase: Phase, codes: Iterable[str]) -> Phase:
    """Return the phase of an object that also waits for these reasons. Its status perhaps does not contain them."""
    return _choose_phase_by_codes(phase, codes, if_in=OPEN)


def with_waits_of_children(phase: Phase, codes: Iterable[str]) -> Phase:
    """Return the phase of an object whose children wait for these reasons. A person must perhaps correct a child even
    if the object's status counts it as done. If a child is paused, its parent is Paused too.
    """
    codes = frozenset(codes)
    waiting = _choose_phase_by_codes(phase, codes, if_in=(*OPEN, Phase.COMPLETED))
    return Phase.PAUSED if waiting in OPEN and Code.PAUSED in codes else waiting


_UNREADY: Final = frozenset({Code.NOT_READY, Code.NOT_MOUNTED})
"""Codes of reasons why pods are not ready, but may become ready without help."""


def _choose_phase_by_codes(phase: Phase, codes: Iterable[str], *, if_in: Collection[Phase]) -> Phase:
    known = frozenset(codes)
    causes = NEEDS_A_PERSON & known
    if phase is Phase.HEALTHY and not causes and known & _UNREADY:
        return Phase.PROGRESSING
    if phase not in if_in or not causes:
        return phase
    return Phase.FAILED if Code.RUN_FAILED in causes else Phase.DEGRADED


def progress_of(
    declared: Rollout | PhaseRules,
    document: Document,
    *,
    is_observed: bool,
    partition: Any = None,
    is_paused: bool = False,
) -> Progress:
    """Return the progress of an object. `is_observed`: whether the status of its kind has observedGeneration.
    `partition`, `is_paused`: values of the fields of the spec, for a rollout.
    """
    counts = declared.counts.of(document)
    conditions = _index_conditions(document)
    if isinstance(declared, PhaseRules):
        about = _find_progress_of_frame(document, {}, is_observed=is_observed)
        return _compute_progress_by_rules(declared, document, conditions, counts, about)
    about = _find_progress_of_frame(document, conditions, is_observed=is_observed)
    if declared.partitions is not None:
        kept = min(max(declared.partitions.of(document), 0), counts["wanted"])
    else:
        kept = count_kept_by(partition, replicas=counts["wanted"])
    return _compute_progress_of_rollout(declared, document, counts, about, kept=kept, is_paused=is_paused)


def _compute_progress_by_rules(
    rules: PhaseRules,
    document: Document,
    conditions: Mapping[str, Mapping[str, Any]],
    counts: dict[str, int],
    about: Progress | None,
) -> Progress:
    if about is not None:
        return msgspec.structs.replace(about, **counts)
    rule = next((rule for rule in rules.rules if all(each.holds(document) for each in rule.all)), None)
    phase = rules.otherwise if rule is None else rule.phase
    ready = conditions.get("Ready", {})
    if phase in OPEN and ready.get("status") == "False" and _read_reason(ready) in NEEDS_A_PERSON:
        return msgspec.structs.replace(_build_progress(Phase.DEGRADED, ready), **counts)
    text = rules.details if rule is None or rule.details is None else rule.details
    progress = Progress(
        phase=phase,
        details=_fill_in(text, document, counts),
        is_over=phase in (Phase.FAILED, Phase.COMPLETED),
        is_at_partition=phase in (Phase.HEALTHY, Phase.COMPLETED, Phase.PAUSED),
    )
    return msgspec.structs.replace(progress, **counts)


def _compute_progress_of_rollout(
    rollout: Rollout,
    document: Document,
    counts: dict[str, int],
    about: Progress | None,
    *,
    kept: int,
    is_paused: bool,
) -> Progress:
    is_by_hand = read_at(document, "spec.updateStrategy.type") in BY_HAND
    is_updated = is_by_hand or _is_updated(rollout, counts, kept)
    serves = counts["available"] >= counts["wanted"]
    known = about or Progress(phase=Phase.PROGRESSING)
    progress = msgspec.structs.replace(
        known,
        details=known.details or _fill_in(rollout.details, document, counts),
        kept=kept,
        is_at_partition=known.is_observed
        and is_updated
        and (serves or rollout.counts.updated_ready is not None),
        **counts,
    )
    if about is not None:
        return progress
    phase, reason = _choose_phase_by_counts(
        is_updated=is_updated and not _is_pending(rollout, document),
        is_whole=is_by_hand or not kept or counts["updated"] >= counts["wanted"],
        serves=serves,
        is_paused=is_paused,
    )
    return msgspec.structs.replace(progress, phase=phase, reason=reason)


def _is_pending(rollout: Rollout, document: Document) -> bool:
    return bool(rollout.pending) and all(item.holds(document) for item in rollout.pending)


def _is_updated(rollout: Rollout, counts: Mapping[str, int], kept: int) -> bool:
    target = counts["wanted"] - kept
    has_ready = rollout.counts.updated_ready is not None
    return counts["updated"] >= target and (not has_ready or counts["updated_ready"] >= target)


def _choose_phase_by_counts(
    *, is_updated: bool, is_whole: bool, serves: bool, is_paused: bool
) -> tuple[Phase, str]:
    if is_updated and serves and is_whole:
        return Phase.HEALTHY, ""
    if serves and is_paused:
        return Phase.PAUSED, Code.PAUSED
    if is_updated and serves:
        return Phase.PAUSED, Code.PARTITION
    return Phase.PROGRESSING, ""


def count_kept_by(partition: Any, *, replicas: int) -> int:
    """Return the number of pods that a partition keeps at the old revision. A percentage is rounded up. With more
    than one replica, a percentage below 100% never keeps all pods. An invalid value means 0.
    """
    if partition is None:
        return 0
    try:
        kept = resolve(partition, of=replicas, rounding=Rounding.UP)
    except ValueError:
        return 0
    if is_percent(partition) and replicas > 1 and kept == replicas and partition != "100%":
        kept = replicas - 1
    return min(max(kept, 0), max(replicas, 0))


def _find_progress_of_frame(
    document: Document, conditions: Mapping[str, Mapping[str, Any]], *, is_observed: bool
) -> Progress | None:
    """Return the progress if deletion, generation or conditions determine the phase; None if counts or rules of the
    kind must determine it.
    """
    meta = document["metadata"] if isinstance(document.get("metadata"), Mapping) else {}
    if meta.get("deletionTimestamp"):
        return Progress(
            phase=Phase.PROGRESSING, reason=Code.TERMINATING_OBJECT, details="it is being deleted"
        )
    stalled = conditions.get("Stalled", {})
    if stalled.get("status") == "True" and _read_reason(stalled) in NEVER_OBSERVED:
        return _build_progress(Phase.DEGRADED, stalled, is_over=True)
    if is_observed and not _is_observed(document, meta):
        return Progress(
            phase=Phase.PROGRESSING,
            reason=Code.NO_MANAGER,
            details="the manager has not processed the latest change yet",
            is_observed=False,
        )
    return _find_progress_by_conditions(conditions)


def _is_observed(document: Document, meta: Mapping[str, Any]) -> bool:
    seen, generation = read_at(document, "status.observedGeneration"), meta.get("generation")
    if not isinstance(seen, int):
        return False
    return not isinstance(generation, int) or seen >= generation


def _index_conditions(document: Document) -> dict[str, Mapping[str, Any]]:
    listed = read_at(document, "status.conditions")
    return {
        str(item.get("type")): item
        for item in (listed if isinstance(listed, list | tuple) else ())
        if isinstance(item, Mapping)
    }


def _find_progress_by_conditions(conditions: Mapping[str, Mapping[str, Any]]) -> Progress | None:
    ready, waiting = conditions.get("Ready"), conditions.get("Waiting", {})
    stalled, progressing = conditions.get("Stalled", {}), conditions.get("Progressing", {})
    waits = waiting if waiting.get("status") == "True" else {}
    if stalled.get("status") == "True":
        return _build_progress(Phase.DEGRADED, stalled, is_over=True)
    if ready is None and progressing.get("reason") == DEADLINE_EXCEEDED:
        return _build_progress(Phase.DEGRADED, progressing, is_over=True)
    said = waits if ready is None else ready
    reason = _read_reason(said)
    if reason in HELD:
        return _build_progress(Phase.PAUSED, said)
    if ready is not None and ready.get("status") == "True":
        return _build_progress(Phase.HEALTHY, ready)
    if reason in NEEDS_A_PERSON:
        return _build_progress(Phase.DEGRADED, said)
    if ready is not None and _read_reason(waits) in NEEDS_A_PERSON:
        return _build_progress(Phase.DEGRADED, waits)
    return _build_progress(Phase.PROGRESSING, ready) if ready is not None else None


def _read_reason(condition: Mapping[str, Any]) -> str:
    return str(condition.get("reason") or "")


def _build_progress(phase: Phase, condition: Mapping[str, Any], *, is_over: bool = False) -> Progress:
    message = str(condition.get("message") or "")
    return Progress(phase=phase, reason=_read_reason(condition), details=message, is_over=is_over)


def _fill_in(text: str, document: Document, counts: Mapping[str, int]) -> str:
    """Replace the placeholders `{…}` by counts and values of fields."""
    parts = text.split("{")
    made = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        made += [str(counts[name]) if name in counts else str(read_at(document, name) or ""), rest]
    return "".join(made)
