"""The two admission reviews that every workload has, made of what a kind knows about itself.

AdmissionRequest ──▶ Reviews.mutating(with_defaults) ──▶ the object with its defaults
                 ──▶ Reviews.validating(errors_of)   ──▶ allowed, or refused (422) with every field error

Pure but for their shape (`async`, as all reviewers). An object that cannot be read, or a version that is not
reviewed, is refused with 400. What is on its way out is left alone: a deletion must not fail over a spec.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.kube.documents import Document, get_path, same
from pykruise.kube.errors import Cause, KubeError, Status
from pykruise.kube.field_errors import bad_request, refusal
from pykruise.kube.resources import Resource
from pykruise.pods.template_validation import unknown_field_warnings, why_unreadable

__all__ = ["Reviews", "name_of"]

S = TypeVar("S")


class Reviews(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """The reviews of one kind. S is its typed spec."""

    resource: Resource
    versions: tuple[str, ...]
    """Versions that are reviewed as they are given."""
    read_spec: Callable[[Mapping[str, Any]], tuple[S | None, str]]
    """The typed spec, or None and `<path>: <what is wrong>`."""
    placeholders: tuple[str, ...] = ("selector", "template")
    """Required objects of the spec whose absence validation reports, rather than reading."""
    has_pod_template: bool = True
    """Whether `spec.template` is of pods; fields of it that Kubernetes does not know are warned of."""

    further_templates: tuple[tuple[str, ...], ...] = ()
    """Paths of pod templates elsewhere in the spec."""

    def mutating(self, with_defaults: Callable[[AdmissionRequest, Document], Document]) -> Reviewer:
        """`with_defaults(request, object)` gives the object as it is to be stored, and changes nothing."""

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            if (answer := self._answer_at_once(request)) is not None:
                return answer
            assert request.object is not None
            found = with_defaults(request, request.object)
            return ALLOWED if same(found, request.object) else AdmissionAnswer(object=found)

        return review

    def validating(
        self,
        errors_of: Callable[[AdmissionRequest, Document, S], Sequence[Cause]],
        *,
        warnings_of: Callable[[Document, S], Iterable[str]] = lambda _doc, _spec: (),
    ) -> Reviewer:
        """`errors_of(request, object, spec)` names all that is wrong; `warnings_of(object, spec)` doubts that stop
        nothing. Deletions are allowed here, and so is what completes one."""

        async def judge(request: AdmissionRequest, doc: Document, spec: S) -> Sequence[Cause]:
            return errors_of(request, doc, spec)

        return self.judging(judge, warnings_of=warnings_of)

    def judging(
        self,
        errors_of: Callable[[AdmissionRequest, Document, S], Awaitable[Sequence[Cause]]],
        *,
        warnings_of: Callable[[Document, S], Iterable[str]] = lambda _doc, _spec: (),
    ) -> Reviewer:
        """The same of a kind whose `errors_of` asks the cluster. When that raises KubeError, the answer is a 500."""

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            if (answer := self._answer_at_once(request)) is not None:
                return answer
            assert request.object is not None
            spec, problem_text = self._read(request.object)
            assert spec is not None, problem_text
            try:
                errors = await errors_of(request, request.object, spec)
            except KubeError as error:
                return AdmissionAnswer(refusal=self._unavailable(error))
            if errors:
                return AdmissionAnswer(refusal=refusal(self.resource, name_of(request), errors))
            return AdmissionAnswer(
                warnings=(*warnings_of(request.object, spec), *self._unknown_fields(request.object))
            )

        return review

    def _answer_at_once(self, request: AdmissionRequest) -> AdmissionAnswer | None:
        """To a write that is not reviewed, or cannot be; None: it is reviewed."""
        if not is_reviewed_write(request):
            return ALLOWED
        problem = self._unreadable(request)
        return AdmissionAnswer(refusal=problem) if problem is not None else None

    def _unavailable(self, error: KubeError) -> Status:
        text = f"what the {self.resource.kind} has to be compared with cannot be read: {error}"
        return Status(status="Failure", message=text, reason="InternalError", code=500)

    def _unknown_fields(self, doc: Document) -> list[str]:
        template = (doc.get("spec") or {}).get("template")
        if not self.has_pod_template or not isinstance(template, Mapping):
            return []
        return unknown_field_warnings(template, "spec.template")

    def _unreadable(self, request: AdmissionRequest) -> Status | None:
        """The 400 for an object that cannot be read as one of this kind."""
        resource = request.resource
        if resource.group != self.resource.group or resource.version not in self.versions:
            return bad_request(f"{resource.api_version} {resource.kind} is not reviewed here")
        if request.object is None:
            return bad_request("the request has no object")
        spec, problem = self._read(request.object)
        if spec is None:
            return bad_request(problem)
        problem = self._of_templates(request)
        return bad_request(problem) if problem else None

    def _of_templates(self, request: AdmissionRequest) -> str:
        """Why a template cannot be read. Empty: all can be, or what is stored cannot be for the same reason."""
        pods = [("template",), *self.further_templates] if self.has_pod_template else self.further_templates
        claims = get_path(request.object, "spec", "volumeClaimTemplates") or ()
        places: list[tuple[str | int, ...]] = [
            *pods,
            *(("volumeClaimTemplates", n) for n in range(len(claims))),
        ]
        for place in places:
            new, stored = (
                why_unreadable(get_path(one, "spec", *place), of_claims=place[0] == "volumeClaimTemplates")
                for one in (request.object, request.old_object)
            )
            if new and new != stored:
                shown = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)
                return f"spec{shown}: {new}"
        return ""

    def _read(self, doc: Mapping[str, Any]) -> tuple[S | None, str]:
        """The typed spec, with placeholders for what validation reports as missing; or what is wrong with it."""
        given = doc.get("spec")
        if given is not None and not isinstance(given, Mapping):
            return None, f"spec: Expected `object`, got `{type(given).__name__}`"
        given = given or {}
        missing: dict[str, Any] = {field: {} for field in self.placeholders if given.get(field) is None}
        return self.read_spec({**given, **missing})


def name_of(request: AdmissionRequest) -> str:
    """The name of the object that is written."""
    return str(get_path(request.object, "metadata", "name") or request.name)
