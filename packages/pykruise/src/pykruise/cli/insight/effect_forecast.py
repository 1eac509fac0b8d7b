"""Forecast of a kind that changes pods of others: the value, and its text.

a kind's forecasting.py ──▶ Outlook ──▶ outlook_lines() for people, JSON for programs

Pure. Workloads, whose rollouts are played, have a Forecast instead (forecasting.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """One field that changes."""

    path: str
    """`spec.template.spec.containers[main].image`."""
    old: Any = None
    """None: it is not there."""
    new: Any = None

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} → {_short(self.new)}"


def _short(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}…"


class PodFate(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one pod, an existing or a new one."""

    pod: str
    do: str


class OutlookBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes at one time, before the manager waits for pods."""

    number: int
    fates: tuple[PodFate, ...]


class Foreseen(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast that `pykruise plan` shows for an object of any kind."""

    kind: str
    namespace: str = ""
    name: str
    change: str
    """created, changed, unchanged or refused."""
    errors: tuple[str, ...] = ()
    """All errors of admission."""
    fields: tuple[FieldChange, ...] = ()
    """Changed fields of the spec."""
    batches: tuple[OutlookBatch, ...] = ()
    """Changes of existing pods, one batch at a time."""
    stays: Mapping[str, tuple[str, ...]] = {}
    """Why pods stay as they are, and which."""
    notes: tuple[str, ...] = ()
    """Further notes."""

    @property
    def has_changes(self) -> bool:
        """Whether anything at all would happen."""
        return self.change != "unchanged" or bool(self.batches)


class Outlook(Foreseen, frozen=True, kw_only=True):
    """Forecast of a kind that changes pods of others."""

    batches_title: str = "Pods that are there"
    then: str = "then, as these are ready"
    """Text before each batch but the first."""
    new_pods: tuple[str, ...] = ()
    """Changes of pods that are created afterwards."""
    within: tuple[Any, ...] = ()
    """Forecasts and Outlooks of workloads that it would write to."""


_WORDS = {
    "created": "would be created",
    "changed": "would change",
    "unchanged": "is not changed, but not finished either",
}


def outlook_lines(outlook: Outlook) -> list[str]:
    """As a person reads it."""
    lines = head_lines(outlook)
    if outlook.change == "refused" or not outlook.has_changes:
        return lines
    lines += section(outlook.batches_title, [_batch(batch, outlook.then) for batch in outlook.batches])
    lines += section("Stay as they are", [f"{shown(pods)}: {why}" for why, pods in outlook.stays.items()])
    lines += section("New pods", outlook.new_pods)
    lines += section("Note", outlook.notes)
    return lines


def head_lines(foreseen: Foreseen) -> list[str]:
    """Lines about the object itself; when nothing else changes, the text ends with them."""
    title = (
        f"{foreseen.kind} {foreseen.namespace}/{foreseen.name}"
        if foreseen.namespace
        else f"{foreseen.kind} {foreseen.name}"
    )
    if foreseen.change == "refused":
        return [f"{title}: would be refused", *(f"  {error}" for error in foreseen.errors)]
    if not foreseen.has_changes:
        return [f"{title}: nothing would change"]
    return [
        f"{title}: {_WORDS[foreseen.change]}",
        *section("Fields", [str(field) for field in foreseen.fields]),
    ]


def section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _batch(batch: OutlookBatch, then: str) -> str:
    wait = f"{then}: " if batch.number > 1 else ""
    actions = "; ".join(f"{do}: {shown(pods)}" for do, pods in pods_by_fate(batch.fates).items())
    return f"{batch.number:3d}. {wait}{actions}"


def pods_by_fate(fates: Iterable[PodFate]) -> dict[str, list[str]]:
    """Names of pods by what is done to them."""
    groups: dict[str, list[str]] = {}
    for fate in fates:
        groups.setdefault(fate.do, []).append(fate.pod)
    return groups


def by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Names by the reason that is given with each."""
    groups: dict[str, list[str]] = {}
    for why, name in pairs:
        groups.setdefault(why, []).append(name)
    return {why: tuple(sorted(names)) for why, names in groups.items()}


def shown(names: Sequence[str]) -> str:
    """The first ten names, and how many there are besides."""
    first = ", ".join(names[:10])
    return f"{first}, and {len(names) - 10} more" if len(names) > 10 else first
