"""Field selectors: `status.phase=Running,spec.nodeName!=n1`.

text ──▶ parse_field_selector() ──▶ FieldSelector ──▶ matches(fields)

Pure. Same rules as Kubernetes' fields package, including its escapes.
"""

import re
from collections.abc import Callable

import msgspec

from pykruise.kube.values.selectors import SelectorError

__all__ = ["FieldRequirement", "FieldSelector", "escape_field_value", "parse_field_selector"]


_TERMS = re.compile(r"((?:\\.|[^\\,]|\\$)+)", re.DOTALL)
_FIELD_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


class FieldRequirement(msgspec.Struct, frozen=True):
    """A term of a field selector: `field` equals `value`, or does not (`negated`)."""

    field: str
    value: str
    negated: bool = False

    @property
    def operator(self) -> str:
        """`=` or `!=`."""
        return "!=" if self.negated else "="

    def __str__(self) -> str:
        return f"{self.field}{self.operator}{escape_field_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    """A field selector: all terms must hold. Without terms it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether the selector matches the object whose fields `get` returns as text (absent fields: empty text)."""
        return all((get(term.field) == term.value) is not term.negated for term in self.requirements)

    @property
    def is_empty(self) -> bool:
        """Whether the selector matches every object."""
        return not self.requirements

    def required_value(self, field: str) -> str | None:
        """Return the value that a field must have, or None when the selector does not require one value."""
        for term in self.requirements:
            if term.field == field and not term.negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the selector of a query parameter: `metadata.name=x,status.phase!=Running` (`==` is `=`).

    In a value, a backslash escapes a comma, an equals sign and a backslash. Whether a resource supports the fields is
    not checked here. Raises SelectorError. This is the rule of Kubernetes' `fields.ParseSelector`.
    """
    terms = sorted(term for term in _TERMS.findall(text) if term)
    requirements = [_parse_field_requirement(term, text) for term in terms]
    # `=` alone names neither a field nor a value, so it restricts nothing.
    return FieldSelector(tuple(term for term in requirements if term.field or term.value))


def escape_field_value(value: str) -> str:
    """Return a value in the form in which a field selector contains it."""
    return re.sub(r"[\\,=]", r"\\\g<0>", value)


def _parse_field_requirement(term: str, selector: str) -> FieldRequirement:
    match = _FIELD_TERM.fullmatch(term)
    if match is None:
        raise SelectorError(f"invalid selector: '{selector}'; can't understand '{term}'")
    field, operator, value = match.groups()
    return FieldRequirement(field, _ESCAPED.sub(_unescape, value), operator == "!=")


def _unescape(match: re.Match[str]) -> str:
    escaped, bare = match.groups()
    if bare is not None:
        raise SelectorError(f"invalid field selector: unescaped character in value: {ord(bare)}")
    if escaped not in ("\\", ",", "="):
        raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
    return escaped
