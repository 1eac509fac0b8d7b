"""Choice of the minor that continuous integration tests on a day."""

from pathlib import Path

import pytest

from testbed.build import CONTROL_PLANE, is_built
from testbed.turns import TRIED_WHOLE, find_minor_in_turn, main


def test_every_minor_without_another_run_is_tested_within_as_many_days() -> None:
    # given
    others = {*CONTROL_PLANE.minors} - {*TRIED_WHOLE}
    # then
    for first in (1, 200, 366):
        days = range(first, first + len(others))
        assert {find_minor_in_turn(CONTROL_PLANE.minors, day) for day in days} == others


def test_a_minor_that_is_not_built_is_passed_over_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given an empty cache
    monkeypatch.setenv("PYKRUISE_TESTBED_CACHE", str(tmp_path))
    # when
    code = main()
    # then no minor is printed, and nothing was built
    said = capsys.readouterr()
    assert (code, said.out) == (0, "")
    assert "whose turn it is" in said.err
    assert not any(is_built(minor) for minor in CONTROL_PLANE.minors)
    assert not [*tmp_path.iterdir()]
