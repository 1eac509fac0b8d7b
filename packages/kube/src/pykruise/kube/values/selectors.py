"""Label selectors: the objects that a list, a watch or an owner selects.

"a=b,c in (x,y),!d"      ──▶ parse_label_selector() ─┐
LabelSelector document   ──▶ parse_selector()        ─┴▶ Selector ──▶ .matches(labels), str()

Pure; field selectors are in field_selectors.py. Grammar, validation and messages are those of the API server.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec

from pykruise.kube.cache.remembering import remember
from pykruise.kube.pod_rules.names import is_valid_label_key, is_valid_label_value
from pykruise.kube.values.go_text import excerpt, quote_text

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Requirement",
    "Selector",
    "SelectorError",
    "SelectorOperator",
    "describe_labels",
    "format_label_selector",
    "has_overlap",
    "parse_label_selector",
    "parse_selector",
]


_MOST_ERRORS: Final = 16
"""Maximum number of errors that are reported for one requirement."""


class SelectorError(ValueError):
    """The selector is invalid; the message is that of the API server."""


class SelectorOperator(StrEnum):
    """Operator of a requirement; the value is how Kubernetes writes it in messages."""

    DOES_NOT_EXIST = "!"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    IN = "in"
    NOT_EQUALS = "!="
    NOT_IN = "notin"
    EXISTS = "exists"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_ONE_OF: Final = frozenset({SelectorOperator.EQUALS, SelectorOperator.DOUBLE_EQUALS, SelectorOperator.IN})


class Requirement(msgspec.Struct, frozen=True):
    """A condition of a label selector. `values` is empty for exists and !exists, and has one integer as text for >
    and <.
    """

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets the requirement; an absent label meets only !=, notin and !."""
        value = labels.get(self.key)
        if self.operator in _ONE_OF:  # the most frequent case: evaluated for every pod of every plan
            return value in self.values
        match self.operator:
            case SelectorOperator.EQUALS | SelectorOperator.DOUBLE_EQUALS | SelectorOperator.IN:
                return value in self.values
            case SelectorOperator.NOT_EQUALS | SelectorOperator.NOT_IN:
                return value is None or value not in self.values
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
            case SelectorOperator.GREATER_THAN:
                return (number := _parse_integer(value)) is not None and number > int(self.values[0])
            case SelectorOperator.LESS_THAN:
                return (number := _parse_integer(value)) is not None and number < int(self.values[0])

    @property
    def listed_value(self) -> str | None:
        """A listed value with which a label meets the requirement; None: the requirement lists no such value."""
        return self.values[0] if self.operator in _ONE_OF else None

    def __str__(self) -> str:
        match self.operator:
            case SelectorOperator.EXISTS:
                return self.key
            case SelectorOperator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case SelectorOperator.IN | SelectorOperator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case SelectorOperator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case SelectorOperator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


class _KeyRule(msgspec.Struct, frozen=True):
    """All requirements for one label, combined."""

    is_required: bool
    """Whether the label must be present."""
    is_refused: bool
    """Whether the label must be absent."""
    listed: frozenset[str] | None
    """Values that are allowed; None: any."""
    excluded: frozenset[str]
    """Values that are not allowed."""
    above: int | None
    below: int | None

    def allows(self, value: str) -> bool:
        if self.is_refused or (self.listed is not None and value not in self.listed):
            return False
        if value in self.excluded:
            return False
        if self.above is None and self.below is None:
            return True
        number = _parse_integer(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


class _Index(msgspec.Struct, frozen=True):
    """A large selector by its labels: the cost of a match depends only on the number of the object's labels."""

    rules: dict[str, _KeyRule]
    required: int
    """Number of labels that must be present."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        number = 0
        for key, value in labels.items():
            rule = self.rules.get(key)
            if rule is None:
                continue
            if not rule.allows(value):
                return False
            number += rule.is_required
        return number == self.required


_LARGE: Final = 16
"""Number of requirements and values above which a selector uses an index."""


class Selector(msgspec.Struct, frozen=True, dict=True):
    """A label selector: all requirements must hold. Sorted by key. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    """True only if a field that must contain a selector is absent or null."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches an object with these labels."""
        if self.selects_nothing:
            return False
        if (index := self._index) is not None:
            return index.matches(labels)
        for requirement in self.requirements:  # noqa: SIM110 - a generator would take twice as long
            if not requirement.matches(labels):
                return False
        return True

    @cached_property
    def _index(self) -> _Index | None:
        size = len(self.requirements) + sum(len(requirement.values) for requirement in self.requirements)
        if size <= _LARGE:
            return None
        rules = {
            key: _combine_requirements(requirements)
            for key, requirements in _by_key(self.requirements).items()
        }
        return _Index(rules, sum(rule.is_required for rule in rules.values()))

    @property
    def is_empty(self) -> bool:
        """Whether the selector matches every object."""
        return not self.requirements and not self.selects_nothing

    def required_value(self, key: str) -> str | None:
        """Return the value that a label must have, or None when the selector does not require one value."""
        for requirement in self.requirements:
            if requirement.key == key:
                exact = requirement.operator in (
                    SelectorOperator.EQUALS,
                    SelectorOperator.DOUBLE_EQUALS,
                    SelectorOperator.IN,
                )
                return requirement.values[0] if exact and len(requirement.values) == 1 else None
        return None

    def listed_values(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Return the labels that must have one of several values, and these values."""
        return (
            (requirement.key, requirement.values)
            for requirement in self.requirements
            if requirement.operator in _ONE_OF
        )

    def __str__(self) -> str:
        """Return the canonical text, `a=b,c in (x,y),!d,e`, as used in a query or in `status.labelSelector`."""
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
"""Selector that matches every object."""
NOTHING = Selector(selects_nothing=True)
"""Selector that matches no object."""


def parse_label_selector(text: str) -> Selector:
    """Parse the selector of a query parameter: `a=b`, `==`, `!=`, `in (..)`, `notin (..)`, `key`, `!key`, `>`, `<`.

    Empty text matches everything. Raises SelectorError. This is the rule of Kubernetes' `labels.Parse`.
    """
    requirements = list(_Parser(text).requirements())
    requirements.sort(key=_key_of)
    return Selector(tuple(requirements)) if requirements else EVERYTHING


_DOCUMENT_OPERATORS: Mapping[Any, SelectorOperator] = {
    "In": SelectorOperator.IN,
    "NotIn": SelectorOperator.NOT_IN,
    "Exists": SelectorOperator.EXISTS,
    "DoesNotExist": SelectorOperator.DOES_NOT_EXIST,
}


def parse_selector(doc: Mapping[str, Any] | None) -> Selector:
    """Return the selector of a LabelSelector document (`matchLabels`, `matchExpressions`).

    None matches nothing, an empty document everything. Raises SelectorError on an unknown operator, an invalid key or
    value, values missing for In and NotIn or given for Exists and DoesNotExist. This is the rule of Kubernetes'
    `metav1.LabelSelectorAsSelector`.
    """
    if doc is None:
        return NOTHING
    match_labels = doc.get("matchLabels") or {}
    expressions = doc.get("matchExpressions") or []
    if not isinstance(match_labels, Mapping) or not isinstance(expressions, (list, tuple)):
        raise SelectorError(
            "invalid label selector: matchLabels must be a map, and matchExpressions must be a list"
        )
    requirements = [
        _build_requirement(key, SelectorOperator.EQUALS, [value]) for key, value in match_labels.items()
    ]
    requirements += [_from_expression(expression) for expression in expressions]
    requirements.sort(key=_key_of)
    return Selector(tuple(requirements)) if requirements else EVERYTHING


def describe_labels(requirements: Iterable[Requirement], present: Iterable[Mapping[str, str]]) -> str:
    """Return the values of these labels, for the keys of the requirements: `team=a, no label zone`."""
    known = list(present)
    keys = dict.fromkeys(requirement.key for requirement in requirements)
    return ", ".join(_describe_values(key, {labels.get(key) for labels in known}) for key in keys)


_MOST_VALUES: Final = 3
"""Maximum number of values of a label that a message names."""


def _describe_values(key: str, values: Iterable[str | None]) -> str:
    named = sorted(value for value in values if value is not None)
    more = " or others" if len(named) > _MOST_VALUES else ""
    return f"{key}={' or '.join(named[:_MOST_VALUES])}{more}" if named else f"no label {key}"


def has_overlap(selector: Selector, other: Selector) -> bool:
    """Whether an object could match both selectors. Exact, except that < and > count as met."""
    if selector.selects_nothing or other.selects_nothing:
        return False
    by_key = _by_key((*selector.requirements, *other.requirements))
    return all(_can_be_met(requirements) for requirements in by_key.values())


def _by_key(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        key.setdefault(requirement.key, []).append(requirement)
    return key


def _combine_requirements(requirements: Sequence[Requirement]) -> _KeyRule:
    """Return the combined rule of requirements that concern the same label."""
    listed = [
        frozenset(requirement.values) for requirement in requirements if requirement.operator in _LISTING
    ]
    above = [
        int(requirement.values[0])
        for requirement in requirements
        if requirement.operator is SelectorOperator.GREATER_THAN
    ]
    below = [
        int(requirement.values[0])
        for requirement in requirements
        if requirement.operator is SelectorOperator.LESS_THAN
    ]
    return _KeyRule(
        is_required=any(requirement.operator not in _MET_BY_ABSENCE for requirement in requirements),
        is_refused=any(
            requirement.operator is SelectorOperator.DOES_NOT_EXIST for requirement in requirements
        ),
        listed=frozenset.intersection(*listed) if listed else None,
        excluded=frozenset(
            value
            for requirement in requirements
            if requirement.operator in _EXCLUDING
            for value in requirement.values
        ),
        above=max(above, default=None),
        below=min(below, default=None),
    )


def _can_be_met(requirements: Sequence[Requirement]) -> bool:
    """Whether one label, absent or with some value, can meet all requirements, which concern the same key."""
    listed = [{*requirement.values} for requirement in requirements if requirement.operator in _LISTING]
    if all(requirement.operator in _MET_BY_ABSENCE for requirement in requirements):
        return True
    if any(requirement.operator is SelectorOperator.DOES_NOT_EXIST for requirement in requirements):
        return False
    if not listed:
        return True
    excluded = {
        value
        for requirement in requirements
        if requirement.operator in _EXCLUDING
        for value in requirement.values
    }
    return bool(set.intersection(*listed) - excluded)


_LISTING = (SelectorOperator.EQUALS, SelectorOperator.DOUBLE_EQUALS, SelectorOperator.IN)
_EXCLUDING = (SelectorOperator.NOT_EQUALS, SelectorOperator.NOT_IN)
_MET_BY_ABSENCE = (*_EXCLUDING, SelectorOperator.DOES_NOT_EXIST)


def format_label_selector(doc: Mapping[str, Any] | None) -> str:
    """Return a LabelSelector document for people: canonical text, `<none>` (empty or absent), `<error>`.

    This is the rule of Kubernetes' `metav1.FormatLabelSelector`.
    """
    try:
        return str(parse_selector(doc)) or "<none>"
    except SelectorError:
        return "<error>"


def _from_expression(expression: Any) -> Requirement:
    if not isinstance(expression, Mapping):
        raise SelectorError("an entry of matchExpressions must be an object with key, operator and values")
    name = expression.get("operator", "")
    operator = _DOCUMENT_OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        raise SelectorError(f"{quote_text(excerpt(str(name)))} is not a valid label selector operator")
    values = expression.get("values") or []
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SelectorError(f"values of a label selector must be a list, got {excerpt(repr(values))}")
    return _build_requirement(expression.get("key", ""), operator, values)


def _build_requirement(key: Any, operator: SelectorOperator, values: Sequence[Any]) -> Requirement:
    """Return a valid requirement. Raises SelectorError with all mistakes."""
    if not isinstance(key, str) or not all(isinstance(value, str) for value in values):
        raise SelectorError(
            f"keys and values of a label selector must be strings, got {excerpt(repr(key))} "
            f"and {excerpt(repr(list(values)))}"
        )
    given = tuple(values)
    return _check_remembered(key, operator, given) if len(given) <= _LARGE else _check(key, operator, given)


@remember(entries=4_096, longest=1_024)
def _check_remembered(key: str, operator: SelectorOperator, values: tuple[str, ...]) -> Requirement:
    """Check a requirement, and remember the result: owners parse the same selectors in each reconcile."""
    return _check(key, operator, values)


def _check(key: str, operator: SelectorOperator, values: tuple[str, ...]) -> Requirement:
    errors = [*_list_key_errors("key", key), *_count_errors(operator, values)]
    for index, value in enumerate(values):
        errors += _list_value_errors(f"values[{index}][{excerpt(key)}]", value)
    if errors:
        distinct = list(dict.fromkeys(errors))[:_MOST_ERRORS]
        raise SelectorError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
    return Requirement(key, operator, values)


def _list_key_errors(path: str, key: str) -> list[str]:
    problems = is_valid_label_key(key)
    return [f"{path}: Invalid value: {quote_text(excerpt(key))}: {'; '.join(problems)}"] if problems else []


def _list_value_errors(path: str, value: str) -> list[str]:
    problems = is_valid_label_value(value)
    return [f"{path}: Invalid value: {quote_text(excerpt(value))}: {'; '.join(problems)}"] if problems else []


def _count_errors(operator: SelectorOperator, values: Sequence[str]) -> list[str]:
    match operator:
        case SelectorOperator.IN | SelectorOperator.NOT_IN:
            problem = "" if values else "for 'in', 'notin' operators, values set can't be empty"
        case SelectorOperator.EQUALS | SelectorOperator.DOUBLE_EQUALS | SelectorOperator.NOT_EQUALS:
            problem = "" if len(values) == 1 else "exact-match compatibility requires one single value"
        case SelectorOperator.EXISTS | SelectorOperator.DOES_NOT_EXIST:
            problem = "values set must be empty for exists and does not exist" if values else ""
        case SelectorOperator.GREATER_THAN | SelectorOperator.LESS_THAN:
            return [
                f"values[{index}]: Invalid value: {quote_text(excerpt(value))}: "
                "for 'Gt', 'Lt' operators, the value must be an integer"
                for index, value in enumerate(values)
                if _parse_integer(value) is None
            ]
    if not problem:
        return []
    text = f"[]string{{{', '.join(map(quote_text, values))}}}" if values else "[]string(nil)"
    return [f"values: Invalid value: {excerpt(text)}: {problem}"]


_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


def _parse_integer(text: str | None) -> int | None:
    """Return a signed 64-bit number, or None."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _key_of(requirement: Requirement) -> str:
    return requirement.key


# --- the grammar of label selectors ---

_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>\0]+)|(\0.*)?$)", re.DOTALL)
_BINARY = {
    "in": SelectorOperator.IN,
    "notin": SelectorOperator.NOT_IN,
    "=": SelectorOperator.EQUALS,
    "==": SelectorOperator.DOUBLE_EQUALS,
    "!=": SelectorOperator.NOT_EQUALS,
    ">": SelectorOperator.GREATER_THAN,
    "<": SelectorOperator.LESS_THAN,
}
_BINARY_NAMES = "in, notin, =, ==, !=, gt, lt"


class _Token(msgspec.Struct, frozen=True):
    text: str
    word: bool
    """Whether the token is a key, a value, or one of the words `in` and `notin`; otherwise it is a symbol, or (empty)
    the end.
    """

    @property
    def ends_requirement(self) -> bool:
        return not self.word and self.text in ("", ",")


class _Parser:
    """Parses requirements from left to right, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = [_Token(symbol or word or "", bool(word)) for symbol, word, _ in _TOKEN.findall(text)]
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        if not self._peek().text:
            return
        self._expect_start("found '{}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                yield self._parse_requirement()
            except SelectorError as err:
                raise SelectorError(f"unable to parse requirement: {err}") from err
            token = self._take_token()
            if not token.text:
                return
            if token.word or token.text != ",":
                raise SelectorError(f"found '{token.text}', expected: ',' or 'end of string'")
            self._expect_start("found '{}', expected: identifier after ','")

    def _expect_start(self, message: str) -> None:
        token = self._peek()
        if not token.word and token.text != "!":
            raise SelectorError(message.format(token.text))

    def _parse_requirement(self) -> Requirement:
        token = self._take_token()
        negated = not token.word and token.text == "!"
        if negated:
            token = self._take_token()
        if not token.word:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        key = token.text
        if errors := _list_key_errors("<nil>", key):
            raise SelectorError(errors[0])
        # The API server reads `!key=value` as `key=value`.
        if negated:
            return _build_requirement(key, SelectorOperator.DOES_NOT_EXIST, ())
        if self._peek().ends_requirement:
            return _build_requirement(key, SelectorOperator.EXISTS, ())
        operator = self._parse_operator()
        values = (
            self._parse_set()
            if operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
            else self._parse_exact()
        )
        return _build_requirement(key, operator, sorted(values))

    def _parse_operator(self) -> SelectorOperator:
        token = self._take_token()
        operator = _BINARY.get(token.text)
        if operator is None:
            raise SelectorError(f"found '{token.text}', expected: {_BINARY_NAMES}")
        return operator

    def _parse_exact(self) -> set[str]:
        if self._peek().ends_requirement:
            return {""}
        token = self._take_token()
        if not token.word:
            raise SelectorError(f"found '{token.text}', expected: identifier")
        return {token.text}

    def _parse_set(self) -> set[str]:
        """Parse `(x,y)`; an empty place between brackets or commas is the empty value."""
        token = self._take_token()
        if token.word or token.text != "(":
            raise SelectorError(f"found '{token.text}' expected: '('")
        first = self._peek()
        if not first.word and first.text not in (",", ")"):
            raise SelectorError(f"found '{first.text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        after_word = False
        while True:
            token = self._take_token()
            if token.word and not after_word:
                values.add(token.text)
                after_word = True
            elif token.word or (after_word and token.text not in (",", ")")):
                raise SelectorError(f"found '{token.text}', expected: ',' or ')'")
            elif token.text == ",":
                if not after_word:
                    values.add("")
                after_word = False
            elif token.text == ")":
                return values if after_word else values | {""}
            else:
                raise SelectorError(f"found '{token.text}', expected: ',', or identifier")

    def _peek(self) -> _Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take_token(self) -> _Token:
        token = self._peek()
        self._at += 1
        return token
