"""Statuses of the API server: `metav1.Status` with the messages of a real API server.

a rule is broken ──▶ raise a Refusal built here ──▶ server.py encodes it ──▶ Response

Pure. Error texts, reasons and codes (apimachinery's `api/errors` package) are only here, nowhere else in the sandbox.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.errors import Cause, ErrorStatus, StatusDetails
from pykruise.kube.resources import Resource
from pykruise.kube.values.go_text import quote_text


class Refusal(Exception):  # noqa: N818  (it is a response, not a fault of this program)
    """Ends the request with an error Status as the response. `continue_token` is set in the metadata of the Status."""

    def __init__(self, status: ErrorStatus, *, continue_token: str = "") -> None:
        super().__init__(status.message)
        self.status = status
        self.continue_token = continue_token

    @property
    def code(self) -> int:
        """HTTP status code."""
        return self.status.code


def build_status_document(status: ErrorStatus, *, continue_token: str = "") -> dict[str, Any]:
    """The Status as a document, with its members in the order of a real API server, and without empty members."""
    doc: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": continue_token} if continue_token else {},
        "status": status.status or "Failure",
    }
    if status.message:
        doc["message"] = status.message
    if status.reason:
        doc["reason"] = status.reason
    if status.details is not None:
        doc["details"] = _build_details_document(status.details)
    if status.code:
        doc["code"] = status.code
    return doc


def status_of(doc: Mapping[str, Any]) -> ErrorStatus:
    """Read the Status in a webhook's response. Members that are not valid are left out."""
    result = {member: doc.get(member) for member in ("status", "message", "reason")}
    code = doc.get("code")
    try:
        details = msgspec.convert(doc.get("details"), StatusDetails | None, strict=False)
    except msgspec.ValidationError:
        details = None
    return ErrorStatus(
        **{member: value if isinstance(value, str) else "" for member, value in result.items()},
        code=code if isinstance(code, int) else 0,
        details=details,
    )


def build_success_document(*, name: str, group: str, kind: str, uid: str) -> dict[str, Any]:
    """The Status of a completed deletion; `kind` is the plural of the resource, as on a real server."""
    details = {"name": name, "group": group, "kind": kind, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {field: value for field, value in details.items() if value},
    }


def make_not_found(resource: Resource, name: str) -> Refusal:
    """404: `pods "x" not found`."""
    return _make_refusal(
        404, "NotFound", f"{resource} {quote_text(name)} not found", _build_details(resource, name)
    )


def page_not_found() -> Refusal:
    """404: the path is not served."""
    return _make_refusal(404, "NotFound", "the server could not find the requested resource", StatusDetails())


def make_already_exists(resource: Resource, name: str) -> Refusal:
    """409: `pods "x" already exists`."""
    return _make_refusal(
        409, "AlreadyExists", f"{resource} {quote_text(name)} already exists", _build_details(resource, name)
    )


def make_conflict(resource: Resource, name: str, why: str, *, of: str = "") -> Refusal:
    """409: `Operation cannot be fulfilled on pods "x": why`. `of` replaces the resource in message and details."""
    details = StatusDetails(name=name, group=resource.group, kind=of or resource.plural)
    called = (f"{of}.{resource.group}" if resource.group else of) if of else str(resource)
    message = f"Operation cannot be fulfilled on {called} {quote_text(name)}: {why}"
    return _make_refusal(409, "Conflict", message, details)


MODIFIED_MEANWHILE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def make_bad_request(message: str) -> Refusal:
    """400: the request is invalid."""
    return _make_refusal(400, "BadRequest", message)


def make_forbidden(resource: Resource, name: str, why: str, causes: Sequence[Cause] = ()) -> Refusal:
    """403: `pods "x" is forbidden: why`."""
    details = StatusDetails(name=name, group=resource.group, kind=resource.plural, causes=tuple(causes))
    called = f"{resource} {quote_text(name)}" if name else str(resource)
    return _make_refusal(403, "Forbidden", f"{called} is forbidden: {why}", details)


def make_invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> Refusal:
    """422: `Pod "x" is invalid: spec.a: Required value`; several causes are in brackets."""
    listed = tuple(causes)
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in listed))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    called = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind, causes=listed)
    return _make_refusal(422, "Invalid", f"{called} {quote_text(name)} is invalid: {joined}", details)


def make_invalid_options(kind: str, causes: Iterable[Cause]) -> Refusal:
    """Return the 422 for the query or options of a request: `ListOptions.meta.k8s.io "" is invalid: …`."""
    return make_invalid(kind, "meta.k8s.io", "", causes)


def make_unprocessable() -> Refusal:
    """422: the patch is valid but cannot be applied, such as a JSON patch whose `test` fails.

    A real API server does not give the reason.
    """
    message = "the server rejected our request due to an error in our request"
    return _make_refusal(422, "Invalid", message, StatusDetails())


def make_method_not_allowed() -> Refusal:
    """405: the path exists, but not with this method."""
    message = "the server does not allow this method on the requested resource"
    return _make_refusal(405, "MethodNotAllowed", message, StatusDetails())


def make_no_process_refusal(subresource: str) -> Refusal:
    """501: the request needs a process in a container."""
    message = f"pods of this cluster are simulated: {subresource} has no process to connect to"
    return _make_refusal(501, "NotImplemented", message, StatusDetails())


def make_not_while_terminating(resource: Resource) -> Refusal:
    """405: no object may be created, because its CRD is terminating."""
    message = "create not allowed while custom resource definition is terminating"
    return _make_refusal(
        405, "MethodNotAllowed", message, StatusDetails(group=resource.group, kind=resource.plural)
    )


def make_method_not_supported(resource: Resource, action: str) -> Refusal:
    """405: the resource does not support the action."""
    message = f'{action} is not supported on resources of kind "{resource}"'
    details = StatusDetails(group=resource.group, kind=resource.plural)
    return _make_refusal(405, "MethodNotAllowed", message, details)


def make_not_acceptable(offered: Sequence[str]) -> Refusal:
    """406: none of the requested media types is supported."""
    message = f"only the following media types are accepted: {', '.join(offered)}"
    return _make_refusal(406, "NotAcceptable", message)


def make_unsupported_media_type(accepted: Sequence[str]) -> Refusal:
    """415: the media type of the body is not supported."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return _make_refusal(415, "UnsupportedMediaType", message)


def make_wrong_content_type() -> Refusal:
    """415: a built-in resource does not accept this type of patch. Its router rejects it before any other check."""
    return _make_refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", StatusDetails())


def make_no_representation(offered: Sequence[str]) -> Refusal:
    """Return the 406 of a built-in resource."""
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    return _make_refusal(406, "NotAcceptable", message, StatusDetails())


def make_request_entity_too_large(limit: int) -> Refusal:
    """413: the body is larger than `limit` bytes."""
    message = f"Request entity too large: limit is {limit}"
    return _make_refusal(413, "RequestEntityTooLarge", message)


def make_expired(message: str) -> Refusal:
    """410: the resourceVersion has been compacted; the client must list again."""
    return _make_refusal(410, "Expired", message)


def continue_token_expired(token: str = "") -> Refusal:
    """410: a continue token has expired. With `token`, the client can continue the list at the newest state, but the
    list is then inconsistent. If `token` is empty, the client cannot continue.
    """
    message = (
        "The provided continue parameter is too old to display a consistent list result. "
        "You can start a new list without the continue parameter"
    )
    if token:
        message += (
            ", or use the continue token in this response to retrieve the remainder of the results. "
            "Continuing with the provided token results in an inconsistent list - objects that were created, "
            "modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list"
        )
    refusal = make_expired(f"{message}.")
    refusal.continue_token = token
    return refusal


def make_too_large_resource_version(asked: int, current: int) -> Refusal:
    """504: the resourceVersion is in the future."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = (Cause(reason="ResourceVersionTooLarge", message="Too large resource version"),)
    return _make_refusal(504, "Timeout", message, StatusDetails(causes=causes, retry_after_seconds=1))


def make_too_many_requests(message: str, *, retry_after_s: int = 0, causes: Sequence[Cause] = ()) -> Refusal:
    """429: the client must try again later."""
    details = StatusDetails(retry_after_seconds=retry_after_s, causes=tuple(causes))
    return _make_refusal(429, "TooManyRequests", message, details)


def make_internal_error(why: str) -> Refusal:
    """500: an internal error; the cause has the text."""
    details = StatusDetails(causes=(Cause(message=why),))
    return _make_refusal(500, "InternalError", f"Internal error occurred: {why}", details)


def make_unclassified_error(message: str) -> Refusal:
    """500 without a reason, as a real API server reports an error that it cannot classify."""
    return _make_refusal(500, "", message)


def _make_refusal(code: int, reason: str, message: str, details: StatusDetails | None = None) -> Refusal:
    return Refusal(ErrorStatus(status="Failure", message=message, reason=reason, code=code, details=details))


def _build_details(resource: Resource, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=resource.group, kind=resource.plural)


def _build_details_document(details: StatusDetails) -> Mapping[str, Any]:
    doc: dict[str, Any] = {
        field: value
        for field, value in (
            ("name", details.name),
            ("group", details.group),
            ("kind", details.kind),
            ("uid", details.uid),
        )
        if value
    }
    if details.causes:
        doc["causes"] = [_cause_document(cause) for cause in details.causes]
    if details.retry_after_seconds:
        doc["retryAfterSeconds"] = details.retry_after_seconds
    return doc


def _cause_document(cause: Cause) -> dict[str, str]:
    members = (("reason", cause.reason), ("message", cause.message), ("field", cause.field))
    return {member: text for member, text in members if text}
