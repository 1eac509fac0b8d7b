"""Operators with other clients, simulated over HTTPS: here the kopf operator of examples/planted_bugs."""

from functools import partial
from typing import Any

import pytest

from pykruise.testing.simulation import Fault, SimulatedOperation, Simulation, SimulationScript, create, hunt
from pykruise.testing.simulation.network import STREAM_FAULTS
from pykruise.testing.simulation.over_http import HTTP_FAULTS, make_thread_runner, player_of
from support.programs import EXAMPLES, load_program

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # warnings of kopf and the official client
]

HERE = EXAMPLES / "planted_bugs"
RULES = load_program(HERE / "rules.py")
VOLUMES, CLAIMS = "/persistentvolumeclaims", "/ephemeralvolumeclaims"


def run_kopf(*, has_bug: bool = False) -> Any:
    return make_thread_runner(partial(load_program(HERE / "kopf_operator.py").main, has_bug=has_bug))


def simulation_of(*faults: str) -> Simulation:
    return Simulation(
        manifests=[HERE / "crd.yaml"],
        actions={"create": create(RULES.claim("web"))},
        always=[RULES.a_claim_has_one_volume],
        at_rest=[RULES.each_claim_has_a_volume],
        faults=faults,
        faulty_paths=[VOLUMES],
        nodes=0,
        controllers=(),
        length_s=1.5,
    )


def test_a_volume_that_kopf_creates_twice_is_found() -> None:
    failure = hunt(
        simulation_of("answer lost", "conflict", "request lost"),
        seeds=60,
        play=player_of(run_kopf(has_bug=True), quiet_s=1.0),
        most_runs=6,
    )
    assert failure is not None
    assert failure.outcome.rule == "a_claim_has_one_volume"
    assert "answer lost" in {fault.kind for fault in failure.script.faults}


@pytest.mark.parametrize("kind", HTTP_FAULTS)
def test_an_operator_whose_creation_has_a_name_survives_every_kind_of_fault(kind: str) -> None:
    path = CLAIMS if kind in STREAM_FAULTS else VOLUMES
    fault = Fault(0.0, kind, path, count=1, seconds=0.3)
    script = SimulationScript(seed=0, operations=(SimulatedOperation(0.2, "create"),), faults=(fault,))
    outcome = player_of(run_kopf(), quiet_s=0.8)(simulation_of(), script)
    assert not outcome.violations, outcome.violations[0]


async def end(_: str) -> None:
    raise ValueError("bug")


def test_an_operator_that_ends_is_started_again() -> None:
    lives: list[str] = []

    async def main(kubeconfig: str) -> None:
        lives.append(kubeconfig)
        await end(kubeconfig)

    script = SimulationScript(seed=0, operations=(SimulatedOperation(0.1, "create"),))
    play = player_of(make_thread_runner(main, restart_s=0.01), quiet_s=0.1, patience_s=0.1)
    outcome = play(simulation_of(), script)
    assert outcome.rule == "each_claim_has_a_volume"
    assert len(lives) > 2
