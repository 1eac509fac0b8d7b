"""Defaults and validation of BroadcastJobs: the numbered cases of the specification."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.broadcastjob.admission import build_mutating_review, validate_broadcastjob
from pykruise.kinds.broadcastjob.defaults import ALL_AT_ONCE
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.errors import Cause
from pykruise.kube.resources import Resource
from pykruise.pods.template.defaults import DefaultingSettings
from support.broadcast_world import template


def job(name: str = "prepull", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": template(), **spec},
    }


def request(
    document: dict[str, Any], old: dict[str, Any] | None = None, version: str = "v1beta1"
) -> AdmissionRequest:
    resource = Resource(BROADCAST_JOBS.group, version, BROADCAST_JOBS.plural, BROADCAST_JOBS.kind)
    return AdmissionRequest(
        uid="1",
        operation="UPDATE" if old else "CREATE",
        resource=resource,
        namespace="shop",
        name="prepull",
        object=document,
        old_object=old,
    )


def reviewed(reviewer: Reviewer, asked: AdmissionRequest) -> AdmissionAnswer:
    async def review() -> AdmissionAnswer:
        return await reviewer(asked)

    return asyncio.run(review())


def mutated(
    document: dict[str, Any],
    old: dict[str, Any] | None = None,
    settings: DefaultingSettings = DefaultingSettings(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    answer = reviewed(build_mutating_review(settings), request(document, old))
    return answer.object or document


def validated(document: dict[str, Any], old: dict[str, Any] | None = None) -> AdmissionAnswer:
    return reviewed(validate_broadcastjob, request(document, old))


def causes(document: dict[str, Any], old: dict[str, Any] | None = None) -> Sequence[Cause]:
    """Errors of a document, without defaults."""
    refusal = validated(document, old).refusal
    if refusal is None:
        return ()
    assert refusal.code == 422
    assert refusal.details is not None
    return refusal.details.causes


def fields(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Fields with an error, of a document with its defaults."""
    return [cause.field for cause in causes(mutated(document, old), old)]


def test_policies_and_restart_policy_are_filled_in_case_1() -> None:
    given = job()
    del given["spec"]["template"]["spec"]["restartPolicy"]

    spec = mutated(given)["spec"]

    assert spec["completionPolicy"] == {"type": "Always"}
    assert spec["failurePolicy"] == {"type": "FailFast"}
    assert spec["parallelism"] == ALL_AT_ONCE
    assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert "restartPolicy" not in given["spec"]["template"]["spec"], "what came in is not changed"


def test_templates_keep_their_shape_under_the_gate_but_for_the_restart_policy() -> None:
    given = job()
    del given["spec"]["template"]["spec"]["restartPolicy"]

    pod = mutated(given, settings=DefaultingSettings(template_no_defaults=True))["spec"]["template"]["spec"]

    assert pod["restartPolicy"] == "OnFailure"
    assert "dnsPolicy" not in pod


def test_an_unchanged_template_gets_no_defaults() -> None:
    stored = job()

    changed = mutated(job(paused=True), stored)

    assert "dnsPolicy" not in changed["spec"]["template"]["spec"]


@pytest.mark.parametrize("policy", ["Always", None])
def test_a_restart_policy_that_keeps_pods_running_is_refused_case_2(policy: str | None) -> None:
    (cause,) = causes(job(template=template(restartPolicy=policy)))

    assert cause.field == "spec.template.spec.restartPolicy"
    why = "pod restartPolicy can only be Never or OnFailure"
    assert cause.message == f'Invalid value: "{policy or ""}": {why}'


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": {}}])
def test_a_job_without_a_template_is_refused_and_gets_no_default_template(
    spec: dict[str, Any] | None,
) -> None:
    bare = {**job(), "spec": spec}

    assert [cause.field for cause in causes(bare)] == ["spec.template"]
    assert fields(bare) == ["spec.template"]
    assert not mutated(bare)["spec"].get("template")


def test_a_template_without_a_spec_has_neither_policy_nor_containers() -> None:
    containers = causes(job(template={"metadata": None, "spec": None}))

    assert [cause.field for cause in containers] == [
        "spec.template.spec.restartPolicy",
        "spec.template.spec.containers",
    ]


def test_a_stored_invalid_spec_does_not_block_label_changes() -> None:
    stored = job(template=template(restartPolicy="Always"))
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}

    assert causes(labelled, stored) == ()
    (cause,) = causes({**labelled, "spec": {**stored["spec"], "paused": True}}, stored)
    assert cause.field == "spec.template.spec.restartPolicy"
    (cause,) = causes({**labelled, "metadata": {"name": "prepull", "labels": {"team": "a b"}}}, stored)
    assert cause.field == "metadata.labels"


def test_a_stored_template_with_invalid_pods_does_not_block_other_fields() -> None:
    """A rule for pods may be newer than the job."""
    stored = job(template=template(securityContext={"seccompProfile": {"type": "RuntimDefault"}}))
    path = "spec.template.spec.securityContext.seccompProfile.type"

    assert [cause.field for cause in causes(stored)] == [path]
    assert causes({**stored, "spec": {**stored["spec"], "paused": True}}, stored) == ()
    assert [cause.field for cause in causes(stored, job())] == [path]


def test_a_template_that_was_stored_with_an_error_of_pods_can_be_changed_elsewhere() -> None:
    """OpenKruise accepts such templates, and the controller itself sets spec.paused."""
    copied = template()
    copied["metadata"]["labels"]["controller-revision-hash"] = "web-5d4f"
    stored = job(template=copied)
    assert fields(stored) == ["spec.template.metadata.labels"]

    assert causes({**stored, "spec": {**stored["spec"], "paused": True}}, stored) == ()
    again = {**copied, "spec": {**copied["spec"], "restartPolicy": "Always"}}
    assert [cause.field for cause in causes({**stored, "spec": {"template": again}}, stored)] == [
        "spec.template.spec.restartPolicy"
    ]


def test_a_job_that_was_stored_without_a_spec_can_be_labelled() -> None:
    assert causes({**job(), "spec": {}}, {**job(), "spec": None}) == ()


def test_an_object_without_metadata_has_no_name() -> None:
    assert [cause.field for cause in causes({**job(), "metadata": None})] == ["metadata.name"]


def test_a_job_that_never_ends_has_no_times_case_3() -> None:
    policy = {"type": "Never", "ttlSecondsAfterFinished": 10, "activeDeadlineSeconds": 10}

    assert fields(job(completionPolicy={"type": "Never", "ttlSecondsAfterFinished": 10})) == [
        "spec.completionPolicy.ttlSecondsAfterFinished"
    ]
    assert fields(job(completionPolicy=policy)) == [
        "spec.completionPolicy.ttlSecondsAfterFinished",
        "spec.completionPolicy.activeDeadlineSeconds",
    ]


@pytest.mark.parametrize("label", ["broadcastjob-name", "broadcastjob-controller-uid"])
def test_the_controllers_labels_are_its_own_case_4(label: str) -> None:
    labelled = template()
    labelled["metadata"]["labels"][label] = "x"

    assert fields(job(template=labelled)) == ["spec.template.metadata.labels"]


@pytest.mark.parametrize("name", ["a.b", "a" * 64])
def test_a_name_is_a_label_value_without_dots_case_5(name: str) -> None:
    assert fields(job(name)) == ["metadata.name"]
    assert fields(job(name, parallelism=2), job(name)) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parallelism": -1}, "spec.parallelism"),
        ({"parallelism": "many"}, "spec.parallelism"),
        ({"parallelism": "-5%"}, "spec.parallelism"),
        ({"completionPolicy": {"activeDeadlineSeconds": -1}}, "spec.completionPolicy.activeDeadlineSeconds"),
        (
            {"completionPolicy": {"ttlSecondsAfterFinished": -1}},
            "spec.completionPolicy.ttlSecondsAfterFinished",
        ),
        ({"failurePolicy": {"restartLimit": -1}}, "spec.failurePolicy.restartLimit"),
    ],
)
def test_amounts_below_zero_are_refused_on_creation_alone(spec: dict[str, Any], field: str) -> None:
    assert fields(job(**spec)) == [field]
    assert fields(job(paused=True, **spec), old=job(**spec)) == []


@pytest.mark.parametrize("parallelism", [0, 5, "50", "50%", "12.5%"])
def test_parallelism_is_a_number_or_a_share(parallelism: int | str) -> None:
    assert fields(job(parallelism=parallelism)) == []


def test_an_unknown_type_is_admitted_with_a_warning() -> None:
    answer = validated(job(completionPolicy={"type": "Ever"}, failurePolicy={"type": "Retry"}))

    assert answer.refusal is None
    assert answer.warnings == (
        "spec.completionPolicy.type: the unknown type 'Ever' is treated as Always",
        "spec.failurePolicy.type: the unknown type 'Retry' is treated as Continue",
    )


@pytest.mark.parametrize(
    ("completion", "failure"), [("Always", "FailFast"), ("Never", "Continue"), ("", "Pause"), ("Always", "")]
)
def test_known_or_empty_policy_types_get_no_warning(completion: str, failure: str) -> None:
    answer = validated(job(completionPolicy={"type": completion}, failurePolicy={"type": failure}))

    assert answer == ALLOWED


def test_all_errors_are_reported_together() -> None:
    bad = job("a.b", template=template(restartPolicy="Always", containers=[]))

    assert fields(bad) == [
        "metadata.name",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.containers",
    ]


def test_a_version_that_does_not_exist_is_refused() -> None:
    answer = reviewed(validate_broadcastjob, request(job(), version="v2"))

    assert answer.refusal is not None
    assert answer.refusal.code == 400


def test_the_older_version_is_reviewed_in_the_same_way() -> None:
    answer = reviewed(validate_broadcastjob, request(job(paused=True), version="v1alpha1"))

    assert answer.refusal is None
