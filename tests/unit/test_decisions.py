"""Phases of workloads only decide, and one module writes to pods: no other module of these kinds builds a write."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

KINDS = Path(__file__).parents[2] / "packages" / "pykruise" / "src" / "pykruise" / "kinds"
WRITES = frozenset({"Create", "patch_object", "delete_object"})
JOINS = {"plan.py", "revisions.py"}
"""Modules that order the stages of a plan."""


def modules() -> Iterator[Path]:
    """Modules of kinds whose plan uses the phases of workloads that own pods."""
    for plan in sorted(KINDS.glob("*/plan.py")):
        if "write_phases" in plan.read_text():
            yield from sorted(plan.parent.glob("*.py"))


MODULES = list(modules())


def test_every_workload_with_phases_is_covered() -> None:
    assert {path.parent.name for path in MODULES} == {"cloneset", "daemonset", "statefulset"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_phase_makes_no_write_to_a_pod(path: Path) -> None:
    assert list(writes_in(path)) == []


def writes_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "pykruise.plans.pod_writes":
            if path.name not in JOINS:
                yield f"line {node.lineno} imports {', '.join(name.name for name in node.names)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRITES:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(isinstance(value, ast.Name) and value.id == "PODS" for value in given):
                yield f"line {node.lineno} calls {node.func.id} for pods"
