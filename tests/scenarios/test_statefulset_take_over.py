"""A StatefulSet of another manager is taken over, also in the middle of a rollout: no pod is restarted.

Objects are written as OpenKruise's manager leaves them. No manager works on them before pykruise does. Other tests
are about the selector guard: a selector that was changed past admission orphans no pod.
"""

import asyncio
import json
from typing import Any

import pytest

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view import keys
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.workload.revisions import encode_revision_data, hash_revision
from support.scenario import Object, Stage, rolling
from support.statefulsets import GATE, Sets, claim_template, in_place, statefulset

PAST = "2026-01-31T11:00:00Z"
SIZE = 3


@pytest.fixture
def sets(stage: Stage) -> Sets:
    return Sets(stage)


def stored_template(image: str) -> Object:
    """The template as the webhook of the other manager stored it: with explicit defaults."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Always",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {
        "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
        "spec": {
            "containers": [container],
            "dnsPolicy": "ClusterFirst",
            "readinessGates": [GATE],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    }


class Legacy:
    """Writes what the other manager would have written."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner: Object = {}
        self.revisions: list[str] = []

    async def start(self, image: str, **spec: Any) -> None:
        """A set of `image`, and no pods yet."""
        fields = {"revisionHistoryLimit": 10, "volumeClaimTemplates": [claim_template()], **spec}
        body = statefulset(image=image, replicas=SIZE, **fields)
        body["spec"]["template"] = stored_template(image)
        result = await self.stage.create(body, resource=ADVANCED_STATEFUL_SETS)
        self.owner = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "StatefulSet",
            "name": "web",
            "uid": result["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    async def revision(self, image: str) -> str:
        """A ControllerRevision; returns its name."""
        wanted = stored_template(image)
        name = f"web-{hash_revision(encode_revision_data(wanted), 0)}"
        self.revisions.append(name)
        body = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "labels": {"app": "web", keys.REVISION_HASH_LABEL: shorten_hash(name)},
                "ownerReferences": [self.owner],
            },
            "data": json.loads(encode_revision_data(wanted)),
            "revision": len(self.revisions),
        }
        await self.stage.create(body, resource=CONTROLLER_REVISIONS)
        return name

    async def pod(self, number: int, image: str, revision: str, **labels: str) -> None:
        """A pod of that revision with its claim."""
        name = f"web-{number}"
        claim = {**claim_template(), "metadata": {"name": f"data-{name}", "labels": {"app": "web"}}}
        await self.stage.create(claim, resource=PERSISTENT_VOLUME_CLAIMS)
        body = {
            "metadata": {
                "name": name,
                "generateName": "web-",
                "labels": {
                    "app": "web",
                    "statefulset.kubernetes.io/pod-name": name,
                    "apps.kubernetes.io/pod-index": str(number),
                    keys.REVISION_LABEL: revision,
                    keys.STATE_LABEL: "Normal",
                    **labels,
                },
                "annotations": {keys.STATE_TIME_ANNOTATION: PAST},
                "ownerReferences": [self.owner],
            },
            "spec": {
                **stored_template(image)["spec"],
                "readinessGates": [GATE, {"conditionType": keys.KRUISE_POD_READY}],
                "hostname": name,
                "subdomain": "web",
                "volumes": [
                    {
                        "name": "data",
                        "persistentVolumeClaim": {"claimName": f"data-{name}", "readOnly": False},
                    }
                ],
            },
        }
        await self.stage.create(body, resource=PODS)
        await self.condition(number, "True")
        await self.condition(number, "True", kind=keys.KRUISE_POD_READY)

    async def condition(
        self, number: int, status: str, *, kind: str = keys.IN_PLACE_READY, **fields: str
    ) -> None:
        entry = {"type": kind, "status": status, "lastTransitionTime": PAST, **fields}
        await self.stage.client.patch(
            PODS,
            self.stage.namespace,
            f"web-{number}",
            {"status": {"conditions": [entry]}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def status(self, *, current: str, update: str, updated: int) -> None:
        status = {
            "observedGeneration": 1,
            "replicas": SIZE,
            "readyReplicas": SIZE,
            "availableReplicas": SIZE,
            "currentReplicas": SIZE - updated,
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "labelSelector": "app=web",
            "collisionCount": 0,
        }
        patch = {"status": status}
        await self.stage.merge("web", patch, resource=ADVANCED_STATEFUL_SETS, subresource="status")

    async def all_ready(self) -> None:
        async def ready() -> bool:
            pods = await self.stage.pods()
            return len(pods) == SIZE and all(pod.has_ready_condition for pod in pods)

        await self.stage.until(ready, what="the pods that were left behind run")


async def facts(stage: Stage) -> dict[str, Any]:
    """Facts that must not change: uid, containers, restarts, labels and owners of pods."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["spec"]["containers"],
            [status["restartCount"] for status in pod["status"].get("containerStatuses") or ()],
            pod["metadata"]["labels"],
            pod["metadata"].get("ownerReferences"),
        )
        for pod in map(decode, listed.items)
    }


async def taken_over(stage: Stage) -> None:
    """A manager; returns when it has had time to do harm."""
    await stage.start_manager()

    async def has_recorded() -> bool:
        """The guard's record is the first thing that a take-over writes."""
        result = await stage.stored(CONTROLLER_REVISIONS)
        annotations = [entry["metadata"].get("annotations") or {} for entry in result]
        return any(keys.MANAGED_SELECTOR_ANNOTATION in annotation for annotation in annotations)

    await stage.until(has_recorded, what="the manager looked at it")
    await asyncio.sleep(min(stage.long_s, 60))


@pytest.mark.parametrize("parallel", [False, True], ids=["OrderedReady", "Parallel"])
@pytest.mark.parametrize(
    "strategy", [rolling(podUpdatePolicy="ReCreate"), in_place()], ids=["recreate", "in place"]
)
async def test_a_finished_set_is_taken_over_without_a_change(
    stage: Stage, sets: Sets, parallel: bool, strategy: Object
) -> None:
    # given
    legacy = Legacy(stage)
    await legacy.start("nginx:2", parallel=parallel, updateStrategy=strategy)
    await legacy.revision("nginx:1")
    update = await legacy.revision("nginx:2")
    for number in range(SIZE):
        await legacy.pod(number, "nginx:2", update)
    await legacy.all_ready()
    await legacy.status(current=update, update=update, updated=SIZE)
    before = await facts(stage)
    # when
    await taken_over(stage)
    # then
    assert await facts(stage) == before
    assert {entry["metadata"]["name"] for entry in await stage.stored(CONTROLLER_REVISIONS)} == {
        *legacy.revisions
    }
    assert (await sets.status())["currentRevision"] == update


@pytest.mark.parametrize(
    "strategy", [rolling(podUpdatePolicy="ReCreate", partition=2), in_place(partition=2)]
)
async def test_a_rollout_held_by_a_partition_is_taken_over_and_continued(
    stage: Stage, sets: Sets, strategy: Object
) -> None:
    # given
    legacy = Legacy(stage)
    await legacy.start("nginx:2", updateStrategy=strategy)
    old, new = await legacy.revision("nginx:1"), await legacy.revision("nginx:2")
    await legacy.pod(0, "nginx:1", old)
    await legacy.pod(1, "nginx:1", old)
    await legacy.pod(2, "nginx:2", new)
    await legacy.all_ready()
    await legacy.status(current=old, update=new, updated=1)
    before = await facts(stage)
    # when
    await taken_over(stage)
    # then nothing moves, and it says what it waits for
    assert await facts(stage) == before
    condition = await sets.condition("Waiting")
    assert condition is not None
    assert condition["reason"] == "Partition"
    # when the partition goes, the rest follows
    await sets.change(updateStrategy={"rollingUpdate": {"partition": 0}})
    await sets.settled(replicas=SIZE)
    assert set((await sets.images()).values()) == {"nginx:2"}
    assert (await sets.uids())[2] == before["web-2"][0]


async def test_an_update_in_place_in_progress_is_finished(stage: Stage, sets: Sets) -> None:
    # given a pod whose containers have restarted, and which no manager has brought back into service
    legacy = Legacy(stage)
    await legacy.start("nginx:2", updateStrategy=in_place(partition=2))
    old, new = await legacy.revision("nginx:1"), await legacy.revision("nginx:2")
    for number, (image, revision) in enumerate([("nginx:1", old), ("nginx:1", old), ("nginx:2", new)]):
        await legacy.pod(number, image, revision)
    await legacy.all_ready()
    state = {
        "revision": new,
        "updateTimestamp": PAST,
        "lastContainerStatuses": {"main": {"imageID": "sha256:older"}},
        "updateImages": True,
    }
    labels = {keys.STATE_LABEL: "Updating"}
    annotations = {keys.IN_PLACE_STATE_ANNOTATION: json.dumps(state)}
    await stage.merge("web-2", {"metadata": {"labels": labels, "annotations": annotations}}, resource=PODS)
    await legacy.condition(2, "False", reason="StartInPlaceUpdate")
    await legacy.status(current=old, update=new, updated=1)
    before = await sets.uids()
    # when
    await taken_over(stage)
    # then
    await sets.settled(replicas=SIZE, updated=1)
    assert await sets.uids() == before
    assert (await sets.pods())[2].state == "Normal"


async def test_a_changed_selector_changes_no_pod_and_is_restored(stage: Stage, sets: Sets) -> None:
    # given
    await stage.start_manager()
    await sets.create(replicas=2)
    await sets.settled(replicas=2)
    before = await facts(stage)
    # when it is changed past admission
    other = {"matchLabels": {"app": "other"}}
    with stage.past_admission():
        await sets.change(selector=other, template={"metadata": {"labels": {"app": "other"}}})

    # then it says so, and no pod is touched
    async def says_so() -> bool:
        return await sets.condition("SelectorMismatch") is not None

    await sets.until(says_so)
    await asyncio.sleep(min(stage.long_s, 60))
    assert await facts(stage) == before
    # when it is put back, it goes on
    with stage.past_admission():
        await sets.change(
            selector={"matchLabels": {"app": "web"}}, template={"metadata": {"labels": {"app": "web"}}}
        )
    await sets.scale(3)
    await sets.settled(replicas=3)
    assert await sets.condition("SelectorMismatch") is None


async def test_an_orphan_is_adopted_and_a_relabelled_pod_is_replaced(stage: Stage, sets: Sets) -> None:
    """statefulset case 84"""
    # given a set whose pods were left behind by an orphaning deletion
    await stage.start_manager()
    await sets.create(replicas=2)
    await sets.settled(replicas=2)
    before = await sets.uids()
    await sets.delete(propagation="Orphan")

    async def are_orphans() -> bool:
        gone = not await stage.exists("web", resource=ADVANCED_STATEFUL_SETS)
        return gone and all(pod.controller is None for pod in (await sets.pods()).values())

    await stage.until(are_orphans)
    # when it is made again, they are its own
    await sets.create(replicas=2)
    await sets.settled(replicas=2)
    assert await sets.uids() == before
    # when one is put aside, it is let go, and its successor comes when the name is free
    await sets.label("web-1", {"app": "aside"})

    async def is_free() -> bool:
        pod = decode(await stage.client.get(PODS, stage.namespace, "web-1"))
        return not pod["metadata"].get("ownerReferences")

    await stage.until(is_free)
    await stage.client.delete(PODS, stage.namespace, "web-1")
    await sets.settled(replicas=2)
