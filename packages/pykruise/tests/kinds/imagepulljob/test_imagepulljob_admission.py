"""Reviews of ImagePullJobs."""

from typing import Any

import pytest

from pykruise.kinds.imagepulljob.admission import mutate_imagepulljob, validate_imagepulljob
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.admission import AdmissionRequest

ALWAYS = {"type": "Always"}


def document(**spec: Any) -> dict[str, Any]:
    result = {"image": "nginx", "completionPolicy": ALWAYS, **spec}
    return {
        "apiVersion": IMAGE_PULL_JOBS.api_version,
        "kind": IMAGE_PULL_JOBS.kind,
        "metadata": {"name": "x", "namespace": "shop"},
        "spec": {name: value for name, value in result.items() if value is not None},
    }


def request(doc: dict[str, Any], old: dict[str, Any] | None = None) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation="CREATE" if old is None else "UPDATE",
        resource=IMAGE_PULL_JOBS,
        name="x",
        object=doc,
        old_object=old,
    )


async def problems(doc: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Fields that are refused."""
    refusal = (await validate_imagepulljob(request(doc, old))).refusal
    if refusal is None:
        return []
    assert refusal.code == 422
    assert refusal.details is not None
    return [cause.field for cause in refusal.details.causes]


async def test_missing_fields_get_their_defaults() -> None:
    answer = await mutate_imagepulljob(request(document(completionPolicy={})))
    assert answer.object is not None
    assert answer.object["spec"] == {
        "image": "nginx",
        "completionPolicy": ALWAYS,
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3},
        "imagePullPolicy": "IfNotPresent",
    }
    again = await mutate_imagepulljob(request(answer.object))
    assert again.object is None


async def test_an_object_without_a_spec_gets_defaults_too_and_a_null_counts_as_left_out() -> None:
    bare = document()
    del bare["spec"]
    answer = await mutate_imagepulljob(request(bare))
    assert answer.object is not None
    assert answer.object["spec"]["imagePullPolicy"] == "IfNotPresent"
    nulls = document()
    nulls["spec"]["parallelism"] = None
    answer = await mutate_imagepulljob(request(nulls))
    assert answer.object is not None
    assert "parallelism" not in answer.object["spec"]


@pytest.mark.parametrize(("part", "field"), [("metadata", "metadata.name"), ("spec", "spec.image")])
async def test_a_missing_metadata_or_spec_is_reported_by_its_required_field(part: str, field: str) -> None:
    doc = document()
    del doc[part]
    assert await problems(doc) == [field]
    assert await problems(document(), doc) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": "30%"}, "spec.parallelism"),
        ({"parallelism": -1}, "spec.parallelism"),
        ({"parallelism": "abc"}, "spec.parallelism"),
        ({"parallelism": "9999999999"}, "spec.parallelism"),
        ({"selector": {}, "podSelector": {}}, "spec.podSelector"),
        ({"selector": {"names": ["a"], "matchLabels": {"x": "y"}}}, "spec.selector"),
        ({"selector": {"names": ["a", "b", "a"]}}, "spec.selector.names[2]"),
        ({"selector": {"matchExpressions": [{"key": "x", "operator": "Like"}]}}, "spec.selector"),
        ({"podSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}, "spec.podSelector"),
        ({"image": "UPPER/case"}, "spec.image"),
        ({"image": ""}, "spec.image"),
        (
            {"completionPolicy": {**ALWAYS, "activeDeadlineSeconds": 599}},
            "spec.completionPolicy.activeDeadlineSeconds",
        ),
        (
            {"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}},
            "spec.completionPolicy.ttlSecondsAfterFinished",
        ),
        (
            {"completionPolicy": {"type": "Never", "activeDeadlineSeconds": 1}},
            "spec.completionPolicy.activeDeadlineSeconds",
        ),
        ({"completionPolicy": {"type": "Sometimes"}}, "spec.completionPolicy.type"),
    ],
)
async def test_an_unworkable_job_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    """images cases 23, 28 to 32"""
    assert await problems(document(**spec)) == [field]


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": "3"},
        {"parallelism": 0},
        {"completionPolicy": {**ALWAYS, "activeDeadlineSeconds": 600}},
        {
            "completionPolicy": {**ALWAYS, "activeDeadlineSeconds": 5},
            "pullPolicy": {"timeoutSeconds": 5},
        },
        {"selector": {}},
        {"imagePullPolicy": "Whatever"},
        {"image": "localhost:5000/a/b:v1"},
    ],
)
async def test_a_valid_job_is_accepted(spec: dict[str, Any]) -> None:
    """images cases 23 and 31"""
    assert await problems(document(**spec)) == []


async def test_all_errors_are_reported_together() -> None:
    assert await problems(document(parallelism=-1, image="")) == ["spec.parallelism", "spec.image"]


async def test_secrets_cannot_be_changed_and_a_missing_list_equals_an_empty_list() -> None:
    """images case 33"""
    old = document(pullSecrets=["a"])
    assert await problems(document(pullSecrets=["b"]), old) == ["spec.pullSecrets"]
    assert await problems(document(pullSecrets=["a"], parallelism=5), old) == []
    assert await problems(document(pullSecrets=[], parallelism=5), document()) == []
    assert await problems(document(parallelism=5), document()) == []


async def test_a_stored_job_can_be_labelled_even_with_an_invalid_spec() -> None:
    bad = document(image="UPPER/case")
    changed = {**bad, "metadata": {**bad["metadata"], "labels": {"a": "b"}}}
    assert await problems(changed, bad) == []
    assert await problems({"metadata": changed["metadata"]}, {"metadata": bad["metadata"]}) == []
    changed["metadata"]["labels"] = {"a": "no value!"}
    assert await problems(changed, bad) == ["metadata.labels"]
