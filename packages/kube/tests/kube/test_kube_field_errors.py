"""Field errors in the words of Kubernetes."""

from pykruise.kube.pod_rules import field_errors
from pykruise.kube.resources import PODS


def test_each_kind_of_error_has_its_reason_and_words() -> None:
    causes = [
        field_errors.make_required_error("a"),
        field_errors.make_required_error("a", "why"),
        field_errors.make_invalid_error("a", "x", "no"),
        field_errors.make_invalid_error("a", 5, "no"),
        field_errors.make_invalid_error("a", None, "no"),
        field_errors.make_invalid_error("a", {"b": [1]}, "no"),
        field_errors.make_duplicate_error("a", "x"),
        field_errors.make_not_found_error("a", "x"),
        field_errors.make_not_supported_error("a", "x", ["y", "z"]),
        field_errors.make_forbidden_error("a", "no"),
    ]
    assert [(cause.reason.removeprefix("FieldValue"), cause.message) for cause in causes] == [
        ("Required", "Required value"),
        ("Required", "Required value: why"),
        ("Invalid", 'Invalid value: "x": no'),
        ("Invalid", "Invalid value: 5: no"),
        ("Invalid", 'Invalid value: "null": no'),
        ("Invalid", 'Invalid value: map[string]interface {}{"b":[]interface {}{1}}: no'),
        ("Duplicate", 'Duplicate value: "x"'),
        ("NotFound", 'Not found: "x"'),
        ("NotSupported", 'Unsupported value: "x": supported values: "y", "z"'),
        ("Forbidden", "Forbidden: no"),
    ]


def test_a_refusal_names_the_object_and_lists_all_errors() -> None:
    status = field_errors.build_refusal(PODS, "web", [field_errors.make_required_error("a")])
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.message == 'Pod "web" is invalid: a: Required value'
    two = field_errors.build_refusal(
        PODS, "web", [field_errors.make_required_error("a"), field_errors.make_required_error("b")]
    )
    assert two.message.endswith("is invalid: [a: Required value, b: Required value]")
    assert two.details is not None
    assert [cause.field for cause in two.details.causes] == ["a", "b"]


def test_a_bad_request_is_a_400() -> None:
    status = field_errors.build_bad_request("spec.replicas: Expected `int`, got `str`")
    assert (status.code, status.reason, status.status) == (400, "BadRequest", "Failure")


def test_a_message_repeats_at_most_256_characters_of_a_value() -> None:
    """A name of 2 MB came back six times, in an answer of 12 MB."""
    # given
    name = "A" * 2_000_000
    values: list[object] = [name, {name: name}, [name] * 5, {"a": [{"b": name}]}]
    # when
    causes = [field_errors.make_invalid_error(f"labels[{name}]", value, f"not {name}") for value in values]
    status = field_errors.build_refusal(
        PODS, name, [*causes, field_errors.make_not_supported_error("a", name, ["b"])]
    )
    # then
    assert status.details is not None
    assert all("A" * 257 not in field_errors.format_shown(value) for value in values)
    assert all(len(cause.message) + len(cause.field) < 5_000 for cause in status.details.causes)
    assert len(status.details.name) <= 257
    assert len(field_errors.build_bad_request(name).message) < 5_000


def test_only_the_first_thousand_errors_are_listed_and_the_rest_are_counted() -> None:
    status = field_errors.build_refusal(
        PODS, "web", [field_errors.make_required_error(f"a[{index}]") for index in range(2_500)]
    )
    assert status.details is not None
    assert len(status.details.causes) == 1_000
    assert status.message.endswith("a[999]: Required value, and 1500 more]")


def test_an_error_that_the_stored_object_already_has_is_dropped() -> None:
    old, new = field_errors.make_required_error("a"), field_errors.make_required_error("b")
    assert field_errors.drop_stored_errors([old, new], lambda: [old]) == [new]
    assert field_errors.drop_stored_errors([], lambda: [old]) == []
