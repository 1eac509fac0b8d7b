"""Clicks are counted in the text of built pages, and not in their navigation."""

from pathlib import Path

import pytest

from tools.site_clicks import TASKS, count_clicks, main


def page(site: Path, folder: str, *links: str, navigation: str = "") -> None:
    """Write a page with links in its text, and one in its navigation."""
    text = "".join(f'<a href="{link}">x</a>' for link in links)
    (site / folder).mkdir(parents=True, exist_ok=True)
    (site / folder / "index.html").write_text(
        f'<nav><a href="{navigation}">x</a></nav><article>{text}<a href="https://example.com/far">x</a></article>'
    )


def test_clicks_follow_links_of_the_text_alone(tmp_path: Path) -> None:
    page(tmp_path, "", "near/", "#here", navigation="hidden/")
    page(tmp_path, "near", "../far/#part")
    page(tmp_path, "far", "../farther/")
    page(tmp_path, "farther", "../")
    page(tmp_path, "hidden")
    clicks = {name: count_clicks(tmp_path, name, most=2) for name in ("near", "far", "farther", "hidden")}
    assert clicks == {"near": 1, "far": 2, "farther": None, "hidden": None}


def test_a_task_that_is_too_far_fails_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = list(TASKS.values())
    for folder in folders:
        page(tmp_path, folder)
    page(tmp_path, "", *(f"{folder}/" for folder in folders))
    assert main([str(tmp_path)]) == 0
    page(tmp_path, "", *(f"{folder}/" for folder in folders[1:]))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: a rollout is stuck: more than 2 clicks from the start page\n"
