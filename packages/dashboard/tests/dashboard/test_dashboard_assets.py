"""Files of the page."""

import gzip
import re
from importlib import resources

import pytest

from pykruise.dashboard.assets import Assets

FOLDER = resources.files("pykruise.dashboard") / "static"
FILES = {traversable.name: traversable.read_text("utf-8") for traversable in FOLDER.iterdir()}


def test_every_referenced_asset_is_served_under_its_hashed_name() -> None:
    assets = Assets()
    todo, seen = [assets.shell.body], set[str]()
    while todo:
        for name in re.findall(rb'/([\w-]+\.[0-9a-f]{12}\.\w+)"', todo.pop()):
            if name.decode() not in seen:
                seen.add(name.decode())
                asset = assets.get(name.decode())
                assert asset is not None
                todo.append(asset.body)
    assert len(seen) == len(FILES) - 1


def test_a_file_that_changes_has_another_name_and_so_have_files_that_name_it() -> None:
    assets = Assets({"index.html": b'"/a.js"', "a.js": b'"./b.js"', "b.js": b"1"})
    other = Assets({"index.html": b'"/a.js"', "a.js": b'"./b.js"', "b.js": b"2"})
    assert assets.shell.body != other.shell.body


def test_the_whole_page_is_less_than_60_kib() -> None:
    assert Assets().size < 60 * 1024
    assert gzip.decompress(Assets().shell.zipped) == Assets().shell.body


@pytest.mark.parametrize("name", sorted(FILES))
def test_no_other_host_is_named(name: str) -> None:
    addresses = re.findall(
        r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", FILES[name].replace("http://www.w3.org/2000/svg", "")
    )
    assert addresses == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_writes_html_or_runs_text(name: str) -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:|DOMParser",
        FILES[name],
    )


def test_the_page_has_no_inline_script_or_style() -> None:
    page = FILES["index.html"]
    assert re.findall(r"<script(?![^>]*src=)", page) == []
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r" on\w+=", page)


def test_all_addresses_are_relative() -> None:
    for text in FILES.values():
        assert not re.search(r'(?:src|href|from|fetch\(|EventSource\()\s*=?\s*["`\']/', text)
