"""Deployments and ReplicaSets on a sandbox cluster, in virtual time."""

import asyncio
from typing import Any

from pykruise.kube.documents import get_path
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.faults import Rule
from support.sandbox import Object, Place, pod, small_cluster

REVISION = "deployment.kubernetes.io/revision"


def deployment(
    name: str = "web",
    *,
    replicas: int = 3,
    image: str = "nginx:1",
    strategy: Object | None = None,
    **spec: Any,
) -> Object:
    """A Deployment as a user writes it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            **({"strategy": strategy} if strategy else {}),
            **spec,
        },
    }


def with_image(image: str) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


async def set_image(place: Place, image: str, name: str = "web") -> None:
    await place.client.patch(DEPLOYMENTS, "default", name, with_image(image), patch_type=PatchType.STRATEGIC)


async def is_rolled_out(place: Place, name: str = "web") -> bool:
    """Conditions that `kubectl rollout status` checks."""
    doc = await place.get(DEPLOYMENTS, name)
    status, wanted = doc["status"], doc["spec"]["replicas"]
    return bool(
        status.get("observedGeneration") == doc["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


async def conditions(place: Place, name: str = "web") -> dict[str, Object]:
    result = (await place.get(DEPLOYMENTS, name))["status"].get("conditions", ())
    return {item["type"]: item for item in result}


async def sizes(place: Place) -> dict[str, int]:
    """Replicas of ReplicaSets, by the image of their template."""
    sizes = {}
    for name in await place.names(REPLICA_SETS):
        doc = await place.get(REPLICA_SETS, name)
        sizes[doc["spec"]["template"]["spec"]["containers"][0]["image"]] = doc["spec"]["replicas"]
    return sizes


async def test_a_deployment_becomes_available_and_reports_it() -> None:
    async with small_cluster() as place:
        # when
        await place.create(DEPLOYMENTS, deployment())
        await place.until(lambda: is_rolled_out(place))
        # then
        doc = await place.get(DEPLOYMENTS, "web")
        assert doc["metadata"]["annotations"][REVISION] == "1"
        assert doc["metadata"]["generation"] == 1
        assert {name: doc["status"][name] for name in ("replicas", "readyReplicas", "updatedReplicas")} == {
            "replicas": 3,
            "readyReplicas": 3,
            "updatedReplicas": 3,
        }
        assert "unavailableReplicas" not in doc["status"]
        shown = await conditions(place)
        assert (shown["Available"]["status"], shown["Available"]["reason"]) == (
            "True",
            "MinimumReplicasAvailable",
        )
        (name,) = await place.names(REPLICA_SETS)
        assert shown["Progressing"]["reason"] == "NewReplicaSetAvailable"
        assert shown["Progressing"]["message"] == f'ReplicaSet "{name}" has successfully progressed.'
        # and the pods have the hash, their owner is the ReplicaSet, and its owner is the Deployment
        replica_set = await place.get(REPLICA_SETS, name)
        digest = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert name == f"web-{digest}"
        assert replica_set["metadata"]["ownerReferences"][0]["uid"] == doc["metadata"]["uid"]
        for text in await place.names(PODS):
            result = await place.get(PODS, text)
            assert result["metadata"]["labels"]["pod-template-hash"] == digest
            assert result["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
        events = await place.events("ScalingReplicaSet")
        assert [event["message"] for event in events] == [f"Scaled up replica set {name} from 0 to 3"]


async def test_a_rolling_update_keeps_within_surge_and_unavailable() -> None:
    async with small_cluster() as place:
        # given
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await place.create(DEPLOYMENTS, deployment(replicas=4, strategy=strategy))
        await place.until(lambda: is_rolled_out(place))
        # when
        await set_image(place, "nginx:2")
        # then there are never more than five pods, or fewer than three available ones
        while not await is_rolled_out(place):
            status = (await place.get(DEPLOYMENTS, "web"))["status"]
            assert sum((await sizes(place)).values()) <= 5
            assert status.get("availableReplicas", 0) >= 3
            await asyncio.sleep(0.05)
        assert await sizes(place) == {"nginx:1": 0, "nginx:2": 4}
        assert (await place.get(DEPLOYMENTS, "web"))["metadata"]["annotations"][REVISION] == "2"


async def test_recreate_starts_new_pods_after_all_old_ones_are_deleted() -> None:
    async with small_cluster(ClusterSettings(nodes=2, stop_s=5.0)) as place:
        # given
        await place.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
        await place.until(lambda: is_rolled_out(place))
        # when
        await set_image(place, "nginx:2")
        # then
        seen: set[frozenset[str]] = set()
        while not await is_rolled_out(place):
            names = await place.names(PODS)
            images = [(await place.get(PODS, name))["spec"]["containers"][0]["image"] for name in names]
            seen.add(frozenset(images))
            await asyncio.sleep(0.1)
        assert frozenset({"nginx:1", "nginx:2"}) not in seen
        assert frozenset() in seen or frozenset({"nginx:1"}) in seen


async def test_a_rollback_of_a_deployment_reuses_its_replica_set_under_a_new_revision() -> None:
    async with small_cluster() as place:
        # given two revisions
        await place.create(DEPLOYMENTS, deployment())
        await place.until(lambda: is_rolled_out(place))
        await set_image(place, "nginx:2")
        await place.until(lambda: is_rolled_out(place))
        before = set(await place.names(REPLICA_SETS))
        # when
        await set_image(place, "nginx:1")
        await place.until(lambda: is_rolled_out(place))
        # then
        assert set(await place.names(REPLICA_SETS)) == before
        docs = [await place.get(REPLICA_SETS, name) for name in sorted(before)]
        revisions = {
            doc["spec"]["template"]["spec"]["containers"][0]["image"]: doc["metadata"]["annotations"]
            for doc in docs
        }
        assert revisions["nginx:1"][REVISION] == "3"
        assert revisions["nginx:1"]["deployment.kubernetes.io/revision-history"] == "1"
        assert revisions["nginx:2"][REVISION] == "2"


async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    async with small_cluster() as place:
        # given
        await place.create(DEPLOYMENTS, deployment())
        await place.until(lambda: is_rolled_out(place))
        await place.merge(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        # when
        await set_image(place, "nginx:2")
        await place.merge(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(10)
        # then
        assert await sizes(place) == {"nginx:1": 5}
        assert (await conditions(place))["Progressing"]["reason"] == "DeploymentPaused"
        # and when it is resumed
        await place.merge(DEPLOYMENTS, "web", {"spec": {"paused": None}})
        await place.until(lambda: is_rolled_out(place))
        assert (await sizes(place))["nginx:2"] == 5


async def test_a_rollout_that_gets_nowhere_misses_its_deadline() -> None:
    rules = [Rule(image="nginx:2", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        # given
        await place.create(DEPLOYMENTS, deployment(progressDeadlineSeconds=60))
        await place.until(lambda: is_rolled_out(place))
        # when
        await set_image(place, "nginx:2")
        await asyncio.sleep(50)
        assert (await conditions(place))["Progressing"]["reason"] == "ReplicaSetUpdated"
        await asyncio.sleep(30)
        # then
        shown = (await conditions(place))["Progressing"]
        assert (shown["status"], shown["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert (await conditions(place))["Available"]["status"] == "True"


async def test_scaling_in_the_middle_of_a_rollout_is_spread_over_the_replica_sets() -> None:
    rules = [Rule(image="nginx:2", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        # given a rollout that is stuck with 8 old and 5 new pods
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await place.create(DEPLOYMENTS, deployment(replicas=10, strategy=strategy))
        await place.until(lambda: is_rolled_out(place))
        await set_image(place, "nginx:2")
        await asyncio.sleep(30)
        assert await sizes(place) == {"nginx:1": 8, "nginx:2": 5}
        # when (the example of the Kubernetes documentation)
        await place.merge(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
        await asyncio.sleep(30)
        # then the five new pods are distributed in proportion to the sizes of the ReplicaSets
        assert await sizes(place) == {"nginx:1": 11, "nginx:2": 7}


async def test_old_replica_sets_beyond_the_history_limit_are_deleted() -> None:
    async with small_cluster() as place:
        await place.create(DEPLOYMENTS, deployment(replicas=1, revisionHistoryLimit=1))
        await place.until(lambda: is_rolled_out(place))
        # when
        for number in (2, 3, 4):
            await set_image(place, f"nginx:{number}")
            await place.until(lambda: is_rolled_out(place))
        await asyncio.sleep(5)
        # then
        assert await sizes(place) == {"nginx:3": 0, "nginx:4": 1}


async def test_min_ready_seconds_delay_availability() -> None:
    async with small_cluster() as place:
        # when
        await place.create(DEPLOYMENTS, deployment(minReadySeconds=30))
        took_s = await place.until(lambda: is_rolled_out(place))
        # then
        assert took_s >= 30
        assert (await place.get(DEPLOYMENTS, "web"))["status"]["availableReplicas"] == 3


async def test_a_deleted_deployment_deletes_its_replicasets_and_pods() -> None:
    async with small_cluster() as place:
        await place.create(DEPLOYMENTS, deployment())
        await place.until(lambda: is_rolled_out(place))
        # when
        await place.client.delete(DEPLOYMENTS, "default", "web", propagation="Background")

        # then
        async def is_empty() -> bool:
            return not await place.names(REPLICA_SETS) and not await place.names(PODS)

        await place.until(is_empty)


async def test_a_replica_set_adopts_matching_pods_and_releases_others() -> None:
    async with small_cluster() as place:
        # given a pod that is older than the ReplicaSet
        await place.create(PODS, pod("early", labels={"app": "web"}))
        replica_set = deployment(replicas=2) | {"kind": "ReplicaSet"}
        stored = await place.create(REPLICA_SETS, replica_set)

        async def count() -> int:
            return len(await place.names(PODS))

        async def is_ready() -> bool:
            return bool((await place.get(REPLICA_SETS, "web"))["status"].get("readyReplicas") == 2)

        # then the pod is adopted
        await place.until(is_ready)
        assert await count() == 2
        assert (
            get_path(await place.get(PODS, "early"), "metadata", "ownerReferences", 0, "uid")
            == (stored["metadata"]["uid"])
        )
        # and when its labels change, it is released and replaced
        await place.merge(PODS, "early", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(5)
        assert await count() == 3
        assert "ownerReferences" not in (await place.get(PODS, "early"))["metadata"]


async def test_a_replicaset_deletes_unready_and_cheap_pods_first() -> None:
    rules = [Rule(pod="*-slow*", never_ready=True)]
    async with small_cluster(rules=rules) as place:
        # given five pods, one with a low deletion cost, and one that never becomes ready
        await place.create(PODS, pod("web-slow", labels={"app": "web"}))
        cheap = pod("cheap", labels={"app": "web"})
        cheap["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
        await place.create(PODS, cheap)
        await place.create(REPLICA_SETS, deployment(replicas=5) | {"kind": "ReplicaSet"})
        await asyncio.sleep(10)
        # when
        await place.merge(REPLICA_SETS, "web", {"spec": {"replicas": 3}})
        await asyncio.sleep(10)
        # then
        left = await place.names(PODS)
        assert len(left) == 3
        assert not {"web-slow", "cheap"} & set(left)
