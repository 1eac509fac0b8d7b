"""Recorded responses of real API servers: recorded/<minor>/<group of cases>.json.

    {"<case>": [{"status": 201, "body": {…}}, …]}

Each response has one line, so that a change is easy to read. In the recordings of the older minor, "same" stands for
a response that is equal to that of the newest minor.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["MINORS", "NEWEST", "Recordings"]

MINORS: Final = ("1.37", "1.32")
NEWEST: Final = MINORS[0]

_FOLDER: Final = Path(__file__).parent / "recorded"
_SAME: Final = "same"

Conversation = list[dict[str, Any]]


class Recordings:
    """All recorded conversations, by minor, group of cases and case."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], dict[str, Conversation]] = {}

    def get(self, minor: str, group: str, case: str) -> Conversation | None:
        """The normalised responses to a case; None: never recorded."""
        return self._group(minor, group).get(case)

    def write(self, minor: str, group: str, conversations: Mapping[str, Conversation]) -> None:
        """Replace the recordings of the group in this minor; other minors keep theirs."""
        everything = {each: dict(self._group(each, group)) for each in MINORS}
        everything[minor] = dict(conversations)
        for each, cases in everything.items():
            self._known[each, group] = cases
            if cases:
                self._write_file(each, group, cases, everything[NEWEST] if each != NEWEST else {})

    def _group(self, minor: str, group: str) -> dict[str, Conversation]:
        if (minor, group) not in self._known:
            path = self._path(minor, group)
            self._known[minor, group] = (
                self._expanded(minor, group, json.loads(path.read_text())) if path.exists() else {}
            )
        return self._known[minor, group]

    def _expanded(
        self, minor: str, group: str, written: Mapping[str, Sequence[Any]]
    ) -> dict[str, Conversation]:
        if minor == NEWEST:
            return {case: list(answers) for case, answers in written.items()}
        newest = self._group(NEWEST, group)
        return {
            case: [
                newest[case][position] if answer == _SAME else answer
                for position, answer in enumerate(answers)
            ]
            for case, answers in written.items()
        }

    def _write_file(
        self,
        minor: str,
        group: str,
        cases: Mapping[str, Conversation],
        newest: Mapping[str, Conversation],
    ) -> None:
        path = self._path(minor, group)
        path.parent.mkdir(parents=True, exist_ok=True)
        blocks = [
            f"{_line(case)}: [\n" + ",\n".join(_lines(answers, newest.get(case, ()))) + "\n]"
            for case, answers in sorted(cases.items())
        ]
        path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")

    def _path(self, minor: str, group: str) -> Path:
        return self._folder / minor / f"{group}.json"


def _lines(answers: Conversation, newest: Sequence[Any]) -> Iterable[str]:
    for position, answer in enumerate(answers):
        same = position < len(newest) and newest[position] == answer
        yield _line(_SAME if same else answer)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
