"""Links of the pages lead to existing pages, headings, files and modules."""

import json
import re
from pathlib import Path

import pytest

from pykruise.kinds import list_kinds
from pykruise.kinds.gates import list_all_gates
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from pykruise.runtime.kstatus import KSTATUS
from support.sources import ROOT, SOURCES

PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("packages/*/*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "testbed").glob("*.md"),
]


HEADINGS = [
    "Example",
    "What it does",
    "Fields",
    "Status and events",
    "Why it waits",
    "What is rejected",
    "Differences from OpenKruise",
]
KINDS = re.findall(
    r"\[[\w, ]+\]\((docs/\w+\.md)\)",
    (ROOT / "README.md").read_text("utf-8").split("## Kinds")[1].split("\n## ")[0],
)


@pytest.mark.parametrize("page", [page for page in KINDS if page != "docs/status.md"])
def test_the_page_of_each_kind_has_the_same_headings(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS


def test_the_switch_back_removes_all_conditions_that_only_pykruise_writes() -> None:
    text = (ROOT / "docs/migration.md").read_text("utf-8").split("## Switch back")[1]
    (listed,) = re.findall(r"def own: \.type \| IN\((.*?)\)", text)
    controls = [kind.control for kind in list_kinds() if kind.control is not None]
    own = {condition for control in controls for condition in control.own_conditions}
    assert set(json.loads(f"[{listed}]")) == {*KSTATUS, SELECTOR_MISMATCH, *own}


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings, as a browser shows them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_headings_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    assert [
        f"{link}#{anchor}"
        for link, anchor in links
        if (page.parent / link).suffix == ".md"
        and anchor not in anchors(page.parent / link if link else page)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_exist(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", page.read_text("utf-8"))
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_with_a_folder_exist(page: Path) -> None:
    named = re.findall(r"`((?:[\w*<>-]+/)+[\w*<>-]+\.py)\b", page.read_text("utf-8"))
    patterns = {item: re.sub(r"<\w+>", "*", item) for item in named}
    assert [
        value
        for value, pattern in patterns.items()
        if not any(any(folder.glob(pattern)) for folder in (ROOT, *SOURCES))
    ] == []


def test_answers_of_where_is_what_name_the_file_that_they_link_to() -> None:
    rows = re.findall(r"^\| Where .*$", (ROOT / "docs/design/where.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) >= 30
    for row in rows:
        links = re.findall(r"\[([^\]]+)\]\(([^)]+)\)", row)
        assert links, row
        assert [name for name, link in links if not link.endswith(f"/{name}")] == []


_SAYS_ONLY = ("gates.py", "differences.py")
"""Sources that name gates but do not implement them."""


@pytest.mark.parametrize("page", ["from-deployments.md", "cloneset.md"])
@pytest.mark.parametrize("command", ["kubectl kruise migrate", "rollout undo"])
def test_pages_for_users_of_deployments_describe_the_migration_and_its_rollback(
    page: str, command: str
) -> None:
    assert command in (ROOT / "docs" / page).read_text("utf-8")


def test_operations_names_exactly_the_gates_without_an_effect() -> None:
    code = "\n".join(
        path.read_text("utf-8") for path in ROOT.glob("packages/*/src/**/*.py") if path.name not in _SAYS_ONLY
    )
    idle = {gate for gate in list_all_gates() if f'"{gate}"' not in code}
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    part = page.split("## Feature gates")[1].split("\n## ")[0]
    sentences = " ".join(
        text for text in part.split(". ") if "has no effect" in text or "have no effect" in text
    )
    assert set(re.findall(r"`(\w+)`", sentences)) & set(list_all_gates()) == idle
