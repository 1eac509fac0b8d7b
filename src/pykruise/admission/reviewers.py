"""Who reviews what: the webhooks of every kind, by their names, as rules an API server can follow.

kinds/<kind>/admission.py (functions) ──▶ reviewers() ──▶ the sandbox (asks in process)

Kinds review their hub version. A write in another version is converted for the review, and what the review
makes of it is converted back: `in_hub_version`.
"""

from collections.abc import Callable

import msgspec

from pykruise.kinds import conversions
from pykruise.kinds.cloneset.admission import mutate_cloneset, validate_cloneset
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, ReviewRule
from pykruise.kube.conversion import ConversionError, Conversions, convert
from pykruise.kube.documents import Document
from pykruise.kube.field_errors import bad_request
from pykruise.kube.resources import Resource

__all__ = ["in_hub_version", "reviewers"]


def reviewers() -> tuple[ReviewRule, ...]:
    """The rules of every kind. Names are those of OpenKruise's webhooks; subresources are not reviewed."""
    table = conversions()
    return (
        ReviewRule(
            name="mcloneset.kb.io",
            reviewer=in_hub_version(mutate_cloneset, table),
            mutating=True,
            wants=_writes_of(CLONE_SETS, "CREATE", "UPDATE"),
        ),
        ReviewRule(
            name="vcloneset.kb.io",
            reviewer=in_hub_version(validate_cloneset, table),
            mutating=False,
            wants=_writes_of(CLONE_SETS, "CREATE", "UPDATE", "DELETE"),
        ),
    )


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


def _writes_of(resource: Resource, *operations: str) -> Callable[[Resource, str, str], bool]:
    def wants(reviewed: Resource, subresource: str, operation: str) -> bool:
        return (
            not subresource
            and operation in operations
            and (reviewed.group, reviewed.plural) == (resource.group, resource.plural)
        )

    return wants
