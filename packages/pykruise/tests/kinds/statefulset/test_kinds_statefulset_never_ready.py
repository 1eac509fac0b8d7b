"""Pods of an older revision that have never been ready: the option replace-never-ready-after-seconds."""

from typing import Any

import pytest

from pykruise.kube.clock import format_time
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import REPLACE_NEVER_READY
from pykruise.runtime.actions import Delete
from pykruise.runtime.plan import Plan
from support.plan_views import condition, deleted, left
from support.statefulset_builder import NOW, StatefulSetBuilder, statefulset


def replacing(builder: StatefulSetBuilder, after_s: str = "300") -> StatefulSetBuilder:
    annotations = builder.document["metadata"].setdefault("annotations", {})
    annotations[REPLACE_NEVER_READY.annotation] = after_s
    return builder


def never_ready(builder: StatefulSetBuilder, *ordinals: int, age_s: float = 3600.0) -> StatefulSetBuilder:
    """Let these pods have containers that were never ready, as their kubelet reports it."""
    for ordinal in ordinals:
        pod = builder.pods[f"web-{ordinal}"]
        accepted = format_time(NOW - age_s + 2)
        pod["metadata"]["creationTimestamp"] = format_time(NOW - age_s)
        pod["status"]["startTime"] = accepted
        for item in pod["status"]["conditions"]:
            if item["type"] in ("Ready", "ContainersReady"):
                item |= {"status": "False", "lastTransitionTime": accepted}
        for status in pod["status"].get("containerStatuses") or ():
            status["ready"] = False
    return builder


def ready_once(builder: StatefulSetBuilder, *ordinals: int) -> StatefulSetBuilder:
    """Let these pods be unready now, and ready before."""
    never_ready(builder, *ordinals)
    for ordinal in ordinals:
        for item in builder.pods[f"web-{ordinal}"]["status"]["conditions"]:
            if item["type"] == "Ready":
                item["lastTransitionTime"] = format_time(NOW - 60)
    return builder


def stuck(**rolling: Any) -> StatefulSetBuilder:
    """A set whose first pod never became ready in the first revision, and whose template has been corrected since."""
    builder = statefulset(3, pods=0, **rolling).pod(0, old=True)
    return never_ready(builder, 0)


def test_the_first_pod_blocks_its_own_update_without_the_option() -> None:
    plan = stuck().plan()
    assert not deleted(plan)
    assert plan.waiting is not None
    assert "OrderedReady updates only pods that are available" in plan.waiting.message
    assert "replaced" not in plan.waiting.message


def test_a_stuck_first_revision_is_replaced_by_the_newest() -> None:
    """statefulset case 88"""
    plan = replacing(stuck()).plan()
    assert deleted(plan) == {"0"}
    (step,) = [step for step in plan.steps if isinstance(step.action, Delete)]
    assert "it has never been ready" in step.because


TABLE = """
age  | pod                    | set               | replaced
299  | never ready            |                   | no
300  | never ready            |                   | yes
3600 | ready once             |                   | no
3600 | containers ready once  |                   | no
3600 | no start time          |                   | no
3600 | not scheduled          |                   | yes
3600 | never ready            | paused            | no
3600 | never ready            | partition 1       | no
3600 | never ready            | OnDelete          | no
3600 | never ready            | InPlaceOnly       | in place
3600 | newest revision        |                   | no
3600 | terminating            |                   | no
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines()[1:])
def test_never_ready_pods_are_replaced_according_to_the_table(row: str) -> None:
    """statefulset cases 88 to 90"""
    age, kind, setting, expected = (part.strip() for part in row.split("|"))
    # given
    builder = statefulset(3, pods=0).pod(0, old=kind != "newest revision")
    pod = never_ready(builder, 0, age_s=float(age)).pods["web-0"]
    match kind:
        case "ready once":
            ready_once(builder, 0)
        case "containers ready once":
            for item in pod["status"]["conditions"]:
                if item["type"] == "ContainersReady":
                    item["lastTransitionTime"] = format_time(NOW - 60)
        case "no start time":
            del pod["status"]["startTime"]
        case "not scheduled":
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
        case "terminating":
            pod["metadata"]["deletionTimestamp"] = format_time(NOW)
    match setting:
        case "paused":
            builder.with_rolling(paused=True)
        case "partition 1":
            builder.with_rolling(partition=1)
        case "OnDelete":
            builder.on_delete()
        case "InPlaceOnly":
            builder.with_rolling(podUpdatePolicy="InPlaceOnly")
    # when
    plan = replacing(builder).plan()
    # then
    assert ("yes" if deleted(plan) else "in place" if plan.steps and _updates(plan) else "no") == expected


def _updates(plan: Plan) -> bool:
    return any(stage.purpose == "update pods" for stage in plan.stages)


def test_a_pod_that_is_too_young_is_evaluated_again_when_it_is_old_enough() -> None:
    # given
    builder = replacing(statefulset(3, pods=0).pod(0, old=True))
    never_ready(builder, 0, age_s=100)
    # when
    plan = builder.plan()
    # then
    assert plan.requeue_after_s is not None
    assert plan.requeue_after_s <= 200
    assert "is replaced by a pod of the newest revision at 2026-01-31T12:03:20Z" in left(plan)["0"]
    assert plan.waiting is not None
    assert plan.waiting.code == Code.NOT_READY
    assert "is replaced by a pod of the newest revision at 2026-01-31T12:03:20Z" in plan.waiting.message


def test_the_condition_contains_the_reason_why_a_once_ready_pod_is_not_replaced() -> None:
    # given
    builder = replacing(statefulset(3, pods=0).pod(0, old=True))
    ready_once(builder, 0)
    # when
    waiting = condition(builder.plan(), "Waiting")
    # then
    assert waiting is not None
    assert (
        "the pod was ready, or may have been ready, so it is not replaced automatically" in waiting["message"]
    )


def test_a_bad_second_revision_is_replaced_by_a_third_one() -> None:
    """The pod with the highest ordinal has the bad revision, and the others serve with an older one."""
    builder = replacing(statefulset(3).all_old())
    never_ready(builder, 2)
    assert deleted(builder.plan()) == {"2"}


@pytest.mark.parametrize("after_s", [None, "300"])
def test_a_never_ready_parallel_pod_is_replaced_outside_the_budget_only_with_the_option(
    after_s: str | None,
) -> None:
    """The highest pod is first in the order. It serves, and waits for the budget that the stuck pod uses up."""
    builder = statefulset(3, parallel=True, maxUnavailable=1).all_old()
    never_ready(builder, 0)
    if after_s is not None:
        replacing(builder, after_s)
    assert deleted(builder.plan()) == ({"0"} if after_s else set())


def test_in_parallel_a_single_faulty_pod_is_updated_without_the_option() -> None:
    """Kubernetes 1.35 lost this behaviour with maxUnavailable of StatefulSets (its issue 137409)."""
    builder = never_ready(statefulset(1, parallel=True, maxUnavailable=1).all_old(), 0)
    assert deleted(builder.plan()) == {"0"}


def test_a_hook_before_deletion_is_respected() -> None:
    builder = replacing(stuck()).with_hook("preDelete")
    builder.pods["web-0"]["metadata"]["labels"]["example.com/hook"] = "1"
    assert not deleted(builder.plan())


@pytest.mark.parametrize("text", ["0", "-1", "5m", ""])
def test_a_stored_value_that_admission_refuses_changes_nothing(text: str) -> None:
    plan = replacing(stuck(), text).plan()
    assert not plan.stages
    assert plan.waiting is not None
    assert plan.waiting.code == Code.INVALID_SPEC
    assert f"metadata.annotations[{REPLACE_NEVER_READY.annotation}]" in plan.waiting.message
