"""A CloneSet of another manager is taken over: nothing is recreated, restarted or stored a second time.

Objects are written as OpenKruise's manager leaves them: revisions with its bytes, all its labels, annotations and
conditions, in the middle of a rollout too. No manager works on them before pykruise does.
"""

import asyncio
import json
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.pods.view import keys
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.workload.revisions import encode_revision_data, hash_revision
from support.faults import FaultyTransport
from support.kstatus import other_conditions
from support.scenario import Object, Stage, cloneset, rolling

PAST = "2026-01-31T11:00:00Z"
IDS = ("4wbgv", "9dkzq", "xx2fl")


def template(image: str) -> Object:
    template: Object = cloneset(image=image)["spec"]["template"]
    return template


def stored_template(spec: Object) -> Object:
    """The template as the webhook of the other manager stored it: with explicit defaults."""
    return {
        "metadata": {"creationTimestamp": None, **spec["metadata"]},
        "spec": {
            "containers": [
                {
                    **container,
                    "imagePullPolicy": "Always",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
                for container in spec["spec"]["containers"]
            ],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    }


def data_of(pod_template: Object) -> Object:
    """The data of a revision as Go writes it: `$patch`, and `creationTimestamp: null`."""
    data: Object = json.loads(encode_revision_data(pod_template))
    assert data["spec"]["template"]["$patch"] == "replace"
    assert data["spec"]["template"]["metadata"]["creationTimestamp"] is None
    return data


class Legacy:
    """Writes what the other manager would have written."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.owner: Object = {}
        self.revisions: list[str] = []

    async def start(self, image: str, **spec: Any) -> None:
        """A CloneSet of `image` with its defaults, and no pods yet."""
        body = cloneset(image=image, revisionHistoryLimit=10, **spec)
        body["spec"]["template"] = stored_template(body["spec"]["template"])
        result = await self.stage.create(body)
        self.owner = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "name": "web",
            "uid": result["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }

    async def revision(self, image: str) -> str:
        """A ControllerRevision; returns its name."""
        wanted = stored_template(template(image))
        name = f"web-{hash_revision(encode_revision_data(wanted), 0)}"
        self.revisions.append(name)
        await self.stage.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": name,
                    "labels": {"app": "web", keys.REVISION_HASH_LABEL: shorten_hash(name)},
                    "annotations": {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: ""},
                    "ownerReferences": [self.owner],
                },
                "data": data_of(wanted),
                "revision": len(self.revisions),
            },
            resource=CONTROLLER_REVISIONS,
        )
        return name

    async def pod(
        self, instance_id: str, image: str, revision: str, *, claim: bool = False, **labels: str
    ) -> None:
        """A pod of that revision, both readiness conditions set; waits until it is ready."""
        spec = stored_template(template(image))["spec"]
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-web-{instance_id}"}}]
        body = {
            "metadata": {
                "name": f"web-{instance_id}",
                "labels": {
                    "app": "web",
                    keys.INSTANCE_ID_LABEL: instance_id,
                    keys.REVISION_LABEL: revision,
                    keys.TEMPLATE_HASH_LABEL: shorten_hash(revision),
                    keys.STATE_LABEL: "Normal",
                    **labels,
                },
                "annotations": {keys.STATE_TIME_ANNOTATION: PAST},
                "ownerReferences": [self.owner],
            },
            "spec": {
                **spec,
                "readinessGates": [
                    {"conditionType": keys.IN_PLACE_READY},
                    {"conditionType": keys.KRUISE_POD_READY},
                ],
                **({"volumes": volumes} if claim else {}),
            },
        }
        await self.stage.create(body, resource=PODS)
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": PAST}
            for kind in (keys.IN_PLACE_READY, keys.KRUISE_POD_READY)
        ]
        await self.set_conditions(instance_id, *conditions)

    async def set_conditions(self, instance_id: str, *conditions: Object) -> None:
        await self.stage.client.patch(
            PODS,
            self.stage.namespace,
            f"web-{instance_id}",
            {"status": {"conditions": list(conditions)}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def claim(self, instance_id: str) -> None:
        body = {
            "metadata": {
                "name": f"data-web-{instance_id}",
                "labels": {"app": "web", keys.INSTANCE_ID_LABEL: instance_id},
                "ownerReferences": [self.owner],
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await self.stage.create(body, resource=PERSISTENT_VOLUME_CLAIMS)

    async def status(self, *, current: str, update: str, updated: int) -> None:
        """The status as stored by the other manager, its stale condition too."""
        status = {
            "observedGeneration": 1,
            "replicas": len(IDS),
            "readyReplicas": len(IDS),
            "availableReplicas": len(IDS),
            "updatedReplicas": updated,
            "updatedReadyReplicas": updated,
            "updatedAvailableReplicas": updated,
            "expectedUpdatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": update,
            "labelSelector": "app=web",
            "conditions": [
                {
                    "type": "FailedUpdate",
                    "status": "True",
                    "message": "Operation cannot be fulfilled: the object has been modified",
                    "lastTransitionTime": PAST,
                }
            ],
        }
        await self.stage.merge("web", {"status": status}, subresource="status")

    async def all_ready(self) -> None:
        async def ready() -> bool:
            pods = await self.stage.pods()
            return len(pods) == len(IDS) and all(pod.has_ready_condition for pod in pods)

        await self.stage.until(ready, what="the pods that were left behind run")


async def pods_by_name(stage: Stage) -> dict[str, Object]:
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


async def revision_names(stage: Stage) -> set[str]:
    return {doc["metadata"]["name"] for doc in await stage.stored(CONTROLLER_REVISIONS)}


def facts(pods: dict[str, Object]) -> dict[str, Any]:
    """Facts that must not change: uid, spec, restarts, and labels."""
    return {
        name: (
            pod["metadata"]["uid"],
            pod["spec"]["containers"],
            [status["restartCount"] for status in pod["status"].get("containerStatuses") or ()],
            pod["metadata"]["labels"],
        )
        for name, pod in pods.items()
    }


async def taken_over(stage: Stage) -> FaultyTransport:
    """A manager over a transport that keeps a log; returns when it has had time to do harm."""
    seen = FaultyTransport(stage.manager_transport())
    await stage.start_manager(seen)
    await stage.until(lambda: _has_recorded(stage), what="the manager looked at it")
    await asyncio.sleep(min(stage.long_s, 120))
    return seen


async def _has_recorded(stage: Stage) -> bool:
    """The guard's record is the first thing that a take-over writes."""
    result = await stage.stored(CONTROLLER_REVISIONS)
    return any(
        keys.MANAGED_SELECTOR_ANNOTATION in (entry["metadata"].get("annotations") or {}) for entry in result
    )


@pytest.mark.parametrize("policy", ["ReCreate", "InPlaceIfPossible"])
async def test_take_over_of_a_finished_cloneset_changes_no_pod(stage: Stage, policy: str) -> None:
    """cloneset case 59: take-over"""
    # given
    legacy = Legacy(stage)
    await legacy.start("nginx:2", updateStrategy=rolling(podUpdatePolicy=policy))
    await legacy.revision("nginx:1")
    update = await legacy.revision("nginx:2")
    for instance_id in IDS:
        await legacy.pod(instance_id, "nginx:2", update)
    await legacy.all_ready()
    await legacy.status(current=update, update=update, updated=len(IDS))
    before = await pods_by_name(stage)
    # when
    seen = await taken_over(stage)
    # then
    assert facts(await pods_by_name(stage)) == facts(before)
    assert await revision_names(stage) == {*legacy.revisions}
    written = [
        (request.method, request.path)
        for request in seen.log
        if request.method in ("POST", "PUT", "PATCH", "DELETE") and "/events" not in request.path
    ]
    assert not [item for item in written if "/pods" in item[1]]
    assert [method for method, path in written if "/controllerrevisions/" in path] == ["PATCH"]
    # and a condition that the other manager never took back is taken back
    conditions = {
        condition["type"]: condition["status"] for condition in other_conditions(await stage.status())
    }
    assert conditions == {"FailedUpdate": "False"}


async def test_a_cloneset_taken_over_within_a_partition_waits_and_then_continues(stage: Stage) -> None:
    # given one pod updated in place, two held by the partition
    legacy = Legacy(stage)
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible", partition=2, maxUnavailable=1)
    await legacy.start("nginx:2", updateStrategy=strategy)
    old, new = await legacy.revision("nginx:1"), await legacy.revision("nginx:2")
    first, *others = IDS
    for instance_id in others:
        await legacy.pod(instance_id, "nginx:1", old)
    await legacy.pod(first, "nginx:2", new)
    await _annotate(stage, first, {keys.IN_PLACE_STATE_ANNOTATION: _state(new)})
    await legacy.all_ready()
    await legacy.status(current=old, update=new, updated=1)
    before = await pods_by_name(stage)
    # when
    await taken_over(stage)
    # then nothing moves, and the status says what it waits for
    assert facts(await pods_by_name(stage)) == facts(before)
    waiting = next(
        condition for condition in (await stage.status())["conditions"] if condition["type"] == "Waiting"
    )
    assert waiting["reason"] == "Partition"
    # when the partition goes
    await stage.merge("web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    # then the rest follows in place
    await stage.settled(replicas=len(IDS))
    after = await pods_by_name(stage)
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert {pod["spec"]["containers"][0]["image"] for pod in after.values()} == {"nginx:2"}
    assert await revision_names(stage) == {*legacy.revisions}


async def test_take_over_in_a_grace_period_ends_it(stage: Stage) -> None:
    # given a pod that was taken out of service, with the image change still in its grace annotation
    legacy = Legacy(stage)
    strategy = rolling(
        podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1, inPlaceUpdateStrategy={"gracePeriodSeconds": 2}
    )
    await legacy.start("nginx:2", updateStrategy=strategy)
    old, new = await legacy.revision("nginx:1"), await legacy.revision("nginx:2")
    for instance_id in IDS:
        await legacy.pod(instance_id, "nginx:1", old)
    await legacy.all_ready()
    first = IDS[0]
    await legacy.set_conditions(
        first,
        {
            "type": keys.IN_PLACE_READY,
            "status": "False",
            "reason": "StartInPlaceUpdate",
            "lastTransitionTime": PAST,
        },
    )
    grace = {"revision": new, "containerImages": {"main": "nginx:2"}, "graceSeconds": 2}
    await _annotate(
        stage,
        first,
        {
            keys.IN_PLACE_STATE_ANNOTATION: json.dumps(
                {
                    "revision": new,
                    "updateTimestamp": PAST,
                    "lastContainerStatuses": None,
                    "updateImages": True,
                }
            ),
            keys.IN_PLACE_GRACE_ANNOTATION: json.dumps(grace),
        },
        {
            keys.REVISION_LABEL: new,
            keys.TEMPLATE_HASH_LABEL: shorten_hash(new),
            keys.STATE_LABEL: "Updating",
        },
    )
    await legacy.status(current=old, update=new, updated=1)
    before = await pods_by_name(stage)
    # when
    await stage.start_manager()
    # then
    await stage.settled(replicas=len(IDS))
    after = await pods_by_name(stage)
    assert {pod["metadata"]["uid"] for pod in after.values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }
    assert {pod["spec"]["containers"][0]["image"] for pod in after.values()} == {"nginx:2"}
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in after.values()] == [1, 1, 1]
    assert not any(keys.IN_PLACE_GRACE_ANNOTATION in pod["metadata"]["annotations"] for pod in after.values())
    assert await revision_names(stage) == {*legacy.revisions}


async def test_take_over_with_claims_keeps_them(stage: Stage) -> None:
    # given pods with claims, made before the hash of the templates was recorded
    legacy = Legacy(stage)
    templates = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }
    ]
    await legacy.start(
        "nginx:1",
        volumeClaimTemplates=templates,
        updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1),
    )
    update = await legacy.revision("nginx:1")
    for instance_id in IDS:
        await legacy.claim(instance_id)
        await legacy.pod(instance_id, "nginx:1", update, claim=True)
    await legacy.all_ready()
    await legacy.status(current=update, update=update, updated=len(IDS))
    before = await pods_by_name(stage)
    claims = {entry["metadata"]["uid"] for entry in await stage.stored(PERSISTENT_VOLUME_CLAIMS)}
    # when
    await taken_over(stage)
    # then
    assert facts(await pods_by_name(stage)) == facts(before)
    assert {entry["metadata"]["uid"] for entry in await stage.stored(PERSISTENT_VOLUME_CLAIMS)} == claims
    assert await revision_names(stage) == {*legacy.revisions}


async def test_a_cloneset_taken_over_while_a_pod_waits_for_its_hook_continues_after_the_release(
    stage: Stage,
) -> None:
    # given
    hook = "example.com/in-service"
    legacy = Legacy(stage)
    await legacy.start(
        "nginx:2",
        lifecycle={"inPlaceUpdate": {"labelsHandler": {hook: "true"}}},
        updateStrategy=rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable=1, partition=2),
    )
    old, new = await legacy.revision("nginx:1"), await legacy.revision("nginx:2")
    for instance_id in IDS:
        await legacy.pod(instance_id, "nginx:1", old, **{hook: "true"})
    await legacy.all_ready()
    first = IDS[0]
    await _annotate(stage, first, {}, {keys.STATE_LABEL: "PreparingUpdate"})
    await legacy.status(current=old, update=new, updated=0)
    before = await pods_by_name(stage)
    # when
    await taken_over(stage)
    # then
    assert facts(await pods_by_name(stage)) == facts(before)
    waiting = next(
        condition for condition in (await stage.status())["conditions"] if condition["type"] == "Waiting"
    )
    assert waiting["reason"] == "InPlaceUpdateHook"
    # when it is released, and put back
    await _annotate(stage, first, {}, {hook: None})

    async def is_updated() -> bool:
        pod = (await pods_by_name(stage))[f"web-{first}"]
        return bool(pod["metadata"]["labels"][keys.STATE_LABEL] == "Updated")

    await stage.until(is_updated)
    await _annotate(stage, first, {}, {hook: "true"})
    await stage.settled(replicas=len(IDS), updated=1)
    assert await revision_names(stage) == {*legacy.revisions}


def _state(revision: str) -> str:
    """The state annotation of a finished update, as Go writes it."""
    return json.dumps(
        {
            "revision": revision,
            "updateTimestamp": PAST,
            "lastContainerStatuses": {"main": {"imageID": "docker.io/library/nginx@sha256:before"}},
            "updateImages": True,
            "containerBatchesRecord": [{"timestamp": PAST, "containers": ["main"]}],
        },
        separators=(",", ":"),
    )


async def _annotate(
    stage: Stage, instance_id: str, annotations: Object, labels: Object | None = None
) -> None:
    patch = {"metadata": {"annotations": annotations, "labels": labels or {}}}
    await stage.merge(f"web-{instance_id}", patch, resource=PODS)
