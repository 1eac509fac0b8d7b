"""Flux, Helm and `kubectl wait` wait for workloads: at every moment of a rollout they see the true state."""

import asyncio
from collections.abc import Sequence

import pytest

from pykruise.kinds import find_kind
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.nodes.faults import Rule
from support.daemonsets import Pool
from support.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, condition, kstatus
from support.scenario import Object, Stage, cloneset, rolling
from support.sidecarsets import container, sidecarset
from support.statefulsets import Sets
from support.stored_states import stored_states
from support.uniteddeployments import NAME, United


def phases(moments: Sequence[Object]) -> list[str]:
    """The statuses that kstatus returned one after another, without repetitions and without moments before the first
    conditions."""
    phases: list[str] = []
    for moment in moments:
        if (moment.get("status") or {}).get("conditions") and (not phases or phases[-1] != kstatus(moment)):
            phases.append(kstatus(moment))
    return phases


def assert_whole(moments: Sequence[Object]) -> None:
    """Check that Ready always exists, and that Reconciling or Stalled exists exactly while Ready is False."""
    for moment in moments:
        if not (moment.get("status") or {}).get("conditions"):
            continue
        ready, reconciling, stalled = (
            condition(moment, kind) for kind in ("Ready", "Reconciling", "Stalled")
        )
        assert ready is not None, moment["status"]
        assert (ready["status"] == "False") == ((reconciling is None) != (stalled is None)), moment["status"]
        for each in (reconciling, stalled):
            assert each is None or (each["status"], each["reason"]) == ("True", ready["reason"])


async def is_now(stage: Stage, wanted: str, resource: Resource = CLONE_SETS, name: str = "web") -> Object:
    """Wait until kstatus returns this status for the object."""

    async def says_so() -> Object | None:
        outcome = await stage.get(name, resource=resource)
        return outcome if condition(outcome, "Ready") is not None and kstatus(outcome) == wanted else None

    result: Object = await stage.until(says_so, what=f"{resource.kind} {name} is {wanted}")
    return result


async def test_a_cloneset_is_current_exactly_when_it_is_as_its_spec_wants_it(stage: Stage) -> None:
    # given
    await stage.start_manager()
    async with stored_states(stage, CLONE_SETS) as seen:
        await stage.create(cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1)))
        await is_now(stage, CURRENT)
        assert phases(seen.of("web")) == [IN_PROGRESS, CURRENT]
        # when
        changed = await stage.set_image("web", "nginx:2")
        await stage.settled(replicas=5)
        await is_now(stage, CURRENT)
        # then
        during = seen.since("web", changed["metadata"]["generation"])
        assert phases(during) == [IN_PROGRESS, CURRENT]
        for entry in during:
            if kstatus(entry) == CURRENT:
                assert entry["status"]["updatedAvailableReplicas"] == 5
        assert_whole(seen.of("web"))


async def test_a_partition_that_is_reached_is_current_and_lowering_it_is_progress(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=4)
    async with stored_states(stage, CLONE_SETS) as seen:
        # when
        await stage.set_image("web", "nginx:2", updateStrategy=rolling(partition=2, maxUnavailable=1))
        await stage.settled(replicas=4, updated=2)
        result = await is_now(stage, CURRENT)
        # then
        ready = condition(result, "Ready")
        assert ready is not None
        assert ready["reason"] == "Partition"
        # when
        await stage.merge("web", {"spec": {"updateStrategy": rolling(partition=0)}})
        await stage.settled(replicas=4)
        await is_now(stage, CURRENT)
        # then
        assert phases(seen.of("web")) == [CURRENT, IN_PROGRESS, CURRENT, IN_PROGRESS, CURRENT]
        assert_whole(seen.of("web"))


async def test_a_paused_rollout_is_current(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await is_now(stage, CURRENT)
    await stage.set_image("web", "nginx:2", updateStrategy=rolling(paused=True))

    async def is_paused() -> bool:
        ready = condition(await is_now(stage, CURRENT), "Ready")
        return ready is not None and ready["reason"] == "Paused"

    await stage.until(is_paused, what="paused")


async def test_no_replicas_are_current(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=0))
    await is_now(stage, CURRENT)


@pytest.mark.virtual_time("a deadline of a minute")
async def test_an_overdue_rollout_has_failed_until_it_is_corrected(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2, progressDeadlineSeconds=60))
    await is_now(stage, CURRENT)
    async with stored_states(stage, CLONE_SETS) as seen:
        # when
        stage.kubelets.set_rules([Rule(image="nginx:broken", image_pull_error=True)])
        await stage.set_image("web", "nginx:broken")
        result = await is_now(stage, FAILED)
        # then
        stalled = condition(result, "Stalled")
        assert stalled is not None
        assert stalled["reason"] == "ProgressDeadlineExceeded"
        # when
        await stage.set_image("web", "nginx:2")
        await is_now(stage, CURRENT)
        # then
        assert phases(seen.of("web")) == [CURRENT, IN_PROGRESS, FAILED, IN_PROGRESS, CURRENT]
        assert_whole(seen.of("web"))


async def test_an_object_that_is_deleted_is_terminating(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await is_now(stage, CURRENT)
    async with stored_states(stage, CLONE_SETS) as seen:
        await stage.delete("web", propagation="Foreground")
        await stage.until(lambda: _is_gone(stage), what="it is gone")
        assert phases(seen.of("web"))[-1] == TERMINATING
        assert_whole(seen.of("web"))


async def _is_gone(stage: Stage) -> bool:
    return not await stage.exists("web")


@pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])
async def test_a_statefulset_is_current_when_it_has_converged(stage: Stage, parallel: bool) -> None:
    # given
    sets = Sets(stage)
    await stage.start_manager()
    async with stored_states(stage, ADVANCED_STATEFUL_SETS) as seen:
        await sets.create(replicas=3, parallel=parallel)
        await is_now(stage, CURRENT, ADVANCED_STATEFUL_SETS)
        # when
        changed = await sets.set_image("nginx:2")
        await sets.settled(replicas=3)
        await is_now(stage, CURRENT, ADVANCED_STATEFUL_SETS)
        # then
        assert phases(seen.since("web", changed["metadata"]["generation"])) == [IN_PROGRESS, CURRENT]
        assert_whole(seen.of("web"))


async def test_a_daemonset_is_current_when_it_has_converged(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    async with stored_states(stage, DAEMON_SETS) as seen:
        await pool.create()
        await is_now(stage, CURRENT, DAEMON_SETS)
        # when
        changed = await pool.set_image("nginx:2")
        await pool.settled()
        await is_now(stage, CURRENT, DAEMON_SETS)
        # then
        assert phases(seen.since("web", changed["metadata"]["generation"])) == [IN_PROGRESS, CURRENT]
        assert_whole(seen.of("web"))


async def test_a_uniteddeployment_is_current_when_its_subsets_are(stage: Stage, pool: Pool) -> None:
    # given
    united = United(stage, pool)
    await united.label_nodes()
    await stage.start_manager()
    async with stored_states(stage, UNITED_DEPLOYMENTS) as seen:
        await united.create(replicas=4)
        await united.settled(a=2, b=2)
        await is_now(stage, CURRENT, UNITED_DEPLOYMENTS, NAME)
        # when
        changed = await united.set_image("nginx:2")
        await united.settled(a=2, b=2)
        await is_now(stage, CURRENT, UNITED_DEPLOYMENTS, NAME)
        # then
        during = seen.since(NAME, changed["metadata"]["generation"])
        assert phases(during) == [IN_PROGRESS, CURRENT]
        for entry in during:
            if kstatus(entry) == CURRENT:
                assert entry["status"]["updatedReadyReplicas"] == 4
        # when it shrinks
        await united.scale(2)
        await united.settled(a=1, b=1)
        result = await is_now(stage, CURRENT, UNITED_DEPLOYMENTS, NAME)
        assert result["status"]["replicas"] == 2
        assert_whole(seen.of(NAME))


async def test_partitions_of_subsets_that_are_reached_are_current(stage: Stage, pool: Pool) -> None:
    # given
    united = United(stage, pool)
    await united.label_nodes()
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    # when
    held = {"type": "Manual", "manualUpdate": {"partitions": {"a": 0, "b": 2}}}
    await united.set_image("nginx:2", updateStrategy=held)

    async def is_reached() -> bool:
        result = await is_now(stage, CURRENT, UNITED_DEPLOYMENTS, NAME)
        ready = condition(result, "Ready")
        return ready is not None and ready["reason"] == "Partition"

    # then
    await stage.until(is_reached, what="the partition is reached")
    assert await united.images() == {("a", "nginx:2"): 2, ("b", "nginx:1"): 2}


async def _upgrade(stage: Stage) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    doc = sidecarset("log", container("log", "log:1"))
    await stage.create({**doc, "spec": {"namespaceSelector": selector, **doc["spec"]}}, resource=SIDECAR_SETS)
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    await stage.merge("log", {"spec": {"containers": [container("log", "log:2")]}}, resource=SIDECAR_SETS)

    async def is_upgraded() -> bool:
        status = (await stage.get("log", resource=SIDECAR_SETS)).get("status") or {}
        return bool(status.get("updatedReadyPods") == 3 and status.get("observedGeneration", 0) > 1)

    await stage.until(is_upgraded, what="all pods have the new sidecar")


async def test_a_sidecarset_is_current_when_its_pods_run_the_new_sidecars(stage: Stage) -> None:
    # given
    await stage.start_manager()
    async with stored_states(stage, SIDECAR_SETS) as seen:
        # when
        await _upgrade(stage)
        sidecars = await is_now(stage, CURRENT, SIDECAR_SETS, "log")
        # then
        assert phases(seen.since("log", sidecars["metadata"]["generation"])) == [IN_PROGRESS, CURRENT]
        assert_whole(seen.of("log"))
        ready = condition(sidecars, "Ready")
        assert ready is not None
        assert ready["observedGeneration"] == sidecars["metadata"]["generation"] == 2


@pytest.mark.sandbox_only  # it changes a definition
async def test_a_definition_without_conditions_costs_one_write(stage: Stage) -> None:
    """OpenKruise's definition of SidecarSets has none."""
    # given
    crd = find_kind("sidecarset").build_crd(lambda _: {})
    assert crd is not None
    for version in crd["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    await stage.client.patch(
        CUSTOM_RESOURCE_DEFINITIONS,
        "",
        crd["metadata"]["name"],
        {"spec": {"versions": crd["spec"]["versions"]}},
        patch_type=PatchType.MERGE,
    )
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    # when
    await _upgrade(stage)
    before = metered.requests["PATCH sidecarsets/status"]
    await stage.merge("log", {"metadata": {"annotations": {"is": "seen"}}}, resource=SIDECAR_SETS)
    await asyncio.sleep(stage.long_s)
    # then
    assert metered.requests["PATCH sidecarsets/status"] == before
    assert "conditions" not in (await stage.get("log", resource=SIDECAR_SETS))["status"]


@pytest.mark.virtual_time("writes are counted for minutes")
@pytest.mark.parametrize("budget", [1, 3], ids=["one-by-one", "in-batches"])
async def test_the_kstatus_conditions_cost_no_extra_write(stage: Stage, budget: int) -> None:
    # given two equal rollouts one after another, the second with the kstatus conditions
    writes = {}
    for is_on in (False, True):
        name = f"web-{is_on}".lower()
        metered = MeteredTransport(stage.manager_transport())
        await stage.start_manager(metered, settings=ManagerSettings(ready_conditions=is_on))
        await stage.create(cloneset(name, replicas=9, updateStrategy=rolling(maxUnavailable=budget)))
        await stage.settled(name, replicas=9)
        await stage.set_image(name, "nginx:2")
        await stage.settled(name, replicas=9)
        await asyncio.sleep(60)
        writes[is_on] = metered.requests["PATCH clonesets/status"]
        # then only the second CloneSet has the conditions
        assert (condition(await stage.get(name), "Ready") is not None) == is_on
        await stage.delete(name)
        await stage.kill_manager()
    # and its status was written no more often
    assert writes[True] <= writes[False]


@pytest.mark.virtual_time("writes are counted for minutes")
async def test_a_status_of_the_original_is_completed_by_one_write(stage: Stage) -> None:
    # given a status of OpenKruise's manager, which has no such conditions
    await stage.start_manager(settings=ManagerSettings(ready_conditions=False))
    await stage.create(cloneset(replicas=3))
    before = await stage.settled(replicas=3)
    await asyncio.sleep(60)
    await stage.kill_manager()
    # when
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    result = await is_now(stage, CURRENT)
    await asyncio.sleep(60)
    # then
    writes = {
        name: count for name, count in metered.requests.items() if name.startswith(("PATCH", "POST", "PUT"))
    }
    assert {name: count for name, count in writes.items() if "events" not in name} == {
        "PATCH clonesets/status": 1
    }
    ready = condition(result, "Ready")
    assert ready is not None
    assert result["status"] == {**before["status"], "conditions": [ready]}
