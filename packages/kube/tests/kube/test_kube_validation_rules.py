"""The name rules, at their limits."""

from collections.abc import Callable

import pytest

from pykruise.kube.pod_rules.names import (
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_valid_label_key,
    is_valid_label_value,
)

Rule = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (is_valid_label_key, "app"),
        (is_valid_label_key, "apps.kruise.io/cloneset-instance-id"),
        (is_valid_label_key, "a" * 253 + "/" + "b" * 63),
        (is_qualified_name, "A_b.c-1"),
        (is_valid_label_value, ""),
        (is_valid_label_value, "a" * 63),
        (is_dns1123_label, "0-a"),
        (is_dns1123_label, "a" * 63),
        (is_dns1123_subdomain, "a.b-c.0"),
        (is_dns1123_subdomain, "a" * 253),
        (is_dns1035_label, "a-0"),
    ],
)
def test_valid_names_have_no_errors(rule: Rule, value: str) -> None:
    assert rule(value) == []


@pytest.mark.parametrize(
    ("rule", "value", "says"),
    [
        (is_valid_label_key, "", ["name part must be non-empty", "name part must consist of"]),
        (is_valid_label_key, "/a", ["prefix part must be non-empty"]),
        (is_valid_label_key, "x/", ["name part must be non-empty", "name part must consist of"]),
        (is_valid_label_key, "A.com/x", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
        (is_valid_label_key, "a/b/c", ["a qualified name must consist of"]),
        (is_valid_label_key, "a" * 64, ["name part must be no more than 63 characters"]),
        (is_valid_label_key, "a" * 254 + "/b", ["prefix part must be no more than 253 characters"]),
        (is_valid_label_value, "-a", ["a valid label must be an empty string or consist of"]),
        (is_valid_label_value, "é" * 32, ["must be no more than 63 characters", "a valid label must be"]),
        (is_valid_label_value, "a\n", ["a valid label must be an empty string or consist of"]),
        (is_dns1123_label, "a.b", ["must not contain dots"]),
        (is_dns1123_label, "A", ["a lowercase RFC 1123 label must consist of"]),
        (is_dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (is_dns1123_subdomain, "a..b", ["a lowercase RFC 1123 subdomain must consist of"]),
        (is_dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (is_dns1035_label, "0a", ["a DNS-1035 label must consist of"]),
    ],
)
def test_every_broken_rule_is_named(rule: Rule, value: str, says: list[str]) -> None:
    # when
    errors = rule(value)
    # then
    assert len(errors) == len(says)
    assert all(error.startswith(start) for error, start in zip(errors, says, strict=True)), errors


def test_the_texts_are_those_of_kubernetes_to_the_letter() -> None:
    assert is_dns1123_subdomain("A") == [
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
        "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]
    assert is_valid_label_value("*") == [
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
        "must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
        "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ]
