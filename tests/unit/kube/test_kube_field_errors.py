"""Field errors in the words of Kubernetes."""

from pykruise.kube import field_errors
from pykruise.kube.resources import PODS


def test_each_kind_of_error_has_its_reason_and_words() -> None:
    told = [
        field_errors.required("a"),
        field_errors.required("a", "why"),
        field_errors.invalid("a", "x", "no"),
        field_errors.invalid("a", 5, "no"),
        field_errors.invalid("a", None, "no"),
        field_errors.invalid("a", {"b": [1]}, "no"),
        field_errors.duplicate("a", "x"),
        field_errors.not_found("a", "x"),
        field_errors.not_supported("a", "x", ["y", "z"]),
        field_errors.forbidden("a", "no"),
    ]
    assert [(cause.reason.removeprefix("FieldValue"), cause.message) for cause in told] == [
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
    one = field_errors.refusal(PODS, "web", [field_errors.required("a")])
    assert (one.code, one.reason) == (422, "Invalid")
    assert one.message == 'Pod "web" is invalid: a: Required value'
    two = field_errors.refusal(PODS, "web", [field_errors.required("a"), field_errors.required("b")])
    assert two.message.endswith("is invalid: [a: Required value, b: Required value]")
    assert two.details is not None
    assert [cause.field for cause in two.details.causes] == ["a", "b"]


def test_a_bad_request_is_a_400() -> None:
    found = field_errors.bad_request("spec.replicas: Expected `int`, got `str`")
    assert (found.code, found.reason, found.status) == (400, "BadRequest", "Failure")
