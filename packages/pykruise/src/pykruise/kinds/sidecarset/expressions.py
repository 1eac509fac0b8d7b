"""Expressions for a sidecar's resources: `max(cpu*50%, 50m)`.

text ──▶ evaluate(text, variable="cpu", amount=…) ──▶ Quantity, or ResourceExpressionError with the reason
     ──▶ check(text, variable="cpu")              ──▶ None, or ResourceExpressionError: it can never be evaluated

    expr   := term (("+" | "-") term)*            term := factor (("*" | "/") factor)*
    factor := NUMBER | QUANTITY | VARIABLE | max(expr, expr) | min(expr, expr) | "(" expr ")" | "-" factor

Pure, without floats, and of bounded cost for any text. VARIABLE is `cpu` or `memory`: the one that is given. Names are
not case-sensitive. There are two types: numbers and quantities. If one operand is a quantity, the result is a quantity:
half of 1 cpu is 500m. A quantity cannot be multiplied by a quantity, and nothing can be divided by a quantity.

Each multiplication or division of a quantity first rounds the quantity to thousandths, away from zero, and then
truncates the result to thousandths: with 1m for cpu, `cpu*50%*2` is 0. Numbers are exact. A number that becomes a
quantity (in a sum with a quantity, in max or min with one, or as the result) is truncated to thousandths.
"""

import re
from fractions import Fraction
from typing import Final, NamedTuple

from pykruise.kube.values.quantities import Family, Quantity

LONGEST: Final = 1000
"""Maximum number of characters of an expression."""

DEEPEST: Final = 50
"""Maximum depth of nested factors: at most 49 parentheses, calls and minus signs around a number or variable."""

LARGEST_EXPONENT: Final = 30

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<suffix>[A-Za-z%]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/(),])|(?P<end>$))"
)
_SUFFIXES: Final = frozenset({"m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"})
_FUNCTIONS: Final = frozenset({"max", "min"})
_MILLI: Final = 10**6  # billionths
_ONE: Final = Quantity(10**9)


class ResourceExpressionError(ValueError):
    """The text cannot be evaluated, or its result is negative; the message gives the reason."""


_Value = Fraction | Quantity


class _Token(NamedTuple):
    kind: str
    """`number`, `quantity`, `name`, `sign` or `end`."""
    text: str
    value: _Value | None = None


def evaluate(text: str, *, variable: str, amount: Quantity) -> Quantity:
    """Evaluate the expression with `amount` as the value of `variable` (cpu or memory).

    A result without a unit is truncated to thousandths. Raises ResourceExpressionError, also for a negative result.
    """
    value = _Parser(text, variable, amount).parse_result()
    quantity = _as_quantity(value)
    if quantity.nano < 0:
        raise ResourceExpressionError(f"evaluates to {quantity}, and must not be negative")
    return quantity


def check(text: str, *, variable: str) -> None:
    """Raise ResourceExpressionError if the text can never be evaluated, whatever the value of `variable` is. A negative
    result is no error here.
    """
    _Parser(text, variable, _ONE).parse_result()


class _Parser:
    def __init__(self, text: str, variable: str, amount: Quantity) -> None:
        if len(text) > LONGEST:
            raise ResourceExpressionError(f"is longer than {LONGEST} characters")
        self._tokens = _tokenize(text)
        self._at = 0
        self._variable = variable
        self._amount = amount
        self._depth = 0

    def parse_result(self) -> _Value:
        value = self._parse_expression()
        if self._next.kind != "end":
            raise ResourceExpressionError(f"has an unexpected {self._next.text!r}")
        return value

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _take_sign(self, *signs: str) -> str:
        """Take the next token if it is one of these signs, and return the sign; empty: it is no such sign, and is not
        taken.
        """
        token = self._next
        if token.text in signs:
            self._at += 1
            return token.text
        return ""

    def _expect(self, sign: str) -> None:
        if not self._take_sign(sign):
            text = self._next.text or "the end"
            raise ResourceExpressionError(f"has {text!r} where {sign!r} is expected")

    def _parse_expression(self) -> _Value:
        value = self._parse_term()
        while sign := self._take_sign("+", "-"):
            right = self._parse_term()
            value = _add(value, right if sign == "+" else -right)
        return value

    def _parse_term(self) -> _Value:
        value = self._parse_factor()
        while sign := self._take_sign("*", "/"):
            right = self._parse_factor()
            value = _multiply(value, right) if sign == "*" else _divide(value, right)
        return value

    def _parse_factor(self) -> _Value:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ResourceExpressionError("is nested too deeply")
        try:
            return self._parse_operand()
        finally:
            self._depth -= 1

    def _parse_operand(self) -> _Value:
        if self._take_sign("-"):
            return -self._parse_factor()
        if self._take_sign("("):
            value = self._parse_expression()
            self._expect(")")
            return value
        token = self._take()
        if token.value is not None:
            return token.value
        if token.kind != "name":
            text = repr(token.text) if token.text else "the end"
            raise ResourceExpressionError(f"has {text} where a number, a variable or '(' is expected")
        name = token.text.lower()
        if name in _FUNCTIONS:
            return self._parse_call(name)
        if name == self._variable:
            return self._amount
        raise ResourceExpressionError(
            f"has the unknown name {token.text!r}; known are {self._variable}, max and min"
        )

    def _parse_call(self, name: str) -> _Value:
        self._expect("(")
        first = self._parse_expression()
        self._expect(",")
        second = self._parse_expression()
        self._expect(")")
        left, right = _to_common_type(first, second)
        is_right = (
            _read_amount(right) > _read_amount(left)
            if name == "max"
            else _read_amount(right) < _read_amount(left)
        )
        return right if is_right else left


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ResourceExpressionError(f"has {text[position:].strip()[:1]!r}, which is not allowed here")
        position = match.end()
        if match["number"] is not None:
            tokens.append(_parse_number(match["number"], match["suffix"]))
        elif match["name"] is not None:
            tokens.append(_Token("name", match["name"]))
        elif match["sign"] is not None:
            tokens.append(_Token("sign", match["sign"]))
        else:
            return [*tokens, _Token("end", "")]


def _parse_number(digits: str, suffix: str) -> _Token:
    written = digits + suffix
    exponent = re.search(r"[eE]([+-]?[0-9]+)", digits)
    if exponent is not None and abs(int(exponent[1])) > LARGEST_EXPONENT:
        raise ResourceExpressionError(f"has the number {written!r}, which is too large or too small")
    number = Fraction(digits)
    if suffix == "":
        return _Token("number", written, number)
    if suffix == "%":
        return _Token("number", written, number / 100)
    if suffix not in _SUFFIXES:
        raise ResourceExpressionError(
            f"has {written!r}, which is not a quantity; units are m, k, M, G, T, P, Ki, Mi, Gi, Ti, Pi"
        )
    if exponent is not None:
        raise ResourceExpressionError(f"has {written!r}; a number has an exponent or a unit, not both")
    return _Token("quantity", written, Quantity.parse(written))


def _to_common_type(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Convert both values to quantities if one of them is a quantity."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left, right
    return _as_quantity(left), _as_quantity(right)


def _as_quantity(value: _Value) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(int(value * 1000) * _MILLI)


def _read_amount(value: _Value) -> Fraction:
    return value.amount if isinstance(value, Quantity) else value


def _add(left: _Value, right: _Value) -> _Value:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left + right
    return _as_quantity(left) + _as_quantity(right)


def _multiply(left: _Value, right: _Value) -> _Value:
    if isinstance(right, Fraction):
        return left * right if isinstance(left, Fraction) else _multiply_quantity(left, right)
    if isinstance(left, Fraction):
        return _multiply_quantity(right, left)
    raise ResourceExpressionError("multiplies two quantities")


def _divide(left: _Value, right: _Value) -> _Value:
    if isinstance(right, Quantity):
        raise ResourceExpressionError("divides by a quantity")
    if right == 0:
        raise ResourceExpressionError("divides by zero")
    return left / right if isinstance(left, Fraction) else _multiply_quantity(left, 1 / right)


def _multiply_quantity(quantity: Quantity, factor: Fraction) -> Quantity:
    """Multiply the thousandths of the quantity (rounded away from zero), and truncate the product to thousandths."""
    family = quantity.family if quantity.family is Family.BINARY else Family.DECIMAL
    return Quantity(int(quantity.milli * factor) * _MILLI, family)
