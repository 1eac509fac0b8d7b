"""Field errors with the messages of a Kubernetes API server: the `details.causes` of a 422.

A rule finds a mistake ──▶ make_required_error(), make_invalid_error(), … ──▶ Cause ──▶ build_refusal()
    ──▶ the Status of a 422

Pure. Validation collects all errors, so that users do not have to fix an object one error at a time.

`field` paths are plain strings: `spec.containers[0].name`. Values are shown as Go shows them, because people and
scripts compare these messages. Only the beginning of a long value is shown (go_text.py: `excerpt`), so that a response
is never many times as long as the request.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pykruise.kube.errors import Cause, ErrorStatus, StatusDetails
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import LONGEST_EXCERPT, excerpt, quote_text

__all__ = [
    "build_bad_request",
    "build_refusal",
    "drop_stored_errors",
    "format_go_scalar",
    "format_go_string_map",
    "format_go_strings",
    "format_shown",
    "make_duplicate_error",
    "make_forbidden_error",
    "make_internal_error",
    "make_invalid_error",
    "make_invalid_shown_error",
    "make_invalid_whole_error",
    "make_not_found_error",
    "make_not_supported_error",
    "make_required_error",
    "make_too_long_error",
    "make_too_many_error",
]

ROOT = "<nil>"
"""Field name that the server uses for an error without a field."""

MOST_CAUSES: Final = 1_000
"""Maximum number of field errors in one response, which states how many more there are."""

LONGEST_PART: Final = 2_048
"""Maximum number of characters of a field's path, or of a message."""


def make_required_error(field: str, detail: str = "") -> Cause:
    """Return the error for a missing or empty required value."""
    return Cause(reason="FieldValueRequired", message=_append_detail("Required value", detail), field=field)


def make_invalid_error(field: str, value: object, detail: str) -> Cause:
    """Return the error for a value that breaks the rule `detail`."""
    return Cause(
        reason="FieldValueInvalid", message=f"Invalid value: {format_shown(value)}: {detail}", field=field
    )


def make_invalid_shown_error(field: str, text: str, detail: str) -> Cause:
    """Return the error of make_invalid_error for a value that the server shows as a Go struct; `text` is the struct."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {excerpt(text)}: {detail}", field=field)


def make_invalid_whole_error(field: str, detail: str) -> Cause:
    """Return the error of make_invalid_error for a value as a whole: the message does not show the value."""
    return Cause(reason="FieldValueInvalid", message=f"Invalid value: {detail}", field=field)


def make_type_error(field: str, value: object, detail: str) -> Cause:
    """Return the error for a value of another type than in the schema."""
    message = f"Invalid value: {format_shown(value)}: {detail}"
    return Cause(reason="FieldValueTypeInvalid", message=message, field=field)


def make_not_supported_error(field: str, value: object, supported: Iterable[str], *, text: str = "") -> Cause:
    """Return the error for a value outside a closed set; `supported` is in the order of the message, `text` shows the
    value.
    """
    values = ", ".join(quote_text(each) for each in supported)
    detail = f"supported values: {values}" if values else ""
    message = _append_detail(f"Unsupported value: {text or format_shown(value)}", detail)
    return Cause(reason="FieldValueNotSupported", message=message, field=field)


def make_duplicate_error(field: str, value: object) -> Cause:
    """Return the error for a repeated value that must be unique."""
    return Cause(reason="FieldValueDuplicate", message=f"Duplicate value: {format_shown(value)}", field=field)


def make_forbidden_error(field: str, detail: str) -> Cause:
    """Return the error for a value or change that is not allowed here."""
    return Cause(reason="FieldValueForbidden", message=_append_detail("Forbidden", detail), field=field)


def make_not_found_error(field: str, value: object) -> Cause:
    """Return the error for a reference to an object that does not exist."""
    return Cause(reason="FieldValueNotFound", message=f"Not found: {format_shown(value)}", field=field)


def make_internal_error(field: str, detail: str) -> Cause:
    """Return the error for a value that could not be validated."""
    return Cause(reason="InternalError", message=f"Internal error: {detail}", field=field)


def make_too_long_error(field: str, most: int) -> Cause:
    """Return the error for a string of more than `most` bytes; the value itself is not repeated."""
    message = f"Too long: may not be more than {most} bytes"
    return Cause(reason="FieldValueTooLong", message=message, field=field)


def make_too_many_error(field: str, actual: int, most: int) -> Cause:
    """Return the error for a list or map with more entries than allowed."""
    message = f"Too many: {actual}: must have at most {most} items"
    return Cause(reason="FieldValueTooMany", message=message, field=field)


def format_shown(value: object) -> str:
    """Return a value as the server prints it in a message: strings in quotes, other values as Go formats them,
    shortened.
    """
    if value is None:
        return '"null"'
    if isinstance(value, str):
        return quote_text(excerpt(value))
    if isinstance(value, (bool, int, float)):
        return format_go_scalar(value)
    return _join_start(_go_syntax(value))


def format_go_scalar(value: Any) -> str:
    """Return a string, number or boolean as Go's `%v` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value)
    return excerpt(str(value))


def build_refusal(resource: Resource, name: str, causes: Sequence[Cause]) -> ErrorStatus:
    """Return the response 422 with the first MOST_CAUSES field errors, in the API server's words."""
    name = excerpt(name)
    shortened = [_shorten(cause) for cause in causes[:MOST_CAUSES]]
    lines = [f"{cause.field}: {cause.message}" for cause in shortened]
    if len(causes) > MOST_CAUSES:
        lines.append(f"and {len(causes) - MOST_CAUSES} more")
    listed = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return ErrorStatus(
        status="Failure",
        message=f"{kind} {quote_text(name)} is invalid: {listed}",
        reason="Invalid",
        code=422,
        details=StatusDetails(name=name, group=resource.group, kind=resource.kind, causes=tuple(shortened)),
    )


def drop_stored_errors(errors: Sequence[Cause], stored: Callable[[], Iterable[Cause]]) -> list[Cause]:
    """Return the errors that the stored object does not have: an error that it has already must not prevent a user from
    changing something else. `stored` returns the errors of the stored object; it is called only when there are errors.
    """
    if not errors:
        return []
    known = {(cause.field, cause.message) for cause in stored()}
    return [error for error in errors if (error.field, error.message) not in known]


def _shorten(cause: Cause) -> Cause:
    """Return the cause with its path and message limited in length, because users write keys and texts in them."""
    if len(cause.field) <= LONGEST_PART and len(cause.message) <= LONGEST_PART:
        return cause
    return Cause(
        reason=cause.reason,
        message=excerpt(cause.message, LONGEST_PART),
        field=excerpt(cause.field, LONGEST_PART),
    )


def build_bad_request(message: str) -> ErrorStatus:
    """Return the response 400: the object cannot be read at all."""
    return ErrorStatus(
        status="Failure", message=excerpt(message, 2 * LONGEST_PART), reason="BadRequest", code=400
    )


def format_go_string_map(value: Mapping[str, str] | None) -> str:
    """Return a `map[string]string` as the server prints it in a message, shortened."""
    if value is None:
        return "map[string]string(nil)"
    return _join_start(
        _map_pieces("map[string]string{", ((key, iter((format_shown(value[key]),))) for key in sorted(value)))
    )


def format_go_strings(values: Iterable[str]) -> str:
    """Return a `[]string` as the server prints it in a message, shortened."""
    pieces = (f"{', ' if number else ''}{format_shown(value)}" for number, value in enumerate(values))
    return _join_start(("[]string{", *pieces, "}"))


def _append_detail(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message


def _go_float(value: float) -> str:
    if value != value or math.isinf(value):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace(".0e", "e")


def _join_start(pieces: Iterable[str]) -> str:
    """Return the joined text of the pieces as far as a message shows it. Further pieces are not computed."""
    result: list[str] = []
    length = 0
    for piece in pieces:
        result.append(piece)
        length += len(piece)
        if length > LONGEST_EXCERPT:
            break
    return excerpt("".join(result))


def _go_syntax(value: object) -> Iterator[str]:
    """Yield Go's `%#v` of a decoded JSON value, in pieces."""
    if isinstance(value, dict):
        entries = ((str(key), _go_item(value[key])) for key in sorted(value))
        yield from _map_pieces("map[string]interface {}{", entries)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield "[]interface {}{"
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _go_item(item)
        yield "}"
    else:
        yield excerpt(str(value))


def _map_pieces(start: str, entries: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    yield start
    for number, (key, pieces) in enumerate(entries):
        yield f"{', ' if number else ''}{quote_text(excerpt(key))}:"
        yield from pieces
    yield "}"


def _go_item(value: object) -> Iterator[str]:
    if value is None:
        yield "interface {}(nil)"
    elif isinstance(value, str):
        yield quote_text(excerpt(value))
    elif isinstance(value, (bool, int, float)):
        yield format_go_scalar(value)
    else:
        yield from _go_syntax(value)
