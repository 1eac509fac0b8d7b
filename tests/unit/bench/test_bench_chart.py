"""The chart of a bench: bars in proportion, names that cannot break it."""

from dataclasses import dataclass
from xml.etree import ElementTree

from bench.chart import WIDTH, svg


@dataclass(frozen=True)
class Row:
    name: str
    pods_per_s: float
    bare_pods_per_s: float
    script_pods_per_s: float = 0.0


def bars(chart: str) -> list[float]:
    names = {"svg": "http://www.w3.org/2000/svg"}
    root = ElementTree.fromstring(chart)
    return [float(bar.attrib["width"]) for bar in root.findall("svg:rect", names)]


def test_the_length_of_a_bar_is_proportional_to_its_value() -> None:
    # given
    rows = [Row("scale up", 50.0, 200.0), Row("in place", 100.0, 0.0)]
    # when / then the longest fills the width
    assert bars(svg(rows, title="a run")) == [WIDTH / 4, WIDTH, WIDTH / 2, 0.0]


def test_a_script_has_a_bar_where_one_did_the_same() -> None:
    # given
    rows = [Row("scale up", 50.0, 200.0, 100.0), Row("scale down", 100.0, 200.0)]
    # when / then
    assert bars(svg(rows, title="a run")) == [WIDTH / 4, WIDTH, WIDTH / 2, WIDTH / 2, WIDTH]


def test_a_name_with_signs_of_markup_is_only_a_name() -> None:
    assert bars(svg([Row("<scale> & more", 1.0, 1.0)], title="<a> & b")) == [WIDTH, WIDTH]


def test_a_run_without_phases_is_an_empty_chart() -> None:
    assert bars(svg([], title="nothing")) == []
