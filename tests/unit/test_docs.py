"""What the pages point to is there."""

import re
from pathlib import Path

import pytest

from support.sources import ROOT, SOURCES

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("packages/*/*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "testbed").glob("*.md"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_are_there(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_are_named_with_their_folder_are_there(page: Path) -> None:
    named = re.findall(r"`((?:[\w*<>-]+/)+[\w*<>-]+\.py)\b", page.read_text("utf-8"))
    patterns = {one: re.sub(r"<\w+>", "*", one) for one in named}
    assert [
        one
        for one, pattern in patterns.items()
        if not any(any(folder.glob(pattern)) for folder in (ROOT, *SOURCES))
    ] == []
