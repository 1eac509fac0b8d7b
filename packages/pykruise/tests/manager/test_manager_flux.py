"""Flux' health expressions of docs/gitops.md, evaluated over statuses as the controllers write them."""

import re
from pathlib import Path
from typing import Any

import cel
import pytest

from pykruise.kube.schemas.crds import build_structural_schema
from pykruise.models import model_of
from support.yaml_documents import yaml_documents

PAGE = Path(__file__).parents[4] / "docs" / "gitops.md"


def expressions() -> dict[str, dict[str, str]]:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    expressions = [document for block in blocks for document in yaml_documents(block)]
    return {
        expr["kind"]: expr for doc in expressions for expr in doc.get("spec", {}).get("healthCheckExprs", ())
    }


EXPRESSIONS = expressions()


def health(kind: str, **status: Any) -> str:
    """Result of the expressions in Flux' order: failed, then current, else in progress."""
    said = EXPRESSIONS[kind]
    assert set(status) <= _fields(said["apiVersion"], kind)
    for name in ("failed", "current"):
        if name in said and cel.evaluate(said[name], {"status": status, "metadata": {"generation": 2}}):
            return name
    return "in progress"


def _fields(api_version: str, kind: str) -> set[str]:
    """Fields of the status in the kind's definition."""
    schema = build_structural_schema(model_of(api_version, kind))
    return set(schema["properties"]["status"]["properties"])


@pytest.mark.parametrize(
    ("kind", "status", "wanted"),
    [
        ("BroadcastJob", {}, "in progress"),
        ("BroadcastJob", {"phase": "running", "active": 1}, "in progress"),
        ("BroadcastJob", {"phase": "completed"}, "current"),
        ("BroadcastJob", {"phase": "completed", "failed": 0}, "current"),
        ("BroadcastJob", {"phase": "completed", "failed": 1}, "failed"),
        ("BroadcastJob", {"phase": "failed"}, "failed"),
        ("ImagePullJob", {"desired": 3}, "in progress"),
        ("ImagePullJob", {"desired": 3, "completionTime": "2026-01-01T00:00:00Z"}, "current"),
        ("ImagePullJob", {"desired": 3, "failed": 1, "completionTime": "2026-01-01T00:00:00Z"}, "failed"),
        ("ImageListPullJob", {}, "in progress"),
        ("ImageListPullJob", {"completionTime": "2026-01-01T00:00:00Z"}, "current"),
        (
            "ImageListPullJob",
            {"completionTime": "2026-01-01T00:00:00Z", "failedImageStatuses": [{"name": "a"}]},
            "failed",
        ),
        ("EphemeralJob", {"phase": "Running"}, "in progress"),
        ("EphemeralJob", {"phase": "Succeeded"}, "current"),
        ("EphemeralJob", {"phase": "Failed"}, "failed"),
        ("ContainerRecreateRequest", {"phase": "Recreating"}, "in progress"),
        ("ContainerRecreateRequest", {"phase": "Succeeded"}, "current"),
        ("ContainerRecreateRequest", {"phase": "Failed"}, "failed"),
        ("ContainerRecreateRequest", {"phase": "Completed"}, "current"),
        (
            "ContainerRecreateRequest",
            {"phase": "Completed", "containerRecreateStates": [{"phase": "Succeeded"}]},
            "current",
        ),
        (
            "ContainerRecreateRequest",
            {"phase": "Completed", "containerRecreateStates": [{"phase": "Failed"}]},
            "failed",
        ),
        (
            "ContainerRecreateRequest",
            {"phase": "Recreating", "containerRecreateStates": [{"phase": "Failed"}]},
            "in progress",
        ),
        ("ResourceDistribution", {}, "in progress"),
        ("ResourceDistribution", {"desired": 2, "succeeded": 1}, "in progress"),
        ("ResourceDistribution", {"desired": 2, "succeeded": 2}, "current"),
        ("ResourceDistribution", {"desired": 2, "succeeded": 1, "failed": 1}, "failed"),
    ],
)
def test_the_health_expressions_evaluate_an_objects_status(
    kind: str, status: dict[str, Any], wanted: str
) -> None:
    assert health(kind, **status) == wanted


READY: dict[str, Any] = {"type": "Ready", "status": "True"}
STALLED: dict[str, Any] = {"type": "Stalled", "status": "True"}
WITH_CONDITIONS = ("CloneSet", "DaemonSet", "SidecarSet", "StatefulSet", "UnitedDeployment")
WITH_GENERATION = ("PersistentPodState", "PodProbeMarker", "PodUnavailableBudget", "WorkloadSpread")


@pytest.mark.parametrize("kind", WITH_CONDITIONS)
def test_a_workload_is_ready_when_its_generation_is(kind: str) -> None:
    unready = [{**READY, "status": "False"}]
    assert health(kind) == "in progress"
    assert health(kind, observedGeneration=1, conditions=[READY]) == "in progress"
    assert health(kind, observedGeneration=1, conditions=[STALLED]) == "in progress"
    assert health(kind, observedGeneration=2) == "in progress"
    assert health(kind, observedGeneration=2, conditions=unready) == "in progress"
    assert health(kind, observedGeneration=2, conditions=[*unready, STALLED]) == "failed"
    assert health(kind, observedGeneration=2, conditions=[READY]) == "current"


@pytest.mark.parametrize("kind", WITH_GENERATION)
def test_an_object_without_conditions_is_ready_when_it_was_observed(kind: str) -> None:
    assert health(kind) == "in progress"
    assert health(kind, observedGeneration=1) == "in progress"
    assert health(kind, observedGeneration=2) == "current"


def test_each_expression_is_tried() -> None:
    assert set(EXPRESSIONS) == {
        *WITH_CONDITIONS,
        *WITH_GENERATION,
        "BroadcastJob",
        "ContainerRecreateRequest",
        "EphemeralJob",
        "ImageListPullJob",
        "ImagePullJob",
        "ResourceDistribution",
    }
