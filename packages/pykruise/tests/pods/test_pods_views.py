"""Pods as decisions see them: fields of the JSON text, and fields that are computed from it."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.agent.rules.environment import EnvSource
from pykruise.kube.clock import parse_time
from pykruise.pods.in_place import is_at_rest
from pykruise.pods.lifecycle.sort_keys import parse_deletion_cost
from pykruise.pods.view import keys
from pykruise.pods.view.decoding import NEEDED_ANNOTATIONS, PodProjector, project_pod
from pykruise.pods.view.pod_view import ConditionView, PodView


def document(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "metadata": {
            "name": "web-abcde",
            "namespace": "shop",
            "uid": "u-1",
            "resourceVersion": "12345",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", keys.REVISION_LABEL: "web-7c9d", keys.INSTANCE_ID_LABEL: "abcde"},
            "annotations": {"example.com/large": "x" * 1000, keys.DELETION_COST_ANNOTATION: "10"},
            "finalizers": ["example.com/f"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u-other"},
                {
                    "apiVersion": "apps.kruise.io/v1alpha1",
                    "kind": "CloneSet",
                    "name": "web",
                    "uid": "u-web",
                    "controller": True,
                },
            ],
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "image": "nginx:1", "somethingNew": {"a": [1]}}],
            "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "setup"}],
            "readinessGates": [{"conditionType": keys.IN_PLACE_READY}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"},
                {"type": keys.IN_PLACE_READY, "status": "True", "lastTransitionTime": None},
            ],
            "containerStatuses": [
                {"name": "main", "image": "nginx:1", "imageID": "sha:1", "restartCount": 3, "ready": True}
            ],
            "initContainerStatuses": [
                {"name": "sidecar", "restartCount": 2},
                {"name": "setup", "restartCount": 9},
            ],
        },
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = document
        for parent in parents:
            target = target[parent]
        target[last] = value
    return document


def view(**changes: Any) -> PodView:
    return project_pod(orjson.dumps(document(**changes)))


def test_a_view_holds_what_decisions_need_and_no_large_annotation() -> None:
    pod = view()
    assert (pod.namespace, pod.name, pod.uid) == ("shop", "web-abcde", "u-1")
    assert (pod.resource_version, pod.generation) == (12345, 2)
    assert pod.annotations == {keys.DELETION_COST_ANNOTATION: "10"}
    assert set(pod.annotations) <= set(NEEDED_ANNOTATIONS)
    assert pod.controller is not None
    assert (pod.controller.group, pod.controller.kind, pod.controller.uid) == (
        "apps.kruise.io",
        "CloneSet",
        "u-web",
    )
    assert pod.ready_since == parse_time("2026-01-01T00:00:30Z")
    assert pod.containers[0].image == "nginx:1"
    assert pod.container_statuses[0].image_id == "sha:1"
    assert (pod.revision, pod.instance_id, pod.deletion_cost) == ("7c9d", "abcde", 10)
    assert pod.is_active
    assert pod.is_serving


def test_the_short_form_of_a_revision_label_is_the_same_revision() -> None:
    """cloneset case 60"""
    full = view(metadata__labels={keys.REVISION_LABEL: "web-7c9d"})
    only_hash = view(metadata__labels={keys.REVISION_LABEL: "7c9d"})
    assert full.revision == only_hash.revision == "7c9d"


@pytest.mark.parametrize(
    ("changes", "ready", "serving"),
    [
        ({}, True, True),
        ({"status__phase": "Pending"}, False, False),
        ({"status__conditions": []}, False, False),
        (
            {"status__conditions": [{"type": "Ready", "status": "True"}]},
            True,
            True,
        ),
        (
            {
                "status__conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": keys.IN_PLACE_READY, "status": "False"},
                ]
            },
            False,
            False,
        ),
        ({"metadata__labels": {keys.STATE_LABEL: "Normal"}}, True, True),
        ({"metadata__labels": {keys.STATE_LABEL: "Updated"}}, True, False),
        ({"metadata__labels": {keys.STATE_LABEL: "SomethingNew"}}, True, False),
    ],
)
def test_a_serving_pod_is_running_ready_not_held_and_in_a_serving_state(
    changes: dict[str, Any], ready: bool, serving: bool
) -> None:
    """lifecycle case 55, lifecycle case 9"""
    pod = view(**changes)
    assert (pod.is_ready, pod.is_serving) == (ready, serving)


@pytest.mark.parametrize(
    "changes",
    [
        {"status__phase": "Failed"},
        {"status__phase": "Succeeded"},
        {"metadata__deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_finished_and_terminating_pods_are_not_active(changes: dict[str, Any]) -> None:
    assert not view(**changes).is_active


def test_the_specified_delete_label_marks_a_pod_with_any_value() -> None:
    """cloneset case 39"""
    assert view(metadata__labels={keys.SPECIFIED_DELETE_LABEL: ""}).is_specified_delete
    assert not view().is_specified_delete


def test_restarts_of_init_containers_count_only_when_they_keep_running() -> None:
    rank = view().rank
    assert (rank.minus_restarts, rank.minus_init_restarts) == (-3, -2)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ()),
        ({"status__conditions": []}, (keys.IN_PLACE_READY,)),
        (
            {
                "status__conditions": [
                    {"type": keys.IN_PLACE_READY, "status": "True", "reason": "StartInPlaceUpdate"}
                ]
            },
            (keys.IN_PLACE_READY,),
        ),
        ({"status__conditions": [], "spec__readinessGates": []}, ()),
        (
            {
                "status__conditions": [],
                "metadata__annotations": {keys.IN_PLACE_STATE_ANNOTATION: "{}"},
            },
            (),
        ),
        (
            {
                "spec__readinessGates": [{"conditionType": keys.KRUISE_POD_READY}],
                "status__conditions": [{"type": keys.KRUISE_POD_READY, "status": "False"}],
            },
            (),
        ),
        (
            {"spec__readinessGates": [{"conditionType": keys.KRUISE_POD_READY}]},
            (keys.KRUISE_POD_READY,),
        ),
    ],
)
def test_open_gates_are_those_without_a_hold_whose_condition_is_not_true(
    changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert view(**changes).open_gates == expected


STATES = [
    {},
    {keys.IN_PLACE_STATE_ANNOTATION: "{}"},
    {keys.IN_PLACE_STATE_ANNOTATION: ""},
    {keys.LEGACY_IN_PLACE_STATE_ANNOTATION: '{"nextContainerImages":{"a":"b"}}'},
    {
        keys.IN_PLACE_STATE_ANNOTATION: "{}",
        keys.LEGACY_IN_PLACE_STATE_ANNOTATION: '{"nextContainerImages":{}}',
    },
    {keys.IN_PLACE_GRACE_ANNOTATION: ""},
    {keys.LEGACY_IN_PLACE_GRACE_ANNOTATION: "{}"},
]
GATES: list[list[dict[str, Any]]] = [
    [],
    [{"type": keys.IN_PLACE_READY, "status": "True"}],
    [{"type": keys.IN_PLACE_READY, "status": "True", "message": "m"}],
    [{"type": keys.IN_PLACE_READY, "status": "False", "reason": "StartInPlaceUpdate"}],
]


@pytest.mark.parametrize("state", ["", "Normal", "Updating"])
@pytest.mark.parametrize("conditions", GATES)
@pytest.mark.parametrize("annotations", STATES)
@pytest.mark.parametrize("gates", [[], [{"conditionType": keys.IN_PLACE_READY}]])
def test_a_pod_that_an_update_in_place_has_something_to_do_for_shows_it(
    state: str, conditions: list[dict[str, Any]], annotations: dict[str, str], gates: list[dict[str, str]]
) -> None:
    """The computed fields agree with the update engine."""
    pod = view(
        metadata__labels={keys.STATE_LABEL: state},
        metadata__annotations=annotations,
        status__conditions=conditions,
        spec__readinessGates=gates,
    )
    assert (pod.may_be_updating or keys.IN_PLACE_READY in pod.open_gates) == (not is_at_rest(pod))


def test_annotations_and_env_sources_are_kept_only_during_an_in_place_update() -> None:
    # given a container that is fed from an annotation, and a report of the node's agent
    env = [{"name": "FED", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/a']"}}}]
    containers = [{"name": "main", "image": "nginx:1", "env": env}]
    said = {"example.com/a": "1", "example.com/b": "2", keys.RUNTIME_META_ANNOTATION: "{}"}
    state = {keys.IN_PLACE_STATE_ANNOTATION: "{}"}
    # then
    assert view(metadata__annotations=said, spec__containers=containers).annotations == {}
    pod = view(metadata__annotations=said | state, spec__containers=containers)
    assert pod.annotations == {**state, "example.com/a": "1", keys.RUNTIME_META_ANNOTATION: "{}"}
    assert pod.containers[0].env_sources == (EnvSource("FED", "annotations", "example.com/a"),)


def test_container_views_have_the_fields_for_in_place_updates() -> None:
    # given
    amounts = {"limits": {"cpu": "2", "example.com/gpu": "1"}, "requests": {"memory": "1Gi"}}
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    main = {"name": "main", "image": "nginx:1", "resources": amounts, "resizePolicy": policy, "env": None}
    status = {"name": "main", "image": "nginx:1", "imageID": "sha:1", "containerID": "c://1"}
    status |= {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "resources": amounts}
    # when
    pod = view(spec__containers=[main], status__containerStatuses=[status])
    # then
    (container,), (ran,) = pod.containers, pod.container_statuses
    assert (container.resources.get("limits", "cpu"), container.restarts_for) == ("2", ("cpu",))
    assert (ran.container_id, ran.waiting) == ("c://1", "CrashLoopBackOff")
    assert ran.resources == container.resources


def test_a_container_s_text_is_read_once_and_forgotten_in_time() -> None:
    project = PodProjector()
    texts = [
        orjson.dumps(document(spec__containers=[{"name": "m", "image": f"a:{n % 3}"}])) for n in range(9)
    ]
    pods = [project(text) for text in texts]
    assert len({id(pod.containers) for pod in pods}) == 3
    assert len(project._facts._facts) == 3


def test_equal_parts_of_different_pods_are_one_object() -> None:
    # given one projector and two pods of the same owner
    project = PodProjector()
    first = project(orjson.dumps(document()))
    second = project(orjson.dumps(document(metadata__name="web-other")))
    # then
    assert first.containers is second.containers
    assert first.conditions is second.conditions
    assert first.controller is second.controller
    assert first.labels["app"] is second.labels["app"]


def test_a_projector_forgets_shared_values_rather_than_growing_without_bound() -> None:
    # given a projector that keeps few values
    project = PodProjector(shared_values=10)
    # when it reads many new values
    pods = [
        project(orjson.dumps(document(metadata__labels={"unique": str(number)}))) for number in range(100)
    ]
    # then its earlier views stay correct
    assert [pod.labels["unique"] for pod in pods] == [str(number) for number in range(100)]
    assert len(project._shared) <= 10 + 30


def test_nulls_count_as_absent() -> None:
    pod = view(
        metadata__labels=None,
        metadata__annotations=None,
        metadata__finalizers=None,
        spec=None,
        status=None,
    )
    assert (pod.labels, pod.node_name, pod.phase, pod.conditions) == ({}, "", "", ())


def test_a_condition_is_found_by_its_type() -> None:
    assert view().find_condition("Ready") == ConditionView("Ready", "True")
    assert view().find_condition("Other") is None


def test_a_pending_resize_is_a_condition_even_from_older_kubelets() -> None:
    """Kubernetes 1.32 shows it in `status.resize`, later minors in a condition."""
    doc = document()
    doc["status"]["resize"] = "Infeasible"
    expected = ConditionView("PodResizePending", "True", "Infeasible", "")
    assert project_pod(orjson.dumps(doc)).find_condition("PodResizePending") == expected
    doc["status"]["resize"] = "InProgress"
    assert project_pod(orjson.dumps(doc)).find_condition("PodResizePending") is None


def test_a_value_that_is_not_a_pod_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        project_pod(b'{"kind":"Status"}')


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        (None, 0),
        ("10", 10),
        ("-1", -1),
        ("0", 0),
        ("+5", 0),
        ("008", 0),
        ("x", 0),
        ("", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("-", 0),
        ("1 ", 0),
    ],
)
def test_deletion_costs_are_numbers_as_replica_sets_read_them(text: str | None, cost: int) -> None:
    """cloneset case 30"""
    assert parse_deletion_cost(text) == cost


def bound_to(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (bound_to({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), "n1"),
        (
            bound_to(
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
            ),
            "n2",
        ),
        (bound_to({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}), ""),
        (bound_to({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}), ""),
        (bound_to({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]}), ""),
        (bound_to(), ""),
        ({"affinity": {"nodeAffinity": None}}, ""),
        ({"affinity": None}, ""),
        ({"affinity": {"nodeAffinity": "x"}}, ""),
        ({}, ""),
    ],
)
def test_a_pod_without_a_node_may_be_bound_to_one(spec: dict[str, Any], expected: str) -> None:
    """daemonset section 6.4: the node that a pod of a DaemonSet is created for"""
    view = project_pod(orjson.dumps({"metadata": {"name": "a"}, "spec": spec}))
    assert (view.wanted_node, view.target_node) == (expected, expected)
    # a pod with a node runs there, whatever node it was created for
    there = project_pod(orjson.dumps({"metadata": {"name": "a"}, "spec": {**spec, "nodeName": "n9"}}))
    assert (there.wanted_node, there.target_node) == ("", "n9")


def test_a_condition_without_its_readiness_gate_holds_no_pod() -> None:
    """The kubelet does not evaluate it either; a controller that cannot remove it would wait for ever."""
    # given a pod on which another client set the condition of updates in place, with the gate and without
    stray = {"type": keys.IN_PLACE_READY, "status": "False"}
    result = document()
    result["status"]["conditions"][1] = stray
    bare = document()
    bare["status"]["conditions"][1] = stray
    del bare["spec"]["readinessGates"]
    # then it counts only with the gate
    assert not project_pod(orjson.dumps(result)).is_ready
    assert project_pod(orjson.dumps(bare)).is_ready
