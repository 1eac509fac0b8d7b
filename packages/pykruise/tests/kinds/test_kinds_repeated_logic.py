"""Logic that two parts share is written once; logic that kinds share is in pods/ or plans/."""

from pathlib import Path

import pytest

import pykruise.kinds
from support.repeated_logic import repeated

MOST_ALIKE = 5
"""Number of lines of the same shape that may exist twice, such as the head of a plan or a loop over conditions."""

PARTS = ("kinds", "plans", "pods", "admission", "cli")


@pytest.mark.parametrize("part", PARTS)
def test_no_logic_is_written_twice(part: str) -> None:
    result = repeated(Path(next(iter(pykruise.kinds.__path__))).parent / part, least=MOST_ALIKE + 1)
    assert not result, "\n".join(
        f"{item.length} lines: {item.path}:{item.line} ~ {item.other}:{item.other_line}" for item in result
    )
