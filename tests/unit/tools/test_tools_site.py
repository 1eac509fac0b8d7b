"""The site: every page is in the navigation, links lead to pages, and frequent tasks are easy to find."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.sources import ROOT
from tools.site import make_slug, page_path, pages_of, rewrite_links

PAGES = {page_path(page).as_posix(): page for page in pages_of()}
TEXTS = {page: path for page, path in PAGES.items() if page.endswith(".md")}


class _Loader(yaml.SafeLoader):
    """A loader that knows the only tag of mkdocs.yml."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)
NAV = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"]


def pages_in(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for item in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
        yield from pages_in(item)


def links_of(name: str) -> Iterator[str]:
    """Pages of the site that a page links to."""
    text = rewrite_links((ROOT / TEXTS[name]).read_text("utf-8"), TEXTS[name])
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", re.sub(r"`[^`]*`", "", text)):
        yield (Path("/") / Path(name).parent / link).resolve().relative_to("/").as_posix()


def test_every_page_is_in_the_navigation_once() -> None:
    places = list(pages_in(NAV))
    assert sorted(places) == sorted(set(places))
    assert set(places) == set(TEXTS)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_links_between_pages_lead_to_pages_of_the_site(name: str) -> None:
    assert [link for link in links_of(name) if link not in PAGES] == []


@pytest.mark.parametrize(
    "page",
    [
        "troubleshooting.md",  # a rollout is stuck
        "migration.md",  # come from OpenKruise
        "testing.md",  # test an operator
        "operations.md",  # operate it
        "install.md",
        "upgrading.md",
        "sandbox.md",
        "reasons.md",
    ],
)
def test_the_most_wanted_tasks_are_one_click_from_the_start_page(page: str) -> None:
    assert page in set(links_of("index.md"))


def test_every_page_is_two_clicks_from_the_start_page_or_in_the_navigation_beside_it() -> None:
    near = set(links_of("index.md"))
    near |= {two for text in near if text in TEXTS for two in links_of(text)}
    users = {text for text in TEXTS if "/" not in text and text not in ("index.md", "releasing.md")}
    assert users - near == set()


def test_links_to_files_outside_the_pages_lead_to_the_repository_or_are_text() -> None:
    text = "See [the plan](../packages/kube/src/x.py), [a page](design/where.md#a) and [up](../README.md).\n"
    source = Path("docs/index.md")
    assert rewrite_links(text, source) == (
        "See the plan, [a page](design/where.md#a) and [up](repository/README.md).\n"
    )
    address = "https://git.example/x/blob/main/packages/kube/src/x.py"
    assert f"[the plan]({address})" in rewrite_links(text, source, repository="https://git.example/x")


def test_parts_for_tests_only_are_not_in_the_site() -> None:
    text = "<!-- failures: [{image: a}] -->\n```console\n$ echo [a](b.md)\n```\n"
    assert rewrite_links(text, Path("docs/index.md")) == "```console\n$ echo [a](b.md)\n```\n"


def test_headings_have_the_anchors_that_links_in_the_repository_name() -> None:
    assert make_slug("Status, events & more: `plan`", "-") == "status-events--more-plan"


def test_reasons_that_troubleshooting_names_are_reasons() -> None:
    known = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/reasons.md").read_text(), re.MULTILINE))
    page = (ROOT / "docs/troubleshooting.md").read_text()
    table = re.findall(r"^\| .*$", page, re.MULTILINE)
    named = {item for row in table for item in re.findall(r"`([A-Z][A-Za-z]+)`", row)}
    assert named - {"KIND"} <= known
