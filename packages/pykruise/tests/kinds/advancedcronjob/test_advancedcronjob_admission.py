"""Defaults and validation of AdvancedCronJobs: the numbered cases of the specification."""

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.advancedcronjob.admission import (
    build_mutating_review,
    build_validating_review,
    validate_cronjob,
)
from pykruise.kinds.advancedcronjob.changes import read_scheduled_since, record_change
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.errors import Cause
from pykruise.kube.resources import Resource
from pykruise.pods.template.defaults import DefaultingSettings
from support.cron_world import TEMPLATES

PULLS = "imageListPullJobTemplate"


def cron(template: str = "broadcastJobTemplate", name: str = "nightly", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "AdvancedCronJob",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "schedule": "*/5 * * * *",
            "template": {template: copy.deepcopy(TEMPLATES[template])},
            **spec,
        },
    }


def reviewed(
    reviewer: Reviewer, document: dict[str, Any], old: dict[str, Any] | None = None
) -> AdmissionAnswer:
    asked = AdmissionRequest(
        uid="1",
        operation="UPDATE" if old else "CREATE",
        resource=ADVANCED_CRON_JOBS,
        namespace="shop",
        name="nightly",
        object=document,
        old_object=old,
    )

    async def review() -> AdmissionAnswer:
        return await reviewer(asked)

    return asyncio.run(review())


def mutated(
    document: dict[str, Any], old: dict[str, Any] | None = None, *, template_no_defaults: bool = False
) -> dict[str, Any]:
    settings = DefaultingSettings(template_no_defaults=template_no_defaults)
    return reviewed(build_mutating_review(settings, lambda: NOW), document, old).object or document


def causes(document: dict[str, Any], old: dict[str, Any] | None = None) -> Sequence[Cause]:
    """Errors of a document, without defaults."""
    refusal = reviewed(validate_cronjob, document, old).refusal
    if refusal is None:
        return ()
    assert refusal.code == 422
    assert refusal.details is not None
    return refusal.details.causes


def fields(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Fields with an error, of a document with its defaults."""
    return [cause.field for cause in causes(mutated(document, old), old)]


def warnings(document: dict[str, Any]) -> int:
    answer = reviewed(validate_cronjob, mutated(document))
    assert answer.refusal is None
    return len(answer.warnings)


def test_policies_and_limits_are_filled_in_case_41() -> None:
    spec = mutated(cron())["spec"]

    assert spec["concurrencyPolicy"] == "Allow"
    assert spec["paused"] is False
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (3, 1)
    assert spec["template"]["broadcastJobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


def test_fields_that_are_null_are_left_out_and_filled_in() -> None:
    nothing = dict.fromkeys(
        ("concurrencyPolicy", "paused", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "timeZone")
    )

    assert mutated(cron(**nothing)) == mutated(cron())


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_a_template_gets_defaults_only_when_it_changes_and_its_gate_allows_it(template: str) -> None:
    """jobs B4"""

    def pod(document: dict[str, Any]) -> dict[str, Any]:
        pod: dict[str, Any] = document["spec"]["template"][template]["spec"]["template"]["spec"]
        return pod

    stored = cron(template)
    other = cron(template)
    pod(other)["containers"][0]["image"] = "busybox:2"

    assert "dnsPolicy" in pod(mutated(cron(template)))
    assert "dnsPolicy" not in pod(mutated(cron(template, schedule="@daily"), stored))
    assert "dnsPolicy" in pod(mutated(other, stored))
    assert "dnsPolicy" in pod(mutated(other, {**stored, "spec": None}))
    assert "dnsPolicy" not in pod(mutated(cron(template), template_no_defaults=True))


@pytest.mark.parametrize(
    ("template", "field"),
    [
        (None, "spec.template"),
        ({}, "spec.template"),
        ({"jobTemplate": {}}, "spec.template.jobTemplate.spec.template.spec.containers"),
        ({"jobTemplate": {"spec": None}}, "spec.template.jobTemplate.spec.template.spec.containers"),
        (
            {"broadcastJobTemplate": {"spec": {"template": None}}},
            "spec.template.broadcastJobTemplate.spec.template.spec.containers",
        ),
        ({PULLS: {}}, f"spec.template.{PULLS}.spec.images"),
        ({PULLS: {"spec": None}}, f"spec.template.{PULLS}.spec.images"),
    ],
)
def test_an_empty_template_is_refused(template: Any, field: str) -> None:
    given = cron(template="broadcastJobTemplate")
    given["spec"]["template"] = template

    assert fields(given) == [field]


@pytest.mark.parametrize(
    ("template", "part", "place"),
    [
        ("jobTemplate", "", "PodSpec.spec.template.spec.containers"),
        ("broadcastJobTemplate", ".spec.template", "PodSpec.spec.containers"),
    ],
)
@pytest.mark.parametrize(
    "review", [build_mutating_review(DefaultingSettings(), lambda: NOW), validate_cronjob]
)
def test_a_pod_template_with_a_value_of_a_wrong_type_is_a_bad_request_that_names_it(
    review: Reviewer, template: str, part: str, place: str
) -> None:
    given = cron(template)
    given["spec"]["template"][template]["spec"]["template"]["spec"]["containers"] = "busybox"

    refusal = reviewed(review, given).refusal

    assert refusal is not None
    assert refusal.code == 400
    assert refusal.message == (
        f"spec.template.{template}{part}: json: cannot unmarshal string into Go struct field "
        f"{place} of type []v1.Container"
    )
    # and a stored one can be labelled
    assert reviewed(review, given, given).refusal is None


def test_a_job_template_of_a_wrong_type_is_a_bad_request() -> None:
    given = cron("jobTemplate")
    given["spec"]["template"]["jobTemplate"] = {"spec": "x"}

    refusal = reviewed(validate_cronjob, given).refusal

    assert refusal is not None
    assert refusal.code == 400
    assert refusal.message.startswith(
        "spec.template.jobTemplate: json: cannot unmarshal string into Go struct "
    )


@pytest.mark.parametrize(
    ("template", "wrong", "place"),
    [
        (PULLS, {"completionPolicy": "Always"}, "completionPolicy: Expected `object | null`, got `str`"),
        (PULLS, {"pullPolicy": 7}, "pullPolicy: Expected `object | null`, got `int`"),
        (PULLS, {"images": "a"}, "images: Expected `array | null`, got `str`"),
        (PULLS, {"selector": {"names": "a"}}, "selector.names: Expected `array | null`, got `str`"),
        (
            "broadcastJobTemplate",
            {"completionPolicy": 7},
            "completionPolicy: Expected `object | null`, got `int`",
        ),
        (
            "broadcastJobTemplate",
            {"failurePolicy": {"restartLimit": "1"}},
            "failurePolicy.restartLimit: Expected `int | null`, got `str`",
        ),
    ],
)
@pytest.mark.parametrize(
    "review", [build_mutating_review(DefaultingSettings(), lambda: NOW), validate_cronjob]
)
def test_a_child_with_a_value_of_a_wrong_type_is_a_bad_request_that_names_it(
    review: Reviewer, template: str, wrong: Document, place: str
) -> None:
    given = cron(template)
    given["spec"]["template"][template]["spec"] |= wrong

    refusal = reviewed(review, given).refusal

    assert refusal is not None
    assert (refusal.code, refusal.message) == (400, f"spec.template.{template}.spec.{place}")


def test_an_object_without_a_template_gets_no_template() -> None:
    given = cron()
    given["spec"]["template"] = None

    assert "template" not in mutated(given)["spec"]


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_pods_without_a_restart_policy_get_on_failure(template: str) -> None:
    given = cron(template)
    del given["spec"]["template"][template]["spec"]["template"]["spec"]["restartPolicy"]

    pod = mutated(given)["spec"]["template"][template]["spec"]["template"]["spec"]

    assert pod["restartPolicy"] == "OnFailure"


def test_a_list_of_pulls_gets_its_defaults_case_42() -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"]["completionPolicy"] = {}

    spec = mutated(given)["spec"]

    pulls = spec["template"][PULLS]["spec"]
    assert spec["concurrencyPolicy"] == "Replace"
    assert pulls["completionPolicy"] == {"type": "Always"}
    assert pulls["pullPolicy"] == {"timeoutSeconds": 600, "backoffLimit": 3}
    assert pulls["imagePullPolicy"] == "IfNotPresent"


def test_set_fields_of_an_image_list_pull_template_stay_and_nulls_get_defaults() -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"] |= {
        "completionPolicy": None,
        "pullPolicy": {"timeoutSeconds": 9, "backoffLimit": None},
        "imagePullPolicy": "Always",
    }

    pulls = mutated(given)["spec"]["template"][PULLS]["spec"]

    assert pulls["completionPolicy"] == {"type": "Always"}
    assert pulls["pullPolicy"] == {"timeoutSeconds": 9, "backoffLimit": 3}
    assert pulls["imagePullPolicy"] == "Always"


def test_a_list_of_pulls_with_a_type_is_left_to_the_webhook_of_its_jobs() -> None:
    """jobs B4, as the original does"""
    given = cron(PULLS)

    assert mutated(given)["spec"]["template"] == given["spec"]["template"]


def test_pulls_cannot_run_side_by_side_case_43() -> None:
    assert fields(cron(PULLS, concurrencyPolicy="Allow")) == ["spec.concurrencyPolicy"]


def test_a_spec_has_exactly_one_template_case_44() -> None:
    both = cron()
    both["spec"]["template"]["jobTemplate"] = TEMPLATES["jobTemplate"]

    assert fields(both) == ["spec.template"]
    assert fields(cron(template="broadcastJobTemplate") | {"spec": {"schedule": "@daily"}}) == [
        "spec.template"
    ]


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * 7",
        "60 * * * *",
        "@reboot",
        "* * * *",
        "* * * * * *",
        "TZ=UTC",
        "",
        "0 0 L * *",
        "*/0 * * * *",
    ],
)
def test_an_invalid_schedule_is_refused_case_45(schedule: str) -> None:
    assert fields(cron(schedule=schedule)) == ["spec.schedule"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"schedule": ""}, "schedule must be specified"),
        ({"timeZone": ""}, "timeZone must be nil or non-empty string"),
        ({"timeZone": "Local"}, "timeZone must be an explicit time zone as defined in the IANA time zones"),
    ],
)
def test_an_empty_schedule_and_an_invalid_time_zone_have_their_messages(
    spec: dict[str, Any], message: str
) -> None:
    (cause,) = causes(mutated(cron(**spec)))

    assert cause.message.endswith(f": {message}")


def test_a_stored_invalid_spec_does_not_block_label_changes() -> None:
    """OpenKruise accepts schedules and time zones that are refused here, or that are no longer known."""
    stored = mutated(cron(schedule="@reboot"))
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}

    assert reviewed(validate_cronjob, labelled, stored) == ALLOWED
    assert fields({**labelled, "spec": {**stored["spec"], "paused": True}}, stored) == ["spec.schedule"]


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_a_stored_template_with_invalid_pods_does_not_block_other_fields(template: str) -> None:
    """A rule for pods may be newer than the object."""
    stored = mutated(cron(template))
    pod = stored["spec"]["template"][template]["spec"]["template"]["spec"]
    pod["securityContext"] = {"seccompProfile": {"type": "RuntimDefault"}}
    path = f"spec.template.{template}.spec.template.spec.securityContext.seccompProfile.type"

    assert fields(stored) == [path]
    assert fields({**stored, "spec": {**stored["spec"], "paused": True}}, stored) == []
    assert fields({**stored, "spec": {**stored["spec"], "schedule": "x"}}, stored) == ["spec.schedule"]


def test_an_object_without_metadata_has_no_name() -> None:
    assert [cause.field for cause in causes({**mutated(cron()), "metadata": None})] == ["metadata.name"]


@pytest.mark.parametrize(
    "schedule", ["TZ=Asia/Shanghai 0 10 * * ?", "@every 1.5h", "0 0 1,,15 * *", "@weekly"]
)
def test_a_valid_schedule_is_admitted_case_46(schedule: str) -> None:
    assert fields(cron(schedule=schedule)) == []


def test_a_time_zone_may_be_set_only_once_case_46() -> None:
    assert fields(cron(schedule="TZ=UTC 0 10 * * *", timeZone="Etc/UTC")) == ["spec.schedule"]


@pytest.mark.parametrize(
    ("zone", "is_one"), [("", False), ("local", False), ("Mars/Base", False), ("Etc/UTC", True)]
)
def test_a_zone_has_an_iana_name_case_47(zone: str, is_one: bool) -> None:
    assert fields(cron(timeZone=zone)) == ([] if is_one else ["spec.timeZone"])


@pytest.mark.parametrize(
    "name", ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]
)
def test_amounts_are_not_below_zero(name: str) -> None:
    assert fields(cron(**{name: -1})) == [f"spec.{name}"]


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_templates_of_jobs_stay_case_48(template: str) -> None:
    stored = mutated(cron(template))
    changed = copy.deepcopy(stored)
    changed["spec"]["template"][template]["spec"]["template"]["spec"]["containers"][0]["image"] = "busybox:2"
    others = {"schedule": "@daily", "paused": True, "successfulJobsHistoryLimit": 7, "timeZone": "Etc/UTC"}

    assert fields(changed, stored) == ["spec"]
    assert fields({**stored, "spec": {**stored["spec"], **others}}, stored) == []


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_a_template_in_the_form_of_a_go_client_is_not_changed_by_its_manifest(template: str) -> None:
    """OpenKruise stores empty objects and canonical quantities that the manifest of the user does not have."""
    given = cron(template)
    pod = given["spec"]["template"][template]["spec"]["template"]
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1000m"}}
    pod["spec"]["initContainers"] = [{"name": "first", "image": "busybox:1"}]
    stored = mutated(given)
    form = stored["spec"]["template"][template] = {"metadata": {}, **stored["spec"]["template"][template]}
    form["metadata"] = {"creationTimestamp": None, **form["metadata"]}
    pod = form["spec"]["template"] = copy.deepcopy(form["spec"]["template"])
    pod["metadata"] = {"creationTimestamp": None, **(pod.get("metadata") or {})}
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1"
    pod["spec"]["initContainers"][0]["resources"] = {}
    if template == "broadcastJobTemplate":
        form["spec"] = {"completionPolicy": {}, "failurePolicy": {}, **form["spec"]}
        given["spec"]["template"][template]["spec"]["failurePolicy"] = {"restartLimit": 0}

    assert fields(given, stored) == []

    for field, value in (("cpu", "2"), ("memory", "1Gi")):
        changed = copy.deepcopy(given)
        changed_pod = changed["spec"]["template"][template]["spec"]["template"]["spec"]
        changed_pod["containers"][0]["resources"]["limits"][field] = value
        assert fields(changed, stored) == ["spec"]


def test_other_limits_of_restarts_and_other_policies_are_changes() -> None:
    def with_policies(**policies: Any) -> dict[str, Any]:
        given = cron()
        given["spec"]["template"]["broadcastJobTemplate"]["spec"].update(policies)
        return given

    stored = mutated(with_policies(failurePolicy={"restartLimit": 0}))
    assert fields(with_policies(failurePolicy={"restartLimit": 1}), stored) == ["spec"]
    assert fields(with_policies(failurePolicy={"type": "Pause"}), stored) == ["spec"]
    assert fields(with_policies(completionPolicy={"ttlSecondsAfterFinished": 0}), stored) == ["spec"]
    assert fields(with_policies(paused=False), stored) == []


def test_a_stored_pod_template_of_a_wrong_type_is_another_template() -> None:
    stored = mutated(cron())
    stored["spec"]["template"]["broadcastJobTemplate"]["spec"]["template"]["spec"]["containers"] = ["main"]

    assert fields(cron(), stored) == ["spec"]


def test_a_name_is_not_validated_again_on_an_update() -> None:
    assert fields(cron(name="night.ly")) == ["metadata.name"]
    assert fields(cron(name="night.ly", paused=True), mutated(cron(name="night.ly"))) == []


def test_images_of_pulls_may_change_and_the_kind_may_not_case_49() -> None:
    stored = mutated(cron(PULLS))
    changed = copy.deepcopy(stored)
    changed["spec"]["template"][PULLS]["spec"]["images"] = ["nginx:2"]
    swapped = copy.deepcopy(stored)
    swapped["spec"]["template"] = {"jobTemplate": TEMPLATES["jobTemplate"]}

    assert fields(changed, stored) == []
    assert fields(swapped, stored) == ["spec"]


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate", PULLS])
def test_an_object_stored_without_a_template_may_not_get_one(template: str) -> None:
    """The kind of children never changes, so a template for image pulls is refused, too."""
    given = cron(template)

    assert fields(given, {**given, "spec": None}) == ["spec"]
    assert fields(given, {**given, "spec": {**given["spec"], "template": None}}) == ["spec"]


def test_removing_the_template_or_adding_an_unknown_field_is_refused() -> None:
    stored = mutated(cron())

    assert fields({**stored, "spec": {**stored["spec"], "template": None}}, stored) == [
        "spec.template",
        "spec",
    ]
    assert fields({**stored, "spec": {**stored["spec"], "newField": 1}}, stored) == ["spec"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": {"names": ["a"], "matchLabels": {"b": "c"}}}, "selector"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "selector.labelSelector"),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "podSelector.labelSelector",
        ),
        ({"selector": {"names": ["a", "a"]}}, "selector.names"),
        ({"selector": {"names": ["a"]}, "podSelector": {"matchLabels": {"b": "c"}}}, ""),
        ({"images": []}, "images"),
        ({"images": None}, "images"),
        ({"images": ["a", "a"]}, "images"),
        ({"images": ["Not An Image"]}, "images"),
        ({"images": [f"nginx@sha256:{'0' * 40}"]}, "images"),
        ({"images": ["0" * 64]}, "images"),
        ({"parallelism": "10%"}, "parallelism"),
        (
            {"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 300}, "pullPolicy": None},
            "completionPolicy.activeDeadlineSeconds",
        ),
        ({"images": [f"a{n}" for n in range(256)]}, "images"),
        ({"completionPolicy": {"type": "Never"}}, "completionPolicy.type"),
        (
            {"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 86401}},
            "completionPolicy.activeDeadlineSeconds",
        ),
        (
            {
                "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 5},
                "pullPolicy": {"timeoutSeconds": 9},
            },
            "completionPolicy.activeDeadlineSeconds",
        ),
        (
            {"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 5}},
            "completionPolicy.ttlSecondsAfterFinished",
        ),
    ],
)
def test_an_image_list_pull_template_is_validated(spec: dict[str, Any], field: str) -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"] |= spec

    assert fields(given) == [f"spec.template.{PULLS}.spec{'.' if field else ''}{field}"]


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"names": ["a", "b"]}},
        {"selector": {"names": None, "matchLabels": {"b": "c"}}},
        {"selector": {}, "podSelector": None},
        {"podSelector": {"matchLabels": {"b": "c"}}, "selector": None},
        {"images": [f"a{n}" for n in range(255)]},
        {"completionPolicy": None},
        {"completionPolicy": {"activeDeadlineSeconds": 86400}},
        {"completionPolicy": {"activeDeadlineSeconds": 5}, "pullPolicy": {"timeoutSeconds": 5}},
        {"completionPolicy": {"activeDeadlineSeconds": 6}, "pullPolicy": {"timeoutSeconds": 5}},
        {"completionPolicy": {"activeDeadlineSeconds": None}, "pullPolicy": {"timeoutSeconds": 5}},
        {"completionPolicy": {"activeDeadlineSeconds": 600}, "pullPolicy": None},
    ],
)
def test_a_list_of_pulls_within_its_rules_is_admitted(spec: dict[str, Any]) -> None:
    given = cron(PULLS, concurrencyPolicy="Forbid")
    given["spec"]["template"][PULLS]["spec"] |= spec

    assert causes(given) == ()


@pytest.mark.parametrize(
    "image",
    ["nginx", "nginx:1.27", "registry.example:5000/a/b:c", f"a/b@sha256:{'0' * 64}", "[::1]:5000/a:1"],
)
def test_image_references_are_known(image: str) -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"]["images"] = [image]

    assert fields(given) == []


def test_a_stored_template_of_pulls_whose_jobs_are_rejected_does_not_block_another_schedule() -> None:
    stored = cron(PULLS)
    stored["spec"]["template"][PULLS]["spec"]["parallelism"] = "10%"
    stored = mutated(stored)
    changed = copy.deepcopy(stored)
    changed["spec"]["schedule"] = "0 3 * * *"
    assert fields(changed, stored) == []


AMOUNTS = [
    ({"failurePolicy": {"restartLimit": -1}}, "failurePolicy.restartLimit"),
    ({"completionPolicy": {"ttlSecondsAfterFinished": -1}}, "completionPolicy.ttlSecondsAfterFinished"),
    ({"completionPolicy": {"activeDeadlineSeconds": -1}}, "completionPolicy.activeDeadlineSeconds"),
    ({"parallelism": -1}, "parallelism"),
    ({"parallelism": "a few"}, "parallelism"),
]


@pytest.mark.parametrize(("spec", "field"), AMOUNTS)
def test_amounts_with_which_no_broadcastjob_is_admitted_are_refused(spec: dict[str, Any], field: str) -> None:
    given = cron()
    given["spec"]["template"]["broadcastJobTemplate"]["spec"] |= spec
    assert fields(given) == [f"spec.template.broadcastJobTemplate.spec.{field}"]


@pytest.mark.parametrize("spec", [spec for spec, _ in AMOUNTS])
def test_a_stored_template_of_broadcastjobs_with_such_amounts_does_not_block_another_schedule(
    spec: dict[str, Any],
) -> None:
    stored = cron()
    stored["spec"]["template"]["broadcastJobTemplate"]["spec"] |= spec
    stored = mutated(stored)
    changed = copy.deepcopy(stored)
    changed["spec"]["schedule"] = "0 3 * * *"
    assert fields(changed, stored) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": "10%", "failurePolicy": {"restartLimit": 0}},
        {"parallelism": 0, "completionPolicy": {"activeDeadlineSeconds": 0, "ttlSecondsAfterFinished": 0}},
    ],
)
def test_amounts_of_broadcastjobs_within_their_rules_are_admitted(spec: dict[str, Any]) -> None:
    given = cron()
    given["spec"]["template"]["broadcastJobTemplate"]["spec"] |= spec
    assert fields(given) == []


def with_policy(**policy: Any) -> dict[str, Any]:
    """A template of BroadcastJobs with this completion policy."""
    given = cron()
    given["spec"]["template"]["broadcastJobTemplate"]["spec"]["completionPolicy"] = policy
    return given


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_pods_that_always_restart_get_a_warning(template: str) -> None:
    always = cron(template)
    always["spec"]["template"][template]["spec"]["template"]["spec"]["restartPolicy"] = "Always"

    assert warnings(always) == 1


def test_settings_that_will_not_work_get_a_warning() -> None:
    assert warnings(cron("jobTemplate")) == 0
    assert warnings(cron(schedule="0 0 31 2 *")) == 1
    assert warnings(cron(schedule="0 0 29 2 *", timeZone="Asia/Shanghai")) == 0
    assert warnings(cron(failedJobsHistoryLimit=0)) == 1
    assert warnings(cron(failedJobsHistoryLimit=1)) == 0
    assert warnings(cron(startingDeadlineSeconds=9)) == 1
    assert warnings(cron(startingDeadlineSeconds=10)) == 0
    assert warnings(cron()) == 0


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        ({"type": "Never", "ttlSecondsAfterFinished": 1}, 1),
        ({"type": "Never", "activeDeadlineSeconds": 1}, 1),
        ({"type": "Never", "ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 1}, 1),
        ({"type": "Never"}, 0),
        ({"type": "Always", "ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 1}, 0),
        ({}, 0),
    ],
)
def test_jobs_that_never_end_and_have_times_are_warned_of(policy: dict[str, Any], count: int) -> None:
    assert warnings(with_policy(**policy)) == count


# ── the right to create the template's object ────────────────────────────────


class Access:
    """A user's access: `may` answers every review."""

    def __init__(self, *, may: bool) -> None:
        self.may = may
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, _request: AdmissionRequest, verb: str, resource: Resource) -> bool:
        self.asked.append((verb, resource.plural))
        return self.may


def pulls() -> dict[str, Any]:
    return mutated(cron(PULLS, concurrencyPolicy="Forbid"))


def test_a_list_of_images_to_pull_is_for_those_who_may_make_one() -> None:
    access = Access(may=False)
    refusal = reviewed(build_validating_review(access), pulls()).refusal
    assert refusal is not None
    assert (refusal.code, access.asked) == (403, [("create", "imagelistpulljobs")])
    assert "spec.template.imageListPullJobTemplate" in refusal.message
    assert reviewed(build_validating_review(Access(may=True)), pulls()).refusal is None


def test_rights_are_not_reviewed_for_other_or_unchanged_templates() -> None:
    access = Access(may=False)
    assert reviewed(build_validating_review(access), mutated(cron())).refusal is None
    paused = {**pulls(), "spec": {**pulls()["spec"], "paused": True}}
    assert reviewed(build_validating_review(access), paused, pulls()).refusal is None
    typed = pulls()
    typed["spec"]["template"][PULLS] = {
        "metadata": {"creationTimestamp": None},
        **typed["spec"]["template"][PULLS],
    }
    assert reviewed(build_validating_review(access), paused, typed).refusal is None
    assert access.asked == []


def test_a_selector_of_all_pods_is_another_template_than_none() -> None:
    access = Access(may=False)
    changed = pulls()
    changed["spec"]["template"][PULLS]["spec"]["podSelector"] = {}
    assert reviewed(build_validating_review(access), changed, pulls()).refusal is not None


NOW = parse_time("2026-01-31T10:00:00Z")


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "* * * * *"},
        {"timeZone": "Etc/UTC"},
        {"paused": True},
        {"startingDeadlineSeconds": 60},
    ],
    ids=str,
)
def test_a_change_of_what_is_due_is_noted_with_its_time_and_another_change_is_not(
    change: dict[str, Any],
) -> None:
    # given
    stored = cron()
    changed = {**stored, "spec": {**stored["spec"], **change}}
    # then
    first = record_change(changed, stored, now=NOW)
    assert read_scheduled_since(annotations_of(first)) == NOW
    # and the time stays when another field changes, and when a client drops the annotation
    other = {**changed, "spec": {**changed["spec"], "failedJobsHistoryLimit": 7}}
    assert read_scheduled_since(annotations_of(record_change(other, first, now=NOW + 60))) == NOW
    # and a new object has no such time
    assert record_change(changed, None, now=NOW) is changed
