"""The pods of a StatefulSet as a group of the scheduler: the option gang-min-count."""

import re
from typing import Any

import msgspec
import pytest

from pykruise.kinds.statefulset.defaults import StatefulSetDefaultingSettings, add_defaults
from pykruise.kinds.statefulset.plan import plan_statefulset
from pykruise.kinds.statefulset.snapshot import read_spec
from pykruise.kinds.statefulset.validation import errors_of
from pykruise.kube.resources import POD_GROUPS, PODS, WORKLOADS
from pykruise.plans.pod_groups import NO_GATE, FoundGroups
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import GroupView
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.statefulset_builder import (
    HOOK,
    NAME,
    StatefulSetBuilder,
    created_pods,
    deleted,
    patches,
    statefulset,
    template,
)

ALL: dict[str, Any] = {"maxUnavailable": "100%"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "recreate": ALL,
    "paused": {**ALL, "paused": True},
    "in-place": {**ALL, "podUpdatePolicy": "InPlaceIfPossible"},
    "only": {**ALL, "podUpdatePolicy": "InPlaceOnly"},
    "some": {"maxUnavailable": 2},
    "partition": {**ALL, "partition": 1},
}


def gang(replicas: int, value: str = "all", **rolling: Any) -> StatefulSetBuilder:
    builder = statefulset(replicas, parallel=True).with_rolling(**rolling).with_settings(pod_groups=True)
    builder.document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: value}
    return builder


TABLE = """
3 recreate  |                     | +new +new +new
3 recreate  | 0@g 1@g             | +g
3 recreate  | 0 1                 | +
3 recreate  | 0@old- 1@old- 2@old-| nothing
3 recreate  | 0@new-              | +new-2 +new-2
3 recreate  | 0~@old 1~@old 2~@old| -0 -1 -2
3 recreate  | 0~@old 1~@old       | +new -0 -1
3 recreate  | 0~@old- 1~@old- 2@new | nothing
3 recreate  | 0~@old- 2@new       | +new
3 paused    | 0~@old 1~@old       | +old
3 paused    | 0~@old 1~@old 2~@old| nothing
3 in-place  | 0~@old 1~@old       | +old *0 *1
3 in-place  | 0~@old 1~@old 2~@old| *0 *1 *2
3 only      | 0~@old 1~@old 2~@old| *0 *1 *2
3 some      | 0~@old 1~@old 2~@old| nothing
3 some      | 0~@old 1~@old       | +old
3 partition | 0~@old 1~@old 2~@old| nothing
4 recreate  | 0@g 1@g 2@g         | +g
2 recreate  | 0@g 1@g 2@g         | -2
1 recreate  | 3@g                 | +new -3
"""
"""replicas strategy | pods: ~ old, @group, - terminates | +group of a created pod, - deleted, * updated"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_pods_join_the_group_that_stays_and_are_updated_together(row: str) -> None:
    """statefulset cases 96 and 97"""
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    replicas, strategy = setting.split()
    builder = gang(int(replicas), **STRATEGIES[strategy])
    builder.pods.clear()
    builder.with_status(currentRevision=builder.old_name)
    update, old = (
        f"statefulset-{NAME}-{name.rpartition('-')[2]}" for name in (builder.update_name, builder.old_name)
    )
    names = {"new": update, "old": old}
    for name, is_old, group, marks in re.findall(r"(\d)(~?)(?:@(\w+))?(-*)(?=\s|$|\|)", pods):
        builder.pod(int(name), old=bool(is_old))
        if group:
            builder.grouped(names.get(group, group), int(name))
        if marks:
            builder.deleted(int(name))
    # when
    plan = builder.plan()
    # then
    groups = sorted(
        doc["spec"].get("schedulingGroup", {}).get("podGroupName", "") for doc in created_pods(plan)
    )
    result = [f"+{group.replace(update, 'new').replace(old, 'old')}" for group in groups]
    result += [f"-{ordinal}" for ordinal in sorted(deleted(plan))]
    result += [f"*{name.rpartition('-')[2]}" for name in sorted(patches(plan))]
    assert (" ".join(result) or "nothing") == expected


def test_the_groups_are_written_before_the_pods() -> None:
    """statefulset case 96"""
    builder = gang(3, "2", **ALL)
    builder.pods.clear()
    steps = [step.action for step in builder.plan().steps if isinstance(step.action, Create)]
    assert [step.resource for step in steps[-5:]] == [WORKLOADS, POD_GROUPS, PODS, PODS, PODS]
    workload, group = steps[-5].body, steps[-4].body
    assert workload["spec"]["controllerRef"]["kind"] == "StatefulSet"
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


def test_unused_groups_are_deleted() -> None:
    """statefulset case 96"""
    builder = gang(1, **ALL).grouped("g", 0)
    groups = {
        name: GroupView(namespace="shop", name=name, uid=name, resource_version=1) for name in ("g", "h")
    }
    plan = plan_statefulset(msgspec.structs.replace(builder.snapshot(), groups=FoundGroups(groups=groups)))
    assert _deleted_groups(plan) == ["h"]


def test_the_group_of_adopted_pods_is_adopted_and_a_group_of_another_owner_stays_as_it_is() -> None:
    """statefulset case 96"""
    builder = gang(2, **ALL).grouped("g", 0).grouped("h", 1)
    orphan = GroupView(namespace="shop", name="g", uid="uid-g", resource_version=5, min_count=1)
    groups = FoundGroups(orphans={"g": orphan}, taken=frozenset({"g", "h"}))
    plan = plan_statefulset(msgspec.structs.replace(builder.snapshot(), groups=groups))
    (adoption,) = [step.action for step in plan.steps if step.action.resource == POD_GROUPS]
    assert isinstance(adoption, Patch)
    assert (adoption.key.name, adoption.uid, adoption.resource_version) == ("g", "uid-g", "5")
    assert adoption.body["metadata"]["ownerReferences"][0]["uid"] == "owner-uid"
    assert Purpose.CHECK_ADOPTER in [stage.purpose for stage in plan.stages]


def _deleted_groups(plan: Plan) -> list[str]:
    return [
        step.action.key.name
        for step in plan.steps
        if isinstance(step.action, Delete) and step.action.resource == POD_GROUPS
    ]


def test_one_pod_that_cannot_be_updated_in_place_makes_all_recreated() -> None:
    """statefulset case 97"""
    builder = gang(3, **STRATEGIES["in-place"]).grouped("g", 0, 1, 2)
    builder.old_template = template("nginx:0", hostNetwork=True)
    builder.old(0)
    odd = builder.pods[f"{NAME}-0"]["metadata"]["labels"]["controller-revision-hash"]
    stored = builder.stored_revisions()
    builder.old_template = template("nginx:0")
    builder.old(1, 2)
    more = [
        item
        for item in builder.stored_revisions()
        if item["metadata"]["name"] not in {odd, builder.update_name}
    ]
    builder.with_revisions(*stored, *more)
    plan = builder.plan()
    assert sorted(deleted(plan)) == [0, 1, 2]
    # With a hook the pods stay chosen for deletion.
    builder.with_hook("preDelete", labelsHandler=HOOK).hooked(0, 1, 2).state("PreparingDelete", 0, 1, 2)
    assert patches(builder.plan()) == {}


def test_the_reason_to_wait_names_the_group() -> None:
    """statefulset case 97"""
    builder = gang(3, **STRATEGIES["some"]).all_old()
    plan = builder.plan()
    assert plan.waiting is not None
    assert plan.waiting.code == Code.POD_GROUP
    assert {reason.code for reason in plan.skipped.values()} == {Code.POD_GROUP}


def test_claims_that_follow_their_templates_hold_the_update_of_a_group_without_a_failure_at_rest() -> None:
    """statefulset case 97"""
    builder = gang(3, **ALL).growing().with_settings(pod_groups=True, auto_resize_claims=True)
    plan = builder.plan()
    assert plan.waiting is None
    assert not any(item["type"] == "FailedUpdate" for item in (plan.status or {}).get("conditions", []))
    plan = builder.all_old().plan()
    assert deleted(plan) == []
    assert plan.waiting is not None
    assert plan.waiting.code == Code.CLAIM_CANNOT_FOLLOW


def test_without_the_gate_nothing_is_written() -> None:
    """statefulset case 98"""
    builder = gang(3)
    builder.pods.clear()
    problem = f"{GANG_MIN_COUNT.field}: {NO_GATE}"
    plan = plan_statefulset(msgspec.structs.replace(builder.snapshot(), groups=FoundGroups(problem=problem)))
    assert plan.stages == ()
    assert plan.waiting is not None
    assert plan.waiting.message == problem
    assert plan.requeue_after_s == 30


def test_a_stored_ordered_set_with_the_option_writes_nothing_and_says_why() -> None:
    """statefulset case 98"""
    builder = gang(3)
    builder.pods.clear()
    builder.document["spec"]["podManagementPolicy"] = "OrderedReady"  # stored while no webhook was called
    plan = builder.plan()
    assert plan.stages == ()
    assert plan.waiting is not None
    assert plan.waiting.message.startswith("spec.podManagementPolicy: must be Parallel with")


STRATEGY = "spec.updateStrategy"
ROLLING = f"{STRATEGY}.rollingUpdate"


@pytest.mark.parametrize(
    ("value", "fields", "expected"),
    [
        ("all", {}, []),
        ("5", {}, [GANG_MIN_COUNT.field]),
        ("0", {}, [GANG_MIN_COUNT.field]),
        ("all", {"updateStrategy": {"type": "OnDelete"}}, [f"{STRATEGY}.type"]),
        ("all", {"updateStrategy": {}}, [f"{ROLLING}.maxUnavailable"]),
        ("2", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}}, [f"{ROLLING}.maxUnavailable"]),
        ("all", {"updateStrategy": {"rollingUpdate": {**ALL, "partition": 1}}}, [f"{ROLLING}.partition"]),
        ("all", {"updateStrategy": {"rollingUpdate": {**ALL, "partition": 4}}}, []),
        ("all", {"scaleStrategy": {"maxUnavailable": 2}}, ["spec.scaleStrategy.maxUnavailable"]),
        ("2", {"scaleStrategy": {"maxUnavailable": 2}}, []),
        (
            "all",
            {"template": template(schedulingGroup={"podGroupName": "own"})},
            ["spec.template.spec.schedulingGroup"],
        ),
        (
            "all",
            {"volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}},
            ["spec.volumeClaimUpdateStrategy.type"],
        ),
        (
            "all",
            {"podManagementPolicy": "OrderedReady", "updateStrategy": {}},
            ["spec.podManagementPolicy", f"{ROLLING}.maxUnavailable"],
        ),
    ],
)
def test_admission_refuses_what_cannot_work_with_a_group(
    value: str, fields: dict[str, Any], expected: list[str]
) -> None:
    """statefulset case 99"""
    builder = gang(4, value, **ALL).with_spec(**fields)
    document = add_defaults(builder.document, old=None, settings=StatefulSetDefaultingSettings())
    spec, problem = read_spec(document["spec"])
    assert problem == ""
    assert spec is not None
    assert [cause.field for cause in errors_of(document, spec)] == expected
