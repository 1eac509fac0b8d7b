"""Field errors in the words of a Kubernetes API server: what `details.causes` of a 422 holds.

A rule finds something wrong ──▶ required(), invalid(), … ──▶ Cause ──▶ refusal() ──▶ the Status of a 422

Pure. Validation collects all errors; an object need not be fixed one error at a time.

`field` paths are plain strings: `spec.containers[0].name`. Values are shown as Go shows them, because people
and scripts compare these messages; of a long one only the beginning (go_text.py: `excerpt`), so that an answer is
never many times as long as what was sent.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pykruise.kube.errors import Cause, ErrorStatus, StatusDetails
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import LONGEST_EXCERPT, excerpt, quoted

__all__ = [
    "bad_request",
    "duplicate",
    "forbidden",
    "go_scalar",
    "go_string_map",
    "internal_error",
    "invalid",
    "invalid_shown",
    "invalid_whole",
    "not_found",
    "not_supported",
    "refusal",
    "required",
    "shown",
    "too_long",
    "too_many",
    "without_stored",
]

ROOT = "<nil>"
"""Field name that the server uses for an error that belongs to no field."""

MOST_CAUSES: Final = 1_000
"""Field errors in one answer; of further ones it says how many there are."""

LONGEST_PART: Final = 2_048
"""Characters of a field's path, or of what is wrong with it."""


def required(field: str, detail: str = "") -> Cause:
    """A value that must be there is missing or empty."""
    return Cause(reason="FieldValueRequired", message=_with("Required value", detail), field=field)


def invalid(field: str, value: object, detail: str) -> Cause:
    """A value that breaks a rule; `detail` says which."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {shown(value)}: {detail}", field=field)


def invalid_shown(field: str, text: str, detail: str) -> Cause:
    """As `invalid`, of a value that the server shows as a Go struct: `text` is how."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {excerpt(text)}: {detail}", field=field)


def invalid_whole(field: str, detail: str) -> Cause:
    """As `invalid`, of a whole that is wrong; no value is shown."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {detail}", field=field)


def type_invalid(field: str, value: object, detail: str) -> Cause:
    """A value of another type than its schema says."""
    message = f"Invalid value: {shown(value)}: {detail}"
    return Cause(reason="FieldValueTypeInvalid", message=message, field=field)


def not_supported(field: str, value: object, supported: Iterable[str], *, text: str = "") -> Cause:
    """A value outside a closed set; `supported` is in the order of the message, `text` shows the value."""
    values = ", ".join(quoted(each) for each in supported)
    detail = f"supported values: {values}" if values else ""
    message = _with(f"Unsupported value: {text or shown(value)}", detail)
    return Cause(reason="FieldValueNotSupported", message=message, field=field)


def duplicate(field: str, value: object) -> Cause:
    """A value that must be unique and is not."""
    return Cause(reason="FieldValueDuplicate", message=f"Duplicate value: {shown(value)}", field=field)


def forbidden(field: str, detail: str) -> Cause:
    """A value or change that is not allowed here."""
    return Cause(reason="FieldValueForbidden", message=_with("Forbidden", detail), field=field)


def not_found(field: str, value: object) -> Cause:
    """A reference to something that is not there."""
    return Cause(reason="FieldValueNotFound", message=f"Not found: {shown(value)}", field=field)


def internal_error(field: str, detail: str) -> Cause:
    """A value that could not be judged."""
    return Cause(reason="InternalError", message=f"Internal error: {detail}", field=field)


def too_long(field: str, most: int) -> Cause:
    """A string of more than `most` bytes; the value itself is not repeated."""
    message = f"Too long: may not be more than {most} bytes"
    return Cause(reason="FieldValueTooLong", message=message, field=field)


def too_many(field: str, actual: int, most: int) -> Cause:
    """A list or map with more entries than allowed."""
    message = f"Too many: {actual}: must have at most {most} items"
    return Cause(reason="FieldValueTooMany", message=message, field=field)


def shown(value: object) -> str:
    """A value as the server prints it in a message: strings quoted, the rest as Go formats it; an excerpt."""
    if value is None:
        return '"null"'
    if isinstance(value, str):
        return quoted(excerpt(value))
    if isinstance(value, (bool, int, float)):
        return go_scalar(value)
    return _joined(_go_syntax(value))


def go_scalar(value: Any) -> str:
    """A string, number or boolean as Go's `%v` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value)
    return excerpt(str(value))


def refusal(resource: Resource, name: str, causes: Sequence[Cause]) -> ErrorStatus:
    """The answer 422 with all field errors, worded as an API server words it; with the first MOST_CAUSES of them."""
    name = excerpt(name)
    shortened = [_shortened(cause) for cause in causes[:MOST_CAUSES]]
    lines = [f"{cause.field}: {cause.message}" for cause in shortened]
    if len(causes) > MOST_CAUSES:
        lines.append(f"and {len(causes) - MOST_CAUSES} more")
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ErrorStatus(
        status="Failure",
        message=f"{kind} {quoted(name)} is invalid: {listed}",
        reason="Invalid",
        code=422,
        details=StatusDetails(name=name, group=resource.group, kind=resource.kind, causes=tuple(shortened)),
    )


def without_stored(errors: Sequence[Cause], stored: Callable[[], Iterable[Cause]]) -> list[Cause]:
    """The errors that are new: what is wrong with the stored object in the same way, however it got there, keeps
    no user from changing something else. `stored` is asked only when there are errors."""
    if not errors:
        return []
    known = {(cause.field, cause.message) for cause in stored()}
    return [error for error in errors if (error.field, error.message) not in known]


def _shortened(cause: Cause) -> Cause:
    """With keys of users in its path, and texts of users in its detail, of bounded length."""
    if len(cause.field) <= LONGEST_PART and len(cause.message) <= LONGEST_PART:
        return cause
    return Cause(
        reason=cause.reason,
        message=excerpt(cause.message, LONGEST_PART),
        field=excerpt(cause.field, LONGEST_PART),
    )


def bad_request(message: str) -> ErrorStatus:
    """The answer 400: the object cannot be read at all."""
    return ErrorStatus(
        status="Failure", message=excerpt(message, 2 * LONGEST_PART), reason="BadRequest", code=400
    )


def go_string_map(value: Mapping[str, str] | None) -> str:
    """How the server prints a `map[string]string` in a message; an excerpt."""
    if value is None:
        return "map[string]string(nil)"
    return _joined(
        _mapped("map[string]string{", ((key, iter((shown(value[key]),))) for key in sorted(value)))
    )


def _with(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message


def _go_float(value: float) -> str:
    if value != value or math.isinf(value):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace(".0e", "e")


def _joined(pieces: Iterable[str]) -> str:
    """The text of the pieces, as far as a message shows it: what comes after that is not even put together."""
    result: list[str] = []
    length = 0
    for piece in pieces:
        result.append(piece)
        length += len(piece)
        if length > LONGEST_EXCERPT:
            break
    return excerpt("".join(result))


def _go_syntax(value: object) -> Iterator[str]:
    """Go's `%#v` of a decoded JSON value, in pieces."""
    if isinstance(value, dict):
        entries = ((str(key), _go_item(value[key])) for key in sorted(value))
        yield from _mapped("map[string]interface {}{", entries)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield "[]interface {}{"
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _go_item(item)
        yield "}"
    else:
        yield excerpt(str(value))


def _mapped(start: str, entries: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    yield start
    for number, (key, pieces) in enumerate(entries):
        yield f"{', ' if number else ''}{quoted(excerpt(key))}:"
        yield from pieces
    yield "}"


def _go_item(value: object) -> Iterator[str]:
    if value is None:
        yield "interface {}(nil)"
    elif isinstance(value, str):
        yield quoted(excerpt(value))
    elif isinstance(value, (bool, int, float)):
        yield go_scalar(value)
    else:
        yield from _go_syntax(value)
