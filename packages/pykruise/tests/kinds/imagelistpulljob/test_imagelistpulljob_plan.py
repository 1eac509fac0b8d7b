"""Plans of an ImageListPullJob, without a cluster."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pykruise.kinds.imagelistpulljob.admission import mutate_imagelistpulljob, validate_imagelistpulljob
from pykruise.kinds.imagelistpulljob.kind import KIND
from pykruise.kinds.imagelistpulljob.plan import plan_imagelistpulljob
from pykruise.kinds.imagelistpulljob.snapshot import LIST_JOB_VIEWS, ImageListPullJobSnapshot, ListJobView
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import encode
from pykruise.plans.purposes import Purpose
from pykruise.plans.views import PULL_JOB_VIEWS
from pykruise.pods.images.pull_jobs import PullJobView
from pykruise.pods.reasons import Code
from pykruise.pods.settings import NoSettings
from pykruise.pods.view import keys
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.image_objects import NOW, at, job
from support.snapshots import snapshot_of

ALWAYS = {"type": "Always"}
DONE = {"startTime": at(0), "desired": 2, "succeeded": 2}
PARTLY = {"startTime": at(0), "desired": 2, "succeeded": 1, "failed": 1}
GOING = {"startTime": at(0), "desired": 2, "active": 1}


def document(*images: str, metadata: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    status = fields.pop("status", {})
    return {
        "apiVersion": IMAGE_LIST_PULL_JOBS.api_version,
        "kind": IMAGE_LIST_PULL_JOBS.kind,
        "metadata": {
            "name": "list",
            "namespace": "shop",
            "uid": "uid-list",
            "resourceVersion": "1",
            **(metadata or {}),
        },
        "spec": {"images": list(images), "completionPolicy": ALWAYS, **fields},
        "status": status,
    }


def list_job(*images: str, **fields: Any) -> ListJobView:
    return LIST_JOB_VIEWS.project(encode(document(*images, **fields)))


def child(image: str, name: str = "", **fields: Any) -> PullJobView:
    """An ImagePullJob of the list, stored with its defaults."""
    stored = {"imagePullPolicy": "IfNotPresent", "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}}
    metadata = {"ownerReferences": [{"uid": "uid-list", "controller": True, "kind": "ImageListPullJob"}]}
    return job(name or f"list-{image}", image=image, metadata=metadata, **{**stored, **fields})


def planned(list_job: ListJobView, *children: PullJobView, after_s: float = 0.0) -> Plan:
    return plan_imagelistpulljob(ImageListPullJobSnapshot(job=list_job, children=children, now=NOW + after_s))


def made(plan: Plan) -> list[str]:
    """Images that get an ImagePullJob."""
    return [step.action.body["spec"]["image"] for step in plan.steps if isinstance(step.action, Create)]


def gone(plan: Plan) -> set[str]:
    """ImagePullJobs that are deleted."""
    return {step.action.key.name for step in plan.steps if isinstance(step.action, Delete)}


def chains_of(plan: Plan) -> list[str]:
    """Names of the ImagePullJobs that the plan creates."""
    stages = [stage for stage in plan.stages if stage.purpose is Purpose.CREATE_JOBS]
    assert all(chain.has_random_name for stage in stages for chain in stage.chains)
    return [chain.subject for stage in stages for chain in stage.chains]


def status_of(plan: Plan) -> dict[str, Any]:
    assert plan.status is not None
    return plan.status


def test_each_image_gets_a_job_that_the_list_controls() -> None:
    """images case 59"""
    plan = planned(list_job("a", "b", parallelism=5))
    assert made(plan) == ["a", "b"]
    body = next(step.action.body for step in plan.steps if isinstance(step.action, Create))
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-list", True)
    assert body["spec"]["parallelism"] == 5
    assert body["metadata"]["labels"]["controller-revision-hash"]


def test_jobs_are_created_with_a_ramp_and_each_failed_write_has_an_event() -> None:
    plan = planned(list_job("a"), child("b"))
    ramps = {stage.purpose: stage.ramp for stage in plan.stages}
    assert ramps == {Purpose.LABEL_JOB: False, Purpose.CREATE_JOBS: True, Purpose.DELETE_JOBS: False}
    failures = [(step.failed.reason, step.failed.warning) for step in plan.steps if step.failed is not None]
    assert failures == [("FailedCreate", True), ("FailedDelete", True)]


def test_names_of_jobs_are_the_list_s_with_a_random_end() -> None:
    # given a name with the largest length
    long = list_job("a", metadata={"name": "x" * 63})
    (name,) = chains_of(planned(long))
    assert name.startswith("x" * 58)
    assert len(name) == 63
    # and a random suffix that is in use
    (name,) = chains_of(planned(list_job("a")))
    (other,) = chains_of(planned(list_job("a"), child("b", name)))
    assert name != other
    assert name.startswith("list-")


def test_a_list_records_its_template_hash_in_a_label() -> None:
    """images, 6.6 step 2"""
    item = list_job("a")
    (step,) = planned(item, child("a", status=GOING)).steps
    assert isinstance(step.action, Patch)
    label = {keys.REVISION_LABEL: item.template_hash}
    assert step.action.body == {"metadata": {"labels": label}}
    assert planned(list_job("a", metadata={"labels": label}), child("a", status=GOING)).stages == ()


def test_an_image_that_is_added_gets_one_and_one_that_is_removed_loses_it() -> None:
    """images case 59"""
    plan = planned(list_job("b", "c"), child("a"), child("b"))
    assert (made(plan), gone(plan)) == (["c"], {"list-a"})


def test_another_template_replaces_them_all() -> None:
    """images case 60"""
    plan = planned(list_job("a", "b", parallelism=2), child("a"), child("b", parallelism=2))
    assert (made(plan), gone(plan)) == (["a"], {"list-a"})


def test_a_job_with_the_same_template_is_kept_with_any_label() -> None:
    """The job is taken over from another implementation, which sets other labels and defaults."""
    other = child("a", parallelism=None, completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5})
    assert planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5}), other)
    assert not made(planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5}), other))


def test_a_job_with_the_hash_of_the_template_is_kept_although_others_changed_its_spec() -> None:
    """A user raises its parallelism, or a mutating policy adds pull secrets to it."""
    item = list_job("a")
    label = {keys.REVISION_LABEL: item.template_hash}
    changed = child("a", parallelism=2, pullSecrets=["registry"])
    plan = planned(item, msgspec.structs.replace(changed, labels=label))
    assert (made(plan), gone(plan)) == ([], set())
    # without this label, only its spec shows from which template it was created
    plan = planned(item, changed)
    assert (made(plan), gone(plan)) == (["a"], {"list-a"})


@pytest.mark.parametrize(
    ("generation", "label", "is_kept"), [(1, "5d8f7c9b6", True), (2, "5d8f7c9b6", False), (1, "", False)]
)
def test_a_job_of_openkruise_with_a_changed_spec_is_kept_if_the_list_has_never_changed(
    generation: int, label: str, is_kept: bool
) -> None:
    """images, 6.6 step 7: OpenKruise computes another hash of the same template"""
    labels = {keys.REVISION_LABEL: label} if label else {}
    item = list_job("a", metadata={"generation": generation, "labels": labels})
    changed = msgspec.structs.replace(child("a", pullSecrets=["registry"]), labels=labels)
    # when the label of the list does not have the present hash yet, and after this
    labelled = msgspec.structs.replace(item, labels={keys.REVISION_LABEL: item.template_hash})
    for seen in (item, labelled):
        plan = planned(seen, changed)
        assert (made(plan), gone(plan)) == (([], set()) if is_kept else (["a"], {"list-a"}))
    # an image that is no longer listed is not kept
    other = list_job("b", metadata={"generation": generation, "labels": labels})
    assert gone(planned(other, changed)) == {"list-a"}


def test_an_empty_list_of_secrets_equals_a_missing_list() -> None:
    assert not made(planned(list_job("a", pullSecrets=[]), child("a")))


def test_a_terminating_job_is_replaced_immediately() -> None:
    going = msgspec.structs.replace(child("a"), is_deleting=True)
    plan = planned(list_job("a"), going)
    assert (made(plan), gone(plan)) == (["a"], set())


def test_a_job_that_cannot_be_read_is_replaced() -> None:
    odd = msgspec.structs.replace(child("a"), spec=None, problem="spec.parallelism: no")
    plan = planned(list_job("a"), odd)
    assert (made(plan), gone(plan)) == (["a"], {"list-a"})


def test_an_unreadable_list_changes_nothing() -> None:
    odd = list_job("a", images=5)
    plan = planned(odd, child("a"))
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC
    assert [(note.warning, note.message) for note in plan.notes] == [(True, odd.problem)]


@pytest.mark.parametrize("names", [["list-1", "list-2"], ["list-2", "list-1"]])
def test_the_first_of_two_jobs_for_an_image_by_name_is_kept(names: list[str]) -> None:
    item = list_job("a")
    children = [child("a", name) for name in names]
    stranger = job("stranger", image="a")
    seen = snapshot_of(KIND, item, {PULL_JOB_VIEWS: [*children, stranger]}, settings=NoSettings(), now=NOW)
    assert gone(plan_imagelistpulljob(seen)) == {"list-2"}


def test_a_second_job_for_an_image_is_deleted() -> None:
    assert gone(planned(list_job("a"), child("a", "list-1"), child("a", "list-2"))) == {"list-2"}


def test_jobs_are_counted_and_what_failed_is_named_in_the_order_of_the_list() -> None:
    """images case 62"""
    children = (child("b", status=PARTLY), child("a", status=PARTLY), child("c", status=DONE))
    status = status_of(planned(list_job("a", "b", "c"), *children))
    assert (status["desired"], status["completed"], status["succeeded"]) == (3, 3, 1)
    assert [item["name"] for item in status["failedImageStatuses"]] == ["a", "b"]
    assert status["failedImageStatuses"][0]["imagePullJob"] == "list-a"
    assert status["completionTime"] == at(0)


def test_a_list_is_unfinished_while_a_job_runs_or_never_completes() -> None:
    plan = planned(list_job("a", "b"), child("a", status=DONE), child("b", status=GOING))
    assert "completionTime" not in status_of(plan)
    assert status_of(plan)["active"] == 1
    assert plan.skipped["b"].code is Code.IMAGE_PULLING
    never = {"type": "Never"}
    plan = planned(list_job("a", completionPolicy=never), child("a", status=DONE, completionPolicy=never))
    assert "completionTime" not in status_of(plan)


def test_the_start_time_of_a_list_job_is_kept() -> None:
    assert status_of(planned(list_job("a"), after_s=5))["startTime"] == at(5)
    assert status_of(planned(list_job("a", status={"startTime": at(0)}), after_s=5))["startTime"] == at(0)


def test_a_job_that_has_not_begun_is_not_complete() -> None:
    plan = planned(list_job("a"), child("a"))
    assert "completionTime" not in status_of(plan)
    assert plan.skipped["a"].message == "ImagePullJob list-a: not started"


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ({}, "2 ImagePullJobs are being created"),
        ({"a": DONE}, "1 ImagePullJob is being created"),
        ({"a": DONE, "b": GOING}, "1 image is not on all nodes yet"),
        ({"a": PARTLY, "b": GOING}, "1 image is not on all nodes yet"),
        ({"a": PARTLY, "b": DONE}, ""),
    ],
)
def test_a_list_reports_how_many_images_it_waits_for(children: dict[str, Any], message: str) -> None:
    never = {"type": "Never"}
    jobs = [child(image, status=status, completionPolicy=never) for image, status in children.items()]
    waiting = planned(list_job("a", "b", completionPolicy=never), *jobs).waiting
    assert (waiting.message if waiting else "") == message


def test_an_image_that_is_not_everywhere_has_a_reason() -> None:
    children = [
        child("a", status=DONE),
        child("b", status={**PARTLY, "message": "job has completed"}),
        child("c", status={**GOING, "message": "job is running, progress 0.0%"}),
    ]
    result = planned(list_job("a", "b", "c", "d"), *children).skipped
    assert {image: (why.code, why.message) for image, why in result.items()} == {
        "b": (Code.IMAGE_PULL, "ImagePullJob list-b: job has completed"),
        "c": (Code.IMAGE_PULLING, "ImagePullJob list-c: job is running, progress 0.0%"),
    }


def test_only_jobs_that_stay_are_counted() -> None:
    status = status_of(planned(list_job("a"), child("b", status=PARTLY), child("a", status=GOING)))
    assert status.get("completed", 0) == 0
    assert "failedImageStatuses" not in status


def test_a_list_that_is_being_deleted_makes_nothing() -> None:
    """images case 63"""
    going = list_job("a", "b", metadata={"deletionTimestamp": at(0)})
    assert planned(going, child("a")) == Plan()


def test_a_finished_list_is_deleted_after_its_ttl() -> None:
    policy = {**ALWAYS, "ttlSecondsAfterFinished": 10}
    over = list_job("a", completionPolicy=policy, status={"completionTime": at(0), "desired": 1})
    early = planned(over, after_s=4)
    assert early.requeue_after_s == pytest.approx(6)
    assert early.waiting is not None
    assert early.waiting.code is Code.JOB_OVER
    assert gone(planned(over, after_s=10)) == {"list"}
    kept = list_job("a", status={"completionTime": at(0), "desired": 1})
    assert planned(kept, after_s=1e6) == Plan()


def test_a_list_whose_end_cannot_be_read_has_just_ended() -> None:
    policy = {**ALWAYS, "ttlSecondsAfterFinished": 10}
    plan = planned(list_job("a", completionPolicy=policy, status={"completionTime": "some day"}))
    assert not plan.stages
    assert plan.requeue_after_s == 10


def test_jobs_of_a_list_have_no_ttl() -> None:
    """Otherwise a pulled image would be pulled again while the list waits for another image."""
    plan = planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 10}))
    body = next(step.action.body for step in plan.steps if isinstance(step.action, Create))
    assert body["spec"]["completionPolicy"] == ALWAYS


# ── reviews ──────────────────────────────────────────────────────────────────


def request(doc: dict[str, Any], old: dict[str, Any] | None = None) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation="CREATE" if old is None else "UPDATE",
        resource=IMAGE_LIST_PULL_JOBS,
        name="list",
        object=doc,
        old_object=old,
    )


async def problems(doc: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Fields that are refused."""
    refusal = (await validate_imagelistpulljob(request(doc, old))).refusal
    if refusal is None:
        return []
    assert refusal.details is not None
    return [cause.field for cause in refusal.details.causes]


async def test_missing_fields_get_defaults_except_the_image_pull_policy() -> None:
    answer = await mutate_imagelistpulljob(request(document("a", completionPolicy={})))
    assert answer.object is not None
    assert answer.object["spec"] == {
        "images": ["a"],
        "completionPolicy": ALWAYS,
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3},
    }


@pytest.mark.parametrize(
    ("images", "fields", "field"),
    [
        ([], {}, "spec.images"),
        (["a", "b", "a"], {}, "spec.images[2]"),
        ([f"x:{number}" for number in range(256)], {}, "spec.images"),
        (["a", "B/b"], {}, "spec.images[1]"),
        (
            ["a"],
            {"completionPolicy": {**ALWAYS, "activeDeadlineSeconds": 599}},
            "spec.completionPolicy.activeDeadlineSeconds",
        ),
        (["a"], {"parallelism": "1%"}, "spec.parallelism"),
    ],
)
async def test_an_unworkable_list_is_refused(images: list[str], fields: dict[str, Any], field: str) -> None:
    """images case 61"""
    assert await problems(document(*images, **fields)) == [field]


async def test_a_stored_list_can_be_labelled_even_with_an_invalid_spec() -> None:
    bad = document("B/b")
    changed = {**bad, "metadata": {**bad["metadata"], "labels": {"a": "b"}}}
    assert await problems(changed, bad) == []
    assert await problems({"metadata": changed["metadata"]}, {"metadata": bad["metadata"]}) == []
    changed["metadata"]["labels"] = {"a": "no value!"}
    assert await problems(changed, bad) == ["metadata.labels"]
    assert await problems(document("B/b", parallelism=2), bad) == ["spec.images[0]"]


@pytest.mark.parametrize(("part", "field"), [("metadata", "metadata.name"), ("spec", "spec.images")])
async def test_a_missing_metadata_or_spec_is_reported_by_its_required_field(part: str, field: str) -> None:
    doc = document("a")
    del doc[part]
    assert await problems(doc) == [field]
    assert await problems(document("a"), doc) == []


async def test_an_object_without_a_spec_gets_defaults_too_and_a_null_counts_as_left_out() -> None:
    bare = document()
    del bare["spec"]
    answer = await mutate_imagelistpulljob(request(bare))
    assert answer.object is not None
    assert answer.object["spec"]["completionPolicy"] == ALWAYS
    answer = await mutate_imagelistpulljob(request(document("a", parallelism=None)))
    assert answer.object is not None
    assert "parallelism" not in answer.object["spec"]


async def test_255_images_are_accepted() -> None:
    assert await problems(document(*(f"x:{number}" for number in range(255)))) == []
