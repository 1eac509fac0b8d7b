"""Taints and tolerations, node selector terms."""

from typing import Any

import pytest

from pykruise.kube.pod_rules.nodes import Taint, matches_term, tolerates


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "a", "value": "1"}, True),
        ({"key": "a", "operator": "Equal", "value": "1"}, True),
        ({"key": "a", "value": "2"}, False),
        ({"key": "a"}, False),
        ({"value": "1"}, False),
        ({"key": "a", "operator": "Like", "value": "1"}, False),
    ],
)
def test_a_toleration_covers_a_taint_as_in_kubernetes(toleration: dict[str, Any], expected: bool) -> None:
    assert tolerates([toleration], Taint("a", "NoSchedule", "1")) is expected


def test_one_of_several_tolerations_is_enough() -> None:
    assert tolerates([{"key": "b", "operator": "Exists"}, {"operator": "Exists"}], Taint("a", "NoExecute"))
    assert not tolerates([], Taint("a", "NoExecute"))


def test_a_taint_is_formatted_as_kubectl_accepts_it() -> None:
    assert str(Taint("a", "NoSchedule", "1")) == "a=1:NoSchedule"
    assert str(Taint("a", "NoExecute")) == "a:NoExecute"


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, False),
        ({"matchExpressions": [], "matchFields": []}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, False),
        ({"matchExpressions": [{"key": "a"}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.uid", "operator": "Exists"}]}, False),
        (
            {
                "matchExpressions": [{"key": "a", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}],
            },
            False,
        ),
    ],
)
def test_a_node_selector_term_matches_when_all_its_requirements_match(
    term: dict[str, Any], expected: bool
) -> None:
    assert matches_term(term, labels={"a": "1"}, name="n1") is expected
