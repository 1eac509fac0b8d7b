"""The page with the differences from OpenKruise contains all differences of the code."""

import re
from pathlib import Path

import pytest

from pykruise.kinds import build_crds
from tools.differences import DIFFERENCES, END, replace_table

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "migration.md"
KINDS = ("cloneset", "daemonset", "sidecarset", "statefulset", "workloadspread")


def test_the_page_is_up_to_date() -> None:
    """Run `python -m tools.differences docs/migration.md` to update the page."""
    page = PAGE.read_text("utf-8")
    assert page == replace_table(page)


def test_each_difference_has_a_reason_and_is_listed_once() -> None:
    for difference in DIFFERENCES:
        for text in (difference.about, difference.original, difference.here, difference.why):
            assert text.strip()
            assert not re.search(r"[\n|]", text)
    assert len({(item.about, item.original) for item in DIFFERENCES}) == len(DIFFERENCES)


def test_differences_belong_to_kinds_or_parts_of_the_manager() -> None:
    kinds = {crd["spec"]["names"]["kind"] for crd in build_crds()}
    parts = {"admission", "agent on nodes", "all kinds", "manager"}
    assert {difference.about for difference in DIFFERENCES} <= kinds | parts
    assert {"CloneSet", "DaemonSet", "SidecarSet", "StatefulSet", "WorkloadSpread"} <= {
        difference.about for difference in DIFFERENCES
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_of_kinds_link_to_the_table_of_differences(kind: str) -> None:
    page = (DOCS / f"{kind}.md").read_text("utf-8")
    (section,) = re.findall(
        r"^## Differences from OpenKruise\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL
    )
    assert section.startswith(
        "[What is different from OpenKruise](migration.md#what-is-different), in one table for all kinds."
    )


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        replace_table(END)
