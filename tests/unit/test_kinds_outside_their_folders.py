"""Code that loops over the kinds names none of them, so a new one is nothing but a folder.

code of a file (identifiers, and strings that are no sentences) ──▶ named_kinds() ──▶ none, or a line of ALLOWED

Docstrings and sentences may name a kind as an example: nothing has to be added there for a new one.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from pykruise.kinds import find
from pykruise.plans.kind import Kind
from support.sources import ROOT

PACKAGES: Final = ROOT / "packages"
ROOMS: Final = (
    *(f"pykruise/src/pykruise/{room}" for room in ("admission", "cli", "fixtures", "manager", "plans")),
    "kube/src/pykruise",
    "sandbox/src/pykruise",
)

_SHOWN = "a table of how kinds show themselves"
_INSIGHT = "insight of kinds that own no pods, which look at more than their plan"
_PLAYED = "a play of a SidecarSet's or UnitedDeployment's rollout"
_VIEWS = "views of kinds that several kinds read, which do not know each other"
_NODE = "rules of the node agent, real or simulated"
_CHECKED = "a check of doctor about this kind alone"

ALLOWED: Final[Mapping[str, str]] = {
    "cli/demo.py": "the demo is about a CloneSet",
    "cli/insight/kind_insights.py": _INSIGHT,
    "cli/insight/budgets.py": _INSIGHT,
    "cli/insight/simulating/cluster_copy.py": _PLAYED,
    "cli/insight/simulating/record.py": _PLAYED,
    "cli/insight/simulating/simulation_run.py": _PLAYED,
    "cli/insight/simulating/values.py": _PLAYED,
    "cli/insight/pods.py": _INSIGHT,
    "cli/insight/rejecting_budgets.py": _INSIGHT,
    "cli/insight/sidecars/": _INSIGHT,
    "cli/insight/spreads/": _INSIGHT,
    "cli/insight/unavailability.py": _INSIGHT,
    "cli/insight/united/": _INSIGHT,
    "cli/kubectl/": _SHOWN,
    "cli/playground.py": "nodes of a sandbox are ready at once, which a flag of NodeImages says",
    "cli/simulate.py": _PLAYED,
    "manager/daemon.py": _NODE,
    "manager/doctor/budgets.py": _CHECKED,
    "manager/doctor/images.py": _CHECKED,
    "manager/doctor/kinds.py": "the trial of conversion is made with a CloneSet",
    "manager/doctor/trial.py": "the trial of the webhooks is made with a CloneSet",
    "manager/doctor/webhooks.py": "the trial of the webhooks is made with a CloneSet",
    "manager/monitoring.py": _SHOWN,
    "manager/roles.py": "OpenKruise lets admins of namespaces write ResourceDistributions, and no other wide kind",
    "manager/uninstall.py": _NODE,
    "plans/pre_download.py": _VIEWS,
    "plans/purposes.py": "what a plan's writes are for, in words that every kind shares",
    "plans/targets.py": _VIEWS,
    "plans/views.py": _VIEWS,
}
"""Files, and folders, that name kinds, with the reason. The list must not grow."""

BUILT_IN: Final = frozenset({"StatefulSet", "DaemonSet"})
"""Kinds whose name also exists in Kubernetes: for these, only imports are checked."""


def files() -> Iterator[tuple[str, Path]]:
    """All files of these packages, by their path in the namespace."""
    for room in ROOMS:
        for path in sorted((PACKAGES / room).rglob("*.py")):
            yield str(path.relative_to(PACKAGES).as_posix()).partition("/src/pykruise/")[2], path


@cache
def patterns() -> Mapping[str, re.Pattern[str]]:
    """Patterns of the names of a kind in code (its module, name, constants, resource), by its folder."""
    folders = sorted(path.parent.name for path in PACKAGES.glob("pykruise/src/pykruise/kinds/*/kind.py"))
    return {folder: re.compile("|".join(_words(folder, find(folder)))) for folder in folders}


def _words(folder: str, kind: Kind | None) -> Iterator[str]:
    assert kind is not None
    yield rf"pykruise\.kinds\.{folder}\b"
    if kind.versions and kind.resource.kind not in BUILT_IN:
        name = kind.resource.kind
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name)
        for spelling in (name, name.lower(), snake.upper(), snake.lower()):
            yield rf"(?<![a-zA-Z]){spelling}[sS]?(?![a-zA-Z])"


def code_of(tree: ast.AST) -> Iterator[str]:
    """Identifiers, modules that are imported, and strings that are no sentences."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str() as name):
                yield name
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str() as text) if " " not in text.strip():
                yield text
            case _:
                pass


def named_kinds(path: Path) -> set[str]:
    """Folders of the kinds that a file's code names."""
    text = path.read_text("utf-8")
    plain = text.lower().replace("_", "")
    likely = [folder for folder in patterns() if folder in plain]
    if not likely:
        return set()
    words = "\n".join(code_of(ast.parse(text)))
    return {folder for folder in likely if patterns()[folder].search(words)}


def is_allowed(name: str, entry: str) -> bool:
    return name.startswith(entry) if entry.endswith("/") else name == entry


@cache
def naming() -> Mapping[str, frozenset[str]]:
    """The files that name kinds, with these kinds."""
    return {name: frozenset(result) for name, path in files() if (result := named_kinds(path))}


def test_modules_that_loop_over_the_kinds_name_none() -> None:
    strangers = {
        name: sorted(result)
        for name, result in naming().items()
        if not any(is_allowed(name, entry) for entry in ALLOWED)
    }
    assert strangers == {}


@pytest.mark.parametrize("entry", ALLOWED)
def test_each_exception_is_needed(entry: str) -> None:
    assert any(is_allowed(name, entry) for name in naming())


def test_admission_names_no_kind_at_all() -> None:
    assert [name for name in naming() if name.startswith("admission/")] == []
    assert not any(entry.startswith("admission") for entry in ALLOWED)


def test_exactly_one_class_is_called_reviews() -> None:
    declared = [
        path
        for path in (*PACKAGES.rglob("*.py"), *(ROOT / "tests").rglob("*.py"))
        if re.search(r"^\s*class Reviews\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert [path.name for path in declared] == ["review.py"]
