"""AdmissionReviews: read, answered by path, and written."""

import asyncio
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import (
    ALLOWED,
    AdmissionAnswer,
    AdmissionRequest,
    ResourceRule,
    Reviewer,
    ReviewRule,
)
from pykruise.kube.control.offload import Aside
from pykruise.kube.errors import Cause, ErrorStatus, StatusDetails
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.kube.webhooks.reviews import LONG_AT_ONCE, LONG_REVIEW, ReviewDispatcher, decode_review
from support.cloneset_builder import cloneset
from support.reviews import Reply, posted, read, request

PATH = "/review"


def serving(reviewer: Reviewer, *, mutating: bool = True) -> ReviewDispatcher:
    every = ResourceRule(groups=("*",), resources=("*/*",), operations=("*",))
    rule = ReviewRule(name="test", reviewer=reviewer, mutating=mutating, rules=(every,), path=PATH)
    return ReviewDispatcher([rule])


def saying(answer: AdmissionAnswer) -> Reviewer:
    async def review(_: AdmissionRequest) -> AdmissionAnswer:
        return answer

    return review


class RecordingReviewer:
    """Remembers its requests."""

    def __init__(self) -> None:
        self.asked: list[AdmissionRequest] = []

    async def __call__(self, asked: AdmissionRequest) -> AdmissionAnswer:
        self.asked.append(asked)
        return ALLOWED


def test_every_field_of_a_review_is_read() -> None:
    asked = AdmissionRequest(
        uid="review-1",
        operation="UPDATE",
        resource=PODS,
        subresource="status",
        namespace="shop",
        name="web-1",
        username="jane",
        groups=("ops", "system:authenticated"),
        extra={"authentication.kubernetes.io/node-name": ["node-1"]},
        object={"metadata": {"name": "web-1"}, "status": {"phase": "Running"}},
        old_object={"metadata": {"name": "web-1"}},
        dry_run=True,
        options={"kind": "UpdateOptions", "fieldManager": "kubectl"},
    )
    body = posted(asked)
    assert decode_review(body).request == msgspec.structs.replace(asked, size=len(body))
    # Only the dispatcher knows what the API server serves. A new field of the request must be read too.
    unset = {
        field.name for field in msgspec.structs.fields(asked) if getattr(asked, field.name) == field.default
    }
    assert unset == {"served", "size"}


def test_a_user_without_groups_is_read() -> None:
    body = orjson.loads(posted(request(PODS, {"metadata": {"name": "web-1"}})))
    body["request"]["userInfo"] = {"username": "jane", "groups": None, "extra": None}
    asked = decode_review(orjson.dumps(body)).request
    assert (asked.username, asked.groups, asked.extra) == ("jane", (), {})


async def reply(
    reviews: ReviewDispatcher, body: bytes, *, path: str = PATH, timeout_s: float = 10.0
) -> Reply:
    return read(await reviews.answer(path, body, timeout_s=timeout_s))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_the_answer_has_the_version_and_the_uid_of_the_question(version: str) -> None:
    """admission case 59"""
    body = posted(request(CONFIG_MAPS, {}), api_version=f"admission.k8s.io/{version}")
    result = await reply(serving(saying(ALLOWED)), body)
    assert (result.api_version, result.uid, result.allowed) == (
        f"admission.k8s.io/{version}",
        "review-1",
        True,
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b"\xff\xfe",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview", "request": {"uid": "x"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": []}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 3}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"object": "\\ud800"}}',
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
async def test_a_body_that_is_not_a_review_is_refused_with_400(body: bytes) -> None:
    """admission case 60"""
    result = await reply(serving(RecordingReviewer()), body)
    assert (result.allowed, result.code) == (False, 400)


@pytest.mark.parametrize("field", ["object", "oldObject", "options"])
@pytest.mark.parametrize("value", ["[]", "3", '"x"'])
async def test_a_review_without_a_json_object_is_refused_with_its_uid(field: str, value: str) -> None:
    body = (
        '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": '
        f'{{"uid": "u-7", "{field}": {value}}}}}'
    )
    result = await reply(serving(RecordingReviewer()), body.encode())
    assert (result.allowed, result.code, result.uid) == (False, 400, "u-7")
    assert f"request.{field}" in result.message


async def test_a_reviewer_gets_everything_about_the_write() -> None:
    # given
    recorder = RecordingReviewer()
    asked = request(
        PODS, {"a": 1}, old={"b": 2}, name="x", subresource="resize", options={"fieldManager": "me"}
    )
    # when
    body = posted(asked)
    await reply(serving(recorder), body)
    # then
    assert recorder.asked == [msgspec.structs.replace(asked, size=len(body))]


@pytest.mark.parametrize(
    ("fields", "is_dry"),
    [
        ({}, False),
        ({"dry_run": True}, True),
        ({"options": {"dryRun": ["All"]}}, True),
        ({"options": {"dryRun": []}}, False),
        ({"options": {"dryRun": "All"}}, False),
    ],
)
async def test_a_dry_run_is_marked_in_the_request_or_its_options(
    fields: dict[str, Any], is_dry: bool
) -> None:
    """pitfall 12"""
    recorder = RecordingReviewer()
    await reply(serving(recorder), posted(request(CONFIG_MAPS, {}, **fields)))
    assert [asked.dry_run for asked in recorder.asked] == [is_dry]


async def test_the_patch_names_only_what_changed() -> None:
    # given
    before = {"metadata": {"name": "x"}, "spec": {"a": [1, 2], "b/c": {"d": 1}, "gone": 1}}
    after = {"metadata": {"name": "x"}, "spec": {"a": [1, 2, 3], "b/c": {"d": 1, "e": 2}}}
    # when
    result = await reply(serving(saying(AdmissionAnswer(object=after))), posted(request(CONFIG_MAPS, before)))
    # then
    assert result.patch == [
        {"op": "remove", "path": "/spec/gone"},
        {"op": "add", "path": "/spec/a/2", "value": 3},
        {"op": "add", "path": "/spec/b~1c/e", "value": 2},
    ]
    assert result.applied_to(before) == after


async def test_an_unchanged_object_and_a_validating_review_produce_no_patch() -> None:
    """pitfall 19"""
    same = serving(saying(AdmissionAnswer(object={"a": 1})))
    assert (await reply(same, posted(request(CONFIG_MAPS, {"a": 1})))).patch is None
    validating = serving(saying(AdmissionAnswer(object={"a": 2})), mutating=False)
    assert (await reply(validating, posted(request(CONFIG_MAPS, {"a": 1})))).patch is None


async def test_a_refusal_carries_its_status_with_every_cause() -> None:
    # given
    causes = (Cause("FieldValueInvalid", "bad", "spec.a"), Cause("FieldValueRequired", "missing", "spec.b"))
    status = ErrorStatus(
        status="Failure",
        code=422,
        reason="Invalid",
        message="no",
        details=StatusDetails(name="x", causes=causes),
    )
    # when
    body = await serving(saying(AdmissionAnswer(refusal=status))).answer(PATH, posted(request(PODS, {})))
    # then
    assert orjson.loads(body)["response"] == {
        "uid": "review-1",
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": "no",
            "details": {
                "name": "x",
                "causes": [
                    {"reason": "FieldValueInvalid", "message": "bad", "field": "spec.a"},
                    {"reason": "FieldValueRequired", "message": "missing", "field": "spec.b"},
                ],
            },
        },
    }


async def test_warnings_arrive_and_stay_short() -> None:
    answer = AdmissionAnswer(warnings=("mind this", "x" * 1000))
    result = await reply(serving(saying(answer)), posted(request(PODS, {})))
    assert result.warnings == ["mind this", "x" * 256]


async def test_a_reviewer_that_fails_is_a_500_without_details_of_the_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """operations case 42"""

    # given
    async def review(_: AdmissionRequest) -> AdmissionAnswer:
        raise ValueError("secret detail")

    # when
    body = await serving(review).answer(PATH, posted(request(PODS, {})))
    # then
    assert read(body).code == 500
    assert b"secret" not in body
    assert b"Traceback" not in body
    assert "secret detail" in caplog.text


async def test_a_name_that_is_not_a_path_segment_is_refused_with_422(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def review(asked: AdmissionRequest) -> AdmissionAnswer:
        PODS.format_path("ns", "../../victim/pods/v")
        raise AssertionError("there is such a path")

    reply = read(await serving(review).answer(PATH, posted(request(PODS, {}))))
    assert reply.code == 422
    assert "may not contain '/'" in reply.message
    assert caplog.text == ""


async def test_a_review_that_takes_too_long_is_answered_before_the_api_server_gives_up() -> None:
    # given
    async def review(_: AdmissionRequest) -> AdmissionAnswer:
        await asyncio.sleep(3600)
        return ALLOWED

    loop = asyncio.get_running_loop()
    begun = loop.time()
    # when
    result = await reply(serving(review), posted(request(PODS, {})), timeout_s=3.0)
    # then
    assert (result.allowed, result.code) == (False, 504)
    assert loop.time() - begun == pytest.approx(2.5)


async def test_both_spellings_of_a_path_lead_to_the_same_review() -> None:
    """admission case 58, for the server's part"""
    # given
    reviews = ReviewDispatcher(build_reviewers())
    doc = cloneset(3).document
    del doc["spec"]["updateStrategy"]
    body = posted(request(CLONE_SETS, doc))
    # when
    new = await reviews.answer("/mutate-apps-kruise-io-cloneset", body)
    old = await reviews.answer("/mutate-apps-kruise-io-v1alpha1-cloneset", body)
    # then
    assert new == old
    assert read(new).applied_to(doc)["spec"]["updateStrategy"]["type"] == "RollingUpdate"


async def test_a_long_review_is_done_aside_and_answered_like_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given
    class Counting(Aside):
        runs = 0

        async def run(self, function: Any, *arguments: Any) -> Any:
            self.runs += 1
            return await super().run(function, *arguments)

    aside = Counting()
    rules = build_reviewers(context=ReviewContext(aside=aside))
    reviews = ReviewDispatcher(rules, aside=aside)
    doc = cloneset(3).document
    del doc["spec"]["updateStrategy"]
    doc["metadata"]["annotations"] = {"long": "x" * LONG_REVIEW}
    body = posted(request(CLONE_SETS, doc))
    mutate, validate = "/mutate-apps-kruise-io-cloneset", "/validate-apps-kruise-io-cloneset"
    # when
    long = [await reviews.answer(path, body) for path in (mutate, validate)]
    # then the body was read, the review was done and the answer was written in a thread
    assert aside.runs == 6
    # and the answers equal those for the same object if it were short
    monkeypatch.setattr("pykruise.kube.webhooks.reviews.LONG_REVIEW", 10 * LONG_REVIEW)
    monkeypatch.setattr("pykruise.admission.reviewers.LONG_REVIEW", 10 * LONG_REVIEW)
    assert long == [await reviews.answer(path, body) for path in (mutate, validate)]
    assert aside.runs == 6
    assert read(long[0]).applied_to(doc)["spec"]["updateStrategy"]["type"] == "RollingUpdate"


async def test_only_a_few_long_reviews_are_in_memory_as_documents() -> None:
    # given a reviewer that waits
    recorder, ending = RecordingReviewer(), asyncio.Event()

    async def review(asked: AdmissionRequest) -> AdmissionAnswer:
        await recorder(asked)
        await ending.wait()
        return ALLOWED

    reviews = serving(review, mutating=False)
    long = posted(request(CONFIG_MAPS, {"data": {"long": "x" * LONG_REVIEW}}))
    short = posted(request(CONFIG_MAPS, {"data": {}}, name="short"))
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        # when one more long review comes than may be in memory, and a short one
        result = [tasks.create_task(reply(reviews, long)) for _ in range(LONG_AT_ONCE + 1)]
        result.append(tasks.create_task(reply(reviews, short)))
        while len(recorder.asked) < LONG_AT_ONCE + 1:
            await asyncio.sleep(0.01)
        # then the short one is reviewed, and the last long one waits
        assert sum(asked.size > LONG_REVIEW for asked in recorder.asked) == LONG_AT_ONCE
        ending.set()
    # and all are answered
    assert all(task.result().allowed for task in result)


async def test_an_object_of_nothing_but_brackets_is_refused_before_it_is_read() -> None:
    recorder = RecordingReviewer()
    asked = request(CONFIG_MAPS, {"data": [[]] * 100_000})
    result = await reply(serving(recorder), posted(asked))
    assert (result.allowed, result.code) == (False, 400)
    assert "lists and objects, but the limit is 100000" in result.message
    assert recorder.asked == []


def test_every_webhook_of_the_original_that_exists_here_has_its_name_and_path() -> None:
    rules = build_reviewers(AdmissionSettings(deletion_protection=True))
    assert {(rule.name, rule.path) for rule in rules} >= {
        ("mpod.kb.io", "/mutate-pod"),
        ("mcloneset.kb.io", "/mutate-apps-kruise-io-cloneset"),
        ("vcloneset.kb.io", "/validate-apps-kruise-io-cloneset"),
        ("vstatefulset.kb.io", "/validate-apps-kruise-io-statefulset"),
        ("vuniteddeployment.kb.io", "/validate-apps-kruise-io-uniteddeployment"),
        ("vbuiltindeployment.kb.io", "/validate-apps-deployment"),
        ("vbuiltinreplicaset.kb.io", "/validate-apps-replicaset"),
        ("vbuiltinstatefulset.kb.io", "/validate-apps-statefulset"),
        ("vcustomresourcedefinition.kb.io", "/validate-customresourcedefinition"),
        ("vnamespace.kb.io", "/validate-namespace"),
        ("vservice.kb.io", "/validate-service"),
        ("vingress.kb.io", "/validate-ingress"),
    }
    assert len({rule.name for rule in rules}) == len(rules)
