"""Tests cite cases of docs/spec: each cited case exists, and each case is cited or named below with the reason.

In a text: `cloneset case 5`, `broadcastjob cases 1, 2 and 7`. In the name of a test: `_case_5`, of the page of
the kind whose folder it stands in.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pykruise.kinds import list_kinds

ROOT: Final = Path(__file__).parents[2]
SPEC: Final = ROOT / "docs" / "spec"

PAGE_OF: Final = {
    **dict.fromkeys(
        ("containerrecreaterequest", "ephemeraljob", "podprobemarker", "nodepodprobe"), "containers"
    ),
    **dict.fromkeys(("nodeimage", "imagepulljob", "imagelistpulljob"), "images"),
    "launchpriority": "inplace-update",
    "resourcedistribution": "admission",
    "sidecarterminator": "sidecarset",
}
"""Pages of kinds without a page of their name."""

PAGE_OF_FILE: Final = {"recreations": "containers", "budgets": "podunavailablebudget"}
"""Pages of tests outside the folders of kinds, by a part of the file's name."""

_ANCHOR: Final = re.compile(r'^\d+\. <a id="(?:([a-z]+)-)?(\d+)"></a>', re.MULTILINE)
_TEXT: Final = re.compile(r"\b([a-z][a-z-]+) cases? (\d+(?:(?:, | and |, and | to )\d+)*)")
_NAME: Final = re.compile(r"def test_\w*?_cases?((?:_\d+|_to|_and)+)\b")

Case = tuple[str, int]


def cases() -> set[Case]:
    """All cases, by page; jobs.md has two lists."""
    cases: set[Case] = set()
    for page in SPEC.glob("*.md"):
        for prefix, number in _ANCHOR.findall(page.read_text()):
            cases.add((page.stem if prefix == "case" else prefix, int(number)))
    return cases


def citations() -> Iterator[tuple[Case, Path]]:
    """Each citation of a test, with its file."""
    pages = {page for page, _ in cases()}
    for folder in (ROOT / "tests", *(ROOT / "packages").glob("*/tests")):
        for path in folder.rglob("*.py"):
            text = path.read_text()
            for page, numbers in _TEXT.findall(text):
                if page in pages:
                    for number in _numbers(numbers):
                        yield (page, number), path
            for numbers in _NAME.findall(text):
                for number in _numbers(numbers.replace("_", " ")):
                    yield (_page_of(path), number), path


def _numbers(text: str) -> Iterator[int]:
    for first, last in re.findall(r"(\d+) to (\d+)", text):
        yield from range(int(first), int(last) + 1)
    yield from map(int, re.findall(r"\d+", text))


def _page_of(path: Path) -> str:
    folder = path.parent.name
    for part, page in PAGE_OF_FILE.items():
        if part in path.stem:
            return page
    return PAGE_OF.get(folder, folder)


def test_each_cited_case_exists() -> None:
    known = cases()
    missing = {
        f"{path.relative_to(ROOT)}: {page} {number}"
        for (page, number), path in citations()
        if (page, number) not in known
    }
    assert missing == set()


@pytest.mark.parametrize("page", sorted({page for page, _ in cases()}))
def test_each_case_is_cited(page: str) -> None:
    cited = {case for case, _ in citations()}
    uncited = {number for name, number in cases() if name == page and (name, number) not in cited}
    assert uncited == UNCITED.get(page, set())


def test_each_kind_has_a_page() -> None:
    pages = {page for page, _ in cases()}
    names = {kind.resource.kind.lower() for kind in list_kinds() if kind.resource.group.endswith("kruise.io")}
    assert {PAGE_OF.get(name, name) for name in names} <= pages


UNCITED: Final[dict[str, set[int]]] = {"persistentpodstate": {60}}
"""Cases that do not apply. Case 60 is about names of keys in a queue: here keys are values with types."""
