"""pykruise does what OpenKruise's own manager was recorded to do; where it does not, the scenario says why.

tests/recorded_original describes the recordings.
"""

import asyncio

import msgspec
import pytest

from pykruise.agent.simulated import make_simulated_agents
from pykruise.kinds.gates import parse
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from recorded_original.comparing import surprises
from recorded_original.language import Group, Scenario
from recorded_original.lonely_writes import LonelyWrites
from recorded_original.playing import Outcome, Player
from recorded_original.recordings import RELEASES, read
from recorded_original.scenarios import GATES, GROUPS
from support.scenario import Stage

pytestmark = pytest.mark.virtual_time("a real control plane is what was recorded")

RECORDED_KUBELET = KubeletSettings(start_jitter=0.0)

NODE_OBJECTS_AFTER_S = 30.0
"""Seconds until the manager has created its objects for each node, as in a cluster that has run for a while."""


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Nodes with the node agent, as they were during the recording."""
    kubelet = msgspec.structs.replace(
        RECORDED_KUBELET,
        lease_s=cluster_settings.kubelet.lease_s,
        heartbeat_s=cluster_settings.kubelet.heartbeat_s,
    )
    return msgspec.structs.replace(
        cluster_settings,
        kubelet=kubelet,
        agents=make_simulated_agents(),
        start_s=None,
        ready_s=None,
        stop_s=None,
        controllers=None,
        collected=None,
    )


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.kind)
@pytest.mark.parametrize("release", RELEASES)
async def test_pykruise_does_what_the_original_does(
    request: pytest.FixtureRequest, release: str, group: Group, stage: Stage
) -> None:
    # given what the release's manager did
    recorded = read(release, group.kind)
    version = RELEASES[release]
    scenarios = [scenario for scenario in group.scenarios if scenario.is_played_in(version)]
    if not scenarios:
        pytest.skip("no scenario can be written in the older version")
    if request.config.getoption("--stored") == "v1alpha1" != version:
        pytest.skip("its release serves the newer version")
    # when pykruise gets the same to do
    transport = LonelyWrites(stage.manager_transport(), prefix="recorded-", clock=stage.clock)
    await stage.start_manager(transport, settings=ManagerSettings(gates=parse([GATES])))
    await asyncio.sleep(NODE_OBJECTS_AFTER_S)
    player = Player(stage.client, group, version=version, prefix="recorded-", clock=stage.clock)
    at_once = asyncio.Semaphore(1 if group.one_by_one else len(scenarios))
    outcomes = await asyncio.gather(*(_play(player, scenario, at_once) for scenario in scenarios))
    played = {scenario.name: outcome for scenario, outcome in zip(scenarios, outcomes, strict=True)}
    # then the outcome is the same, but for differences that are declared
    assert not (lines := surprises(group, recorded, played, version=version)), "\n".join(lines)
    # and no write changes only pykruise's own fields, because it could cause a conflict in a client's update
    assert not transport.seen


async def _play(player: Player, scenario: Scenario, at_once: asyncio.Semaphore) -> Outcome:
    async with at_once:
        return await player.play(scenario)
