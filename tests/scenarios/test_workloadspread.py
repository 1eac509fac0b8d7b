"""Pods of workloads of all kinds are spread over zones, in and out of rollouts, failures and restarts."""

import asyncio
from collections import Counter
from functools import partial

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import DEPLOYMENTS, PODS, STATEFUL_SETS, Resource
from pykruise.pods.view.keys import DELETION_COST_ANNOTATION as COST
from support.daemonsets import Pool
from support.scenario import Object, Stage
from support.spread_stage import ALL_KINDS, Spread, noted_in


@pytest.fixture
async def spread(stage: Stage, pool: Pool) -> Spread:
    """A spread over two zones of nodes."""
    spread = Spread(stage, pool)
    await spread.label_nodes()
    return spread


def kinds(*resources: Resource) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("resource", resources, ids=lambda item: item.kind)


@pytest.mark.node
@kinds(*ALL_KINDS)
async def test_the_first_subset_gets_its_maximum_and_the_next_the_rest(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given
    await stage.start_manager()
    await spread.create(resource, spread.subset("a", 2), spread.subset("b"))
    # when
    await spread.run(resource, 5)
    # then
    await spread.settled(a=2, b=3)
    assert await spread.status() == {"a": (2, 0), "b": (3, -1)}
    assert await spread.column("Spread") == "a 2/2, b 3"


@pytest.mark.node
@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_scaling_down_and_up_keeps_the_spread(spread: Spread, stage: Stage, resource: Resource) -> None:
    # given
    await stage.start_manager()
    await spread.create(resource, spread.subset("a", 2), spread.subset("b"))
    await spread.run(resource, 5)
    await spread.settled(a=2, b=3)

    async def have_costs() -> bool:
        return all(pod.deletion_cost for pod in await stage.pods())

    await stage.until(have_costs)
    # when, then: the last subset is emptied first
    await spread.scale(resource, 2)
    await spread.settled(a=2)
    # when, then
    await spread.scale(resource, 4)
    await spread.settled(a=2, b=2)


@pytest.mark.node
@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_a_rollout_ends_with_the_same_spread(spread: Spread, stage: Stage, resource: Resource) -> None:
    # given
    await stage.start_manager()
    await spread.create(resource, spread.subset("a", 2), spread.subset("b"))
    await spread.run(resource, 4)
    await spread.settled(a=2, b=2)
    before = {pod.name for pod in await stage.pods()}
    # when
    await spread.set_image(resource, "nginx:2")

    # then
    async def are_new() -> bool:
        return not before & {pod.name for pod in await stage.pods()}

    await stage.until(are_new)
    await spread.settled(a=2, b=2)


@pytest.mark.node
@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_a_zone_that_takes_no_pods_is_passed_over(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given zone a is cordoned
    for node in spread.pool.nodes[:2]:
        await spread.pool.cordon(node)
    await stage.start_manager()
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 3}}
    await spread.create(resource, spread.subset("a", 2), spread.subset("b"), scheduleStrategy=strategy)
    # when
    await spread.run(resource, 4)
    # then pods do not wait there
    await spread.settled(b=4)
    result = await stage.get("ws", resource=WORKLOAD_SPREADS)
    [condition] = result["status"]["subsetStatuses"][0]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "PodUnschedulable")


@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_pods_moved_together_do_not_move_back(spread: Spread, stage: Stage, resource: Resource) -> None:
    """Before, pods were deleted and created again in the full zone every rescheduleCriticalSeconds, for six minutes."""
    # given zone a takes no pods, and has no limit: all pods go there first
    for node in spread.pool.nodes[:2]:
        await spread.pool.cordon(node)
    await stage.start_manager()
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 3}}
    await spread.create(resource, spread.subset("a"), spread.subset("b"), scheduleStrategy=strategy)
    # when
    await spread.run(resource, 3)
    # then each pod is moved once
    await spread.settled(b=3)
    created = [event for event in await stage.events() if event["reason"] == "SuccessfulCreate"]
    assert sum(event.get("count") or 1 for event in created) == 6


@pytest.mark.node
async def test_pods_follow_a_failed_zone_and_its_recovery(
    spread: Spread, stage: Stage, request: pytest.FixtureRequest
) -> None:
    # given two pods in each zone
    await stage.start_manager()
    strategy = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 3}}
    await spread.create(CLONE_SETS, spread.subset("a", 2), spread.subset("b"), scheduleStrategy=strategy)
    await spread.run(CLONE_SETS, 4)
    await spread.settled(a=2, b=2)
    # when zone a takes no pods any more, and its pods are lost
    for node in spread.pool.nodes[:2]:
        await spread.pool.cordon(node)
    for pod in await stage.pods():
        if noted_in(pod) == "a":
            await stage.delete(pod.name, resource=PODS)
    # then those that come for them move on to zone b
    await spread.settled(b=4)
    # when it comes back
    for node in spread.pool.nodes[:2]:
        await spread.pool.cordon(node, unschedulable=False)
    # then it is passed over as long as its five minutes last
    await spread.scale(CLONE_SETS, 5)
    await spread.settled(b=5)
    # when they are over
    if request.config.getoption("--cluster") == "real":
        await spread.closed_since(seconds=301)  # five minutes of real time are dear

    async def is_open() -> bool:
        return bool(await stage.events("RecoverSchedulable"))

    await stage.until(is_open)
    # then new pods go there first
    await spread.scale(CLONE_SETS, 7)
    await spread.settled(a=2, b=5)


@pytest.mark.node
@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_pods_that_were_there_before_are_adopted(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given pods anywhere
    await stage.start_manager()
    await spread.run(resource, 4)

    async def run() -> bool:
        return len(await spread.running()) == 4

    await stage.until(run)
    # when
    await spread.create(resource, spread.subset("a", 4), spread.subset("b"))

    # then each is of the subset whose zone it is in
    async def are_adopted() -> bool:
        pods = await spread.running()
        return len(pods) == 4 and all(noted_in(pod) == spread.zones[pod.node_name] for pod in pods)

    await stage.until(are_adopted)


async def _surplus_is_alone(stage: Stage, *, pods: int, noted: dict[str, int]) -> bool:
    """Whether this number of pods runs, `noted` of each subset have a positive cost, and the others are unchanged."""
    result = await stage.pods()
    if len(result) != pods or any(not pod.is_active or not pod.node_name for pod in result):
        return False
    if Counter(noted_in(pod) for pod in result if noted_in(pod)) != noted:
        return False
    return all((pod.deletion_cost > 0) == bool(noted_in(pod)) for pod in result)


@pytest.mark.node
@kinds(CLONE_SETS, DEPLOYMENTS)
async def test_pods_beyond_the_capacity_of_all_subsets_are_not_adopted_and_deleted_first(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    await spread.create(resource, spread.subset("a", 1), spread.subset("b", 1))
    await stage.until(spread.status)
    listed = metered.requests["GET pods"]
    # when
    await spread.run(resource, 5)
    await stage.until(partial(_surplus_is_alone, stage, pods=5, noted={"a": 1, "b": 1}))
    # then they stay as they are, and the status says what the subsets take
    await asyncio.sleep(min(stage.long_s, 5.0))
    assert await _surplus_is_alone(stage, pods=5, noted={"a": 1, "b": 1})
    assert all(COST not in pod.annotations for pod in await stage.pods() if not noted_in(pod))
    assert await spread.status() == {"a": (1, 0), "b": (1, 0)}
    # and no manager reads them one by one
    assert metered.requests["GET pods"] == listed
    # when
    await spread.scale(resource, 2)
    # then
    await spread.settled(a=1, b=1)


@pytest.mark.node
@kinds(CLONE_SETS)
async def test_older_pods_are_all_adopted_and_those_beyond_the_maximum_deleted_first(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given the same number of pods in each zone, by topologySpreadConstraints
    await stage.start_manager()
    workload = spread.workload(resource, 6)
    workload["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "topologyKey": spread.label,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": workload["spec"]["selector"],
        }
    ]
    await stage.create(workload, resource=resource)

    async def run_in_both() -> bool:
        return await spread.where() == {"a": 3, "b": 3}

    await stage.until(run_in_both)
    await asyncio.sleep(1)  # times of creation are in whole seconds
    # when
    await spread.create(resource, spread.subset("a", 1), spread.subset("b", 1))

    # then
    async def are_adopted() -> bool:
        result = Counter((noted_in(pod), pod.deletion_cost) for pod in await stage.pods())
        return result == {("a", 200): 1, ("a", -100): 2, ("b", 100): 1, ("b", -200): 2}

    await stage.until(are_adopted)
    assert await spread.status() == {"a": (3, 0), "b": (3, 0)}
    # when
    await spread.scale(resource, 2)
    # then
    await spread.settled(a=1, b=1)


@pytest.mark.node
@kinds(CLONE_SETS)
async def test_a_slot_is_free_again_when_its_pod_is_deleted(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    # given
    await stage.start_manager()
    await spread.create(resource, spread.subset("a", 2), spread.subset("b", 4))
    await spread.run(resource, 4)
    await spread.settled(a=2, b=2)
    # when a pod of the first subset is deleted
    gone = next(pod for pod in await stage.pods() if noted_in(pod) == "a")
    await stage.delete(gone.name, resource=PODS)

    # then the pod that comes for it gets its place
    async def is_replaced() -> bool:
        return gone.name not in {pod.name for pod in await stage.pods()}

    await stage.until(is_replaced)
    await spread.settled(a=2, b=2)


@pytest.mark.node
@kinds(CLONE_SETS)
async def test_managers_may_be_killed_at_any_time(spread: Spread, stage: Stage, resource: Resource) -> None:
    # given
    await stage.start_manager()
    await spread.create(resource, spread.subset("a", 5), spread.subset("b", 3), {"name": "anywhere"})
    await spread.run(resource, 10)
    # when
    for _ in range(3):
        await asyncio.sleep(0.2)
        await stage.kill_manager()
        await stage.start_manager()

    # then all pods are there, and no subset has more than its maximum. It may have less: a place that was taken
    # for a pod which a manager never got to create is free again after 30 s, when others have found theirs.
    async def are_there() -> bool:
        outcome = await spread.status()
        return sum(replicas for replicas, _ in outcome.values()) == 10 and len(await spread.running()) == 10

    await stage.until(are_there)
    result = await spread.status()
    assert result["a"][0] <= 5
    assert result["b"][0] <= 3


@pytest.mark.node
@kinds(CLONE_SETS, STATEFUL_SETS, ADVANCED_STATEFUL_SETS)
async def test_a_patch_is_tried_with_the_volumes_of_claims(
    spread: Spread, stage: Stage, resource: Resource
) -> None:
    """workloadspread cases 47 and 48"""
    # given a workload whose container mounts a claim template
    claim: Object = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    doc = spread.workload(resource, 0, volumeClaimTemplates=[claim], serviceName="web")
    if resource == CLONE_SETS:
        del doc["spec"]["serviceName"]
    container = doc["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    await stage.create(doc, resource=resource)
    # when a patch gives an annotation, then it is taken
    good = spread.subset("a", patch={"metadata": {"annotations": {"zone": "a"}}})
    await spread.create(resource, good)
    # when another adds a container without an image, then it is refused, with its place
    bad = spread.subset("a", patch={"spec": {"containers": [{"name": "extra"}]}})
    with pytest.raises(InvalidError) as refused:
        await stage.merge("ws", {"spec": {"subsets": [bad]}}, resource=WORKLOAD_SPREADS)
    [cause] = refused.value.causes
    assert cause.field == "spec.subsets[0].patch.containers[0].image"


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
@pytest.mark.parametrize("patch", ["spec: {}", 3], ids=["a-string", "a-number"])
async def test_a_patch_that_is_not_an_object_is_refused_with_its_place(
    spread: Spread, stage: Stage, patch: str | int, version: str
) -> None:
    # given
    resource = msgspec.structs.replace(WORKLOAD_SPREADS, version=version)
    subsets = [spread.subset("a", 2), spread.subset("b", patch=patch)]
    doc = {**spread.spread(CLONE_SETS, *subsets), "apiVersion": resource.api_version}
    # when
    with pytest.raises(InvalidError) as refused:
        await stage.create(doc, resource=resource)
    # then
    [cause] = refused.value.causes
    assert (cause.field, cause.reason) == ("spec.subsets[1].patch", "FieldValueInvalid")
