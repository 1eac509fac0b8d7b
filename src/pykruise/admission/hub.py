"""Reviews in the hub version: kinds review one version, whichever a write comes in.

AdmissionRequest in any served version ──▶ in_hub_version(reviewer) ──▶ the answer in the version of the write

Pure but for what the reviewer does.
"""

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.conversion import ConversionError, Conversions, convert
from pykruise.kube.documents import Document
from pykruise.kube.field_errors import bad_request

__all__ = ["in_hub_version"]


def in_hub_version(reviewer: Reviewer, table: Conversions) -> Reviewer:
    """The reviewer for writes in every version that the table converts to its hub version.

    What it changes comes back in the version of the write. Field errors name the fields of the hub version,
    as the original's do. An object that cannot be converted is refused with 400.
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
            if answer.object is None:
                return answer
            changed = convert(answer.object, resource.api_version, table)
        except ConversionError as err:
            return AdmissionAnswer(refusal=bad_request(str(err)))
        return msgspec.structs.replace(answer, object=changed)

    return review
