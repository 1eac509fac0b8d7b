"""Changes of a subset to its pods: a patch and required nodes."""

import copy
from typing import Any

import pytest

from pykruise.pods.template.subset_placement import (
    MOST_EXPRESSIONS,
    PlacementError,
    add_required,
    apply_patch,
)

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "a:1"}], "nodeName": "n"}}


def pod(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **spec}}


def test_a_patch_merges_lists_by_name_and_leaves_the_pod_unchanged() -> None:
    before = copy.deepcopy(POD)
    result = apply_patch(POD, {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}})
    assert result["spec"]["containers"] == [
        {"name": "c", "image": "a:1", "env": [{"name": "A", "value": "1"}]}
    ]
    assert before == POD


@pytest.mark.parametrize("patch", [None, {}])
def test_nothing_changes_without_a_patch(patch: Any) -> None:
    assert apply_patch(POD, patch) == POD
    assert apply_patch({"metadata": {"name": "a"}}, patch) == {"metadata": {"name": "a"}}
    assert apply_patch(pod(priority=5), patch) == pod(priority=5)
    assert apply_patch(pod(priority=5, priorityClassName="high"), patch)["spec"]["priority"] == 5


@pytest.mark.parametrize(
    ("before", "patch", "expected"),
    [
        (
            pod(priority=5, priorityClassName="low"),
            {"priorityClassName": "high"},
            {"priorityClassName": "high"},
        ),
        (pod(priority=5), {"priorityClassName": "high"}, {"priorityClassName": "high"}),
        (pod(priority=5, priorityClassName="low"), {"priorityClassName": None}, {}),
        (pod(), {"priorityClassName": "high", "priority": 5}, {"priorityClassName": "high"}),
    ],
)
def test_the_priority_number_of_another_class_is_removed(
    before: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    """workloadspread case 24"""
    assert apply_patch(before, {"spec": patch}) == pod(**expected)


def test_a_patch_may_make_the_spec_or_take_it_away() -> None:
    made = apply_patch({"metadata": {"name": "a"}}, {"spec": {"priorityClassName": "high", "priority": 5}})
    assert made["spec"] == {"priorityClassName": "high"}
    assert apply_patch(pod(priority=5, priorityClassName="low"), {"spec": None}) == {
        "metadata": {"name": "a"}
    }


@pytest.mark.parametrize(
    ("patch", "wrong"),
    [
        ("x", "failed to merge patch: "),
        ({"spec": {"containers": [{"image": "b"}]}}, "failed to merge patch: "),
        (
            {"spec": {"hostNetwork": "yes"}},
            "the result of the patch is not a valid pod: json: cannot unmarshal string",
        ),
    ],
)
def test_a_patch_that_gives_no_pod_is_refused(patch: Any, wrong: str) -> None:
    with pytest.raises(PlacementError, match=f"^{wrong}"):
        apply_patch(POD, patch)


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}
NAME = {"key": "metadata.name", "operator": "In", "values": ["n"]}


@pytest.mark.parametrize(
    ("terms", "wanted", "expected"),
    [
        (None, {"matchExpressions": [ZONE]}, [{"matchExpressions": [ZONE]}]),
        ([], {"matchExpressions": [ZONE]}, [{"matchExpressions": [ZONE]}]),
        (
            [{"matchExpressions": [DISK]}, {"matchFields": [NAME]}, {"matchExpressions": None}],
            {"matchExpressions": [ZONE], "matchFields": None},
            [
                {"matchExpressions": [DISK, ZONE]},
                {"matchFields": [NAME], "matchExpressions": [ZONE]},
                {"matchExpressions": [ZONE]},
            ],
        ),
        (
            [{"matchExpressions": [DISK]}],
            {"matchFields": [NAME]},
            [{"matchExpressions": [DISK], "matchFields": [NAME]}],
        ),
        ([{"matchExpressions": [DISK]}], {}, [{"matchExpressions": [DISK]}]),
    ],
)
def test_each_term_requires_what_is_wanted_too(terms: Any, wanted: Any, expected: Any) -> None:
    before = copy.deepcopy(terms)
    assert add_required(terms, wanted, field="requiredNodeSelectorTerm") == expected
    assert terms == before


def test_no_more_expressions_are_added_than_an_object_may_have() -> None:
    # given
    terms = [{"matchExpressions": [DISK]}] * (MOST_EXPRESSIONS // 100)
    wanted = {"matchExpressions": [ZONE] * 99, "matchFields": [NAME]}
    # then
    assert len(add_required(terms, wanted, field="f")) == len(terms)
    with pytest.raises(PlacementError, match=f"^f would add {MOST_EXPRESSIONS + 100} expressions"):
        add_required([*terms, {}], wanted, field="f")
