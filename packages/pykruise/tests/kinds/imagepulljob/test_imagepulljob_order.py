"""The order in which the nodes of a workload's pods pull."""

from typing import Any

from pykruise.kinds.imagepulljob.order import resource_of_controller, sort_in_update_order
from pykruise.kube.documents import encode
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import ControllerView, PodView


def pod(name: str, *, phase: str = "Running", **labels: str) -> PodView:
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": name,
                    "namespace": "x",
                    "uid": name,
                    "resourceVersion": "1",
                    "labels": labels,
                },
                "spec": {"nodeName": f"node-of-{name}", "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": phase},
            }
        )
    )


def names(pods: Any) -> list[str]:
    return [pod.name for pod in pods]


def test_pods_of_a_statefulset_are_ordered_from_the_highest_ordinal_down() -> None:
    """images, lifted limit b"""
    pods = sort_in_update_order([pod("a-1"), pod("a-10"), pod("a-2")], {"spec": {}}, kind="StatefulSet")
    assert names(pods) == ["a-10", "a-2", "a-1"]


def test_pods_of_a_cloneset_are_ordered_as_it_updates_them() -> None:
    """images, lifted limit b: first the pods that are missed least"""
    pods = sort_in_update_order([pod("a-2"), pod("a-1", phase="Pending")], {"spec": {}}, kind="CloneSet")
    assert names(pods) == ["a-1", "a-2"]


def test_pods_are_scattered_as_their_workload_scatters_them() -> None:
    strategy = {"scatterStrategy": [{"key": "t", "value": "x"}]}
    workload = {"spec": {"updateStrategy": {"rollingUpdate": strategy}}}
    pods = [pod("a", t="x"), pod("b", t="x"), pod("c"), pod("d")]
    assert names(sort_in_update_order(pods, workload, kind="CloneSet")) == ["a", "c", "d", "b"]


def test_the_priorities_of_the_workload_precede_the_default_order() -> None:
    strategy = {
        "priorityStrategy": {"weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"t": "x"}}}]}
    }
    workload = {"spec": {"updateStrategy": {"rollingUpdate": strategy}}}
    pods = sort_in_update_order([pod("a"), pod("b", t="x")], workload, kind="CloneSet")
    assert names(pods) == ["b", "a"]


def test_ordered_keys_count_too() -> None:
    unordered = {"priorityStrategy": {"orderPriority": [{"orderedKey": "k"}]}}
    workload = {"spec": {"updateStrategy": {"rollingUpdate": {"unorderedUpdate": unordered}}}}
    pods = sort_in_update_order(
        [pod("a-0", k="v1"), pod("a-1"), pod("a-2", k="v2")], workload, kind="StatefulSet"
    )
    assert names(pods) == ["a-1", "a-2", "a-0"]


def test_only_workloads_of_the_group_have_an_order() -> None:
    ours = resource_of_controller(ControllerView("apps.kruise.io", "CloneSet", "x", "u"))
    assert ours is not None
    assert ours.plural == "clonesets"
    assert resource_of_controller(ControllerView("apps", "StatefulSet", "x", "u")) is None
    assert resource_of_controller(ControllerView("apps.kruise.io", "DaemonSet", "x", "u")) is None
    assert resource_of_controller(None) is None
