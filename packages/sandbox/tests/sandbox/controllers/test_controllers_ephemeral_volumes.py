"""Generic ephemeral volumes of pods, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pykruise.sandbox.controllers.volumes import STORAGE_CLASSES
from support.sandbox import Object, Place, pod, small_cluster

CLAIM: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}


def scratching(name: str, **spec: Any) -> Object:
    """A pod with an ephemeral volume `scratch`."""
    template = {"metadata": {"labels": {"kind": "scratch"}}, "spec": {**CLAIM, **spec}}
    return pod(name, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


async def says(place: Place, reason: str, text: str) -> bool:
    return any(text in event["message"] for event in await place.events(reason))


async def test_a_pod_with_an_ephemeral_volume_gets_a_claim_that_is_deleted_with_it() -> None:
    async with small_cluster() as place:
        # when
        await place.create(PODS, scratching("web"))
        await place.until(lambda: place.is_ready("web"))
        # then
        claim = await place.get(PERSISTENT_VOLUME_CLAIMS, "web-scratch")
        assert claim["metadata"]["labels"] == {"kind": "scratch"}
        uid = (await place.get(PODS, "web"))["metadata"]["uid"]
        assert claim["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "web",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert claim["status"]["phase"] == "Bound"
        # and when the pod is deleted
        await place.client.delete(PODS, "default", "web")

        # then its claim and the volume are deleted, too
        async def is_empty() -> bool:
            claims = await place.names(PERSISTENT_VOLUME_CLAIMS)
            volumes = (await place.client.list(PERSISTENT_VOLUMES)).items
            return not claims and not volumes

        await place.until(is_empty)


async def test_a_claim_of_another_owner_under_the_name_keeps_the_pod_waiting() -> None:
    async with small_cluster() as place:
        # given
        foreign = {"metadata": {"name": "web-scratch"}, "spec": CLAIM}
        await place.create(PERSISTENT_VOLUME_CLAIMS, foreign)
        await asyncio.sleep(5)
        # when
        await place.create(PODS, scratching("web"))
        why = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
        await place.until(lambda: says(place, "FailedBinding", f"ephemeral volume scratch: {why}"))
        await place.until(lambda: says(place, "FailedScheduling", why))
        assert not await place.is_ready("web")
        # and when that claim is deleted
        await place.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "web-scratch")
        # then
        await place.until(lambda: place.is_ready("web"))


async def test_a_claim_that_waits_for_its_pod_is_bound_on_the_pods_node() -> None:
    async with small_cluster() as place:
        # given
        late = {
            "metadata": {"name": "late"},
            "provisioner": "paper.sandbox.pykruise.io",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await place.client.create(STORAGE_CLASSES, "", late)
        # when
        await place.create(PODS, scratching("web", storageClassName="late"))
        await place.until(lambda: place.is_ready("web"))
        # then
        claim = await place.get(PERSISTENT_VOLUME_CLAIMS, "web-scratch")
        node = (await place.get(PODS, "web"))["spec"]["nodeName"]
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node
