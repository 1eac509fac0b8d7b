"""Rules for the placement of pods: node selector terms, pod affinity and spread constraints."""

from typing import Any

import pytest

from pykruise.kube.pod_rules.placement import (
    check_affinity,
    check_node_term,
    check_preferred_terms,
    check_spread,
)
from pykruise.kube.schemas.releases import release_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("compares", "wrong"),
    [
        (expression("In", "a"), []),
        (expression("In"), ["values"]),
        (expression("Exists", "a"), ["values"]),
        (expression("Gt", "1", "2"), ["values"]),
        (expression("Gt", "1"), []),
        (expression("Is", "a"), ["operator"]),
        (expression("In", "a", key="no/such/key"), ["key"]),
        (expression("In", "a", "not valid"), ["values[1]"]),
        (expression("Exists", "not valid"), ["values"]),
        (expression("Gt", "-1"), []),
        ({"key": "zone", "operator": "Exists", "values": None}, []),
        ({"key": "zone", "operator": "In", "values": None}, ["values"]),
        ({"key": "zone", "operator": "Lt", "values": None}, ["values"]),
    ],
)
def test_an_expression_needs_what_its_operator_compares_with(
    compares: dict[str, Any], wrong: list[str]
) -> None:
    term = {"matchExpressions": [compares]}
    fields = [cause.field for cause in check_node_term(term, "term", checks_values=True)]
    assert fields == [f"term.matchExpressions[0].{field}" for field in wrong]
    # if values are not checked, only the errors of single values are missing
    fields = [cause.field for cause in check_node_term(term, "term", checks_values=False)]
    assert fields == [f"term.matchExpressions[0].{field}" for field in wrong if "[" not in field]


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (expression("In", "n1", key="metadata.name"), []),
        (expression("In", "n1", "n2", key="metadata.name"), ["values"]),
        (expression("Exists", key="metadata.name"), ["operator"]),
        (expression("In", "n1", key="metadata.uid"), ["key"]),
        ({"key": "metadata.name", "operator": "In", "values": None}, ["values"]),
        (expression("NotIn", "Not_A_Name", key="metadata.name"), ["values[0]"]),
        (expression("In", "Not_A_Name", key="metadata.uid"), ["key"]),
    ],
)
def test_the_only_field_of_a_node_is_its_name(entry: dict[str, Any], wrong: list[str]) -> None:
    causes = list(check_node_term({"matchFields": [entry]}, "term", checks_values=True))
    assert [cause.field for cause in causes] == [f"term.matchFields[0].{field}" for field in wrong]


def test_terms_of_pods_are_checked_like_other_terms() -> None:
    term = {"matchFields": [expression("In", "n1", key="metadata.uid")]}
    (cause,) = check_affinity({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}, "a")
    assert cause.field == f"a.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key"
    assert cause.message == 'Invalid value: "metadata.uid": not a valid field selector key'


@pytest.mark.parametrize(("minor", "count"), [("1.32", 0), ("1.37", 1)])
def test_label_values_of_required_nodes_are_checked_in_new_kubernetes(minor: str, count: int) -> None:
    term = {"matchExpressions": [expression("In", "not valid")]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    assert len(list(check_affinity(affinity, "a", release_of(minor)))) == count


@pytest.mark.parametrize(("weight", "count"), [(1, 0), (100, 0), (0, 1), (101, 1)])
def test_weights_have_bounds(weight: int, count: int) -> None:
    terms = [{"weight": weight, "preference": {"matchExpressions": [expression("Exists")]}}]
    assert len(list(check_preferred_terms(terms, "terms"))) == count


def test_a_preference_is_a_term_whose_label_values_are_not_checked() -> None:
    terms: list[dict[str, Any]] = [
        {"weight": 1},
        {"weight": 1, "preference": {"matchExpressions": [expression("In")]}},
        {"weight": 1, "preference": {"matchExpressions": [expression("In", "not valid")]}},
    ]
    causes = list(check_preferred_terms(terms, "terms"))
    assert [cause.field for cause in causes] == ["terms[1].preference.matchExpressions[0].values"]


@pytest.mark.parametrize("nothing", [{}, dict.fromkeys(("key", "operator", "value", "values", "effect"))])
def test_a_missing_value_is_reported_as_the_empty_value(nothing: dict[str, Any]) -> None:
    """A null is an absent field, as for API servers."""
    # given
    term = {"matchExpressions": [nothing], "matchFields": [nothing]}
    # when
    causes = [
        *check_node_term(term, "term", checks_values=True),
        *check_preferred_terms([{"weight": None, "preference": None}, {}], "terms"),
    ]
    # then
    assert [(cause.field, cause.message.split(": ")[1]) for cause in causes] == [
        ("term.matchExpressions[0].operator", '""'),
        ("term.matchExpressions[0].key", '""'),
        ("term.matchExpressions[0].key", '""'),
        ("term.matchFields[0].operator", '""'),
        ("term.matchFields[0].key", '""'),
        ("terms[0].weight", "0"),
        ("terms[1].weight", "0"),
    ]


# ── other pods ───────────────────────────────────────────────────────────

SELECTOR = {"matchLabels": {"app": "web"}}
UNSET = "must not be specified when labelSelector is not set"
BOTH = "exists in both matchLabelKeys and mismatchLabelKeys"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"labelSelector": SELECTOR, "matchLabelKeys": ["v"], "mismatchLabelKeys": ["w"]}, []),
        ({"matchLabelKeys": ["v"]}, [f"matchLabelKeys: Forbidden: {UNSET}"]),
        ({"mismatchLabelKeys": ["v"]}, [f"mismatchLabelKeys: Forbidden: {UNSET}"]),
        (
            {"labelSelector": SELECTOR, "matchLabelKeys": ["v", "w"], "mismatchLabelKeys": ["w"]},
            [f'matchLabelKeys[1]: Invalid value: "w": {BOTH}'],
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            [
                'namespaceSelector.matchExpressions[0].operator: Invalid value: "Is": '
                "not a valid selector operator"
            ],
        ),
    ],
)
def test_a_term_about_other_pods_selects_them_by_valid_keys(
    fields: dict[str, Any], expected: list[str]
) -> None:
    term = {"topologyKey": "zone", **fields}
    causes = check_affinity({"podAntiAffinity": {REQUIRED: [term]}}, "a")
    errors = [f"{cause.field}: {cause.message}" for cause in causes]
    assert errors == [f"a.podAntiAffinity.{REQUIRED}[0].{text}" for text in expected]


def test_an_invalid_label_key_is_named() -> None:
    constraint = {**SPREAD, "matchLabelKeys": ["no key"]}
    (cause,) = check_spread({"topologySpreadConstraints": [constraint]}, "s")
    assert cause.field == "s[0].matchLabelKeys[0]"


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTOR,
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"topologyKey": "Any key, as in Kubernetes"}, []),
        ({"minDomains": 2, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}, []),
        ({"topologyKey": ""}, ["topologyKey: Required value: can not be empty"]),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            [
                "minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
                "not ScheduleAnyway"
            ],
        ),
        (
            {"nodeTaintsPolicy": "Respect"},
            ['nodeTaintsPolicy: Unsupported value: "Respect": supported values: "Honor", "Ignore"'],
        ),
        ({"labelSelector": None, "matchLabelKeys": ["v"]}, [f"matchLabelKeys: Forbidden: {UNSET}"]),
    ],
)
def test_a_spread_constraint_is_as_kubernetes_has_it(fields: dict[str, Any], expected: list[str]) -> None:
    causes = check_spread({"topologySpreadConstraints": [{**SPREAD, **fields}]}, "s")
    assert [f"{cause.field}: {cause.message}" for cause in causes] == [f"s[0].{text}" for text in expected]
