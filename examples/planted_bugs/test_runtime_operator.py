from pathlib import Path

import pytest
from rules import claim, each_claim_has_a_slot, no_slot_is_given_twice
from runtime_operator import plan, plan_with_bug, work_of

from pykruise.testing.simulation import Simulation, check, create

HERE = Path(__file__).parent


def simulation_of(decide):
    actions = {name: create(claim(name)) for name in ("a", "b", "c")}
    rules = {"always": [no_slot_is_given_twice], "at_rest": [each_claim_has_a_slot]}
    return Simulation(work=[work_of(decide)], manifests=[HERE / "crd.yaml"], actions=actions, **rules)


def test_a_slot_is_given_once():
    check(simulation_of(plan), seeds=20, keep_in=HERE / "found/runtime")


def test_the_planted_bug_is_found():
    with pytest.raises(AssertionError, match="no_slot_is_given_twice"):
        check(simulation_of(plan_with_bug), seeds=1000, keep_in=HERE / "found/runtime")
