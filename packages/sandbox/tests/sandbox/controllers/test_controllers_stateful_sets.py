"""StatefulSets on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
)
from pykruise.sandbox.nodes.faults import Rule
from support.sandbox import Object, Place, small_cluster


def stateful_set(name: str = "db", *, replicas: int = 3, claims: tuple[str, ...] = (), **spec: Any) -> Object:
    """A StatefulSet as a user writes it; a claim template of 1Gi for each of `claims`."""
    mode = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "postgres:1"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": claim}, "spec": mode} for claim in claims],
            **spec,
        },
    }


async def is_ready(place: Place, name: str = "db") -> bool:
    """Whether all pods have the new revision and are ready."""
    doc = await place.get(STATEFUL_SETS, name)
    status, wanted = doc["status"], doc["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == doc["metadata"]["generation"]
        and status.get("readyReplicas", 0) == wanted
        and status["replicas"] == wanted
        and status.get("updatedReplicas", 0) == wanted
    )


async def set_image(place: Place, image: str) -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    await place.client.patch(STATEFUL_SETS, "default", "db", patch, patch_type=PatchType.STRATEGIC)


async def images(place: Place) -> list[str]:
    docs = [await place.get(PODS, name) for name in sorted(await place.names(PODS))]
    return [doc["spec"]["containers"][0]["image"] for doc in docs]


async def test_pods_are_created_in_order_after_the_previous_one_is_ready() -> None:
    async with small_cluster() as place:
        # when
        await place.create(STATEFUL_SETS, stateful_set())
        seen: list[list[str]] = []
        while not await is_ready(place):
            names = sorted(await place.names(PODS))
            for name in names[:-1]:
                assert await place.is_ready(name)
            if names not in seen:
                seen.append(names)
            await asyncio.sleep(0.05)
        # then
        assert [names for names in seen if names] == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]
        pod = await place.get(PODS, "db-1")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
        assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
        status = (await place.get(STATEFUL_SETS, "db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert pod["metadata"]["labels"]["controller-revision-hash"] == status["updateRevision"]
        messages = [event["message"] for event in await place.events("SuccessfulCreate")]
        assert "create Pod db-0 in StatefulSet db successful" in messages


async def test_a_statefulset_scales_down_from_the_highest_ordinal_one_by_one() -> None:
    async with small_cluster() as place:
        # given
        await place.create(STATEFUL_SETS, stateful_set())
        await place.until(lambda: is_ready(place))
        # when
        await place.merge(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
        seen: list[int] = []
        while not await is_ready(place):
            left = await place.names(PODS)
            going = [
                name for name in left if (await place.get(PODS, name))["metadata"].get("deletionTimestamp")
            ]
            seen.append(len(going))
            await asyncio.sleep(0.1)
        # then
        assert max(seen) == 1
        assert await place.names(PODS) == ["db-0"]


async def test_pods_are_updated_from_the_highest_ordinal_down_to_the_partition() -> None:
    async with small_cluster() as place:
        # given
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await place.create(STATEFUL_SETS, stateful_set(updateStrategy=strategy))
        await place.until(lambda: is_ready(place))
        # when
        await set_image(place, "postgres:2")
        await asyncio.sleep(30)
        # then
        assert await images(place) == ["postgres:1", "postgres:2", "postgres:2"]
        status = (await place.get(STATEFUL_SETS, "db"))["status"]
        assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
        assert status["currentRevision"] != status["updateRevision"]
        # and a pod below the partition is recreated with the old template
        await place.client.delete(PODS, "default", "db-0")
        await asyncio.sleep(10)
        assert (await images(place))[0] == "postgres:1"
        # and when the partition is 0
        await place.merge(
            STATEFUL_SETS, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        )
        await place.until(lambda: is_ready(place))
        assert set(await images(place)) == {"postgres:2"}
        status = (await place.get(STATEFUL_SETS, "db"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert len(await place.names(CONTROLLER_REVISIONS)) == 2


async def test_a_broken_update_stops_at_the_first_pod() -> None:
    rules = [Rule(image="postgres:2", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        await place.create(STATEFUL_SETS, stateful_set())
        await place.until(lambda: is_ready(place))
        # when
        await set_image(place, "postgres:2")
        await asyncio.sleep(60)
        # then
        assert await images(place) == ["postgres:1", "postgres:1", "postgres:2"]


async def test_parallel_management_creates_all_pods_together() -> None:
    rules = [Rule(pod="db-0", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        # when
        await place.create(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
        await asyncio.sleep(5)
        # then the first pod does not hold up the others
        assert sorted(await place.names(PODS)) == ["db-0", "db-1", "db-2"]


async def test_claims_are_created_bound_and_kept_for_the_recreated_pod() -> None:
    async with small_cluster() as place:
        # given
        await place.create(STATEFUL_SETS, stateful_set(replicas=2, claims=("data",)))
        await place.until(lambda: is_ready(place))
        claim = await place.get(PERSISTENT_VOLUME_CLAIMS, "data-db-1")
        assert claim["status"]["phase"] == "Bound"
        # when
        await place.merge(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
        await place.until(lambda: is_ready(place))
        await asyncio.sleep(5)
        # then
        assert sorted(await place.names(PERSISTENT_VOLUME_CLAIMS)) == ["data-db-0", "data-db-1"]
        await place.merge(STATEFUL_SETS, "db", {"spec": {"replicas": 2}})
        await place.until(lambda: is_ready(place))
        again = await place.get(PERSISTENT_VOLUME_CLAIMS, "data-db-1")
        assert again["metadata"]["uid"] == claim["metadata"]["uid"]
        pod = await place.get(PODS, "db-1")
        assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-1"


async def test_the_retention_policy_deletes_claims_with_their_pods() -> None:
    async with small_cluster() as place:
        # given
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        doc = stateful_set(replicas=2, claims=("data",), persistentVolumeClaimRetentionPolicy=policy)
        await place.create(STATEFUL_SETS, doc)
        await place.until(lambda: is_ready(place))
        # when
        await place.merge(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})

        # then
        async def claims_are(*names: str) -> bool:
            return sorted(await place.names(PERSISTENT_VOLUME_CLAIMS)) == list(names)

        await place.until(lambda: claims_are("data-db-0"))
        await place.client.delete(STATEFUL_SETS, "default", "db", propagation="Background")
        await place.until(claims_are)

        async def no_volumes() -> bool:
            return not await place.names(PERSISTENT_VOLUMES)

        await place.until(no_volumes)
