from functools import partial
from pathlib import Path

import pytest
from kopf_operator import main
from rules import a_claim_has_one_volume, claim, each_claim_has_a_volume

from pykruise.testing.simulation import Simulation, check, create
from pykruise.testing.simulation.over_http import make_thread_runner, player_of

HERE = Path(__file__).parent
SIMULATION = Simulation(
    manifests=[HERE / "crd.yaml"],
    actions={"create": create(claim("web"))},
    always=[a_claim_has_one_volume],
    at_rest=[each_claim_has_a_volume],
    faults=["answer lost", "request lost", "conflict"],
    faulty_paths=["/persistentvolumeclaims"],
    controllers=(),
    nodes=0,
    length_s=3.0,
)


def test_a_claim_gets_one_volume():
    play = player_of(make_thread_runner(main), patience_s=10)
    check(SIMULATION, seeds=3, play=play, keep_in=HERE / "found/kopf")


def test_the_planted_bug_is_found():
    play = player_of(make_thread_runner(partial(main, has_bug=True)), patience_s=5)
    with pytest.raises(AssertionError, match="a_claim_has_one_volume"):
        check(SIMULATION, seeds=60, play=play, keep_in=HERE / "found/kopf", most_runs=12)
