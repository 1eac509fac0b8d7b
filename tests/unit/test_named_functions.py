"""Functions that pages, docstrings and comments name exist: a renamed function is renamed there too.

`name(…)` in backticks on a page ┐
name(…) in a docstring           ├─▶ a function, class or field of the code, or an entry of FOREIGN
imports and calls in Python of a page ┘
"""

import ast
import asyncio
import builtins
import functools
import importlib
import re
import subprocess
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from support.sources import ROOT, SOURCES

PAGES: Final = tuple(
    sorted(
        page
        for pattern in ("*.md", "packages/*/*.md", "docs/**/*.md", "testbed/*.md", "examples/**/*.md")
        for page in ROOT.glob(pattern)
        if page.name != "CHANGELOG.md"  # it may name removed functions
        and page.parent.name != "spec"  # it contains formulas
    )
)
MODULES: Final = tuple(sorted(path for folder in SOURCES for path in folder.rglob("*.py")))

FOREIGN: Final = {
    "CustomObjectsApi": "kubernetes",
    "MilliValue": "apimachinery",
    "O": "a complexity",
    "PartialObjectMetadata": "Kubernetes",
    "Random": "random",
    "Runner": "asyncio",
    "Site": "generated on the page",
    "SiteSpec": "generated on the page",
    "TemporaryError": "kopf",
    "UUID": "uuid",
    "Watch": "kubernetes",
    "create_namespaced_custom_object": "kubernetes",
    "fork": "os",
    "freeze": "gc",
    "getLogger": "logging",
    "load_incluster_config": "kubernetes",
    "new_client_from_config": "kubernetes",
    "run_operator": "the reader's own",
    "run_until_complete": "asyncio",
    "test_a_rollout": "the reader's own",
    "test_my_client": "the reader's own",
    "test_my_operator": "the reader's own",
    "timeout": "asyncio",
    "to_builtins": "msgspec",
}
"""Names of other packages, with their package."""
KNOWN: Final = frozenset(FOREIGN) | frozenset(dir(builtins))

_CALL: Final = re.compile(r"(?<![\w…])([A-Za-z_]\w*)\(")
_COMMENT: Final = re.compile(r"(?:^|\s)# (.*)$", re.MULTILINE)
_IN_BACKTICKS: Final = re.compile(r"`([^`\n]+)`")
_PART_OF_FILE: Final = re.compile(r"^<!-- from: .*? -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@functools.cache
def declared_in(path: Path) -> frozenset[str]:
    """Callable names of a module: functions, classes, and variables and fields that hold functions."""
    tree = ast.parse(path.read_text("utf-8"))
    names = set(names_bound_by(tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names |= {node.name, *names_bound_by(node.body)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            names.add(node.name)
    return frozenset(names)


def names_bound_by(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        targets = (
            [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else statement.targets
            if isinstance(statement, ast.Assign)
            else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


@functools.cache
def own_names() -> frozenset[str]:
    beside = [*(ROOT / "testbed").glob("*.py"), *(ROOT / "tools").glob("*.py")]
    return frozenset(name for path in (*MODULES, *beside) for name in declared_in(path))


def test_a_name_of_others_is_not_one_of_ours() -> None:
    used = {name for page in PAGES for name in names_on(page)}
    used |= {name for module in MODULES for name in names_in_docstrings_of(module)}
    assert sorted(set(FOREIGN) & own_names()) == []
    assert sorted(set(FOREIGN) - used) == []


# ── pages ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_functions_that_a_page_names_exist(page: Path) -> None:
    assert sorted(set(names_on(page)) - KNOWN - own_names()) == []


def names_on(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    for code in _IN_BACKTICKS.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield from _CALL.findall(code)
    for tree in programs_on(page):
        own = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        called = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        for function in called:
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in own | _OF_PYTHON:
                yield name


_OF_PYTHON: Final = {
    name for owner in (bytes, dict, list, set, str, Path, asyncio, subprocess) for name in dir(owner)
} | {"terminate"}
"""Methods of Python's own objects."""


def programs_on(page: Path) -> Iterator[ast.Module]:
    """The Python of a page, except parts of files, which their own tests run."""
    for text in _PYTHON.findall(_PART_OF_FILE.sub("", page.read_text("utf-8"))):
        try:
            yield ast.parse(text)
        except SyntaxError:  # `async with` outside of a function
            yield ast.parse(f"async def main():\n{textwrap.indent(text, '    ')}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_that_programs_on_a_page_import_exist(page: Path) -> None:
    missing = [
        f"{node.module}.{alias.name}"
        for tree in programs_on(page)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("pykruise", "testbed")
        for alias in node.names
        if not hasattr(importlib.import_module(node.module or ""), alias.name)
        and importlib.util.find_spec(f"{node.module}.{alias.name}") is None
    ]
    assert missing == []


# ── docstrings ───────────────────────────────────────────────────────────────


def test_functions_that_docstrings_and_comments_name_exist() -> None:
    missing = {
        f"{module.relative_to(ROOT)}: {name}()"
        for module in MODULES
        for name in set(names_in_docstrings_of(module)) - KNOWN - own_names()
    }
    assert sorted(missing) == []


@functools.cache
def names_in_docstrings_of(module: Path) -> tuple[str, ...]:
    text = module.read_text("utf-8")
    tree = ast.parse(text)
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    texts = [node.value for node in strings if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts += _COMMENT.findall(text)
    return tuple(name for item in texts for name in _CALL.findall(item) if name not in own)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("config ──▶ load(path) ──▶ Connection(server)", ["load", "Connection"]),
        ("──build_…_row(), build_pod()──▶", ["build_pod"]),
        ("a plain (bracket), and f (x)", []),
    ],
)
def test_a_name_before_a_bracket_is_a_call(text: str, names: list[str]) -> None:
    assert _CALL.findall(text) == names
