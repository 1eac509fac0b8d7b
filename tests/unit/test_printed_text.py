"""The command line prints text of the cluster without control characters, which a terminal would act on.

Session.say(), Session.note() and commands/running.py's say() and note() escape them. The test searches the syntax trees
of the command line for functions that print in another way.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from pykruise.cli.terminal_text import escape_terminal, fit_cell
from support.sources import ROOT

CLI: Final = ROOT / "packages/pykruise/src/pykruise/cli"

_OWN: Final = "prints no text of a cluster"
_FORMAT: Final = "prints the output of -o, which programs read"
_ESCAPES: Final = "escapes the text, or prints lines whose text is escaped"
ALLOWED: Final[Mapping[str, str]] = {
    "commands/installing.py": _OWN,
    "commands/words.py": _OWN,
    "demo.py": _OWN,
    "install.py": "prints no text of a cluster but names, which have no control characters",
    "kubelets.py": _OWN,
    "main.py": _OWN,
    "manager.py": _OWN,
    "commands/running.py: note": _ESCAPES,
    "commands/running.py: run": "writes the log",
    "commands/running.py: say": _ESCAPES,
    "kubectl/delegate.py: to_kubectl": _OWN,
    "kubectl/describing.py: _say_rollout": _ESCAPES,
    "kubectl/drawing.py: draw": _ESCAPES,
    "kubectl/entry.py: _run_guarded": _OWN,
    "kubectl/entry.py: read_surroundings": _OWN,
    "kubectl/entry.py: run_async": _ESCAPES,
    "kubectl/generating.py: main": "is a function of kustomize: programs read its output",
    "kubectl/getting.py: _print": _FORMAT,
    "kubectl/resources.py: run_kustomize": "reads the output of another program",
    "kubectl/rollout.py: _Show.__call__": _FORMAT,
    "kubectl/scaling.py: create_and_show": _FORMAT,
    "kubectl/scaling.py: scale.do": _FORMAT,
    "kubectl/scaling.py: scale_down": _FORMAT,
    "kubectl/session.py: Session.note": _ESCAPES,
    "kubectl/session.py: Session.say": _ESCAPES,
    "kubectl/session.py: Session.write": "is the method that prints text unchanged",
    "kubectl/session.py: Surroundings": _OWN,
    "kubectl/setting.py: apply": _FORMAT,
    "kubectl/shell.py: print_completion": _OWN,
    "kubectl/shell.py: print_version": _FORMAT,
    "up.py: _greet": _OWN,
    "up.py: _print_loaded": _ESCAPES,
    "up.py: _print_rules": _OWN,
    "up.py: run_up": _OWN,
}
"""File, or file and function → reason why it may print in another way."""


def is_raw(node: ast.AST) -> bool:
    """Whether the expression is a way to print that escapes nothing."""
    match node:
        case ast.Name(id="print" | "Console", ctx=ast.Load()):
            return True
        case ast.Attribute(attr="echo" | "secho" | "stdout" | "stderr"):
            return True
        case ast.Attribute(attr="out" | "err", value=holder):
            return ast.unparse(holder).endswith("around")
        case ast.Attribute(attr="write", value=holder):
            return ast.unparse(holder).endswith("session")
    return False


def raw_prints(tree: ast.AST, function: str = "") -> Iterator[str]:
    """Names of the functions that print unescaped text, `Class.method` for methods."""
    for node in ast.iter_child_nodes(tree):
        if is_raw(node):
            yield function
        inner = function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{function}.{node.name}".strip(".")
        yield from raw_prints(node, inner)


FOUND: Final = {
    (str(path.relative_to(CLI)), name)
    for path in sorted(CLI.rglob("*.py"))
    for name in raw_prints(ast.parse(path.read_text("utf-8")))
}


def test_only_known_functions_print_text_without_escaping_it() -> None:
    printing = {path if path in ALLOWED else f"{path}: {name}" for path, name in FOUND}
    assert printing == set(ALLOWED)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain text, ünïcode and a tab\t", "plain text, ünïcode and a tab\t"),
        ("two\nlines", "two\nlines"),
        ("\x1b]0;title\x07", "^[]0;title\\x07"),
        ("hidden\rshown", "hidden\\rshown"),
        ("\x9b2J", "\\x9b2J"),
        ("a\x08\x7f", "a\\x08\\x7f"),
    ],
)
def test_control_characters_become_visible(text: str, printed: str) -> None:
    assert escape_terminal(text) == printed


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("short", "short"),
        ("first\nsecond", "first..."),
        ("first\r\nsecond", "first..."),
        ("\x1b[31mred\fnext", "^[[31mred..."),
        ("", ""),
    ],
)
def test_a_cell_is_cut_at_its_first_line_end(text: str, cell: str) -> None:
    assert fit_cell(text) == cell
