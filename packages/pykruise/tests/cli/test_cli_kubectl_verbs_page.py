"""The page with the verbs of each kind equals the declarations of the kinds."""

import pytest

from pykruise.kinds import list_all_shown
from support.sources import ROOT
from tools.verbs_page import END, render_table, replace_table


def test_the_kubectl_page_lists_the_kinds_of_each_verb() -> None:
    page = (ROOT / "docs" / "kubectl.md").read_text("utf-8")
    assert page == replace_table(page), "make docs"
    (row,) = [row for row in render_table().splitlines() if "`rollout status`" in row]
    ours = [
        shown
        for shown in list_all_shown()
        if shown.progress is not None and shown.group.endswith("kruise.io")
    ]
    assert all((shown.title or shown.kind) in row for shown in ours)


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        replace_table(END)
