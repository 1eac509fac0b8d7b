"""Files that come with the package."""

import pytest

from pykruise.kube.package_data import read_package_data


def test_a_file_is_read_from_the_folder_of_its_package() -> None:
    assert read_package_data("pykruise.kube", "merge_keys.json").startswith(b"{")


def test_a_missing_data_file_raises_an_error_that_names_it() -> None:
    with pytest.raises(FileNotFoundError, match="no_such_table"):
        read_package_data("pykruise.kube", "no_such_table.json")
