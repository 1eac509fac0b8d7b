"""Look for leaks: `make soak HOURS=8 [REAL=1]`.

virtual (default): virtual.py, all that `pykruise up` runs in one process; an hour takes about a minute
real:              real.py, a manager process on a real control plane, in real time

Prints a table of slopes; writes a chart and the samples where requested. Ends with 1 when memory grows by more than
`--most` MB per day.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.soak.samples import Sample, chart_of, report_of, slopes_of
from bench.soak.virtual import run_virtual
from pykruise.kube.documents import Document
from pykruise.testing.contents import documents_of

ROOT: Final = Path(__file__).parents[3]


def example_documents() -> list[Document]:
    """All examples, so that every kind takes part."""
    folders = (ROOT / "examples", ROOT / "examples" / "requests")
    return documents_of(path for folder in folders for path in sorted(folder.glob("*.yaml")))


def main() -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(
        prog="make soak", description="Churn over all kinds, and look for leaks."
    )
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument(
        "--every", type=float, default=0.0, help="seconds between samples; default: 48 samples"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--most", type=float, default=1.0, help="memory growth that is accepted, in MB per day"
    )
    parser.add_argument("--real", action="store_true", help="a manager process on a real control plane")
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    parser.add_argument("--chart", type=Path, help="draw the samples into this SVG file")
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)  # refused writes are part of the churn
    every_s = chosen.every or max(60.0 if chosen.real else 600.0, chosen.hours * 3600 / 48)
    if chosen.real:
        from bench.soak.real import run_real

        run = run_real
    else:
        run = run_virtual
    samples, refused = run(
        example_documents(), hours=chosen.hours, every_s=every_s, seed=chosen.seed, on_sample=_print
    )
    print(f"\n{report_of(samples)}\nrefused changes: {refused or 'none'}")
    if chosen.json:
        chosen.json.write_text(json.dumps(msgspec.to_builtins(samples), indent=1) + "\n")
    if chosen.chart:
        kind = "real" if chosen.real else "virtual"
        chosen.chart.write_text(
            chart_of(samples, title=f"{chosen.hours:g} {kind} hours of churn over all kinds")
        )
    (memory,) = (slope for slope in slopes_of(samples) if slope.figure == "rss_mb")
    if memory.per_day > chosen.most:
        print(
            f"memory grows by {memory.per_day:.2f} MB per day; {chosen.most:g} are accepted", file=sys.stderr
        )
        return 1
    return 0


def _print(sample: Sample) -> None:
    print(msgspec.json.encode(sample).decode(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
