"""The pages of the documentation for a site generator: all in one folder, with links that work there.

docs/, README.md and other pages ──▶ pages_of() ──▶ build/site-pages ──mkdocs──▶ build/site
    python -m tools.site build/site-pages [https://git.example.com/team/pykruise]

Pages outside docs/ go to `repository/`. A link to a file that is not a page leads to the repository if its address is
known; otherwise only its text stays. Comments that only tests read are removed.
"""

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["OUTSIDE", "make_slug", "page_path", "pages_of", "rewrite_links"]

ROOT: Final = Path(__file__).resolve().parents[1]
OUTSIDE: Final = (
    *(
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "SUPPORT.md",
        "ROADMAP.md",
        "ADOPTERS.md",
    ),
    *("GOVERNANCE.md", "MAINTAINERS.md", "CODE_OF_CONDUCT.md"),
    *(f"packages/{name}/README.md" for name in ("kube", "sandbox", "agent", "pykruise", "dashboard")),
    *("charts/pykruise/README.md", "examples/operator/README.md", "examples/planted_bugs/README.md"),
    "testbed/README.md",
)
"""Pages outside docs/."""

_LINK: Final = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<link>[^)\s]+)\)")
_ATTRIBUTE: Final = re.compile(r'(?P<name>src|srcset)="(?P<link>[^"]+)"')
_COMMENT: Final = re.compile(
    r"<!-- (?:setup|apply|not run|cluster|failures|file|at|with)\b.*?-->\n", re.DOTALL
)
_FENCE: Final = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def make_slug(text: str, separator: str) -> str:
    """Return the anchor of a heading as in the repository's web pages, so that a link works there and in the site."""
    plain = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return plain.replace(" ", separator)


def page_path(source: Path) -> Path:
    """Return the place of a page in the site; `source` is its path relative to the root."""
    return source.relative_to("docs") if source.parts[0] == "docs" else Path("repository") / source


def pages_of() -> Iterator[Path]:
    """Yield all pages and pictures, relative to the root."""
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.suffix in (".md", ".png", ".svg"):
            yield file.relative_to(ROOT)
    yield from map(Path, OUTSIDE)


def rewrite_links(text: str, source: Path, *, repository: str = "") -> str:
    """Return a page's text with links for the site. Code in fences does not change."""
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_with_links(text[end : fence.start()], source, repository), fence[0]]
        end = fence.end()
    parts.append(_with_links(text[end:], source, repository))
    return _COMMENT.sub("", "".join(parts))


def _with_links(text: str, source: Path, repository: str) -> str:
    def link(match: re.Match[str]) -> str:
        target = _find_target(match["link"], source, repository)
        if target is None:
            return match["text"].strip("[]")
        return f"{match['text']}({target})"

    def attribute(match: re.Match[str]) -> str:
        # mkdocs does not change links in HTML. It serves a page as a folder, so files beside the page are one level
        # up.
        target = _find_target(match["link"], source, repository)
        is_index = source.name in ("README.md", "index.md")
        return f'{match["name"]}="{"" if is_index else "../"}{target}"'

    return _ATTRIBUTE.sub(attribute, _LINK.sub(link, text))


def _find_target(link: str, source: Path, repository: str) -> str | None:
    """Return the target of a link in the site; None: the target is unknown."""
    if re.match(r"[a-z]+:|#", link):
        return link
    path, hash_sign, anchor = link.partition("#")
    target = Path(os.path.normpath(source.parent / path))
    if target.as_posix() not in _list_published():
        return f"{repository}/blob/main/{target.as_posix()}" if repository else None
    here, there = page_path(source), page_path(target)
    relative = os.path.relpath(there, here.parent)
    return f"{relative}{hash_sign}{anchor}"


@functools.cache
def _list_published() -> frozenset[str]:
    return frozenset(page.as_posix() for page in pages_of())


def main(argv: Sequence[str]) -> int:
    """Empty a folder and copy all pages into it."""
    folder = Path(argv[0])
    repository = argv[1].rstrip("/") if len(argv) > 1 else ""
    shutil.rmtree(folder, ignore_errors=True)
    for source in pages_of():
        target = folder / page_path(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = (ROOT / source).read_text("utf-8")
            target.write_text(rewrite_links(text, source, repository=repository), "utf-8")
        else:
            shutil.copy(ROOT / source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
