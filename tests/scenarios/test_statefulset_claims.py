"""Claims of a StatefulSet live longer than its pods, go with them, cannot bind, and grow."""

import msgspec
import pytest

from pykruise.kinds.gates import Gates
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view import keys
from pykruise.sandbox.controllers.volumes import PROVISIONER
from support.scenario import Object, Stage, rolling
from support.statefulsets import Sets, claim_template, in_place, statefulset

GROWS = ManagerSettings(gates=Gates.of(StatefulSetAutoResizePVCGate=True))


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


async def claims(stage: Stage) -> dict[str, Object]:
    return {entry["metadata"]["name"]: entry for entry in await stage.stored(PERSISTENT_VOLUME_CLAIMS)}


def retaining(*, scaled: str = "Retain", deleted: str = "Retain") -> Object:
    return {"whenScaled": scaled, "whenDeleted": deleted}


async def retained(sets: Sets, *, parallel: bool) -> dict[str, Object]:
    """Create a set whose claims are deleted when it is scaled in; return its claims."""
    await sets.create(
        replicas=3,
        parallel=parallel,
        volumeClaimTemplates=[claim_template()],
        persistentVolumeClaimRetentionPolicy=retaining(scaled="Delete"),
    )
    await sets.settled(replicas=3)
    return await claims(sets.stage)


@pytest.mark.node
@pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])
async def test_claims_are_deleted_with_scaled_down_pods_and_recreated(
    stage: Stage, sets: Sets, parallel: bool
) -> None:
    """statefulset case 64 and 66"""
    # given
    await stage.start_manager()
    before = await retained(sets, parallel=parallel)
    # when it shrinks, and grows again as soon as the pod is gone
    await sets.scale(1)

    async def is_gone() -> bool:
        return 2 not in await sets.pods()

    await sets.until(is_gone)
    await sets.scale(3)
    await sets.settled(replicas=3)
    # then the claim of the pod is new, and no pod uses a claim that is about to be deleted
    now = await claims(stage)
    assert now["data-web-0"]["metadata"]["uid"] == before["data-web-0"]["metadata"]["uid"]
    assert now["data-web-2"]["metadata"]["uid"] != before["data-web-2"]["metadata"]["uid"]
    assert "deletionTimestamp" not in now["data-web-2"]["metadata"]


@pytest.mark.node
@pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])
async def test_claims_are_kept_when_the_set_grows_again_while_its_pods_terminate(
    stage: Stage, sets: Sets, parallel: bool
) -> None:
    """statefulset case 100"""
    # given a pod whose deletion a finalizer delays
    await stage.start_manager()
    before = await retained(sets, parallel=parallel)
    await stage.merge("web-2", {"metadata": {"finalizers": ["example.com/hold"]}}, resource=PODS)
    # when the set shrinks, and grows again while the pod terminates
    await sets.scale(1)

    async def terminates() -> bool:
        return (await sets.pods())[2].is_deleting

    await sets.until(terminates)
    await sets.scale(3)

    async def is_kept() -> bool:
        return not (await claims(stage))["data-web-2"]["metadata"].get("ownerReferences")

    await sets.until(is_kept)
    await stage.merge("web-2", {"metadata": {"finalizers": None}}, resource=PODS)
    await sets.settled(replicas=3)
    # then the next pod has the same claim
    now = await claims(stage)
    assert now["data-web-2"]["metadata"]["uid"] == before["data-web-2"]["metadata"]["uid"]


@pytest.mark.node
@pytest.mark.needs_admission
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_the_claim_retention_policy_is_stored_with_every_set(
    stage: Stage, sets: Sets, version: str
) -> None:
    """statefulset section 4.4; v1alpha1 has no such field, and what is written through it gets the default too"""
    # given
    resource = msgspec.structs.replace(ADVANCED_STATEFUL_SETS, version=version)
    doc = statefulset(replicas=0)
    # when
    await stage.create({**doc, "apiVersion": resource.api_version}, resource=resource)
    # then
    becomes = await stage.get("web", resource=ADVANCED_STATEFUL_SETS)
    assert becomes["spec"]["persistentVolumeClaimRetentionPolicy"] == retaining()


@pytest.mark.node
async def test_claims_that_are_retained_again_stay(stage: Stage, sets: Sets) -> None:
    """statefulset case 67"""
    # given claims that were to go with the set
    await stage.start_manager()
    policy = retaining(deleted="Delete")
    await sets.create(
        replicas=2, volumeClaimTemplates=[claim_template()], persistentVolumeClaimRetentionPolicy=policy
    )
    await sets.settled(replicas=2)
    assert all(claim["metadata"]["ownerReferences"] for claim in (await claims(stage)).values())
    # when
    await sets.change(persistentVolumeClaimRetentionPolicy=retaining())

    async def are_free() -> bool:
        return not any(claim["metadata"].get("ownerReferences") for claim in (await claims(stage)).values())

    # then
    await sets.until(are_free)
    await sets.delete()

    async def is_gone() -> bool:
        return not await stage.pods()

    await sets.until(is_gone)
    assert len(await claims(stage)) == 2


@pytest.mark.node
@pytest.mark.real
async def test_an_unbindable_claim_is_named_and_the_set_continues_when_it_can_bind(
    stage: Stage, sets: Sets
) -> None:
    """The sandbox's scheduler does not look at claims; a real one names them"""
    # given a storage class that does not exist
    await stage.start_manager()
    slow = claim_template(storageClassName="unprovisioned-class")
    await sets.create(replicas=2, volumeClaimTemplates=[slow])

    # then the set says what it waits for
    async def says_why() -> bool:
        result = await sets.condition("Waiting")
        return result is not None and result["reason"] == "UnboundClaims" and "web-0" in result["message"]

    await sets.until(says_why)
    assert sorted(await sets.pods()) == [0]
    # when the templates name a class that there is, the claim is deleted, and the pod with it
    await sets.change(volumeClaimTemplates=[claim_template()])
    await stage.delete("data-web-0", resource=PERSISTENT_VOLUME_CLAIMS)
    await sets.label("web-0", {keys.SPECIFIED_DELETE_LABEL: "true"})
    # then
    await sets.settled(replicas=2)


@pytest.mark.node
async def test_a_template_that_is_added_stops_no_pod(stage: Stage, sets: Sets) -> None:
    """statefulset case 76"""
    # given
    await stage.start_manager()
    await sets.create(replicas=2, volumeClaimTemplates=[claim_template()])
    await sets.settled(replicas=2)
    before = await sets.uids()
    # when
    await sets.change(volumeClaimTemplates=[claim_template(), claim_template("logs")])
    # then pods keep running, and the set still scales
    await sets.scale(3)
    await sets.settled(replicas=3)
    assert {number: uid for number, uid in (await sets.uids()).items() if number < 2} == before
    assert "logs-web-2" in await claims(stage)
    assert await stage.until(lambda: stage.events("ClaimsNotMounted"))
    # and a recreated pod has both
    await sets.label("web-1", {keys.SPECIFIED_DELETE_LABEL: "true"})

    async def has_both() -> bool:
        pod = (await sets.pods()).get(1)
        return pod is not None and pod.uid != before[1] and len(pod.claim_volumes) == 2

    await sets.until(has_both)
    await sets.settled(replicas=3)


# ── growing ──────────────────────────────────────────────────────────────────


async def a_class(stage: Stage, name: str, *, expandable: bool) -> str:
    """Create a storage class whose volumes can grow, or cannot; returns its name."""
    unique = f"{name}-{stage.namespace[-8:]}"
    doc = {
        "metadata": {"name": unique},
        "provisioner": PROVISIONER,
        "allowVolumeExpansion": expandable,
    }
    await stage.client.create(STORAGE_CLASSES, "", doc)
    return unique


async def all_ready(stage: Stage, sets: Sets, count: int, *, size: str = "2Gi") -> None:
    """Wait for claims that ask for that size and have it. Where no resizer runs, the test lets volumes grow."""

    async def are_ready() -> bool:
        sizes = set()
        for name, claim in (await claims(stage)).items():
            asked = claim["spec"]["resources"]["requests"]
            sizes.add(asked["storage"])
            if claim["status"].get("phase") == "Bound" and claim["status"]["capacity"] != asked:
                patch = {"status": {"capacity": asked}}
                await stage.merge(name, patch, resource=PERSISTENT_VOLUME_CLAIMS, subresource="status")
        result = (await sets.status())["volumeClaims"]
        return sizes == {size} and result[0]["compatibleReadyReplicas"] == count

    await sets.until(are_ready, what="claims have grown")


def growing(*templates: Object) -> Object:
    return {
        "volumeClaimTemplates": list(templates),
        "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
    }


@pytest.mark.node
async def test_claims_grow_from_the_highest_and_no_pod_is_restarted(stage: Stage, sets: Sets) -> None:
    """statefulset case 70"""
    # given
    fast = await a_class(stage, "fast", expandable=True)
    await stage.start_manager(settings=GROWS)
    await sets.create(replicas=3, **growing(claim_template(storageClassName=fast)))
    await sets.settled(replicas=3)
    before = await sets.uids()
    # when
    await sets.change(volumeClaimTemplates=[claim_template(size="2Gi", storageClassName=fast)])
    # then
    await all_ready(stage, sets, 3)
    sizes = {claim["status"]["capacity"]["storage"] for claim in (await claims(stage)).values()}
    assert sizes == {"2Gi"}
    assert await sets.uids() == before
    events = await stage.until(lambda: stage.events("SuccessfulResize"))
    assert sum(event["count"] for event in events) == 3


@pytest.mark.node
async def test_claim_size_and_image_change_together_in_place(stage: Stage, sets: Sets) -> None:
    # given
    fast = await a_class(stage, "fast", expandable=True)
    await stage.start_manager(settings=GROWS)
    template = claim_template(storageClassName=fast)
    await sets.create(replicas=2, updateStrategy=in_place(), **growing(template))
    await sets.settled(replicas=2)
    before = await sets.uids()
    # when
    larger = claim_template(size="2Gi", storageClassName=fast)
    await sets.set_image("nginx:2", volumeClaimTemplates=[larger])
    await all_ready(stage, sets, 2)
    await sets.settled(replicas=2)
    # then pods are updated after their claims have grown, in place
    assert await sets.uids() == before
    assert {claim["status"]["capacity"]["storage"] for claim in (await claims(stage)).values()} == {"2Gi"}


@pytest.mark.node
async def test_unexpandable_claims_are_named_and_the_set_continues_when_they_can_grow(
    stage: Stage, sets: Sets
) -> None:
    """statefulset case 71"""
    # given a class that does not let volumes grow, and a change that slips past admission
    slow = await a_class(stage, "slow", expandable=False)
    await stage.start_manager(settings=GROWS)
    await sets.create(replicas=2, updateStrategy=rolling(), **growing(claim_template(storageClassName=slow)))
    await sets.settled(replicas=2)
    with stage.past_admission():
        await sets.change(volumeClaimTemplates=[claim_template(size="2Gi", storageClassName=slow)])

    # then
    async def says_why() -> bool:
        result = await sets.condition("FailedUpdatePod")
        return result is not None and "allowVolumeExpansion" in result["message"]

    await sets.until(says_why)
    assert await stage.until(lambda: stage.events("FailedUpdatePVC"))
    # when the class allows it
    patch = {"allowVolumeExpansion": True}
    await stage.client.patch(STORAGE_CLASSES, "", slow, patch, patch_type=PatchType.MERGE)
    # then
    await all_ready(stage, sets, 2)
    assert await sets.condition("FailedUpdatePod") is None
