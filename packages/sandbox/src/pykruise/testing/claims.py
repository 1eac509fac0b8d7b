"""Claims: assertions of a test that become true later, and an explanation if an assertion never becomes true.

claim() ──▶ ClaimAttempt: its value, or the error for a field that does not exist yet
the last attempt, the objects that it read, their events ──▶ format_failure()

Pure, except that `describe_claim` reads the source of the test.
"""

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count
from pykruise.kube.yaml_documents import format_yaml

__all__ = [
    "MOST_EVENTS",
    "ClaimAttempt",
    "Look",
    "attempt",
    "describe_claim",
    "format_failure",
    "has_condition",
]

MOST_EVENTS: Final = 10
_MOST_LINES: Final = 40
"""Maximum number of displayed lines of an object's status."""


class ClaimAttempt(msgspec.Struct, frozen=True):
    """One evaluation of a claim."""

    is_true: bool
    error: Exception | None = None
    """The reason why the claim could not be evaluated yet."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the claim read, in its state at the end of the waiting time."""

    title: str
    """Kind, namespace and name: `CloneSet default/web`."""
    document: Document | None
    """None if the object does not exist."""
    explanation: str = ""
    """The reason why the object's state differs from its spec, if the reason is known."""


def attempt(claim: Callable[[], Any], *, not_yet: tuple[type[Exception], ...]) -> ClaimAttempt:
    """Evaluate the claim. Errors of the types `not_yet`, and of a missing field or item, mean: not true yet."""
    try:
        return ClaimAttempt(bool(claim()))
    except not_yet as error:
        return ClaimAttempt(False, error)
    except LookupError as error:
        if isinstance(error, KeyError | IndexError):
            return ClaimAttempt(False, error)
        raise


def has_condition(document: Mapping[str, Any], wanted: str) -> bool:
    """Whether the object has a condition: `Ready`, or `Ready=False`.

    A status that was written before the last change of the spec is ignored. This is the rule of `kubectl wait`.
    """
    kind, _, value = wanted.partition("=")
    generation = document["metadata"].get("generation", 0)
    status = document.get("status") or {}
    if status.get("observedGeneration", generation) < generation:
        return False
    return any(
        condition.get("type", "").lower() == kind.lower()
        and str(condition.get("status", "")).lower() == (value or "True").lower()
        and condition.get("observedGeneration", generation) >= generation
        for condition in status.get("conditions") or ()
    )


def describe_claim(claim: Callable[[], Any]) -> str:
    """Source text of the claim: the expression of a lambda, or the name of a function."""
    name = getattr(claim, "__name__", "")
    if name != "<lambda>":
        return f"{name}()" if name else repr(claim)
    return _read_lambda_text(claim) or "the lambda"


def _read_lambda_text(claim: Callable[[], Any]) -> str:
    """Source text after the colon; empty when the source is unavailable."""
    code = getattr(claim, "__code__", None)
    if code is None:
        return ""
    source = "".join(linecache.getlines(code.co_filename))
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column is not None]
    try:
        nodes = [item for item in ast.walk(ast.parse(source)) if isinstance(item, ast.Lambda)]
    except SyntaxError:
        return ""
    around = [
        node
        for node in nodes
        if node.lineno == code.co_firstlineno
        and all(_contains_place(node.body, place) for place in places if place[1])
    ]
    body = min(around, key=lambda item: len(ast.unparse(item)), default=None)
    text = None if body is None else ast.get_source_segment(source, body.body)
    return " ".join((text or "").split())


def _contains_place(node: ast.expr, place: tuple[int, int]) -> bool:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset) <= place <= end


def format_failure(
    claim: str, *, within_s: float, last: ClaimAttempt, looks: Sequence[Look], events: Sequence[Document]
) -> str:
    """Message of the AssertionError: the claim, the objects that it read with their states, and the last `events`."""
    lines = [f"not true within {within_s:g} s: {claim}"]
    if last.error is not None:
        lines.append(f"  the last evaluation ended with {type(last.error).__name__}: {last.error}")
    for look in looks:
        lines += _look_lines(look)
    if events:
        lines.append("  last events:")
        lines += [f"    {_format_event(event)}" for event in events[-MOST_EVENTS:]]
    return "\n".join(lines)


def _look_lines(look: Look) -> Iterator[str]:
    if look.document is None:
        yield f"  {look.title} does not exist"
        return
    yield f"  {look.title} has this status:"
    status = look.document.get("status") or {}
    lines = format_yaml(status, width=110).splitlines()
    yield from (f"    {line}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"    … {format_count(len(lines) - _MOST_LINES, 'more line')}"
    if look.explanation:
        yield "  explanation:"
        yield from (f"    {line}".rstrip() for line in look.explanation.splitlines())


def _format_event(event: Document) -> str:
    about = event.get("involvedObject") or {}
    count = event.get("count") or 1
    times = f" ({format_count(count, 'time')})" if count > 1 else ""
    what = f"{about.get('kind')} {about.get('name')}"
    return f"{event.get('type')} {event.get('reason')} {what}: {event.get('message')}{times}"
