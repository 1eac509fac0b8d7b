"""Fields that limit how much is done at once: their bounds, and what stands still while a limit is 0.

KIND.amounts ──▶ admission/advice.py ──▶ warnings beside an answer that allows the write
             ──▶ tests: every int-or-percent field of a definition is in the table, and admission keeps to it

Pure. OpenKruise accepts some limits below which nothing is ever done (`maxUnavailable: 0`, `-1`). They are accepted
here too; a warning says what stands still, and the object's condition does with the code LimitIsZero.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.pods.reasons import Code
from pykruise.runtime.reasons import Reason

EACH: Final = "[]"
"""Step of a path: each item of the list."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """One int-or-percent field, or a number that is used as one."""

    path: tuple[str, ...]
    """Path in the hub version."""
    stops: str = ""
    """Action that never happens while the amount is 0; empty: 0 is a regular value."""
    takes_zero: bool = True
    """Whether admission accepts 0."""
    takes_negative: bool = False
    """Whether admission accepts a number or percentage below 0, as OpenKruise does; it counts as 0."""
    is_used: bool = True
    """Whether the kind goes by it at all; one that does not is not judged, as with OpenKruise."""
    least: int = 0
    """Value that smaller numbers count as."""

    @property
    def field(self) -> str:
        """As messages name it."""
        return ".".join(self.path).replace(f".{EACH}", EACH)


def limit_is_zero(field: str, what: str) -> Reason:
    """The reason of an object that stands still: `what` is the sentence before the field."""
    return Reason(Code.LIMIT_IS_ZERO, f"{what}: {field} is 0", f"raise {field}")


def warnings_of_amounts(doc: Mapping[str, Any], amounts: Sequence[Amount]) -> Iterator[str]:
    """Limits of the object that count as another number than they say, or below which something stands still."""
    for amount in (amount for amount in amounts if amount.is_used):
        for field, value in _values(doc, amount.path):
            number = _number(value)
            if number is None:
                continue
            if number < amount.least:
                yield f"{field}: {value} counts as {amount.least}{_stopped(amount) if not amount.least else ''}"
            elif number == 0 and amount.stops:
                yield f"{field}: {value}{_stopped(amount)}"


def _stopped(amount: Amount) -> str:
    return f": {amount.stops} until it is raised" if amount.stops else ""


def _number(value: Any) -> int | None:
    """The number, or that of the percentage of one; None: it is none, which is an error for validation."""
    try:
        if isinstance(value, str) and value.startswith("-"):
            return min(-resolve(value[1:], of=100, rounding=Rounding.UP), 0)
        return resolve(value, of=100, rounding=Rounding.UP)
    except ValueError:
        return None


def _values(doc: Any, path: tuple[str, ...], field: str = "") -> Iterator[tuple[str, Any]]:
    """The values at the path that are set, each with its field."""
    if not path:
        yield from [(field, doc)] if doc is not None else []
    elif path[0] == EACH:
        for index, item in enumerate(doc if isinstance(doc, list) else ()):
            yield from _values(item, path[1:], f"{field}[{index}]")
    elif isinstance(doc, Mapping):
        yield from _values(doc.get(path[0]), path[1:], f"{field}.{path[0]}" if field else path[0])
