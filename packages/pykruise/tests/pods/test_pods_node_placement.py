"""Which nodes a pod may be on, and how much room it needs there."""

from fractions import Fraction
from typing import Any

import orjson
import pytest

from pykruise.pods.node_placement import bound_to, request_of, requirements_of, shortage
from pykruise.pods.nodes import NodeView, project_node


def node(*taints: str, cordoned: bool = False, allocatable: dict[str, Any] | None = None) -> NodeView:
    found = [{"key": key, "effect": effect} for key, _, effect in (one.partition(":") for one in taints)]
    return project_node(
        orjson.dumps(
            {
                "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", "labels": {"disk": "ssd"}},
                "spec": {"taints": found, "unschedulable": cordoned},
                "status": {
                    "allocatable": {"pods": "110", "cpu": "2"} if allocatable is None else allocatable
                },
            }
        )
    )


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
        ({"affinity": {"nodeAffinity": []}}, node(), ""),
        ({"affinity": "none"}, node(), "affinity"),
    ],
)
def test_the_first_thing_in_the_way_is_named(spec: dict[str, Any], where: NodeView, why: str) -> None:
    found = requirements_of(spec).obstacle(where)

    assert why in found
    assert bool(found) is bool(why)


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


def test_a_limit_counts_where_no_request_is_said_and_nothing_asks_for_nothing() -> None:
    limited = {"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {"memory": "0"}}}]}

    assert request_of(limited) == {"cpu": Fraction(1)}
    assert request_of({}) == {}


def test_a_node_has_to_have_room_when_it_is_empty() -> None:
    asks = request_of({"containers": [container("2")]})
    gpu = request_of({"containers": [{"resources": {"limits": {"example.com/gpu": 1}}}]})

    assert shortage(asks, node()) == ""
    assert "cpu" in shortage(asks, node(allocatable={"pods": "1", "cpu": "1900m"}))
    assert "pods" in shortage({}, node(allocatable={}))
    assert "example.com/gpu" in shortage(gpu, node())


def test_a_pod_that_is_bound_keeps_the_rest_of_its_affinity() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}

    found = bound_to(spec, "n1")["affinity"]["nodeAffinity"]

    assert found["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    (term,) = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
