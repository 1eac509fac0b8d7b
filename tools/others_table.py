"""The table of programs that run beside pykruise, made from what `make test-others` has written down.

results.json ──▶ table() ──▶ the marked part of docs/compatibility.md; `python -m tools.others_table PAGE` writes it
"""

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tools.others_results import Result, read_results

__all__ = ["NOT_RUN", "page_with_table", "table"]

BEGIN: Final = "<!-- programs: made by python -m tools.others_table -->"
END: Final = "<!-- end of programs -->"

NOT_RUN: Final = (
    ("KEDA, VPA, Karpenter, descheduler", "not run yet"),
    ("Cluster Autoscaler", "the Go module proxy does not have its module"),
    (
        "Helm 4",
        "not run yet; its wait is tested by kstatus' rules, which are compared with those of Flux's packages",
    ),
    ("AKS", "no cluster was at hand; its admissions enforcer is played in a test"),
    ("Karmada's control plane", "not built; its interpreter runs alone"),
)
"""Programs that were not run, with the reason."""


def table(results: Sequence[Result]) -> str:
    """Markdown: a row for each program and version, then what was not run."""
    rows = ["| program | version | what was run | result |", "|---|---|---|---|"]
    for (program, version), group in groupby(sorted(results), key=lambda result: result[:2]):
        ran = list(group)
        failed = [result.ran for result in ran if not result.works]
        verdict = "works" if not failed else f"does not: {'; '.join(failed)}"
        rows.append(f"| {program} | {version} | {'; '.join(result.ran for result in ran)} | {verdict} |")
    rows += [f"| {program} | | | {reason} |" for program, reason in NOT_RUN]
    return "\n".join(rows) + "\n"


def page_with_table(page: str) -> str:
    """The page with the table as it is now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table(read_results())}\n{END}{tail}"


def main(argv: Sequence[str]) -> int:
    """Write it into the page."""
    page = Path(argv[0])
    page.write_text(page_with_table(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
