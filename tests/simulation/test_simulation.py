"""Seeds that are played in every test run, and every script that once failed.

`make simulate SEEDS=100000` plays more; docs/lab/simulation.md describes how to replay a seed.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation.__main__ import show
from simulation.kinds import GENERATORS, PLAIN, generate
from simulation.mutations import EVERYTHING, MUTATIONS, mutated
from simulation.script import FOUND, Script, from_json, to_json
from simulation.shrinking import shrink
from simulation.world import run

KINDS = sorted(GENERATORS.keys() - {"blind"})
SEEDS = 2
"""Number of seeds of each kind, and one more whose trace is compared. Every run plays the same seeds; `make simulate`
plays thousands of others."""
IN_PORTIONS = 1
"""Number of seeds of each kind whose lists are read in portions: all kinds read lists in the same way."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Faults are intended, so the log about them has no meaning."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("kind", KINDS)
def test_no_invariant_is_violated_in_any_simulation(kind: str) -> None:
    for seed in range(SEEDS):
        outcome = run(generate(seed, kind))
        assert not outcome.violations, f"seed {seed}: {outcome.violations[0]}"


@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_is_broken_by_a_manager_that_reads_in_portions(kind: str) -> None:
    scripts = [generate(seed, kind) for seed in range(PLAIN + 1, PLAIN + 2 * IN_PORTIONS, 2)]
    assert all(script.reads_in_portions for script in scripts)
    for script in scripts:
        outcome = run(script)
        assert not outcome.violations, f"seed {script.seed}: {outcome.violations[0]}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_formerly_found_failures_stay_fixed(path: Path) -> None:
    outcome = run(from_json(path.read_bytes()))
    assert not outcome.violations, str(outcome.violations[0])


def test_a_seed_gives_the_same_trace_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Hashes of strings and objects differ between processes, so no order may depend on them."""
    # given
    options = ["--first", "7", "--seeds", "1", "--trace", "--kind", *KINDS]
    path = os.pathsep.join(str(folder) for folder in sys.path if folder)
    # when
    elsewhere = subprocess.run(
        [sys.executable, "-m", "simulation", *options],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # then
    assert elsewhere.count("virtual seconds") == len(KINDS)
    for kind in KINDS:
        script = generate(7, kind)
        outcome = run(script)
        assert not outcome.violations, f"{kind}: {outcome.violations[0]}"
        print(to_json(script))
        show(outcome, trace=True)
    assert capsys.readouterr().out == elsewhere


def test_a_script_survives_being_written_down() -> None:
    assert from_json(to_json(generate(11))) == generate(11)


def test_every_mutation_applies_to_existing_code() -> None:
    for changes in EVERYTHING.values():
        with mutated(changes):
            pass


def test_a_broken_rule_is_caught_replays_and_shrinks() -> None:
    """`make simulate-mutations` does this with every mutation."""
    with mutated(MUTATIONS["one pod too many is created"]):
        # given the first seed that fails
        failing = next(script for script in map(generate, range(100)) if run(script).violations)
        rule = run(failing).rule
        # when
        short = shrink(failing, rule, most_runs=20)
        # then it fails in the same way, and with less
        assert run(short).rule == rule
        assert _size(short) < _size(failing)
    assert not run(short).violations


def _size(script: Script) -> int:
    return len(to_json(script))
