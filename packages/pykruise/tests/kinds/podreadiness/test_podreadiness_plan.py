"""KruisePodReady of pods without a workload of OpenKruise."""

from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.kinds.podreadiness.plan import PodReadinessSnapshot, lacks_condition, plan_readiness
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import encode
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Patch

NOW = parse_time("2026-01-31T12:00:00Z")


def pod(
    *,
    owner: tuple[str, str] | None = None,
    gate: bool = True,
    further_gates: Sequence[str] = (),
    condition: str = "",
    **metadata: Any,
) -> PodView:
    """A pod. `owner`: its apiVersion and kind; `condition`: status of KruisePodReady, empty if it has none."""
    if owner is not None:
        version, kind = owner
        reference = {"apiVersion": version, "kind": kind, "name": "o", "uid": "o1", "controller": True}
        metadata["ownerReferences"] = [reference]
    gates = (*further_gates, *(("KruisePodReady",) if gate else ()))
    conditions = [{"type": "KruisePodReady", "status": condition}] if condition else []
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": "web",
                    "namespace": "shop",
                    "uid": "u1",
                    "resourceVersion": "7",
                    **metadata,
                },
                "spec": {
                    "containers": [{"name": "main"}],
                    "readinessGates": [{"conditionType": gate} for gate in gates],
                },
                "status": {"phase": "Running", "conditions": conditions},
            }
        )
    )


@pytest.mark.parametrize(
    "owner",
    [
        None,
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps.kruise.io/v1beta1", "BroadcastJob"),
    ],
)
def test_a_pod_with_the_gate_gets_its_condition(owner: tuple[str, str] | None) -> None:
    """lifecycle case 55"""
    (step,) = plan_readiness(PodReadinessSnapshot(pod=pod(owner=owner), now=NOW)).steps
    assert isinstance(step.action, Patch)
    assert step.action.subresource == "status"
    assert step.action.uid == "u1"
    assert step.action.body["status"]["conditions"] == [
        {"type": "KruisePodReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}
    ]


def test_other_readiness_gates_are_not_written() -> None:
    (step,) = plan_readiness(
        PodReadinessSnapshot(pod=pod(further_gates=("InPlaceUpdateReady", "mine")), now=NOW)
    ).steps
    assert isinstance(step.action, Patch)
    assert [condition["type"] for condition in step.action.body["status"]["conditions"]] == ["KruisePodReady"]


@pytest.mark.parametrize(
    "item",
    [
        pod(condition="False"),
        pod(gate=False),
        pod(deletionTimestamp="2026-01-31T12:00:00Z"),
        pod(owner=("apps.kruise.io/v1beta1", "CloneSet")),
        pod(owner=("apps.kruise.io/v1alpha1", "DaemonSet")),
    ],
    ids=["has one", "without the gate", "terminating", "of a CloneSet", "of a DaemonSet"],
)
def test_all_other_pods_are_not_changed(item: PodView) -> None:
    """lifecycle case 56"""
    assert not lacks_condition(item)
    assert plan_readiness(PodReadinessSnapshot(pod=item, now=NOW)).is_settled
