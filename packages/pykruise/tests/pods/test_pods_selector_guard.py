"""The guard against a selector that was changed without a review."""

from typing import Any

import orjson
import pytest

from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import RevisionView, project_revision
from pykruise.pods.workload.selector_guard import (
    SELECTOR_MISMATCH,
    Managed,
    Mismatch,
    check_selector,
    encode_selector,
    find_managed_selector,
    is_guarded,
    record_of,
)

WEB = {"matchLabels": {"app": "web"}}
API = {"matchLabels": {"app": "api"}}


def stored(number: int, *, record: dict[str, Any] | str | None = None, **labels: str) -> RevisionView:
    """An owned revision; its record may be a selector or any text."""
    annotations = {keys.MANAGED_SELECTOR_ANNOTATION: record} if isinstance(record, str) else None
    if isinstance(record, dict):
        annotations = record_of(record)
    document = {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "shop",
            "uid": f"uid-{number}",
            "resourceVersion": "1",
            "labels": labels or {"app": "web"},
            "annotations": annotations,
        },
        "revision": number,
    }
    return project_revision(orjson.dumps(document))


def test_the_recorded_selector_may_act() -> None:
    assert check_selector(WEB, owned=[stored(1, record=WEB)], pods=[]) == Managed()


@pytest.mark.parametrize("value", [API, {}, {"matchLabels": {"app": "web", "tier": "front"}}])
def test_a_selector_other_than_the_recorded_one_is_a_mismatch(value: dict[str, Any]) -> None:
    """daemonset case 63; for any revisions and pods"""
    verdict = check_selector(value, owned=[stored(1, record=WEB)], pods=[{"app": "web"}])
    assert verdict == Mismatch(managed=encode_selector(WEB), stored=encode_selector(value))


def test_a_selector_that_cannot_be_read_is_another_than_the_recorded_one() -> None:
    broken = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    assert isinstance(check_selector(broken, owned=[stored(1, record=WEB)], pods=[]), Mismatch)


def test_the_order_of_expressions_and_values_is_not_a_change() -> None:
    """daemonset case 70"""
    before = {
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "app", "operator": "Exists"},
        ],
        "matchLabels": {"b": "2", "a": "1"},
    }
    after = {
        "matchLabels": {"a": "1", "b": "2"},
        "matchExpressions": [
            {"key": "app", "operator": "Exists", "values": []},
            {"key": "tier", "operator": "In", "values": ["a", "b"]},
        ],
    }
    assert encode_selector(before) == encode_selector(after)
    assert check_selector(after, owned=[stored(1, record=before)], pods=[]) == Managed()


def test_absent_and_empty_parts_of_a_selector_are_equal() -> None:
    assert encode_selector({"matchLabels": {}, "matchExpressions": None}) == encode_selector({}) == "{}"


def test_each_part_of_an_expression_counts_and_a_repeated_value_does_not() -> None:
    def of(*expressions: dict[str, Any]) -> str:
        return encode_selector({"matchExpressions": list(expressions)})

    given = [
        {"key": key, "operator": operator, "values": values}
        for key in ("a", "b")
        for operator in ("In", "NotIn")
        for values in (["1"], ["1", "2"])
    ]
    assert len({of(item) for item in given}) == len(given)
    assert of(*given) == of(*reversed(given))
    assert of({"key": "a", "operator": "In", "values": ["1", "1"]}) == of(given[0])
    assert of({}) == of({"values": None}) == '{"matchExpressions":[{}]}'


def test_an_unreadable_selector_without_a_record_is_passed_to_the_planner() -> None:
    broken = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    assert check_selector(broken, owned=[stored(1)], pods=[{"app": "old"}]) == Managed()


def test_the_newest_of_several_selector_records_with_one_number_counts() -> None:
    def of(name: str, created: str | None, record: dict[str, Any]) -> RevisionView:
        metadata = {"name": name, "creationTimestamp": created, "annotations": record_of(record)}
        return project_revision(orjson.dumps({"metadata": metadata, "revision": 1}))

    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    for owned in (
        [of("b", older, API), of("a", newer, WEB)],
        [of("b", None, API), of("a", newer, WEB)],
        [of("a", older, API), of("b", older, WEB)],
        [of("a", None, API), of("b", None, WEB)],
    ):
        for given in (owned, owned[::-1]):
            assert check_selector(WEB, owned=given, pods=[]) == Managed()


def test_the_text_is_the_same_in_every_process() -> None:
    given = {"key": "é", "operator": "In", "values": list("hgfedcba")}
    assert encode_selector({"matchExpressions": [given]}) == (
        '{"matchExpressions":[{"key":"é","operator":"In","values":["a","b","c","d","e","f","g","h"]}]}'
    )


def test_the_newest_record_counts() -> None:
    # given a revision without a record that is newer than two with different records
    owned = [stored(3), stored(1, record=API), stored(2, record=WEB)]
    # then
    assert check_selector(WEB, owned=owned, pods=[]) == Managed()
    assert check_selector(API, owned=owned, pods=[]) == Mismatch(
        managed=encode_selector(WEB), stored=encode_selector(API)
    )


def test_a_record_in_another_format_still_counts() -> None:
    record = '{ "matchLabels": { "app": "web" }, "matchExpressions": [] }'
    assert check_selector(WEB, owned=[stored(1, record=record)], pods=[]) == Managed()


@pytest.mark.parametrize("record", ["what?", "5", "[1]", '{"matchLabels": 5}', '{"matchExpressions": [5]}'])
def test_an_unreadable_record_is_a_mismatch(record: str) -> None:
    assert check_selector(WEB, owned=[stored(1, record=record)], pods=[]) == Mismatch(
        managed=record, stored=encode_selector(WEB)
    )


def test_a_set_of_another_manager_is_taken_over_and_recorded_with_its_newest_revision() -> None:
    verdict = check_selector(WEB, owned=[stored(2), stored(1)], pods=[])
    assert isinstance(verdict, Managed)
    assert verdict.unrecorded is not None
    assert verdict.unrecorded.number == 2


def test_a_selector_changed_before_the_take_over_is_a_mismatch() -> None:
    """daemonset case 71"""
    verdict = check_selector(WEB, owned=[stored(1), stored(2, app="old")], pods=[{"app": "web"}])
    assert verdict == Mismatch(managed="", stored=encode_selector(WEB))


@pytest.mark.parametrize(
    ("pods", "may_act"),
    [
        ([], True),
        ([{"app": "web"}], True),
        ([{"app": "old"}, {"app": "web"}], True),
        ([{"app": "old"}], False),
    ],
)
def test_one_matching_pod_is_enough_without_revisions(pods: list[dict[str, str]], may_act: bool) -> None:
    assert isinstance(check_selector(WEB, owned=[], pods=pods), Managed) == may_act


# Messages for people, and answers of admission


def test_the_message_names_both_selectors_and_how_to_recover() -> None:
    message = Mismatch(managed=encode_selector(WEB), stored=encode_selector(API)).format_message("CloneSet")
    assert encode_selector(WEB) in message
    assert encode_selector(API) in message
    assert "Restore it" in message
    assert "delete the CloneSet" in message
    assert "--cascade=orphan" in message
    assert "not recorded" in Mismatch(managed="", stored="{}").format_message("CloneSet")


def test_admission_finds_the_managed_selector_in_the_newest_record() -> None:
    tricky = {"matchLabels": {"example.com/a": "x"}, "matchExpressions": [{"key": "é", "operator": "Exists"}]}
    owned = [
        stored(1, record=encode_selector(WEB)),
        stored(3, record=encode_selector(tricky)),
        stored(2),
    ]
    assert find_managed_selector(owned) == tricky


@pytest.mark.parametrize("record", ["", "[]", "{", "web"])
def test_admission_finds_nothing_without_a_readable_record(record: str) -> None:
    assert find_managed_selector([stored(1, record=record)]) is None
    assert find_managed_selector([]) is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": SELECTOR_MISMATCH, "status": "True"}, True),
        ({"type": SELECTOR_MISMATCH, "status": "False"}, False),
        ({"type": "Other", "status": "True"}, False),
        ({}, False),
    ],
)
def test_the_condition_type_shows_that_the_selector_guard_holds(
    condition: dict[str, str], expected: bool
) -> None:
    assert is_guarded([condition]) is expected
