"""What `pykruise switch-over check` says of a cluster whose manager has ended, and that it writes nothing."""

from typing import Any

import pytest

from pykruise.cli.switch_over import report_lines
from pykruise.kinds import in_stored_versions
from pykruise.kinds.gates import Gates
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.metered import MeteredTransport
from pykruise.manager.settings import Settings
from pykruise.manager.switch_over import SwitchReport, check_switch
from support.daemonsets import Pool
from support.scenario import Stage, cloneset
from support.uniteddeployments import CLONE_SET, NAME, United


@pytest.fixture
async def united(stage: Stage, pool: Pool) -> United:
    found = United(stage, pool, CLONE_SET)
    await found.label_nodes()
    return found


async def checked(stage: Stage) -> tuple[SwitchReport, list[str]]:
    """The report, and the requests that were no reads."""
    metered = MeteredTransport(stage.client.transport)
    client = stage.client.over(in_stored_versions(metered))
    report = await check_switch(client, now=stage.clock(), settings=Settings(gates=Gates()))
    writes = [what for what in metered.requests if not what.startswith(("GET", "WATCH"))]
    return report, writes


async def test_at_rest_no_pod_would_be_touched(stage: Stage, united: United) -> None:
    # given workloads at rest, and no manager
    await stage.start_manager()
    await united.create(replicas=4)
    await stage.create(cloneset("shop", replicas=4))
    await united.settled(a=2, b=2)
    await stage.settled("shop", replicas=4)
    await stage.stop_manager()
    # when
    report, writes = await checked(stage)
    # then
    assert (report.pods, list(report.writes), writes) == (frozenset(), [], [])
    assert report.is_safe
    assert next(iter(report_lines(report))) == "0 pods would be touched."


async def test_a_revision_that_would_be_another_is_named_with_its_united_deployment(
    stage: Stage, united: United
) -> None:
    # given a template that no stored revision has
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await stage.stop_manager()
    change: Any = {"spec": {"template": {CLONE_SET: {"spec": {"minReadySeconds": 7}}}}}
    await stage.merge(NAME, change, resource=UNITED_DEPLOYMENTS)
    # when
    report, writes = await checked(stage)
    # then
    assert writes == []
    assert not report.is_safe
    assert {write.owner for write in report.writes} == {f"{stage.namespace}/{NAME}"}
    assert len(report.pods) == 4
    text = "\n".join(report_lines(report))
    assert f"UnitedDeployment {stage.namespace}/{NAME}: patch CloneSet" in text


async def test_pods_of_a_rollout_that_goes_on_are_counted(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    await stage.stop_manager()
    await stage.set_image("web", "nginx:2")
    report, _ = await checked(stage)
    assert report.pods
    assert {write.verb for write in report.writes} >= {"create", "delete"}
