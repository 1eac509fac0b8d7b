"""Volume claim templates: the changes that recreate pods, and those that are only reported."""

import asyncio

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import decode
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view import keys
from support.scenario import Object, Stage, cloneset, rolling

COMPARING = ManagerSettings(gates=Gates.of(RecreatePodWhenChangeVCTInCloneSetGate=True))
"""Gate RecreatePodWhenChangeVCTInCloneSetGate."""

REPLICAS = 3


def templates(size: str) -> list[Object]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return [{"metadata": {"name": "data"}, "spec": spec}]


async def settled_with(stage: Stage, *, settings: ManagerSettings = COMPARING) -> dict[str, str]:
    """Pods with claims of 1Gi that are updated in place if possible; their uids by name."""
    await stage.start_manager(settings=settings)
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable="100%")
    body = cloneset(replicas=REPLICAS, updateStrategy=strategy, volumeClaimTemplates=templates("1Gi"))
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    await stage.create(body)
    await stage.settled(replicas=REPLICAS)
    return await uids(stage)


async def change(stage: Stage, *, image: str = "", size: str = "") -> None:
    """Change the image, the size of claims, or both in one write."""
    spec: Object = {"volumeClaimTemplates": templates(size)} if size else {}
    if image:
        mounts = [{"name": "data", "mountPath": "/data"}]
        containers = [{"name": "main", "image": image, "volumeMounts": mounts}]
        spec["template"] = {"spec": {"containers": containers}}
    await stage.merge("web", {"spec": spec})


async def uids(stage: Stage) -> dict[str, str]:
    return {pod.name: pod.uid for pod in await stage.pods()}


async def sizes(stage: Stage) -> list[str]:
    """The sizes that the claims request, in order."""
    listed = await stage.client.list(PERSISTENT_VOLUME_CLAIMS, stage.namespace)
    return sorted(decode(raw)["spec"]["resources"]["requests"]["storage"] for raw in listed.items)


async def images(stage: Stage) -> set[str]:
    listed = await stage.client.list(PODS, stage.namespace)
    return {decode(raw)["spec"]["containers"][0]["image"] for raw in listed.items}


async def revisions(stage: Stage) -> dict[str, Object]:
    listed = await stage.client.list(CONTROLLER_REVISIONS, stage.namespace)
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


async def in_words(stage: Stage) -> str:
    now = stage.clock()
    key = Key(stage.namespace, "web")
    return format_explanation(await read_and_explain(stage.client, key, now=now, kind=CLONE_SET), now=now)


async def test_volume_claim_templates_and_an_image_changed_together_recreate_the_pods(stage: Stage) -> None:
    """cloneset case 57"""
    # given
    before = await settled_with(stage)
    # when
    await change(stage, image="nginx:2", size="2Gi")
    await stage.settled(replicas=REPLICAS)
    # then they are other pods, with claims of the new size
    assert not {*before.values()} & {*(await uids(stage)).values()}
    assert await images(stage) == {"nginx:2"}

    async def resized() -> bool:
        return await sizes(stage) == ["2Gi"] * REPLICAS

    await stage.until(resized, what="only claims of the new size are left")


async def test_changed_volume_claim_templates_alone_update_no_pod_and_explain_reports_it(
    stage: Stage,
) -> None:
    """cloneset case 56"""
    # given
    before = await settled_with(stage)
    known = {*await revisions(stage)}
    assert "claims" not in await in_words(stage)
    # when
    await change(stage, size="2Gi")
    await asyncio.sleep(min(stage.long_s, 60))
    # then
    assert await uids(stage) == before
    assert await sizes(stage) == ["1Gi"] * REPLICAS
    assert {*await revisions(stage)} == known
    words = await in_words(stage)
    assert "Healthy" in words.partition(".")[0]
    assert "keeps its claims: spec.volumeClaimTemplates changed" in words
    # and a pod that comes from now on has the new claim
    await stage.scale("web", REPLICAS + 1)
    await stage.settled(replicas=REPLICAS + 1)
    assert await sizes(stage) == ["1Gi"] * REPLICAS + ["2Gi"]


async def test_volume_claim_templates_rolled_back_find_the_old_revision_again(stage: Stage) -> None:
    """cloneset cases 52 and 58"""
    # given
    await settled_with(stage)
    (first,) = await revisions(stage)
    await change(stage, image="nginx:2", size="2Gi")
    await stage.settled(replicas=REPLICAS)
    # when
    await change(stage, image="nginx:1", size="1Gi")
    await stage.settled(replicas=REPLICAS)
    # then
    result = await revisions(stage)
    assert len(result) == 2
    assert (await stage.status())["updateRevision"] == first
    assert result[first]["revision"] > 2
    assert await images(stage) == {"nginx:1"}


async def test_volume_claim_templates_unknown_to_the_old_revision_roll_no_pod(stage: Stage) -> None:
    """cloneset 6.3: pods that were created before the hash existed are updated in place"""
    # given a revision of an older version, which recorded no hash
    before = await settled_with(stage)
    (first,) = await revisions(stage)
    nothing = {"metadata": {"annotations": {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: None}}}
    await stage.client.patch(
        CONTROLLER_REVISIONS, stage.namespace, first, nothing, patch_type=PatchType.MERGE
    )
    # when
    await change(stage, image="nginx:2", size="2Gi")
    await stage.settled(replicas=REPLICAS)
    # then
    assert await uids(stage) == before
    assert await images(stage) == {"nginx:2"}
    assert await sizes(stage) == ["1Gi"] * REPLICAS


async def test_volume_claim_templates_are_not_compared_without_the_gate(stage: Stage) -> None:
    """cloneset case 57"""
    before = await settled_with(stage, settings=ManagerSettings())
    await change(stage, image="nginx:2", size="2Gi")
    await stage.settled(replicas=REPLICAS)
    assert await uids(stage) == before
    assert await images(stage) == {"nginx:2"}
