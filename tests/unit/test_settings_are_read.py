"""Every field of settings has an effect: code of the same distribution reads it.

A flag whose value is stored and never read is accepted silently and does nothing.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = sorted(path.name for path in (ROOT / "packages").iterdir() if (path / "src").is_dir())


@cache
def trees(distribution: str) -> list[ast.Module]:
    """The modules of a distribution, parsed."""
    folder = ROOT / "packages" / distribution / "src"
    return [ast.parse(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))]


def fields_of_settings(tree: ast.Module) -> set[str]:
    """Fields of the settings that a module defines, as `Class.field`. Protocols are not settings."""
    return {
        f"{node.name}.{field.target.id}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Settings")
        if not any("Protocol" in ast.unparse(base) for base in node.bases)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def read_attributes(tree: ast.Module) -> set[str]:
    """Names of attributes that a module reads."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_field_of_settings_is_read(distribution: str) -> None:
    read = set[str]().union(*map(read_attributes, trees(distribution)))
    fields = set[str]().union(*map(fields_of_settings, trees(distribution)))
    assert {field for field in fields if field.partition(".")[2] not in read} == set()


def test_a_field_that_only_a_call_sets_is_not_read() -> None:
    tree = ast.parse(
        "class FlagSettings:\n    grace_s: float\n\nFlagSettings(grace_s=1.0)\nother.grace_s = 2\n"
    )
    assert fields_of_settings(tree) == {"FlagSettings.grace_s"}
    assert "grace_s" not in read_attributes(tree)
