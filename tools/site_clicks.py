"""Clicks in the built site: `python -m tools.site_clicks build/site` fails if a task takes more than two clicks.

index.html ──links in its text, without the navigation──▶ pages ──▶ pages ──▶ minimum number of clicks to each task
"""

import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["MOST_CLICKS", "TASKS", "count_clicks", "main"]

MOST_CLICKS: Final = 2
TASKS: Final[Mapping[str, str]] = {
    "a rollout is stuck": "troubleshooting",
    "come from OpenKruise": "migration",
    "test my operator": "testing",
    "operate it": "operations",
    "install it": "install",
}
"""The five most frequent tasks, each with the folder of its page."""


class _Links(HTMLParser):
    """Links within the `article` of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag == "article"
        link = dict(attrs).get("href") or ""
        if tag == "a" and self._depth and link and not link.startswith("#"):
            self.links.append(link)

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"


def count_clicks(site: Path, folder: str, *, most: int) -> int | None:
    """Return the minimum number of clicks from the start page to a page; None: more than `most`."""
    wanted = (site / folder / "index.html").resolve()
    reached = {(site / "index.html").resolve()}
    for clicks in range(most + 1):
        if wanted in reached:
            return clicks
        reached |= {target for page in reached for target in _pages_linked(page)}
    return None


def _pages_linked(page: Path) -> set[Path]:
    links = _Links()
    links.feed(page.read_text("utf-8"))
    paths = (urlsplit(link) for link in links.links)
    local = ((page.parent / unquote(url.path)).resolve() for url in paths if not url.scheme and url.path)
    targets = (target / "index.html" if target.is_dir() else target for target in local)
    return {target for target in targets if target.suffix == ".html" and target.is_file()}


def main(argv: Sequence[str]) -> int:
    """Print the clicks to each task. Returns 1 if a task takes too many."""
    site = Path(argv[0])
    clicks = {task: count_clicks(site, folder, most=MOST_CLICKS) for task, folder in TASKS.items()}
    for task, count in clicks.items():
        if count is None:
            print(f"error: {task}: more than {MOST_CLICKS} clicks from the start page", file=sys.stderr)
    return int(None in clicks.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
