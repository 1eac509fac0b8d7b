"""Long runs: slopes that are fitted, charts, and a short run over all examples."""

from xml.etree import ElementTree

import msgspec
import pytest

from bench.soak.__main__ import example_documents
from bench.soak.samples import FIGURES, Sample, chart_of, report_of, slopes_of
from bench.soak.virtual import run_virtual
from pykruise.kinds import list_kinds

HOUR_S = 3600.0


def sample(hour: float, *, rss_mb: float, tasks: int = 5) -> Sample:
    return Sample(
        at_s=hour * HOUR_S,
        rss_mb=rss_mb,
        file_descriptors=9,
        tasks=tasks,
        cached=100,
        queued=0,
        python_objects=1000,
        stored=50,
    )


def growth_of(figure: str, samples: list[Sample]) -> float:
    (slope,) = (slope for slope in slopes_of(samples) if slope.figure == figure)
    return slope.per_day


def test_the_first_half_of_a_run_does_not_count() -> None:
    # given memory that grows by 10 MB per hour until caches are full
    samples = [sample(hour, rss_mb=min(100.0, 10.0 * hour)) for hour in range(20)]
    # when / then
    assert growth_of("rss_mb", samples) == pytest.approx(0.0)


def test_a_leak_is_growth_per_day() -> None:
    # given two MB and one task more in each hour
    samples = [sample(hour, rss_mb=80 + 2.0 * hour, tasks=hour) for hour in range(16)]
    # when / then
    assert growth_of("rss_mb", samples) == pytest.approx(48.0)
    assert growth_of("tasks", samples) == pytest.approx(24.0)
    assert "| memory (MB) | 97.0 | 109.0 | +48.00 |" in report_of(samples)


def test_an_oscillating_figure_has_almost_no_slope() -> None:
    samples = [sample(hour, rss_mb=80 + hour % 2) for hour in range(40)]
    assert abs(growth_of("rss_mb", samples)) < 0.5


def test_a_run_with_too_few_samples_has_no_slope() -> None:
    with pytest.raises(ValueError, match="eight samples are needed"):
        slopes_of([sample(0, rss_mb=80)] * 7)


def test_a_chart_has_a_line_for_each_figure() -> None:
    # when
    chart = chart_of([sample(hour, rss_mb=80 + hour) for hour in range(8)], title="a run")
    # then
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert len(ElementTree.fromstring(chart).findall("svg:polyline", names)) == len(FIGURES)


def test_a_short_run_changes_objects_of_every_kind_and_measures_everything() -> None:
    # given
    documents = example_documents()
    seen: list[Sample] = []
    # when: one turn of churn before each sample
    samples, refused = run_virtual(documents, hours=0.23, every_s=400.0, seed=1, on_sample=seen.append)
    # then
    made_by_the_manager = {"NodeImage", "NodePodProbe", "PersistentPodState", "Pod"}
    assert {kind.resource.kind for kind in list_kinds()} - made_by_the_manager <= {
        document["kind"] for document in documents
    }
    assert samples == seen
    assert len(samples) == 2
    for taken in samples:
        assert all(msgspec.structs.asdict(taken)[figure] > 0 for figure in FIGURES if figure != "queued")
    assert not any("LookupError" in what for what in refused)
