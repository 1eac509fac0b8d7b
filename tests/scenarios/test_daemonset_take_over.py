"""A DaemonSet of another manager is taken over: nothing is recreated, restarted or stored a second time.

Objects are written as OpenKruise's manager leaves them: revisions with its bytes and a hash of its own, owner
references in the older version, in the middle of a rollout too. No manager works on them before pykruise does.
"""

import asyncio
import json

import msgspec
import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.pods.view import keys
from pykruise.pods.workload.revisions import encode_revision_data
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from support.daemonsets import Pool, watching
from support.faults import FaultyTransport
from support.kstatus import other_conditions
from support.scenario import Object, Stage, rolling

PAST = "2026-01-31T11:00:00Z"
HASHES = {"nginx:1": "6d9c7f5b8f", "nginx:2": "5f6c9d7b4"}
"""Hashes by image, as Go computes them from a whole object; Python cannot compute them."""

OLD_DAEMON_SETS = msgspec.structs.replace(DAEMON_SETS, version="v1alpha1")


class Legacy:
    """Writes what the other manager would have written."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self.stage = stage
        self.pool = pool
        self.owner: Object = {}

    async def start(self, image: str, **spec: object) -> Object:
        """The DaemonSet, its revisions and their data; no pods yet."""
        result = await self.pool.create(updateStrategy=rolling(**spec))
        self.owner = {
            "apiVersion": OLD_DAEMON_SETS.api_version,
            "kind": "DaemonSet",
            "name": "web",
            "uid": result["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        if image != "nginx:1":
            await self.revision("nginx:1", 1)
            await self.pool.set_image(image)
        await self.revision(image, 2)
        return result

    def template(self, image: str) -> Object:
        template: Object = self.pool.daemonset(image=image)["spec"]["template"]
        template["metadata"]["creationTimestamp"] = None
        template["spec"]["containers"][0]["resources"] = {}
        return template

    async def revision(self, image: str, number: int, **labels: str) -> None:
        await self.stage.create(
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": f"web-{HASHES[image]}",
                    "labels": {"app": "web", keys.REVISION_LABEL: HASHES[image], **labels},
                    "ownerReferences": [self.owner],
                },
                "data": json.loads(encode_revision_data(self.template(image))),
                "revision": number,
            },
            resource=CONTROLLER_REVISIONS,
        )

    async def pod(
        self, node: str, image: str, *, name: str = "", has_gate: bool = False, **annotations: str
    ) -> None:
        """A pod of that revision, bound to the node as daemon pods are."""
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        tolerations = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
            for key, effect in (("not-ready", "NoExecute"), ("unschedulable", "NoSchedule"))
        ]
        name = name or f"web-{node}"
        await self.stage.create(
            {
                "metadata": {
                    "name": name,
                    "generateName": "web-",
                    "labels": {"app": "web", keys.REVISION_LABEL: HASHES[image]},
                    "annotations": annotations,
                    "ownerReferences": [self.owner],
                },
                "spec": {
                    **self.template(image)["spec"],
                    "affinity": {
                        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
                    },
                    "tolerations": tolerations,
                    "readinessGates": [{"conditionType": keys.IN_PLACE_READY}] if has_gate else [],
                },
            },
            resource=PODS,
        )
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": PAST}
            for kind in (keys.KRUISE_POD_READY, *([keys.IN_PLACE_READY] if has_gate else []))
        ]
        await self.stage.client.patch(
            PODS,
            self.stage.namespace,
            name,
            {"status": {"conditions": conditions}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def all_run(self) -> None:
        async def run() -> bool:
            pods = await self.stage.pods()
            return bool(pods) and all(pod.has_ready_condition for pod in pods)

        await self.stage.until(run, what="the pods that were left behind run")


async def facts(stage: Stage) -> dict[str, object]:
    """Facts that must not change: uid, owners, labels, spec and restarts."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            pod["metadata"]["ownerReferences"],
            pod["metadata"]["labels"],
            pod["spec"]["containers"],
            [status["restartCount"] for status in pod["status"].get("containerStatuses") or ()],
        )
        for pod in map(decode, listed.items)
    }


async def revisions(stage: Stage) -> set[str]:
    return {entry["metadata"]["name"] for entry in await stage.stored(CONTROLLER_REVISIONS)}


@pytest.mark.parametrize("how", ["Standard", "InPlaceIfPossible"])
async def test_take_over_of_a_finished_daemonset_changes_no_pod(stage: Stage, pool: Pool, how: str) -> None:
    """daemonset case 61"""
    # given
    legacy = Legacy(stage, pool)
    await legacy.start("nginx:2", rollingUpdateType=how)
    for node in pool.nodes:
        await legacy.pod(node, "nginx:2", has_gate=how != "Standard")
    await legacy.all_run()
    before = await facts(stage)
    # when
    seen = FaultyTransport(stage.manager_transport())
    await stage.start_manager(seen)
    result = await pool.settled()
    await asyncio.sleep(min(stage.long_s, 120))
    # then all that it writes is the record of the selector, and the status
    assert await facts(stage) == before
    assert await revisions(stage) == {f"web-{name}" for name in HASHES.values()}
    written = [
        (request.method, request.path.rpartition(stage.namespace)[2])
        for request in seen.log
        if request.method in ("POST", "PUT", "PATCH", "DELETE") and stage.namespace in request.path
        if "/events" not in request.path
    ]
    assert written.count(("PATCH", f"/controllerrevisions/web-{HASHES['nginx:2']}")) == 1
    assert {path for _, path in written} == {
        f"/controllerrevisions/web-{HASHES['nginx:2']}",
        "/daemonsets/web/status",
    }
    assert result["status"]["updateRevision"] == HASHES["nginx:2"]
    assert not other_conditions(result["status"])


async def test_a_daemonset_taken_over_within_a_partition_waits_and_then_continues(
    stage: Stage, pool: Pool
) -> None:
    # given the last node updated in place, the others held by the partition
    legacy = Legacy(stage, pool)
    await legacy.start("nginx:2", rollingUpdateType="InPlaceIfPossible", partition=3)
    *others, last = sorted(pool.nodes)
    for node in others:
        await legacy.pod(node, "nginx:1", has_gate=True)
    state = {
        "revision": HASHES["nginx:2"],
        "updateTimestamp": PAST,
        "lastContainerStatuses": {"main": {"imageID": "docker.io/library/nginx@sha256:before"}},
        "updateImages": True,
    }
    await legacy.pod(last, "nginx:2", has_gate=True, **{keys.IN_PLACE_STATE_ANNOTATION: json.dumps(state)})
    await legacy.all_run()
    before = await facts(stage)
    # when
    await stage.start_manager()
    # then nothing moves, and the status says what it waits for
    result = await pool.settled(updated=1)
    await asyncio.sleep(min(stage.long_s, 120))
    assert await facts(stage) == before
    (waiting,) = other_conditions(result["status"])
    assert (waiting["type"], waiting["reason"]) == ("Waiting", "Partition")
    # when the partition goes, the rest follows in place
    await pool.change(updateStrategy=rolling(partition=0))
    await pool.settled()
    assert {name: fact[0] for name, fact in (await facts(stage)).items()} == {  # type: ignore[index]
        name: value[0]  # type: ignore[index]
        for name, value in before.items()
    }
    assert set((await pool.images()).values()) == {"nginx:2"}
    assert await revisions(stage) == {f"web-{name}" for name in HASHES.values()}


async def test_take_over_in_the_middle_of_a_surge_ends_it(stage: Stage, pool: Pool) -> None:
    # given a node with an old and a new pod
    legacy = Legacy(stage, pool)
    await legacy.start("nginx:2", maxSurge=1, maxUnavailable=0)
    for node in pool.nodes:
        await legacy.pod(node, "nginx:1")
    await legacy.all_run()
    await legacy.pod(pool.nodes[0], "nginx:2", name="web-new")
    async with watching(pool) as seen:
        seen.from_now()
        # when
        await stage.start_manager()
        await pool.settled()
        # then
        assert (seen.most_down, seen.most_on_a_node) == (0, 2)
        assert len(seen.uids) == 2 * len(pool.nodes)


async def test_take_over_after_a_bypassed_change_of_the_selector_causes_no_writes(
    stage: Stage, pool: Pool
) -> None:
    """daemonset case 71: no record, and owned revisions that miss the selector"""
    # given
    legacy = Legacy(stage, pool)
    await legacy.start("nginx:1")
    for node in pool.nodes:
        await legacy.pod(node, "nginx:1")
    await legacy.all_run()
    other = {"app": "other"}
    with stage.past_admission():
        await pool.change(selector={"matchLabels": other}, template={"metadata": {"labels": other}})
    before = await facts(stage)
    # when
    await stage.start_manager()

    async def says_so() -> bool:
        conditions = other_conditions(await pool.status())
        return [condition["type"] for condition in conditions] == [SELECTOR_MISMATCH]

    await stage.until(says_so)
    await asyncio.sleep(min(stage.long_s, 120))
    # then
    assert await facts(stage) == before
    assert await stage.pods("other") == []
    assert await revisions(stage) == {f"web-{HASHES['nginx:1']}"}


@pytest.mark.needs_admission
async def test_a_surging_daemonset_stored_before_there_were_defaults_keeps_its_meaning(
    stage: Stage, pool: Pool
) -> None:
    """daemonset 2.3: Surging without limits is Standard with maxSurge 1, also where no webhook defaults it"""
    # given
    doc = pool.daemonset(updateStrategy=rolling(rollingUpdateType="Surging"))
    with stage.past_admission():
        await stage.create({**doc, "apiVersion": OLD_DAEMON_SETS.api_version}, resource=OLD_DAEMON_SETS)
    block = (await pool.get())["spec"]["updateStrategy"]["rollingUpdate"]
    assert block == {"rollingUpdateType": "Standard", "maxSurge": 1, "maxUnavailable": 0}
    # when
    await stage.start_manager()
    await pool.settled()
    async with watching(pool) as seen:
        seen.from_now()
        await pool.set_image("nginx:2")
        await pool.settled()
        # then
        assert (seen.most_down, seen.most_on_a_node) == (0, 2)
