"""New pods near the pods that they replace: the option successor-placement."""

import re
from typing import Any

import pytest

from pykruise.kinds.cloneset.plan import plan_cloneset
from pykruise.pods.view import keys
from pykruise.pods.workload.options import SUCCESSOR_PLACEMENT
from pykruise.runtime.plan import Plan
from support.cloneset_builder import CloneSetBuilder, cloneset, template
from support.plan_views import created

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def near(builder: CloneSetBuilder, placement: str = "PreferSameNode") -> CloneSetBuilder:
    builder.document["metadata"]["annotations"] = {SUCCESSOR_PLACEMENT.annotation: placement}
    return builder


def predecessors(plan: Plan) -> list[str]:
    """Short name of the pod that each new pod replaces; ? if it replaces none."""
    uids = (doc["metadata"]["annotations"].get(keys.REPLACES_ANNOTATION, "uid-?") for doc in created(plan))
    return [uid.removeprefix("uid-") for uid in uids]


def affinity_of(plan: Plan) -> dict[str, Any]:
    (document,) = created(plan)
    result: dict[str, Any] = (document["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return result


TABLE = """
3 0 0 | a b c-          | c
3 0 0 | a b             | ?
3 0 0 | a               | ? ?
3 0 0 | a b c- s>c      | nothing
3 0 0 | a s>c c-        | ?
3 0 0 | a b- c-         | b c
5 0 0 | a b c-          | c ? ?
3 0 1 | a~ b~ c~        | a
3 0 2 | a~ b~ c~        | a b
3 2 2 | a~ b~ c~        | a
3 3 2 | a~ b~ c~        | nothing
3 0 2 | a~ b~ c~ s>a    | b
4 0 1 | a~ b~ c~ d-~    | d a
3 0 2 | a~* b~ c~       | b c
3 0 0 | a b c-*         | ?
"""
"""replicas partition maxSurge | pods: - terminates, ~ old, * has no node, s>c replaces c | predecessors of new pods"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines())
def test_each_new_pod_replaces_the_pod_that_leaves_next(row: str) -> None:
    """cloneset cases 114 and 115"""
    # given
    setting, pods, expected = (part.strip() for part in row.split("|"))
    replicas, partition, surge = map(int, setting.split())
    builder = near(cloneset(replicas, pods=0, partition=partition, max_surge=surge, max_unavailable=0))
    for age, (name, replaced, marks) in enumerate(re.findall(r"(\w)(?:>(\w))?([-~*]*)(?:\s|$)", pods)):
        builder.add(name, old="~" in marks).born(900 + age, name)
        if replaced:
            builder.annotated({keys.REPLACES_ANNOTATION: f"uid-{replaced}"}, name)
        if "*" in marks:
            builder.unscheduled(name)
        else:
            builder.on_node(f"node-{name}", name, zone="one")
        if "-" in marks:
            builder.deleted(name)
    # then
    wanted = [] if expected == "nothing" else expected.split()
    assert sorted(predecessors(plan_cloneset(builder.snapshot()))) == sorted(wanted)


NODE_TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-c"]}]}
ZONE_TERM = {
    "matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["one"]}]
}


def leaving(placement: str, **labels: str) -> CloneSetBuilder:
    """Three pods, one of which terminates on node-c."""
    builder = near(cloneset(3, pods=0), placement).add("a", "b", "c")
    return builder.on_node("node-c", "c", **labels).deleted("c")


@pytest.mark.parametrize(
    ("placement", "affinity"),
    [
        ("PreferSameNode", {PREFERRED: [{"weight": 100, "preference": NODE_TERM}]}),
        ("PreferSameZone", {PREFERRED: [{"weight": 100, "preference": ZONE_TERM}]}),
        ("RequireSameNode", {REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}}),
        ("RequireSameZone", {REQUIRED: {"nodeSelectorTerms": [ZONE_TERM]}}),
    ],
)
def test_the_place_of_the_predecessor_becomes_a_node_affinity(
    placement: str, affinity: dict[str, Any]
) -> None:
    """cloneset case 114"""
    builder = leaving(placement, disk="hdd")
    builder.node_labels["node-c"] = {"topology.kubernetes.io/zone": "one"}
    assert affinity_of(plan_cloneset(builder.snapshot())) == affinity


def test_terms_of_the_template_hold_too() -> None:
    """cloneset case 114"""
    disk = {"key": "disk", "operator": "In", "values": ["ssd"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [disk]}]}
    builder = leaving("RequireSameNode", disk="ssd")
    builder.with_spec(template=template(affinity={"nodeAffinity": {REQUIRED: terms}}))
    (term,) = affinity_of(plan_cloneset(builder.snapshot()))[REQUIRED]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [disk], **NODE_TERM}


@pytest.mark.parametrize("placement", ["PreferSameNode", "RequireSameNode"])
@pytest.mark.parametrize("state", ["cordoned", "gone", "other selector"])
def test_a_node_that_takes_no_new_pods_places_none(placement: str, state: str) -> None:
    """cloneset case 116"""
    builder = leaving(placement, disk="hdd")
    if state == "cordoned":
        builder.cordoned.add("node-c")
    elif state == "gone":
        del builder.node_labels["node-c"]
    else:
        builder.with_spec(template=template(nodeSelector={"disk": "ssd"}))
    plan = plan_cloneset(builder.snapshot())
    assert predecessors(plan) == ["c"]
    assert affinity_of(plan) == {}


def test_a_node_without_a_zone_places_none() -> None:
    """cloneset case 116"""
    plan = plan_cloneset(leaving("RequireSameZone", disk="hdd").snapshot())
    assert predecessors(plan) == ["c"]
    assert affinity_of(plan) == {}


def test_nothing_changes_and_no_node_is_read_without_the_option() -> None:
    builder = leaving("PreferSameNode", disk="hdd")
    builder.document["metadata"]["annotations"] = {}
    plan = plan_cloneset(builder.snapshot())
    assert predecessors(plan) == ["?"]
    assert affinity_of(plan) == {}
    assert builder.snapshot().nodes == {}
