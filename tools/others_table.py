"""The table of programs that run together with pykruise, generated from the results of `make test-others`.

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
    ("kruise-game", "not built yet; it uses Advanced StatefulSets and PodProbeMarkers"),
    ("KEDA, VPA, Cluster Autoscaler, Karpenter, descheduler", "not run yet"),
    (
        "Flux, gitops-engine, Helm 4",
        "not run yet on all kinds; Argo CD's health scripts were run on all kinds (docs/gitops.md)",
    ),
    ("client-go, kr8s, lightkube, the Java client", "not run yet on all kinds"),
    ("AKS", "no cluster was available; a test simulates its admissions enforcer"),
    ("Karmada", "its control plane was not built; its interpreters run in the Lua that it uses (gopher-lua)"),
)
"""Programs that were not run, with the reason."""


def table(results: Sequence[Result]) -> str:
    """Return Markdown: a row for each program and version, then the programs that were not run."""
    rows = ["| program | version | what was run | result |", "|---|---|---|---|"]
    for (program, version), group in groupby(sorted(results), key=lambda result: result[:2]):
        ran = list(group)
        failed = [result.ran for result in ran if not result.works]
        verdict = "works" if not failed else f"does not work: {'; '.join(failed)}"
        rows.append(f"| {program} | {version} | {'; '.join(result.ran for result in ran)} | {verdict} |")
    rows += [f"| {program} | | | {reason} |" for program, reason in NOT_RUN]
    return "\n".join(rows) + "\n"


def page_with_table(page: str) -> str:
    """Return the page with the current table."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table(read_results())}\n{END}{tail}"


def main(argv: Sequence[str]) -> int:
    """Write the table into the page."""
    page = Path(argv[0])
    page.write_text(page_with_table(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
