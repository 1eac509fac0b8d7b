"""Nodes that a pod may run on, and the resources that it needs there."""

from fractions import Fraction
from typing import Any

import orjson
import pytest

from pykruise.pods.template.node_placement import (
    NodeRequirements,
    Request,
    bind_to_node,
    find_shortage,
    request_of,
    requirements_of,
)
from pykruise.pods.view.nodes import NodeView, project_node


def node(*taints: str, cordoned: bool = False, allocatable: dict[str, Any] | None = None) -> NodeView:
    result = [{"key": key, "effect": effect} for key, _, effect in (taint.partition(":") for taint in taints)]
    return project_node(
        orjson.dumps(
            {
                "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", "labels": {"disk": "ssd"}},
                "spec": {"taints": result, "unschedulable": cordoned},
                "status": {
                    "allocatable": {"pods": "110", "cpu": "2"} if allocatable is None else allocatable
                },
            }
        )
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requiring(*disks: str) -> dict[str, Any]:
    """A pod spec with a required node selector term for each of these disks."""
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]} for disk in disks]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}, **fields}


@pytest.mark.parametrize(
    ("spec", "where", "why"),
    [
        ({}, node(), ""),
        ({"nodeSelector": {"disk": "ssd"}}, node(), ""),
        ({"nodeSelector": {"disk": "hdd"}}, node(), "label disk=hdd"),
        ({"nodeName": "n2"}, node(), "names the node n2"),
        ({}, node("x:PreferNoSchedule"), ""),
        ({}, node("x:NoSchedule"), "the taint x:NoSchedule"),
        ({"tolerations": [{"key": "x", "operator": "Exists"}]}, node("x:NoExecute"), ""),
        ({}, node(cordoned=True), "cordoned"),
        ({"tolerations": [{"operator": "Exists"}]}, node(cordoned=True), ""),
        ({"nodeName": "n1"}, node(), ""),
        ({"nodeName": None, "nodeSelector": None, "tolerations": None}, node(), ""),
        ({"nodeSelector": {"disk": "ssd", "gpu": "yes"}}, node(), "label gpu=yes"),
        ({}, node("x:NoExecute"), "the taint x:NoExecute"),
        ({"tolerations": [{"key": "x", "operator": "Exists"}]}, node("x:NoSchedule", "y:NoSchedule"), "y:"),
        (
            {"tolerations": [{"key": "x", "operator": "Exists"}]},
            node("x:NoSchedule", cordoned=True),
            "cordon",
        ),
        (requiring("ssd"), node(), ""),
        (requiring("hdd"), node(), "affinity"),
        (requiring("hdd", "ssd"), node(), ""),
        (requiring(), node(), "affinity"),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": None}}}}, node(), "affinity"),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["x"]}}}}, node(), "affinity"),
        ({"affinity": {"nodeAffinity": {REQUIRED: None}}}, node(), ""),
        ({"affinity": {"nodeAffinity": {REQUIRED: "x"}}}, node(), "affinity"),
        ({"affinity": {"nodeAffinity": None}}, node(), ""),
        ({"affinity": None}, node(), ""),
        ({"affinity": {"nodeAffinity": []}}, node(), ""),
        ({"affinity": "none"}, node(), "affinity"),
    ],
)
def test_the_first_obstacle_on_a_node_is_named(spec: dict[str, Any], where: NodeView, why: str) -> None:
    obstacle = requirements_of(spec).find_obstacle(where)

    assert why in (obstacle.because if obstacle is not None else "")
    assert (obstacle is not None) is bool(why)


@pytest.mark.parametrize(
    ("spec", "where", "remedy"),
    [
        (
            {"nodeSelector": {"disk": "hdd"}},
            node(),
            "label the node, or change nodeSelector of spec.template",
        ),
        (requiring("hdd"), node(), "label the node, or change nodeAffinity of spec.template"),
        ({"nodeName": "n2"}, node(), "change nodeName of spec.template"),
        ({}, node("x:NoSchedule"), "remove the taint, or add a toleration to spec.template"),
        ({}, node("node.kubernetes.io/unreachable:NoExecute"), "bring the node back"),
        ({}, node("node.kubernetes.io/unschedulable:NoSchedule"), "uncordon the node"),
        ({}, node(cordoned=True), "uncordon the node"),
    ],
)
def test_each_obstacle_has_its_own_remedy(spec: dict[str, Any], where: NodeView, remedy: str) -> None:
    obstacle = requirements_of(spec).find_obstacle(where)

    assert obstacle is not None
    assert obstacle.remedy == remedy


def test_null_fields_require_nothing() -> None:
    nulls = dict.fromkeys(("nodeName", "nodeSelector", "affinity", "tolerations"))
    assert requirements_of(nulls) == requirements_of({}) == NodeRequirements()


def test_containers_run_together_and_init_containers_one_by_one() -> None:
    spec = {
        "initContainers": [
            container("1", restartPolicy="Always"),
            container("4"),
            container("2"),
        ],
        "containers": [container("500m"), container("500m")],
        "overhead": {"cpu": "250m"},
    }

    assert request_of(spec) == {"cpu": Fraction(21, 4)}


def test_an_init_container_that_ends_does_not_add_to_the_next_one() -> None:
    given = {"initContainers": [container("2"), container("1", restartPolicy="Always"), container("1500m")]}
    assert request_of(given) == {"cpu": Fraction(5, 2)}
    first = {"initContainers": [container("3"), container("1", restartPolicy="Always")]}
    assert request_of(first) == {"cpu": Fraction(3)}
    alone = {"initContainers": [container("1", restartPolicy="Always")]}
    assert request_of(alone) == {"cpu": Fraction(1)}
    together = {"initContainers": [container("1", restartPolicy="Always")], "containers": [container("4")]}
    assert request_of(together) == {"cpu": Fraction(5)}


@pytest.mark.parametrize(
    "resources",
    [None, {}, {"requests": None, "limits": None}, {"requests": {"cpu": "lots"}}, {"limits": {"cpu": "0"}}],
)
def test_empty_or_unreadable_resources_request_nothing(resources: Any) -> None:
    given = {"containers": [{"name": "c", "resources": resources}], "initContainers": None, "overhead": None}
    assert request_of(given) == {}
    assert request_of({"containers": None}) == {}


def test_a_limit_counts_as_the_request_when_none_is_set() -> None:
    limited = {"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {"memory": "0"}}}]}

    assert request_of(limited) == {"cpu": Fraction(1)}
    assert request_of({}) == {}


def test_an_empty_node_must_have_enough_capacity() -> None:
    asks = request_of({"containers": [container("2")]})
    gpu = request_of({"containers": [{"resources": {"limits": {"example.com/gpu": 1}}}]})

    def shortage(asked: Request, **fields: Any) -> str:
        obstacle = find_shortage(asked, node(**fields))
        return "" if obstacle is None else f"{obstacle.because} → {obstacle.remedy}"

    assert shortage(asks) == ""
    assert "cpu" in shortage(asks, allocatable={"pods": "1", "cpu": "1900m"})
    assert "pods" in shortage({}, allocatable={})
    assert "pods" in shortage({}, allocatable={"pods": "0"})
    assert shortage({}, allocatable={"pods": "1"}) == ""
    assert shortage(asks, allocatable={"pods": "1"}) == (
        "the node has too little cpu even when it is empty (allocatable: 0)"
        " → request less cpu in spec.template, or add a larger node"
    )
    assert "example.com/gpu" in shortage(gpu)


def test_a_pod_bound_to_a_node_keeps_the_rest_of_its_affinity() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}

    result = bind_to_node(spec, "n1")["affinity"]["nodeAffinity"]

    assert result["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert bind_to_node({"affinity": None, "x": 1}, "n1") == {"x": 1, **bind_to_node({}, "n1")}
    assert bind_to_node({"affinity": {"nodeAffinity": None, "podAffinity": {"y": 1}}}, "n1")["affinity"] == {
        **bind_to_node({}, "n1")["affinity"],
        "podAffinity": {"y": 1},
    }
    (term,) = result["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
