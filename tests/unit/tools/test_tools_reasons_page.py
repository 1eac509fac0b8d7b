"""Every code has a meaning, is used, and is on the page of reasons."""

import re

from pykruise.pods.reasons import CODES, Code, remedy_of
from pykruise.runtime.reasons import Reason, WriteFault
from support.sources import ROOT, SOURCES
from tools.reasons_page import render_reasons_page


def test_the_page_is_up_to_date() -> None:
    """Run `python -m tools.reasons_page > docs/reasons.md` to update the page."""
    assert (ROOT / "docs" / "reasons.md").read_text("utf-8") == render_reasons_page()


def test_every_code_has_a_meaning_and_one_row_of_the_page() -> None:
    assert all(CODES[code].means for code in Code)
    rows = [
        re.split(r"(?<!\\)\|", line) for line in render_reasons_page().splitlines() if line.startswith("| `")
    ]
    assert [row[1].strip(" `") for row in rows] == list(Code)
    assert {len(row) for row in rows} == {6}


def test_codes_are_written_as_reasons_of_conditions_are() -> None:
    """Codes are one word in CamelCase, as Kubernetes requires for `conditions[].reason`."""
    assert [code for code in Code if not re.fullmatch(r"[A-Z][A-Za-z]*", code)] == []


def test_every_code_is_used() -> None:
    files = (path for folder in SOURCES for path in folder.rglob("*.py") if path.name != "reasons.py")
    used = set(re.findall(r"\bCode\.([A-Z_]+)\b", "\n".join(path.read_text("utf-8") for path in files)))
    assert {code.name for code in Code} == used | {fault.name for fault in WriteFault}


def test_a_reason_without_its_own_remedy_has_the_general_one() -> None:
    helps = CODES[Code.IN_RESERVE].helps
    assert helps
    assert remedy_of(Reason(Code.IN_RESERVE, "it waits")) == helps
    assert remedy_of(Reason(Code.IN_RESERVE, "it waits", "add a node")) == "add a node"
