"""Sequences of lines with the same shape in functions: duplicates that should be one piece of code.

sources ──▶ shaped_lines() ──▶ repeated() ──▶ Repeat (two places, number of lines)

A line's shape is its tokens without names, numbers and texts. Lines that only pass values on do not count: the
members of calls, tuples and tables (`name=value,`), fields that a constructor stores (`self.name = name`) and fields
that are compared one by one (`and old.name == new.name`). Code outside
of functions does not count either: types, imports, declarations.
"""

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Repeat", "repeated"]

_WITHOUT_MEANING: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)
_VALUES: Final = frozenset({"name", "number", "text", "None", "True", "False", *".,()[]{}=:*"})
_KEPT: Final = ("name", ".", "name", "=", "name")
_COMPARED: Final = ("and", "name", ".", "name", "==", "name", ".", "name")


class Line(NamedTuple):
    """One line of a function, by its number."""

    number: int
    shape: tuple[str, ...]


class Repeat(NamedTuple):
    """Lines that occur twice: path and first line of each, and the number of lines."""

    path: str
    line: int
    other: str
    other_line: int
    length: int


def repeated(root: Path, *, least: int) -> list[Repeat]:
    """Every pair of equal sequences of at least `least` lines below a folder, each as long as possible; longest
    first."""
    files = {
        str(path.relative_to(root)): shaped_lines(path.read_text()) for path in sorted(root.rglob("*.py"))
    }
    places: dict[tuple[tuple[str, ...], ...], list[tuple[str, int]]] = defaultdict(list)
    for path, lines in files.items():
        for start in range(len(lines) - least + 1):
            places[tuple(line.shape for line in lines[start : start + least])].append((path, start))
    result = [
        _extended(files, *value, *other)
        for group in places.values()
        for number, value in enumerate(group)
        for other in group[number + 1 :]
        if not _continues(files, *value, *other)
    ]
    return sorted(result, key=lambda item: -item.length)


def _continues(files: Mapping[str, list[Line]], path: str, start: int, other: str, begin: int) -> bool:
    """Whether the two lines overlap, or continue a repeat that begins a line earlier."""
    if path == other and files[path][begin].number <= files[path][start].number:
        return True
    return start > 0 and begin > 0 and files[path][start - 1].shape == files[other][begin - 1].shape


def _extended(files: Mapping[str, list[Line]], path: str, start: int, other: str, begin: int) -> Repeat:
    here, there = files[path][start:], files[other][begin:]
    length = 0
    for value, two in zip(here, there, strict=False):
        if value.shape != two.shape:
            break
        length += 1
    return Repeat(path, here[0].number, other, there[0].number, length)


def shaped_lines(source: str) -> list[Line]:
    """The lines of functions that do something."""
    inside, texts = _function_lines(ast.parse(source))
    shapes: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        number = token.start[0]
        if token.type not in _WITHOUT_MEANING and number in inside and number not in texts:
            shapes[number].append(_shape(token))
    lines = (Line(number, tuple(shape)) for number, shape in sorted(shapes.items()))
    return [line for line in lines if _does_something(line.shape)]


def _shape(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "name"
    if token.type == tokenize.NUMBER:
        return "number"
    return token.string if token.type == tokenize.OP else "text"


def _does_something(shape: tuple[str, ...]) -> bool:
    is_member = shape[-1] == "," and all(part in _VALUES for part in shape)
    return not is_member and shape not in (_KEPT, _COMPARED, ("...",)) and not set(shape) <= set(")]},")


def _function_lines(tree: ast.AST) -> tuple[set[int], set[int]]:
    """Lines of bodies of functions, and lines of their docstrings."""
    inside: set[int] = set()
    texts: set[int] = set()
    for node in _functions(tree):
        first, end = node.body[0], node.end_lineno or node.lineno
        inside.update(range(first.lineno, end + 1))
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            texts.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return inside, texts


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
