"""Recorded results of a release's manager: recordings/<release>/<kind>.json, one line per step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from recorded_original.playing import Outcome

__all__ = ["RELEASES", "read", "write"]

RELEASES: Final[Mapping[str, str]] = {"1.9": "v1beta1", "1.8": "v1alpha1"}
"""Release → the API version in which its scenarios are played."""

_FOLDER: Final = Path(__file__).parent / "recordings"


def read(release: str, kind: str) -> dict[str, Outcome]:
    """Scenario → outcome; empty: no recording of the kind exists."""
    path = _path(release, kind)
    return json.loads(path.read_text()) if path.exists() else {}


def write(release: str, kind: str, outcomes: Mapping[str, Outcome]) -> None:
    """Replace the recording of the kind by these outcomes."""
    path = _path(release, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"{json.dumps(step)}: {_line(answer)}" for step, answer in outcome.items())
        + "\n}"
        for name, outcome in outcomes.items()
    ]
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _path(release: str, kind: str) -> Path:
    return _FOLDER / release / f"{kind.lower()}.json"
