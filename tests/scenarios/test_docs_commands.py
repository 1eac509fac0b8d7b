"""What README and docs show is what comes: commands are known, those that need no cluster run, links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from pykruise.cli.main import app
from pykruise.manager.flags import parse
from support.readme import ROOT, picture

pytestmark = pytest.mark.sandbox_only

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK: Final = re.compile(r"^```(sh|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ALONE: Final = frozenset({"manifests", "crds", "install", "version"})
"""Commands that print something and ask no cluster."""


def commands() -> list[tuple[str, tuple[str, ...]]]:
    """Page and words of each `pykruise …` that a page shows."""
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                for words in _commands_in(line, is_shell=language == "sh"):
                    found[page.name, words] = None
    return list(found)


def _commands_in(line: str, *, is_shell: bool) -> list[tuple[str, ...]]:
    """Of a terminal's picture only what follows a prompt was typed."""
    line = line.strip()
    if not is_shell:
        if not line.startswith("$ "):
            return []
        line = line[2:]
    line = re.split(r"\s+#", line)[0]
    parts = [part.strip() for part in re.split(r"&&|;|\|", line)]
    found = []
    for part in parts:
        try:
            words = shlex.split(part.partition(" > ")[0])
        except ValueError:
            continue
        if words and words[0].rpartition("/")[2] == "pykruise" and "…" not in part and "<" not in part:
            found.append(tuple(words[1:]))
    return found


def test_the_picture_in_the_readme_is_what_comes() -> None:
    """If this is all that changed: PYTHONPATH=tests python -m support.readme README.md"""
    assert picture() in (ROOT / "README.md").read_text()


def test_the_readme_fits_one_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80


@pytest.mark.parametrize(
    ("page", "words"), commands(), ids=lambda one: one if isinstance(one, str) else " ".join(one)
)
def test_a_command_that_a_page_shows_is_known_with_its_options(page: str, words: tuple[str, ...]) -> None:
    if words[:1] == ("manager",):
        parse([word for word in words[1:] if "$" not in word], environ={})
        return
    with app.make_context("pykruise", list(words)) as context:
        command: click.Command = app
        rest = list(words)
        while isinstance(command, click.Group) and rest:
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, name
            command = found
        command.make_context(command.name, rest, parent=context).close()


@pytest.mark.parametrize(
    "words",
    sorted(
        {words for _, words in commands() if words[:1] and words[0] in ALONE and "$" not in "".join(words)}
    ),
    ids=" ".join,
)
def test_a_command_that_asks_no_cluster_runs(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    assert done.output


def links() -> list[tuple[Path, str]]:
    return [
        (page, target)
        for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target
    ]


def test_links_lead_to_files_that_are_there() -> None:
    broken = [f"{page.name}: {target}" for page, target in links() if not (page.parent / target).exists()]
    assert broken == []
