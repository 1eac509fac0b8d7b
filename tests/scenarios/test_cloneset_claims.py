"""Pods with volume claims: which pod gets which claim, and what becomes of it when its pod goes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView, project_claim
from support.faults import Answer, DropAnswer, FaultyTransport, Request, TakeEffectLate, posts
from support.kills import Kill
from support.scenario import Object, Stage, cloneset, rolling


def with_claims(*, replicas: int = 3, reuse: bool, **spec: Any) -> Object:
    """A CloneSet whose pods mount one claim, `data`."""
    claims = cloneset(
        replicas=replicas,
        volumeClaimTemplates=[
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ],
        scaleStrategy={"enablePVCReuse": reuse},
        **spec,
    )
    (container,) = claims["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return claims


async def claims(stage: Stage) -> dict[str, ClaimView]:
    """The claims as stored, by name."""
    listed = await stage.client.list(PERSISTENT_VOLUME_CLAIMS, stage.namespace)
    return {claim.name: claim for claim in map(project_claim, listed.items)}


async def fitting(stage: Stage, replicas: int) -> bool:
    """Whether each of `replicas` pods mounts the claim of its id, and no claim is left over."""
    pods = [decode(raw) for raw in (await stage.client.list(PODS, stage.namespace)).items]
    mounted = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    wanted = {f"data-{pod['metadata']['name']}" for pod in pods}
    return len(pods) == replicas and mounted == wanted == {*await claims(stage)}


async def settled(stage: Stage, replicas: int) -> None:
    """Wait until the CloneSet is settled and every pod has exactly its claim."""
    await stage.settled(replicas=replicas)
    await stage.until(lambda: fitting(stage, replicas), what="each pod has its claim")


@pytest.mark.node
async def test_every_pod_gets_its_own_claim(stage: Stage) -> None:
    # given
    await stage.start_manager()
    # when
    result = await stage.create(with_claims(reuse=False))
    # then
    await settled(stage, 3)
    assert {claim.controller_uid for claim in (await claims(stage)).values()} == {result["metadata"]["uid"]}


@pytest.mark.node
async def test_the_successor_of_a_deleted_pod_reuses_its_name_and_claim(stage: Stage) -> None:
    """cloneset case 45"""
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=True))
    await settled(stage, 3)
    pods, before = await stage.pods(), await claims(stage)
    # when
    await stage.delete(pods[0].name, resource=PODS)
    await stage.until(lambda: _has_successor(stage, pods[0]))
    # then
    await settled(stage, 3)
    assert {pod.name for pod in await stage.pods()} == {pod.name for pod in pods}
    assert {claim.uid for claim in (await claims(stage)).values()} == {claim.uid for claim in before.values()}


@pytest.mark.node
async def test_a_deleted_pod_without_reuse_deletes_its_claim(stage: Stage) -> None:
    """cloneset case 46"""
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=False))
    await settled(stage, 3)
    gone = (await stage.pods())[0]
    claim = (await claims(stage))[f"data-{gone.name}"]
    # when
    await stage.merge(gone.name, {"metadata": {"finalizers": ["example.com/slow"]}}, resource=PODS)
    await stage.delete(gone.name, resource=PODS)

    # then while it terminates, the claim is the pod's
    async def is_handed_over() -> bool:
        return (await claims(stage))[claim.name].controller_uid == gone.uid

    await stage.until(is_handed_over)
    # and the new pod has another id and a claim of its own
    await stage.until(lambda: _count(stage, 4))
    assert (await claims(stage))[claim.name].uid == claim.uid
    # and in the end the claim goes with its pod
    await stage.merge(gone.name, {"metadata": {"finalizers": None}}, resource=PODS)
    await settled(stage, 3)
    assert claim.name not in await claims(stage)


@pytest.mark.virtual_time("a request is under way for an hour")
async def test_a_claim_created_after_its_pod_was_deleted_is_cleaned_up(stage: Stage) -> None:
    """After the late creation, no other event wakes the CloneSet."""
    # given a pod, the creation of whose claim arrives an hour later once more
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/persistentvolumeclaims"), TakeEffectLate(3600.0))
    await stage.start_manager(faulty)
    await stage.create(with_claims(reuse=False, replicas=1))
    await settled(stage, 1)
    await stage.scale("web", 0)
    await settled(stage, 0)
    # when it has arrived
    await asyncio.gather(*faulty.later)
    assert await claims(stage)
    # then
    await stage.until(lambda: fitting(stage, 0), what="the claim is gone again")


@pytest.mark.node
async def test_a_disabled_reuse_deletes_the_retained_claims(stage: Stage) -> None:
    """cloneset case 47"""
    # given a claim that waits for a pod which is not wanted
    await stage.start_manager()
    await stage.create(with_claims(reuse=True, replicas=2))
    await settled(stage, 2)
    await stage.stop_manager()
    gone = (await stage.pods())[0]
    await stage.delete(gone.name, resource=PODS)
    await stage.until(lambda: _count(stage, 1))
    await stage.scale("web", 1)
    await stage.start_manager()
    await stage.settled(replicas=1)
    assert len(await claims(stage)) == 2
    # when
    await stage.merge("web", {"spec": {"scaleStrategy": {"enablePVCReuse": False}}})
    # then
    await settled(stage, 1)


@pytest.mark.node
@pytest.mark.parametrize("reuse", [True, False])
async def test_an_update_that_recreates_pods_makes_new_claims(stage: Stage, reuse: bool) -> None:
    """cloneset case 48"""
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=reuse, updateStrategy=rolling(maxUnavailable=1)))
    await settled(stage, 3)
    before = await claims(stage)
    # when
    await stage.set_image("web", "nginx:2")
    # then
    await settled(stage, 3)
    assert not {*before} & {*await claims(stage)}


@pytest.mark.node
async def test_a_scale_in_deletes_the_claims(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=True))
    await settled(stage, 3)
    # when
    await stage.scale("web", 1)
    # then
    await settled(stage, 1)


@pytest.mark.node
async def test_a_released_pod_keeps_its_claim_and_its_name_is_not_reused(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=True))
    await settled(stage, 3)
    released = (await stage.pods())[0]
    # when
    await stage.merge(released.name, {"metadata": {"labels": {"app": "looked-into"}}}, resource=PODS)
    # then
    await stage.settled(replicas=3)
    claim = (await claims(stage))[f"data-{released.name}"]
    assert (claim.controller_uid, claim.is_deleting) == (released.uid, False)
    assert released.name not in {pod.name for pod in await stage.pods()}
    # and it goes with the pod
    await stage.delete(released.name, resource=PODS)
    await settled(stage, 3)


@pytest.mark.node
async def test_claims_are_deleted_with_their_cloneset(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await stage.create(with_claims(reuse=True))
    await settled(stage, 3)
    # when
    await stage.delete("web")

    # then
    async def is_empty() -> bool:
        return not await claims(stage) and not await stage.pods()

    await stage.until(is_empty)


@pytest.mark.parametrize("reuse", [True, False])
async def test_the_manager_is_killed_between_claim_and_pod(stage: Stage, reuse: bool) -> None:
    """cloneset case 49"""
    # given a manager that never gets to its first pod
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/pods"), _never)
    await stage.start_manager(faulty)
    await stage.create(with_claims(reuse=reuse))
    await stage.until(lambda: claims(stage))
    (made,) = await claims(stage)
    # when
    await stage.kill_manager()
    await stage.start_manager()
    # then
    await settled(stage, 3)
    assert (made in await claims(stage)) is reuse


@pytest.mark.node
@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_kill_during_the_deletion_of_a_pod_and_its_claim_gives_its_data_to_no_other_pod(
    stage: Stage, number: int, takes_effect: bool
) -> None:
    """Killed at each write of the deletion, with reuse on; scaled up again before the next manager starts"""
    # given
    await stage.start_manager()
    await stage.create(with_claims(replicas=2, reuse=True))
    await settled(stage, 2)
    await stage.stop_manager()
    before = {claim.name: claim.uid for claim in (await claims(stage)).values()}
    pods = {pod.name: pod.uid for pod in await stage.pods()}
    # when
    faulty = FaultyTransport(stage.manager_transport())
    kill = Kill(number, takes_effect=takes_effect)
    faulty.on(pods_or_claims, kill)
    await stage.start_manager(faulty)
    await stage.scale("web", 1)
    await stage.until(lambda: kill.reached)
    await stage.kill_manager()
    await stage.scale("web", 2)
    await stage.start_manager()
    # then a pod that stayed has its claim, and a new one has a new claim
    await settled(stage, 2)
    now = await claims(stage)
    for pod in await stage.pods():
        name = f"data-{pod.name}"
        assert (before.get(name) == now[name].uid) is (pods.get(pod.name) == pod.uid)
    assert not any(claim.leaves_with for claim in now.values())


def pods_or_claims(request: Request) -> bool:
    """The writes of scaling."""
    return request.method in ("POST", "PATCH", "DELETE") and any(
        f"/{kind}/" in request.path for kind in ("pods", "persistentvolumeclaims")
    )


@pytest.mark.node
async def test_a_claim_whose_answer_was_lost_is_the_pods_claim(stage: Stage) -> None:
    # given
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts("/persistentvolumeclaims"), DropAnswer(), None, DropAnswer())
    await stage.start_manager(faulty)
    # when
    await stage.create(with_claims(reuse=False))
    # then
    await settled(stage, 3)
    made = [
        request
        for request in faulty.log
        if request.method == "POST" and "/persistentvolumeclaims" in request.path
    ]
    assert len({request.to_document["metadata"]["name"] for request in made}) == 3


@pytest.mark.node
@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("refused", ["/pods", "/persistentvolumeclaims"])
async def test_a_forbidden_creation_is_retried_less_and_less_often(
    stage: Stage, reuse: bool, refused: str
) -> None:
    """cloneset case 49; claims that are created and deleted meanwhile cause no further attempt"""
    # given
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(posts(refused), lambda _request: Answer(403, reason="Forbidden", message="exceeded quota"))
    await stage.start_manager(faulty)
    # when
    await stage.create(with_claims(reuse=reuse))
    await asyncio.sleep(stage.long_s)
    # then
    tries = [request for request in faulty.log if request.method == "POST" and request.path.endswith(refused)]
    assert 5 < len(tries) < 40
    assert await stage.pods() == []
    assert len(await claims(stage)) <= 3
    assert await stage.events("FailedCreate")
    # and when they may be created
    faulty.clear()
    await settled(stage, 3)


class _Never:
    async def request(
        self, _request: Request, _forward: Callable[[], object], _owner: FaultyTransport
    ) -> object:
        await asyncio.Event().wait()
        raise AssertionError("never")


def _never(_request: Request) -> Any:
    return _Never()


async def _count(stage: Stage, wanted: int) -> bool:
    return len(await stage.pods()) == wanted


async def _has_successor(stage: Stage, old: PodView) -> bool:
    return any(pod.name == old.name and pod.uid != old.uid for pod in await stage.pods())
