"""The comparison of two managers: medians, ratios of pairs, and what a page shows of them."""

import os
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bench.beside import BEGIN, END, ManagerName, ManagerRun, compare_runs, page_with_tables, table_of
from bench.chart import HALF, svg_of_comparison
from bench.stage import Latency, RealPhase, is_ended


def run(manager: ManagerName, *, pods_per_s: float, cpu_ms: float, rss_mb: float = 80.0) -> ManagerRun:
    """One piece of work by one manager."""
    phase = RealPhase(
        name="scale up",
        pods=10,
        seconds=10 / pods_per_s,
        pods_per_s=pods_per_s,
        manager_cpu_ms_per_pod=cpu_ms,
        manager_rss_mb=rss_mb,
        api_server_cpu_ms_per_pod=20.0,
        writes_per_pod=2.0,
        writes={},
    )
    latency = Latency(name="spec to pod", rounds=1, p50_ms=cpu_ms, p95_ms=cpu_ms, p99_ms=2 * cpu_ms)
    return ManagerRun(manager=manager, phases=[phase], latencies=[latency], peak_rss_mb=rss_mb)


def compare(*runs: ManagerRun, throttled: bool = False):  # type: ignore[no-untyped-def]
    return compare_runs(runs, kubernetes="1.37", release="1.9", throttled=throttled, pods=10, nodes=2)


PAIRS = (
    run("pykruise", pods_per_s=90, cpu_ms=1.0),
    run("OpenKruise", pods_per_s=30, cpu_ms=4.0, rss_mb=160.0),
    # The second pair ran in a slow minute and in the other order.
    run("OpenKruise", pods_per_s=10, cpu_ms=5.0, rss_mb=160.0),
    run("pykruise", pods_per_s=20, cpu_ms=1.0),
    run("pykruise", pods_per_s=100, cpu_ms=2.0),
    run("OpenKruise", pods_per_s=40, cpu_ms=4.0, rss_mb=160.0),
)


def test_a_ratio_is_the_median_of_the_ratios_of_pairs() -> None:
    # when
    comparison = compare(*PAIRS)
    # then: the ratios of the pairs are 3, 2 and 2.5
    (phase,) = comparison.phases
    assert comparison.pairs == 3
    assert phase.speed_ratio == 2.5
    assert phase.cpu_ratio == 0.25
    assert comparison.rss_ratio == 0.5
    # and: the figures are medians of each manager's runs
    assert phase.pods_per_s == (90, 30)
    assert comparison.latencies[0].p50_ms == (1.0, 4.0)


def test_a_run_without_its_pair_does_not_count() -> None:
    assert compare(*PAIRS, run("pykruise", pods_per_s=1000, cpu_ms=0.1)).pairs == 3


def test_a_phase_in_which_no_pod_left_service_has_no_ratio_of_outages() -> None:
    # when
    comparison = compare(*PAIRS)
    # then
    assert comparison.phases[0].out_ratio == 0.0
    assert table_of(comparison).splitlines()[4].endswith("|  |")


@pytest.mark.parametrize(
    ("throttled", "words"), [(True, "default client-side limits"), (False, "limits lifted")]
)
def test_a_table_names_the_client_side_limits(*, throttled: bool, words: str) -> None:
    assert words in table_of(compare(*PAIRS, throttled=throttled))


def test_a_page_gets_new_tables_between_its_marks_and_keeps_the_rest() -> None:
    # given
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    # when
    new = page_with_tables(page, compare(*PAIRS))
    # then
    assert new.startswith("before\n")
    assert new.endswith("\nafter\n")
    assert "old" not in new
    assert "| scale up | 90 / 30 | **2.50** |" in new


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        page_with_tables("a page", compare(*PAIRS))


def test_the_fastest_and_the_costliest_bars_fill_their_charts() -> None:
    # when
    chart = svg_of_comparison(compare(*PAIRS).phases, release="1.9")
    # then: pykruise's speed and OpenKruise's CPU
    names = {"svg": "http://www.w3.org/2000/svg"}
    widths = [float(bar.attrib["width"]) for bar in ElementTree.fromstring(chart).findall("svg:rect", names)]
    assert widths == [HALF, HALF / 4, HALF / 3, HALF]


def test_a_process_has_ended_also_before_its_exit_code_is_read() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_ended(process.pid)
        # when
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # then
        assert is_ended(process.pid)
    assert is_ended(process.pid)
