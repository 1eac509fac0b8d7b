"""What is done for an ImageListPullJob, as values."""

from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kinds.imagelistpulljob.admission import mutate_imagelistpulljob, validate_imagelistpulljob
from pykruise.kinds.imagelistpulljob.plan import plan_imagelistpulljob
from pykruise.kinds.imagelistpulljob.snapshot import LIST_JOB_VIEWS, ListJobView, Snapshot
from pykruise.kinds.imagelistpulljob.types import IMAGE_LIST_PULL_JOBS
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import encode
from pykruise.pods.image_pull_jobs import PullJobView
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Create, Delete
from pykruise.runtime.plan import Plan
from support.image_objects import NOW, at, job

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
    """An ImagePullJob of the list, as an API server stores it: with defaults."""
    stored = {"imagePullPolicy": "IfNotPresent", "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}}
    metadata = {"ownerReferences": [{"uid": "uid-list", "controller": True, "kind": "ImageListPullJob"}]}
    return job(name or f"list-{image}", image=image, metadata=metadata, **{**stored, **fields})


def planned(one: ListJobView, *children: PullJobView, after_s: float = 0.0) -> Plan:
    return plan_imagelistpulljob(Snapshot(job=one, children=children, now=NOW + after_s))


def made(plan: Plan) -> list[str]:
    """Images that get an ImagePullJob."""
    return [step.action.body["spec"]["image"] for step in plan.steps if isinstance(step.action, Create)]


def gone(plan: Plan) -> set[str]:
    """ImagePullJobs that are deleted."""
    return {step.action.key.name for step in plan.steps if isinstance(step.action, Delete)}


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


def test_an_image_that_is_added_gets_one_and_one_that_is_removed_loses_it() -> None:
    """images case 59"""
    plan = planned(list_job("b", "c"), child("a"), child("b"))
    assert (made(plan), gone(plan)) == (["c"], {"list-a"})


def test_another_template_replaces_them_all() -> None:
    """images case 60"""
    plan = planned(list_job("a", "b", parallelism=2), child("a"), child("b", parallelism=2))
    assert (made(plan), gone(plan)) == (["a"], {"list-a"})


def test_a_job_of_the_same_template_is_kept_whatever_its_label_says() -> None:
    """A take-over from another implementation, whose labels and defaults are its own."""
    other = child("a", parallelism=None, completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5})
    assert planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5}), other)
    assert not made(planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 5}), other))


def test_a_second_job_for_an_image_goes() -> None:
    assert gone(planned(list_job("a"), child("a", "list-1"), child("a", "list-2"))) == {"list-2"}


def test_jobs_are_counted_and_what_failed_is_named_in_the_order_of_the_list() -> None:
    """images case 62"""
    children = (child("b", status=PARTLY), child("a", status=PARTLY), child("c", status=DONE))
    status = status_of(planned(list_job("a", "b", "c"), *children))
    assert (status["desired"], status["completed"], status["succeeded"]) == (3, 3, 1)
    assert [one["name"] for one in status["failedImageStatuses"]] == ["a", "b"]
    assert status["failedImageStatuses"][0]["imagePullJob"] == "list-a"
    assert status["completionTime"] == at(0)


def test_a_list_is_not_over_while_a_job_goes_on_or_when_it_never_ends() -> None:
    plan = planned(list_job("a", "b"), child("a", status=DONE), child("b", status=GOING))
    assert "completionTime" not in status_of(plan)
    assert status_of(plan)["active"] == 1
    assert plan.skipped["b"].code is Code.IMAGE_PULLING
    never = {"type": "Never"}
    plan = planned(list_job("a", completionPolicy=never), child("a", status=DONE, completionPolicy=never))
    assert "completionTime" not in status_of(plan)


def test_only_jobs_that_stay_are_counted() -> None:
    status = status_of(planned(list_job("a"), child("b", status=PARTLY), child("a", status=GOING)))
    assert status.get("completed", 0) == 0
    assert "failedImageStatuses" not in status


def test_a_list_that_is_being_deleted_makes_nothing() -> None:
    """images case 63"""
    going = list_job("a", "b", metadata={"deletionTimestamp": at(0)})
    assert planned(going, child("a")) == Plan()


def test_a_list_that_is_over_is_deleted_at_its_time() -> None:
    policy = {**ALWAYS, "ttlSecondsAfterFinished": 10}
    over = list_job("a", completionPolicy=policy, status={"completionTime": at(0), "desired": 1})
    assert planned(over, after_s=4).requeue_after_s == pytest.approx(6)
    assert gone(planned(over, after_s=10)) == {"list"}
    kept = list_job("a", status={"completionTime": at(0), "desired": 1})
    assert planned(kept, after_s=1e6) == Plan()


def test_jobs_of_a_list_do_not_go_before_it() -> None:
    """Else an image that is done would be pulled anew while another one is not."""
    plan = planned(list_job("a", completionPolicy={**ALWAYS, "ttlSecondsAfterFinished": 10}))
    body = next(step.action.body for step in plan.steps if isinstance(step.action, Create))
    assert body["spec"]["completionPolicy"] == ALWAYS


# ── reviews ──────────────────────────────────────────────────────────────────


def request(doc: dict[str, Any]) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1", operation="CREATE", resource=IMAGE_LIST_PULL_JOBS, name="list", object=doc
    )


async def test_what_is_left_out_gets_its_default_but_for_the_pull_policy() -> None:
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
async def test_what_can_never_work_is_refused(images: list[str], fields: dict[str, Any], field: str) -> None:
    """images case 61"""
    refusal = (await validate_imagelistpulljob(request(document(*images, **fields)))).refusal
    assert refusal is not None
    assert refusal.details is not None
    assert [cause.field for cause in refusal.details.causes] == [field]


async def test_255_images_are_accepted() -> None:
    found = await validate_imagelistpulljob(request(document(*(f"x:{number}" for number in range(255)))))
    assert found.refusal is None
