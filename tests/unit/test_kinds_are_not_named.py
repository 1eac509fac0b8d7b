"""Code that shows all kinds names none of them: a new kind is shown without a line outside its folder.

sources of kubectl kruise, Argo CD, state metrics and the dashboard ──ast──▶ texts and imports that name a kind: none
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykruise.kinds import list_kinds
from support.sources import ROOT

SOURCES = ROOT / "packages" / "pykruise" / "src" / "pykruise"
DASHBOARD = ROOT / "packages" / "dashboard" / "src" / "pykruise" / "dashboard"

FILES = (
    *sorted((SOURCES / "cli" / "kubectl").glob("*.py")),
    *(SOURCES / "manager" / name for name in ("argocd.py", "lua_health.py", "state_metrics.py")),
    *(SOURCES / "plans" / name for name in ("progress.py", "pulling.py", "shown.py", "shown_lines.py")),
    *sorted(DASHBOARD.glob("*.py")),
)

ALLOWED = {
    "adopting.py": "moves pods between a kind of Kubernetes and its counterpart, field by field",
    "migrating.py": "moves pods of a Deployment to a CloneSet, which it makes",
    "creating.py": "makes objects of one kind each, from flags",
    "generating.py": "makes a scaffold of one kind",
    "changing_commands.py": "help of the commands that make objects of one kind",
    "looking_commands.py": "help of `image status`",
    "executing.py": "reads an annotation of pods",
}
"""Files of kubectl kruise whose verbs are about certain kinds, with the reason."""

NAMES = sorted({kind.resource.kind for kind in list_kinds() if kind.versions})
_NAMED = re.compile(rf"\b({'|'.join([*NAMES, *map(str.lower, NAMES)])})s?\b")


def named_in(path: Path) -> Iterator[str]:
    """Texts that name a kind, and imports of a kind's folder. Docstrings do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    sentences = {
        id(node.value)
        for parent in ast.walk(tree)
        for node in (getattr(parent, "body", ()) if not isinstance(parent, ast.Lambda | ast.IfExp) else ())
        if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pykruise.kinds."):
            yield f"{path.name}:{node.lineno}: imports {node.module}"
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in sentences
        if is_text and (match := _NAMED.search(node.value)):
            yield f"{path.name}:{node.lineno}: {match[0]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_general_modules_name_no_kind(path: Path) -> None:
    named = list(named_in(path))
    if path.name in ALLOWED and path.parent.name == "kubectl":
        assert named, f"{path.name} names no kind any more: take it off the list"
    else:
        assert named == []


@pytest.mark.parametrize("path", sorted((DASHBOARD / "static").glob("*.js")), ids=lambda path: path.name)
def test_the_page_names_no_kind(path: Path) -> None:
    assert _NAMED.findall(path.read_text("utf-8")) == []
