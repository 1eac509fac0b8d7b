"""Plans of an ImagePullJob, without a cluster: turns of nodes, and the end."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.imagepulljob.defaults import FINALIZER
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.pods.reasons import Code
from pykruise.runtime.actions import Delete, Patch
from pykruise.runtime.plan import Plan
from support.image_objects import at, entry, job, node_image, said
from support.pull_job_plans import asked, done, held, nodes, planned

# ── turns ────────────────────────────────────────────────────────────────────


def test_one_node_pulls_at_a_time_by_default() -> None:
    """images case 21"""
    plan = planned(held(), *nodes("a", "b", "c"))
    assert set(asked(plan)) == {"a"}
    assert plan.skipped_nodes["b"].code is Code.PARALLELISM


def test_parallelism_0_requests_no_pull() -> None:
    """images case 22"""
    plan = planned(held(parallelism=0), *nodes("a", "b"))
    assert not asked(plan)
    assert plan.status is not None
    assert (plan.status["desired"], plan.status["message"]) == (2, "job is running, progress 0.0%")
    assert plan.skipped_nodes["a"].code is Code.LIMIT_IS_ZERO


def test_parallelism_may_be_text_and_nodes_that_pull_count() -> None:
    """images case 23"""
    wants = held(parallelism="3")
    plan = planned(wants, done("a", wants, "Pulling"), *nodes("b", "c", "d"))
    assert set(asked(plan)) == {"b", "c"}
    assert plan.skipped_nodes["a"].code is Code.IMAGE_PULLING


@pytest.mark.parametrize("parallelism", ["30%", -1, "abc", "-2"])
def test_an_invalid_parallelism_changes_nothing(parallelism: object) -> None:
    """images case 23"""
    plan = planned(held(parallelism=parallelism), *nodes("a"))
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code is Code.INVALID_SPEC


def test_nodes_start_in_the_order_in_which_they_are_given() -> None:
    """images, lifted limit b: the order of the workload is kept"""
    assert set(asked(planned(held(parallelism=2), *nodes("c", "a", "b")))) == {"c", "a"}


def test_a_limited_number_of_nodes_is_requested_per_plan_and_the_rest_right_after() -> None:
    world = nodes(*(f"n{number}" for number in range(MOST_AT_ONCE + 1)))
    plan = planned(held(parallelism=10**6), *world)
    assert len(asked(plan)) == MOST_AT_ONCE
    assert plan.requeue_after_s == 0.0


@pytest.mark.parametrize(
    ("parallelism", "world", "code", "message"),
    [
        (
            1,
            [],
            Code.NOTHING_SELECTED,
            "no node has a NodeImage yet; the job waits until this changes",
        ),
        (1, ["new"], Code.IMAGE_PULLING, "1 node pulls the image"),
        (3, ["Pulling", "new", "new"], Code.IMAGE_PULLING, "3 nodes pull the image"),
        (1, ["Pulling", "new"], Code.IMAGE_PULLING, "1 node pulls the image"),
        (0, ["new"], Code.LIMIT_IS_ZERO, "no node pulls the image: spec.parallelism is 0"),
        (1, ["Succeeded"], None, ""),
    ],
)
def test_a_job_reports_its_waiting_reason(
    parallelism: int, world: list[str], code: Code | None, message: str
) -> None:
    wants = held(parallelism=parallelism, completionPolicy={"type": "Never"})
    node_images = [
        node_image(f"n{number}") if phase == "new" else done(f"n{number}", wants, phase)
        for number, phase in enumerate(world)
    ]
    waiting = planned(wants, *node_images).waiting
    assert (waiting.code if waiting else None, waiting.message if waiting else "") == (code, message)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, (Code.IMAGE_PULLING, f"the pull was requested at {at(0)}; the agent has not answered yet")),
        (
            said("Pulling", version=1),
            (Code.IMAGE_PULLING, f"the pull was requested at {at(0)}; the agent has not answered yet"),
        ),
        (said("Waiting"), (Code.IMAGE_PULLING, "Waiting")),
        (said("Pulling", message="try 2"), (Code.IMAGE_PULLING, "image nginx:1.9 is not pulled yet: try 2")),
        (said("Succeeded"), None),
        (said("Failed"), (Code.IMAGE_PULL, "image nginx:1.9 cannot be pulled: the agent reported no reason")),
        (
            said("Failed", message="no such image"),
            (Code.IMAGE_PULL, "image nginx:1.9 cannot be pulled: no such image"),
        ),
    ],
)
def test_a_node_that_has_not_got_the_image_has_a_reason(
    status: dict[str, Any] | None, reason: tuple[Code, str] | None
) -> None:
    wants = held(completionPolicy={"type": "Never"})
    world = node_image("a", entry(jobs=[wants]), statuses=[status] if status else [])
    result = {name: (why.code, why.message) for name, why in planned(wants, world).skipped_nodes.items()}
    assert result == ({"a": reason} if reason else {})


# ── what a node reports for the job ───────────────────────────────────────────


def test_an_entry_that_others_want_too_is_the_job_s_as_well() -> None:
    wants = held()
    status = planned(wants, node_image("a", entry(jobs=[job("other"), wants]), statuses=[said()])).status
    assert status is not None
    assert status["succeeded"] == 1


def test_a_node_with_a_manual_entry_still_gets_the_jobs_entry() -> None:
    assert set(asked(planned(held(), node_image("a", entry(), statuses=[said()])))) == {"a"}


def test_a_name_without_a_node_does_not_count() -> None:
    """images case 24"""
    plan = planned(held(), *nodes("n1"), unknown_nodes=("ghost",))
    assert plan.status is not None
    assert plan.status["desired"] == 1
    assert plan.skipped_nodes["ghost"].code is Code.NO_NODE_IMAGE


# ── the end ──────────────────────────────────────────────────────────────────


def test_a_job_without_nodes_completes_immediately_unless_it_never_ends() -> None:
    """images case 25"""
    status = planned(held()).status
    assert status is not None
    assert (status["desired"], status["completionTime"]) == (0, at(0))
    never = planned(held(completionPolicy={"type": "Never"})).status
    assert never is not None
    assert "completionTime" not in never
    assert never["message"] == "job is running, no progress"


def test_a_job_completes_when_every_node_is_done() -> None:
    """images case 35"""
    wants = held()
    status = planned(wants, done("a", wants), done("b", wants), done("c", wants, "Failed")).status
    assert status is not None
    assert (status["succeeded"], status["failed"], status["failedNodes"]) == (2, 1, ["c"])
    assert status["startTime"] == at(0)
    assert (status["completionTime"], status["message"]) == (at(0), "job has completed")


def test_after_the_deadline_each_node_that_is_not_done_has_failed_once() -> None:
    """images case 36, lifted limit d"""
    policy = {"type": "Always", "activeDeadlineSeconds": 50}
    wants = held(completionPolicy=policy, pullSecrets=["s"], status={"startTime": at(0)})
    world = (done("c", wants), done("b", wants, "Pulling"), *nodes("a"))
    early = planned(wants, *world, after_s=49)
    assert early.requeue_after_s == pytest.approx(1)
    late = planned(wants, *world, after_s=50)
    assert not asked(late)
    assert late.status is not None
    assert (late.status["succeeded"], late.status["failed"], late.status["failedNodes"]) == (1, 2, ["a", "b"])
    assert late.status["message"] == "job exceeds activeDeadlineSeconds"
    assert "active" not in late.status
    assert late.status["startTime"] == at(0)


def test_a_job_that_is_done_at_its_deadline_has_completed() -> None:
    policy = {"type": "Always", "activeDeadlineSeconds": 50}
    wants = held(completionPolicy=policy, status={"startTime": at(0)})
    status = planned(wants, done("a", wants), after_s=50).status
    assert status is not None
    assert status["message"] == "job has completed"


def test_a_completed_job_is_deleted_after_its_time_to_live_and_kept_without_one() -> None:
    """images case 37"""
    over = {"completionTime": at(0), "desired": 1}
    at_once = job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 0}, status=over)
    plan = planned(at_once)
    (step,) = plan.steps
    assert isinstance(step.action, Delete)
    assert (plan.requeue_after_s, plan.waiting) == (None, None)
    later = job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 10}, status=over)
    plan = planned(later, after_s=9.5)
    assert not plan.stages
    assert plan.requeue_after_s == pytest.approx(0.5)
    assert plan.waiting is not None
    assert plan.waiting.code is Code.JOB_OVER
    assert planned(job(status=over), after_s=1e6) == Plan()


GOING = {"deletionTimestamp": at(0)}
GOES_AT_ONCE = {"type": "Always", "ttlSecondsAfterFinished": 0}


def test_a_finished_terminating_job_is_not_deleted_again() -> None:
    over = job(metadata=GOING, completionPolicy=GOES_AT_ONCE, status={"completionTime": at(0)})
    assert planned(over) == Plan()


def test_a_finished_job_with_an_unreadable_spec_or_completion_time_is_kept() -> None:
    over = job(completionPolicy=GOES_AT_ONCE, status={"completionTime": at(0)})
    plan = planned(msgspec.structs.replace(over, spec=None, problem="spec.image: no"))
    assert (plan.stages, plan.status, [note.message for note in plan.notes]) == ((), None, ["spec.image: no"])
    assert (
        planned(job(completionPolicy=GOES_AT_ONCE, status={"completionTime": "some day", "desired": 1}))
        == Plan()
    )


def test_nodes_that_failed_are_named_in_order_and_the_field_is_left_out_without_any() -> None:
    wants = held()
    status = planned(wants, done("b", wants, "Failed"), done("a", wants, "Failed")).status
    assert status is not None
    assert status["failedNodes"] == ["a", "b"]
    status = planned(wants, done("a", wants)).status
    assert status is not None
    assert "failedNodes" not in status


def test_a_finished_job_only_removes_its_finalizer() -> None:
    """images case 38"""
    over = job(metadata={"finalizers": ["mine", FINALIZER]}, status={"completionTime": at(0)})
    (step,) = planned(over, *nodes("a")).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"finalizers": ["mine"]}}
    assert step.action.resource_version == "7"


def test_an_unreadable_spec_causes_no_writes() -> None:
    plan = planned(msgspec.structs.replace(held(), spec=None, problem="spec.image: no"), *nodes("a"))
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.message == "spec.image: no"
    assert [note.warning for note in plan.notes] == [True]
