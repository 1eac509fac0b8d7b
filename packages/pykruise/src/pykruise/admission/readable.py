"""Rejection of objects with unreadable metadata, spec or status, before the review of their kind.

AdmissionRequest ──▶ check_metadata(reviewer) ──▶ 400 with the field, or the reviewer's response

Pure, except for the reviewer. API servers do not send such objects. Of spec and status, this module checks only that
they are objects: the reviews of kinds read their fields.
"""

from typing import Any

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.pod_rules.field_errors import build_bad_request


class _Metadata(msgspec.Struct, rename="camel"):
    """Metadata fields that reviews read. The value null means that the field is absent."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


def check_metadata(reviewer: Reviewer) -> Reviewer:
    """Return a reviewer that first checks the types of metadata, spec and status in creations and updates, and then
    calls `reviewer`.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation in ("CREATE", "UPDATE"):
            for doc in (request.object, request.old_object):
                try:
                    msgspec.convert(doc or {}, _Object)
                except msgspec.ValidationError as error:
                    text, _, place = str(error).partition(" - at `$.")
                    problem = f"not a {request.resource.kind}: {place.rstrip('`')}: {text}"
                    return AdmissionAnswer(refusal=build_bad_request(problem))
        return await reviewer(request)

    return review
