"""UnitedDeployments on a cluster: pods of all four kinds of workload are divided among zones, in and out of rollouts,
failures and restarts."""

import pytest

from pykruise.kinds.uniteddeployment.workloads import CLONE_SET
from support.daemonsets import Pool
from support.scenario import Stage
from support.uniteddeployments import ALL_TEMPLATES, United


@pytest.fixture
async def united(stage: Stage, pool: Pool, request: pytest.FixtureRequest) -> United:
    """Two zones."""
    found = United(stage, pool, getattr(request, "param", CLONE_SET))
    await found.label_nodes()
    return found


every_template = pytest.mark.parametrize("united", ALL_TEMPLATES, indirect=True)


@every_template
async def test_each_zone_gets_its_part_and_a_new_template_reaches_all(stage: Stage, united: United) -> None:
    """uniteddeployment cases 18, 37"""
    await stage.start_manager()

    await united.create(replicas=5)
    await united.settled(a=2, b=3)
    assert await united.where() == {"a": 2, "b": 3}

    await united.set_image("nginx:2")
    await united.settled(a=2, b=3)
    assert await united.images() == {("a", "nginx:2"): 2, ("b", "nginx:2"): 3}
