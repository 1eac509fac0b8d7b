"""The life of a CloneSet: created, scaled, updated, paused, rolled back, deleted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from pykruise.kinds.cloneset.snapshot import CLONE_SET_VIEWS, CloneSetView
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.errors import BadRequestError, InvalidError, NotFoundError
from pykruise.kube.resources import CONTROLLER_REVISIONS, NAMESPACES, PODS
from pykruise.pods.view import keys
from pykruise.pods.workload.waiting import condition_of
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import PodWatch, Stage, cloneset, rolling


@pytest.mark.node
async def test_a_cloneset_gets_its_pods_and_its_status(stage: Stage) -> None:
    """cloneset case 20"""
    # given
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=3))
    # then
    result = await stage.settled(replicas=3)
    pods = await stage.pods()
    assert all(pod.name.startswith("web-") and len(pod.name) == len("web-") + 5 for pod in pods)
    assert all(pod.state == "Normal" for pod in pods)
    assert all(keys.IN_PLACE_READY in pod.readiness_gates for pod in pods)
    assert result["status"]["currentRevision"] == result["status"]["updateRevision"]
    assert result["status"]["labelSelector"] == "app=web"


@pytest.mark.node
async def test_creations_are_reported_in_one_event(stage: Stage) -> None:
    # given
    await stage.start_manager()
    # when
    await stage.create(cloneset(replicas=8))
    await stage.settled(replicas=8)
    # then
    events = await stage.until(lambda: stage.events("SuccessfulCreate"))
    assert sum(event["count"] for event in events) == 8
    assert len(events) < 4
    assert {event["involvedObject"]["name"] for event in events} == {"web"}


@pytest.mark.node
async def test_scaling_up_and_down_through_the_scale_subresource(stage: Stage) -> None:
    """cloneset case 94: what an autoscaler reads and writes"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    # when
    await stage.scale("web", 6)
    # then
    await stage.settled(replicas=6)
    # when
    await stage.scale("web", 1)
    # then
    await stage.settled(replicas=1)


@pytest.mark.node
async def test_a_recreate_update_keeps_to_max_unavailable(stage: Stage, seen: PodWatch) -> None:
    """cloneset case 62 with partition 0"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=6, updateStrategy=rolling(maxUnavailable=2)))
    await stage.settled(replicas=6)
    seen.watch_from_now()
    # when
    await stage.set_image("web", "nginx:2")
    # then
    await stage.settled(replicas=6)
    assert seen.fewest_available == 4
    assert seen.most == 6
    assert seen.created == 12


@pytest.mark.node
@pytest.mark.parametrize(
    ("budget", "updates"),
    [({"maxUnavailable": 2}, 6), ({"maxUnavailable": 0, "maxSurge": 2}, 4)],
    ids=["without-surge", "with-surge"],
)
async def test_a_pod_replaced_for_an_update_has_its_event_and_costs_no_further_write(
    stage: Stage, budget: dict[str, int], updates: int
) -> None:
    """The last old pods are deleted as surplus if the update surges, as in OpenKruise."""
    # given
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    await stage.create(cloneset(replicas=6, updateStrategy=rolling(**budget)))
    await stage.settled(replicas=6)
    before = metered.requests.copy()
    # when
    await stage.set_image("web", "nginx:2")
    result = await stage.settled(replicas=6)
    # then each is reported, beside its deletion
    for reason, count in (("SuccessfulUpdatePodReCreate", updates), ("SuccessfulDelete", 6)):
        events = await stage.until(partial(_events_of, stage, reason, count=count))
        assert {event["type"] for event in events} == {"Normal"}
        assert {event["involvedObject"]["name"] for event in events} == {"web"}
    (event, *_) = await stage.events("SuccessfulUpdatePodReCreate")
    assert f"specified-delete for update(revision {result['status']['updateRevision']})" in event["message"]
    # and a pod costs its deletion and its successor, which is brought into service by one write more
    cost = metered.requests - before
    assert (cost["DELETE pods"], cost["POST pods"]) == (6, 6)
    assert "maxSurge" in budget or cost["PATCH pods"] == 0


@pytest.mark.node
async def test_surge_never_gives_up_a_pod_before_its_successor_serves(stage: Stage, seen: PodWatch) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=0, maxSurge=2)))
    await stage.settled(replicas=4)
    seen.watch_from_now()
    # when
    await stage.set_image("web", "nginx:2")
    # then
    await stage.settled(replicas=4)
    assert seen.fewest_available == 4
    assert seen.most == 6


@pytest.mark.node
async def test_a_partition_holds_pods_back_until_it_is_lowered(stage: Stage) -> None:
    """cloneset cases 62 and 87"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1, partition=3)))
    await stage.settled(replicas=5)
    # when
    await stage.set_image("web", "nginx:2")
    # then two are new
    result = await stage.settled(replicas=5, updated=2)
    assert result["status"]["expectedUpdatedReplicas"] == 2
    assert result["status"]["currentRevision"] != result["status"]["updateRevision"]
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    # then all are
    result = await stage.settled(replicas=5)
    assert result["status"]["currentRevision"] == result["status"]["updateRevision"]


@pytest.mark.node
async def test_pods_scaled_to_zero_within_a_rollout_are_recreated_at_the_new_revision(stage: Stage) -> None:
    """cloneset case 84, with a partition that held the rollout back"""
    # given a rollout that its partition holds
    await stage.start_manager()
    await stage.create(cloneset(replicas=5, updateStrategy=rolling(maxUnavailable=1, partition=3)))
    await stage.settled(replicas=5)
    await stage.set_image("web", "nginx:2")
    await stage.settled(replicas=5, updated=2)
    # when
    await stage.scale("web", 0)
    result = await stage.settled(replicas=0)
    # then
    assert result["status"]["currentRevision"] == result["status"]["updateRevision"]
    # when
    await stage.scale("web", 5)
    # then
    await stage.settled(replicas=5, updated=5)


@pytest.mark.node
async def test_a_paused_rollout_updates_nothing_and_still_scales(stage: Stage) -> None:
    # given a rollout that is paused at once
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1, paused=True)))
    await stage.settled(replicas=4)
    before = {pod.uid for pod in await stage.pods()}
    # when
    await stage.set_image("web", "nginx:2")
    await stage.until(lambda: _observed(stage, updated=0))
    await stage.scale("web", 5)
    # then the old ones stay, and the fifth is there
    await stage.until(lambda: _count(stage, 5))
    assert before <= {pod.uid for pod in await stage.pods()}
    # when
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": False}}}})
    # then
    await stage.settled(replicas=5)
    assert not before & {pod.uid for pod in await stage.pods()}


@pytest.mark.node
async def test_a_rollback_reuses_the_revision_of_its_template(stage: Stage) -> None:
    """cloneset case 52"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2, image="nginx:1"))
    first = (await stage.settled(replicas=2))["status"]["updateRevision"]
    await stage.set_image("web", "nginx:2")
    second = (await stage.settled(replicas=2))["status"]["updateRevision"]
    # when
    await stage.set_image("web", "nginx:1")
    third = (await stage.settled(replicas=2))["status"]["updateRevision"]
    # then
    assert third == first != second
    listed = await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)
    assert len(listed.items) == 2


@pytest.mark.node
async def test_marked_pods_are_deleted_sequentially_and_their_names_removed_from_the_list(
    stage: Stage, seen: PodWatch
) -> None:
    """cloneset case 35"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=4)
    victims = [pod.name for pod in await stage.pods()][:2]
    seen.watch_from_now()
    # when
    await stage.merge("web", {"spec": {"scaleStrategy": {"podsToDelete": victims}}})
    # then
    await stage.until(lambda: _none_of(stage, victims))
    await stage.settled(replicas=4)
    assert seen.fewest_available == 3

    async def list_is_empty() -> bool:
        return not (await stage.get("web"))["spec"]["scaleStrategy"].get("podsToDelete")

    await stage.until(list_is_empty)


@pytest.mark.node
async def test_a_pod_that_fails_is_replaced(stage: Stage) -> None:
    """cloneset case 43"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    victim = (await stage.pods())[0]
    # when
    await stage.merge(victim.name, {"status": {"phase": "Failed"}}, resource=PODS, subresource="status")

    # then
    async def replaced() -> bool:
        pods = await stage.pods()
        return sum(pod.is_serving for pod in pods) == 2 and len(pods) == 3

    await stage.until(replaced)
    assert (await stage.status())["replicas"] == 2


@pytest.mark.node
async def test_a_pod_that_no_longer_matches_is_released_and_replaced(stage: Stage) -> None:
    """cloneset case 44"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=2))
    await stage.settled(replicas=2)
    leaver = (await stage.pods())[0]
    # when
    await stage.merge(leaver.name, {"metadata": {"labels": {"app": "other"}}}, resource=PODS)
    # then
    await stage.settled(replicas=2)
    result = await stage.get(leaver.name, resource=PODS)
    assert not result["metadata"].get("ownerReferences")


@pytest.mark.node
async def test_a_deleted_cloneset_deletes_its_pods_and_revisions(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    # when
    await stage.delete("web")

    # then
    async def nothing_left() -> bool:
        revisions = await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)
        return not await stage.pods() and not revisions.items

    await stage.until(nothing_left)


@pytest.mark.node
async def test_a_settled_cloneset_costs_no_more_writes(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    before = await stage.get("web")
    # when an hour passes (on a real cluster, seconds)
    await asyncio.sleep(stage.long_s)
    # then
    after = await stage.get("web")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_field_of_the_wrong_type_is_refused_with_its_path(stage: Stage) -> None:
    """The webhook refuses it, because it cannot read the object (400); without a webhook, the schema does (422)."""
    # given
    doc = cloneset()
    doc["spec"]["replicas"] = "three"
    # when
    with pytest.raises((BadRequestError, InvalidError), match=r"spec\.replicas"):
        await stage.create(doc)
    # then
    assert not await stage.exists("web")


@pytest.mark.node
async def test_a_namespace_is_deleted_with_its_contents_while_the_manager_works(stage: Stage) -> None:
    """Its pods go first, and may not be replaced; the CloneSet is there until they are gone."""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=3))
    await stage.settled(replicas=3)
    # when
    await stage.client.delete(NAMESPACES, "", stage.namespace)

    # then
    async def gone() -> bool:
        try:
            await stage.client.get(NAMESPACES, "", stage.namespace)
        except NotFoundError:
            return True
        return False

    await stage.until(gone)


@pytest.mark.hub_words
@pytest.mark.needs_admission
async def test_an_invalid_cloneset_is_refused_with_every_field_named(stage: Stage) -> None:
    """cloneset rules 4, 5 and 16"""
    # given
    doc = cloneset(updateStrategy=rolling(maxUnavailable="5"))
    doc["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    # when
    with pytest.raises(InvalidError) as refused:
        await stage.create(doc)
    # then
    assert {cause.field for cause in refused.value.causes} >= {
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "spec.template.metadata.labels",
    }
    assert not await stage.exists("web")


async def _observed(stage: Stage, *, updated: int) -> bool:
    result = await stage.get("web")
    status = result.get("status") or {}
    return (
        status.get("observedGeneration") == result["metadata"]["generation"]
        and status.get("updatedReplicas") == updated
    )


async def _count(stage: Stage, count: int) -> bool:
    return len([pod for pod in await stage.pods() if pod.is_serving]) == count


async def _none_of(stage: Stage, names: list[str]) -> bool:
    return not {pod.name for pod in await stage.pods()} & set(names)


async def test_an_overdue_rollout_reports_it_until_it_is_complete(stage: Stage) -> None:
    """Progressing does not alternate between the reasons that clients wait for, while pods come one after another."""
    # given
    await stage.start_manager()
    update = rolling(maxUnavailable=1)
    await stage.create(cloneset(replicas=3, updateStrategy=update, progressDeadlineSeconds=3))
    await stage.settled(replicas=3)
    stage.kubelets.set_rules([Rule(image="nginx:2", ready_s=6.0)])
    async with _reasons_of_progress(stage) as reasons:
        # when
        await stage.set_image("web", "nginx:2")
        await stage.settled(replicas=3)
        await stage.until(lambda: reasons[-1] == "CloneSetAvailable")
    # then
    assert reasons == [
        "CloneSetAvailable",
        "CloneSetUpdated",
        "ProgressDeadlineExceeded",
        "CloneSetAvailable",
    ]


@asynccontextmanager
async def _reasons_of_progress(stage: Stage) -> AsyncIterator[list[str]]:
    """The reasons of the condition Progressing one after another while the block runs."""
    reasons: list[str] = []

    def note(change: Change[CloneSetView]) -> None:
        condition = condition_of(change.new.status.conditions, "Progressing") if change.new else None
        if condition is not None and reasons[-1:] != [condition.reason]:
            reasons.append(condition.reason)

    cache = Cache(
        stage.client,
        CLONE_SETS,
        project=CLONE_SET_VIEWS.projector(),
        namespace=stage.namespace,
        clock=stage.clock,
        rng=stage.rng,
    )
    cache.subscribe(note)
    watching = asyncio.create_task(cache.run())
    try:
        await cache.wait_synced()
        yield reasons
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _events_of(stage: Stage, reason: str, *, count: int) -> list[dict[str, Any]]:
    """The events of a reason if they report `count` pods together, else none."""
    events = await stage.events(reason)
    return events if sum(event["count"] for event in events) == count else []
