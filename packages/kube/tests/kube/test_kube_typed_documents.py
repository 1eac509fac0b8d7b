"""Documents read into types."""

import msgspec

from pykruise.kube.schemas.typed_documents import drop_nulls, read


class Inner(msgspec.Struct, frozen=True):
    number: int = 7


class Outer(msgspec.Struct):
    inner: Inner = Inner()
    template: dict[str, object | None] = {}


def test_a_null_counts_as_absent() -> None:
    outer, problem = read({"inner": {"number": None}, "template": None}, Outer, path="spec")
    assert outer == Outer()
    assert problem == ""


def test_raw_fields_keep_their_nulls() -> None:
    outer, _ = read({"template": {"a": None}}, Outer, path="spec", raw={"template"})
    assert outer is not None
    assert outer.template == {"a": None}


def test_the_field_that_cannot_be_read_is_named() -> None:
    outer, problem = read({"inner": {"number": "x"}}, Outer, path="spec")
    assert outer is None
    assert problem.startswith("spec.inner.number: ")


def test_nulls_are_removed_at_every_depth() -> None:
    assert drop_nulls({"a": [{"b": None, "c": 1}], "d": None}) == {"a": [{"c": 1}]}
