"""Images of a new revision are pulled ahead: the creation, contents and deletion of jobs."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot
from pykruise.kube.patches.types import PatchType
from pykruise.plans.purposes import Purpose
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view import keys
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset, revision, template
from support.plan_views import steps_named
from support.pulling_ahead import created_jobs, job, labels_given


def rollout(replicas: int = 4, **arguments: Any) -> CloneSetBuilder:
    """A rollout in place from nginx:0 to nginx:1, all pods old."""
    builder = cloneset(replicas, old=replicas, **{"max_unavailable": 1, **arguments})
    return builder.with_rolling(podUpdatePolicy="InPlaceIfPossible")


def plan_of(builder: CloneSetBuilder, *jobs: PullJobView, is_served: bool = True) -> Plan:
    snapshot: CloneSetSnapshot = builder.snapshot()
    pull_jobs = tuple(jobs) if is_served else None
    return plan_cloneset(msgspec.structs.replace(snapshot, pull_jobs=pull_jobs))


def test_a_job_is_created_for_each_changed_image_and_the_revision_is_labelled() -> None:
    """cloneset case 92, inplace-update case 68"""
    # given
    builder = rollout()
    # when
    plan = plan_of(builder)
    # then
    (document,) = created_jobs(plan)
    update = builder.update_revision
    metadata, spec = document["metadata"], document["spec"]
    assert metadata["name"] == f"{update}-main"
    assert metadata["namespace"] == "shop"
    assert metadata["labels"] == {"app": "web", keys.REVISION_HASH_LABEL: update.rpartition("-")[2]}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CloneSet", "web", True)
    assert spec["image"] == "nginx:1"
    assert spec["podSelector"] == {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {
                "key": "controller-revision-hash",
                "operator": "NotIn",
                "values": [update, update.rpartition("-")[2]],
            }
        ],
    }
    assert spec["parallelism"] == 1
    assert spec["pullPolicy"] == {"backoffLimit": 1, "timeoutSeconds": 300}
    assert spec["completionPolicy"] == {"type": "Always", "ttlSecondsAfterFinished": 600}
    assert spec["sandboxConfig"] == {"labels": metadata["labels"]}
    assert labels_given(plan) == ["apps.kruise.io/pre-predownload-created"]
    assert next(note.reason for step in plan.steps if (note := step.done)) == "CreatedImagePullJob"


def test_settings_secrets_and_annotations_get_into_the_job() -> None:
    # given
    builder = rollout().with_rolling(
        inPlaceUpdateStrategy={"imagePreDownloadParallelism": "5", "imagePreDownloadTimeoutSeconds": 60}
    )
    for item in (builder.spec["template"], builder.old_template):
        item["metadata"]["annotations"] = {"example.com/a": "b"}
        item["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    for pod in builder.pods.values():
        pod["metadata"]["labels"][keys.REVISION_LABEL] = builder.old_revision
    # when
    (document,) = created_jobs(plan_of(builder))
    # then
    assert document["spec"]["parallelism"] == "5"
    assert document["spec"]["pullPolicy"]["timeoutSeconds"] == 60
    assert document["spec"]["pullSecrets"] == ["registry"]
    assert document["spec"]["sandboxConfig"]["annotations"] == {"example.com/a": "b"}


@pytest.mark.parametrize("parallelism", ["20%", "abc", "-1", -1, "99999999999"])
def test_settings_that_an_image_pull_job_does_not_accept_are_replaced_by_the_defaults(
    parallelism: int | str,
) -> None:
    """Clients of v1alpha1 write annotations, which no webhook checks, also in OpenKruise."""
    # given
    builder = rollout().with_rolling(
        inPlaceUpdateStrategy={
            "imagePreDownloadParallelism": parallelism,
            "imagePreDownloadTimeoutSeconds": -1,
            "imagePreDownloadMinUpdatedReadyPods": -1,
        }
    )
    # when
    (document,) = created_jobs(plan_of(builder))
    # then
    assert document["spec"]["parallelism"] == 1
    assert document["spec"]["pullPolicy"]["timeoutSeconds"] == 300


def test_only_containers_whose_image_changes_or_that_are_new_count() -> None:
    builder = rollout()
    builder.spec["template"]["spec"]["containers"].append({"name": "same", "image": "same:1"})
    builder.old_template = template("nginx:0")
    builder.old_template["spec"]["containers"].append({"name": "same", "image": "same:1"})
    for short in "abcd":
        builder.old(short)
    assert [job["spec"]["image"] for job in created_jobs(plan_of(builder))] == ["nginx:1"]


@pytest.mark.parametrize(
    "builder",
    [
        rollout(3),
        rollout().with_rolling(podUpdatePolicy="ReCreate"),
        rollout(max_unavailable="100%"),
        rollout().on_delete(),
        rollout().with_spec(template=template("nginx:1", hostNetwork=True)),
    ],
    ids=["three replicas", "recreated", "all at once", "OnDelete", "not in place"],
)
def test_a_pre_download_that_would_not_help_is_skipped_for_good(builder: CloneSetBuilder) -> None:
    """cloneset case 92, inplace-update cases 68 and 69"""
    plan = plan_of(builder)
    assert created_jobs(plan) == []
    assert labels_given(plan) == ["apps.kruise.io/image-predownload-ignored"]


def test_a_partition_or_the_default_keeps_the_pre_download_although_all_may_be_unavailable() -> None:
    """inplace-update case 69"""
    assert created_jobs(plan_of(rollout(max_unavailable="100%", partition=1)))
    assert created_jobs(plan_of(rollout(max_unavailable=None))), "the default is not all either"


@pytest.mark.parametrize(
    ("threshold", "ready", "of", "is_due"),
    [
        (2, 1, "", False),
        (2, 2, "", True),
        (2, 2, "web-other", False),
        (1, 2, "web-other", False),
        (0, 2, "web-other", True),
        (None, 0, "", True),
    ],
)
def test_the_threshold_is_waited_for(threshold: int | None, ready: int, of: str, is_due: bool) -> None:
    """inplace-update case 70"""
    builder = rollout().with_rolling(inPlaceUpdateStrategy={"imagePreDownloadMinUpdatedReadyPods": threshold})
    builder.with_status(updateRevision=of or builder.update_revision, updatedReadyReplicas=ready)
    plan = plan_of(builder)
    assert bool(created_jobs(plan)) is is_due
    assert bool(labels_given(plan)) is is_due


def test_an_existing_job_is_not_created_again_but_the_revision_is_labelled() -> None:
    """inplace-update case 71"""
    builder = rollout()
    plan = plan_of(builder, job(f"{builder.update_revision}-main"))
    assert created_jobs(plan) == []
    assert labels_given(plan) == ["apps.kruise.io/pre-predownload-created"]


@pytest.mark.parametrize("label", [keys.PRE_DOWNLOAD_CREATED_LABEL, keys.PRE_DOWNLOAD_IGNORED_LABEL])
def test_a_revision_that_is_labelled_is_done_with(label: str) -> None:
    builder = rollout()
    stored = builder.stored_revisions()
    stored[-1]["metadata"]["labels"][label] = "true"
    assert not steps_named(plan_of(builder.with_revisions(*stored)), Purpose.PRE_DOWNLOAD)


def test_a_revision_that_is_not_stored_yet_is_waited_for() -> None:
    builder = rollout()
    builder.with_revisions(revision(builder.old_template, 1))
    assert not steps_named(plan_of(builder), Purpose.PRE_DOWNLOAD)


def test_the_pre_download_jobs_are_deleted_after_the_rollout() -> None:
    """cloneset case 92, inplace-update case 72"""
    plan = plan_of(cloneset(4), job("web-1-main"), job("web-2-main", is_deleting=True))
    (step,) = plan.steps
    assert isinstance(step.action, Delete)
    assert (step.action.key.name, step.action.uid) == ("web-1-main", "uid-web-1-main")


def test_nothing_is_written_when_image_pull_jobs_are_not_served() -> None:
    assert not steps_named(plan_of(rollout(), is_served=False), Purpose.PRE_DOWNLOAD)


def test_pulling_ahead_never_holds_an_update_up() -> None:
    plan = plan_of(rollout())
    stages = {stage.purpose: stage.is_optional for stage in plan.stages}
    assert stages[Purpose.PRE_DOWNLOAD]
    assert not stages["update pods"]
    assert all(
        step.action.patch_type is PatchType.MERGE
        for step in steps_named(plan, Purpose.PRE_DOWNLOAD)
        if isinstance(step.action, Patch)
    )
