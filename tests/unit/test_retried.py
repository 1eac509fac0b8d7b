"""Failed tests on a real cluster are repeated only if they are few."""

import json
from pathlib import Path

import pytest

from support.retried import main


@pytest.mark.parametrize(("most", "code"), [(None, 0), ("2", 0), ("1", 1)])
def test_retried_tests_are_named_and_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], most: str | None, code: int
) -> None:
    cache = tmp_path / "v" / "cache" / "lastfailed"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"tests/a.py::one": True, "tests/b.py::two": True}))
    environ = {} if most is None else {"PYKRUISE_MOST_RETRIED": most}
    assert main([str(tmp_path)], environ) == code
    assert capsys.readouterr().out.splitlines()[1:] == ["  tests/a.py::one", "  tests/b.py::two"]
