"""Results of running programs of other projects with pykruise, as `make test-others` records them.

results.json ──▶ read_results() ──▶ the table of docs/compatibility.md (tools/others_table.py)
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["RESULTS", "Result", "format_results", "read_results"]

RESULTS: Final = Path(__file__).parents[1] / "tests" / "others" / "results.json"


class Result(NamedTuple):
    """A program in one version, the tested features, and whether they work."""

    program: str
    version: str
    ran: str
    works: bool


def read_results() -> list[Result]:
    """Read all recorded results; empty if there are none."""
    if not RESULTS.exists():
        return []
    return [Result(**result) for result in json.loads(RESULTS.read_text())]


def format_results(results: Iterable[Result]) -> str:
    """Return the text of results.json."""
    return json.dumps([result._asdict() for result in sorted(results)], indent=1, ensure_ascii=False) + "\n"
