"""The public names of pykruise-kube are in `__all__` of its modules; other packages use only these."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sources import ROOT, SOURCES

KUBE = ROOT / "packages" / "kube" / "src" / "pykruise"
MODULES = {
    ".".join(("pykruise", *path.relative_to(KUBE).with_suffix("").parts)): path
    for path in sorted(KUBE.rglob("*.py"))
    if path.name != "__init__.py"
}
OTHERS = [path for folder in SOURCES if folder != KUBE for path in folder.rglob("*.py")]


def offered(path: Path) -> list[str] | None:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            result: list[str] = ast.literal_eval(node.value)
            return result
    return None


def imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_declares_its_public_names(module: str) -> None:
    assert offered(MODULES[module]) is not None


def test_other_distributions_import_only_the_public_surface() -> None:
    surface = {module: set(offered(path) or ()) for module, path in MODULES.items()}
    used = {(str(path.name), module, name) for path in OTHERS for module, name in imports(path)}
    assert sorted(item for item in used if item[2] not in surface[item[1]]) == []
