"""The pod's own Ready condition after a change of one of its readiness gates."""

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.ready_condition import compute_ready_after
from pykruise.pods.view.pod_view import ConditionView, PodView

NOW = parse_time("2026-01-31T12:00:00Z")
OPEN, CLOSED = {"type": "gate", "status": "True"}, {"type": "gate", "status": "False"}
READY, NOT_READY = ConditionView("Ready", "True"), ConditionView("Ready", "False")
RUNNING, STARTING = ConditionView("ContainersReady", "True"), ConditionView("ContainersReady", "False")


def pod(*conditions: ConditionView, gates: tuple[str, ...] = ("gate",)) -> PodView:
    return PodView(
        namespace="shop", name="a", uid="u", resource_version=1, conditions=conditions, readiness_gates=gates
    )


def test_a_gate_that_closes_takes_the_pod_out_of_service() -> None:
    assert compute_ready_after(pod(READY, RUNNING), CLOSED, now=NOW) == [
        {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
            "reason": "ReadinessGatesNotReady",
            "message": "the status of pod readiness gate 'gate' is 'False', not 'True'",
        }
    ]


def test_the_last_gate_to_open_restores_ready_and_clears_its_reason() -> None:
    assert compute_ready_after(pod(NOT_READY, RUNNING), OPEN, now=NOW) == [
        {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
            "reason": None,
            "message": None,
        }
    ]


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        (pod(READY, RUNNING), OPEN),
        (pod(NOT_READY, RUNNING), CLOSED),
        (pod(NOT_READY, RUNNING, gates=("gate", "other")), OPEN),
        (pod(READY, RUNNING, gates=()), CLOSED),
        (pod(READY, STARTING), CLOSED),
        (pod(NOT_READY, STARTING), OPEN),
        (pod(RUNNING), CLOSED),
        (pod(READY), CLOSED),
        (pod(), CLOSED),
    ],
    ids=[
        "it is ready already",
        "it is not ready already",
        "another gate is closed",
        "the condition is none of its gates",
        "containers are not ready",
        "containers are not ready yet",
        "nobody spoke of readiness yet",
        "nobody spoke of its containers yet",
        "nobody said anything yet",
    ],
)
def test_the_ready_condition_is_not_written_when_unchanged_or_owned_by_the_kubelet(
    value: PodView, changed: Document
) -> None:
    assert compute_ready_after(value, changed, now=NOW) == []
