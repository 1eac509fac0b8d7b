"""Claims and volumes on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pykruise.sandbox.controllers.volumes import STORAGE_CLASSES
from support.sandbox import Object, Place, pod, small_cluster


def claim(name: str = "data", *, storage: str = "1Gi", **spec: Any) -> Object:
    """A claim as a user writes it."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            **spec,
        },
    }


def volume(name: str, *, storage: str, **spec: Any) -> Object:
    """A volume of an administrator."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": storage},
            "hostPath": {"path": "/data"},
            **spec,
        },
    }


async def phase(place: Place, name: str = "data") -> str:
    return str((await place.get(PERSISTENT_VOLUME_CLAIMS, name))["status"]["phase"])


async def is_bound(place: Place, name: str = "data") -> bool:
    return await phase(place, name) == "Bound"


def using(name: str, claim_name: str) -> Object:
    """A pod with the claim as its volume."""
    source = {"persistentVolumeClaim": {"claimName": claim_name}}
    return pod(name, volumes=[{"name": "data", **source}])


async def test_a_claim_without_a_class_gets_the_default_one_and_a_volume() -> None:
    async with small_cluster() as place:
        # when
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim())
        await place.until(lambda: is_bound(place))
        # then
        result = await place.get(PERSISTENT_VOLUME_CLAIMS, "data")
        assert result["spec"]["storageClassName"] == "standard"
        assert result["status"]["capacity"] == {"storage": "1Gi"}
        assert result["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        made = await place.get(PERSISTENT_VOLUMES, result["spec"]["volumeName"])
        assert made["metadata"]["name"] == f"pvc-{result['metadata']['uid']}"
        assert made["spec"]["claimRef"]["uid"] == result["metadata"]["uid"]
        assert made["status"]["phase"] == "Bound"


async def test_the_smallest_volume_that_will_do_is_taken() -> None:
    async with small_cluster() as place:
        # given
        for name, storage in (("large", "10Gi"), ("fits", "2Gi"), ("small", "512Mi")):
            await place.create(PERSISTENT_VOLUMES, volume(name, storage=storage))
        # when a claim has no storage class
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName=""))
        await place.until(lambda: is_bound(place))
        # then
        assert (await place.get(PERSISTENT_VOLUME_CLAIMS, "data"))["spec"]["volumeName"] == "fits"
        assert (await place.get(PERSISTENT_VOLUMES, "large"))["status"]["phase"] == "Available"


async def test_a_claim_of_a_late_binding_class_waits_for_its_first_pod() -> None:
    async with small_cluster() as place:
        # given
        doc = {
            "metadata": {"name": "later"},
            "provisioner": "paper.sandbox.pykruise.io",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await place.create(STORAGE_CLASSES, doc)
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName="later"))
        await asyncio.sleep(10)
        assert await phase(place) == "Pending"
        # when
        await place.create(PODS, using("web", "data"))
        # then
        await place.until(lambda: is_bound(place))


async def test_a_claim_grows_when_its_class_allows_it() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim())
        await place.until(lambda: is_bound(place))
        # when
        await place.merge(
            PERSISTENT_VOLUME_CLAIMS, "data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
        )

        # then
        async def has_grown() -> bool:
            result = await place.get(PERSISTENT_VOLUME_CLAIMS, "data")
            return bool(result["status"]["capacity"] == {"storage": "5Gi"})

        await place.until(has_grown)
        name = (await place.get(PERSISTENT_VOLUME_CLAIMS, "data"))["spec"]["volumeName"]
        assert (await place.get(PERSISTENT_VOLUMES, name))["spec"]["capacity"] == {"storage": "5Gi"}


async def test_a_claim_in_use_is_deleted_with_its_volume_after_its_pod() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim())
        await place.create(PODS, using("web", "data"))
        await place.until(lambda: place.is_ready("web"))
        # when
        await place.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")
        await asyncio.sleep(30)
        # then
        assert (await place.get(PERSISTENT_VOLUME_CLAIMS, "data"))["metadata"]["deletionTimestamp"]
        await place.client.delete(PODS, "default", "web")

        async def is_gone() -> bool:
            return not await place.names(PERSISTENT_VOLUME_CLAIMS) and not await place.names(
                PERSISTENT_VOLUMES
            )

        await place.until(is_gone)


async def test_a_volume_to_be_retained_stays_released() -> None:
    async with small_cluster() as place:
        # given
        await place.create(PERSISTENT_VOLUMES, volume("kept", storage="1Gi"))
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim(storageClassName=""))
        await place.until(lambda: is_bound(place))
        # when
        await place.client.delete(PERSISTENT_VOLUME_CLAIMS, "default", "data")

        # then
        async def is_released() -> bool:
            return bool((await place.get(PERSISTENT_VOLUMES, "kept"))["status"]["phase"] == "Released")

        await place.until(is_released)
        # and no other claim is bound to it
        await place.create(PERSISTENT_VOLUME_CLAIMS, claim("other", storageClassName=""))
        await asyncio.sleep(10)
        assert await phase(place, "other") == "Pending"
