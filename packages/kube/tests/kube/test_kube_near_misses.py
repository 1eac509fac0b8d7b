"""The suggestion for an unknown name: the known name that is nearest."""

import pytest

from pykruise.kube.values.near_misses import find_nearest, format_hint


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("clonset", "clonesets"),
        ("CLONESET", "clonesets"),
        ("deamonsets", "daemonsets"),
        ("zebra", ""),
        ("wbe", "web"),
        ("deployment", ""),  # another kind, not a misspelt one
    ],
)
def test_the_nearest_name_differs_by_a_few_letters(word: str, name: str) -> None:
    assert find_nearest(word, ["clonesets", "daemonsets", "web", "uniteddeployments"]) == name


def test_a_hint_without_a_near_miss_is_the_alternative_text() -> None:
    assert format_hint("web-1", ["web-2"]) == "; did you mean web-2?"
    assert format_hint("zebra", ["web"], otherwise="; there is: web") == "; there is: web"
    assert format_hint("zebra", []) == ""


def test_a_long_word_and_many_names_are_compared_in_part() -> None:
    assert find_nearest("a" * 1_000_000, (f"{n}" for n in range(1_000_000))) == ""
