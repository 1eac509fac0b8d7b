"""A file is replaced as a whole, or not at all."""

import stat
from pathlib import Path

import pytest

from pykruise.kube.whole_files import replace_file


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_gets_its_text_and_its_mode_and_nothing_else_stays_in_the_folder(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    replace_file(path, "new", mode=mode)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_cannot_be_written_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
