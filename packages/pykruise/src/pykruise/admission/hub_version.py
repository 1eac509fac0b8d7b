"""Reviews in the hub version: a kind has rules for this version only, and a write in another version is converted
first.

AdmissionRequest in any served version ──▶ convert_to_hub(reviewer) ──▶ the response in the version of the write
      └── unconverted object ──▶ SpokeRules ── further errors, names of fields ──┘

The kind's SpokeRules report errors that conversion hides (because it replaces an invalid value), and errors that exist
only in the older version. Pure, except for the reviewer and the rules.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, SpokeRules
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import Cause, ErrorStatus
from pykruise.kube.pod_rules.field_errors import build_bad_request, build_refusal
from pykruise.kube.schemas.conversion import ConversionError, Conversions, convert

_INVALID: Final = 422


def convert_to_hub(reviewer: Reviewer, table: Conversions, *, spoke: SpokeRules | None = None) -> Reviewer:
    """Return a reviewer for writes in all versions that the table can convert to the hub version of `reviewer`.

    Changes are returned in the version of the write. `spoke` adds errors of the older version to the reviewer's field
    errors, and gives fields their names in the older version; without `spoke`, fields have their names in the hub
    version. An object that cannot be converted is rejected with 400.
    """

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        resource = request.resource
        conversion = table.get((resource.group, resource.kind))
        if conversion is None or resource.version != conversion.spoke:
            return await reviewer(request)
        hub = msgspec.structs.replace(resource, version=conversion.hub)

        def to_hub(doc: Document | None) -> Document | None:
            return None if doc is None else convert(doc, hub.api_version, table)

        try:
            converted = msgspec.structs.replace(
                request, resource=hub, object=to_hub(request.object), old_object=to_hub(request.old_object)
            )
            answer = await reviewer(converted)
            if spoke is not None:
                answer = await _with_rules_of(spoke, request, answer)
            if answer.object is None:
                return answer
            changed = convert(answer.object, resource.api_version, table)
        except ConversionError as err:
            return AdmissionAnswer(refusal=build_bad_request(str(err)))
        return msgspec.structs.replace(answer, object=changed)

    return review


async def _with_rules_of(
    spoke: SpokeRules, request: AdmissionRequest, answer: AdmissionAnswer
) -> AdmissionAnswer:
    """Return the response with the errors of both versions. A rejection that contains no field errors is not
    changed.
    """
    if answer.refusal is not None and answer.refusal.code != _INVALID:
        return answer
    causes = [*_rename_fields(answer.refusal, spoke), *await spoke.errors(request)]
    if causes:
        name = get_path(request.object, "metadata", "name") or request.name
        return AdmissionAnswer(refusal=build_refusal(request.resource, name, causes))
    return msgspec.structs.replace(answer, refusal=None)


def _rename_fields(refused: ErrorStatus | None, spoke: SpokeRules) -> Iterator[Cause]:
    """Yield the reviewer's field errors, with the field names of the older version."""
    if refused is None or refused.details is None:
        return
    for cause in refused.details.causes:
        field = spoke.field_of(cause.field)
        if field is not None:
            yield msgspec.structs.replace(cause, field=field)
