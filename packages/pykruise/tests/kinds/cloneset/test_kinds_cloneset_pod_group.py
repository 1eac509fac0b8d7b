"""The pods of a CloneSet as a group of the scheduler: the option gang-min-count."""

import re
from typing import Any

import msgspec
import pytest

from pykruise.kinds.cloneset.defaults import add_defaults
from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.validation import errors_of
from pykruise.kube.resources import POD_GROUPS, PODS, WORKLOADS
from pykruise.plans.pod_groups import NO_GATE, NOT_SERVED, FoundGroups
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import GroupView, compute_min_count
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.cloneset_builder import NAME, CloneSetBuilder, cloneset, template
from support.plan_views import created, deleted, pod_patches

ALL: dict[str, Any] = {"maxUnavailable": "100%"}
STRATEGIES: dict[str, dict[str, Any]] = {
    "recreate": ALL,
    "paused": {**ALL, "paused": True},
    "in-place": {**ALL, "podUpdatePolicy": "InPlaceIfPossible"},
    "only": {**ALL, "podUpdatePolicy": "InPlaceOnly"},
    "surge": {"maxUnavailable": 0, "maxSurge": "100%"},
    "some": {"maxUnavailable": 1},
    "partition": {**ALL, "partition": 1},
}


def gang(builder: CloneSetBuilder, value: str = "all", **rolling: Any) -> CloneSetBuilder:
    builder.document["metadata"]["annotations"] = {GANG_MIN_COUNT.annotation: value}
    return builder.with_settings(pod_groups=True).with_rolling(**rolling)


TABLE = """
3 recreate  |                              | +new +new +new
3 recreate  | a@g b@g                      | +g
3 recreate  | a b                          | +
3 recreate  | a@g- b@g- c@g-               | +new +new +new
3 recreate  | a@new- b@new- c@new-         | +new-2 +new-2 +new-2
3 recreate  | a~@old b~@old c~@old         | -a -b -c
3 recreate  | a~@old b~@old                | +new
3 recreate  | a~@old b~@old d@new          | -a -b
3 recreate  | d@new a~@old- b~@old- c~@old-| +new +new
3 paused    | a~@old b~@old                | +old
3 paused    | a~@old b~@old c~@old         | nothing
3 in-place  | a~@old b~@old                | +old
3 in-place  | a~@old b~@old c~@old         | *a *b *c
3 in-place  | a@old b@old                  | +old
3 only      | a~@old b~@old c~@old         | *a *b *c
3 surge     | a~@old b~@old c~@old         | +new +new +new
3 surge     | a~@old b~@old c~@old d@new   | +new +new
3 surge     | a~@old b~@old c~@old d@new e@new | +new
3 surge     | a~@old b~@old c~@old d@new e@new f@new! | nothing
3 surge     | a~@old d@new e@new | +new
3 surge     | a~@old b~@old c~@old d@new e@new f@new  | -a -b -c
3 surge     | a~@old b~@old c~@old d~@mid | +new +new
3 surge     | a~@old b~@old c~@old d~@mid e@new f@new | -d
3 surge     | a~@old b~@old c~@old d~@mid e~@mid f~@mid | -d -e -f
3 surge     | a~@old! b~@old c~@old d~@mid e~@mid f~@mid | -a -b -c
3 surge     | a~@old b~@old c~@old d~@mid! e~@mid! f@new | -d -e
3 some      | a~@old b~@old c~@old         | nothing
3 some      | a~@old b~@old                | +old
3 partition | a~@old b~@old c~@old         | nothing
4 recreate  | a@g b@g                      | +g +g
2 recreate  | a@g b@g c@g                  | -a
"""
"""replicas strategy | pods: ~ old, @group, - terminates, ! not ready | +group of a created pod, - deleted, * updated"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_pods_join_the_group_that_stays_and_are_updated_together(row: str) -> None:
    """cloneset cases 121 to 124, 128"""
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    replicas, strategy = setting.split()
    builder = gang(cloneset(int(replicas), pods=0), **STRATEGIES[strategy])
    update, old = (f"cloneset-{name}" for name in (builder.update_revision, builder.old_revision))
    names = {"new": update, "old": old}
    for name, is_old, group, marks in re.findall(r"(\w)(~?)(?:@(\w+))?([-!]*)(?=\s|$|\|)", pods):
        builder.add(name, old=bool(is_old))
        if group:
            builder.grouped(names.get(group, group), name)
        if "-" in marks:
            builder.deleted(name)
        if "!" in marks:
            builder.not_ready(name)
    # when
    plan = plan_cloneset(builder.snapshot())
    # then
    changes = " ".join(
        (*sorted(_shorten(plan, update, old)), *(f"-{name}" for name in sorted(deleted(plan))))
    )
    changes += "".join(f" *{name}" for name in sorted(pod_patches(plan)))
    assert (changes.strip() or "nothing") == expected


def _shorten(plan: Plan, update: str, old: str) -> list[str]:
    groups = (doc["spec"].get("schedulingGroup", {}).get("podGroupName", "") for doc in created(plan))
    return [f"+{group.replace(update, 'new').replace(old, 'old')}" for group in groups]


@pytest.mark.parametrize(
    ("value", "replicas", "least"),
    [("100%", 5, 5), (3, 5, 3), (8, 5, 5), ("50%", 5, 3), ("1%", 5, 1), ("100%", 0, 1), (3, 0, 1)],
)
def test_min_count_follows_the_replicas(value: int | str, replicas: int, least: int) -> None:
    """cloneset case 121"""
    assert compute_min_count(value, replicas) == least


def group(name: str, least: int | None = 3, **fields: Any) -> GroupView:
    return GroupView(
        namespace="shop", name=name, uid=f"uid-{name}", resource_version=1, min_count=least, **fields
    )


def with_groups(builder: CloneSetBuilder, workload: GroupView | None, *groups: GroupView) -> Plan:
    owned = FoundGroups(workload=workload, groups={item.name: item for item in groups})
    return plan_cloneset(msgspec.structs.replace(builder.snapshot(), groups=owned))


def writes(plan: Plan) -> list[str]:
    """Writes to PodGroups."""
    words = {Create: "create", Patch: "patch", Delete: "delete"}
    return [
        f"{words[type(step.action)]} {step.action.key.name}"
        for step in plan.steps
        if step.action.resource in (POD_GROUPS, WORKLOADS)
    ]


def test_the_groups_are_written_before_the_pods() -> None:
    """cloneset case 121"""
    builder = gang(cloneset(3, pods=0), **ALL).with_spec(template=template(priorityClassName="high"))
    plan = plan_cloneset(builder.snapshot())
    steps = [step.action for step in plan.steps if isinstance(step.action, Create)]
    assert [step.resource for step in steps[-5:]] == [WORKLOADS, POD_GROUPS, PODS, PODS, PODS]
    workload, pod_group = steps[-5].body, steps[-4].body
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}, "priorityClassName": "high"}
    assert workload["metadata"]["name"] == f"cloneset-{NAME}"
    assert workload["spec"] == {
        "controllerRef": {"apiGroup": "apps.kruise.io", "kind": "CloneSet", "name": NAME},
        "podGroupTemplates": [{"name": "pods", **policy}],
    }
    assert pod_group["spec"] == {
        "workloadRef": {"workloadName": f"cloneset-{NAME}", "templateName": "pods"},
        **policy,
    }
    assert [doc["metadata"]["ownerReferences"][0]["uid"] for doc in (workload, pod_group)] == [
        "owner-uid"
    ] * 2


@pytest.mark.parametrize(
    ("workload", "groups", "expected"),
    [
        (group("cloneset-web"), [group("g")], []),
        (group("cloneset-web", 2), [group("g", 2)], ["patch cloneset-web", "patch g"]),
        (group("cloneset-web", priority_class="high"), [group("g")], ["delete cloneset-web"]),
        (None, [], ["create cloneset-web", "create g"]),
        (group("cloneset-web"), [group("g"), group("older")], ["delete older"]),
    ],
)
def test_groups_follow_the_pods(
    workload: GroupView | None, groups: list[GroupView], expected: list[str]
) -> None:
    """cloneset case 122"""
    builder = gang(cloneset(3), **ALL).grouped("g", "a", "b", "c")
    assert writes(with_groups(builder, workload, *groups)) == expected


def test_without_the_option_unused_groups_are_deleted() -> None:
    """cloneset case 125"""
    builder = cloneset(3).with_settings(pod_groups=True).grouped("g", "a")
    assert writes(with_groups(builder, group("cloneset-web"), group("g"), group("h"))) == ["delete h"]
    builder = cloneset(3).with_settings(pod_groups=True)
    plan = with_groups(builder, group("cloneset-web"), group("h"))
    assert writes(plan) == ["delete h", "delete cloneset-web"]


@pytest.mark.parametrize("is_on", [True, False])
def test_without_the_gate_or_the_api_nothing_is_written(is_on: bool) -> None:
    """cloneset case 126"""
    builder = gang(cloneset(3, pods=0)).with_settings(pod_groups=is_on)
    problem = NOT_SERVED if is_on else NO_GATE
    snapshot = builder.snapshot()
    if is_on:
        snapshot = msgspec.structs.replace(
            snapshot, groups=FoundGroups(problem=f"{GANG_MIN_COUNT.field}: {problem}")
        )
    plan = plan_cloneset(snapshot)
    assert plan.stages == ()
    assert plan.waiting is not None
    assert plan.waiting.message == f"{GANG_MIN_COUNT.field}: {problem}"
    assert plan.requeue_after_s == 30


STRATEGY = "spec.updateStrategy"
ROLLING = f"{STRATEGY}.rollingUpdate"
OPTION = GANG_MIN_COUNT.field


@pytest.mark.parametrize(
    ("value", "fields", "expected"),
    [
        ("all", {}, []),
        ("4", {}, []),
        ("5", {}, [OPTION]),
        ("0", {}, [OPTION]),
        ("some", {}, [OPTION]),
        ("101%", {}, [OPTION]),
        ("all", {"updateStrategy": {"type": "OnDelete"}}, [f"{STRATEGY}.type"]),
        ("all", {"updateStrategy": {}}, [f"{ROLLING}.maxUnavailable"]),
        ("all", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}}, [f"{ROLLING}.maxUnavailable"]),
        ("all", {"updateStrategy": {"rollingUpdate": {"maxSurge": 3}}}, [f"{ROLLING}.maxSurge"]),
        ("2", {"updateStrategy": {"rollingUpdate": {"maxSurge": 2}}}, [f"{ROLLING}.maxSurge"]),
        ("all", {"updateStrategy": {"rollingUpdate": {"maxSurge": 4, "maxUnavailable": 0}}}, []),
        ("all", {"updateStrategy": {"rollingUpdate": {**ALL, "partition": 1}}}, [f"{ROLLING}.partition"]),
        ("all", {"updateStrategy": {"rollingUpdate": {**ALL, "partition": "100%"}}}, []),
        ("all", {"scaleStrategy": {"maxUnavailable": 2}}, ["spec.scaleStrategy.maxUnavailable"]),
        ("2", {"scaleStrategy": {"maxUnavailable": 2}}, []),
        (
            "all",
            {"template": template(schedulingGroup={"podGroupName": "own"})},
            ["spec.template.spec.schedulingGroup"],
        ),
        (
            "all",
            {"template": template(evictionResponders=[{"name": "example.com/x", "priority": 1}])},
            ["spec.template.spec.evictionResponders"],
        ),
    ],
)
def test_admission_refuses_what_cannot_work_with_a_group(
    value: str, fields: dict[str, Any], expected: list[str]
) -> None:
    """cloneset case 127"""
    builder = gang(cloneset(4, pods=0), value, **ALL).with_spec(**fields)
    document = add_defaults(builder.document, old=None, settings=DefaultingSettings())
    spec, problem = read_spec(document["spec"])
    assert problem == ""
    fields_of_errors = [error.field for error in errors_of(document, spec)]
    assert [field for field in fields_of_errors if field in (*expected, OPTION)] == expected
