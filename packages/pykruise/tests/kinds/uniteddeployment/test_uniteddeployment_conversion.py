"""UnitedDeployments between v1alpha1 and v1beta1: statuses in part, flat strategies, and values of other types."""

from typing import Any

import pytest

from pykruise.kinds import list_conversions
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import convert

OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"


def document(version: str, **parts: Any) -> Document:
    return {"apiVersion": version, "kind": UNITED_DEPLOYMENTS.kind, "metadata": {"name": "web"}, **parts}


def to_new(**parts: Any) -> Document:
    return convert(document(OLD, **parts), NEW, list_conversions())


def to_old(**parts: Any) -> Document:
    return convert(document(NEW, **parts), OLD, list_conversions())


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"updatedRevision": "r2"}, {"updateStatus": {"updatedRevision": "r2"}}),
        (
            {"subsetStatuses": [{"name": "a", "replicas": 1, "partition": 2}]},
            {
                "subsetStatuses": [{"name": "a", "replicas": 1, "partition": 2}],
                "subsetReplicas": {"a": 1},
                "updateStatus": {"updatedRevision": "", "currentPartitions": {"a": 2}},
            },
        ),
        # the first status of a new UnitedDeployment
        ({"replicas": 0}, {"replicas": 0}),
    ],
)
def test_a_partial_status_survives_the_round_trip(new: Document, old: Document) -> None:
    assert to_old(status=new)["status"] == old
    assert to_new(status=old)["status"] == new


@pytest.mark.parametrize("update", [{}, {"updatedRevision": ""}, {"currentPartitions": {}}])
def test_an_empty_update_status_is_dropped(update: Document) -> None:
    assert to_new(status={"updateStatus": update, "subsetReplicas": {}})["status"] == {}


@pytest.mark.parametrize(
    "strategy",
    [{"type": "OnDelete"}, {"type": "RollingUpdate"}, {"type": "RollingUpdate", "rollingUpdate": None}],
)
def test_a_strategy_without_flat_fields_is_converted_unchanged(strategy: Document) -> None:
    spec = {"template": {"cloneSetTemplate": {"spec": {"updateStrategy": strategy}}}}
    result = to_new(spec=spec)["spec"]["template"]["cloneSetTemplate"]["spec"]
    assert result["updateStrategy"] == strategy


def test_invalid_status_entries_are_converted_unchanged() -> None:
    """API servers do not send such entries."""
    entries = ["x", {"name": 7}, {"name": ""}, {"name": "a", "replicas": 1}]
    shown = to_old(status={"subsetStatuses": entries})["status"]
    assert shown["subsetStatuses"] == entries
    assert shown["subsetReplicas"] == {"a": 1}
    numbers = to_new(status={"subsetStatuses": entries, "subsetReplicas": {"a": 2, "b": 3}})["status"]
    assert numbers["subsetStatuses"] == [
        *entries[:3],
        {"name": "a", "replicas": 2},
        {"name": "b", "replicas": 3},
    ]


@pytest.mark.parametrize(
    ("status", "values"),
    [
        ({"updateStatus": "x"}, {"updateStatus": "x"}),
        ({"updateStatus": {"currentPartitions": 1}, "subsetReplicas": "x"}, {}),
        ({"subsetStatuses": "x", "subsetReplicas": {"a": 1}}, {"subsetStatuses": "x"}),
    ],
)
def test_values_of_other_types_stop_no_conversion(status: Document, values: Document) -> None:
    assert to_new(status=status)["status"] == values
