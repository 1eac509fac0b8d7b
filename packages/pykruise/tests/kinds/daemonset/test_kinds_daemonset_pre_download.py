"""Images of a DaemonSet's new revision are pulled ahead: the creation, contents and deletion of jobs."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.daemonset.kind import KIND
from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.kinds.daemonset.snapshot import DaemonSetSettings
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.view import keys
from pykruise.runtime.actions import Delete
from pykruise.runtime.plan import Plan
from support.daemonset_builder import DaemonSetBuilder, daemonset, revision, template
from support.plan_views import left, steps_named
from support.pulling_ahead import created_jobs, job, labels_given
from support.snapshots import snapshot_of

CREATED, IGNORED = keys.PRE_DOWNLOAD_CREATED_LABEL, keys.PRE_DOWNLOAD_IGNORED_LABEL
PARALLELISM, TIMEOUT, THRESHOLD = (
    f"apps.kruise.io/image-predownload-{what}"
    for what in ("parallelism", "timeout-seconds", "min-updated-ready-pods")
)


def rollout(nodes: int = 5, **rolling: Any) -> DaemonSetBuilder:
    """A rollout from nginx:0 to nginx:1, all pods old."""
    return daemonset(nodes, **rolling).all_old()


def annotated(builder: DaemonSetBuilder, **annotations: str) -> DaemonSetBuilder:
    names = {"parallelism": PARALLELISM, "timeout": TIMEOUT, "threshold": THRESHOLD}
    builder.document["metadata"]["annotations"] = {names[key]: text for key, text in annotations.items()}
    return builder


def plan_of(builder: DaemonSetBuilder, *jobs: PullJobView, is_served: bool = True) -> Plan:
    return plan_daemonset(
        msgspec.structs.replace(builder.snapshot(), pull_jobs=tuple(jobs) if is_served else None)
    )


def test_a_job_is_created_for_each_changed_image_and_the_revision_is_labelled() -> None:
    """daemonset 6.11; not only for updates in place: a node gets the image before its old pod is deleted"""
    # given
    builder = rollout()
    builder.spec["template"]["metadata"]["annotations"] = {"example.com/a": "b"}
    builder.spec["template"]["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    # when
    plan = plan_of(builder)
    # then
    (document,) = created_jobs(plan)
    metadata, spec = document["metadata"], document["spec"]
    assert metadata["name"] == f"web-{builder.update_hash}-main"
    assert metadata["labels"] == {"app": "web", "controller.kubernetes.io/hash": builder.update_hash}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DaemonSet", "owner-uid", True)
    not_new = {
        "key": "controller-revision-hash",
        "operator": "NotIn",
        "values": [f"web-{builder.update_hash}", builder.update_hash],
    }
    assert spec == {
        "image": "nginx:1",
        "pullSecrets": ["registry"],
        "podSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [not_new]},
        "parallelism": 1,
        "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": 300},
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
        "sandboxConfig": {"labels": metadata["labels"], "annotations": {"example.com/a": "b"}},
    }
    assert labels_given(plan) == [CREATED]
    assert {note.reason for step in plan.steps if (note := step.done)} >= {"CreatedImagePullJob"}
    # and the update continues in the meantime
    assert next(stage for stage in plan.stages if stage.purpose == Purpose.PRE_DOWNLOAD).is_optional
    assert steps_named(plan, "delete pods")


@pytest.mark.parametrize(
    ("parallelism", "timeout", "expected"),
    [("5", "60", (5, 60)), ("x", "", (1, 300)), ("-1", "1.5", (1, 300)), ("0", "+30", (0, 30))],
)
def test_settings_are_annotations_and_a_non_number_counts_as_absent(
    parallelism: str, timeout: str, expected: tuple[int, int]
) -> None:
    """inplace-update case 73"""
    (document,) = created_jobs(plan_of(annotated(rollout(), parallelism=parallelism, timeout=timeout)))
    spec = document["spec"]
    assert (spec["parallelism"], spec["pullPolicy"]["timeoutSeconds"]) == expected


@pytest.mark.parametrize(
    ("threshold", "ready", "is_due"),
    [("2", 1, False), ("2", 2, True), ("30%", 1, False), ("30%", 2, True), ("abc", 0, True)],
)
def test_the_threshold_is_waited_for(threshold: str, ready: int, is_due: bool) -> None:
    """inplace-update case 70: of five nodes 30% are two"""
    # given `ready` ready updated pods, and one updated pod that is not ready
    updated = [f"n{5 - number}" for number in range(ready + 1)]
    builder = annotated(daemonset().old(*({f"n{n}" for n in range(1, 6)} - {*updated})), threshold=threshold)
    builder.not_ready(updated[-1])
    # when
    plan = plan_of(builder)
    # then
    assert bool(created_jobs(plan)) is is_due
    assert bool(labels_given(plan)) is is_due


def partly_ready() -> DaemonSetBuilder:
    """Five nodes: n1 and n2 run ready updated pods, n2 only for a short time; the pod of n3 terminates;
    those of n4 and n5 are old, n4 only ready for a short time."""
    builder = daemonset().with_spec(minReadySeconds=60)
    return builder.ready_for(10, "n2", "n3", "n4").deleted("n3").old("n4", "n5")


@pytest.mark.parametrize(("threshold", "is_due"), [("2", True), ("3", False)])
def test_updated_pods_that_are_ready_count_for_the_threshold_available_or_not(
    threshold: str, is_due: bool
) -> None:
    plan = plan_of(annotated(partly_ready(), threshold=threshold))
    assert bool(created_jobs(plan)) is is_due


@pytest.mark.parametrize(
    "builder",
    [
        daemonset().old("n3").not_ready("n3"),
        # with surge, while the new pod of a node is not ready yet
        daemonset().surging().old("n3").on("n3", called="n3b").born(10, "n3b").not_ready("n3b"),
    ],
    ids=["one old pod that is not ready", "an old pod with a new one beside it"],
)
def test_a_rollout_lasts_until_its_last_pod(builder: DaemonSetBuilder) -> None:
    assert created_jobs(plan_of(builder))


def test_an_old_pod_on_an_excluded_node_needs_no_pre_download() -> None:
    # given a node that keeps its pod, and would not get another one
    builder = daemonset().old("n3").taint("n3", "x:NoSchedule")
    plan = plan_of(builder, job("web-1-main"))
    assert created_jobs(plan) == []
    gone = [step.action for step in steps_named(plan, Purpose.PRE_DOWNLOAD)]
    assert [item.key.name for item in gone if isinstance(item, Delete)] == ["web-1-main"]


@pytest.mark.parametrize(
    "builder",
    [
        rollout().on_delete(),
        daemonset().without_pod("n3"),
        rollout(maxUnavailable="100%"),
        rollout(maxUnavailable=5),
        rollout(1),
    ],
    ids=["OnDelete", "first rollout", "all at once", "as many as nodes", "one node"],
)
def test_a_pre_download_that_would_not_help_is_skipped_for_good(builder: DaemonSetBuilder) -> None:
    plan = plan_of(builder)
    assert created_jobs(plan) == []
    assert labels_given(plan) == [IGNORED]


def test_one_node_is_updated_at_a_time_without_a_block() -> None:
    for builder in (rollout(2), rollout(2).with_spec(updateStrategy={"type": "RollingUpdate"})):
        assert created_jobs(plan_of(builder))


@pytest.mark.parametrize("rolling", [{"maxUnavailable": "100%", "partition": 1}, {"paused": True}])
def test_an_update_limited_by_partition_or_pause_gets_a_pre_download(rolling: dict[str, Any]) -> None:
    """inplace-update case 69; also while updates are paused"""
    assert created_jobs(plan_of(rollout(**rolling)))


def test_a_limit_that_cannot_be_read_decides_nothing() -> None:
    assert not steps_named(plan_of(rollout(partition="abc")), Purpose.PRE_DOWNLOAD)


@pytest.mark.parametrize(
    ("updated", "not_ready"), [((), ()), (("n5",), ("n5",)), ((), ("n1", "n2", "n3", "n4", "n5"))]
)
def test_only_images_that_pods_of_older_revisions_do_not_have_count(
    updated: tuple[str, ...], not_ready: tuple[str, ...]
) -> None:
    # given pods of nginx:0 with an unchanged container, and a history with another image of that container
    stays = {"name": "same", "image": "same:2"}
    history = template("nginx:0")
    history["spec"]["containers"].append({"name": "same", "image": "same:1"})
    builder = daemonset()
    builder.old_template["spec"]["containers"].append(stays)
    builder.spec["template"]["spec"]["containers"].append(stays)
    builder.all_old().not_ready(*not_ready)
    builder.labelled({keys.REVISION_LABEL: builder.update_hash}, *updated)
    builder.with_revisions(
        revision(history, 1), revision(builder.old_template, 2), revision(builder.spec["template"], 3)
    )
    # then
    assert [job["spec"]["image"] for job in created_jobs(plan_of(builder))] == ["nginx:1"]
    # and every image may be missing for pods of an unknown revision
    builder.labelled({keys.REVISION_LABEL: "unknown"}, "n1")
    images = [job["spec"]["image"] for job in created_jobs(plan_of(builder))]
    assert images == ["nginx:1", "same:2"]


def test_an_existing_job_is_not_created_again_but_the_revision_is_labelled() -> None:
    """inplace-update case 71"""
    builder = rollout()
    plan = plan_of(builder, job(f"web-{builder.update_hash}-main"))
    assert (created_jobs(plan), labels_given(plan)) == ([], [CREATED])


@pytest.mark.parametrize("label", [CREATED, IGNORED])
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
    """inplace-update case 72"""
    plan = plan_of(daemonset(), job("web-1-main"), job("web-2-main", is_deleting=True))
    (step,) = plan.steps
    assert isinstance(step.action, Delete)
    assert (step.action.key.name, step.action.uid) == ("web-1-main", "uid-web-1-main")


def test_a_node_that_joins_later_starts_no_pulling() -> None:
    """The gate was off during the rollout of the revision, so it has no label."""
    builder = daemonset().node("n6")
    builder.with_revisions(revision(builder.old_template, 1), revision(builder.spec["template"], 2))
    plan = plan_of(builder)
    assert created_jobs(plan) == []


@pytest.mark.parametrize(("is_on", "known"), [(True, ["web-1-main"]), (False, None)])
def test_pre_download_jobs_are_read_only_with_the_gate_on(is_on: bool, known: list[str] | None) -> None:
    view = daemonset().view()
    own = job("web-1-main", controller_uid=view.uid)
    result = snapshot_of(
        KIND,
        view,
        {PULL_JOB_VIEWS: [own]},
        settings=DaemonSetSettings(pre_download=is_on),
        now=daemonset().now,
    )
    assert (result.pull_jobs and [job.name for job in result.pull_jobs]) == known


def test_nothing_is_written_when_image_pull_jobs_are_not_served() -> None:
    assert not steps_named(plan_of(rollout(), is_served=False), Purpose.PRE_DOWNLOAD)


def test_under_the_selector_guard_no_job_is_created_or_deleted() -> None:
    builder = rollout()
    builder.with_revisions(*builder.stored_revisions())
    builder.with_spec(selector={"matchLabels": {"app": "other"}})
    plan = plan_of(builder, job("web-1-main"))
    assert not plan.stages
    assert set(left(plan)) == {"n1", "n2", "n3", "n4", "n5"}
