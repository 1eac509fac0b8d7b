"""Terminating pods that take up a place: the option pod-replacement-policy with the value Failed."""

import re

import orjson
import pytest

from pykruise.kinds.cloneset.limits import CloneSetLimits, numbers_of, tally_of
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import POD_REPLACEMENT_POLICY
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset
from support.cloneset_marks import marks
from support.plan_views import condition, created, deleted, left

TERMINATING_PODS = "TerminatingPods"


def waiting_for_ends(builder: CloneSetBuilder, policy: str = "Failed") -> CloneSetBuilder:
    builder.document["metadata"]["annotations"] = {POD_REPLACEMENT_POLICY.annotation: policy}
    return builder


TABLE = """
5,1,0 | 4n           | 1 | create 1, create_held 1
5,1,0 | 4n           | 0 | create 1, create_now 1
5,1,0 | 2n           | 2 | create 3, create_now 1, create_held 2
5,1,0 | 5n           | 3 | create 0
3,0,1 | 3o           | 0 | surge 1, create 1, create_now 1
3,0,1 | 3o           | 1 | surge 1, create 1, create_held 1
3,0,2 | 3o           | 1 | surge 2, create 2, create_now 1, create_held 1
3,1,1 | 2o n         | 2 | surge 1, create 1, create_held 1
5,1,0 | 4n np        | 0 | create 0
5,1,0 exclude | 4n np | 0 | create 1, create_held 1
5,1,0 scale1 | 2n    | 1 | create 3, create_now 1
5,1,0 scale2 | 2n    | 2 | create 3, create_now 1, create_held 1
"""
"""replicas,maxUnavailable,maxSurge | active pods | pods that terminate | numbers"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_worked_numbers_of_pods_that_may_be_created(row: str) -> None:
    # given
    setting, pods, terminating, expected = (part.strip() for part in row.split("|"))
    amounts, *words = setting.split()
    replicas, max_unavailable, max_surge = map(int, amounts.split(","))
    limits = CloneSetLimits(replicas=replicas, max_unavailable=max_unavailable, max_surge=max_surge)
    for word in words:
        if limit := re.fullmatch(r"scale(\d)", word):
            limits = CloneSetLimits(
                replicas=replicas, max_unavailable=max_unavailable, scale_max_unavailable=int(limit[1])
            )
    # when
    numbers = numbers_of(
        tally_of(marks(pods)),
        limits,
        exclude_preparing_delete="exclude" in words,
        terminating=int(terminating),
    )
    # then
    wanted = {"create_now": 0, "create_held": 0} | {
        name: int(value) for name, value in (part.split() for part in expected.split(", "))
    }
    assert {name: getattr(numbers, name) for name in wanted} == wanted


def test_no_pod_is_created_while_the_old_one_terminates() -> None:
    """cloneset case 95"""
    # given four of five pods, and one that terminates
    builder = waiting_for_ends(cloneset(5).deleted("a"))
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert not created(plan)
    assert left(plan)["a"].startswith("terminates; no pod is created in its place before it has ended")
    assert plan.waiting is not None
    assert plan.waiting.code == Code.TERMINATING
    assert "pod web-a: terminates" in plan.waiting.message
    assert plan.waiting.remedy


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_takes_up_no_place(phase: str) -> None:
    """cloneset case 97. Kubernetes' rule for Jobs: a pod is replaced when its phase is Failed or Succeeded"""
    builder = waiting_for_ends(cloneset(5).deleted("a").phase(phase, "a"))
    assert len(created(plan_cloneset(builder.snapshot()))) == 1


@pytest.mark.parametrize("policy", [None, "TerminatingOrFailed"])
def test_a_pod_is_replaced_while_it_terminates_without_the_option(policy: str | None) -> None:
    # given
    builder = cloneset(5).deleted("a")
    if policy is not None:
        waiting_for_ends(builder, policy)
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert len(created(plan)) == 1
    assert condition(plan, TERMINATING_PODS) is None


def test_an_update_with_surge_never_has_more_pods_than_replicas_and_max_surge() -> None:
    """cloneset case 96"""
    # given three pods and another that terminates: the surge pod would be the fifth
    builder = waiting_for_ends(cloneset(3, pods=4, max_unavailable=0, max_surge=1, old=3).deleted("d"))
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert not created(plan)
    assert not deleted(plan)
    # when it has ended
    del builder.pods["d"]
    # then
    assert len(created(plan_cloneset(builder.snapshot()))) == 1


def test_the_status_counts_the_pods_that_terminate() -> None:
    # given
    builder = waiting_for_ends(cloneset(5).deleted("a", "b"))
    # when
    result = condition(plan_cloneset(builder.snapshot()), TERMINATING_PODS)
    # then
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "Terminating")
    assert result["message"] == "2 pods terminate and have not ended: web-a, web-b"
    # when no pod terminates any longer
    builder.with_status(conditions=[result])
    del builder.pods["a"], builder.pods["b"]
    # then
    assert condition(plan_cloneset(builder.snapshot()), TERMINATING_PODS) is None


def test_a_limit_of_creations_is_not_blamed_for_pods_that_terminate() -> None:
    plan = plan_cloneset(waiting_for_ends(cloneset(5).deleted("a")).snapshot())
    assert "ScaleUpLimited" not in {note.reason for note in plan.notes}


def test_a_stored_value_that_admission_refuses_changes_nothing() -> None:
    """cloneset case 98"""
    # given
    builder = waiting_for_ends(cloneset(5, pods=3), "Never")
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
    assert f"metadata.annotations[{POD_REPLACEMENT_POLICY.annotation}]" in plan.waiting.message


def test_nothing_that_is_planned_differs_without_the_option() -> None:
    """TerminatingOrFailed, the default, gives the same plan and the same status."""

    def plan_of(annotations: dict[str, str]) -> Plan:
        builder = cloneset(5, old=2, max_surge=1).deleted("a").not_ready("c")
        builder.document["metadata"]["annotations"] = annotations
        return plan_cloneset(builder.snapshot())

    plain, explicit = plan_of({}), plan_of({POD_REPLACEMENT_POLICY.annotation: "TerminatingOrFailed"})
    assert orjson.dumps(plain.status) == orjson.dumps(explicit.status)
    assert plain.skipped == explicit.skipped
    assert [stage.purpose for stage in plain.stages] == [stage.purpose for stage in explicit.stages]
