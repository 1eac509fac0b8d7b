"""Images of a StatefulSet's new revision are pulled ahead; numbers are the specification's cases."""

from typing import Any

import pytest

from pykruise.plans.purposes import Purpose
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS
from pykruise.pods.view import keys
from pykruise.runtime.actions import Delete
from pykruise.runtime.plan import Plan
from support.plan_views import steps_named
from support.pulling_ahead import created_jobs, labels_given
from support.statefulset_builder import StatefulSetBuilder, images, owner, statefulset, updatable

CREATED, IGNORED = keys.PRE_DOWNLOAD_CREATED_LABEL, keys.PRE_DOWNLOAD_IGNORED_LABEL


def rollout(replicas: int = 4, **fields: Any) -> StatefulSetBuilder:
    """A rollout in place from nginx:0 to nginx:1, with ImagePullJobs served."""
    builder = updatable(replicas, parallel=True, **fields).all_old()
    builder.jobs = []
    return builder.with_settings(pre_download=True)


def test_jobs_are_created_for_changed_images_and_the_revision_is_labelled() -> None:
    """statefulset case 85"""
    # given
    builder = rollout()
    plan = builder.plan()
    # then
    (job,) = created_jobs(plan)
    assert job["metadata"]["name"] == f"{builder.update_name}-main"
    assert job["metadata"]["ownerReferences"] == [owner()]
    assert job["spec"]["image"] == "nginx:1"
    assert job["spec"]["parallelism"] == 1
    assert job["spec"]["pullPolicy"] == {"backoffLimit": 1, "timeoutSeconds": 300}
    assert job["spec"]["podSelector"]["matchExpressions"][0]["operator"] == "NotIn"
    assert labels_given(plan) == [CREATED]
    # and the update does not wait for the pull
    assert images(plan) != {}


def test_annotations_set_the_parallelism_and_timeout_of_the_pre_download() -> None:
    builder = rollout().annotated(image_predownload_parallelism="3", image_predownload_timeout_seconds="60")
    (job,) = created_jobs(builder.plan())
    assert (job["spec"]["parallelism"], job["spec"]["pullPolicy"]["timeoutSeconds"]) == (3, 60)


def with_a_command(builder: StatefulSetBuilder) -> StatefulSetBuilder:
    """Let the new template have another command, and not only another image."""
    builder.spec["template"]["spec"]["containers"][0]["command"] = ["run"]
    return builder


@pytest.mark.parametrize(
    ("builder", "because"),
    [
        (lambda: rollout(3), "3 pods are updated faster than an image is pulled"),  # statefulset case 85
        (lambda: rollout(maxUnavailable="100%"), "all pods are updated at the same time"),
        (lambda: rollout(policy="ReCreate"), "pods are not updated in place"),
        (lambda: rollout().on_delete(), "pods are not updated in place"),
        (lambda: with_a_command(rollout()), "pods are recreated: "),
    ],
    ids=["few pods", "all at once", "recreation", "OnDelete", "more than images"],
)
def test_a_pre_download_that_would_not_help_is_skipped_for_good(builder: Any, because: str) -> None:
    """statefulset case 85"""
    plan = builder().plan()
    assert (created_jobs(plan), labels_given(plan)) == ([], [IGNORED])
    (step,) = steps_named(plan, Purpose.PRE_DOWNLOAD)
    assert step.because.startswith(because)


@pytest.mark.parametrize(
    ("wanted", "ready", "revision", "count"),
    [("50%", 2, "", 0), ("50%", 3, "", 1), ("1", 3, "web-another", 0), ("0", 3, "web-another", 1)],
)
def test_jobs_wait_for_updated_pods_that_are_ready(
    wanted: str, ready: int, revision: str, count: int
) -> None:
    """statefulset case 86: half of five, rounded up; pods of another revision do not count"""
    builder = rollout(5).annotated(image_predownload_min_updated_ready_pods=wanted)
    builder.with_status(updateRevision=revision or builder.update_name, updatedReadyReplicas=ready)
    assert len(created_jobs(builder.plan())) == count


@pytest.mark.parametrize("label", [CREATED, IGNORED])
def test_a_pre_download_is_decided_once(label: str) -> None:
    builder = rollout()
    builder.with_revisions(*builder.stored_revisions())
    assert builder.revisions is not None
    builder.revisions[1]["metadata"]["labels"][label] = "true"
    assert not _stages(builder.plan())


def _stages(plan: Plan) -> list[str]:
    return [stage.purpose for stage in plan.stages if stage.purpose == Purpose.PRE_DOWNLOAD]


def test_a_revision_is_stored_before_its_images_are_pulled() -> None:
    builder = rollout()
    builder.with_revisions(builder.stored_revisions()[0])
    assert not _stages(builder.plan())


def test_an_existing_job_is_not_created_again() -> None:
    # given a manager that ended before it could label the revision
    builder = rollout()
    name = f"{builder.update_name}-main"
    builder.jobs = [
        {"metadata": {"name": name, "namespace": "shop", "uid": "u", "ownerReferences": [owner()]}}
    ]
    plan = builder.plan()
    # then the plan labels the revision now, without a wait
    assert (created_jobs(plan), labels_given(plan)) == ([], [CREATED])
    (stage,) = (stage for stage in plan.stages if stage.purpose == Purpose.PRE_DOWNLOAD)
    assert stage.only_after == ()


def test_the_pre_download_jobs_are_deleted_after_the_rollout() -> None:
    """statefulset case 85"""
    # given
    builder = statefulset(4).with_settings(pre_download=True)
    assert not _stages(builder.plan())
    builder.jobs = []
    assert not _stages(builder.plan())
    builder.jobs = [
        {"metadata": {"name": "a-job", "namespace": "shop", "uid": "u", "ownerReferences": [owner()]}}
    ]
    # when
    (step,) = builder.plan().steps
    # then
    assert isinstance(step.action, Delete)
    assert step.action.resource == IMAGE_PULL_JOBS
    # and only once
    builder.jobs[0]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert not _stages(builder.plan())


def test_a_job_that_cannot_be_created_is_a_warning_and_is_tried_again() -> None:
    """The label is written only after every job: otherwise the missing image would never be pulled ahead."""
    create, label = (stage for stage in rollout().plan().stages if stage.purpose == Purpose.PRE_DOWNLOAD)
    failed = create.chains[0].steps[0].failed
    assert failed is not None
    assert failed.warning
    assert (create.is_optional, label.only_after) == (True, (Purpose.PRE_DOWNLOAD,))
