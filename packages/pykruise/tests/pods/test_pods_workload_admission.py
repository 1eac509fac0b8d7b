"""The two reviews that every workload has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from pykruise.kube.errors import Cause, UnreachableError
from pykruise.kube.pod_rules.field_errors import make_required_error
from pykruise.kube.resources import Resource
from pykruise.pods.template.typed_parts import POD_TEMPLATE, TEMPLATE, Parts
from pykruise.pods.workload.admission import SpecReviews, name_of
from support.reviews import at_once, request

Doc = dict[str, Any]
CREWS = Resource("example.com", "v1beta1", "crews", "Crew")
CREW = {"metadata": {"name": "c"}, "spec": {"size": 3}}


def read_spec(given: Mapping[str, Any]) -> tuple[Doc | None, str]:
    """Read any spec, but fail for one with a bad size."""
    return (None, "spec.size: bad") if given.get("size") == "bad" else (dict(given), "")


def reviews(**more: Any) -> SpecReviews[Doc]:
    return SpecReviews(resource=CREWS, versions=("v1beta1",), read_spec=read_spec, **more)


def asked(doc: Any, **fields: Any) -> AdmissionRequest:
    return request(fields.pop("resource", CREWS), doc, **fields)


def validated(
    doc: Any, *errors: Cause, warnings: Iterable[str] = (), of: SpecReviews[Doc] | None = None, **fields: Any
) -> AdmissionAnswer:
    seen: list[Doc] = []

    def errors_of(_request: AdmissionRequest, _doc: Doc, spec: Doc) -> Sequence[Cause]:
        seen.append(spec)
        return errors

    reviewer = (of or reviews()).build_validating_review(errors_of, warnings_of=lambda _doc, _spec: warnings)
    return at_once(reviewer, asked(doc, **fields))


def mutated(doc: Any, **fields: Any) -> AdmissionAnswer:
    def with_defaults(_request: AdmissionRequest, doc: Doc) -> Doc:
        return {**doc, "spec": {"size": 1, **(doc.get("spec") or {})}}

    return at_once(reviews().build_mutating_review(with_defaults), asked(doc, **fields))


def test_an_object_gets_its_defaults_and_is_not_changed_when_it_has_them() -> None:
    assert mutated({"metadata": {}}).object == {"metadata": {}, "spec": {"size": 1}}
    assert mutated(CREW) is ALLOWED


def test_an_invalid_object_is_refused_with_all_errors_and_its_name() -> None:
    refused = validated(CREW, make_required_error("spec.a"), make_required_error("spec.b")).refusal
    assert refused is not None
    assert refused.code == 422
    assert refused.details is not None
    assert refused.details.name == "c"
    assert [cause.field for cause in refused.details.causes or ()] == ["spec.a", "spec.b"]


def test_warnings_do_not_refuse() -> None:
    assert validated(CREW, warnings=["hm"]) == AdmissionAnswer(warnings=("hm",))


@pytest.mark.parametrize(
    ("doc", "has_template", "count"),
    [
        (CREW, True, 0),
        ({"metadata": {}}, True, 0),
        ({"spec": {"template": None}}, True, 0),
        ({"spec": {"template": {"spec": {"containers": [], "someNew": 1}}}}, True, 1),
        ({"spec": {"template": {"spec": {"containers": [], "someNew": 1}}}}, False, 0),
    ],
)
def test_unknown_fields_of_a_pod_template_get_a_warning(doc: Doc, has_template: bool, count: int) -> None:
    answer = validated(doc, of=reviews(parts=TEMPLATE if has_template else {}))
    assert answer.refusal is None
    assert len(answer.warnings) == count


@pytest.mark.parametrize(
    ("doc", "fields"),
    [
        (None, {"old": CREW}),
        (CREW, {"subresource": "status"}),
        (
            {**CREW, "metadata": {"name": "c", "deletionTimestamp": "2026-01-31T12:00:00Z"}},
            {"old": {**CREW, "metadata": {"name": "c", "deletionTimestamp": "2026-01-31T12:00:00Z"}}},
        ),
    ],
    ids=["a deletion", "a status", "the end of a deletion"],
)
def test_requests_that_do_not_write_the_spec_are_allowed(doc: Any, fields: dict[str, Any]) -> None:
    assert validated(doc, make_required_error("spec.a"), **fields) is ALLOWED
    assert mutated(doc, **fields) is ALLOWED


@pytest.mark.parametrize(
    ("doc", "fields", "message"),
    [
        ({"spec": {"size": "bad"}}, {}, "spec.size: bad"),
        ({"spec": 5}, {}, "spec: Expected `object`, got `int`"),
        ({"spec": []}, {}, "spec: Expected `object`, got `list`"),
        (
            CREW,
            {"resource": Resource("example.com", "v1", "crews", "Crew")},
            "this webhook does not review example.com/v1 Crew",
        ),
        (
            CREW,
            {"resource": Resource("example.org", "v1beta1", "crews", "Crew")},
            "this webhook does not review example.org/v1beta1 Crew",
        ),
        (None, {"operation": "CREATE"}, "the request has no object"),
    ],
)
def test_an_unreadable_object_is_a_bad_request(doc: Any, fields: dict[str, Any], message: str) -> None:
    for answer in (validated(doc, make_required_error("spec.a"), **fields), mutated(doc, **fields)):
        assert answer.refusal is not None
        assert (answer.refusal.code, answer.refusal.message) == (400, message)


def test_missing_fields_of_the_spec_are_reported_by_the_rules_and_not_by_the_reader() -> None:
    # given a kind that reads only specs with a selector
    def strict(given: Mapping[str, Any]) -> tuple[Doc | None, str]:
        return (None, "spec: no selector") if given.get("selector") is None else (dict(given), "")

    of = SpecReviews(resource=CREWS, versions=("v1beta1",), read_spec=strict, placeholders=("selector",))
    # then
    for spec in (None, {}, {"selector": None}, {"selector": {"matchLabels": {}}}):
        answer = validated({"metadata": {"name": "c"}, "spec": spec}, of=of)
        assert answer.refusal is None


def test_an_unreachable_cluster_makes_the_answer_a_server_error() -> None:
    async def errors_of(_request: AdmissionRequest, _doc: Doc, _spec: Doc) -> Sequence[Cause]:
        raise UnreachableError("no")

    refused = at_once(reviews().build_judging_review(errors_of), asked(CREW)).refusal
    assert refused is not None
    assert refused.code == 500
    assert "Crew" in refused.message


@pytest.mark.parametrize(
    ("doc", "fields", "name"),
    [
        (CREW, {"name": "other"}, "c"),
        ({"metadata": {"generateName": "c-"}}, {"name": "drawn"}, "drawn"),
        ({"metadata": {"name": ""}}, {"name": "drawn"}, "drawn"),
        (None, {"old": CREW, "name": "gone"}, "gone"),
        ({}, {"name": ""}, ""),
    ],
)
def test_the_name_is_taken_from_the_object_or_from_the_request(
    doc: Any, fields: dict[str, Any], name: str
) -> None:
    assert name_of(asked(doc, **fields)) == name


UNREADABLE = {"containers": "nginx"}


@pytest.mark.parametrize(
    ("parts", "template"),
    [
        (TEMPLATE, {"spec": UNREADABLE}),
        ({"template.job": POD_TEMPLATE}, {"job": {"spec": UNREADABLE}, "more": 1}),
    ],
    ids=["a part", "a part of a part"],
)
def test_a_stored_unreadable_part_does_not_block_changes_of_the_rest(parts: Parts, template: Doc) -> None:
    (path,) = parts
    stored = {**CREW, "spec": {"size": 3, "template": template}}
    changed = {**CREW, "spec": {"size": 4, "template": template}}
    of = reviews(parts=parts)
    # errors of the unreadable part, of its fields and of its parents are ignored
    for field in ("spec.template", f"spec.{path}", f"spec.{path}.spec", f"spec.{path}[0]"):
        assert validated(changed, make_required_error(field), of=of, old=stored).refusal is None
    # other errors are not
    for field in ("spec", "spec.size", "spec.templates", f"spec.{path}s.spec"):
        assert validated(changed, make_required_error(field), of=of, old=stored).refusal is not None
    # and the part is stored unchanged
    answer = at_once(
        of.build_mutating_review(lambda _request, doc: {**doc, "spec": {**doc["spec"], "filled": True}}),
        asked(changed, old=stored),
    )
    assert answer.object == {**CREW, "spec": {"size": 4, "filled": True, "template": template}}
