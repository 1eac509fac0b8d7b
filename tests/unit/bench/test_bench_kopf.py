"""The bench beside kopf: its table has ratios to the first contender."""

import msgspec

from bench.bench_kopf import ROWS, Figures, rotate, table


def figures(**changed: float) -> Figures:
    values = dict.fromkeys(ROWS, 2.0)
    return msgspec.convert({**values, "requests": {}, **changed}, Figures)


def test_the_table_has_the_middle_of_the_rounds_and_its_ratio_to_the_first_contender() -> None:
    text = table({"ours": [figures(), figures(rss_mb=4.0)], "other": [figures(rss_mb=9.0)]})
    assert text.splitlines()[-1] == "| memory, MiB | 3 | 9 (3×) |"


def test_every_figure_has_a_line() -> None:
    assert {*ROWS, "requests"} == {field.name for field in msgspec.structs.fields(Figures)}


def test_the_first_position_rotates() -> None:
    assert [rotate(["a", "b"], number) for number in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]
