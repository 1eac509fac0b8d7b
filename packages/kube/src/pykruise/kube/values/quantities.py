"""Resource quantities (`500m`, `1.5Gi`, `12e6`): exact values and Kubernetes' canonical text.

text of a document ──▶ Quantity.parse() ──▶ compare, add, round ──▶ str() ──▶ canonical text

Pure and exact: a quantity is a whole number of nano-units, never a float.
"""

import re
from enum import Enum
from fractions import Fraction
from functools import total_ordering

import msgspec

from pykruise.kube.cache.remembering import remember

__all__ = ["Family", "Quantity", "format_quantity", "is_same_quantity", "parse_quantity", "round_up_to_milli"]


class Family(Enum):
    """Family of the suffix of a quantity. A quantity keeps the family in which it was written."""

    DECIMAL = "decimal"
    """n, u, m, no suffix, k, M, G, T, P, E: powers of 1000."""
    BINARY = "binary"
    """Ki, Mi, Gi, Ti, Pi, Ei: powers of 1024."""
    EXPONENT = "exponent"
    """e3, e6, ...: powers of ten, in steps of three."""


_NANO = 10**9
_LARGEST_BINARY = (2**63 - 1) * _NANO

_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = {0: ""} | {exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()}

_SHAPE = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]{1,18})", re.ASCII)
_MAX_EXPONENT = 1000
_LONGEST_KNOWN = 32
_MOST_DIGITS = 4_000
"""Maximum number of digits of a quantity: Python does not format numbers with more than 4,300 digits, and no cluster
has that much of anything.
"""

_WRONG_SHAPE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@total_ordering
class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An amount of a resource. Compared by amount, whatever the suffix: `1` equals `1000m`."""

    nano: int
    """The amount in billionths: `1m` is 1,000,000."""
    family: Family = Family.DECIMAL
    written: str = ""
    """The parsed text, if Kubernetes keeps it as it was written."""

    @classmethod
    def parse(cls, text: str | int | float) -> "Quantity":
        """Parse the quantity of a document's field. Parts smaller than a billionth are rounded up (away from zero).

        Raises ValueError with Kubernetes' text. This is the rule of Kubernetes' `resource.ParseQuantity`.
        """
        given = _as_text(text)
        return _parse_remembered(given) if len(given) <= _LONGEST_KNOWN else _parse(given)

    @property
    def amount(self) -> Fraction:
        """The exact value."""
        return Fraction(self.nano, _NANO)

    @property
    def whole(self) -> int:
        """The value rounded away from zero (Kubernetes' `Value()`)."""
        return _divide_away_from_zero(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero (Kubernetes' `MilliValue()`)."""
        return _divide_away_from_zero(self.nano, 10**6)

    def round_up_to_milli(self) -> "Quantity":
        """Return the quantity with anything finer than 1m rounded away from zero, as defaulting does with resources."""
        if self.nano % 10**6 == 0:
            return self
        return Quantity(self.milli * 10**6, self.family)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum. It has the family of the first quantity or, if that is zero, of the second."""
        return Quantity(self.nano + other.nano, self.family if self.nano else other.family)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.family if self.nano else other.family)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.family)

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        return self.written or _format_canonical(self.nano, self.family)


def parse_quantity(value: str | int | float) -> Fraction:
    """Return the exact amount of a quantity in a document: `"1500m"` is 3/2. Raises ValueError."""
    return Quantity.parse(value).amount


def format_quantity(value: str | int | float | Quantity) -> str:
    """Return the canonical text: no fraction, the largest suffix without loss, the same family.

    `"1.5"` is `1500m`, `"1.5Gi"` is `1536Mi`, `"0.5Mi"` is `512Ki`. Raises ValueError.
    """
    return str(value if isinstance(value, Quantity) else Quantity.parse(value))


def round_up_to_milli(value: str | int | float) -> str:
    """Return the canonical text with anything finer than 1m rounded up: `"100u"` is `1m`. Raises ValueError."""
    return str(Quantity.parse(value).round_up_to_milli())


def is_same_quantity(left: str | int | float, right: str | int | float) -> bool:
    """Whether both texts have the same amount: `"1"` and `"1000m"` do. Raises ValueError."""
    return Quantity.parse(left).nano == Quantity.parse(right).nano


def _as_text(value: str | int | float) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(_WRONG_SHAPE)
    return value.strip() if isinstance(value, str) else repr(value)


# The same few amounts are in every pod, and are read several times per write.
@remember(entries=4_096, longest=64)
def _parse_remembered(text: str) -> Quantity:
    return _parse(text)


def _parse(text: str) -> Quantity:
    match = _SHAPE.fullmatch(text)
    if match is None or not text:
        raise ValueError(_WRONG_SHAPE)
    sign, digits, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    family, exponent = _interpret_suffix(suffix)
    if len(digits) + len(fraction) + max(exponent, 0) > _MOST_DIGITS:
        raise ValueError(f"quantities must have at most {_MOST_DIGITS} digits")
    number = int(digits + fraction or "0")
    nano = _to_nano(number, len(fraction), family, exponent)
    if family is Family.BINARY:
        nano = min(nano, _LARGEST_BINARY)
        if 0 < nano < _NANO:
            family = Family.DECIMAL
    written = text if _is_kept(digits.lstrip("0") or "0", fraction, family, exponent) else ""
    return Quantity(-nano if sign == "-" else nano, family, written)


def _interpret_suffix(suffix: str) -> tuple[Family, int]:
    """Return family and exponent (of two or ten) of a suffix."""
    if suffix in _DECIMAL_EXPONENTS:
        return Family.DECIMAL, _DECIMAL_EXPONENTS[suffix]
    if suffix in _BINARY_EXPONENTS:
        return Family.BINARY, _BINARY_EXPONENTS[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match[1])) > _MAX_EXPONENT:
        raise ValueError("unable to parse quantity's suffix")
    return Family.EXPONENT, int(match[1])


def _to_nano(number: int, decimals: int, family: Family, exponent: int) -> int:
    """Return the amount in billionths, rounded up: `number` is written with `decimals` decimal places and the suffix of
    this family and exponent.
    """
    if family is Family.BINARY:
        return _divide_away_from_zero(number * _NANO << exponent, 10**decimals)
    shift = exponent - decimals + 9
    return number * 10**shift if shift >= 0 else _divide_away_from_zero(number, 10**-shift)


def _is_kept(digits: str, fraction: str, family: Family, exponent: int) -> bool:
    """Whether Kubernetes keeps the text of a number as it was written instead of its canonical form.

    Kubernetes keeps short numbers that its quick check considers canonical: `1.500` and `1E3` stay as they are. Stored
    objects contain these texts, so template hashes depend on them.
    """
    if family is Family.BINARY:
        short = len(digits) + int(exponent * 3 / 10) <= 14
        return not fraction and short and int(digits) % 8 != 0
    shifted, scale = digits + fraction, exponent - len(fraction)
    if len(shifted) > 18 or scale < -9:
        return False
    return scale % 3 == 0 and not shifted.endswith("000") and not shifted.startswith("0")


def _format_canonical(nano: int, family: Family) -> str:
    if nano == 0:
        return "0"
    whole, rest = divmod(nano, _NANO)
    if family is Family.BINARY and not rest and abs(whole) >= 1024:
        exponent = 0
        while exponent < 60 and whole % 1024 == 0:
            whole, exponent = whole // 1024, exponent + 10
        return f"{whole}{_BINARY_SUFFIXES[exponent]}"
    number, exponent = nano, -9
    while number % 1000 == 0 and (family is Family.EXPONENT or exponent < 18):
        number, exponent = number // 1000, exponent + 3
    if family is Family.EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[exponent]}"


def _divide_away_from_zero(number: int, divisor: int) -> int:
    magnitude = -(-abs(number) // divisor)
    return -magnitude if number < 0 else magnitude
