"""Forecast of a kind whose rollouts are not simulated: the value and its text.

a kind's forecasting.py ──▶ Outlook ──▶ format_outlook() for people, JSON for programs

Pure. Workloads have a `Forecast` instead, because their rollouts are simulated (forecasting.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field that changes."""

    path: str
    """Path of the field, such as `spec.template.spec.containers[main].image`."""
    old: Any = None
    """Old value; None if the field did not exist."""
    new: Any = None

    def __str__(self) -> str:
        return f"{self.path}: {_shorten(self.old)} → {_shorten(self.new)}"


def _shorten(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}…"


class PodFate(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one existing or new pod."""

    pod: str
    do: str


class OutlookBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that the manager makes at the same time, before it waits for pods."""

    number: int
    fates: tuple[PodFate, ...]


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast that `pykruise plan` shows for an object of any kind."""

    kind: str
    namespace: str = ""
    name: str
    change: str
    """The change itself: created, changed, unchanged or refused."""
    errors: tuple[str, ...] = ()
    """All errors from admission."""
    warnings: tuple[str, ...] = ()
    """Warnings of the API server and of admission, as `kubectl apply` prints them."""
    fields: tuple[FieldChange, ...] = ()
    """Changed fields of the spec."""
    batches: tuple[OutlookBatch, ...] = ()
    """Changes of existing pods, one batch at a time."""
    stays: Mapping[str, tuple[str, ...]] = {}
    """Pods that do not change, by the reason."""
    notes: tuple[str, ...] = ()
    """Further notes."""

    @property
    def has_changes(self) -> bool:
        """Whether applying the manifest would change anything."""
        return self.change != "unchanged" or bool(self.batches)


class Outlook(Foreseen, frozen=True, kw_only=True):
    """Forecast of a kind whose rollouts are not simulated."""

    batches_title: str = "Existing pods"
    then: str = "then, as these become ready"
    """Text before each batch except the first."""
    new_pods: tuple[str, ...] = ()
    """Changes of pods that are created later."""
    within: tuple[Any, ...] = ()
    """Forecasts and Outlooks of the workloads that the object would write to."""


_WORDS = {
    "created": "would be created",
    "changed": "would change",
    "unchanged": "does not change, but has not finished",
}


def format_outlook(outlook: Outlook) -> list[str]:
    """Return the lines of an outlook as text for people."""
    lines = head_lines(outlook)
    if outlook.change == "refused" or not outlook.has_changes:
        return lines
    lines += format_section(
        outlook.batches_title, [_batch_line(batch, outlook.then) for batch in outlook.batches]
    )
    lines += format_section(
        "Unchanged", [f"{format_names(pods)}: {why}" for why, pods in outlook.stays.items()]
    )
    lines += format_section("New pods", outlook.new_pods)
    lines += format_section("Note", outlook.notes)
    return lines


def head_lines(foreseen: Foreseen) -> list[str]:
    """Return the lines about the object itself; the text ends with them when nothing else changes."""
    title = (
        f"{foreseen.kind} {foreseen.namespace}/{foreseen.name}"
        if foreseen.namespace
        else f"{foreseen.kind} {foreseen.name}"
    )
    if foreseen.change == "refused":
        return [f"{title}: would be rejected", *(f"  {error}" for error in foreseen.errors)]
    if not foreseen.has_changes:
        return [f"{title}: nothing would change"]
    return [
        f"{title}: {_WORDS[foreseen.change]}",
        *format_section("Fields", [str(field) for field in foreseen.fields]),
    ]


def format_section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _batch_line(batch: OutlookBatch, then: str) -> str:
    wait = f"{then}: " if batch.number > 1 else ""
    actions = "; ".join(f"{do}: {format_names(pods)}" for do, pods in group_pods_by_fate(batch.fates).items())
    return f"{batch.number:3d}. {wait}{actions}"


def group_pods_by_fate(fates: Iterable[PodFate]) -> dict[str, list[str]]:
    """Group names of pods by their change."""
    groups: dict[str, list[str]] = {}
    for fate in fates:
        groups.setdefault(fate.do, []).append(fate.pod)
    return groups


def group_by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Group names by their reason."""
    groups: dict[str, list[str]] = {}
    for why, name in pairs:
        groups.setdefault(why, []).append(name)
    return {why: tuple(sorted(names)) for why, names in groups.items()}


def format_names(names: Sequence[str]) -> str:
    """Return the first ten names and the number of the others."""
    first = ", ".join(names[:10])
    return f"{first}, and {len(names) - 10} more" if len(names) > 10 else first
