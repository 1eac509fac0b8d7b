"""Values in messages look as in Kubernetes' messages."""

from typing import Any

import pytest

from pykruise.kube.values.go_text import format_shown, name_go_type, quote_text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("plain", '"plain"'),
        ('say "hi"\\', '"say \\"hi\\"\\\\"'),
        ("a\tb\nc\x00\x7f", '"a\\tb\\nc\\x00\\x7f"'),
        ("é😀", '"é😀"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_a_quoted_string_escapes_what_cannot_be_printed(text: str, wanted: str) -> None:
    assert quote_text(text) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"b": [1, {"c": None}], "a": True}, "map[a:true b:[1 map[c:<nil>]]]"),
        ([], "[]"),
        ({}, "map[]"),
        ("text", "text"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        (2.0, "2"),
        (0.0, "0"),
        (12345678.5, "1.23456785e+07"),
        (1e20, "1e+20"),
        (1e-7, "1e-07"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (12345678, "12345678"),
    ],
)
def test_a_value_is_shown_with_sorted_keys_and_shortest_numbers(value: Any, wanted: str) -> None:
    assert format_shown(value) == wanted


def test_types_have_the_names_messages_use() -> None:
    assert [name_go_type(value) for value in (None, True, 1, 1.5, "x", [], {})] == [
        "%!s(<nil>)",
        "bool",
        "int64",
        "float64",
        "string",
        "[]interface {}",
        "map[string]interface {}",
    ]
