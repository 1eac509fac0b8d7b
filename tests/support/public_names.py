"""The names that users may import, as lines of a file: `module.name(parameters)`, and members of classes.

packages ──▶ public_modules() ──▶ public_lines() ──▶ compared with tests/unit/golden/public_names.txt

A module offers its `__all__`. An optional parameter or field ends in `=`.
"""

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

__all__ = [
    "SMALL",
    "PublicName",
    "described_variables",
    "has_description",
    "public_lines",
    "public_modules",
    "public_names",
    "raised_by",
]

TREES: Final = ("pykruise.kube", "pykruise.runtime")
"""Packages in which every module with an `__all__` is public."""

SMALL: Final = (
    "pykruise.hooks",
    "pykruise.insight",
    "pykruise.kube.models",
    "pykruise.models",
    "pykruise.models.v1alpha1",
    "pykruise.models.v1beta1",
    "pykruise.operators",
    "pykruise.testing",
    "pykruise.testing.exploration",
    "pykruise.testing.http",
    "pykruise.testing.sandbox",
    "pykruise.testing.simulation",
    "pykruise.testing.simulation.over_http",
)
"""Modules that tutorials import from. Each of their names is described, with its optional parameters."""


class PublicName(msgspec.Struct, frozen=True):
    """A name that a module offers."""

    module: str
    name: str
    value: Any


@cache
def public_modules() -> tuple[ModuleType, ...]:
    """All modules with an `__all__`, in the order of their names."""
    names = {*SMALL, *TREES}
    for tree in TREES:
        path = importlib.import_module(tree).__path__
        names.update(item.name for item in pkgutil.walk_packages(path, f"{tree}."))
    modules = [importlib.import_module(name) for name in sorted(names)]
    return tuple(module for module in modules if getattr(module, "__all__", None))


def public_names(modules: tuple[str, ...] = ()) -> list[PublicName]:
    """All names of these modules; without any, of all that are public."""
    return [
        PublicName(module.__name__, name, getattr(module, name))
        for module in public_modules()
        if not modules or module.__name__ in modules
        for name in module.__all__
    ]


def public_lines() -> list[str]:
    """A line for each name and each member of a class, sorted."""
    return sorted(
        {line for item in public_names() for line in _lines_of(f"{item.module}.{item.name}", item.value)}
    )


def _lines_of(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield path
        yield from (f"{path}.{member.name}" for member in value)
    elif isinstance(value, type) and value.__module__.startswith("pykruise."):
        yield path + _fields_or_parameters_of(value)
        for name, member in vars(value).items():
            if not name.startswith("_") and (plain := _function_of(member)) is not None:
                yield f"{path}.{name}{_parameters_of(plain)}"
    elif inspect.isfunction(value):
        yield path + _parameters_of(value)
    else:
        yield path


def _function_of(member: Any) -> Any:
    """The function of a method or property, or None."""
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member if inspect.isfunction(member) else None


def _fields_or_parameters_of(value: type) -> str:
    if issubclass(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return f"({', '.join(item.name if item.required else f'{item.name}=' for item in fields)})"
    constructor = vars(value).get("__init__")
    return _parameters_of(constructor) if inspect.isfunction(constructor) else ""


def _parameters_of(function: Any) -> str:
    parts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        is_keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if is_keyword and "*" not in parts and not any(part.startswith("*") for part in parts):
            parts.append("*")
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        has_default = parameter.default is not inspect.Parameter.empty
        parts.append(f"{stars}{parameter.name}" + ("=" if has_default else ""))
    return f"({', '.join(part for part in parts if part != 'self')})"


# ── descriptions ─────────────────────────────────────────────────────────────


def has_description(item: PublicName) -> bool:
    """Whether the name has a docstring, or a text below its assignment."""
    value = item.value
    if (
        isinstance(value, type | ModuleType)
        or inspect.isfunction(value)
        or hasattr(value, "_get_wrapped_function")
    ):
        return bool((value.__doc__ or "").strip())
    return any(item.name in described_variables(module.__file__ or "") for module in _definers_of(item))


def _definers_of(item: PublicName) -> Iterator[ModuleType]:
    """The loaded modules of the same package that have the same value under this name."""
    package = ".".join(item.module.split(".")[:2])
    for name, module in tuple(sys.modules.items()):
        if name.startswith(package) and getattr(module, item.name, _ABSENT) is item.value:
            yield module


_ABSENT: Final = object()


@cache
def described_variables(path: str) -> frozenset[str]:
    """The variables of a module with a text below them."""
    body = ast.parse(Path(path).read_text("utf-8")).body
    names = set()
    for statement, following in pairwise(body):
        if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)):
            continue
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        )
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


@cache
def raised_by(function: Any) -> frozenset[str]:
    """The exceptions that the body of a function raises itself, and does not catch."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None)
    names = (ast.unparse(error.func if isinstance(error, ast.Call) else error) for error in raised)
    caught = " ".join(
        ast.unparse(node.type) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type
    )
    return frozenset(name for name in names if name[:1].isupper() and name not in re.findall(r"\w+", caught))
