"""Descriptions of types: docstrings of classes and of their attributes, as plain text.

class ──▶ read_class_description(): the first paragraph under `class X:`
class ──▶ read_field_descriptions(): attribute name ──▶ the string below the attribute, its own or that of a base class
          leave_out_descriptions(): both return nothing, for schemas that no person reads

The strings below attributes exist only in the source, so they are read from there. A program without its sources has
no descriptions, but everything else works. `kubectl explain` and the reference page of the kinds show these texts.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

__all__ = ["are_left_out", "leave_out_descriptions", "read_class_description", "read_field_descriptions"]

_LEFT_OUT: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def leave_out_descriptions() -> Iterator[None]:
    """Leave descriptions out while the block runs: reading the sources takes longer than all other work."""
    token = _LEFT_OUT.set(True)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def are_left_out() -> bool:
    """Whether descriptions are left out now."""
    return _LEFT_OUT.get()


def read_class_description(cls: type) -> str:
    """Return the class's own docstring with each paragraph on one line; empty without a docstring."""
    return "" if are_left_out() else _to_plain_text(cls.__dict__.get("__doc__") or "")


def read_field_descriptions(cls: type) -> Mapping[str, str]:
    """Return the strings below the attributes, by attribute name; those of a class override those of its bases."""
    return {} if are_left_out() else _of_fields(cls)


@cache
def _of_fields(cls: type) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        fields |= _read_own(each)
    return fields


def _read_own(cls: type) -> Mapping[str, str]:
    node = _index_classes(cls.__module__).get(cls.__qualname__)
    return {} if node is None else dict(_read_attributes(node))


def _read_attributes(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (statement.target.id, _to_plain_text(following.value.value))
        for statement, following in zip(node.body, node.body[1:], strict=False)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ]


@cache
def _index_classes(module: str) -> Mapping[str, ast.ClassDef]:
    """Return the top-level classes of a module by name; empty when its source is not available."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _to_plain_text(text: str) -> str:
    """Return the text with each paragraph on one line and without backticks: `kubectl explain` wraps lines but shows
    no markup.
    """
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("`", "")
