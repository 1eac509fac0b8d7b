"""Users may import what `__all__` of the public modules names: a list of it is kept, with parameters and members.

`PYKRUISE_GOLDEN=write pytest tests/unit/test_public_surface.py` adds new names to the list, and removes old ones.
"""

import builtins
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pykruise.kube import errors
from support.public_names import (
    SMALL,
    PublicName,
    has_description,
    public_lines,
    public_modules,
    public_names,
    raised_by,
)
from support.sources import ROOT

LIST: Final = Path(__file__).parent / "golden/public_names.txt"
RULE: Final = (
    "Semantic versioning (docs/api-stability.md): a removed or renamed name, parameter, field or member, and a new "
    "required parameter, need a new major version (before 1.0: a new minor one), a line in CHANGELOG.md and, where it "
    "can be, the old name beside the new one for one minor version. If that is so, "
    "PYKRUISE_GOLDEN=write writes the list."
)


def test_no_public_name_disappears_or_changes_its_parameters_unnoticed() -> None:
    now = public_lines()
    if os.environ.get("PYKRUISE_GOLDEN") == "write":
        LIST.write_text("\n".join(now) + "\n", "utf-8")
    stored = LIST.read_text("utf-8").splitlines()
    missing = sorted(set(stored) - set(now))
    assert not missing, f"gone or changed: {', '.join(missing[:20])}. {RULE}"
    added = sorted(set(now) - set(stored))
    assert not added, f"new: {', '.join(added[:20])}. PYKRUISE_GOLDEN=write adds them to {LIST.name}."


def test_each_name_of_a_module_exists() -> None:
    missing = [
        f"{module.__name__}.{name}"
        for module in public_modules()
        for name in module.__all__
        if not hasattr(module, name)
    ]
    assert missing == []


def test_each_class_and_function_has_a_description() -> None:
    callables = [
        item for item in public_names() if isinstance(item.value, type) or inspect.isfunction(item.value)
    ]
    assert [f"{item.module}.{item.name}" for item in callables if not has_description(item)] == []


def test_each_name_of_the_small_packages_has_a_description() -> None:
    assert [f"{item.module}.{item.name}" for item in public_names(SMALL) if not has_description(item)] == []


def functions_of(item: PublicName) -> Iterator[tuple[str, Any]]:
    """The function, or the public methods of the class."""
    path = f"{item.module}.{item.name}"
    if inspect.isfunction(item.value):
        yield path, item.value
    elif isinstance(item.value, type) and item.value.__module__.startswith("pykruise."):
        for name, member in vars(item.value).items():
            if not name.startswith("_") and inspect.isfunction(member):
                yield f"{path}.{name}", member


def test_a_function_with_a_result_describes_it() -> None:
    """A docstring that begins with "Check" leaves open whether the function returns, yields or raises the problems."""
    unclear = [
        path
        for item in public_names()
        for path, function in functions_of(item)
        if (function.__doc__ or "").startswith("Check")
        and function.__annotations__.get("return") not in (None, "None")
        and not re.search(r"\b[Rr]eturn|\b[Ww]hether|\bRaises|\b[Yy]ield", function.__doc__ or "")
    ]
    assert unclear == []


PLAIN: Final = frozenset({"namespace", "name"})
"""Parameters that mean the same everywhere."""


def test_functions_of_the_small_packages_describe_their_optional_parameters() -> None:
    missing = [
        f"{path}({name})"
        for item in public_names(SMALL)
        for path, function in functions_of(item)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty and name not in PLAIN
        if not re.search(rf"\b{name}\b", function.__doc__ or "")
    ]
    assert missing == []


def test_functions_name_the_errors_that_they_raise() -> None:
    missing = [
        f"{path}: {error}"
        for item in public_names()
        for path, function in functions_of(item)
        for error in raised_by(function) - {"NotImplementedError", "AssertionError"}
        if not any(base in (function.__doc__ or "") for base in (error, *bases_of(error, function)))
    ]
    assert missing == []


def bases_of(error: str, function: Any) -> list[str]:
    """The classes above an exception; one of them may be named in its place."""
    module = importlib.import_module(function.__module__)
    known = getattr(module, error, None) or getattr(errors, error, None) or getattr(builtins, error, None)
    if not isinstance(known, type):
        return []
    return [base.__name__ for base in known.__mro__ if base not in (Exception, BaseException, object)]


@pytest.mark.parametrize(
    "package",
    sorted((ROOT / "packages").glob("*/src/pykruise/*/__init__.py")),
    ids=lambda path: path.parent.name,
)
def test_each_package_is_marked_as_typed(package: Path) -> None:
    assert (package.parent / "py.typed").exists()
