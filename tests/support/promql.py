"""The part of Prometheus that alerts need: expressions over scrapes, and alerts with a duration.

scrapes (text) ──▶ Scrapes ──▶ evaluate(expr) ──▶ series; Alarm.at(scrapes) ──▶ firing or not

The grammar is that of promql-parser, which follows Prometheus. Anything else is an error, never a guess.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import promql_parser as ql
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Alarm", "Scrapes", "Vector", "names_in"]

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}
_NAME = "__name__"
_ENDS = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gauge": ("",),
    "info": ("_info",),
}
"""Ends of the names of series, by the type of their metric."""


class Scrapes:
    """Samples of one target by time."""

    def __init__(self) -> None:
        self._found: list[tuple[float, Vector]] = []
        self.names: set[str] = set()
        """Names of all series so far, and of metrics that have no series yet."""

    def add(self, at: float, *texts: str) -> None:
        """Add one scrape: the texts of all pages."""
        self.note(at, (family for text in texts for family in text_string_to_metric_families(text)))

    def note(self, at: float, families: Iterable[Metric]) -> None:
        """Add one scrape of metrics that are not text yet."""
        vector: Vector = {}
        for family in families:
            self.names |= {f"{family.name}{end}" for end in _ENDS.get(family.type, ("",))}
            for sample in family.samples:
                vector[frozenset({(_NAME, sample.name), *sample.labels.items()})] = sample.value
        self._found.append((at, vector))

    def all(self) -> list[tuple[float, Vector]]:
        """Every scrape with its time."""
        return list(self._found)

    def evaluate(self, expr: str) -> Vector:
        """The result of the expression at the last scrape."""
        return _without_name(self._value(ql.parse(expr)))

    def _value(self, expr: object) -> Vector:
        match expr:
            case ql.ParenExpr():
                return self._value(expr.expr)
            case ql.NumberLiteral():
                return {frozenset(): float(expr.val)}
            case ql.VectorSelector():
                return self._selected(expr, self._found[-1][1])
            case ql.AggregateExpr():
                return self._aggregated(expr)
            case ql.BinaryExpr():
                return _joined(str(expr.op), self._value(expr.lhs), self._value(expr.rhs), expr.rhs)
            case ql.Call():
                return self._called(expr)
        raise NotImplementedError(type(expr))

    def _selected(self, selector: "ql.VectorSelector", vector: Vector) -> Vector:
        wanted = [(matcher.name, str(matcher.op), matcher.value) for matcher in selector.matchers.matchers]
        return {
            labels: value
            for labels, value in vector.items()
            if dict(labels)[_NAME] == selector.name
            and all(_matches(dict(labels).get(name, ""), op, text) for name, op, text in wanted)
        }

    def _aggregated(self, expr: "ql.AggregateExpr") -> Vector:
        inner = self._value(expr.expr)
        by = set(expr.modifier.labels) if expr.modifier is not None else set()
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        how = {"max": max, "min": min, "sum": sum, "count": len}[str(expr.op)]
        return {labels: float(how(values)) for labels, values in groups.items()}

    def _called(self, expr: "ql.Call") -> Vector:
        if expr.func.name == "time":
            return {frozenset(): self._found[-1][0]}
        (inner,) = expr.args
        if expr.func.name == "vector":
            return self._value(inner)
        if expr.func.name == "absent":
            return {} if self._value(inner) else {frozenset(): 1.0}
        assert expr.func.name in ("rate", "increase"), expr.func.name
        seconds = inner.range.total_seconds()
        now = self._found[-1][0]
        first = next(vector for at, vector in self._found if at >= now - seconds)
        begin, end = (
            _without_name(self._selected(inner.vector_selector, item)) for item in (first, self._found[-1][1])
        )
        grown = {labels: max(value - begin.get(labels, value), 0.0) for labels, value in end.items()}
        return {part: value / seconds if expr.func.name == "rate" else value for part, value in grown.items()}


def _matches(value: str, op: str, text: str) -> bool:
    if "~" in op or "Re" in op:
        is_it = re.fullmatch(text, value) is not None
        return is_it != ("!" in op or "Not" in op)
    return (value == text) != ("!" in op or "Not" in op)


def _without_name(vector: Vector) -> Vector:
    return {frozenset(pair for pair in labels if pair[0] != _NAME): value for labels, value in vector.items()}


def _joined(op: str, left: Vector, right: Vector, right_expr: object) -> Vector:
    left, right = _without_name(left), _without_name(right)
    if op == "and":
        return {labels: value for labels, value in left.items() if labels in right}
    if op == "or":
        return {**right, **left}
    if op == "-":
        return _difference(left, right)
    holds = _OPERATORS[op]
    if isinstance(right_expr, ql.NumberLiteral):
        number = right[frozenset()]
        return {labels: value for labels, value in left.items() if holds(value, number)}
    return {
        labels: value for labels, value in left.items() if labels in right and holds(value, right[labels])
    }


def _difference(left: Vector, right: Vector) -> Vector:
    """A difference; one side may be a number, such as `time()`."""
    alone = frozenset[tuple[str, str]]()
    if set(left) == {alone}:
        return {labels: left[alone] - value for labels, value in right.items()}
    if set(right) == {alone}:
        return {labels: value - right[alone] for labels, value in left.items()}
    return {labels: value - right[labels] for labels, value in left.items() if labels in right}


def names_in(expr: str) -> Iterator[str]:
    """Names of all metrics in an expression."""
    names: list[str] = []

    def walk(part: object) -> None:
        match part:
            case ql.VectorSelector():
                names.append(part.name)
            case ql.MatrixSelector():
                walk(part.vector_selector)
            case ql.ParenExpr() | ql.AggregateExpr():
                walk(part.expr)
            case ql.BinaryExpr():
                walk(part.lhs)
                walk(part.rhs)
            case ql.Call():
                for arg in part.args:
                    walk(arg)

    walk(ql.parse(expr))
    return iter(names)


def of_board(expr: str) -> str:
    """An expression of a dashboard as Grafana sends it when all values are selected."""
    return re.sub(r'"\$(namespace|kind|name)"', '".*"', expr.replace("$__rate_interval", "5m"))


class Alarm:
    """One alert over time, for each of its series."""

    def __init__(self, expr: str, for_s: float) -> None:
        self._expr = expr
        self._for_s = for_s
        self._since: dict[Labels, float] = {}

    def at(self, now: float, scrapes: Scrapes) -> list[dict[str, str]]:
        """Labels of the series for which it fires now."""
        there = scrapes.evaluate(self._expr)
        self._since = {labels: self._since.get(labels, now) for labels in there}
        return [dict(labels) for labels, since in self._since.items() if now - since >= self._for_s]
