from functools import partial
from pathlib import Path

import pytest
from asyncio_operator import main
from rules import claim, each_claim_has_a_slot, no_slot_is_given_twice

from pykruise.testing.simulation import Simulation, check, create
from pykruise.testing.simulation.over_http import make_thread_runner, player_of

HERE = Path(__file__).parent
SIMULATION = Simulation(
    manifests=[HERE / "crd.yaml"],
    actions={name: create(claim(name)) for name in ("a", "b", "c")},
    always=[no_slot_is_given_twice],
    at_rest=[each_claim_has_a_slot],
    faults=["slow", "answer lost", "conflict"],
    faulty_paths=["/status"],
    controllers=(),
    nodes=0,
    length_s=3.0,
)


def test_a_slot_is_given_once():
    play = player_of(make_thread_runner(main), patience_s=10)
    check(SIMULATION, seeds=3, play=play, keep_in=HERE / "found/asyncio")


def test_the_planted_bug_is_found():
    play = player_of(make_thread_runner(partial(main, has_bug=True)), patience_s=5)
    with pytest.raises(AssertionError, match="no_slot_is_given_twice"):
        check(SIMULATION, seeds=60, play=play, keep_in=HERE / "found/asyncio", most_runs=12)
