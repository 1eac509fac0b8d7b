"""The two admission reviews of every workload, built from functions of its kind.

AdmissionRequest ──▶ SpecReviews.build_mutating_review(with_defaults) ──▶ the object with its defaults
                 ──▶ SpecReviews.build_validating_review(errors_of)   ──▶ allowed, or 422 with every field error

Pure except for the `async` interface, which all reviewers have. An unreadable object or a version that is not
reviewed is rejected with 400. A terminating object is not reviewed: its spec must not block its deletion.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.kube.documents import Document, get_path, is_same
from pykruise.kube.errors import Cause, ErrorStatus, KubeError
from pykruise.kube.pod_rules.field_errors import build_bad_request, build_refusal
from pykruise.kube.resources import Resource
from pykruise.pods.template.typed_parts import (
    NO_PARTS,
    POD_TEMPLATE,
    Parts,
    empty_parts,
    explain_unreadable,
    fill_parts,
    part_of,
    replace_part,
)
from pykruise.pods.template.validation import list_unknown_field_warnings

S = TypeVar("S")


class _Asked(NamedTuple, Generic[S]):
    """A readable review."""

    request: AdmissionRequest
    """The request with its objects as they were read."""
    doc: Document
    """The new object."""
    spec: S
    kept: Sequence[str]
    """Unreadable parts that the write does not change. They are empty in both objects, so that they do not block
    changes of other fields.
    """
    stored: Any
    """The stored spec including these parts."""

    def is_kept(self, field: str) -> bool:
        """Whether the field is in a part of `kept`, or contains such a part."""
        places = [f"spec.{path}" for path in self.kept]
        return any(
            field == place
            or field.startswith((f"{place}.", f"{place}["))
            or (field != "spec" and place.startswith(f"{field}."))
            for place in places
        )


class SpecReviews(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """Reviews of one kind. S is its typed spec."""

    resource: Resource
    versions: tuple[str, ...]
    """Reviewed versions."""
    read_spec: Callable[[Mapping[str, Any]], tuple[S | None, str]]
    """Returns the typed spec, or None and `<path>: <what is wrong>`."""
    placeholders: tuple[str, ...] = ("selector", "template")
    """Required objects of the spec; only validation reports a missing one."""
    parts: Parts = NO_PARTS
    """Parts of the spec that `read_spec` reads as Kubernetes types. Unknown fields of a pod template in
    `spec.template` cause warnings.
    """

    def build_mutating_review(
        self, with_defaults: Callable[[AdmissionRequest, Document], Document]
    ) -> Reviewer:
        """Reviewer that sets defaults. `with_defaults(request, object)` returns the object to store and does not
        change its arguments.
        """

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            asked = self._open_review(request)
            if isinstance(asked, AdmissionAnswer):
                return asked
            result = with_defaults(asked.request, asked.doc)
            for path in asked.kept:
                result = {**result, "spec": replace_part(result["spec"], path, part_of(asked.stored, path))}
            return ALLOWED if is_same(result, request.object) else AdmissionAnswer(object=result)

        return review

    def build_validating_review(
        self,
        errors_of: Callable[[AdmissionRequest, Document, S], Sequence[Cause]],
        *,
        warnings_of: Callable[[Document, S], Iterable[str]] = lambda _doc, _spec: (),
        warnings_of_change: Callable[[Document, Document], Iterable[str]] = lambda _old, _new: (),
    ) -> Reviewer:
        """Reviewer that rejects errors. `errors_of(request, object, spec)` returns all errors, `warnings_of(object,
        spec)` and `warnings_of_change(stored object, object)` warnings that reject nothing. Deletions, and the writes
        that complete them, are allowed.
        """

        async def judge(request: AdmissionRequest, doc: Document, spec: S) -> Sequence[Cause]:
            return errors_of(request, doc, spec)

        return self.build_judging_review(
            judge, warnings_of=warnings_of, warnings_of_change=warnings_of_change
        )

    def build_judging_review(
        self,
        errors_of: Callable[[AdmissionRequest, Document, S], Awaitable[Sequence[Cause]]],
        *,
        warnings_of: Callable[[Document, S], Iterable[str]] = lambda _doc, _spec: (),
        warnings_of_change: Callable[[Document, Document], Iterable[str]] = lambda _old, _new: (),
    ) -> Reviewer:
        """Reviewer that rejects errors, for a kind whose `errors_of` reads the cluster. If it raises KubeError, the
        response is a 500.
        """

        async def review(request: AdmissionRequest) -> AdmissionAnswer:
            asked = self._open_review(request)
            if isinstance(asked, AdmissionAnswer):
                return asked
            try:
                errors = await errors_of(asked.request, asked.doc, asked.spec)
            except KubeError as error:
                return AdmissionAnswer(refusal=self._make_unavailable_status(error))
            if errors := [error for error in errors if not asked.is_kept(error.field)]:
                return AdmissionAnswer(refusal=build_refusal(self.resource, name_of(request), errors))
            stored = asked.request.old_object
            return AdmissionAnswer(
                warnings=(
                    *warnings_of(asked.doc, asked.spec),
                    *(warnings_of_change(stored, asked.doc) if stored is not None else ()),
                    *self._warn_of_unknown_fields(asked.request, asked.doc),
                )
            )

        return review

    def _open_review(self, request: AdmissionRequest) -> "_Asked[S] | AdmissionAnswer":
        """The readable review, or the response to a write that needs no review or is unreadable."""
        if not is_reviewed_write(request):
            return ALLOWED
        resource = request.resource
        if resource.group != self.resource.group or resource.version not in self.versions:
            problem = f"this webhook does not review {resource.api_version} {resource.kind}"
            return AdmissionAnswer(refusal=build_bad_request(problem))
        if request.object is None:
            return AdmissionAnswer(refusal=build_bad_request("the request has no object"))
        new, old = self._fill_parts(request.object), self._fill_parts(request.old_object or {})
        given, stored = new.get("spec"), old.get("spec")
        unreadable = [
            path for path, kind in self.parts.items() if explain_unreadable(part_of(stored, path), kind)
        ]
        kept = [path for path in unreadable if is_same(part_of(given, path), part_of(stored, path))]
        doc = self._remove_parts(new, kept)
        spec, problem = self._read(doc)
        if spec is None:
            return AdmissionAnswer(refusal=build_bad_request(problem))
        before = self._remove_parts(old, unreadable) if request.old_object is not None else None
        if before is not None and self._read(before)[0] is None:
            before = {**before, "spec": {}}  # no rule can compare with an unreadable spec
        asked = msgspec.structs.replace(request, object=doc, old_object=before)
        return _Asked(asked, doc, spec, kept, stored)

    def _fill_parts(self, doc: Document) -> Document:
        spec = doc.get("spec")
        return {**doc, "spec": fill_parts(spec, self.parts)} if isinstance(spec, Mapping) else doc

    def _remove_parts(self, doc: Document, parts: Sequence[str]) -> Document:
        return {**doc, "spec": empty_parts(doc["spec"], parts, self.parts)} if parts else doc

    def _make_unavailable_status(self, error: KubeError) -> ErrorStatus:
        text = f"the objects that the {self.resource.kind} is compared with cannot be read: {error}"
        return ErrorStatus(status="Failure", message=text, reason="InternalError", code=500)

    def _warn_of_unknown_fields(self, request: AdmissionRequest, doc: Document) -> list[str]:
        if self.parts.get("template") != POD_TEMPLATE:
            return []
        template = get_path(doc, "spec", "template", default={})
        return list_unknown_field_warnings(template, "spec.template", request.served)

    def _read(self, doc: Mapping[str, Any]) -> tuple[S | None, str]:
        """The typed spec, with placeholders for missing fields that validation reports; otherwise the problem."""
        given = doc.get("spec")
        if given is not None and not isinstance(given, Mapping):
            return None, f"spec: Expected `object`, got `{type(given).__name__}`"
        given = given or {}
        missing: dict[str, Any] = {field: {} for field in self.placeholders if given.get(field) is None}
        return self.read_spec({**given, **missing})


def name_of(request: AdmissionRequest) -> str:
    """Name of the object in the request."""
    return str(get_path(request.object, "metadata", "name") or request.name)
