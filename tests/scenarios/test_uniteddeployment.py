"""UnitedDeployments on a cluster: pods of all four kinds of workload are divided among zones, in and out of rollouts,
failures and restarts."""

import asyncio

import pytest

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    RESERVED_LABEL,
    STATEFUL_SET,
    TEMPLATES,
)
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from support.common_faults import WRITE_FAULTS, the_writes
from support.daemonsets import Pool
from support.faults import Answer, DropAnswer, FaultyTransport, StallAfter, posts, watches, workload_writes
from support.kills import Kill
from support.kstatus import other_conditions
from support.scenario import Object, Stage
from support.uniteddeployments import ALL_TEMPLATES, NAME, United, template_of


@pytest.fixture
async def united(stage: Stage, pool: Pool, request: pytest.FixtureRequest) -> United:
    """UnitedDeployments over two zones of nodes."""
    united = United(stage, pool, getattr(request, "param", CLONE_SET))
    await united.label_nodes()
    return united


def templates(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("united", names, indirect=True)


every_template = templates(*ALL_TEMPLATES)


@pytest.mark.node
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


@pytest.mark.node
@every_template
@pytest.mark.few_on_real(2)
async def test_scaling_uses_the_scale_subresource(stage: Stage, united: United) -> None:
    """uniteddeployment case 59: what autoscalers read and write"""
    await stage.start_manager()
    await united.create(united.subset("a", maxReplicas=2), united.subset("b"), replicas=1)
    await united.settled(a=1, b=0)

    scale = await united.scale(5)
    assert scale["status"]["selector"] == "app=web"
    await united.settled(a=2, b=3)
    await united.scale(0)
    await united.settled(a=0, b=0)


@pytest.mark.node
@templates(CLONE_SET, ADVANCED_STATEFUL_SET, STATEFUL_SET)
async def test_a_partition_holds_a_zone_until_it_is_removed(stage: Stage, united: United) -> None:
    """uniteddeployment cases 37, 46"""
    await stage.start_manager()
    await united.create(replicas=4)
    before = (await united.settled(a=2, b=2))["updatedRevision"]

    await united.set_image(
        "nginx:2", updateStrategy={"type": "Manual", "manualUpdate": {"partitions": {"a": 1}}}
    )

    async def is_held() -> bool:
        return await united.images() == {("a", "nginx:1"): 1, ("a", "nginx:2"): 1, ("b", "nginx:2"): 2}

    await stage.until(is_held)
    status = await united.status()
    assert status["currentRevision"] == before != status["updatedRevision"]
    assert united.condition(status, "UnitedDeploymentUpdated")["status"] == "False"

    await united.change(updateStrategy={"manualUpdate": {"partitions": {"a": None}}})
    status = await united.settled(a=2, b=2)
    assert await united.images() == {("a", "nginx:2"): 2, ("b", "nginx:2"): 2}


@pytest.mark.node
@every_template
@pytest.mark.few_on_real(2)
async def test_a_subset_is_removed_and_no_replica_is_lost(stage: Stage, united: United) -> None:
    """uniteddeployment case 22"""
    await stage.start_manager()
    await united.create(united.subset("a"), united.subset("b"), united.subset("c", zone="b"), replicas=6)
    await united.settled(a=2, b=2, c=2)

    await united.set_subsets(united.subset("a"), united.subset("b"))

    await united.settled(a=3, b=3)

    async def is_forgotten() -> bool:
        return [status["name"] for status in (await united.status())["subsetStatuses"]] == ["a", "b"]

    await stage.until(is_forgotten)


@pytest.mark.node
async def test_another_kind_of_workload_takes_over(stage: Stage, united: United) -> None:
    """uniteddeployment cases 15 and 23"""
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)

    united.template = DEPLOYMENT
    await united.change(template={CLONE_SET: None, **template_of(DEPLOYMENT)})

    await united.settled(a=2, b=2)
    assert not await united.workloads(CLONE_SET)


@pytest.mark.node
async def test_patches_and_tolerations_reach_the_pods_of_their_subset(
    stage: Stage, pool: Pool, united: United
) -> None:
    """uniteddeployment cases 28 to 30"""
    for node, zone in united.zones.items():
        if zone == "b":
            await pool.taint(node, f"{united.label}:NoSchedule")
    await stage.start_manager()
    toleration = {"key": united.label, "operator": "Exists"}
    await united.create(
        united.subset("a", patch={"metadata": {"labels": {"tier": "gold"}}}),
        united.subset("b", tolerations=[toleration]),
        replicas=4,
    )
    before = (await united.settled(a=2, b=2))["updatedRevision"]
    assert {pod.labels.get("tier") for pod in await united.pods()} == {"gold", None}
    # when the patch of one goes bad, the other still scales
    bad = united.subset("a", patch={"spec": {"containers": [{"$patch": "unheard-of", "name": "main"}]}})
    await united.set_subsets(bad, united.subset("b", tolerations=[toleration]), replicas=6)

    async def is_reported() -> bool:
        condition = united.condition(await united.status(), "SubsetUpdated")
        return condition.get("status") == "False" and await united.sizes() == {"a": 3, "b": 3}

    await stage.until(is_reported)
    assert await stage.events("FailedUpdateSubset")
    # and when it is right again, all is well
    await united.set_subsets(united.subset("a"), united.subset("b", tolerations=[toleration]))
    status = await united.settled(a=3, b=3)
    assert status["updatedRevision"] == before, "patches are not of the template"
    assert united.condition(status, "SubsetUpdated")["status"] == "True"


@pytest.mark.node
@templates(CLONE_SET, ADVANCED_STATEFUL_SET, STATEFUL_SET)
@pytest.mark.few_on_real(3)
async def test_workloads_with_claims_are_updated_too(stage: Stage, united: United) -> None:
    """Immutable fields are not written, although API servers and webhooks have added defaults to them"""
    await stage.start_manager()
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await united.create(replicas=2, template=template_of(united.template, volumeClaimTemplates=[claim]))
    await united.settled(a=1, b=1)

    await united.set_image("nginx:2")

    status = await united.settled(a=1, b=1)
    assert united.condition(status, "SubsetUpdated")["status"] == "True"
    assert len(await stage.stored(PERSISTENT_VOLUME_CLAIMS)) >= 2
    # and the same template once more is no change
    await united.scale(4)
    await united.settled(a=2, b=2)


@pytest.mark.node
async def test_old_versions_are_read_and_answered(stage: Stage, united: United) -> None:
    """uniteddeployment cases 60 and 61"""
    await stage.start_manager()
    old = TEMPLATES[CLONE_SET]
    document = united.to_document(replicas=2)
    document["apiVersion"] = "apps.kruise.io/v1alpha1"
    document["spec"]["template"][CLONE_SET]["spec"]["updateStrategy"] = {
        "type": "InPlaceIfPossible",
        "maxUnavailable": 1,
    }
    resource = type(UNITED_DEPLOYMENTS)(
        UNITED_DEPLOYMENTS.group, "v1alpha1", UNITED_DEPLOYMENTS.plural, UNITED_DEPLOYMENTS.kind
    )
    await stage.create(document, resource=resource)
    await united.settled(a=1, b=1)
    made = (await united.workloads())["a"]
    assert made["apiVersion"] == old.api_version
    assert made["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] == "InPlaceIfPossible"
    assert made["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1
    status = (await stage.get(NAME, resource=resource))["status"]
    assert status["subsetReplicas"] == {"a": 1, "b": 1}


async def test_an_unworkable_united_deployment_is_refused(stage: Stage, united: United) -> None:
    """uniteddeployment cases 4, 6 and 12"""
    with pytest.raises(InvalidError, match=r"spec\.template"):
        await united.create(template={})
    with pytest.raises(InvalidError, match=r"spec\.topology\.subsets"):
        await united.create(united.subset("a", replicas=2), united.subset("b", replicas=2), replicas=5)
    await united.create(replicas=0)
    with pytest.raises(InvalidError, match=r"spec\.topology\.subsets\[0\]\.nodeSelectorTerm"):
        await united.set_subsets(united.subset("a", zone="b"), united.subset("b"))


# ── zones that go and come back ──────────────────────────────────────────


def adaptive(*subsets: Object, **fields: object) -> Object:
    return {"subsets": list(subsets), "scheduleStrategy": {"type": "Adaptive", "adaptive": fields}}


async def lose_zone(united: United, zone: str) -> None:
    """Cordon the zone's nodes, and delete the pods there."""
    await united.take_zone(zone)
    for pod in await united.pods():
        if united.zones.get(pod.node_name) == zone:
            await united.stage.delete(pod.name, resource=PODS)


@pytest.mark.node
@every_template
@pytest.mark.few_on_real(2)
async def test_pods_follow_a_failed_zone_and_its_recovery(stage: Stage, united: United) -> None:
    """uniteddeployment cases 47 to 49"""
    await stage.start_manager()
    topology = adaptive(
        united.subset("a", maxReplicas=4),
        united.subset("b"),
        rescheduleCriticalSeconds=2,
        unschedulableDuration=6,
    )
    await united.create(replicas=3, topology=topology)
    await united.settled(a=3, b=0)
    # when zone a goes
    await lose_zone(united, "a")
    # then its pods are in zone b
    status = await united.settled(a=0, b=3)
    assert await united.where() == {"b": 3}
    assert united.condition(status, "Schedulable", "a")["status"] == "False"
    # when it is back, pods that run stay, and new ones go there again
    await united.take_zone("a", back=True)

    async def is_open() -> bool:
        return united.condition(await united.status(), "Schedulable", "a").get("reason") == "recover"

    await stage.until(is_open)
    assert await united.where() == {"b": 3}
    await united.scale(5)
    await united.settled(a=2, b=3)


@pytest.mark.node
@templates(CLONE_SET, DEPLOYMENT)
async def test_pods_of_a_lost_zone_are_kept_in_reserve(stage: Stage, united: United) -> None:
    """uniteddeployment cases 52, 53, 59"""
    await stage.start_manager()
    topology = adaptive(
        united.subset("a", maxReplicas=4),
        united.subset("b"),
        rescheduleCriticalSeconds=2,
        unschedulableDuration=3,
        reserveUnschedulablePods=True,
    )
    await united.create(replicas=3, topology=topology)
    await united.settled(a=3, b=0)
    scale = await united.scale(3)
    assert scale["status"]["selector"] == f"app=web,{RESERVED_LABEL}=false"
    # when
    await lose_zone(united, "a")

    async def have_substitutes() -> bool:
        status = await united.status()
        pods = await united.pods()
        labels = sorted(pod.labels.get(RESERVED_LABEL, "") for pod in pods)
        return labels == ["false"] * 3 + ["true"] * 3 and status.get("reservedPods") == 3

    # then they wait for it, and other subsets replace them
    await stage.until(have_substitutes)
    assert await united.sizes() == {"a": 3, "b": 3}
    assert (await united.status())["replicas"] == 3
    # and are not needed any more once the zone is back for a while
    await united.take_zone("a", back=True)
    await united.settled(a=3, b=0)
    assert {pod.labels[RESERVED_LABEL] for pod in await united.pods()} == {"false"}


# ── faults ───────────────────────────────────────────────────────────────


async def play(united: United) -> None:
    """Cause every kind of write: add a subset, change the template, remove a subset, and scale."""
    await united.create(replicas=4)
    await asyncio.sleep(1)
    await united.set_image("nginx:2")
    await asyncio.sleep(1)
    await united.set_subsets(united.subset("a"), united.subset("c", zone="b"), replicas=6)


async def ends_well(united: United) -> None:
    status = await united.settled(a=3, c=3)
    assert await united.images() == {("a", "nginx:2"): 3, ("c", "nginx:2"): 3}
    assert await united.stage.stored(CONTROLLER_REVISIONS)  # revisions of templates that a manager has seen
    conditions = {condition["type"]: condition["status"] for condition in other_conditions(status)}
    assert conditions == {
        "SubsetProvisioned": "True",
        "SubsetUpdated": "True",
        "UnitedDeploymentUpdated": "True",
    }


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(20))
@templates(CLONE_SET, DEPLOYMENT)
@pytest.mark.checkered(8)
async def test_a_manager_is_killed_at_any_write(
    stage: Stage, united: United, at: int, takes_effect: bool
) -> None:
    """No workload is made twice, none is forgotten"""
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes("/apis"), kill)
    await stage.start_manager(faulty)
    await play(united)

    async def is_over() -> bool:
        return kill.reached or len((await united.status()).get("subsetStatuses") or []) == 2

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager()
    await ends_well(united)


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", [0, 3, 6, 9])
@WRITE_FAULTS
@pytest.mark.checkered
async def test_one_failing_write_does_not_disturb_the_rollout(
    stage: Stage, united: United, fault: object, number: int
) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes("/apis"), the_writes(number, number + 5, fault=fault))
    await stage.start_manager(faulty)
    await play(united)
    await ends_well(united)


async def test_a_workload_that_is_refused_is_reported_and_tried_again(stage: Stage, united: United) -> None:
    """uniteddeployment case 45"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/clonesets"), lambda _: Answer(403, message="the webhook said no"))
    await stage.start_manager(faulty)
    await united.create(replicas=2)

    async def is_reported() -> bool:
        condition = united.condition(await united.status(), "SubsetProvisioned")
        return condition.get("status") == "False" and "said no" in condition["message"]

    await stage.until(is_reported)
    faulty.clear()
    status = await united.settled(a=1, b=1)
    assert united.condition(status, "SubsetProvisioned")["status"] == "True"


@pytest.mark.node
async def test_own_writes_count_although_the_watch_is_silent(stage: Stage, united: United) -> None:
    """uniteddeployment case 62: a manager knows its own writes at once, so it does not decide on the state before"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(watches("/uniteddeployments"), StallAfter(1))
    await stage.start_manager(faulty)
    topology = adaptive(united.subset("a", maxReplicas=4), united.subset("b"), rescheduleCriticalSeconds=2)
    await united.take_zone("a")
    await united.create(replicas=3, topology=topology)

    async def is_closed() -> str:
        condition = united.condition(await united.status(), "Schedulable", "a")
        return str(condition["lastTransitionTime"]) if condition.get("status") == "False" else ""

    since = await stage.until(is_closed)
    await united.settled(a=0, b=3)
    await asyncio.sleep(4)
    assert await is_closed() == since
    assert (await united.workloads())["a"]["metadata"]["generation"] <= 3, "it does not come and go"


@pytest.mark.node
async def test_a_revision_that_cannot_be_stored_is_reported(stage: Stage, united: United) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/controllerrevisions"), lambda _: Answer(403, message="exceeded quota"))
    await stage.start_manager(faulty)
    await united.create(replicas=2)

    await stage.until(lambda: stage.events("FailedRevisionProvision"))

    assert not await united.workloads()
    faulty.clear()
    await united.settled(a=1, b=1)


@pytest.mark.node
async def test_an_answer_that_is_lost_makes_no_second_workload(stage: Stage, united: United) -> None:
    """uniteddeployment case 20"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/clonesets"), DropAnswer(), DropAnswer())
    await stage.start_manager(faulty)
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    assert len(await stage.stored(TEMPLATES[CLONE_SET])) == 2


async def test_nothing_is_written_once_it_is_settled(stage: Stage, united: United) -> None:
    """uniteddeployment case 46"""
    await stage.start_manager()
    await united.create(replicas=4)
    await united.settled(a=2, b=2)
    await stage.kill_manager()
    seen = FaultyTransport(stage.manager_transport())
    await stage.start_manager(seen)
    await asyncio.sleep(5)
    here = workload_writes(f"/namespaces/{stage.namespace}/")
    assert [(request.path, request.to_document) for request in seen.log if here(request)] == []
