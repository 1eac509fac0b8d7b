"""Rejection of privileged containers, if --allow-privileged=false forbids them.

AdmissionRequest ──▶ forbid_privileged(reviewer) ──▶ the reviewer's response, with an error per privileged container

Pure, except for the reviewer. An update is not rejected because of a container that is already privileged in the stored
object. Rule: Kubernetes' validation of a container's securityContext without AllowPrivileged.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import build_refusal, make_forbidden_error
from pykruise.pods.workload.admission import name_of

_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


class _Privileged(NamedTuple):
    """A privileged container. Its place in the list may change, so its name identifies it."""

    path: str
    place: int
    name: str


def forbid_privileged(reviewer: Reviewer) -> Reviewer:
    """Return a reviewer that responds like `reviewer`, but also rejects privileged containers in the spec."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        answer = await reviewer(request)
        if request.object is None or not is_reviewed_write(request):
            return answer
        stored = {(each.path, each.name) for each in _list_privileged(request.old_object)}
        causes = [
            make_forbidden_error(
                f"{each.path}[{each.place}].securityContext.privileged", "disallowed by cluster policy"
            )
            for each in _list_privileged(request.object)
            if (each.path, each.name) not in stored
        ]
        return _add_causes(answer, request, causes) if causes else answer

    return review


def _list_privileged(document: Mapping[str, Any] | None) -> Iterator[_Privileged]:
    """Yield the privileged containers in the spec, in any of its templates."""
    waiting: list[tuple[str, Any]] = [("spec", (document or {}).get("spec"))]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list):
            waiting += [(f"{path}[{place}]", item) for place, item in reversed(list(enumerate(value)))]
            continue
        if not isinstance(value, dict):
            continue
        for key in _LISTS:
            for place, item in enumerate(
                containers if isinstance(containers := value.get(key), list) else ()
            ):
                if isinstance(item, dict) and _is_privileged(item):
                    yield _Privileged(f"{path}.{key}", place, str(item.get("name")))
        waiting += [(f"{path}.{key}", item) for key, item in reversed(value.items()) if key not in _LISTS]


def _is_privileged(container: Mapping[str, Any]) -> bool:
    context = container.get("securityContext")
    return isinstance(context, dict) and context.get("privileged") is True


def _add_causes(answer: AdmissionAnswer, request: AdmissionRequest, causes: list[Cause]) -> AdmissionAnswer:
    """Return the response with further field errors. A rejection without field errors stays as it is."""
    earlier: tuple[Cause, ...] = ()
    if answer.refusal is not None:
        if answer.refusal.details is None or not answer.refusal.details.causes:
            return answer
        earlier = tuple(answer.refusal.details.causes)
    refusal = build_refusal(request.resource, name_of(request), [*earlier, *causes])
    return msgspec.structs.replace(answer, refusal=refusal)
