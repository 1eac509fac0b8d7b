import importlib, sys
import pytest
from pykruise.sandbox.cluster import ClusterSettings
from support.scenario import Stage
from support.situations.world import KINDS, World, with_agents

sys.path.insert(0, "/tmp/notes/a56")
import scratch_cases

pytestmark = pytest.mark.sandbox_only


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


@pytest.mark.parametrize("case", scratch_cases.CASES, ids=lambda c: c.__name__)
async def test_scratch(stage: Stage, case) -> None:
    world = World(stage)
    await world.start()
    targets = await case(world)
    await world.wait()
    with open("/tmp/notes/a56/out.txt", "a") as out:
        print(f"##### {case.__name__}", file=out)
        for target in targets:
            kind, _, name = target.partition("/")
            e = await world.explained(KINDS[kind], name)
            m = world.phase_in_metrics(KINDS[kind], name)
            print(await world.text(e), f"[{e.verdict} {e.phase} metric={m}]\n", file=out)
