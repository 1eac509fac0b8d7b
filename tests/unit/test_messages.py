"""Decisions carry codes: no code reads a message for people.

Otherwise another wording would change a decision. The test searches the syntax trees of all sources for variables
with names such as `message` or `because` that are compared or parsed.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from support.sources import SOURCES

MEANT_FOR_PEOPLE: Final = frozenset({"message", "full_message", "because", "remedy", "sentence"})
READING: Final = frozenset(
    {
        "startswith",
        "endswith",
        "partition",
        "rpartition",
        "split",
        "find",
        "index",
        "removeprefix",
        "removesuffix",
    }
)
ALLOWED: Final[Mapping[str, str]] = {
    "pods/corrections.py": "explain names what is missing, and leaves out the general instruction to create it",
    "runtime/refusals.py": "explain prints the remedy of a stored condition on its own line; nothing is decided by it",
}
"""File → reason why it may read a message."""


def name_of(node: ast.expr) -> str:
    """The name of an expression: `message` for `found.message`, `message` and `found["message"]`."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return ""


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)


def readings(text: str) -> Iterator[str]:
    """Places where a message is parsed, or compared with a text."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr=method, value=holder)) if method in READING:
                if name_of(holder) in MEANT_FOR_PEOPLE:
                    yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(name_of(side) in MEANT_FOR_PEOPLE for side in sides) and any(map(is_text, sides)):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_code_reads_a_message() -> None:
    result = {
        str(file.relative_to(folder)): places
        for folder in SOURCES
        for file in sorted(folder.rglob("*.py"))
        if (places := list(readings(file.read_text("utf-8"))))
    }
    assert {name: places for name, places in result.items() if name not in ALLOWED} == {}


@pytest.mark.parametrize(
    "text",
    [
        "x = condition.message.startswith('spec.selector is immutable')",
        "x = condition['message'].partition(': ')",
        "x = condition.get('message').split()",
        "x = 'not found' in status.message",
        "x = reason.because == 'paused'",
    ],
)
def test_a_reading_is_found(text: str) -> None:
    assert len(list(readings(text))) == 1


@pytest.mark.parametrize(
    "text", ["x = old.message == new.message", "x = reason.code == 'Paused'", "x = message == ''"]
)
def test_code_that_reads_no_message_is_not_reported(text: str) -> None:
    assert list(readings(text)) == []
