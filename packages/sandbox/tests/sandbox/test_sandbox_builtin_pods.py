"""Pods: binding, resize, ephemeral containers and graceful deletion (the rest is in the recorded answers)."""

from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import PODS
from pykruise.sandbox.apiserver.builtin import find_strategy
from pykruise.sandbox.apiserver.builtin.pod_spec import compute_qos_class
from pykruise.sandbox.apiserver.builtin.pods import (
    BindError,
    PodStrategy,
    bind,
    check_binding,
)
from pykruise.sandbox.version import find_served_release

STRATEGY = find_strategy(PODS)
assert isinstance(STRATEGY, PodStrategy)
BEFORE_1_33 = find_strategy(PODS, find_served_release("1.32"))
assert isinstance(BEFORE_1_33, PodStrategy)
BINDING = {
    "metadata": {"name": "p", "annotations": {"from": "binding"}},
    "target": {"kind": "Node", "name": "n1"},
}


def pod(**spec: Any) -> Document:
    """A pod as it is stored."""
    doc, _ = STRATEGY.decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "main", "image": "i:1"}], **spec},
        }
    )
    return STRATEGY.prepare_create(STRATEGY.default(doc))


def with_resources(**resources: Any) -> Document:
    return pod(containers=[{"name": "main", "image": "i:1", "resources": resources}])


def test_a_binding_sets_the_node_and_the_scheduled_condition() -> None:
    # given
    unbound = pod()
    before = deep_copy(unbound)
    # when
    bound = bind(unbound, BINDING, now=parse_time("2026-01-01T00:00:00Z"))
    # then
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"from": "binding"}
    assert bound["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    assert unbound == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec": {"nodeName": "n2"}}, 'pod p is already assigned to node "n2"'),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, "pod p has non-empty .spec.schedulingGates"),
        (
            {"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "pod p is being deleted, cannot be assigned to a host",
        ),
    ],
)
def test_a_pod_that_cannot_be_bound_is_a_conflict_with_the_reason(change: Document, message: str) -> None:
    with pytest.raises(BindError) as refused:
        bind({**pod(), **change}, BINDING)
    assert str(refused.value) == message


def test_a_binding_without_a_node_is_refused_field_by_field() -> None:
    # when
    causes = check_binding({"target": {"kind": "Pod"}})
    # then
    assert [cause.field for cause in causes] == ["target.kind", "target.name"]
    assert check_binding(BINDING) == []


@pytest.mark.parametrize(
    ("spec", "status", "options", "seconds"),
    [
        ({"nodeName": "n"}, {}, {}, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 5}, {}, {}, 5),
        ({"nodeName": "n"}, {}, {"gracePeriodSeconds": 7}, 7),
        ({"nodeName": "n"}, {}, {"gracePeriodSeconds": 0}, 0),
        ({"nodeName": "n"}, {}, {"gracePeriodSeconds": -4}, 1),
        ({}, {}, {}, 0),
        ({}, {}, {"gracePeriodSeconds": 7}, 0),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {}, 0),
        ({"nodeName": "n"}, {"phase": "Failed"}, {"gracePeriodSeconds": 7}, 0),
        ({"nodeName": "n"}, {"phase": "Running"}, {"gracePeriodSeconds": None}, 30),
    ],
)
def test_a_pod_gets_time_to_end_only_where_it_may_be_running(
    spec: Document, status: Document, options: Document, seconds: int
) -> None:
    # given
    doc = pod(**spec)
    doc["status"] |= status
    # then
    assert STRATEGY.compute_grace_period(doc, options) == seconds


def test_a_resize_changes_resources_and_nothing_else() -> None:
    # given
    old = with_resources(requests={"cpu": "1", "memory": "1Gi"})
    new = deep_copy(old)
    new["spec"]["containers"][0] |= {
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
        "image": "other",
    }
    new["spec"]["nodeName"] = "elsewhere"
    new["metadata"]["labels"] = {"x": "y"}
    # when
    resized = STRATEGY.resize(new, old)
    # then
    container = resized["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert container["image"] == "i:1"
    assert "nodeName" not in resized["spec"]
    assert "labels" not in resized["metadata"]
    assert "resize" not in resized["status"]
    assert STRATEGY.check_resize(resized, old) == []
    assert old["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"


def test_a_resize_is_proposed_in_the_status_before_kubernetes_1_33() -> None:
    # given
    old = with_resources(requests={"cpu": "1"})
    new = deep_copy(old)
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    # then
    assert BEFORE_1_33.resize(new, old)["status"]["resize"] == "Proposed"
    assert "resize" not in BEFORE_1_33.resize(deep_copy(old), old)["status"]


def with_pod_resources(**resources: Any) -> Document:
    return pod(resources=resources)


def test_resources_of_a_whole_pod_can_be_resized_since_1_36() -> None:
    # given a pod with a CPU request for the whole pod
    old = with_pod_resources(requests={"cpu": "1"}, limits={"cpu": "2"})
    new = deep_copy(old)
    new["spec"]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    # when
    resized = STRATEGY.resize(new, old)
    # then
    assert resized["spec"]["resources"] == new["spec"]["resources"]
    assert STRATEGY.check_resize(resized, old) == []
    # before 1.36 it is refused
    before = find_strategy(PODS, find_served_release("1.35"))
    assert isinstance(before, PodStrategy)
    (cause,) = before.check_resize(before.resize(new, old), old)
    assert "resize of pods with pod-level resources is forbidden" in cause.message


def test_amounts_of_pod_level_resources_cannot_be_removed() -> None:
    # given
    old = with_pod_resources(requests={"cpu": "1", "memory": "1Gi"})
    new = deep_copy(old)
    new["spec"]["resources"] = {"requests": {"cpu": "1"}}
    # when
    causes = STRATEGY.check_resize(STRATEGY.resize(new, old), old)
    # then
    assert [cause.message for cause in causes] == ["Forbidden: pod-level resource requests cannot be removed"]


def test_requests_of_a_whole_pod_follow_from_its_containers_and_limits() -> None:
    # given a pod with pod-level limits only, whose container requests memory
    container = {"name": "main", "image": "i:1", "resources": {"requests": {"memory": "1Gi"}}}
    made = pod(containers=[container], resources={"limits": {"cpu": "1", "memory": "2Gi"}})
    # then
    assert made["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}},
            "Pod QOS Class may not change as a result of resizing",
        ),
        (
            {"requests": {"cpu": "1", "memory": "1"}},
            {"requests": {"cpu": "1"}},
            "resource requests cannot be removed",
        ),
        (
            {"requests": {"cpu": "1", "ephemeral-storage": "1"}},
            {"requests": {"cpu": "1", "ephemeral-storage": "2"}},
            "only cpu and memory resources are mutable",
        ),
    ],
)
def test_a_resize_that_is_not_possible_is_refused(before: Document, after: Document, message: str) -> None:
    # given
    old = with_resources(**before)
    new = deep_copy(old)
    new["spec"]["containers"][0]["resources"] = after
    # when
    causes = STRATEGY.check_resize(STRATEGY.resize(new, old), old)
    # then
    assert any(message in cause.message for cause in causes), causes


def test_a_node_that_reports_no_resources_cannot_resize() -> None:
    # given
    old = with_resources(requests={"cpu": "1"})
    old["status"]["containerStatuses"] = [{"name": "main", "state": {"running": {}}}]
    # then
    causes = STRATEGY.check_resize(STRATEGY.resize(deep_copy(old), old), old)
    assert "Pod running on node without support for resize" in causes[0].message


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("registry:5000/busybox", "Always"),
        ("busybox:1", "IfNotPresent"),
        ("busybox@sha256:ab", "IfNotPresent"),
        ("busybox:1@sha256:ab", "IfNotPresent"),
        ("busybox:latest@sha256:ab", "Always"),
    ],
)
def test_an_image_that_is_called_latest_is_pulled_each_time(image: str, policy: str) -> None:
    """Kubernetes' rule: a tag counts even with a digest, and an image with only a digest is not `latest`."""
    spec = {"ephemeralContainers": [{"name": "debug", "image": image}]}
    result = STRATEGY.add_ephemeral_containers({"spec": spec}, pod())
    assert result["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == policy


def test_ephemeral_containers_are_added_but_never_changed() -> None:
    # given
    old = pod()
    debugger = {"name": "debug", "image": "busybox"}
    first = STRATEGY.add_ephemeral_containers({"spec": {"ephemeralContainers": [debugger]}}, old)
    # then
    assert first["spec"]["ephemeralContainers"][0]["imagePullPolicy"] == "Always"
    assert STRATEGY.check_ephemeral_containers(first, old) == []
    # when it is changed, or removed
    changed = STRATEGY.add_ephemeral_containers(
        {"spec": {"ephemeralContainers": [{**debugger, "image": "x"}]}}, first
    )
    removed = STRATEGY.add_ephemeral_containers({"spec": {}}, first)
    # then
    assert "may not be changed" in STRATEGY.check_ephemeral_containers(changed, first)[0].message
    assert "may not be removed" in STRATEGY.check_ephemeral_containers(removed, first)[0].message


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m", "memory": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}, {}],
            "Burstable",
        ),
        (
            [{"limits": {"cpu": "1000m", "memory": "1Ki"}, "requests": {"cpu": "1", "memory": "1024"}}],
            "Guaranteed",
        ),
    ],
)
def test_the_class_of_service_follows_requests_and_limits(resources: list[Document], expected: str) -> None:
    # given
    containers = [{"name": str(n), "resources": each} for n, each in enumerate(resources)]
    # then
    assert compute_qos_class({"containers": containers}) == expected


def test_a_gated_pod_has_a_scheduling_gated_condition() -> None:
    # when
    made = pod(schedulingGates=[{"name": "example.com/wait"}])
    # then
    condition = made["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_a_gated_pod_may_be_narrowed_to_fewer_nodes() -> None:
    # given
    gate = [{"name": "example.com/wait"}]
    must = "requiredDuringSchedulingIgnoredDuringExecution"

    def on_zones(*zones: str) -> Document:
        terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}]
        return {"nodeAffinity": {must: {"nodeSelectorTerms": terms}}}

    old = pod(schedulingGates=gate)
    for change in ({"nodeSelector": {"a": "b"}}, {"affinity": on_zones("z")}):
        new = deep_copy(old)
        new["spec"] |= change
        # then
        assert STRATEGY.validate_update(new, old) == [], change
    # but an existing term may not be changed
    old = pod(schedulingGates=gate, affinity=on_zones("z"))
    new = deep_copy(old)
    new["spec"]["affinity"] = on_zones("y")
    assert STRATEGY.validate_update(new, old)


def test_a_forbidden_change_is_reported_with_its_place() -> None:
    # given
    old = pod()
    new = deep_copy(old)
    new["spec"]["containers"][0]["args"] = ["x"]
    # when
    (cause,) = STRATEGY.validate_update(new, old)
    # then
    assert cause.field == "spec"
    assert cause.message.splitlines()[1] == "+ spec.containers[0].args: ['x']"
