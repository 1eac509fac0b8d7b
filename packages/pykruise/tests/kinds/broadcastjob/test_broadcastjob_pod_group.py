"""The pods of a BroadcastJob as a group of the scheduler: the option gang-min-count."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.broadcastjob.plan import plan_broadcastjob
from pykruise.kinds.broadcastjob.pod_group import NOT_SCHEDULED
from pykruise.kinds.broadcastjob.snapshot import BroadcastJobSettings, read_spec
from pykruise.kinds.broadcastjob.validation import errors_of
from pykruise.kube.resources import POD_GROUPS, PODS, WORKLOADS
from pykruise.plans.pod_groups import NO_GATE, FoundGroups
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import GroupView
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Plan
from support.broadcast_world import NAME, BroadcastWorld, template

GROUP = f"broadcastjob-{NAME}-start"


def gang(nodes: int, value: str = "all", **spec: Any) -> BroadcastWorld:
    world = BroadcastWorld(nodes, **spec)
    world.document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: value}
    world.settings = BroadcastJobSettings(pod_groups=True)
    return world


def plan_with_groups(world: BroadcastWorld, groups: FoundGroups = FoundGroups()) -> Plan:  # noqa: B008 - frozen
    return plan_broadcastjob(msgspec.structs.replace(world.snapshot(), groups=groups))


def _list_creations(plan: Plan) -> list[str]:
    """minCount of each created PodGroup, and the group of each created pod."""
    words: list[str] = []
    for step in plan.steps:
        action = step.action
        if isinstance(action, Create) and action.resource == POD_GROUPS:
            words.append(f"least {action.body['spec']['schedulingPolicy']['gang']['minCount']}")
        elif isinstance(action, Create) and action.resource == PODS:
            group = action.body["spec"].get("schedulingGroup", {}).get("podGroupName", "-")
            words.append(group.replace(GROUP, "start"))
    return words


TABLE = """
3 all | 10   |                | least 3 start start start
3 2   | 10   |                | least 2 start start start
3 50% | 10   |                | least 2 start start start
3 8   | 10   |                | least 3 start start start
3 all | 2    |                | nothing
3 2   | 2    |                | least 2 start start
3 all | 10   | n1@start n2@start | least 3 start
3 all | 10   | n1 n2          | -
3 all | 10   | n1@start! n2@start! | least 1 -
3 all | 10   | n1@start# n2@start! | least 1 -
3 all | 2    | n1@start# n2@start! | least 1 -
"""
"""nodes value | parallelism | nodes with a pod: @group, ! has a node, # succeeded | created PodGroup and pods"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_the_pods_start_together_and_later_pods_start_alone(row: str) -> None:
    """broadcastjob cases 41 and 42"""
    # given
    setting, parallelism, pods, expected = (part.strip() for part in row.split("|"))
    nodes, value = setting.split()
    world = gang(int(nodes), value)
    entries = pods.split()
    if entries:
        plain = BroadcastWorld(len(entries)).sync()
        for entry in entries:
            node = entry[:2]
            pod = plain.pod_on(node)
            if "@" in entry:
                pod["spec"]["schedulingGroup"] = {"podGroupName": GROUP}
            if entry[-1] in "!#":
                pod["spec"]["nodeName"] = node
            if entry[-1] == "#":
                pod["status"] = {"phase": "Succeeded"}
            world.pods[pod["metadata"]["name"]] = pod
    world.document["spec"]["parallelism"] = int(parallelism)
    # when
    plan = plan_with_groups(world)
    # then
    assert (" ".join(_list_creations(plan)) or "nothing") == expected


def test_the_groups_are_written_before_the_pods_and_min_count_becomes_one_after_the_start() -> None:
    """broadcastjob cases 41 and 42"""
    world = gang(2)
    plan = plan_with_groups(world)
    resources = [step.action.resource for step in plan.steps if isinstance(step.action, Create)]
    assert resources == [WORKLOADS, POD_GROUPS, PODS, PODS]
    # when
    world.carry_out(plan)
    world.pods = {name: pod for name, pod in world.pods.items() if pod["spec"].get("schedulingGroup")}
    for pod in world.pods.values():
        pod["spec"]["nodeName"] = "n1"
    stored = GroupView(namespace="shop", name=GROUP, uid="g", resource_version=1, min_count=2)
    plan = plan_with_groups(world, FoundGroups(groups={GROUP: stored}, workload=stored))
    patches = [step.action.body for step in plan.steps if isinstance(step.action, Patch)]
    assert {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}} in patches


def test_parallelism_below_the_group_holds_the_job_and_names_the_remedy() -> None:
    """broadcastjob case 43"""
    plan = plan_with_groups(gang(3, parallelism=2))
    assert plan.waiting is not None
    assert (plan.waiting.code, plan.waiting.remedy) == (
        Code.POD_GROUP,
        "set spec.parallelism to at least 3",
    )


@pytest.mark.parametrize("assigned", [True, False])
def test_a_manager_that_cannot_follow_the_option_creates_no_pod(assigned: bool) -> None:
    """broadcastjob case 44"""
    world = gang(3)
    world.settings = BroadcastJobSettings(pod_groups=not assigned, assign_by_scheduler=assigned)
    problem = f"{GANG_MIN_COUNT.field}: {NO_GATE if assigned else NOT_SCHEDULED}"
    plan = plan_with_groups(world, FoundGroups(problem=problem if assigned else ""))
    assert plan.stages == ()
    assert plan.waiting is not None
    assert plan.waiting.message == problem
    assert plan.requeue_after_s == 30


@pytest.mark.parametrize(
    ("value", "fields", "expected"),
    [
        ("all", {}, []),
        ("all", {"parallelism": 2_147_483_647}, []),
        ("5", {"parallelism": 5}, []),
        ("5", {"parallelism": 4}, ["spec.parallelism"]),
        ("1", {"parallelism": 0}, ["spec.parallelism"]),
        ("all", {"parallelism": "99%"}, ["spec.parallelism"]),
        ("all", {"parallelism": "50"}, ["spec.parallelism"]),
        ("50%", {"parallelism": "50%"}, []),
        ("50%", {"parallelism": 1}, []),
        ("0", {}, [GANG_MIN_COUNT.field]),
        ("all", {"template": template(nodeName="n1")}, ["spec.template.spec.nodeName"]),
        (
            "all",
            {"template": template(schedulingGroup={"podGroupName": "g"})},
            ["spec.template.spec.schedulingGroup"],
        ),
    ],
)
def test_admission_refuses_what_cannot_work_with_a_group(
    value: str, fields: dict[str, Any], expected: list[str]
) -> None:
    """broadcastjob case 43"""
    document = gang(1, value, **fields).document
    spec, problem = read_spec(document["spec"])
    assert problem == ""
    assert spec is not None
    assert [cause.field for cause in errors_of(document, spec)] == expected
