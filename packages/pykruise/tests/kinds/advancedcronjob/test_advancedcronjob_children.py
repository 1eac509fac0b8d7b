"""Children of an AdvancedCronJob: their documents, their scheduled times and how they ended."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.advancedcronjob.children import (
    BROADCAST_JOB,
    IMAGE_LIST_PULL_JOB,
    JOB,
    SCHEDULED_AT,
    Ending,
    build_child_document,
    end_document,
    project_child,
    tick_of,
)
from support.cron_world import START


def ending(kind: str, status: dict[str, Any] | None) -> Ending:
    return project_child(orjson.dumps({"metadata": {"name": "a"}, "status": status}), kind).ending


def conditions(*pairs: str) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, "status": value} for kind, _, value in (p.partition("=") for p in pairs)
        ]
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, Ending.ACTIVE),
        ({}, Ending.ACTIVE),
        ({"conditions": None}, Ending.ACTIVE),
        (conditions("Suspended=True"), Ending.ACTIVE),
        (conditions("Failed=False"), Ending.ACTIVE),
        (conditions("Complete=True"), Ending.SUCCESSFUL),
        (conditions("Failed=True"), Ending.FAILED),
        (conditions("FailureTarget=True", "Failed=False", "Complete=True", "Failed=True"), Ending.SUCCESSFUL),
    ],
)
def test_the_first_finished_condition_decides_how_a_job_ended(
    status: dict[str, Any] | None, expected: Ending
) -> None:
    """jobs B6.2, step 2"""
    assert ending("Job", status) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (conditions("Complete=True"), Ending.ACTIVE),
        ({"completionTime": None, "desired": 1, "succeeded": 1}, Ending.ACTIVE),
        ({"completionTime": "2026-01-31T10:01:10Z", "desired": 1, "succeeded": 1}, Ending.SUCCESSFUL),
        ({"completionTime": "2026-01-31T10:01:10Z", "desired": 1}, Ending.FAILED),
    ],
)
def test_a_pull_has_ended_with_its_completion_time(status: dict[str, Any], expected: Ending) -> None:
    """jobs B6.2, step 2"""
    assert ending(IMAGE_LIST_PULL_JOB.kind, status) == expected


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Job", {"parallelism": 0}, (True, False)),
        ("Job", {"parallelism": 1, "managedBy": "kubernetes.io/job-controller"}, (False, False)),
        ("Job", {"managedBy": "kueue.x-k8s.io/multikueue"}, (False, True)),
        (BROADCAST_JOB.kind, {"parallelism": "0%"}, (False, False)),
    ],
)
def test_a_job_may_need_no_pods_here(kind: str, spec: dict[str, Any], expected: tuple[bool, bool]) -> None:
    child = project_child(orjson.dumps({"metadata": {"name": "a"}, "spec": spec}), kind)
    assert (child.starts_no_pod, child.is_managed_elsewhere) == expected


@pytest.mark.parametrize("owners", [None, [], [{"uid": "u"}], [{"uid": "u", "controller": False}]])
def test_an_owner_that_is_not_a_controller_does_not_count(owners: list[dict[str, Any]] | None) -> None:
    raw = orjson.dumps({"metadata": {"name": "a", "ownerReferences": owners}})
    assert project_child(raw, "Job").controller_uid == ""


def test_the_controller_is_chosen_among_several_owners() -> None:
    owners = [{"uid": "u"}, {"uid": "v", "controller": True}]
    raw = orjson.dumps({"metadata": {"name": "a", "ownerReferences": owners}})
    assert project_child(raw, "Job").controller_uid == "v"


def made(**template: Any) -> dict[str, Any]:
    owner = {"name": "nightly", "uid": "u"}
    return build_child_document(BROADCAST_JOB, template, owner=owner, namespace="shop", tick=START)


def test_the_pods_of_a_broadcastjob_get_no_keys_about_a_single_pod() -> None:
    """Admission would reject the BroadcastJob of each tick."""
    labels = {"app": "web", "controller-revision-hash": "abc"}
    pod = {"metadata": {"labels": labels, "annotations": {"note": "x"}}, "spec": {"nodeName": "n"}}
    child = made(spec={"parallelism": 2, "template": pod})
    shared = {"labels": {"app": "web"}, "annotations": {"note": "x"}}
    assert child["spec"] == {"parallelism": 2, "template": {"metadata": shared, "spec": {"nodeName": "n"}}}
    # a Job of Kubernetes gets its pod template unchanged
    job = build_child_document(
        JOB, {"spec": {"template": pod}}, owner={"name": "nightly"}, namespace="shop", tick=START
    )
    assert job["spec"]["template"] == pod


def test_a_broadcastjob_has_no_negative_amounts() -> None:
    """Admission would reject the BroadcastJob of each tick. OpenKruise stores templates with such amounts."""
    completion = {"type": "Always", "activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -5}
    failure = {"type": "Continue", "restartLimit": -1}
    child = made(spec={"completionPolicy": completion, "failurePolicy": failure})
    assert child["spec"] == {
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 0, "ttlSecondsAfterFinished": 0},
        "failurePolicy": {"type": "Continue", "restartLimit": 0},
    }
    # and the template, which is in the cache, does not change
    assert (completion["activeDeadlineSeconds"], failure["restartLimit"]) == (-1, -1)
    positive = {"completionPolicy": {"activeDeadlineSeconds": 9}, "failurePolicy": {"restartLimit": 3}}
    assert made(spec=positive)["spec"] == positive


def test_a_child_has_the_labels_and_annotations_of_its_template_and_its_time() -> None:
    metadata = {"name": "not this", "labels": {"a": "b"}, "annotations": {"note": "x"}, "finalizers": ["c/d"]}
    annotations = made(metadata=metadata, spec={"template": {}})
    assert annotations == {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "BroadcastJob",
        "metadata": {
            "name": f"nightly-{int(START)}",
            "namespace": "shop",
            "labels": {"a": "b"},
            "annotations": {"note": "x", SCHEDULED_AT: "2026-01-31T10:00:00Z"},
            "ownerReferences": [{"name": "nightly", "uid": "u"}],
        },
        "spec": {"template": {}},
    }


@pytest.mark.parametrize("template", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": None}}])
def test_an_empty_job_template_is_copied_as_an_empty_spec(template: dict[str, Any]) -> None:
    result = made(**template)
    assert result["spec"] == {}
    assert result["metadata"]["annotations"] == {SCHEDULED_AT: "2026-01-31T10:00:00Z"}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (made()["metadata"], START),
        ({"annotations": {SCHEDULED_AT: "yesterday"}}, None),
        ({"annotations": {SCHEDULED_AT: ""}}, None),
        ({"annotations": None}, None),
        (None, None),
    ],
)
def test_the_scheduled_time_of_a_child_is_read_from_its_annotation(
    metadata: dict[str, Any] | None, expected: float | None
) -> None:
    assert tick_of({"metadata": metadata}) == expected


@pytest.mark.parametrize("resource", [BROADCAST_JOB, IMAGE_LIST_PULL_JOB])
@pytest.mark.parametrize("is_good", [True, False])
def test_a_child_that_is_played_to_its_end_has_ended(resource: Any, is_good: bool) -> None:
    child = build_child_document(resource, {}, owner={"name": "nightly"}, namespace="shop", tick=START)
    result = project_child(orjson.dumps(end_document(child, START + 1, START + 2, is_good)), resource.kind)
    assert result.ending == (Ending.SUCCESSFUL if is_good else Ending.FAILED)
    assert result.started_at == "2026-01-31T10:00:01Z"
