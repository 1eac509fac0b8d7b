"""Types of the errors between a client and an API server.

KubeError
├── TransportError            no response; `sent` is true when the request may have taken effect
│   ├── UnreachableError      no connection (refused, name not found, TLS failed): nothing was sent
│   ├── ConnectionLostError   the connection broke before the response was complete
│   ├── AnswerTooLargeError   the response is larger than the limit
│   ├── MalformedAnswerError  the response does not fit the request: a proxy's page, half an object
│   └── RequestTimeoutError   the response did not arrive in time
├── ApiError                  the server responded with a Status: code, reason, message, causes
│   ├── BadRequestError       400
│   ├── UnauthorizedError     401
│   ├── ForbiddenError        403
│   ├── NotFoundError         404
│   ├── MethodNotAllowedError 405
│   ├── AlreadyExistsError    409, reason AlreadyExists
│   ├── ConflictError         409, any other reason
│   ├── GoneError             410 (Gone, Expired): list again
│   ├── RequestTooLargeError  413
│   ├── UnsupportedMediaTypeError 415
│   ├── InvalidError          422, causes carry field paths
│   ├── TooManyRequestsError  429, retry_after_s
│   │   └── HeldBackError     not sent: an earlier response requested a wait
│   ├── InternalError         500
│   ├── ServerUnavailableError 502, 503, retry_after_s
│   └── ServerTimeoutError    504, and 500 with reason ServerTimeout: the request may have taken effect
├── InvalidNameError          a name that cannot be part of a path: nothing was sent
└── ConfigurationError        a kubeconfig or in-cluster configuration that cannot be used

`parse_error(status, body)` builds the right error from a response and limits its size: texts are excerpts
(kube/excerpts.py), only the first causes are kept, and a wait is LONGEST_WAIT_S at most.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pykruise.kube.excerpts import excerpt

__all__ = [
    "DISRUPTION_BUDGET",
    "LONGEST_WAIT_S",
    "REMEDY",
    "AlreadyExistsError",
    "AnswerTooLargeError",
    "ApiError",
    "BadRequestError",
    "Cause",
    "ConfigurationError",
    "ConflictError",
    "ConnectionLostError",
    "ErrorStatus",
    "ForbiddenError",
    "GoneError",
    "HeldBackError",
    "InternalError",
    "InvalidError",
    "InvalidNameError",
    "KubeError",
    "MalformedAnswerError",
    "MethodNotAllowedError",
    "NoSubresourceError",
    "NotFoundError",
    "RequestTimeoutError",
    "RequestTooLargeError",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "SilentStreamError",
    "StatusDetails",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "UnreachableError",
    "UnsupportedMediaTypeError",
    "parse_error",
]


LONGEST_WAIT_S: Final = 30.0
"""Longest wait that a response can request: any admission webhook of any user may name a time."""


class KubeError(Exception):
    """Base of all errors of this package about an API server."""


class ConfigurationError(KubeError):
    """The configuration of the cluster cannot be used; the message names the mistake, its place and the remedy."""


class InvalidNameError(KubeError):
    """A name, often from a user's spec, would change the path of a request. Nothing was sent."""


class TransportError(KubeError):
    """No response. `sent` is False only when the request certainly did not reach the server."""

    sent: bool = True


class UnreachableError(TransportError):
    """No connection could be made; the request was not sent. `origin`: the server's address, if known."""

    sent = False
    origin = ""


class ConnectionLostError(TransportError):
    """The connection broke before the response was complete; the request may have taken effect."""


class AnswerTooLargeError(ConnectionLostError):
    """The response is larger than the limit (see kube/http/connection.py); the connection was closed."""


class MalformedAnswerError(ConnectionLostError):
    """A response with status 200 is not the requested object; the request may have taken effect."""


class SilentStreamError(ConnectionLostError):
    """Nothing arrived on a stream for the requested time. This is not necessarily a fault."""


class RequestTimeoutError(TransportError):
    """The response did not arrive in time; the request may have taken effect."""


class Cause(msgspec.Struct, frozen=True):
    """An entry of `details.causes` of a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""Reason of the cause in a Status by which a disruption budget rejects a request. API servers use it for evictions, and
a webhook that guards pods uses it too. The message of the cause says why, and contains no action.
"""

REMEDY: Final = "Remedy"
"""Reason of a further cause, with the action that a person can take as its message. API servers do not send it."""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """`details` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class ErrorStatus(msgspec.Struct, frozen=True):
    """Kubernetes' `metav1.Status`: the response to a request that returns no object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(KubeError):
    """The API server rejected the request; `str()` is its message. `retry_after_s`: the wait that it requests,
    LONGEST_WAIT_S at most; None: it requests no wait.
    """

    def __init__(self, status: ErrorStatus, *, retry_after_s: float | None = None) -> None:
        super().__init__(status.message or status.reason or f"HTTP {status.code}")
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """Kubernetes' machine-readable reason, such as `NotFound`."""
        return self.status.reason

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Field errors of a 422, each with its path."""
        return self.status.details.causes if self.status.details else ()


class BadRequestError(ApiError):
    """Status 400: the API server cannot read the request, or the request contradicts itself."""


class UnauthorizedError(ApiError):
    """401: credentials missing, wrong or expired."""


class ForbiddenError(ApiError):
    """403: RBAC, a quota or an admission webhook denied the request."""


class NotFoundError(ApiError):
    """404: the object, its namespace or the whole resource does not exist."""


class NoSubresourceError(ApiError):
    """404 for a subresource of an object that exists: the API server does not serve the subresource."""


class MethodNotAllowedError(ApiError):
    """Status 405: the resource does not support this verb."""


class AlreadyExistsError(ApiError):
    """409: an object of that name exists."""


class ConflictError(ApiError):
    """409: a precondition (resourceVersion, uid, field manager) does not hold."""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class RequestTooLargeError(ApiError):
    """Status 413: the request is larger than the API server accepts."""


class UnsupportedMediaTypeError(ApiError):
    """415: this patch type is not supported for the resource."""


class InvalidError(ApiError):
    """422: the object breaks a validation rule; see `causes`."""


class TooManyRequestsError(ApiError):
    """429: the server, a priority level or a disruption budget requests a later retry."""


class HeldBackError(TooManyRequestsError):
    """A request that was not sent: a response to a request of the same scope requested a wait that has not ended."""


class InternalError(ApiError):
    """Status 500: the API server, or a webhook that it called, failed."""


class ServerUnavailableError(ApiError):
    """502 or 503."""


class ServerTimeoutError(ApiError):
    """504 (or 500 with reason ServerTimeout): the request may have taken effect."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    410: GoneError,
    413: RequestTooLargeError,
    415: UnsupportedMediaTypeError,
    422: InvalidError,
    429: TooManyRequestsError,
    500: InternalError,
    502: ServerUnavailableError,
    503: ServerUnavailableError,
    504: ServerTimeoutError,
}

_BY_REASON: Mapping[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "ServerTimeout": ServerTimeoutError,
}

_decode_status = msgspec.json.Decoder(ErrorStatus).decode

_MOST_CAUSES: Final = 16

_MOST_DIGITS: Final = 10
"""Maximum number of digits of a wait: longer numbers are too long in any case, and parsing 200,000 digits takes time.
"""


def parse_error(code: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the typed error of a response with an error code; a body that is not a Status becomes the message."""
    try:
        status = _shorten(_decode_status(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = ErrorStatus(message=body[:500].decode("utf-8", "replace").strip())
    if status.code != code:
        status = msgspec.structs.replace(status, code=code)
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code)
    if kind is None:
        kind = InternalError if code >= 500 else BadRequestError if code >= 400 else ApiError
    return kind(status, retry_after_s=_retry_after(status, headers or {}))


def _shorten(status: ErrorStatus) -> ErrorStatus:
    """Shorten the texts and causes of a Status. An object of 200 kB can be rejected with 5,000 causes."""
    details = status.details
    if details is not None:
        details = StatusDetails(
            name=excerpt(details.name),
            group=excerpt(details.group),
            kind=excerpt(details.kind),
            uid=excerpt(details.uid),
            causes=tuple(
                Cause(excerpt(cause.reason), excerpt(cause.message), excerpt(cause.field))
                for cause in details.causes[:_MOST_CAUSES]
            ),
            retry_after_seconds=min(details.retry_after_seconds, int(LONGEST_WAIT_S)),
        )
    return ErrorStatus(
        status=excerpt(status.status),
        message=excerpt(status.message),
        reason=excerpt(status.reason),
        code=status.code,
        details=details,
    )


def _retry_after(status: ErrorStatus, headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdecimal():
        digits = text.lstrip("0")
        return _limit_wait_s(int(digits or "0")) if len(digits) < _MOST_DIGITS else LONGEST_WAIT_S
    if status.details and status.details.retry_after_seconds > 0:
        return _limit_wait_s(status.details.retry_after_seconds)
    return None


def _limit_wait_s(seconds: int) -> float:
    return float(min(seconds, int(LONGEST_WAIT_S)))
