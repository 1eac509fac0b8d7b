"""What cannot be read is refused before a kind's own review looks at it.

AdmissionRequest ──▶ readable(reviewer) ──▶ 400 with the place, or the reviewer's answer

Pure but for what the reviewer does.
"""

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.field_errors import bad_request
from pykruise.pods.template_shape import shape_problem

__all__ = ["readable"]


def readable(reviewer: Reviewer) -> Reviewer:
    """The reviewer of a workload, for objects whose metadata and templates have the right types."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if request.operation in ("CREATE", "UPDATE"):
            for doc in (request.object, request.old_object):
                if doc is not None and (problem := shape_problem(doc)):
                    return AdmissionAnswer(refusal=bad_request(f"not a {request.resource.kind}: {problem}"))
        return await reviewer(request)

    return review
