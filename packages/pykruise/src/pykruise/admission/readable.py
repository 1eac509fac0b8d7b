"""An object whose metadata cannot be read is refused before a kind's own review looks at it.

AdmissionRequest ──▶ readable(reviewer) ──▶ 400 with the place, or the reviewer's answer

Pure but for what the reviewer does. An API server sends no such object; specs are read by the reviews themselves.
"""

from typing import Any

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.pod_rules.field_errors import bad_request


class _Metadata(msgspec.Struct, rename="camel"):
    """Fields that reviews read of the metadata. A null is an absent field."""

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


def readable(reviewer: Reviewer) -> Reviewer:
    """The reviewer of a kind, for objects whose metadata have the right types."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation in ("CREATE", "UPDATE"):
            for doc in (request.object, request.old_object):
                try:
                    msgspec.convert(doc or {}, _Object)
                except msgspec.ValidationError as error:
                    text, _, place = str(error).partition(" - at `$.")
                    problem = f"not a {request.resource.kind}: {place.rstrip('`')}: {text}"
                    return AdmissionAnswer(refusal=bad_request(problem))
        return await reviewer(request)

    return review
