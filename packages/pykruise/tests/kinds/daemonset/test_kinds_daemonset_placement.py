"""Nodes that run a pod of a DaemonSet."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.daemonset.placement import Place, list_daemon_tolerations, placement_of
from pykruise.plans.views import NodeView, project_node
from support.daemonset_builder import created_on, daemonset, template


def node(name: str = "n1", *taints: str, version: int = 1, **labels: str) -> NodeView:
    result = [{"key": key, "effect": effect} for key, _, effect in (taint.partition(":") for taint in taints)]
    metadata = {"name": name, "uid": "u", "resourceVersion": str(version), "labels": labels}
    return project_node(orjson.dumps({"metadata": metadata, "spec": {"taints": result}}))


def place(wanted: NodeView, **spec: Any) -> Place:
    return placement_of(template(**spec)).fit(wanted).place


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": required}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        ((), Place.RUN),
        (("x:NoSchedule",), Place.STAY),
        (("x:NoExecute",), Place.LEAVE),
        (("x:NoSchedule", "x:NoExecute"), Place.LEAVE),
        (("x:PreferNoSchedule",), Place.RUN),
        (("node.kubernetes.io/not-ready:NoExecute",), Place.RUN),
        (("node.kubernetes.io/not-ready:NoSchedule",), Place.STAY),
        (("node.kubernetes.io/unreachable:NoExecute",), Place.RUN),
        (("node.kubernetes.io/disk-pressure:NoSchedule",), Place.RUN),
        (("node.kubernetes.io/memory-pressure:NoSchedule",), Place.RUN),
        (("node.kubernetes.io/pid-pressure:NoSchedule",), Place.RUN),
        (("node.kubernetes.io/unschedulable:NoSchedule",), Place.RUN),
        (("node.kubernetes.io/network-unavailable:NoSchedule",), Place.STAY),
    ],
)
def test_taints_decide_whether_a_pod_runs_stays_or_leaves(taints: tuple[str, ...], expected: Place) -> None:
    """daemonset cases 17 to 20"""
    assert place(node("n1", *taints)) is expected


def test_a_missing_network_is_for_pods_of_the_hosts_network_only() -> None:
    """daemonset case 21"""
    down = node("n1", "node.kubernetes.io/network-unavailable:NoSchedule")
    assert place(down) is Place.STAY
    assert place(down, hostNetwork=True) is Place.RUN


def test_a_taint_that_the_template_tolerates_keeps_no_pod_away() -> None:
    tolerations = [{"key": "x", "operator": "Exists"}]
    assert place(node("n1", "x:NoExecute"), tolerations=tolerations) is Place.RUN


def test_tolerations_of_daemons_are_added_once() -> None:
    # given a template that has one of them, and two similar ones
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    like = {"key": "node.kubernetes.io/unreachable", "operator": "Equal", "effect": "NoExecute"}
    odd = {
        "key": "node.kubernetes.io/pid-pressure",
        "operator": "Exists",
        "value": "1",
        "effect": "NoSchedule",
    }
    # when
    tolerations = list_daemon_tolerations({"tolerations": [own, like, odd]})
    # then
    assert tolerations[:3] == [own, like, odd]
    assert sum(entry["key"] == "node.kubernetes.io/not-ready" for entry in tolerations) == 1
    assert sum(entry["key"] == "node.kubernetes.io/unreachable" for entry in tolerations) == 2
    assert sum(entry["key"] == "node.kubernetes.io/pid-pressure" for entry in tolerations) == 2
    assert len(tolerations) == 3 + 5
    assert len(list_daemon_tolerations({"hostNetwork": True})) == 7


def test_a_toleration_of_the_template_for_a_limited_time_becomes_unlimited() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    other = {"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations = list_daemon_tolerations({"tolerations": [{**own, "tolerationSeconds": 300}, other]})
    assert tolerations[:2] == [own, other]
    assert len(tolerations) == 2 + 5


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, Place.RUN),
        ({"nodeSelector": {"disk": "hdd"}}, Place.LEAVE),
        ({"nodeName": "n1"}, Place.RUN),
        ({"nodeName": "n2"}, Place.LEAVE),
        ({"affinity": affinity(expression("disk", "In", "ssd", "nvme"))}, Place.RUN),
        ({"affinity": affinity(expression("disk", "NotIn", "ssd"))}, Place.LEAVE),
        ({"affinity": affinity(expression("cpus", "Gt", "7"))}, Place.RUN),
        ({"affinity": affinity(expression("cpus", "Lt", "8"))}, Place.LEAVE),
        ({"affinity": affinity(expression("gpu", "Exists"), expression("disk", "Exists"))}, Place.RUN),
        ({"affinity": affinity({**expression("gpu", "DoesNotExist"), **named("n1")})}, Place.RUN),
        ({"affinity": affinity({**expression("gpu", "Exists"), **named("n1")})}, Place.LEAVE),
        ({"affinity": affinity()}, Place.LEAVE),
        ({"affinity": affinity({})}, Place.LEAVE),
        ({"affinity": affinity(expression("disk", "Like", "ssd"))}, Place.LEAVE),
        ({"affinity": "no affinity"}, Place.LEAVE),
        ({"affinity": {"nodeAffinity": {}}}, Place.RUN),
        (
            {"nodeSelector": {"disk": "ssd"}, "affinity": affinity(expression("gpu", "Exists"))},
            Place.LEAVE,
        ),
    ],
)
def test_selectors_and_required_affinity_choose_nodes(spec: dict[str, Any], expected: Place) -> None:
    assert place(node("n1", disk="ssd", cpus="8"), **spec) is expected


def test_a_template_without_a_spec_has_no_requirements() -> None:
    """admission would have refused it"""
    assert placement_of({"metadata": {"labels": {"app": "web"}}}).fit(node()).place is Place.RUN


def test_the_reason_names_what_keeps_a_node_out() -> None:
    other_label = placement_of(template(nodeSelector={"disk": "hdd"})).fit(node()).obstacle
    taint = placement_of(template()).fit(node("n1", "x:NoSchedule")).obstacle
    assert other_label is not None
    assert other_label.is_mismatch
    assert "disk=hdd" in other_label.because
    assert taint is not None
    assert not taint.is_mismatch
    assert "x:NoSchedule" in taint.because


# in plans


def test_a_tainted_node_gets_no_pod() -> None:
    """daemonset case 17"""
    plan = daemonset(5, pods=False).taint("n3", "x:NoSchedule").plan()
    assert created_on(plan) == ["n1", "n2", "n4", "n5"]
    assert plan.status is not None
    assert plan.status["desiredNumberScheduled"] == 4
    assert "x:NoSchedule" in plan.skipped_nodes["n3"].message


def test_a_cordoned_node_gets_its_pod() -> None:
    """daemonset case 20"""
    builder = daemonset(5, pods=False).taint("n3", "node.kubernetes.io/unschedulable:NoSchedule")
    assert "n3" in created_on(builder.plan())
