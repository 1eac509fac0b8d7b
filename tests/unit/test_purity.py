"""Code that decides reads no clock and no random numbers: kinds/, plans/ and pods/, except the list in pyproject.toml.

import-linter forbids the modules (`kinds, plans and pods are pure but for a list`); calls that it cannot see are found
here, in the syntax tree.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from support.sources import ROOT

SOURCES: Final = ROOT / "packages" / "pykruise" / "src" / "pykruise"
PARTS: Final = ("kinds", "plans", "pods")
NAME: Final = "kinds, plans and pods are pure but for a list"
CLOCKS: Final = frozenset(
    {"now", "utcnow", "today", "time", "monotonic", "perf_counter", "read_system_clock", "make_loop_clock"}
)
HOLDERS: Final = frozenset({"datetime", "date", "time", "loop", "clock"})
"""Names of objects whose `now`, `today` or `time` is the present time."""


def contract() -> Mapping[str, list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (result,) = (contract for contract in contracts if contract["name"] == NAME)
    return dict(result)


def modules() -> Mapping[str, Path]:
    """All modules, by dotted name."""
    files = [file for part in PARTS for file in sorted((SOURCES / part).rglob("*.py"))]
    return {".".join(("pykruise", *file.relative_to(SOURCES).with_suffix("").parts)): file for file in files}


def is_listed(module: str, entry: str) -> bool:
    """Whether the entry (such as `pykruise.kinds.*.readers`) matches the module."""
    parts, wanted = module.removesuffix(".__init__").split("."), entry.split(".")
    return len(parts) == len(wanted) and all(w in ("*", p) for p, w in zip(parts, wanted, strict=True))


def exceptions() -> Mapping[str, Path]:
    entries = {entry.partition(" -> ")[0] for entry in contract()["ignore_imports"]}
    return {
        name: file for name, file in modules().items() if any(is_listed(name, entry) for entry in entries)
    }


def clock_readings(text: str) -> Iterator[str]:
    """Calls and imports that read the present time."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "pykruise.kube.clock":
            yield from (f"{node.lineno}: {name.name}" for name in node.names if name.name in CLOCKS)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        holder = node.func.value
        name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
        if node.func.attr in CLOCKS and name in HOLDERS:
            yield f"{node.lineno}: {name}.{node.func.attr}()"


def chances(text: str) -> Iterator[str]:
    """Uses of `random` and `uuid`, except their types, because the whole process shares these sources."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "random" and node.attr != "Random":
                yield f"{node.lineno}: random.{node.attr}"
            if node.value.id == "uuid" and node.attr != "UUID":
                yield f"{node.lineno}: uuid.{node.attr}"


def test_nothing_that_decides_reads_a_clock() -> None:
    impure = exceptions()
    pure = {name: file for name, file in modules().items() if name not in impure}
    result = {name: list(clock_readings(file.read_text("utf-8"))) for name, file in pure.items()}
    assert {name: readings for name, readings in result.items() if readings} == {}


def test_no_module_draws_from_a_source_that_the_process_shares() -> None:
    result = {name: list(chances(file.read_text("utf-8"))) for name, file in modules().items()}
    assert {name: draws for name, draws in result.items() if draws} == {}


def test_a_module_documented_as_pure_is_not_on_the_list_of_exceptions() -> None:
    docs = {
        name: ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        for name, file in exceptions().items()
    }
    assert [name for name, text in docs.items() if "Pure." in text or "Pure:" in text] == []


def test_everything_in_kinds_plans_and_pods_is_under_the_contract() -> None:
    assert {f"pykruise.{part}" for part in PARTS} <= set(contract()["source_modules"])
    assert {"time", "random", "uuid", "os", "asyncio"} <= set(contract()["forbidden_modules"])


def test_the_list_of_exceptions_names_existing_modules() -> None:
    entries = {entry.partition(" -> ")[0] for entry in contract()["ignore_imports"]}
    assert [entry for entry in sorted(entries) if not any(is_listed(name, entry) for name in modules())] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from datetime import datetime\nx = datetime.now(UTC)", ["2: datetime.now()"]),
        ("import datetime\nx = datetime.date.today()", ["2: date.today()"]),
        ("import time\nx = time.monotonic()", ["2: time.monotonic()"]),
        ("from pykruise.kube.clock import Instant, read_system_clock", ["1: read_system_clock"]),
        ("x = snapshot.now + read.now()", []),
    ],
)
def test_a_reading_of_the_clock_is_found(text: str, expected: list[str]) -> None:
    assert list(clock_readings(text)) == expected


def test_a_shared_source_of_chance_is_found() -> None:
    assert list(chances("import random\nx = random.random()\ny: random.Random")) == ["2: random.random"]
