"""Expressions that give a sidecar's resources: `max(cpu*50%, 50m)`.

text ──▶ evaluate(text, variable="cpu", amount=…) ──▶ Quantity, or ResourceExpressionError with the place
     ──▶ check(text, variable="cpu")              ──▶ None, or ExpressionError: what could never be evaluated

    expr   := term (("+" | "-") term)*            term := factor (("*" | "/") factor)*
    factor := NUMBER | QUANTITY | cpu | memory | max(expr, expr) | min(expr, expr) | "(" expr ")" | "-" factor

Pure, exact (no floats), and of bounded cost whatever the text is. Two types: numbers, and quantities. What is
a quantity stays one: half of 1 cpu is 500m. Names may be written in any case.
"""

import re
from fractions import Fraction
from typing import Final, NamedTuple

from pykruise.kube.values.quantities import Family, Quantity

LONGEST: Final = 1000
"""Characters of an expression."""

DEEPEST: Final = 50
"""Parentheses, calls and signs inside each other."""

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
    """The text cannot be evaluated; the message says why."""


_Value = Fraction | Quantity


class _Token(NamedTuple):
    kind: str
    """number, quantity, name, sign or end."""
    text: str
    value: _Value | None = None


def evaluate(text: str, *, variable: str, amount: Quantity) -> Quantity:
    """Value of the expression when `variable` (cpu or memory) is `amount`.

    A result without a unit is cut to thousandths. Raises ExpressionError; also for a negative result.
    """
    value = _Parser(text, variable, amount).result()
    quantity = _as_quantity(value)
    if quantity.nano < 0:
        raise ResourceExpressionError(f"comes to {quantity}, and must not be negative")
    return quantity


def check(text: str, *, variable: str) -> None:
    """Raise ResourceExpressionError for what could never be evaluated, whatever `variable` is. Signs do not count."""
    _Parser(text, variable, _ONE).result()


class _Parser:
    def __init__(self, text: str, variable: str, amount: Quantity) -> None:
        if len(text) > LONGEST:
            raise ResourceExpressionError(f"is longer than {LONGEST} characters")
        self._tokens = _tokens(text)
        self._at = 0
        self._variable = variable
        self._amount = amount
        self._depth = 0

    def result(self) -> _Value:
        value = self._expression()
        if self._next.kind != "end":
            raise ResourceExpressionError(f"does not go on with {self._next.text!r}")
        return value

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, *signs: str) -> str:
        """The sign that comes next, if it is one of these; it is taken then."""
        token = self._next
        if token.text in signs:
            self._at += 1
            return token.text
        return ""

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            text = self._next.text or "the end"
            raise ResourceExpressionError(f"has {text!r} where {sign!r} is expected")

    def _expression(self) -> _Value:
        value = self._term()
        while sign := self._takes("+", "-"):
            right = self._term()
            value = _sum(value, right if sign == "+" else -right)
        return value

    def _term(self) -> _Value:
        value = self._factor()
        while sign := self._takes("*", "/"):
            right = self._factor()
            value = _product(value, right) if sign == "*" else _quotient(value, right)
        return value

    def _factor(self) -> _Value:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ResourceExpressionError("is nested too deeply")
        try:
            return self._operand()
        finally:
            self._depth -= 1

    def _operand(self) -> _Value:
        if self._takes("-"):
            return -self._factor()
        if self._takes("("):
            value = self._expression()
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
            return self._call(name)
        if name == self._variable:
            return self._amount
        raise ResourceExpressionError(
            f"has the unknown name {token.text!r}; known are {self._variable}, max and min"
        )

    def _call(self, name: str) -> _Value:
        self._expect("(")
        first = self._expression()
        self._expect(",")
        second = self._expression()
        self._expect(")")
        left, right = _alike(first, second)
        is_right = _amount(right) > _amount(left) if name == "max" else _amount(right) < _amount(left)
        return right if is_right else left


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ResourceExpressionError(f"has {text[position:].strip()[:1]!r}, which means nothing here")
        position = match.end()
        if match["number"] is not None:
            tokens.append(_number(match["number"], match["suffix"]))
        elif match["name"] is not None:
            tokens.append(_Token("name", match["name"]))
        elif match["sign"] is not None:
            tokens.append(_Token("sign", match["sign"]))
        else:
            return [*tokens, _Token("end", "")]


def _number(digits: str, suffix: str) -> _Token:
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


def _alike(left: _Value, right: _Value) -> tuple[_Value, _Value]:
    """Both as quantities, when one is."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left, right
    return _as_quantity(left), _as_quantity(right)


def _as_quantity(value: _Value) -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(int(value * 1000) * _MILLI)


def _amount(value: _Value) -> Fraction:
    return value.amount if isinstance(value, Quantity) else value


def _sum(left: _Value, right: _Value) -> _Value:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left + right
    return _as_quantity(left) + _as_quantity(right)


def _product(left: _Value, right: _Value) -> _Value:
    if isinstance(right, Fraction):
        return left * right if isinstance(left, Fraction) else _scaled(left, right)
    if isinstance(left, Fraction):
        return _scaled(right, left)
    raise ResourceExpressionError("multiplies two quantities")


def _quotient(left: _Value, right: _Value) -> _Value:
    if isinstance(right, Quantity):
        raise ResourceExpressionError("divides by a quantity")
    if right == 0:
        raise ResourceExpressionError("divides by zero")
    return left / right if isinstance(left, Fraction) else _scaled(left, 1 / right)


def _scaled(quantity: Quantity, factor: Fraction) -> Quantity:
    """Value in whole thousandths, rounded towards zero."""
    family = quantity.family if quantity.family is Family.BINARY else Family.DECIMAL
    return Quantity(int(quantity.milli * factor) * _MILLI, family)
