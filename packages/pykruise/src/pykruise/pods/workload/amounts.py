"""Fields that limit how much happens at the same time: their bounds, and the actions that stop while a limit is 0.

KIND.amounts ──▶ admission/advice.py ──▶ warnings in a response that allows the write
             ──▶ tests: every int-or-percent field of a definition is in the table, and admission follows it

Pure. OpenKruise accepts limits that stop an action forever (`maxUnavailable: 0`, `-1`). They are accepted here too. A
warning names the stopped action, and the object's condition reports it with the code LimitIsZero.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.pods.reasons import Code
from pykruise.runtime.reasons import Reason

EACH: Final = "[]"
"""Step of a path that selects every item of a list."""


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """An int-or-percent field, or a number with the same use."""

    path: tuple[str, ...]
    """Path in the hub version."""
    stops: str = ""
    """Action that never happens while the amount is 0; empty if 0 is a regular value."""
    takes_zero: bool = True
    """Whether admission accepts 0."""
    takes_negative: bool = False
    """Whether admission accepts a number or percentage below 0, as OpenKruise does; it counts as 0."""
    is_used: bool = True
    """Whether the kind uses the field at all. An unused field is not checked; OpenKruise does the same."""
    least: int = 0
    """Minimum: a smaller number is treated as this value."""

    @property
    def field(self) -> str:
        """Name of the field in messages."""
        return ".".join(self.path).replace(f".{EACH}", EACH)


def limit_is_zero(field: str, what: str) -> Reason:
    """Reason of an object whose action stopped. `what`: the text before the field's name."""
    return Reason(Code.LIMIT_IS_ZERO, f"{what}: {field} is 0", f"raise {field}")


def warnings_of_amounts(doc: Mapping[str, Any], amounts: Sequence[Amount]) -> Iterator[str]:
    """Warnings about limits that are treated as another number than the written one, or that stop an action."""
    for amount in (amount for amount in amounts if amount.is_used):
        for field, value in _find_values(doc, amount.path):
            number = _to_number(value)
            if number is None:
                continue
            if number < amount.least:
                stop = "" if amount.least else _describe_stop(amount)
                yield f"{field}: {value} is treated as {amount.least}{stop}"
            elif number == 0 and amount.stops:
                yield f"{field}: {value}{_describe_stop(amount)}"


def _describe_stop(amount: Amount) -> str:
    return f": {amount.stops} until the value is raised" if amount.stops else ""


def _to_number(value: Any) -> int | None:
    """The number, or the number of a percentage; None if the value is neither, and validation reports the error."""
    try:
        if isinstance(value, str) and value.startswith("-"):
            return min(-resolve(value[1:], of=100, rounding=Rounding.UP), 0)
        return resolve(value, of=100, rounding=Rounding.UP)
    except ValueError:
        return None


def _find_values(doc: Any, path: tuple[str, ...], field: str = "") -> Iterator[tuple[str, Any]]:
    """Values that are set at the path, each with its field."""
    if not path:
        yield from [(field, doc)] if doc is not None else []
    elif path[0] == EACH:
        for index, item in enumerate(doc if isinstance(doc, list) else ()):
            yield from _find_values(item, path[1:], f"{field}[{index}]")
    elif isinstance(doc, Mapping):
        yield from _find_values(doc.get(path[0]), path[1:], f"{field}.{path[0]}" if field else path[0])
