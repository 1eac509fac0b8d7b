from functools import partial
from pathlib import Path

import pytest
from kr8s_operator import main
from rules import CLAIMS, claim, each_claim_has_a_volume, no_volume_is_left

from pykruise.testing.simulation import Simulation, check, create, delete
from pykruise.testing.simulation.over_http import make_thread_runner, player_of

HERE = Path(__file__).parent
SIMULATION = Simulation(
    manifests=[HERE / "crd.yaml"],
    actions={"create": create(claim("web")), "delete": delete(CLAIMS, "web")},
    at_rest=[each_claim_has_a_volume, no_volume_is_left],
    faults=["crash", "cut"],
    controllers=("claims",),
    nodes=0,
    length_s=3.0,
)


def test_a_volume_is_deleted_with_its_claim():
    play = player_of(make_thread_runner(main), patience_s=10)
    check(SIMULATION, seeds=3, play=play, keep_in=HERE / "found/kr8s")


def test_the_planted_bug_is_found():
    play = player_of(make_thread_runner(partial(main, has_bug=True)), patience_s=5)
    with pytest.raises(AssertionError, match="no_volume_is_left"):
        check(SIMULATION, seeds=60, play=play, keep_in=HERE / "found/kr8s", most_runs=12)
