"""Field errors as Kubernetes writes them: where, which value, and what would be accepted.

a rule ──▶ required(), invalid(), ... ──▶ Cause (kube/errors.py) ──▶ refusal() ──▶ the Status of a 422

Pure. Validation collects them all; nobody has to fix an object one error at a time.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pykruise.kube.errors import Cause, Status, StatusDetails
from pykruise.kube.go_text import quoted
from pykruise.kube.resources import Resource

__all__ = [
    "bad_request",
    "duplicate",
    "forbidden",
    "invalid",
    "not_found",
    "not_supported",
    "refusal",
    "required",
]


def required(field: str, detail: str = "") -> Cause:
    """A value that is missing."""
    return _cause("FieldValueRequired", field, "Required value", detail)


def invalid(field: str, value: Any, detail: str) -> Cause:
    """A value that breaks a rule."""
    return _cause("FieldValueInvalid", field, f"Invalid value: {_shown(value)}", detail)


def duplicate(field: str, value: Any) -> Cause:
    """A value that may be there only once."""
    return _cause("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}", "")


def not_found(field: str, value: Any) -> Cause:
    """A reference to something that is not there."""
    return _cause("FieldValueNotFound", field, f"Not found: {_shown(value)}", "")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """A value outside a closed set."""
    detail = "supported values: " + ", ".join(quoted(one) for one in supported)
    return _cause("FieldValueNotSupported", field, f"Unsupported value: {_shown(value)}", detail)


def forbidden(field: str, detail: str) -> Cause:
    """Something that is not allowed here."""
    return _cause("FieldValueForbidden", field, "Forbidden", detail)


def refusal(resource: Resource, name: str, causes: Sequence[Cause]) -> Status:
    """The answer 422 with all field errors, worded as an API server words it."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Status(
        status="Failure",
        message=f"{kind} {quoted(name)} is invalid: {listed}",
        reason="Invalid",
        code=422,
        details=StatusDetails(name=name, group=resource.group, kind=resource.kind, causes=tuple(causes)),
    )


def bad_request(message: str) -> Status:
    """The answer 400: the object cannot be read at all."""
    return Status(status="Failure", message=message, reason="BadRequest", code=400)


def _cause(reason: str, field: str, message: str, detail: str) -> Cause:
    return Cause(reason=reason, message=f"{message}: {detail}" if detail else message, field=field)


def _shown(value: Any) -> str:
    if value is None:
        return '"null"'
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
