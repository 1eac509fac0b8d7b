"""Proofs that may detect a mutant, the cheapest first: tests, seeds of the simulation, worlds of the exploration.

tests collected once ──▶ Proof per test, with the lines that it runs ──▶ those that run a mutant's lines are tried

A Proof runs in a copy of a process that has imported and collected everything, so it costs only the test itself.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exploration.explorer import explore
from exploration.scopes import KINDS as EXPLORED
from exploration.scopes import scopes
from exploration.test_exploration import MOST_STATES, SUITE
from mutation.children import LimitError, in_child
from mutation.covering import Lines, tracing
from pykruise.testing.exploration.graph import Graph
from simulation.kinds import GENERATORS, generate
from simulation.world import run

__all__ = ["LEVELS", "Proof", "collect", "covered", "seeds_of", "worlds_of"]

LEVELS = ("unit", "properties", "scenarios", "simulation", "exploration")
SLOWEST_S = 60.0
"""Maximum CPU time of a traced test; a slower one is not used as a proof."""


UNUSED = ("cacheprovider", "xdist", "logging", "stepwise", "junitxml")
"""Plugins of pytest that cost time with each test and change no result."""


class Proof(msgspec.Struct):
    """`is_broken()`: whether it detects the mutant in this process. `cost_s`: its cost without a mutant."""

    level: str
    name: str
    is_broken: Callable[[], bool]
    lines: Lines = {}
    cost_s: float = 0.0


class _Watcher:
    """A plugin that records failures and collected tests."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.has_failed = False
        self.then: Callable[[list[pytest.Item]], None] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Call `then` instead of running the tests."""
        assert self.then is not None
        self.then(session.items)
        return True


def collect(paths: Sequence[str], then: Callable[[list[Proof]], None]) -> None:
    """Collect the tests of these files and folders, and call `then` in pytest's session, which runs no tests itself."""
    watcher = _Watcher()

    def with_items(items: list[pytest.Item]) -> None:
        then([Proof(_level_of(item), item.nodeid, partial(_fails, watcher, item)) for item in items])

    watcher.then = with_items
    options = ["-q", "-s", "--tb=no", "--assert=plain"]
    options += [part for name in UNUSED for part in ("-p", f"no:{name}")]
    ended = pytest.main([*options, *paths], plugins=[watcher])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests cannot be collected: {ended!r}")


def _level_of(item: pytest.Item) -> str:
    parts = item.nodeid.split("/")
    return parts[1] if parts[0] == "tests" else "unit"


def _fails(watcher: _Watcher, item: pytest.Item) -> bool:
    watcher.has_failed = False
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return watcher.has_failed


def seeds_of(generators: Sequence[str], count: int) -> list[Proof]:
    """The first seeds of each generator."""
    return [
        Proof("simulation", f"{generator} {seed}", partial(_breaks, generator, seed))
        for seed in range(count)
        for generator in generators
        if generator in GENERATORS
    ]


def _breaks(generator: str, seed: int) -> bool:
    try:
        return bool(run(generate(seed, generator)).violations)
    except Exception:  # an exception detects the mutant, too
        return True


def worlds_of(kinds: Sequence[str]) -> list[Proof]:
    """The worlds of these kinds that the test suite explores."""
    return [
        Proof("exploration", scope.name, partial(_is_found, scope))
        for kind in kinds
        if kind in EXPLORED
        for scope in scopes(kind, pods=2 if kind == "broadcastjob" else 1)
        if any(name in scope.name for name in SUITE.get(kind, ()))
    ]


def _is_found(scope: Any) -> bool:
    graph = Graph(explore(scope, most_states=MOST_STATES, until_broken=True))
    return bool(graph.broken or graph.stuck() or not graph.rests)


def covered(proofs: Sequence[Proof], files: Sequence[Path]) -> list[Proof]:
    """Proofs that run lines of these files, with these lines. Raises an error if one fails without a mutant."""
    names = {str(file) for file in files}

    def look() -> list[tuple[int, Lines, float, bool]]:
        result = []
        for index, proof in enumerate(proofs):
            begun = time.process_time()
            with tracing(names) as lines:
                is_broken = proof.is_broken()
            if lines or is_broken:
                result.append((index, lines, time.process_time() - begun, is_broken))
        return result

    try:
        answers = in_child(look, cpu_s=SLOWEST_S + 5 * len(proofs))
    except LimitError as error:
        raise SystemExit("the tests themselves do not end") from error
    broken = [proofs[index].name for index, _, _, is_broken in answers if is_broken]
    if broken:
        print("left out, for they fail without any mutant:", *broken, sep="\n  ", flush=True)
    for index, lines, cost_s, _ in answers:
        proofs[index].lines, proofs[index].cost_s = lines, cost_s
    return [proofs[index] for index, lines, _, is_broken in answers if lines and not is_broken]
