"""Rollouts as Argo CD shows them, with the scripts of `pykruise manifests argocd`, at every moment of them."""

from collections.abc import Sequence

import pytest

from pykruise.kinds import shown_of
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.manager.lua_health import build_health_script
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.lua import run_lua
from support.scenario import Object, Stage, cloneset, rolling
from support.statefulsets import Sets
from support.stored_states import stored_states
from support.uniteddeployments import NAME, United

pytestmark = pytest.mark.sandbox_only

WITH_CONDITIONS = pytest.mark.parametrize("is_ours", [True, False], ids=["conditions", "as OpenKruise"])
"""OpenKruise's manager writes a status without our conditions."""


def shown(moments: Sequence[Object]) -> list[str]:
    """The healths that Argo CD showed one after another, without repetitions."""
    shown: list[str] = []
    for moment in moments:
        how = shown_of(moment)
        assert how is not None
        said = run_lua(build_health_script(how), moment)["status"]
        if not shown or shown[-1] != said:
            shown.append(said)
    return shown


async def comes_to(stage: Stage, wanted: str, kind: object = CLONE_SETS, name: str = "web") -> None:
    async def is_there() -> bool:
        return shown([await stage.get(name, resource=kind)]) == [wanted]  # type: ignore[arg-type]

    await stage.until(is_there, what=f"{name} is {wanted}")


@WITH_CONDITIONS
async def test_a_rollout_of_a_cloneset_is_progressing_until_it_is_healthy(
    stage: Stage, is_ours: bool
) -> None:
    # given
    await stage.start_manager(settings=ManagerSettings(ready_conditions=is_ours))
    async with stored_states(stage, CLONE_SETS) as seen:
        # when
        await stage.create(cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1)))
        await stage.settled(replicas=5)
        await comes_to(stage, "Healthy")
        changed = await stage.set_image("web", "nginx:2")
        await stage.settled(replicas=5)
        await comes_to(stage, "Healthy")
        # then
        assert shown(seen.since("web", changed["metadata"]["generation"])) == ["Progressing", "Healthy"]
        # when
        await stage.scale("web", 0)
        await stage.settled(replicas=0)
        await comes_to(stage, "Healthy")
        # then it was never anything else
        assert set(shown(seen.of("web"))) == {"Progressing", "Healthy"}
        assert shown(seen.of("web"))[0] == "Progressing"


@WITH_CONDITIONS
async def test_a_rollout_that_stops_at_its_partition_is_suspended(stage: Stage, is_ours: bool) -> None:
    # given
    await stage.start_manager(settings=ManagerSettings(ready_conditions=is_ours))
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=4)
    await comes_to(stage, "Healthy")
    async with stored_states(stage, CLONE_SETS) as seen:
        # when
        await stage.set_image("web", "nginx:2", updateStrategy=rolling(partition="50%", maxUnavailable=1))
        await stage.settled(replicas=4, updated=2)
        await comes_to(stage, "Suspended")
        await stage.merge("web", {"spec": {"updateStrategy": rolling(partition=0)}})
        await comes_to(stage, "Healthy")
        # then
        assert shown(seen.of("web")) == ["Healthy", "Progressing", "Suspended", "Progressing", "Healthy"]


async def test_a_rollout_beyond_its_deadline_is_degraded(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=2, progressDeadlineSeconds=60))
    await comes_to(stage, "Healthy")
    stage.kubelets.set_rules([Rule(image="nginx:broken", image_pull_error=True)])
    await stage.set_image("web", "nginx:broken")
    await comes_to(stage, "Degraded")


@WITH_CONDITIONS
async def test_a_statefulset_is_progressing_until_it_is_healthy(stage: Stage, is_ours: bool) -> None:
    sets = Sets(stage)
    await stage.start_manager(settings=ManagerSettings(ready_conditions=is_ours))
    async with stored_states(stage, ADVANCED_STATEFUL_SETS) as seen:
        await sets.create(replicas=3)
        await comes_to(stage, "Healthy", ADVANCED_STATEFUL_SETS)
        changed = await sets.set_image("nginx:2")
        await sets.settled(replicas=3)
        await comes_to(stage, "Healthy", ADVANCED_STATEFUL_SETS)
        assert shown(seen.since("web", changed["metadata"]["generation"])) == ["Progressing", "Healthy"]


@WITH_CONDITIONS
async def test_a_daemonset_is_progressing_until_it_is_healthy(
    stage: Stage, pool: Pool, is_ours: bool
) -> None:
    await stage.start_manager(settings=ManagerSettings(ready_conditions=is_ours))
    async with stored_states(stage, DAEMON_SETS) as seen:
        await pool.create()
        await comes_to(stage, "Healthy", DAEMON_SETS)
        changed = await pool.set_image("nginx:2")
        await pool.settled()
        await comes_to(stage, "Healthy", DAEMON_SETS)
        assert shown(seen.since("web", changed["metadata"]["generation"])) == ["Progressing", "Healthy"]


@WITH_CONDITIONS
async def test_a_uniteddeployment_is_progressing_until_it_is_healthy(
    stage: Stage, pool: Pool, is_ours: bool
) -> None:
    united = United(stage, pool)
    await united.label_nodes()
    await stage.start_manager(settings=ManagerSettings(ready_conditions=is_ours))
    async with stored_states(stage, UNITED_DEPLOYMENTS) as seen:
        await united.create(replicas=4)
        await united.settled(a=2, b=2)
        await comes_to(stage, "Healthy", UNITED_DEPLOYMENTS, NAME)
        changed = await united.set_image("nginx:2")
        await united.settled(a=2, b=2)
        await comes_to(stage, "Healthy", UNITED_DEPLOYMENTS, NAME)
        assert shown(seen.since(NAME, changed["metadata"]["generation"])) == ["Progressing", "Healthy"]


async def test_counts_that_the_scripts_of_argo_cd_need_exist_although_they_are_zero(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=0))
    await comes_to(stage, "Healthy")
    status = await stage.status()
    assert (status["updatedAvailableReplicas"], status["expectedUpdatedReplicas"]) == (0, 0)
    # and a CloneSet whose pods start is not Degraded, which would fail a sync
    stage.kubelets.set_rules([Rule(image="nginx:1", start_s=60.0)])
    await stage.scale("web", 1)

    async def is_starting() -> bool:
        return bool((await stage.status()).get("replicas") == 1)

    await stage.until(is_starting, what="its pod starts")
    assert "updatedAvailableReplicas" not in await stage.status()
