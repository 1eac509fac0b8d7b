"""Sidecars of jobs end when the main containers are done."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.sidecarterminator.groups import is_interesting
from pykruise.kinds.sidecarterminator.kind import KIND, REQUEST_VIEWS
from pykruise.kinds.sidecarterminator.plan import (
    SidecarTerminatorSnapshot,
    format_request_name,
    plan_termination,
)
from pykruise.kube.cache.metadata_view import project_metadata
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.plans.views import NODE_VIEWS, NodeView
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import snapshot_of

NOW = parse_time("2026-01-31T12:00:00Z")
KILL = {"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT": "true"}
IGNORE = {**KILL, "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE": "True"}
IMAGE = {"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE": "ends:1"}


def pod(
    containers: dict[str, dict[str, Any]],
    ended: dict[str, int],
    *,
    policy: str = "Never",
    phase: str = "Running",
    **metadata: Any,
) -> PodView:
    """A pod of containers with these environments; `ended`: exit codes of the ended containers."""
    document: Document = {
        "metadata": {"name": "job-x", "namespace": "shop", "uid": "u1", "resourceVersion": "7", **metadata},
        "spec": {
            "nodeName": "node-1",
            "restartPolicy": policy,
            "containers": [
                {
                    "name": name,
                    "image": f"{name}:1",
                    "env": [
                        {"name": key, "value": value} if isinstance(value, str) else {"name": key, **value}
                        for key, value in env.items()
                    ],
                }
                for name, env in containers.items()
            ],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [
                {
                    "name": name,
                    "restartCount": 0,
                    "ready": name not in ended,
                    "state": {"terminated": {"exitCode": ended[name]}} if name in ended else {"running": {}},
                }
                for name in containers
            ],
        },
    }
    return project_pod(encode(document))


def node(**labels: str) -> NodeView:
    return NodeView(name="node-1", uid="n", resource_version=1, labels=labels)


def plan(pod: PodView, *, at: NodeView | None = None, has_request: bool = False) -> Plan:
    return plan_termination(
        SidecarTerminatorSnapshot(pod=pod, node=at or node(), has_request=has_request, now=NOW)
    )


def killed(plan: Plan) -> list[list[str]]:
    """The containers in each created request."""
    return [
        [container["name"] for container in step.action.body["spec"]["containers"]]
        for step in plan.steps
        if isinstance(step.action, Create)
    ]


def test_a_sidecar_is_ended_by_one_request_that_the_pod_owns() -> None:
    """sidecarset case 82"""
    result = plan(pod({"main": {}, "log": KILL}, {"main": 1}))
    (step,) = result.steps
    assert isinstance(step.action, Create)
    assert step.action.key.name == "sidecar-termination-u1"
    assert step.action.body["spec"] == {
        "podName": "job-x",
        "containers": [{"name": "log"}],
        "strategy": {"forceRecreate": True, "failurePolicy": "Ignore"},
    }
    (owner,) = step.action.body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "u1", True)
    assert step.done is not None
    assert step.done.reason == "SidecarTerminator"
    assert not step.done.warning
    assert "using crr" in step.done.message
    assert step.failed is not None
    assert (step.failed.reason, step.failed.warning) == ("SidecarTerminator", True)


@pytest.mark.parametrize("env", [KILL, IMAGE])
def test_events_name_the_sidecars(env: dict[str, str]) -> None:
    """section 7.4"""
    item = pod({"main": {}, "a": env, "b": env}, {"main": 0})
    (step,) = plan(item, at=node(type="virtual-kubelet") if env is IMAGE else node()).steps
    assert step.done is not None
    assert "terminate sidecar a, b using" in step.done.message


def test_a_termination_requires_the_resource_version_that_was_read() -> None:
    item = pod({"main": {}, "log": IGNORE}, {"main": 0})
    action = next(iter(plan(item).steps)).action
    assert isinstance(action, Patch)
    assert (action.uid, action.resource_version) == ("u1", "7")


def test_under_on_failure_the_main_containers_must_have_ended_well() -> None:
    """sidecarset case 82"""
    assert killed(plan(pod({"main": {}, "log": KILL}, {"main": 1}, policy="OnFailure"))) == []
    assert killed(plan(pod({"main": {}, "log": KILL}, {"main": 0}, policy="OnFailure"))) == [["log"]]


def test_one_main_container_that_runs_keeps_all() -> None:
    """sidecarset case 83"""
    assert not is_interesting(pod({"a": {}, "b": {}, "log": KILL}, {"a": 0}))


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_one_failed_main_container_fails_the_pod(policy: str) -> None:
    """sections 11.2 and 11.3"""
    item = pod({"a": {}, "b": {}, "log": IGNORE}, {"a": 0, "b": 1}, policy=policy)
    phases = [
        step.action.body["status"]["phase"] for step in plan(item).steps if isinstance(step.action, Patch)
    ]
    assert phases == ([] if policy == "OnFailure" else ["Failed"])


def test_a_pod_is_relevant_only_when_every_container_has_a_status() -> None:
    """section 11.2"""
    item = pod({"main": {}, "log": KILL, "proxy": KILL}, {"main": 0})
    assert is_interesting(item)
    for known in range(3):
        some = msgspec.structs.replace(item, container_statuses=item.container_statuses[:known])
        assert not is_interesting(some)
    assert not is_interesting(pod({"main": {}, "log": KILL}, {}))


def test_nothing_is_done_without_sidecars_or_when_all_have_ended() -> None:
    """section 11.2"""
    assert not is_interesting(pod({"main": {}}, {"main": 0}))
    for env in (KILL, IGNORE):
        ended = pod({"main": {}, "log": env}, {"main": 0, "log": 0})
        assert not is_interesting(ended)
        assert plan(ended).is_settled


def test_only_what_still_runs_is_ended() -> None:
    """sidecarset case 84"""
    assert killed(plan(pod({"main": {}, "a": KILL, "b": KILL}, {"main": 0, "a": 0}))) == [["b"]]


def test_a_pod_gets_at_most_one_request() -> None:
    """sidecarset case 85"""
    assert plan(pod({"main": {}, "log": KILL}, {"main": 0}), has_request=True).is_settled


@pytest.mark.parametrize(
    "fields", [{"policy": "Always"}, {"phase": "Pending"}, {"deletionTimestamp": "2026-01-31T12:00:00Z"}]
)
def test_restarting_pending_and_terminating_pods_are_not_terminated(fields: dict[str, Any]) -> None:
    """sidecarset case 86"""
    item = pod({"main": {}, "log": KILL}, {"main": 0}, **fields)
    assert not is_interesting(item)
    assert plan(item).is_settled


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_the_phase_is_taken_from_the_main_containers_when_sidecars_are_ignored(code: int, phase: str) -> None:
    """sidecarset case 87"""
    first, second = plan(pod({"main": {}, "log": IGNORE}, {"main": code})).steps
    assert isinstance(first.action, Patch)
    assert first.action.subresource == "status"
    assert first.action.body["status"] == {
        "phase": phase,
        "conditions": [
            {
                "type": "SidecarTerminated",
                "status": "True",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
                "message": "Terminated by Sidecar Terminator",
            }
        ],
    }
    assert isinstance(second.action, Create)


def test_a_phase_that_is_final_is_not_written_again() -> None:
    result = plan(pod({"main": {}, "log": IGNORE}, {"main": 0}, phase="Succeeded"))
    assert [type(step.action) for step in result.steps] == [Create]


def test_the_phase_waits_for_the_sidecars_whose_end_counts() -> None:
    """sidecarset case 88"""
    containers = {"main": {}, "log": KILL, "proxy": IGNORE}
    assert killed(plan(pod(containers, {"main": 0}))) == [["log"]]
    ended = plan(pod(containers, {"main": 0, "log": 0}), has_request=True)
    assert [type(step.action) for step in ended.steps] == [Patch]


def test_on_a_virtual_node_only_the_image_changes_and_only_once() -> None:
    """sidecarset case 89"""
    virtual = node(type="virtual-kubelet")
    item = pod({"main": {}, "log": {**KILL, **IMAGE}}, {"main": 0})
    (step,) = plan(item, at=virtual).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"spec": {"containers": [{"name": "log", "image": "ends:1"}]}}
    assert step.done is not None
    assert "in-place update" in step.done.message
    done = {"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE": "log:1"}
    assert plan(pod({"main": {}, "log": done}, {"main": 0}), at=virtual).is_settled
    assert plan(pod({"main": {}, "log": KILL}, {"main": 0}), at=virtual).is_settled


def test_on_a_real_node_the_image_does_nothing() -> None:
    """sidecarset case 90"""
    item = pod({"main": {}, "log": IMAGE}, {"main": 0})
    assert is_interesting(item)
    assert plan(item).is_settled
    # and a sidecar of the other kind, which has ended, does not decide the phase
    assert plan(pod({"main": {}, "log": IMAGE, "proxy": KILL}, {"main": 0, "proxy": 0})).is_settled


def test_an_unknown_node_is_retried() -> None:
    """sidecarset case 91"""
    item = pod({"main": {}, "log": KILL}, {"main": 0})
    plan = plan_termination(SidecarTerminatorSnapshot(pod=item, node=None, now=NOW))
    assert not plan.stages
    assert plan.requeue_after_s is not None
    assert "node-1" in plan.skipped["job-x"].message


@pytest.mark.parametrize("has_request", [False, True])
def test_a_snapshot_has_the_pods_node_and_recreate_request(*, has_request: bool) -> None:
    """sidecarset cases 85 and 91"""
    # given a request for another pod too
    item, names = pod({"main": {}, "log": KILL}, {"main": 0}), ["sidecar-termination-u2"]
    if has_request:
        names.append(format_request_name(item))
    requests = [
        project_metadata(encode({"metadata": {"name": name, "namespace": "shop", "uid": name}}))
        for name in names
    ]
    # when
    nodes = [node(), msgspec.structs.replace(node(type="virtual-kubelet"), name="node-2")]
    result = snapshot_of(
        KIND, item, {NODE_VIEWS: nodes, REQUEST_VIEWS: requests}, settings=NoSettings(), now=NOW
    )
    # then
    assert result == SidecarTerminatorSnapshot(pod=item, node=nodes[0], has_request=has_request, now=NOW)


@pytest.mark.parametrize(
    ("value", "counts"),
    [
        ("TRUE", True),
        ("true", True),
        ("yes", False),
        ({"valueFrom": {"fieldRef": {"fieldPath": "x"}}}, False),
    ],
)
def test_only_a_literal_true_counts_in_any_case(value: Any, *, counts: bool) -> None:
    """sidecarset case 92"""
    env = {"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT": value}
    assert is_interesting(pod({"main": {}, "log": env}, {"main": 0})) is counts


def test_sidecars_are_terminated_immediately_without_main_containers() -> None:
    """section 11.2"""
    assert killed(plan(pod({"log": KILL}, {}))) == [["log"]]
