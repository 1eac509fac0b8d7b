"""Int-or-percent fields (`maxUnavailable: 2`, `partition: "12.5%"`) resolved to a whole number.

Only this module rounds such values. Pure.
"""

import re
from enum import Enum
from fractions import Fraction
from math import ceil, floor

from pykruise.kube.values.go_text import excerpt

__all__ = ["IntOrPercent", "Rounding", "is_percent", "is_whole_percent", "resolve"]

IntOrPercent = int | str
"""An int, or a string that ends in `%`."""


class Rounding(Enum):
    """Direction in which a percentage without a whole result is rounded."""

    UP = "up"
    """Towards plus infinity."""
    DOWN = "down"
    """Towards minus infinity."""


_DIGITS = 18
"""Maximum number of digits before the % sign, and of the fraction: as many as fit into 64 bits."""

_PERCENT = re.compile(
    rf"([+-]?(?:[0-9]{{1,{_DIGITS}}}(?:\.[0-9]{{0,{_DIGITS}}})?|\.[0-9]{{1,{_DIGITS}}}))%", re.ASCII
)
_WHOLE_PERCENT = re.compile(rf"[0-9]{{1,{_DIGITS}}}%", re.ASCII)


def resolve(value: IntOrPercent, *, of: int, rounding: Rounding) -> int:
    """Return the number of an int-or-percent field. `resolve("12.5%", of=10, rounding=Rounding.UP)` is 2.

    A percentage may have a fraction and may be above 100; an int is returned unchanged, even above `of`. Negative
    values are accepted: validation decides whether a field may be negative. Raises ValueError for anything else ("5",
    "abc%", a boolean); the caller adds the field path. Rule: Kubernetes' IntOrString percentages; fractions as
    CloneSet admission accepts them.
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{excerpt(repr(value))} is neither a whole number nor a percentage such as 50%")
    if isinstance(value, int):
        return value
    exact = _parse_percentage(value) * of / 100
    # Exact arithmetic: 7% of 100, rounded up, must be 7, but with floats it would be 8.
    return ceil(exact) if rounding is Rounding.UP else floor(exact)


def is_percent(value: object) -> bool:
    """Whether the value is a percentage that `resolve` accepts."""
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None


def is_whole_percent(value: object) -> bool:
    """Whether the value is a percentage without sign and fraction, as most kinds require: `50%`."""
    return isinstance(value, str) and _WHOLE_PERCENT.fullmatch(value) is not None


def _parse_percentage(text: str) -> Fraction:
    match = _PERCENT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{excerpt(text)}" is neither a whole number nor a percentage such as 50%')
    return Fraction(match[1])
