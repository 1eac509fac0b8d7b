"""The table of other programs contains the results that their tests recorded."""

from pathlib import Path

from tools.others_results import Result, read_results
from tools.others_table import NOT_RUN, page_with_table, render_table

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def test_the_page_is_up_to_date() -> None:
    """Run `make test-others` and `make docs` to update the page."""
    page = PAGE.read_text("utf-8")
    assert page == page_with_table(page)


def test_each_program_was_run_or_has_a_reason() -> None:
    assert {"OpenKruise Rollouts", "kube-state-metrics", "kustomize"} <= {
        result.program for result in read_results()
    }
    assert all(reason for _, reason in NOT_RUN)


def test_a_failing_program_is_not_listed_as_working() -> None:
    results = [
        Result("Meter", "1.0", "it counts", works=True),
        Result("Meter", "1.0", "it sums", works=False),
        Result("Other", "2.0", "all", works=True),
    ]
    rows = render_table(results).splitlines()
    assert "| Meter | 1.0 | it counts; it sums | does not work: it sums |" in rows
    assert "| Other | 2.0 | all | works |" in rows
