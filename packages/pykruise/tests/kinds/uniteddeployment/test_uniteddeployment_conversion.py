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


def adaptive(**fields: Any) -> Document:
    return {"topology": {"subsets": [], "scheduleStrategy": {"type": "Adaptive", "adaptive": fields}}}


def adaptive_of(doc: Document) -> Document:
    result: Document = doc["spec"]["topology"]["scheduleStrategy"]["adaptive"]
    return result


def test_the_duration_of_1_8_keeps_its_name_and_its_meaning() -> None:
    stored = document(OLD, spec=adaptive(rescheduleCriticalSeconds=5, unschedulableLastSeconds=3600))
    new = convert(stored, NEW, list_conversions())
    assert adaptive_of(new) == {"rescheduleCriticalSeconds": 5, "unschedulableDuration": 3600}
    assert convert(new, OLD, list_conversions()) == stored
    # a client of the new version changes the value
    adaptive_of(new)["unschedulableDuration"] = 60
    assert adaptive_of(convert(new, OLD, list_conversions()))["unschedulableLastSeconds"] == 60
    # and removes it
    del adaptive_of(new)["unschedulableDuration"]
    assert adaptive_of(convert(new, OLD, list_conversions())) == {"rescheduleCriticalSeconds": 5}


def test_the_new_name_of_the_duration_takes_precedence() -> None:
    both = document(OLD, spec=adaptive(unschedulableLastSeconds=3600, unschedulableDuration=60))
    new = convert(both, NEW, list_conversions())
    assert adaptive_of(new) == {"unschedulableDuration": 60}
    assert convert(new, OLD, list_conversions()) == both


@pytest.mark.parametrize("value", [None, "x", 0])
def test_a_null_or_a_value_of_another_type_is_no_error_of_the_conversion(value: Any) -> None:
    stored = document(OLD, spec=adaptive(unschedulableLastSeconds=value, unschedulableDuration=None))
    new = convert(stored, NEW, list_conversions())
    assert adaptive_of(new)["unschedulableDuration"] == value
    assert adaptive_of(convert(new, OLD, list_conversions())).get("unschedulableLastSeconds") == value


def test_an_object_written_with_the_new_name_of_the_duration_shows_this_name_in_both_versions() -> None:
    stored = document(NEW, spec=adaptive(unschedulableDuration=60))
    old = convert(stored, OLD, list_conversions())
    assert adaptive_of(old) == {"unschedulableDuration": 60}
    assert convert(old, NEW, list_conversions()) == stored
