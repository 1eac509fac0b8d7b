"""Prometheus' own rule reader and query engine, as a program. Tests compare the alerts and their evaluation with it.

rules, scrapes, expressions ──▶ asked() ──main.go──▶ Answer: errors of the rules, and the result of each expression
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from support.go_programs import build_program
from support.promql import Scrapes, Vector

__all__ = ["Answer", "asked", "build"]

HERE = Path(__file__).parent


class Answer(msgspec.Struct, frozen=True):
    """A result of Prometheus."""

    errors: list[str]
    """Errors of the rules."""
    results: list[list[Vector]]
    """Results of each expression, after each scrape."""


def build(folder: Path) -> Path:
    """The program, built; a first build takes a minute of CPU."""
    return build_program(HERE, folder)


def asked(program: Path, *, rules: str, scrapes: Scrapes, expressions: Sequence[str]) -> Answer:
    """Run the program. `rules`: groups as YAML or JSON."""
    question = {
        "rules": rules,
        "scrapes": [
            {
                "at": round(at),
                "series": [{"labels": dict(labels), "value": value} for labels, value in vector.items()],
            }
            for at, vector in scrapes.all()
        ],
        "expressions": list(expressions),
    }
    done = subprocess.run([program], input=json.dumps(question), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    return Answer(
        errors=said["errors"],
        results=[
            [{frozenset(item["labels"].items()): item["value"] for item in vector} for vector in result]
            for result in said["results"]
        ],
    )
