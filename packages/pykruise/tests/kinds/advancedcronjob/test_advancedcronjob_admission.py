"""What admission makes of AdvancedCronJobs, and what it refuses: the numbered cases of the specification."""

import asyncio
import copy
from typing import Any

import pytest

from pykruise.kinds.advancedcronjob.admission import mutating, validate_cronjob
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.pods.template_defaults import DefaultingSettings
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
        name=document["metadata"]["name"],
        object=document,
        old_object=old,
    )

    async def review() -> AdmissionAnswer:
        return await reviewer(asked)

    return asyncio.run(review())


def mutated(document: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    return reviewed(mutating(DefaultingSettings()), document, old).object or document


def fields(document: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    refusal = reviewed(validate_cronjob, mutated(document, old), old).refusal
    if refusal is None:
        return []
    assert refusal.code == 422
    assert refusal.details is not None
    return [cause.field for cause in refusal.details.causes]


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


@pytest.mark.parametrize("template", ["jobTemplate", "broadcastJobTemplate"])
def test_pods_that_say_nothing_of_restarts_get_a_policy_that_works(template: str) -> None:
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


def test_pulls_cannot_run_side_by_side_case_43() -> None:
    assert fields(cron(PULLS, concurrencyPolicy="Allow")) == ["spec.concurrencyPolicy"]


def test_there_is_exactly_one_template_case_44() -> None:
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
def test_what_is_no_schedule_is_refused_case_45(schedule: str) -> None:
    assert fields(cron(schedule=schedule)) == ["spec.schedule"]


@pytest.mark.parametrize(
    "schedule", ["TZ=Asia/Shanghai 0 10 * * ?", "@every 1.5h", "0 0 1,,15 * *", "@weekly"]
)
def test_what_is_one_is_admitted_case_46(schedule: str) -> None:
    assert fields(cron(schedule=schedule)) == []


def test_a_zone_is_said_once_case_46() -> None:
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


def test_images_of_pulls_may_change_and_the_kind_may_not_case_49() -> None:
    stored = mutated(cron(PULLS))
    changed = copy.deepcopy(stored)
    changed["spec"]["template"][PULLS]["spec"]["images"] = ["nginx:2"]
    swapped = copy.deepcopy(stored)
    swapped["spec"]["template"] = {"jobTemplate": TEMPLATES["jobTemplate"]}

    assert fields(changed, stored) == []
    assert fields(swapped, stored) == ["spec"]


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
        ({"images": ["a", "a"]}, "images"),
        ({"images": ["Not An Image"]}, "images"),
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
def test_a_list_of_pulls_has_rules_of_its_own(spec: dict[str, Any], field: str) -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"] |= spec

    assert fields(given) == [f"spec.template.{PULLS}.spec{'.' if field else ''}{field}"]


@pytest.mark.parametrize(
    "image",
    ["nginx", "nginx:1.27", "registry.example:5000/a/b:c", f"a/b@sha256:{'0' * 64}", "ghcr.io/x/y_z:1"],
)
def test_image_references_are_known(image: str) -> None:
    given = cron(PULLS)
    given["spec"]["template"][PULLS]["spec"]["images"] = [image]

    assert fields(given) == []


def test_what_will_not_work_is_warned_of() -> None:
    always = cron("jobTemplate")
    always["spec"]["template"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    endless = cron()
    endless["spec"]["template"]["broadcastJobTemplate"]["spec"]["completionPolicy"] = {
        "type": "Never",
        "ttlSecondsAfterFinished": 1,
    }

    assert [warnings(one) for one in (always, endless)] == [1, 1]
    assert warnings(cron(name="a" * 53)) == 1
    assert warnings(cron(schedule="0 0 31 2 *")) == 1
    assert warnings(cron(startingDeadlineSeconds=5)) == 1
    assert warnings(cron()) == 0
