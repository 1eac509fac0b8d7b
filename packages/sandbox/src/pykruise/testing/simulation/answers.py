"""Responses that a test sends in place of an API server."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykruise.kube.client.transport import Response

__all__ = ["ScriptedAnswer"]

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True)
class ScriptedAnswer:
    """A response with this HTTP status. Its content is `body`, or else a Status object.

    `takes_effect`: the request is executed nevertheless, as with a 500 or 504 that is sent after a write is stored.
    """

    status: int
    reason: str = ""
    message: str = "on purpose"
    retry_after_s: int | None = None
    takes_effect: bool = False
    body: bytes | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_response(self) -> Response:
        """Return the response as an API server sends it."""
        headers = {"content-type": "application/json"}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        body = self.body
        if body is None:
            body = json.dumps(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "code": self.status,
                    "reason": self.reason or _REASONS.get(self.status, ""),
                    "message": self.message,
                    "details": dict(self.details),
                }
            ).encode()
        return Response(self.status, headers, body)
