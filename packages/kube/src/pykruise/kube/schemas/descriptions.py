"""Descriptions of types: docstrings of classes and of their attributes, as plain text.

class ──▶ of_class(): the first paragraph under `class X:`
class ──▶ of_fields(): attribute name ──▶ the string below the attribute, its own or that of a base class
          left_out(): neither, for schemas that no person reads

The strings below attributes exist in the source only, so they are read from there; where a program is run
without its sources there are no descriptions, and nothing else is missing. The texts become what
`kubectl explain` shows and what the reference page of the kinds lists.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

__all__ = ["are_left_out", "left_out", "of_class", "of_fields"]

_LEFT_OUT: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def left_out() -> Iterator[None]:
    """Meanwhile nothing has a description, and no source is read: that takes longer than all else of a schema."""
    token = _LEFT_OUT.set(True)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def are_left_out() -> bool:
    """Whether descriptions are left out just now."""
    return _LEFT_OUT.get()


def of_class(cls: type) -> str:
    """The class's own docstring as one paragraph each; empty when it has none."""
    return "" if are_left_out() else _plain(cls.__dict__.get("__doc__") or "")


def of_fields(cls: type) -> Mapping[str, str]:
    """The strings below the attributes, by attribute name; a class goes before its bases."""
    return {} if are_left_out() else _of_fields(cls)


@cache
def _of_fields(cls: type) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        fields |= _own(each)
    return fields


def _own(cls: type) -> Mapping[str, str]:
    node = _classes(cls.__module__).get(cls.__qualname__)
    return {} if node is None else dict(_attributes(node))


def _attributes(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (statement.target.id, _plain(following.value.value))
        for statement, following in zip(node.body, node.body[1:], strict=False)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ]


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The top-level classes of a module by name; none when its source cannot be had."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _plain(text: str) -> str:
    """Lines joined within paragraphs, backticks gone: `kubectl explain` wraps and marks nothing itself."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("`", "")
